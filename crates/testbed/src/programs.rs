//! Programs that were not written for these tests, started in a namespace.

use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use lab::Netns;

use crate::process::{ChildGuard, until};

/// Any port will do: the namespaces are the tests' own.
pub const PORT: u16 = 6007;

/// Returns a port that only this test uses, also beside the same test of another checkout: a recording by port sees the
/// namespaces of all. Such ports lie below those that the kernel gives out.
pub fn own_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let number = std::process::id() * 8 + TAKEN.fetch_add(1, Ordering::Relaxed);
    20_000 + (number % 12_000) as u16
}

/// Starts a command in a namespace; its output is dropped.
pub fn tied(netns: &Netns, command: &str) -> ChildGuard {
    let mut program = netns.command("sh");
    program.args(["-c", &format!("exec {command}")]);
    ChildGuard::start(program.stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Waits until a socket listens at the port, without a connection to it.
pub fn until_listening(netns: &Netns, port: u16) {
    let sought = format!(":{port:04X} ");
    until("a listening server", || {
        let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
        let text = netns.run(|| tables.map(|path| std::fs::read_to_string(path).ok()));
        let found = text.ok()?.into_iter().flatten().any(|text| {
            // State 0A is TCP_LISTEN.
            text.lines()
                .any(|line| line.contains(&sought) && line.contains(" 0A "))
        });
        found.then_some(())
    });
}
