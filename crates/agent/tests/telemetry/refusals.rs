//! Collectors that are not there, stall, refuse, or come back: nothing is lost that fits the bound, all that is lost is counted,
//! and whoever collects never waits.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
};
use otlp::Signal;
use otlp::delivery::{DropCause, SignalState};
use prost::Message;
use socket2::{Domain, SockAddr, Socket, Type};
use testbed::receiver::{Answer, Post, Receiver};
use testbed::until;
use whylat_agent::config::OtlpConfig;
use whylat_agent::metrics::{Metrics, TextFormat};
use whylat_agent::telemetry::TelemetryExport;

use super::decoded::points;
use super::{JoinAll, busy_interval, export, export_all, export_with, put_interval};

/// Variables of an export of metrics alone.
const METRICS: (&str, &str) = ("OTEL_LOGS_EXPORTER", "none");

fn is_of_metrics(post: &Post) -> bool {
    post.path == "/v1/metrics"
}

/// Gives intervals with these numbers to the export.
fn put(export: &TelemetryExport, metrics: &Arc<Metrics>, numbers: std::ops::Range<i64>) {
    for number in numbers {
        put_interval(export, metrics, busy_interval(number, 0));
    }
}

/// Waits for a state of the metrics' delivery.
fn until_state(export: &TelemetryExport, what: &str, wanted: impl Fn(&SignalState) -> bool) {
    until(what, || {
        let state = export.states()[&Signal::Metrics].clone();
        wanted(&state).then_some(())
    });
}

/// Makes the expected counts of dropped items.
fn dropped(causes: &[(DropCause, u64)]) -> BTreeMap<DropCause, u64> {
    causes.iter().copied().collect()
}

#[test]
fn a_collector_that_comes_later_gets_everything_in_order() {
    // a port that is taken, and on which nobody listens
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any = SockAddr::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    socket.bind(&any).expect("a port");
    let address = socket
        .local_addr()
        .expect("its address")
        .as_socket()
        .expect("IPv4");
    let export = export(&format!("http://{address}"), &[METRICS]);
    let metrics = Metrics::new();
    put(&export, &metrics, 0..5);
    until_state(&export, "failures", |it| it.failures >= 3);
    let state = export.states()[&Signal::Metrics].clone();
    assert!(state.error.expect("a reason").contains("onnect"));
    metrics.telemetry(export.states());
    let page = metrics.page(TextFormat::Prometheus).expect("a page");
    let waiting = format!(
        "whylat_otlp_waiting_items{{signal=\"metrics\"}} {}",
        state.waiting
    );
    assert!(page.contains(&waiting), "{page}");
    socket.listen(16).expect("listen");
    let receiver = Receiver::start_on(TcpListener::from(socket), |_, _| Answer::ok());
    until_state(&export, "delivery", |it| it.waiting == 0);
    put(&export, &metrics, 5..6);
    let states = export.join_all();
    let posts = receiver.posts();
    let polls = points(&posts)
        .into_iter()
        .filter(|it| it.name == "whylat.agent.polls");
    let polls: Vec<_> = polls.map(|it| it.value).collect();
    assert_eq!(polls, [120.0, 240.0, 360.0, 480.0, 600.0, 720.0]);
    let state = &states[&Signal::Metrics];
    assert!(
        state.dropped.is_empty() && state.error.is_none(),
        "{state:?}"
    );
}

#[test]
fn an_overloaded_collector_gets_the_same_message_later() {
    let receiver = Receiver::start(|number, _| match number {
        0 => Answer::new("503 Service Unavailable", &["Retry-After: 0"], b""),
        1 => Answer::new(
            "429 Too Many Requests",
            &["Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"],
            b"",
        ),
        2 => Answer::new("502 Bad Gateway", &[], b""),
        3 => Answer::new("504 Gateway Timeout", &[], b""),
        _ => Answer::ok(),
    });
    let export = export(&receiver.url(), &[METRICS]);
    let states = export_all(export, &Metrics::new(), &[busy_interval(0, 0)]);
    let posts = receiver.posts();
    assert_eq!(posts.len(), 5);
    assert!(posts.iter().all(|post| post.body == posts[0].body));
    let state = &states[&Signal::Metrics];
    assert_eq!((state.failures, state.dropped.len()), (4, 0));
}

#[test]
fn a_pause_that_is_asked_for_is_kept_but_not_beyond_the_end() {
    let receiver = Receiver::start(|_, _| {
        Answer::new("503 Service Unavailable", &["Retry-After: 100000000"], b"")
    });
    let mut export = export(&receiver.url(), &[METRICS]);
    put(&export, &Metrics::new(), 0..2);
    until_state(&export, "a failure", |it| it.failures == 1);
    let put = export.states()[&Signal::Metrics].waiting;
    export.end_by(Instant::now());
    let states = export.join();
    // not once more, as it asked for a pause
    assert_eq!(receiver.posts().len(), 1);
    let state = &states[&Signal::Metrics];
    assert_eq!(state.dropped, dropped(&[(DropCause::Ended, put)]));
    assert_eq!((state.waiting, state.waiting_bytes), (0, 0));
}

