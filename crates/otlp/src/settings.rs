//! Where messages go, and how: options, then variables `OTEL_EXPORTER_OTLP_*`, then the defaults of OpenTelemetry's
//! [specification](https://opentelemetry.io/docs/specs/otel/protocol/exporter/).

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use url::Url;

use crate::resource::pairs;
use crate::signal::Signal;

/// Begin of the names of the variables.
const PREFIX: &str = "OTEL_EXPORTER_OTLP_";

/// Time for one try.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Protocol to a receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Protobuf over HTTP.
    #[default]
    HttpProtobuf,
    /// gRPC.
    Grpc,
}

impl Protocol {
    /// Returns the name in variables and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "http/protobuf",
            Self::Grpc => "grpc",
        }
    }

    /// Returns the endpoint of a collector on this host.
    const fn default_endpoint(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "http://localhost:4318",
            Self::Grpc => "http://localhost:4317",
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::HttpProtobuf, Self::Grpc];
        let found = all.into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| format!("{text} is no protocol: http/protobuf or grpc"))
    }
}

/// A header: its name and its value.
pub type Header = (String, String);

/// Parses `NAME=VALUE`.
///
/// # Errors
/// When it has no name or no `=`. The text is not repeated: it may hold a secret.
pub fn header(text: &str) -> Result<Header, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("not NAME=VALUE, such as api-key=…".to_owned()),
    }
}

/// Options of the command line.
#[derive(Debug, Clone, Default)]
pub struct DeliveryOptions {
    /// Base URL of the collector.
    pub endpoint: Option<String>,
    /// Protocol.
    pub protocol: Option<Protocol>,
    /// Headers beside those of variables.
    pub headers: Vec<Header>,
}

/// Where one signal goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Whole URL.
    pub url: Url,
    /// Protocol.
    pub protocol: Protocol,
    /// Headers.
    pub headers: Vec<Header>,
    /// Whether messages are compressed by gzip.
    pub is_compressed: bool,
    /// Time for one try.
    pub timeout: Duration,
    /// File with certificates that are trusted in place of the system's.
    pub certificate: Option<PathBuf>,
    /// Files with the client's own certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// A setting that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be used: {why}\nhint: {hint}")]
pub struct SettingError {
    /// The option or the variable.
    pub what: String,
    /// Why.
    pub why: String,
    /// The next step.
    pub hint: String,
}

/// Reads a variable: that of a signal, or the common one. Returns its name and its value.
fn variable(
    lookup: &dyn Fn(&str) -> Option<String>,
    signal: Signal,
    name: &str,
) -> Option<(String, String)> {
    let own = format!("{PREFIX}{}_{name}", signal.name().to_ascii_uppercase());
    let names = [own, format!("{PREFIX}{name}")];
    names.into_iter().find_map(|name| {
        let value = lookup(&name).filter(|value| !value.trim().is_empty())?;
        Some((name, value.trim().to_owned()))
    })
}

