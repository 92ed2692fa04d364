//! The endpoint for Prometheus: its answers, who gets them, and that a parser takes both text formats.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::*;
use table::Columns;
use table::fleet::{FleetConnection, FleetCoverage, FleetInterval};
use whylat_agent::Interval;
use whylat_agent::config::{Config, HealthConfig, HostConfig, MetricsConfig};
use whylat_agent::metrics::{Endpoint, EndpointError, Liveness, Metrics, TextFormat, Token};

const TOKEN: &str = "5f0c1e";

/// Makes an interval of one connection of an application, with this time of delayed ACKs.
fn of_application(name: Option<&str>, conn_id: i64, delayed_ack_us: Option<i64>) -> Interval {
    let mut interval = interval(HOUR_NS, 0);
    interval.coverage = row::<FleetCoverage>(serde_json::json!({
        "begin_ns": HOUR_NS, "cpu_us": 250_000, "rss_bytes": 5_000_000, "polls": 120, "lost": 2, "connections": 7,
        "poll_gap_us": 700_000,
    }));
    interval.connections.push(row::<FleetConnection>(
        serde_json::json!({"conn_id": conn_id, "time_ns": HOUR_NS, "app": name}),
    ));
    interval.intervals.push(row::<FleetInterval>(serde_json::json!({
        "conn_id": conn_id, "begin_ns": HOUR_NS, "length_us": 60_000_000, "receiver_window_us": 1_500_000,
        "delayed_ack_us": delayed_ack_us, "retrans": 3, "verdict": "receiver_window",
    })));
    interval
}

/// A line of Prometheus' text format 0.0.4: name, labels, value.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let name: String = series.chars().take_while(|&c| c != '{').collect();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(name.chars().all(is_name), "{line}");
        (series.to_owned(), value.parse().expect("a number"))
    });
    samples.collect()
}

/// Returns the described metrics with their kinds; demands one description before all samples.
fn described(page: &str) -> BTreeMap<String, String> {
    let mut kinds = BTreeMap::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a kind");
        let before = kinds.insert(name.to_owned(), kind.to_owned());
        assert_eq!(before, None, "{name} is described twice");
    }
    kinds
}

/// Asks and returns status, headers and body.
fn ask(endpoint: &Endpoint, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(endpoint.address()).expect("connect");
    stream.write_all(request.as_bytes()).expect("ask");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (
        status.expect("a status"),
        head.to_ascii_lowercase(),
        body.to_owned(),
    )
}

fn start_endpoint(metrics: &Arc<Metrics>) -> Endpoint {
    let config = MetricsConfig {
        listen: "127.0.0.1:0".to_owned(),
        names: vec!["scrape.example".to_owned()],
    };
    let host = HostConfig {
        name: HOST.to_owned(),
    };
    let token = Token::new(TOKEN);
    let endpoint = Endpoint::start(&config, &host, token, Arc::clone(metrics), None);
    endpoint.expect("listen").expect("an endpoint")
}

