//! The agent watches what its configuration names: the counts in its dataset are exact, and a kill loses at most the
//! interval that was under way. What it says of planted problems: `tests/replay/claims/agent.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;

use lab::Netns;
use otlp::proto::{KeyValue, MetricData, MetricsRequest, Number, Value};
use prost::Message;
use table::fleet::FleetInterval;

use testbed::agents::{Agent, Dataset, assert_no_gaps, sum};
use testbed::receiver::{Answer, Post, Receiver};
use testbed::{root, until, whylat};

/// A server that reads all that comes, on each connection.
fn serve(listener: TcpListener, connections: usize) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut all = 0;
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().expect("a connection");
            all += std::io::copy(&mut stream, &mut std::io::sink()).expect("bytes");
        }
        all
    })
}

const SHORT: u64 = 211;
const WRITES: usize = 1_009;
/// Two of each class, at its bounds; those of the last class are one.
const SIZES: [usize; 11] = [
    1, 64, 65, 512, 513, 4_096, 4_097, 32_768, 32_769, 262_144, 262_145,
];

/// Truth of the client: ports of its long connection, and bytes that it sent and read.
struct Did {
    long: (u16, u16),
    bytes: u64,
    read: u64,
}

fn write_known_bytes() -> Did {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = serve(listener, 1 + SHORT as usize);
    let mut long = TcpStream::connect(address).expect("a connection");
    let buffer = vec![7; 262_145];
    let mut bytes = 0;
    for size in SIZES.iter().cycle().take(WRITES) {
        // a blocking send takes all, in one call
        assert_eq!(long.write(&buffer[..*size]).expect("a write"), *size);
        bytes += *size as u64;
    }
    let port = long.local_addr().expect("an address").port();
    drop(long);
    for _ in 0..SHORT {
        let mut short = TcpStream::connect(address).expect("a connection");
        short.write_all(b"once").expect("a write");
    }
    Did {
        long: (port, address.port()),
        bytes,
        read: server.join().expect("the server"),
    }
}

#[test]
fn agent_counts_are_exact() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let elsewhere = Netns::new().expect("a namespace");
    let agent = Agent::start(&netns);
    let did = netns.run(write_known_bytes).expect("the client");
    let other = elsewhere
        .run(write_known_bytes)
        .expect("a client elsewhere");
    assert_eq!(did.read, did.bytes + SHORT * 4);
    assert_eq!(other.bytes, did.bytes);
    let (dataset, _scratch) = agent.stop();
    let intervals = dataset.intervals();
    let long = dataset.connection_by_ports(did.long.0, did.long.1);
    let of_class = |class: usize| {
        let sizes = SIZES.iter().cycle().take(WRITES);
        let bounds = [64, 512, 4_096, 32_768, 262_144, usize::MAX];
        let is_of = |size: &&usize| bounds.iter().position(|most| *size <= most) == Some(class);
        sizes.filter(is_of).count() as i64
    };
    let counted = |of: &dyn Fn(&FleetInterval) -> Option<i64>| sum(&intervals, long.conn_id, of);
    assert_eq!(counted(&|row| row.writes), WRITES as i64);
    assert_eq!(counted(&|row| row.written_bytes), did.bytes as i64);
    assert_eq!(counted(&|row| row.writes_to_64), of_class(0));
    assert_eq!(counted(&|row| row.writes_to_512), of_class(1));
    assert_eq!(counted(&|row| row.writes_to_4k), of_class(2));
    assert_eq!(counted(&|row| row.writes_to_32k), of_class(3));
    assert_eq!(counted(&|row| row.writes_to_256k), of_class(4));
    assert_eq!(counted(&|row| row.writes_over_256k), of_class(5));
    let peer = dataset.connection_by_ports(did.long.1, did.long.0);
    let read = sum(&intervals, peer.conn_id, |row| row.read_bytes);
    assert_eq!(read, did.bytes as i64);
    let connections = dataset.connections();
    assert_eq!(
        connections.len() as u64,
        2 * (1 + SHORT),
        "two ends of each, and none elsewhere"
    );
    let comm = std::fs::read_to_string("/proc/self/comm").expect("a name");
    let inode = i64::try_from(netns.inode()).expect("small");
    for (conn_id, row) in &connections {
        assert_eq!(i64::from(row.netns), inode);
        assert!(
            row.opened_ns.is_some() && row.closed_ns > row.opened_ns,
            "{row:?}"
        );
        assert!(
            intervals
                .iter()
                .any(|interval| interval.conn_id == *conn_id),
            "{row:?}"
        );
        if row.peer_port == i32::from(did.long.1) {
            assert_eq!(row.process.as_deref(), Some(comm.trim()), "{row:?}");
            assert_eq!(row.app.as_deref(), Some("tests"), "{row:?}");
            let written = sum(&intervals, *conn_id, |row| row.written_bytes);
            assert!(
                *conn_id == long.conn_id || written == 4,
                "{row:?}: {written}"
            );
        }
    }
    assert_no_gaps(&dataset.coverage());
    let ids: BTreeSet<_> = intervals
        .iter()
        .map(|row| (row.conn_id, row.begin_ns))
        .collect();
    assert_eq!(ids.len(), intervals.len(), "a row is there twice");
}

