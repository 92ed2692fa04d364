//! OTLP over HTTP, by its specification: which statuses are success, which may be tried once more, and what the rest means.

use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};

use super::client::{Client, Response};
use super::outcome::{Outcome, Partial};
use crate::proto::Status;
use crate::settings::Endpoint;
use crate::signal::Message;

/// Type of bodies.
const PROTOBUF: &str = "application/x-protobuf";

/// Sends a message once.
pub(super) async fn exchange(client: &Client, endpoint: &Endpoint, message: &Message) -> Outcome {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
    let mut body = message.bytes.clone();
    if endpoint.is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        body = gzip(&body);
    }
    match client.post(endpoint, headers, body).await {
        Err(why) => Outcome::Failed {
            why: format!("{why}\n{}", unreachable_hint()),
            after: None,
        },
        Ok(response) if response.status.is_success() => {
            Outcome::Accepted(Partial::from_response(&response.body))
        }
        Ok(response) => failure(&response),
    }
}

/// Returns a body, compressed.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // a vector takes everything
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// Returns what helps if no collector answers.
pub(super) fn unreachable_hint() -> &'static str {
    "hint: start a collector, or name one with --endpoint; port 4318 is OTLP over HTTP, \
     port 4317 is gRPC (--protocol grpc)"
}

/// Returns the outcome of an error status: to be sent later again, or refused.
fn failure(response: &Response) -> Outcome {
    let status = response.status;
    let mut why = format!("HTTP status {status}");
    let text = text(response);
    if !text.is_empty() {
        why = format!("{why}: {text}");
    }
    why = format!("{why}\nhint: {}", hint(status));
    // 429, 502, 503 and 504: opentelemetry.io/docs/specs/otlp, "Retryable Response Codes"
    match status.as_u16() {
        429 | 502..=504 => Outcome::Failed {
            why,
            after: retry_after(&response.headers),
        },
        code => Outcome::Refused {
            why,
            // about this message alone: its content, or its size
            is_final: !matches!(code, 400 | 413 | 422),
        },
    }
}

/// Returns what helps with an HTTP status.
fn hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 | 403 => "name credentials: --header NAME=VALUE, or OTEL_EXPORTER_OTLP_HEADERS",
        300..=399 => "name the URL of the redirection with --endpoint",
        404 | 405 => {
            "name the base URL of a receiver of OTLP over HTTP: whylat adds /v1/metrics, /v1/logs and /v1/traces"
        }
        413 => "raise the collector's limit of a request (max_request_body_size)",
        415 => "the receiver takes no protobuf over HTTP: try --protocol grpc",
        429 | 502..=504 => {
            "the collector is overloaded or starts: export again later, or with more --tries"
        }
        _ => "the collector's log says why",
    }
}

/// Returns the collector's error text in one line.
fn text(response: &Response) -> String {
    let kind = response.headers.get(CONTENT_TYPE);
    let is_protobuf = kind.is_some_and(|it| it.as_bytes().starts_with(PROTOBUF.as_bytes()));
    let text = match is_protobuf {
        true => Status::decode(&*response.body).unwrap_or_default().message,
        false => String::from_utf8_lossy(&response.body).into_owned(),
    };
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(200).collect()
}

/// Returns the pause that a collector asks for: seconds, or a date (RFC 9110, 10.2.3). A date that is over asks for none.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_seconds_or_dates() {
        let pause = |text: &str| {
            let value = HeaderValue::from_str(text).expect("a header");
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]))
        };
        assert_eq!(pause("7"), Some(Duration::from_secs(7)));
        assert_eq!(pause("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(500));
        let until = pause(&date).expect("a pause");
        assert!((400..=500).contains(&until.as_secs()), "{until:?}");
        assert_eq!(pause("soon"), None);
        assert_eq!(pause("-1"), None);
    }
}