#[test]
fn times_are_labelled_by_application() {
    let metrics = Metrics::new();
    metrics.interval(&of_application(Some("shop"), 1, Some(500_000)));
    metrics.interval(&of_application(Some("shop"), 1, Some(500_000)));
    metrics.interval(&of_application(None, 2, None));
    let page = metrics.page(TextFormat::Prometheus).expect("a page");
    let samples = samples(&page);
    let limited = |problem: &str, application: &str| {
        let name = "whylat_tcp_limited_seconds_total";
        samples.get(&format!(
            "{name}{{problem=\"{problem}\",application=\"{application}\"}}"
        ))
    };
    assert_eq!(limited("receiver_window", "shop"), Some(&3.0));
    assert_eq!(limited("delayed_ack", "shop"), Some(&1.0));
    assert_eq!(limited("receiver_window", "none"), Some(&1.5));
    assert_eq!(
        limited("delayed_ack", "none"),
        None,
        "not measured is not zero"
    );
    let value = |series: &str| samples.get(series).copied();
    let held = "whylat_tcp_held_intervals_total{stage=\"receiver_window\",application=\"shop\"}";
    assert_eq!(value(held), Some(2.0));
    assert_eq!(
        value("whylat_tcp_watched_seconds_total{application=\"shop\"}"),
        Some(120.0)
    );
    assert_eq!(
        value("whylat_tcp_retransmitted_segments_total{application=\"none\"}"),
        Some(3.0)
    );
    assert_eq!(value("whylat_tcp_connections"), Some(7.0));
    assert_eq!(value("whylat_agent_cpu_seconds_total"), Some(0.75));
    assert_eq!(value("whylat_agent_polls_total"), Some(360.0));
    assert_eq!(
        value("whylat_agent_bpf_seconds_total"),
        None,
        "not measured is not zero"
    );
    assert_eq!(value("whylat_agent_lost_records_total"), Some(6.0));
    assert_eq!(value("whylat_agent_resident_memory_bytes"), Some(5e6));
    assert_eq!(value("whylat_agent_poll_gap_seconds"), Some(0.7));
    assert_eq!(value("whylat_config_last_reload_successful"), Some(1.0));
    let mut measured = of_application(None, 3, None);
    measured.coverage.bpf_us = Some(2_000);
    metrics.interval(&measured);
    let page = metrics.page(TextFormat::Prometheus).expect("a page");
    assert!(
        page.contains("whylat_agent_bpf_seconds_total 0.002\n"),
        "{page}"
    );
    metrics.note_reload(false);
    let page = metrics.page(TextFormat::Prometheus).expect("a page");
    assert!(
        page.contains("whylat_config_last_reload_successful 0\n"),
        "{page}"
    );
}

#[test]
fn series_count_is_bounded() {
    let metrics = Metrics::new();
    for number in 0..1000 {
        let name = format!("app-{number}");
        metrics.interval(&of_application(Some(&name), number, Some(1)));
    }
    let page = metrics.page(TextFormat::Prometheus).expect("a page");
    let samples = samples(&page);
    let applications: BTreeSet<&str> = samples
        .keys()
        .filter_map(|series| series.split_once("application=\"")?.1.split('"').next())
        .collect();
    assert_eq!(applications.len(), 101);
    assert!(applications.contains("other"));
    assert_eq!(
        samples["whylat_tcp_watched_seconds_total{application=\"other\"}"],
        60.0 * 900.0
    );
    let labels: BTreeSet<&str> = samples
        .keys()
        .filter_map(|series| series.split_once('{'))
        .flat_map(|(_, labels)| labels.split("\","))
        .filter_map(|label| label.split('=').next())
        .collect();
    let known = BTreeSet::from(["application", "problem", "stage", "version"]);
    assert_eq!(labels, known, "none is of a connection");
}

#[test]
fn both_formats_describe_each_metric_once() {
    let dir = memory_dir();
    let shipper = start(&config(dir.path()));
    put(&shipper, interval(HOUR_NS, 2));
    until(&shipper, |state| state.delivered_files == 5);
    let metrics = Metrics::new();
    metrics.interval(&of_application(Some("a \"b\"\n\\"), 1, Some(1)));
    metrics.shipping(&stop(shipper));
    let page = metrics.page(TextFormat::Prometheus).expect("a page");
    let kinds = described(&page);
    for series in samples(&page).keys() {
        let name: String = series.chars().take_while(|&c| c != '{').collect();
        let kind = kinds
            .get(&name)
            .unwrap_or_else(|| panic!("{name} has no kind"));
        assert_eq!(
            kind == "counter",
            name.ends_with("_total"),
            "{name} is a {kind}"
        );
    }
    assert!(
        page.contains("whylat_ship_delivered_files_total 5\n"),
        "{page}"
    );
    assert!(
        page.contains("whylat_ship_dropped_files_total{cause=\"full\"} 0\n"),
        "{page}"
    );
    assert!(page.contains("whylat_ship_delay_seconds 0"), "{page}");
    let open = metrics.page(TextFormat::OpenMetrics).expect("a page");
    assert!(open.ends_with("# EOF\n"));
    assert_eq!(described(&open).len(), kinds.len());
}