/// A client that writes once for each byte on its input, and says how often it did.
struct Writes {
    stream: TcpStream,
    number: i64,
}

impl Writes {
    fn more(&mut self, times: i64) {
        for _ in 0..times {
            self.stream.write_all(&[1; 100]).expect("a write");
        }
        self.number += times;
    }
}

#[test]
fn agent_kill_loses_one_interval() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let (stream, server) = netns
        .run(|| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            let address = listener.local_addr().expect("an address");
            let server = serve(listener, 1);
            (TcpStream::connect(address).expect("a connection"), server)
        })
        .expect("a client");
    let mut writes = Writes { stream, number: 0 };
    let agent = Agent::start(&netns);
    writes.more(101);
    let count_writes = |dataset: &Dataset| -> i64 {
        dataset
            .intervals()
            .iter()
            .filter_map(|row| row.writes)
            .sum()
    };
    let dataset = agent.dataset();
    until("the writes in the dataset", || {
        (count_writes(&dataset) == 101).then_some(())
    });
    let before = dataset.coverage();
    writes.more(103);
    let scratch = agent.kill();
    let kept = dataset.coverage();
    assert!(kept.len() >= before.len());
    let second = Agent::start_again(&netns, scratch, "calls");
    writes.more(107);
    drop(writes.stream);
    let (dataset, _scratch) = second.stop();
    assert_eq!(server.join().expect("the server"), 311 * 100);
    let coverage = dataset.coverage();
    for pair in coverage.windows(2) {
        let end_ns = pair[0].begin_ns + pair[0].length_us * 1_000;
        assert!(end_ns <= pair[1].begin_ns, "{coverage:?}");
    }
    let intervals = dataset.intervals();
    let ids: BTreeSet<_> = intervals
        .iter()
        .map(|row| (row.conn_id, row.begin_ns))
        .collect();
    assert_eq!(ids.len(), intervals.len(), "a row is there twice");
    // what the first had not written was under way in the kernel or in its open interval
    let writes = count_writes(&dataset);
    assert!((101 + 107..=311).contains(&writes), "{writes} of 311");
    assert_eq!(
        dataset.connections().len(),
        2,
        "the same socket under one id"
    );
}

