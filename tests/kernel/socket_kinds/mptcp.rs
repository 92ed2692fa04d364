//! Connections that both ends open with MPTCP: of one subflow and of two, recorded, watched and polled.

use lab::Netns;
use serde_json::Value;

use super::{REQUESTS, Talker, assert_calls, assert_owned, counted, moved};
use testbed::agents::{Agent, sum};
use testbed::report::{number, text};
use testbed::{Recorder, finish, program, root, whylat};

/// An MPTCP connection that is open already: its one subflow carries the calls.
#[test]
fn open_mptcp_connection_is_recorded() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let server = Talker::go(&netns, "server :0");
    let port = server.port();
    let mut client = Talker::go(&netns, &format!("client 127.0.0.1:{port} {REQUESTS} mptcp"));
    let (local, pid) = (client.port(), client.pid());
    let recorder = Recorder::start(&format!("-p {pid} --detail waits"));
    client.let_go();
    let truth = client.finish();
    server.finish();
    let report = recorder.stop();
    assert_calls(&report, local, &truth);
    assert_owned(&report, local, pid);
    let own = report.by_ports(Some(local), Some(port))[0];
    assert_eq!(
        text(&own["mptcp"], "token"),
        format!("{:08x}", number(&truth, "/token"))
    );
    assert_eq!(
        (&own["mptcp"]["subflows"], &own["tcp"]["ulp"]),
        (&1.into(), &"mptcp".into())
    );
    assert_eq!(own["opened_ns"], Value::Null);
    // the other end, in a process that nobody asked for
    let peer = report.by_ports(Some(port), Some(local))[0];
    assert_eq!(
        (&own["peer"], &peer["chosen"]),
        (&peer["id"], &"peer".into())
    );
    let coverage = report.json["coverage"].as_array().expect("coverage");
    assert!(
        coverage
            .iter()
            .any(|it| it["probe"] == "mptcp" && it["state"] == "fallback")
    );
}

/// Starts a server, and a client with an MPTCP connection to this port of it.
fn connected(netns: &Netns) -> (Talker, Talker, u16) {
    let server = Talker::go(netns, "server :0");
    let port = server.port();
    let client = format!("client 127.0.0.1:{port} {REQUESTS} mptcp");
    let client = Talker::go(netns, &client);
    (server, client, port)
}

/// Without BPF, polls see the subflow as a TCP socket of whoever holds the MPTCP socket, and no token.
#[test]
fn polls_show_mptcp_subflow() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let (server, mut client, port) = connected(&netns);
    let (local, pid) = (client.port(), client.pid());
    let mut lacking = netns.command("setpriv");
    lacking.args(["--inh-caps=-all", "--bounding-set=-bpf,-sys_admin"]);
    lacking.arg(program());
    let recorder = Recorder::start_as(lacking, &format!("-p {pid}"));
    client.let_go();
    let report = recorder.stop();
    client.finish();
    server.finish();
    let own = report.by_ports(Some(local), Some(port));
    assert_eq!(own.len(), 1, "{}", report.brief());
    assert_owned(&report, local, pid);
    assert_eq!(own[0]["mptcp"], Value::Null);
    let sockets = report.json["sockets"].as_array().expect("sockets");
    let mptcp = sockets.iter().find(|line| line["kind"] == "mptcp");
    assert_eq!(mptcp.expect("counted")["open"], 1);
}

/// Two namespaces with two paths between them; the second end is that of the process with this id.
fn two_paths(client: &Netns, server_pid: u32, server: &Netns) {
    let mut ip = Vec::new();
    for path in [1, 2] {
        ip.push((
            client,
            format!("link add c{path} type veth peer name s{path} netns {server_pid}"),
        ));
        ip.push((client, format!("address add 10.77.{path}.1/24 dev c{path}")));
        ip.push((client, format!("link set c{path} up")));
        ip.push((server, format!("address add 10.77.{path}.2/24 dev s{path}")));
        ip.push((server, format!("link set s{path} up")));
    }
    ip.push((
        server,
        "mptcp limits set subflows 2 add_addr_accepted 2".to_owned(),
    ));
    ip.push((
        client,
        "mptcp limits set subflows 2 add_addr_accepted 2".to_owned(),
    ));
    ip.push((
        client,
        "mptcp endpoint add 10.77.2.1 dev c2 subflow".to_owned(),
    ));
    for (netns, arguments) in ip {
        finish(netns.command("ip").args(arguments.split_whitespace())).assert_status(0);
    }
}