#[test]
fn a_refused_message_is_counted_and_not_sent_again() {
    let receiver = Receiver::start(|number, _| match number {
        0 => Answer::new("400 Bad Request", &[], b"no such tenant"),
        _ => Answer::ok(),
    });
    let export = export(&receiver.url(), &[METRICS]);
    let metrics = Metrics::new();
    put(&export, &metrics, 0..1);
    until_state(&export, "the refusal", |it| it.waiting == 0);
    let state = export.states()[&Signal::Metrics].clone();
    let reason = state.error.expect("a reason");
    assert!(
        reason.starts_with("HTTP status 400 Bad Request: no such tenant\n"),
        "{reason}"
    );
    metrics.telemetry(export.states());
    put(&export, &metrics, 1..2);
    let states = export.join_all();
    let posts = receiver.posts();
    assert_eq!(posts.len(), 2);
    assert_ne!(posts[0].body, posts[1].body);
    let first = points(&posts[..1]).len() as u64;
    let state = &states[&Signal::Metrics];
    assert_eq!(state.dropped, dropped(&[(DropCause::Refused, first)]));
    assert!(state.error.is_none(), "{state:?}");
    // the second message says what became of the first
    let refused = points(&posts).into_iter().find(|it| {
        it.name == "whylat.otlp.dropped_items" && it.attributes["whylat.cause"] == "refused"
    });
    assert_eq!(refused.expect("a point").value, first as f64);
}

#[test]
fn items_that_a_collector_rejects_are_counted() {
    let receiver = Receiver::start(|_, post| {
        let response = ExportMetricsServiceResponse {
            partial_success: Some(ExportMetricsPartialSuccess {
                rejected_data_points: 3,
                error_message: "too old".to_owned(),
            }),
        };
        match is_of_metrics(post) {
            true => Answer::new("200 OK", &[], &response.encode_to_vec()),
            false => Answer::ok(),
        }
    });
    let states = export_all(
        export(&receiver.url(), &[]),
        &Metrics::new(),
        &[busy_interval(0, 30_000)],
    );
    let state = &states[&Signal::Metrics];
    assert_eq!(state.dropped, dropped(&[(DropCause::Rejected, 3)]));
    assert_eq!(state.remark.as_deref(), Some("too old"));
    assert_eq!(state.delivered + 3, points(&receiver.posts()).len() as u64);
    assert_eq!(states[&Signal::Logs].delivered, 1);
}

#[test]
fn a_full_queue_drops_the_oldest_and_counts_them() {
    let (release, released) = mpsc::channel::<()>();
    let is_closed = Arc::new(AtomicBool::new(true));
    let closed = Arc::clone(&is_closed);
    let receiver = Receiver::start(move |_, _| {
        if closed.load(Ordering::SeqCst) {
            // held until the test lets go
            let _ = released.recv();
        }
        Answer::ok()
    });
    let config = OtlpConfig {
        endpoint: receiver.url(),
        queue_max_bytes: 1 << 20,
        ..OtlpConfig::default()
    };
    let patience = ("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000");
    let export = export_with(&config, &[METRICS, patience]);
    let metrics = Metrics::new();
    put(&export, &metrics, 0..1);
    let is_begun = || (export.states()[&Signal::Metrics].waiting > 0).then_some(());
    until("the first message", is_begun);
    let mut number = 1;
    while export.states()[&Signal::Metrics].dropped.is_empty() {
        put(&export, &metrics, number..number + 1);
        number += 1;
    }
    put(&export, &metrics, number..number + 10);
    number += 10;
    let state = export.states()[&Signal::Metrics].clone();
    assert!(state.waiting_bytes <= 1 << 20, "{state:?}");
    assert!(state.dropped[&DropCause::Full] > 0);
    is_closed.store(false, Ordering::SeqCst);
    drop(release);
    let states = export.join_all();
    let state = &states[&Signal::Metrics];
    let points = points(&receiver.posts());
    assert_eq!(state.delivered, points.len() as u64);
    let polls = points.iter().filter(|it| it.name == "whylat.agent.polls");
    let polls: Vec<_> = polls.map(|it| it.value as i64 / 120).collect();
    // the first was under way; then the newest, without a gap
    assert_eq!(polls.last(), Some(&number));
    let later = &polls[1..];
    assert!(
        later.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{polls:?}"
    );
    let lost = number - polls.len() as i64;
    let a_message = state.delivered as f64 / polls.len() as f64;
    let lost_messages = state.dropped[&DropCause::Full] as f64 / a_message;
    assert!(
        (lost_messages - lost as f64).abs() < 1.0,
        "{lost_messages} of {lost}"
    );
}

#[test]
fn a_silent_collector_delays_nobody_and_the_end_is_bounded() {
    let receiver = Receiver::start(|_, _| Answer(None));
    let patience = ("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000");
    let mut export = export(&receiver.url(), &[patience]);
    let metrics = Metrics::new();
    // none of these waits: the collector never answers
    put(&export, &metrics, 0..10);
    receiver.next_post();
    let waiting = export.states()[&Signal::Metrics].waiting;
    assert!(waiting > 0);
    export.end_by(Instant::now());
    let states = export.join();
    let state = &states[&Signal::Metrics];
    assert_eq!(state.dropped, dropped(&[(DropCause::Ended, waiting)]));
    assert_eq!((state.delivered, state.waiting), (0, 0));
}

#[test]
fn a_slow_collector_is_tried_again_after_its_time() {
    let receiver = Receiver::start(|number, _| match number {
        0 => Answer(None),
        _ => Answer::ok(),
    });
    let patience = ("OTEL_EXPORTER_OTLP_TIMEOUT", "100");
    let export = export(&receiver.url(), &[METRICS, patience]);
    let metrics = Metrics::new();
    put(&export, &metrics, 0..1);
    until_state(&export, "delivery", |it| it.delivered > 0);
    let state = export.states()[&Signal::Metrics].clone();
    assert!(state.failures >= 1 && state.dropped.is_empty(), "{state:?}");
}
