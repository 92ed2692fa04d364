//! Describes what a user without privileges gets: the statistics of one's own sockets and no others.
//! Needs root, to become another user.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use whylat_probe::processes::{SocketOwners, pids_of_uid};
use whylat_probe::self_cost::BpfTimeSampler;
use whylat_probe::tcp_stats::{Extensions, Poller, Scope, Selection};

const NOBODY: u32 = 65_534;
/// Ports of the parent's connection, which the child must not report.
const FOREIGN_PORT: &str = "WHYLAT_TEST_FOREIGN_PORT";

/// Opens a connection; returns client, server and the server's port.
fn connection() -> (TcpStream, TcpStream, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let client = TcpStream::connect(to).unwrap();
    (client, listener.accept().unwrap().0, to.port())
}

#[test]
fn only_own_sockets_are_selected() {
    let (_client, _server, port) = connection();
    // The build directory need not be open to others.
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = dir.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = Command::new(&program)
        .args([
            "--exact",
            "child_runs_as_nobody",
            "--ignored",
            "--nocapture",
        ])
        .env(FOREIGN_PORT, port.to_string())
        .current_dir("/")
        .gid(NOBODY)
        .uid(NOBODY)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && shown.contains("1 passed"),
        "{shown}\n{errors}"
    );
}

#[test]
#[ignore = "runs as another user, started by only_own_sockets_are_selected"]
fn child_runs_as_nobody() {
    assert_eq!(nix::unistd::getuid().as_raw(), NOBODY);
    let foreign: u16 = std::env::var(FOREIGN_PORT).unwrap().parse().unwrap();
    let (_client, _server, own) = connection();
    let (mut poller, refresh) = Poller::open(Scope::Host).unwrap();
    assert!(
        refresh.denied_processes > 0 && refresh.opened.len() == 1,
        "{refresh:?}"
    );
    let scan = SocketOwners::scan(pids_of_uid(NOBODY), u64::MAX);
    let mut selection = Selection::default();
    selection.set_inodes(scan.owners.keys().copied());
    let (mut visited, mut selected) = (Vec::new(), Vec::new());
    let report = poller.poll(Extensions::default(), |view| {
        visited.push(view.remote_port());
        if selection.matches(view) {
            selected.push(view.remote_port());
            assert_eq!(view.uid, NOBODY);
            assert!(view.info.is_some());
        }
    });
    assert!(report.failures.is_empty());
    assert!(visited.contains(&foreign) && visited.contains(&own));
    assert!(selected.contains(&own) && !selected.contains(&foreign));
    let mut sampler = BpfTimeSampler::new([], 1, 0).unwrap();
    let error = sampler.tick(sampler.next_ns()).unwrap_err().to_string();
    assert!(error.contains("hint: run as root"), "{error}");
}
