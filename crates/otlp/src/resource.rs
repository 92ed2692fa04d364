//! Resources of messages: the host, and on it a program, by OpenTelemetry's names of resources.

use std::collections::BTreeMap;
use std::env;

use diagnose::report::RecordingHost;
use percent_encoding::percent_decode_str;

use crate::attribute::attribute;
use crate::proto::{KeyValue, Resource, Scope};

/// Attributes that the user wants on everything: `NAME=VALUE,…`, percent-encoded.
const VARIABLE: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// Name of the sending program, for its own data.
const SERVICE_VARIABLE: &str = "OTEL_SERVICE_NAME";

/// Name of a service. The programs that are watched have their own.
const SERVICE: &str = "service.name";

/// Makes resources.
#[derive(Debug)]
pub struct ResourceSource {
    common: Vec<KeyValue>,
    /// Attributes of single services, beside the common ones.
    own: BTreeMap<String, Vec<KeyValue>>,
}

impl ResourceSource {
    /// Reads the host from a recording, and what the user wants on everything from the environment.
    pub(crate) fn from_recording(host: &RecordingHost) -> Self {
        Self::new(&host.name, &host.kernel)
    }

    /// Reads the names of the host and its kernel, and the user's attributes from the environment.
    pub fn new(host: &str, kernel: &str) -> Self {
        let mut common = vec![
            attribute("host.name", host),
            attribute("os.type", "linux"),
            attribute("os.description", kernel),
        ];
        for (key, value) in wanted().filter(|(key, _)| key != SERVICE) {
            common.retain(|it| it.key != key);
            common.push(attribute(key, value));
        }
        Self {
            common,
            own: BTreeMap::new(),
        }
    }

    /// Returns the attributes of one service; the user's attributes come first.
    pub fn describe(&mut self, service: &str, mut attributes: Vec<KeyValue>) {
        attributes.retain(|own| self.common.iter().all(|it| it.key != own.key));
        self.own.insert(service.to_owned(), attributes);
    }

    /// Returns the resource of a program; `None`: the host.
    pub(crate) fn resource(&self, service: Option<&str>) -> Resource {
        let own = service.and_then(|name| self.own.get(name));
        let service = service.map(|name| attribute(SERVICE, name));
        let own = own.into_iter().flatten().cloned();
        let attributes = service.into_iter().chain(self.common.clone()).chain(own);
        Resource {
            attributes: attributes.collect(),
        }
    }
}

/// Returns the name that the user gives to the sending program itself: of `OTEL_SERVICE_NAME`, or of the resource's attributes.
pub fn own_service_name() -> Option<String> {
    let name = env::var(SERVICE_VARIABLE).ok();
    let of_attributes = || {
        wanted()
            .find(|(key, _)| key == SERVICE)
            .map(|(_, value)| value)
    };
    name.filter(|name| !name.trim().is_empty())
        .or_else(of_attributes)
}

/// Returns attributes that the user wants on everything.
fn wanted() -> impl Iterator<Item = (String, String)> {
    let wanted = env::var(VARIABLE).unwrap_or_default();
    pairs(&wanted).collect::<Vec<_>>().into_iter()
}

/// Returns pairs of a list `NAME=VALUE,…`, percent-decoded; what is no pair is left out.
pub(crate) fn pairs(list: &str) -> impl Iterator<Item = (String, String)> {
    let decode = |text: &str| {
        percent_decode_str(text.trim())
            .decode_utf8_lossy()
            .into_owned()
    };
    list.split(',').filter_map(move |pair| {
        let (key, value) = pair.split_once('=')?;
        Some((decode(key), decode(value))).filter(|(key, _)| !key.is_empty())
    })
}

/// Returns who made the data.
pub(crate) fn scope() -> Scope {
    Scope {
        name: env!("CARGO_PKG_REPOSITORY").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Returns the page of a rule.
pub fn page(rule: &str) -> String {
    format!(
        "{}/blob/main/docs/findings/{rule}.md",
        env!("CARGO_PKG_REPOSITORY")
    )
}

/// Returns the attributes of an address at the server: its host and port, or its path.
pub(crate) fn server_address(address: &str) -> Vec<KeyValue> {
    let split = address
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse::<u32>().ok()?)));
    match split {
        Some((host, port)) => vec![
            attribute("server.address", host.trim_matches(['[', ']'])),
            attribute("server.port", port),
        ],
        None => vec![attribute("server.address", address)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded() {
        let all: Vec<_> = pairs("a=b, deployment.environment=x%2Cy ,=c,d").collect();
        let expected = [("a", "b"), ("deployment.environment", "x,y")];
        assert_eq!(
            all,
            expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn addresses_have_a_port_or_are_a_path() {
        let with_port = |host: &str, port: u32| {
            vec![
                attribute("server.address", host),
                attribute("server.port", port),
            ]
        };
        assert_eq!(server_address("10.0.0.1:80"), with_port("10.0.0.1", 80));
        assert_eq!(server_address("[::1]:5432"), with_port("::1", 5432));
        assert_eq!(
            server_address("/run/a.sock"),
            [attribute("server.address", "/run/a.sock")]
        );
    }
}
