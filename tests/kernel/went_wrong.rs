//! Failures on sockets: attempts to connect that fail, a connection that a RST ends, name servers that do not answer.
//! Each as often as the program caused it.

use std::process::Command;

use nix::errno::Errno;
use table::tables::{Connection, DnsWait, FailedConnect};

use testbed::report::Report;
use testbed::{finish, program, root};

/// Makes a loopback of its own, with one port for clients.
const SOURCE: &str = include_str!("programs/went_wrong.py");

/// Of each kind; as in the program.
const ROUNDS: usize = 31;

fn record() -> (Report, u32) {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut run = Command::new("unshare");
    run.arg("--net").arg(program());
    run.args(["run", "--as-root", "--detail", "waits", "--output"]);
    run.arg(scratch.path().join("r.whylat"));
    let output = finish(run.args(["--", "python3", "-c", SOURCE]));
    let pid = output
        .assert_status(0)
        .out
        .lines()
        .next()
        .map(str::to_owned);
    let pid = pid.and_then(|line| line.parse().ok());
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    (report, pid.expect("its process id"))
}

/// A wait passes no hook if the agent of a sandbox ran before its end: a tenth at most.
#[test]
fn failures_have_their_errno_and_name_servers_their_address() {
    if !root() {
        return;
    }
    let (report, pid) = record();
    let failed = report.rows::<FailedConnect>();
    let of = |errno: i32| failed.iter().filter(move |it| it.errno == Some(errno));
    let refused: Vec<_> = of(Errno::ECONNREFUSED as i32).collect();
    assert_eq!(refused.len(), ROUNDS, "{failed:#?}");
    let mut ports = refused.iter().map(|it| it.local.as_deref());
    assert!(ports.all(|local| local == Some("127.0.0.1:40000")));
    let without_port: Vec<_> = of(Errno::EADDRNOTAVAIL as i32).collect();
    assert_eq!(without_port.len(), ROUNDS, "{failed:#?}");
    let is_whole = |it: &&FailedConnect| it.local.is_none() && it.remote == "127.0.0.1:5000";
    assert!(without_port.iter().all(is_whole), "{without_port:#?}");
    assert!(failed.iter().all(|it| (it.pid, it.tid) == (pid, pid)));
    assert_eq!(failed.len(), 2 * ROUNDS);

    let connections = report.rows::<Connection>();
    let reset = connections.iter().filter(|it| it.errno.is_some());
    let reset: Vec<_> = reset.map(|it| (it.local.as_str(), it.errno)).collect();
    assert_eq!(reset, [("127.0.0.1:40000", Some(Errno::ECONNRESET as i32))]);

    let waits = report.rows::<DnsWait>();
    let own = waits
        .iter()
        .all(|it| it.server == "127.0.0.53:53" && it.tid == pid);
    assert!(own, "{waits:#?}");
    for is_answered in [true, false] {
        let count = waits.iter().filter(|it| it.answered == is_answered).count();
        let rounds = ROUNDS - ROUNDS / 10..=ROUNDS;
        assert!(rounds.contains(&count), "{is_answered}: {count}");
    }
}
