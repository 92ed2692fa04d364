//! Messages to the service manager, at a real socket.
//!
//! One test, as the socket is named in the environment: it runs as a child process of itself.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use whylat_agent::notify::ServiceNotifier;

const CHILD: &str = "WHYLAT_AGENT_TEST_NOTIFY";

/// Sends all notifications of a service, as the child process of the test.
fn child() {
    let mut notify = ServiceNotifier::from_environment();
    assert_eq!(notify.watchdog(), Some(Duration::from_secs(10)));
    notify.ready();
    notify.alive();
    // not again so soon
    notify.alive();
    notify.status("watching 5 connections");
    notify.status("watching 5 connections");
    notify.reloading();
    notify.ready();
    notify.stopping();
}

#[test]
fn manager_is_notified() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("socket");
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.args(["--exact", "manager_is_notified"]);
    command.env(CHILD, "1").env("NOTIFY_SOCKET", &path);
    command.env("WATCHDOG_USEC", "20000000");
    let output = command.output().expect("child");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    socket.set_nonblocking(true).expect("socket");
    let mut received = Vec::new();
    let mut buffer = [0; 256];
    while let Ok(length) = socket.recv(&mut buffer) {
        received.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    let monotonic = received.get(3).map(String::as_str).unwrap_or_default();
    assert!(
        monotonic.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{received:?}"
    );
    let others: Vec<&str> = received
        .iter()
        .map(String::as_str)
        .filter(|one| *one != monotonic)
        .collect();
    assert_eq!(
        others,
        [
            "READY=1\n",
            "WATCHDOG=1\n",
            "STATUS=watching 5 connections\n",
            "READY=1\n",
            "STOPPING=1\n"
        ]
    );
}

#[test]
fn nothing_is_sent_without_manager() {
    if std::env::var_os("NOTIFY_SOCKET").is_some() {
        return;
    }
    let mut notify = ServiceNotifier::from_environment();
    assert_eq!(notify.watchdog(), None);
    notify.ready();
    notify.alive();
    notify.status("nobody hears it");
}