#[test]
fn endpoint_checks_host_name() {
    let metrics = Metrics::new();
    metrics.interval(&of_application(Some("shop"), 1, None));
    let endpoint = start_endpoint(&metrics);
    let port = endpoint.address().port();
    let get = |host: &str, more: &str| {
        ask(
            &endpoint,
            &format!(
                "GET /metrics HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n{more}\r\n"
            ),
        )
    };
    for host in [
        "127.0.0.1",
        "localhost",
        "LOCALHOST:1",
        "[::1]:5",
        "web-1",
        "scrape.example",
    ] {
        let (status, head, body) = get(host, "");
        assert_eq!(status, 200, "{host}");
        assert!(
            head.contains("content-type: text/plain; version=0.0.4"),
            "{head}"
        );
        assert!(body.contains("whylat_tcp_limited_seconds_total{"), "{body}");
    }
    let (status, head, body) = get(
        "127.0.0.1",
        "Accept: application/openmetrics-text;version=1.0.0\r\n",
    );
    assert!(status == 200 && head.contains("application/openmetrics-text; version=1.0.0"));
    assert!(body.ends_with("# EOF\n"));
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "",
    ] {
        let (status, _, body) = get(host, "");
        assert_eq!(status, 421, "{host}");
        assert!(!body.contains("whylat_"), "{body}");
    }
    let whole = |line: &str| {
        ask(
            &endpoint,
            &format!(
                "{line} HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            ),
        )
        .0
    };
    assert_eq!(whole("POST /metrics"), 405);
    assert_eq!(whole("DELETE /metrics"), 405);
    assert_eq!(whole("GET /etc/passwd"), 404);
    assert_eq!(whole("GET /"), 200);
    assert_eq!(ask(&endpoint, "GET /metrics HTTP/1.1\r\n\r\n").0, 421);
}

#[test]
fn slow_readers_do_not_block_others() {
    let metrics = Metrics::new();
    let endpoint = start_endpoint(&metrics);
    let slow: Vec<TcpStream> = (0..15)
        .map(|_| TcpStream::connect(endpoint.address()).expect("connect"))
        .collect();
    let (status, ..) = ask(
        &endpoint,
        &format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        ),
    );
    assert_eq!(status, 200);
    drop(slow);
}

#[test]
fn endpoint_checks_token() {
    let metrics = Metrics::new();
    metrics.interval(&of_application(Some("shop"), 1, None));
    let endpoint = start_endpoint(&metrics);
    let asked = |more: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
        ask(&endpoint, &request)
    };
    for shown in [TOKEN.to_owned(), format!(" {TOKEN} ")] {
        let (status, ..) = asked(&format!("authorization: bearer {shown}\r\n"));
        assert_eq!(status, 200, "{shown:?}");
    }
    let others = [
        String::new(),
        "Authorization: Bearer\r\n".to_owned(),
        "Authorization: Bearer \r\n".to_owned(),
        format!("Authorization: Bearer {TOKEN}0\r\n"),
        format!("Authorization: Bearer {}\r\n", &TOKEN[1..]),
        format!("Authorization: Basic {TOKEN}\r\n"),
        format!("Authorization: {TOKEN}\r\n"),
        format!("Cookie: token={TOKEN}\r\n"),
    ];
    for other in others {
        let (status, head, body) = asked(&other);
        assert_eq!(status, 401, "{other}");
        assert!(head.contains("www-authenticate: bearer"), "{head}");
        assert!(!body.contains("whylat_tcp"), "{body}");
        assert!(!body.contains(TOKEN), "{body}");
    }
}

#[test]
fn cross_site_requests_are_refused() {
    let endpoint = start_endpoint(&Metrics::new());
    let asked = |origin: &str| {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost:9464\r\nOrigin: {origin}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        );
        ask(&endpoint, &request).0
    };
    assert_eq!(asked("http://localhost:9464"), 200);
    for origin in [
        "http://evil.example",
        "http://localhost:80",
        "https://localhost:9464",
        "null",
        "",
        "\u{e9}",
    ] {
        assert_eq!(asked(origin), 403, "{origin:?}");
    }
}

#[test]
fn nothing_listens_without_a_token() {
    assert_eq!(
        MetricsConfig::default().listen,
        "",
        "nor unless it is asked for"
    );
    assert!(Token::new(" \n").is_none());
    let config = MetricsConfig {
        listen: "127.0.0.1:0".to_owned(),
        ..MetricsConfig::default()
    };
    let refused = Endpoint::start(&config, &HostConfig::default(), None, Metrics::new(), None);
    let error = refused.err().expect("refused");
    assert!(matches!(error, EndpointError::NoToken { .. }), "{error}");
    assert!(error.to_string().contains("\nhint: "), "{error}");
}

