//! A reader that is stopped or frozen does not wait for data: what comes meanwhile is unread until it goes on.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use lab::{LabProcess, Netns, now_ns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use table::tables::Call;

use crate::select::{Group, remove_group};
use testbed::report::number;
use testbed::{Recorder, root, until};

const READER: &str = "
import socket
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
connection = listener.accept()[0]
while connection.recv(1): print(0, flush=True)
print(0)
";

/// The least time for which it is halted.
const HALT_NS: u64 = 5_000_000;

/// A control group of the freezer of version 1; removed with it.
struct OldFreezer(PathBuf);

impl OldFreezer {
    const ROOT: &str = "/sys/fs/cgroup/freezer";

    /// Makes one for a process; `None`: this host has none.
    fn with(pid: u32) -> Option<Self> {
        let path = Path::new(Self::ROOT).join(format!("whylat-test-{pid}"));
        fs::create_dir(&path).ok()?;
        let group = OldFreezer(path);
        fs::write(group.0.join("cgroup.procs"), pid.to_string()).expect("move a process");
        Some(group)
    }

    fn set(&self, state: &str) {
        let file = self.0.join("freezer.state");
        fs::write(&file, state).expect("freeze or thaw");
        until(state, || {
            (fs::read_to_string(&file).ok()?.trim() == state).then_some(())
        });
    }
}

impl Drop for OldFreezer {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("freezer.state"), "THAWED");
        remove_group(&self.0);
    }
}

/// Waits until the process is in this state (`/proc/PID/stat`).
fn until_state(pid: u32, state: &str) {
    until(state, || {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        text.rsplit_once(") ")?.1.starts_with(state).then_some(())
    });
}

/// Waits until a byte is in the receive queue of the connection at this port.
fn until_unread(netns: &Netns, port: u16) {
    let local = format!(":{port:04X} ");
    until("a byte that is not read", || {
        let text = netns.run(|| fs::read_to_string("/proc/thread-self/net/tcp"));
        let text = text.ok()?.ok()?;
        let mut queues = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let is_local = words.nth(1)?.ends_with(local.trim());
            let (state, queue) = (words.nth(1)?, words.next()?);
            (is_local && state == "01").then(|| queue.ends_with(":00000001"))
        });
        queues.any(|is_unread| is_unread).then_some(())
    });
}

#[test]
fn bytes_for_a_stopped_reader_are_unread() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let mut command = netns.command("python3");
    command.args(["-c", READER]);
    let mut reader = LabProcess::start(command).expect("start the reader");
    let port = u16::try_from(number(&reader.line().expect("its port"), "")).expect("a port");
    let pid = reader.pid();
    let (group, freezer) = (Group::new(), OldFreezer::with(pid));
    group.take(pid);
    let recorder = Recorder::start(&format!("-p {pid}"));
    let stream = netns.run(|| TcpStream::connect(("127.0.0.1", port)));
    let mut stream = stream.expect("the namespace").expect("connect");
    let mut halted_ns = Vec::new();
    let mut send = |halt: &dyn Fn(), go_on: &dyn Fn()| {
        until_state(pid, "S");
        halt();
        stream.write_all(b".").expect("send");
        until_unread(&netns, port);
        let begin_ns = now_ns();
        until("time passed", || {
            (now_ns() >= begin_ns + HALT_NS).then_some(())
        });
        halted_ns.push(now_ns() - begin_ns);
        go_on();
        reader.line().expect("it has read");
    };
    let signal = |signal| kill(Pid::from_raw(pid as i32), signal).expect("signal");
    let stop = || {
        signal(Signal::SIGSTOP);
        until_state(pid, "T");
    };
    send(&stop, &|| signal(Signal::SIGCONT));
    let freeze = |value: &str| {
        fs::write(format!("{}/cgroup.freeze", group.path()), value).expect("freeze or thaw");
        let events = format!("{}/cgroup.events", group.path());
        let wanted = format!("frozen {value}");
        until(&wanted, || {
            let text = fs::read_to_string(&events).ok()?;
            text.lines().any(|line| line == wanted).then_some(())
        });
    };
    send(&|| freeze("1"), &|| freeze("0"));
    if let Some(freezer) = &freezer {
        send(&|| freezer.set("FROZEN"), &|| freezer.set("THAWED"));
    }
    drop(stream);
    reader.finish().expect("it ends");
    let report = recorder.stop();
    report.assert_whole();
    let mut calls = report.rows::<Call>();
    calls.retain(|call| !call.is_send && call.result > 0);
    calls.sort_by_key(|call| call.offset_end);
    let unread = calls.iter().map(|call| call.unread_ns.expect("it is seen"));
    let unread: Vec<u64> = unread.collect();
    assert_eq!(unread.len(), halted_ns.len());
    for (unread_ns, halted_ns) in unread.iter().zip(&halted_ns) {
        // calls note microseconds
        assert!(unread_ns + 1_000 >= *halted_ns, "{unread:?} {halted_ns:?}");
    }
}
