//! The agent as a guest of its host: what it keeps of its privileges, what it says that it cannot see, what it takes up
//! while it runs, and connections that no process calls on.

use std::io::{IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use lab::Netns;
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use table::fleet::FleetConnection;
use tempfile::TempDir;

use crate::doctor::other_netns_limit;
use crate::privileges::{assert_kept, documented};
use crate::sockmap::HandsOn;
use testbed::agents::{Agent, TESTS, assert_no_gaps, configure, metrics_page, sum};
use testbed::{finish, program, root, until};

/// Both ends of a connection over loopback.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let client = TcpStream::connect(address).expect("a connection");
    (client, listener.accept().expect("a connection").0)
}

fn port(stream: &TcpStream) -> u16 {
    stream.local_addr().expect("an address").port()
}

/// Writes once, and waits until it has come.
fn exchange((client, server): &mut (TcpStream, TcpStream)) {
    client.write_all(b"once").expect("a write");
    server.read_exact(&mut [0; 4]).expect("a read");
}

/// A metric without labels, as the agent in a namespace reports it.
fn metric(netns: &Netns, name: &str) -> Option<f64> {
    let page = metrics_page(netns)?;
    let mut values = page.lines().filter_map(|line| line.strip_prefix(name));
    values.find_map(|value| value.trim().parse().ok())
}

#[test]
fn agent_keeps_required_capabilities() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let agent = Agent::start(&netns);
    assert_kept(agent.process.0.id(), &documented("`whylat agent`"), 0);
    // which is enough: to read what it watches, to look for owners, and to write
    let mut pair = netns.run(connection).expect("a connection");
    exchange(&mut pair);
    let dataset = agent.dataset();
    until("the connection in the dataset", || {
        let row = dataset.connections().into_values().next()?;
        row.process.is_some().then_some(())
    });
    until("the cost of its programs", || {
        let rows = dataset.coverage();
        rows.iter().any(|row| row.bpf_us.is_some()).then_some(())
    });
    let (dataset, _scratch) = agent.stop();
    assert_no_gaps(&dataset.coverage());
}

/// A command of nobody's with these capabilities.
fn nobody(netns: &Netns, capabilities: &str) -> Command {
    let mut command = netns.command("setpriv");
    command.args(["--reuid", "65534", "--clear-groups"]);
    for set in ["--inh-caps", "--ambient-caps", "--bounding-set"] {
        command.arg(format!("{set}=-all{capabilities}"));
    }
    command
}

/// A directory that an agent of any user can use, and a command for one of nobody's with these capabilities.
fn of_nobody(netns: &Netns, capabilities: &str) -> (TempDir, Command) {
    let scratch = tempfile::tempdir().expect("a directory");
    configure(scratch.path(), "calls", TESTS);
    for path in [scratch.path().to_owned(), scratch.path().join("dataset")] {
        std::fs::create_dir_all(&path).expect("a directory");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(path, open).expect("chmod");
    }
    let mut command = nobody(netns, capabilities);
    command.arg(program());
    (scratch, command)
}

#[test]
fn agent_needs_two_capabilities() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let mut before = netns.run(connection).expect("a connection");
    let needed = ",+bpf,+perfmon";
    let (scratch, mut command) = of_nobody(&netns, needed);
    let agent = Agent::start_by(&mut command, scratch);
    let mut after = netns.run(connection).expect("a connection");
    exchange(&mut before);
    exchange(&mut after);
    let ports = [port(&before.0), port(&after.0)];
    let (dataset, _scratch) = agent.stop();
    let rows = dataset.connections();
    for port in ports {
        let row = rows.values().find(|row| row.local_port == i32::from(port));
        let row = row.unwrap_or_else(|| panic!("{port} is not in {rows:?}"));
        assert_eq!(row.app.as_deref(), Some("tests"), "{row:?}");
        let writes = sum(&dataset.intervals(), row.conn_id, |row| row.writes);
        assert_eq!(writes, 1, "{row:?}");
    }
    // it watches its own network namespace alone
    for row in dataset.coverage() {
        assert_eq!(row.lacks, None, "{row:?}");
    }
    for (others, missing) in [(",+perfmon", "CAP_BPF"), (",+bpf", "CAP_PERFMON")] {
        let (scratch, mut command) = of_nobody(&netns, others);
        command.arg("agent").arg("--config");
        finish(command.arg(scratch.path().join("agent.toml")))
            .assert_status(1)
            .explains(missing);
    }
}

/// Some kernels refuse iterators over maps: a walk of other namespaces needs CAP_SYS_ADMIN there.
#[test]
fn agent_of_the_host_names_namespaces_that_it_cannot_walk() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let needed = ",+bpf,+perfmon";
    let (scratch, mut command) = of_nobody(&netns, needed);
    let config = scratch.path().join("agent.toml");
    let own = std::fs::read_to_string(&config).expect("a configuration");
    let host = own.replace("netns = \"own\"", "netns = \"host\"");
    std::fs::write(&config, host).expect("a configuration");
    let agent = Agent::start_by(&mut command, scratch);
    let (dataset, _scratch) = agent.stop();
    let limit = other_netns_limit(&mut nobody(&netns, needed));
    for row in dataset.coverage() {
        let namespaces = |why: &String| format!("all network namespaces: {why}. It sees only ");
        match (&row.lacks, limit.as_ref().map(namespaces)) {
            (None, None) => {}
            (Some(lacks), Some(only)) => {
                assert!(lacks.starts_with(&only) && !lacks.contains(';'), "{lacks}");
            }
            unequal => panic!("the agent and the doctor do not say the same: {unequal:?}"),
        }
    }
}

