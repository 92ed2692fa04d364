//! `whylat snapshot`: another process asks a running recorder to keep what its flight recorder holds. The
//! recorder has a socket without a file, with its pid in the name; it ends with the recorder.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;

const NAME: &str = "whylat.snapshot.";
/// A recorder looks at its socket twenty times a second, and keeps everything in much less than this.
const PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_MOST: u64 = 1_000;

/// Why nothing was kept.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// No recorder has a flight recorder.
    #[error(
        "no recorder with a flight recorder runs here\nhint: start one: whylat record --detail messages --keep p99 …"
    )]
    Nobody,
    /// Several do.
    #[error("several recorders run here: {0}\nhint: choose one with -p PID")]
    Several(String),
    /// No recorder with a flight recorder has this pid.
    #[error(
        "process {0} is no recorder with a flight recorder\nhint: list recorders with: pgrep -a whylat"
    )]
    Absent(u32),
    /// The recorder did not answer.
    #[error(
        "recorder {pid} did not answer: {source}\nhint: it must be your own process, or run this as root"
    )]
    Deaf {
        /// The recorder.
        pid: u32,
        /// Cause.
        source: io::Error,
    },
}

/// Asks a recorder to save its windows, the only one if no pid is given; returns its answer.
///
/// # Errors
/// When there is none or are several, or it does not answer.
pub fn snapshot(pid: Option<u32>) -> Result<String, SnapshotError> {
    let pid = match pid {
        Some(pid) => pid,
        None => the_only_one()?,
    };
    ask(pid).map_err(|source| match source.kind() {
        io::ErrorKind::ConnectionRefused => SnapshotError::Absent(pid),
        _ => SnapshotError::Deaf { pid, source },
    })
}

/// Asks a running flight recorder to keep what it has; returns its answer.
fn ask(pid: u32) -> io::Result<String> {
    let stream = UnixStream::connect_addr(&address(pid)?)?;
    // such names are anybody's to take
    let peer = getsockopt(&stream, PeerCredentials)?;
    if peer.pid() != pid.cast_signed() || !is_trusted(peer.uid()) {
        return Err(io::Error::other("another process answers instead of it"));
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    stream.take(ANSWER_MOST).read_to_string(&mut answer)?;
    if answer.is_empty() {
        return Err(io::Error::other("it refused"));
    }
    Ok(answer.trim_end().to_owned())
}

/// Returns the pid of the only flight recorder that runs; an error if none or several do.
fn the_only_one() -> Result<u32, SnapshotError> {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let pid = |line: &str| line.split_once(NAME)?.1.trim().parse().ok();
    let mut pids: Vec<u32> = sockets.lines().filter_map(pid).collect();
    pids.sort_unstable();
    pids.dedup();
    match pids[..] {
        [pid] => Ok(pid),
        [] => Err(SnapshotError::Nobody),
        _ => {
            let all: Vec<String> = pids.iter().map(u32::to_string).collect();
            Err(SnapshotError::Several(all.join(", ")))
        }
    }
}

/// Returns the address at which the recorder `pid` listens.
fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}{pid}"))
}

/// Waits for requests of other processes.
#[derive(Debug)]
pub(crate) struct SnapshotListener(UnixListener);

impl SnapshotListener {
    /// Listens for requests to keep what the flight recorder has.
    pub(crate) fn listen() -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Returns the next request of a trusted user; `None` if there is none.
    pub(crate) fn next(&self) -> Option<SnapshotRequest> {
        let (stream, _) = self.0.accept().ok()?;
        let uid = getsockopt(&stream, PeerCredentials).ok()?.uid();
        is_trusted(uid).then_some(SnapshotRequest(stream))
    }
}

/// Returns whether the user is root or the recorder's own.
fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// A request for a snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotRequest(UnixStream);

impl SnapshotRequest {
    /// Sends the answer; ignores a process that has gone away.
    pub(crate) fn answer(mut self, text: &str) {
        let _ = self.0.set_nonblocking(true);
        let _ = self.0.write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn nobody_else_answers_for_a_recorder() {
        let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = other.id();
        let _impostor = UnixListener::bind_addr(&address(pid).unwrap()).unwrap();
        let error = snapshot(Some(pid)).unwrap_err().to_string();
        drop(other.stdin.take());
        other.wait().unwrap();
        assert!(
            error.contains("instead of it") && error.contains("hint: "),
            "{error}"
        );
    }
}
