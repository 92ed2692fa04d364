//! Collectors that refuse, reject, stall, or are not there: what was not delivered is counted, and the exit code says it.

use otlp::proto::{ExportResponse, PartialSuccess, Status};
use prost::Message;
use testbed::receiver::{Answer, Receiver};
use testbed::{CommandOutput, finish};

use super::{FINDING, REQUESTS, export, recording, spans};

/// Type of a body.
const PROTOBUF: &str = "Content-Type: application/x-protobuf";

/// Exports requests to a receiver.
fn send(receiver: &Receiver, options: &[&str]) -> CommandOutput {
    let (_folder, path) = recording(REQUESTS);
    finish(export(&path, options).args(["--endpoint", &receiver.url()]))
}

#[test]
fn an_overloaded_collector_gets_everything_later() {
    let receiver = Receiver::start(|number, _| match number {
        0 => Answer::new("503 Service Unavailable", &["Retry-After: 0"], b""),
        1 => Answer::new("429 Too Many Requests", &["Retry-After: 0"], b""),
        _ => Answer::ok(),
    });
    let output = send(&receiver, &[]);
    output.assert_status(0);
    let posts = receiver.posts();
    let first: Vec<_> = posts[..3]
        .iter()
        .map(|post| (&*post.path, &post.body))
        .collect();
    assert_eq!(first[0], first[1]);
    assert_eq!(first[0], first[2]);
    assert!(!spans(&posts).is_empty());
    assert_eq!(output.err, "");
}

#[test]
fn tries_have_an_end() {
    let receiver =
        Receiver::start(|_, _| Answer::new("503 Service Unavailable", &["Retry-After: 0"], b""));
    let output = send(&receiver, &["--tries", "3"]);
    output.assert_status(1);
    // three of each signal's first message
    assert_eq!(receiver.posts().len(), 9);
    assert!(
        output
            .err
            .contains("HTTP status 503 Service Unavailable, after 3 tries\nhint: "),
        "{}",
        output.err
    );
    assert!(output.out.contains("traces: 0 spans"), "{}", output.out);
}

#[test]
fn a_refusal_is_shown_with_its_reason_and_a_hint() {
    let receiver = Receiver::start(|_, _| {
        let status = Status {
            code: 3,
            message: "no such tenant".to_owned(),
            ..Status::default()
        };
        Answer::new("400 Bad Request", &[PROTOBUF], &status.encode_to_vec())
    });
    let output = send(&receiver, &[]);
    output.assert_status(1);
    assert_eq!(receiver.posts().len(), 3);
    assert!(
        output
            .err
            .contains("HTTP status 400 Bad Request: no such tenant\nhint: "),
        "{}",
        output.err
    );
}

#[test]
fn a_lack_of_rights_ends_the_signal() {
    let receiver = Receiver::start(|_, post| match &*post.path {
        "/v1/traces" => Answer::new("401 Unauthorized", &[], b"who are you"),
        _ => Answer::ok(),
    });
    let output = send(&receiver, &[]);
    output.assert_status(1);
    assert_eq!(receiver.posts().len(), 3);
    let expected =
        "spans not delivered: HTTP status 401 Unauthorized: who are you\nhint: name credentials";
    assert!(output.err.contains(expected), "{}", output.err);
    assert!(!output.err.contains("data point"), "{}", output.err);
}

#[test]
fn a_partial_success_is_partial() {
    let receiver = Receiver::start(|_, post| match &*post.path {
        "/v1/traces" => {
            let response = ExportResponse {
                partial_success: Some(PartialSuccess {
                    rejected: 2,
                    error_message: "too old".to_owned(),
                }),
            };
            Answer::new("200 OK", &[PROTOBUF], &response.encode_to_vec())
        }
        _ => Answer::ok(),
    });
    let output = send(&receiver, &[]);
    output.assert_status(3);
    let sent = spans(&receiver.posts()).len();
    assert!(
        output
            .out
            .contains(&format!("traces: {} spans to ", sent - 2)),
        "{}",
        output.out
    );
    assert!(
        output
            .err
            .contains("warning: the collector rejected 2 spans: too old\nhint: "),
        "{}",
        output.err
    );
}

#[test]
fn a_redirect_is_not_followed() {
    let receiver = Receiver::start(|_, _| {
        Answer::new("307 Temporary Redirect", &["Location: /elsewhere"], b"")
    });
    let output = send(&receiver, &[]);
    output.assert_status(1);
    assert!(
        receiver
            .posts()
            .iter()
            .all(|post| post.path != "/elsewhere")
    );
    assert!(
        output.err.contains("name the URL of the redirection"),
        "{}",
        output.err
    );
}

#[test]
fn a_collector_that_does_not_answer_has_a_limit() {
    let receiver = Receiver::start(|_, _| Answer(None));
    let (_folder, path) = recording(REQUESTS);
    let mut command = export(&path, &["--tries", "1", "--endpoint", &receiver.url()]);
    command.env("OTEL_EXPORTER_OTLP_TIMEOUT", "50");
    let output = finish(&mut command);
    output.assert_status(1);
    assert!(
        output
            .err
            .contains("no response within 50 ms, after 1 try\nhint: "),
        "{}",
        output.err
    );
}

#[test]
fn a_collector_that_is_not_there_is_an_error_with_a_hint() {
    for protocol in ["http/protobuf", "grpc"] {
        let (_folder, path) = recording(REQUESTS);
        let url = "http://user:SECRET@127.0.0.1:1";
        let options = ["--tries", "1", "--protocol", protocol, "--endpoint", url];
        let output = finish(&mut export(&path, &options));
        output.assert_status(1);
        assert!(output.err.contains("Connection refused"), "{}", output.err);
        assert!(
            output.err.contains("hint: start a collector"),
            "{}",
            output.err
        );
        assert!(!(output.out + &output.err).contains("SECRET"));
    }
}

#[test]
fn wrong_settings_are_refused_before_anything_is_read() {
    let (_folder, path) = recording(REQUESTS);
    let mut command = export(&path, &[]);
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
    let output = finish(&mut command);
    output.assert_status(1);
    assert!(
        output
            .err
            .starts_with("error: OTEL_EXPORTER_OTLP_PROTOCOL cannot be used"),
        "{}",
        output.err
    );
    assert!(output.err.contains("\nhint: "), "{}", output.err);
    finish(&mut export(&path, &["--protocol", "carrier-pigeon"])).assert_status(2);
}

#[test]
fn a_damaged_recording_is_delivered_as_far_as_it_goes() {
    let (_folder, path) = recording(FINDING);
    for file in std::fs::read_dir(path.join("tcp_stages"))
        .expect("a table")
        .flatten()
    {
        std::fs::write(file.path(), "no Parquet").expect("written");
    }
    let receiver = Receiver::start(|_, _| Answer::ok());
    let output = finish(&mut export(&path, &["--endpoint", &receiver.url()]));
    output.assert_status(3);
    assert!(output.err.contains("warning: "), "{}", output.err);
    assert!(!receiver.posts().is_empty());
}

#[test]
fn no_recording_is_an_error() {
    let receiver = Receiver::start(|_, _| Answer::ok());
    let folder = tempfile::tempdir().expect("a directory");
    let output = finish(&mut export(folder.path(), &["--endpoint", &receiver.url()]));
    output.assert_status(1);
    assert!(output.err.contains("hint: "), "{}", output.err);
    assert!(receiver.posts().is_empty());
}