/// Sums of a metric of a service, the last ones of all requests, by an attribute.
fn last_sums(posts: &[Post], service: &str, name: &str, by: &str) -> BTreeMap<String, i64> {
    let mut last = BTreeMap::new();
    let of_metrics = posts.iter().filter(|post| post.path == "/v1/metrics");
    let requests = of_metrics.map(|post| MetricsRequest::decode(&*post.body).expect("protobuf"));
    for resource in requests.flat_map(|it| it.resource_metrics) {
        let own = resource.resource.expect("a resource").attributes;
        if text_of(&own, "service.name").as_deref() != Some(service) {
            continue;
        }
        assert_eq!(text_of(&own, "host.name").as_deref(), Some("watched"));
        assert_eq!(
            text_of(&own, "deployment.environment.name").as_deref(),
            Some("test")
        );
        let metrics = resource.scope_metrics.into_iter().flat_map(|it| it.metrics);
        for metric in metrics.filter(|it| it.name == name) {
            let Some(MetricData::Sum(sum)) = metric.data else {
                panic!("{name} is no sum");
            };
            for point in sum.data_points {
                let key = text_of(&point.attributes, by).unwrap_or_default();
                let Some(Number::Whole(value)) = point.value else {
                    panic!("{name} is no whole number");
                };
                last.insert(key, value);
            }
        }
    }
    last
}

/// Returns the text of an attribute.
fn text_of(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|it| it.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}

#[test]
fn agent_sends_by_otlp_what_its_dataset_has() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    // the first tries fail: what waits then comes later
    let receiver = netns.run(|| {
        Receiver::start(|number, _| match number {
            0..3 => Answer::new("503 Service Unavailable", &["Retry-After: 0"], b""),
            _ => Answer::ok(),
        })
    });
    let receiver = receiver.expect("a receiver");
    let scratch = tempfile::tempdir().expect("a directory");
    testbed::agents::configure(scratch.path(), "calls", testbed::agents::TESTS);
    let mut command = netns.command(testbed::program());
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url())
        .env(
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test",
        )
        .env("NO_PROXY", "127.0.0.1");
    let agent = Agent::start_by(&mut command, scratch);
    agent.says("sends metrics of each interval to ");
    // it sends as one that has given up its privileges
    let pid = agent.process.0.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let effective = status.lines().find(|line| line.starts_with("CapEff:"));
    assert_eq!(
        effective,
        Some("CapEff:\t0000008000000000"),
        "CAP_BPF alone"
    );
    let did = netns.run(write_known_bytes).expect("the client");
    let (dataset, scratch) = agent.stop();
    let stderr = std::fs::read_to_string(scratch.path().join("stderr")).expect("its stderr");
    let tests: BTreeSet<i64> = dataset
        .connections()
        .into_iter()
        .filter(|(_, row)| row.app.as_deref() == Some("tests"))
        .map(|(conn_id, _)| conn_id)
        .collect();
    let intervals = dataset.intervals();
    let of_tests = intervals.iter().filter(|row| tests.contains(&row.conn_id));
    let (acked, received) = of_tests.fold((0, 0), |(acked, received), row| {
        (acked + row.acked_bytes, received + row.received_bytes)
    });
    assert!(acked >= did.bytes as i64);
    let posts = receiver.posts();
    let io = last_sums(
        &posts,
        "tests",
        "process.network.io",
        "network.io.direction",
    );
    let expected = [("receive", received), ("transmit", acked)];
    let expected = expected.map(|(direction, bytes)| (direction.to_owned(), bytes));
    assert_eq!(io, BTreeMap::from(expected), "{stderr}");
    let intervals = last_sums(&posts, "whylat-agent", "whylat.agent.intervals", "");
    assert_eq!(intervals[""], dataset.coverage().len() as i64);
    assert!(!stderr.contains("not delivered"), "{stderr}");
}

