//! OTLP over gRPC: one message in a frame, and the status in the trailers
//! ([protocol](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md)).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD_NO_PAD};
use percent_encoding::percent_decode_str;
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use super::client::{Client, Response};
use super::http::{gzip, unreachable_hint};
use super::outcome::{Outcome, Partial};
use crate::proto::{RetryInfo, Status};
use crate::settings::Endpoint;
use crate::signal::Message;

/// Length of what precedes a message: whether it is compressed, and its length.
const FRAME_HEAD: usize = 5;

/// Type of the detail that asks for a pause.
const RETRY_INFO: &str = "/google.rpc.RetryInfo";

/// Base64 of headers that end with `-bin`.
const BASE64: GeneralPurpose = STANDARD_NO_PAD;

/// Sends a message once.
pub(super) async fn exchange(client: &Client, endpoint: &Endpoint, message: &Message) -> Outcome {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("te", HeaderValue::from_static("trailers"));
    let body = match endpoint.is_compressed {
        true => {
            headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
            frame(1, &gzip(&message.bytes))
        }
        false => frame(0, &message.bytes),
    };
    match client.post(endpoint, headers, body).await {
        Err(why) => Outcome::Failed {
            why: format!("{why}\n{}", unreachable_hint()),
            after: None,
        },
        Ok(response) => outcome(&response),
    }
}

/// Returns a gRPC message: flag, length, bytes.
fn frame(flag: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&[flag], &length.to_be_bytes()[..], bytes].concat()
}

/// Returns what a response means: accepted, to be sent later again, or refused.
fn outcome(response: &Response) -> Outcome {
    let field = |name: &str| {
        // a response without a body has all in its headers
        let found = response
            .trailers
            .get(name)
            .or_else(|| response.headers.get(name));
        found.and_then(|it| it.to_str().ok())
    };
    let Some(code) = field("grpc-status").and_then(|it| it.parse::<u32>().ok()) else {
        return Outcome::Refused {
            why: format!(
                "HTTP status {} without a status of gRPC\nhint: the receiver does not use gRPC on this port: \
                    try --protocol http/protobuf",
                response.status
            ),
            is_final: true,
        };
    };
    if code == 0 {
        let message = response.body.get(FRAME_HEAD..).unwrap_or_default();
        return Outcome::Accepted(Partial::from_response(message));
    }
    let text = field("grpc-message").unwrap_or_default();
    let text = percent_decode_str(text).decode_utf8_lossy();
    let line: String = text
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect();
    let why = format!("gRPC status {}: {line}\nhint: {}", name(code), hint(code));
    let after = field("grpc-status-details-bin").and_then(retry_delay);
    // opentelemetry.io/docs/specs/otlp, "Failures" of OTLP/gRPC: RESOURCE_EXHAUSTED only with a pause
    match code {
        1 | 4 | 10 | 11 | 14 | 15 => Outcome::Failed { why, after },
        8 if after.is_some() => Outcome::Failed { why, after },
        code => Outcome::Refused {
            why,
            // INVALID_ARGUMENT and RESOURCE_EXHAUSTED are about this message
            is_final: !matches!(code, 3 | 8),
        },
    }
}

/// Returns the pause that a collector asks for: `RetryInfo` in a `google.rpc.Status`, in Base64 with or without padding.
fn retry_delay(details: &str) -> Option<Duration> {
    let bytes = BASE64.decode(details.trim_end_matches('=')).ok()?;
    let details = Status::decode(&*bytes).ok()?.details;
    let info = details
        .iter()
        .find(|it| it.type_url.ends_with(RETRY_INFO))?;
    let pause = RetryInfo::decode(&*info.value).ok()?.retry_delay?;
    let seconds = u64::try_from(pause.seconds).ok()?;
    Some(Duration::new(seconds, u32::try_from(pause.nanos).ok()?))
}

/// Returns the name of a gRPC status code.
fn name(code: u32) -> String {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let known = NAMES.get(code as usize).copied();
    known.map_or_else(|| code.to_string(), str::to_owned)
}

/// Returns what helps with a gRPC status code.
const fn hint(code: u32) -> &'static str {
    match code {
        7 | 16 => "name credentials: --header NAME=VALUE, or OTEL_EXPORTER_OTLP_HEADERS",
        8 => "raise the collector's limit of a message (max_recv_msg_size_mib)",
        12 => "the receiver has no such service: enable this signal in the collector's pipelines",
        1 | 4 | 10 | 11 | 14 | 15 => {
            "the collector is overloaded or starts: export again later, or with more --tries"
        }
        _ => "the collector's log says why",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{Detail, Pause};

    /// Makes the details of an error that names a pause in seconds.
    fn details(type_url: &str, seconds: i64) -> Vec<u8> {
        let info = RetryInfo {
            retry_delay: Some(Pause {
                seconds,
                nanos: 500_000_000,
            }),
        };
        let status = Status {
            code: 8,
            message: "full".to_owned(),
            details: vec![Detail {
                type_url: type_url.to_owned(),
                value: info.encode_to_vec(),
            }],
        };
        status.encode_to_vec()
    }

    /// Returns the outcome of a response with this status code.
    fn answer(code: &str, details: &[u8]) -> Outcome {
        let field = |text: String| HeaderValue::from_str(&text).expect("a header");
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", field(code.to_owned()));
        trailers.insert("grpc-status-details-bin", field(BASE64.encode(details)));
        outcome(&Response {
            status: reqwest::StatusCode::OK,
            headers: HeaderMap::new(),
            body: Vec::new(),
            trailers,
        })
    }

    #[test]
    fn an_exhausted_collector_is_tried_again_only_if_it_says_when() {
        let url = "type.googleapis.com/google.rpc.RetryInfo";
        let after = |outcome: Outcome| match outcome {
            Outcome::Failed { after, .. } => Some(after),
            _ => None,
        };
        let asked = Some(Some(Duration::from_millis(2_500)));
        assert_eq!(after(answer("8", &details(url, 2))), asked);
        assert_eq!(after(answer("14", &details(url, 2))), asked);
        assert_eq!(after(answer("8", &[])), None);
        assert_eq!(after(answer("14", &[])), Some(None));
        assert_eq!(after(answer("14", &details("other", 2))), Some(None));
        assert_eq!(after(answer("14", &details(url, -2))), Some(None));
        assert_eq!(after(answer("14", &[255, 255])), Some(None));
        let padded = format!("{}==", BASE64.encode(details(url, 2)));
        assert_eq!(retry_delay(&padded), Some(Duration::from_millis(2_500)));
    }
}
