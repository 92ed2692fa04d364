//! One HTTP exchange: reqwest, with the crate `ring` under rustls, as the agent's object stores have it.

use std::fs;
use std::path::Path;

use http_body_util::{BodyExt, Limited};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Identity, StatusCode, redirect};

use crate::settings::{Endpoint, Protocol, SettingError};

/// Bytes of a response that are read, at most.
const RESPONSE_MOST: usize = 1 << 20;

/// A client of one endpoint.
pub(super) struct Client {
    http: reqwest::Client,
}

/// A response with its trailers.
pub(super) struct Response {
    /// Its status.
    pub(super) status: StatusCode,
    /// Its headers.
    pub(super) headers: HeaderMap,
    /// Its body.
    pub(super) body: Vec<u8>,
    /// Trailers, which follow it.
    pub(super) trailers: HeaderMap,
}

impl Client {
    /// Sets a client up; nothing is sent yet.
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, SettingError> {
        // one of rustls' two; the other is a C library of a minute's build
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("whylat/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers(endpoint)?)
            // headers may be secrets, and are for this server alone
            .redirect(redirect::Policy::none());
        if endpoint.protocol == Protocol::Grpc {
            builder = builder.http2_prior_knowledge();
        }
        if let Some(path) = &endpoint.certificate {
            let certificates = Certificate::from_pem_bundle(&read(path)?);
            builder = builder.tls_certs_only(certificates.map_err(|why| unusable(path, &why))?);
        }
        if let Some((certificate, key)) = &endpoint.client {
            let both = [read(certificate)?, read(key)?].concat();
            let identity = Identity::from_pem(&both);
            builder = builder.identity(identity.map_err(|why| unusable(certificate, &why))?);
        }
        let http = builder.build().map_err(|why| SettingError {
            what: "TLS".to_owned(),
            why: plain(&why),
            hint: "set OTEL_EXPORTER_OTLP_CERTIFICATE to a file with the collector's authority"
                .to_owned(),
        })?;
        Ok(Self { http })
    }

    /// Posts a body, and returns the response within the endpoint's time limit.
    ///
    /// # Errors
    /// Why nothing came back, as text.
    pub(super) async fn post(
        &self,
        endpoint: &Endpoint,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response, String> {
        let url = endpoint.url.clone();
        let exchange = async {
            let request = self.http.post(url).headers(headers).body(body);
            let response = request.send().await;
            // the URL may hold a secret, and the summary names it
            let response = response.map_err(|why| plain(&why.without_url()))?;
            let (parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
            let body = Limited::new(body, RESPONSE_MOST).collect().await;
            let body = body.map_err(|why| why.to_string())?;
            let trailers = body.trailers().cloned().unwrap_or_default();
            Ok(Response {
                status: parts.status,
                headers: parts.headers,
                body: body.to_bytes().to_vec(),
                trailers,
            })
        };
        let timeout = endpoint.timeout;
        let ended = tokio::time::timeout(timeout, exchange).await;
        ended.unwrap_or_else(|_| Err(format!("no response within {} ms", timeout.as_millis())))
    }
}

/// Returns the headers of every request; an error if one is not valid.
fn headers(endpoint: &Endpoint) -> Result<HeaderMap, SettingError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &endpoint.headers {
        let parsed = (name.parse::<HeaderName>(), HeaderValue::from_str(value));
        let (Ok(name), Ok(mut value)) = parsed else {
            return Err(SettingError {
                what: format!("header {name}"),
                why: "it has characters that HTTP does not allow".to_owned(),
                hint: "a header is NAME=VALUE; values of OTEL_EXPORTER_OTLP_HEADERS are percent-encoded".to_owned(),
            });
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Reads a file of a certificate or key.
fn read(path: &Path) -> Result<Vec<u8>, SettingError> {
    fs::read(path).map_err(|why| unusable(path, &why))
}

/// Makes the error of a file that cannot be used.
fn unusable(path: &Path, why: &dyn std::error::Error) -> SettingError {
    SettingError {
        what: path.display().to_string(),
        why: plain(why),
        hint: "name a readable file in PEM with OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY".to_owned(),
    }
}

/// Returns the text of an error with its causes, each once.
fn plain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