#[test]
fn agent_reports_coverage_gaps() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let scratch = tempfile::tempdir().expect("a directory");
    configure(scratch.path(), "calls", TESTS);
    let mut command = netns.command("unshare");
    command
        .args(["--pid", "--fork", "--kill-child"])
        .arg(program());
    let agent = Agent::start_by(&mut command, scratch);
    let output = agent.says("cannot see who owns a connection");
    assert!(output.contains("hint: "), "{output}");
    assert_eq!(metric(&netns, "whylat_agent_lacks "), Some(1.0));
    let mut pair = netns.run(connection).expect("a connection");
    exchange(&mut pair);
    let dataset = agent.dataset();
    let of_pair = i32::from(port(&pair.0));
    let row = until("the connection in the dataset", || {
        let rows = dataset.connections().into_values();
        rows.into_iter().find(|row| row.local_port == of_pair)
    });
    // the name is the kernel's; under this process id, /proc would show another process, or none
    assert_eq!((row.process.is_some(), &row.app), (true, &None), "{row:?}");
    let lacks = until("an interval", || {
        Some(dataset.coverage()).filter(|rows| !rows.is_empty())
    });
    for row in lacks {
        let lacks = row.lacks.expect("something is lacking");
        assert!(lacks.contains("pid namespace"), "{lacks}");
    }
}

#[test]
fn agent_reloads_valid_configuration_only() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let agent = Agent::start(&netns);
    let path = agent.path().to_owned();
    let application = || {
        let mut pair = netns.run(connection).expect("a connection");
        exchange(&mut pair);
        let of_pair = i32::from(port(&pair.0));
        let dataset = agent.dataset();
        until("the connection in the dataset", || {
            let rows = dataset.connections().into_values();
            let row = rows.into_iter().find(|row| row.local_port == of_pair)?;
            row.app
        })
    };
    let successful = "whylat_config_last_reload_successful ";
    assert_eq!(application(), "tests");
    let renamed = TESTS.replace("\"tests\"", "\"renamed\"");
    for (rules, complaint) in [
        (
            renamed.replace("command", "comand"),
            "unknown field `comand`",
        ),
        (renamed.replace("'/kernel-", "'(/kernel-"), "application"),
        (renamed.replace("[[app", "[no such\n[[app"), "agent.toml:"),
    ] {
        configure(&path, "calls", &rules);
        agent.process.signal(Signal::SIGHUP);
        let output = agent.says(complaint);
        assert!(
            output.contains("the old configuration stays in use"),
            "{output}"
        );
        assert_eq!(metric(&netns, successful), Some(0.0));
        assert_eq!(application(), "tests");
    }
    configure(&path, "stats", &renamed);
    agent.process.signal(Signal::SIGHUP);
    agent.says("detail differs, which an agent cannot change while it runs");
    configure(&path, "calls", &renamed);
    agent.process.signal(Signal::SIGHUP);
    agent.says("the new configuration is in use");
    assert_eq!(metric(&netns, successful), Some(1.0));
    assert_eq!(application(), "renamed");
    agent.stop();
}

#[test]
fn agent_logs_target_failure_and_recovery() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let agent = Agent::start(&netns);
    let (there, away) = (agent.path().join("dataset"), agent.path().join("away"));
    std::fs::rename(&there, &away).expect("a target that is away");
    agent.says("hint: the directory must exist");
    until("a second failure", || {
        let failures = metric(&netns, "whylat_ship_failures_total ")?;
        (failures >= 2.0).then_some(())
    });
    std::fs::rename(&away, &there).expect("a target that is there again");
    let output = agent.says("takes files again");
    assert_eq!(output.matches("cannot deliver to ").count(), 1, "{output}");
    agent.stop();
}

/// Puts a descriptor where no process has it: into a message that nobody takes.
fn park(socket: TcpStream) -> (UnixStream, UnixStream) {
    let parked = UnixStream::pair().expect("sockets");
    let descriptors = [socket.as_raw_fd()];
    let message = [ControlMessage::ScmRights(&descriptors)];
    let bytes = [IoSlice::new(b"x")];
    sendmsg::<()>(
        parked.0.as_raw_fd(),
        &bytes,
        &message,
        MsgFlags::empty(),
        None,
    )
    .expect("sent");
    parked
}

#[test]
fn kernel_connection_has_a_row() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let (mut client, source) = netns.run(connection).expect("a connection");
    let (sender, mut server) = netns.run(connection).expect("a connection");
    let hands_on = HandsOn::from_to(&source, &sender);
    let of_kernel = (port(&sender), port(&server));
    let parked = park(sender);
    let agent = Agent::start(&netns);
    let mut hand_on = |times: usize| {
        for _ in 0..times {
            client.write_all(b"handed").expect("a write");
            server.read_exact(&mut [0; 6]).expect("handed on");
        }
    };
    // the first reading only has the values at which its counters begin
    hand_on(1);
    let dataset = agent.dataset();
    let row = until("the connection in the dataset", || {
        let rows = dataset.connections().into_values();
        let is_it = |row: &FleetConnection| row.local_port == i32::from(of_kernel.0);
        rows.into_iter().find(is_it)
    });
    hand_on(7);
    let (dataset, _scratch) = agent.stop();
    assert_eq!(row.peer_port, i32::from(of_kernel.1));
    assert_eq!((row.pid, row.opened_ns), (None, None), "{row:?}");
    let written = sum(&dataset.intervals(), row.conn_id, |row| row.written_bytes);
    assert_eq!(
        written,
        (1 + 7) * 6,
        "its calls are counted from the first on"
    );
    drop((hands_on, parked));
}