/// Returns the number of accepted connections to an address, from the kernel.
fn accepted(address: SocketAddr) -> usize {
    let sockets = std::fs::read_to_string("/proc/self/net/tcp").expect("sockets");
    let local = format!("0100007F:{:04X}", address.port());
    let is_accepted = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // established, and of an inode: one that waits to be accepted has none
        fields[1] == local && fields[3] == "01" && fields[9] != "0"
    };
    sockets.lines().skip(1).filter(is_accepted).count()
}

#[test]
fn silent_readers_do_not_delay_shutdown() {
    let endpoint = start_endpoint(&Metrics::new());
    let address = endpoint.address();
    let silent: Vec<TcpStream> = (0..16)
        .map(|_| TcpStream::connect(address).expect("connect"))
        .collect();
    let begin = Instant::now();
    while accepted(address) < silent.len() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    let begin = Instant::now();
    drop(endpoint);
    // a silent one is waited for ten seconds
    assert!(begin.elapsed() < Duration::from_secs(5), "{begin:?}");
}

#[test]
fn taken_address_is_reported() {
    let metrics = Metrics::new();
    let first = start_endpoint(&metrics);
    let config = MetricsConfig {
        listen: first.address().to_string(),
        ..MetricsConfig::default()
    };
    let token = Token::new(TOKEN);
    let second = Endpoint::start(&config, &HostConfig::default(), token, metrics, None);
    let error = second.err().expect("refused").to_string();
    assert!(error.contains("cannot listen on 127.0.0.1:"), "{error}");
    assert!(error.contains("\nhint: "), "{error}");
    let none = MetricsConfig {
        listen: String::new(),
        ..MetricsConfig::default()
    };
    let none = Endpoint::start(&none, &Config::default().host, None, Metrics::new(), None);
    assert!(none.expect("no endpoint").is_none());
}

#[test]
fn health_says_whether_the_agent_watches() {
    let config = HealthConfig {
        listen: "127.0.0.1:0".to_owned(),
    };
    let liveness = Liveness::begin();
    let endpoint = Endpoint::start_health(&config, Arc::clone(&liveness));
    let endpoint = endpoint.expect("listen").expect("an endpoint");
    // as a kubelet asks
    let call = |method: &str, path: &str| {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 10.0.0.1:9465\r\nUser-Agent: kube-probe/1.33\r\nConnection: close\r\n\r\n"
        );
        let (status, _, body) = ask(&endpoint, &request);
        (status, body)
    };
    let ask = |path: &str| call("GET", path);
    assert_eq!(call("POST", "/healthz").0, 405);
    assert_eq!(call("HEAD", "/healthz").0, 200);
    assert_eq!(ask("/healthz"), (200, "watching\n".to_owned()));
    assert_eq!(ask("/metrics").0, 404);
    // a loop that hangs
    liveness.note(probe::clock::monotonic_ns() - 61_000_000_000);
    let (status, body) = ask("/healthz");
    assert_eq!(status, 503);
    assert!(body.starts_with("not watching for 6"), "{body}");
    assert_eq!(
        HealthConfig::default().listen,
        "",
        "only if it is asked for"
    );
}

#[test]
fn guide_has_every_metric() {
    let metrics = Metrics::new();
    let dir = memory_dir();
    let shipper = start(&config(dir.path()));
    put(&shipper, interval(HOUR_NS, 1));
    until(&shipper, |state| state.delivered_files == 5);
    metrics.shipping(&stop(shipper));
    let mut measured = of_application(Some("shop"), 1, Some(1));
    measured.coverage.bpf_us = Some(1);
    metrics.interval(&measured);
    let page = metrics.page(TextFormat::Prometheus).expect("a page");
    let known: BTreeSet<String> = described(&page).into_keys().collect();
    let guide = include_str!("../../../docs/fleet/agent.md");
    let untold: Vec<_> = known
        .iter()
        .filter(|name| !guide.contains(name.as_str()))
        .collect();
    assert!(
        untold.is_empty(),
        "docs/fleet/agent.md does not have {untold:?}"
    );
}