/// Returns whether an option or a variable names a receiver of a signal, and none turns it off (`OTEL_METRICS_EXPORTER=none` and
/// the like).
pub fn is_wanted(
    signal: Signal,
    options: &DeliveryOptions,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> bool {
    let exporter = format!("OTEL_{}_EXPORTER", signal.name().to_ascii_uppercase());
    let is_off = lookup(&exporter).is_some_and(|it| it.trim().eq_ignore_ascii_case("none"));
    !is_off && (options.endpoint.is_some() || variable(lookup, signal, "ENDPOINT").is_some())
}

impl Endpoint {
    /// Returns where a signal goes. `lookup` returns variables of the environment.
    ///
    /// # Errors
    /// When an option or a variable cannot be meant.
    pub fn new(
        signal: Signal,
        options: &DeliveryOptions,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingError> {
        let variable = |name: &str| variable(lookup, signal, name);
        let protocol = match (options.protocol, variable("PROTOCOL")) {
            (Some(protocol), _) => protocol,
            (None, Some((name, value))) => {
                let hint = "http/protobuf and grpc are known; --protocol comes first";
                value.parse().map_err(|why| error(&name, why, hint))?
            }
            (None, None) => Protocol::default(),
        };
        let is_compressed = match variable("COMPRESSION") {
            None => false,
            Some((_, value)) if matches!(&*value, "gzip" | "none") => value == "gzip",
            Some((name, value)) => {
                let why = format!("{value} is no compression");
                return Err(error(&name, why, "gzip and none are known"));
            }
        };
        let timeout = match variable("TIMEOUT") {
            None => TIMEOUT,
            Some((name, value)) => Duration::from_millis(value.parse().map_err(|_| {
                error(
                    &name,
                    format!("{value} is no number"),
                    "it is in milliseconds",
                )
            })?),
        };
        let listed = variable("HEADERS").map(|it| it.1).unwrap_or_default();
        let is_replaced = |name: &str| {
            options
                .headers
                .iter()
                .any(|it| it.0.eq_ignore_ascii_case(name))
        };
        let of_variables = pairs(&listed).filter(|it| !is_replaced(&it.0));
        let client = (variable("CLIENT_CERTIFICATE"), variable("CLIENT_KEY"));
        Ok(Self {
            url: url(signal, protocol, options.endpoint.as_deref(), lookup)?,
            protocol,
            headers: of_variables
                .chain(options.headers.iter().cloned())
                .collect(),
            is_compressed,
            timeout,
            certificate: variable("CERTIFICATE").map(|it| it.1.into()),
            client: match client {
                (Some((_, certificate)), Some((_, key))) => Some((certificate.into(), key.into())),
                (None, None) => None,
                (Some((name, _)), None) | (None, Some((name, _))) => {
                    let why = "a certificate needs its key, and a key its certificate";
                    let hint = format!("set {PREFIX}CLIENT_CERTIFICATE and {PREFIX}CLIENT_KEY");
                    return Err(error(&name, why.to_owned(), &hint));
                }
            },
        })
    }
}

/// Returns the whole URL of a signal.
fn url(
    signal: Signal,
    protocol: Protocol,
    option: Option<&str>,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Url, SettingError> {
    let own = format!("{PREFIX}{}_ENDPOINT", signal.name().to_ascii_uppercase());
    let common = format!("{PREFIX}ENDPOINT");
    let read = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
    let (what, text, is_whole) = match (option, read(&own), read(&common)) {
        (Some(text), _, _) => ("--endpoint".to_owned(), text.to_owned(), false),
        (None, Some(text), _) => (own, text, true),
        (None, None, Some(text)) => (common, text, false),
        (None, None, None) => (
            "the default".to_owned(),
            protocol.default_endpoint().to_owned(),
            false,
        ),
    };
    let hint = format!("name a URL such as {}", protocol.default_endpoint());
    let text = text.trim();
    let parsed =
        Url::parse(text).map_err(|why| error(&what, format!("{text} is no URL: {why}"), &hint))?;
    if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
        return Err(error(
            &what,
            format!("{text} is no http:// or https:// URL"),
            &hint,
        ));
    }
    let path = match protocol {
        Protocol::Grpc => signal.grpc_path().to_owned(),
        Protocol::HttpProtobuf if is_whole => return Ok(parsed),
        Protocol::HttpProtobuf => {
            format!("{}/v1/{signal}", parsed.path().trim_end_matches('/'))
        }
    };
    let mut url = parsed;
    url.set_path(&path);
    Ok(url)
}

/// Makes the error of a setting: what, why, and what helps.
fn error(what: &str, why: String, hint: &str) -> SettingError {
    SettingError {
        what: what.to_owned(),
        why,
        hint: hint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the endpoint of traces with these variables and options.
    fn traces(
        variables: &[(&str, &str)],
        options: &DeliveryOptions,
    ) -> Result<Endpoint, SettingError> {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Endpoint::new(Signal::Traces, options, &lookup)
    }

    /// Returns the address that variables and option give.
    #[track_caller]
    fn url_of(variables: &[(&str, &str)], option: Option<&str>) -> String {
        let options = DeliveryOptions {
            endpoint: option.map(str::to_owned),
            ..DeliveryOptions::default()
        };
        traces(variables, &options)
            .expect("an endpoint")
            .url
            .to_string()
    }

    #[test]
    fn endpoints_are_those_of_the_specification() {
        let common = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1/base/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:2/own");
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        let method = "opentelemetry.proto.collector.trace.v1.TraceService/Export";
        assert_eq!(url_of(&[], None), "http://localhost:4318/v1/traces");
        assert_eq!(url_of(&[common], None), "http://a:1/base/v1/traces");
        assert_eq!(url_of(&[common, own], None), "http://b:2/own");
        assert_eq!(
            url_of(&[common, own], Some("https://c")),
            "https://c/v1/traces"
        );
        assert_eq!(
            url_of(&[grpc], None),
            format!("http://localhost:4317/{method}")
        );
        assert_eq!(url_of(&[grpc, own], None), format!("http://b:2/{method}"));
        assert_eq!(
            url_of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], None),
            "http://localhost:4318/v1/traces"
        );
    }

    #[test]
    fn a_signal_is_wanted_if_a_receiver_is_named() {
        let is_wanted = |variables: &[(&str, &str)]| {
            let lookup = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            [Signal::Metrics, Signal::Logs]
                .map(|signal| is_wanted(signal, &DeliveryOptions::default(), &lookup))
        };
        let common = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a");
        let of_logs = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://a");
        let off = ("OTEL_LOGS_EXPORTER", "none");
        assert_eq!(is_wanted(&[]), [false, false]);
        assert_eq!(is_wanted(&[common]), [true, true]);
        assert_eq!(is_wanted(&[of_logs]), [false, true]);
        assert_eq!(is_wanted(&[common, off]), [true, false]);
    }

    #[test]
    fn headers_and_times_come_from_variables_and_options() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b,tenant=x"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "500"),
        ];
        let options = DeliveryOptions {
            headers: vec![("Tenant".to_owned(), "y".to_owned())],
            ..DeliveryOptions::default()
        };
        let endpoint = traces(&variables, &options).expect("an endpoint");
        let text = |it: &(String, String)| format!("{}: {}", it.0, it.1);
        let headers: Vec<_> = endpoint.headers.iter().map(text).collect();
        assert_eq!(headers, ["api-key: a b", "Tenant: y"]);
        assert_eq!(endpoint.timeout, Duration::from_millis(500));
    }

    #[test]
    fn settings_that_cannot_be_meant_are_refused_with_a_hint() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "/run/collector.sock"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/etc/key.pem"),
        ] {
            let refused = traces(&[(name, value)], &DeliveryOptions::default());
            let text = refused.expect_err(name).to_string();
            assert!(
                text.starts_with(name) && text.contains("\nhint: "),
                "{text}"
            );
        }
        assert_eq!(
            header("secret"),
            Err("not NAME=VALUE, such as api-key=…".to_owned())
        );
    }
}