/// Both subflows name their connection; the first has its calls.
#[test]
fn both_subflows_name_their_mptcp_connection() {
    if !root() {
        return;
    }
    let (here, there) = (Netns::new().expect("one"), Netns::new().expect("two"));
    let server = Talker::go(&there, "server :0");
    let port = server.port();
    two_paths(&here, server.pid(), &there);
    // the kernel itself opens the second subflow, in no process
    let recorder = Recorder::start("--comm sockets");
    let mut client = Talker::go(
        &here,
        &format!("client 10.77.1.2:{port} {REQUESTS} mptcp+1"),
    );
    let (local, pid) = (client.port(), client.pid());
    client.let_go();
    let truth = client.finish();
    let served = server.finish();
    let report = recorder.stop();
    report.assert_whole();
    let own = report.by_ports(None, Some(port));
    assert_eq!(own.len(), 2, "{}", report.brief());
    for subflow in &own {
        assert_eq!(
            text(&subflow["mptcp"], "token"),
            format!("{:08x}", number(&truth, "/token"))
        );
        assert_eq!(subflow["mptcp"]["subflows"], 2);
        assert_eq!(subflow["process"]["pid"], pid);
    }
    assert_eq!(moved(&report, local), counted(&truth));
    let further = own
        .iter()
        .find(|it| !text(it, "local").ends_with(&format!(":{local}")));
    let further = further.expect("the second subflow");
    assert_eq!(
        further["totals"]["send_calls"],
        Value::Null,
        "not zero: not seen"
    );
    let ends = report.by_ports(Some(port), None);
    assert_eq!(ends.len(), 2);
    assert_eq!(moved(&report, port), counted(&served));
    let output = finish(whylat("report").arg(report.path()));
    assert!(
        output.out.contains("with 1 other recorded"),
        "{}",
        output.out
    );
}

/// An agent, which begins after the connection, counts the calls on the MPTCP socket.
#[test]
fn agent_counts_mptcp_calls() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let (server, mut client, port) = connected(&netns);
    let local = client.port();
    let agent = Agent::start(&netns);
    client.let_go();
    let truth = client.finish();
    server.finish();
    let (dataset, _scratch) = agent.stop();
    let own = dataset.connection_by_ports(local, port);
    assert_eq!(own.process.as_deref(), Some("sockets"), "{own:?}");
    let rows = dataset.intervals();
    let sums = [
        sum(&rows, own.conn_id, |row| row.reads),
        sum(&rows, own.conn_id, |row| row.writes),
        sum(&rows, own.conn_id, |row| row.read_bytes),
        sum(&rows, own.conn_id, |row| row.written_bytes),
    ];
    let counted = counted(&truth).map(|it| i64::try_from(it).expect("few"));
    assert_eq!(sums, counted);
}

/// `whylat top` finds an MPTCP connection of a process, with its other end.
#[test]
fn top_shows_mptcp_connection() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let server = Talker::go(&netns, "server :0");
    let port = server.port();
    let client = format!("client 127.0.0.1:{port} {REQUESTS} mptcp");
    let client = Talker::go(&netns, &client);
    let top = format!(
        "top --once --json --detail calls --interval 0.2 -p {}",
        client.pid()
    );
    let output = finish(&mut whylat(&top));
    output.assert_status(0);
    let live: Value = serde_json::from_str(&output.out).expect("JSON");
    let connections = live["connections"].as_array().expect("connections");
    let mut pids: Vec<u64> = connections
        .iter()
        .map(|it| number(it, "/process/pid"))
        .collect();
    pids.sort_unstable();
    let mut expected = [client.pid(), server.pid()].map(u64::from);
    expected.sort_unstable();
    assert_eq!(pids, expected, "{live:#}");
    client.finish();
    server.finish();
}