#[test]
fn agent_without_target_sends_by_otlp_and_writes_no_file() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let receiver = netns.run(|| Receiver::start(|_, _| Answer::ok()));
    let receiver = receiver.expect("a receiver");
    let scratch = tempfile::tempdir().expect("a directory");
    testbed::agents::configure_without_files(scratch.path(), testbed::agents::TESTS);
    let notified = scratch.path().join("notify");
    let notified = UnixDatagram::bind(&notified).map(|socket| (socket, notified));
    let (notified, address) = notified.expect("a socket");
    let mut command = netns.command(testbed::program());
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url())
        .env(
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test",
        )
        .env("NOTIFY_SOCKET", address)
        .env("NO_PROXY", "127.0.0.1");
    let spool = agent::config::ShipConfig::default().spool;
    let spool_before = spool.exists();
    let agent = Agent::start_by(&mut command, scratch);
    agent.says("writes no files, because [ship] has no target: only the OpenTelemetry collector gets each interval");
    notified
        .set_read_timeout(Some(testbed::LONGEST))
        .expect("a limit");
    until("the status without files", || {
        let mut message = [0; 4_096];
        let length = notified.recv(&mut message).expect("a message");
        let text = String::from_utf8_lossy(&message[..length]);
        text.contains("writing no files").then_some(())
    });
    // a full socket would hold the agent up
    drop(notified);
    let did = netns.run(write_known_bytes).expect("the client");
    let sent = || {
        let io = "process.network.io";
        let sums = last_sums(&receiver.posts(), "tests", io, "network.io.direction");
        sums.get("transmit").copied()
    };
    until("all bytes at the receiver", || {
        sent().filter(|bytes| *bytes >= did.bytes as i64)
    });
    let page = until("the page for Prometheus", || {
        testbed::agents::metrics_page(&netns)
    });
    assert!(page.contains("whylat_tcp_acked_bytes_total"), "{page}");
    assert!(!page.contains("whylat_ship_"), "{page}");
    let (_, scratch) = agent.stop();
    let names = std::fs::read_dir(scratch.path()).expect("a directory");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    let names: BTreeSet<_> = names.filter_map(|name| name.into_string().ok()).collect();
    let expected = ["agent.toml", "dataset", "notify", "ready", "stderr"];
    assert_eq!(names, expected.map(str::to_owned).into());
    let dataset = std::fs::read_dir(scratch.path().join("dataset"));
    assert_eq!(dataset.expect("a directory").count(), 0);
    assert_eq!(spool.exists(), spool_before);
}

#[test]
fn agent_statistics_leave_call_columns_null() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let scratch = tempfile::tempdir().expect("a directory");
    let agent = Agent::start_again(&netns, scratch, "stats");
    let did = netns.run(write_known_bytes).expect("the client");
    let (dataset, _scratch) = agent.stop();
    let long = dataset.connection_by_ports(did.long.0, did.long.1);
    let rows = dataset.intervals();
    let acked = sum(&rows, long.conn_id, |row| Some(row.acked_bytes));
    // the kernel counts SYN and FIN, too
    assert!(
        acked.abs_diff(did.bytes as i64) <= 2,
        "{acked} of {}",
        did.bytes
    );
    assert!(
        rows.iter()
            .all(|row| row.writes.is_none() && row.delayed_ack_us.is_none())
    );
    assert!(dataset.coverage().iter().all(|row| row.detail == "stats"));
    assert_no_gaps(&dataset.coverage());
}

#[test]
fn agent_errors_have_hints() {
    let scratch = tempfile::tempdir().expect("a directory");
    let config = scratch.path().join("agent.toml");
    let mut command = whylat("agent --config");
    testbed::finish(command.arg(&config))
        .assert_status(1)
        .explains("agent.toml");
    std::fs::write(&config, "[watch]\ninterval_s = 7\n").expect("a file");
    let mut command = whylat("agent --check --config");
    testbed::finish(command.arg(&config))
        .assert_status(1)
        .explains("interval_s");
    std::fs::write(&config, "[host]\nname = \"watched\"\n").expect("a file");
    for arguments in ["agent --config", "agent --check --config"] {
        let mut command = whylat(arguments);
        command.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        testbed::finish(command.arg(&config))
            .assert_status(1)
            .explains("names no receiver");
    }
    let mut command = whylat("agent --check --config");
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
    testbed::finish(command.arg(&config)).assert_status(0);
}
