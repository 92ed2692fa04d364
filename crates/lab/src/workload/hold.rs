//! `hold-open`: many established loopback connections that do nothing, to measure what
//! watching them costs. Both ends of a connection are sockets of this role, so N
//! connections are 2 N sockets. They are spread over processes, because a process may
//! have only so many descriptors.

use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use serde::Serialize;
use socket2::SockRef;

use super::context::Context;
use super::peer::{Peer, SocketOptions, accept, listen, port_of};
use crate::error::LabError;

/// Descriptors kept free for everything that is not a held connection.
const DESCRIPTORS_SPARE: u64 = 64;
/// One listening port takes at most the ephemeral port range (28,232 by default).
const CONNECTIONS_PER_PORT: u64 = 25_000;
const HINT_LIMIT: &str = "ask for fewer connections or raise ulimit -n";

/// Options of `hold-open`.
#[derive(Debug, Args)]
pub(crate) struct HoldOpen {
    /// Connections to open; each is two sockets.
    connections: u64,
}

/// Truth that `hold` prints: counts of connections, sockets and processes that it kept open.
#[derive(Debug, Serialize)]
pub(crate) struct HoldTruth {
    connections_held: u64,
    sockets_held: u64,
    processes: usize,
}

/// A process that holds a share of the connections.
struct HolderProcess {
    pid: Pid,
    ready: PipeReader,
    /// Closing it lets the holder end; so does the death of this process.
    _release: PipeWriter,
}

impl HoldOpen {
    /// Holds many connections open, in several processes.
    pub(crate) fn run(&self, context: &Context) -> Result<HoldTruth, LabError> {
        let per_process = connections_per_process()?;
        let mut holders = Vec::new();
        let mut left = self.connections;
        while left > 0 {
            let share = left.min(per_process);
            holders.push(HolderProcess::start(share)?);
            left -= share;
        }
        let mut held = 0;
        for holder in &mut holders {
            held += holder.wait_ready()?;
        }
        context.ready(0)?;
        // Only the end of stdin counts, not what comes over it.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let processes = holders.len();
        let pids: Vec<Pid> = holders.iter().map(|holder| holder.pid).collect();
        // All pipes first: a later process inherited the earlier ones' and keeps them
        // open until it ends itself.
        drop(holders);
        for pid in pids {
            waitpid(pid, None).map_err(|why| {
                LabError::os("wait for", format!("process {pid}"), why, "report this")
            })?;
        }
        Ok(HoldTruth {
            connections_held: held,
            sockets_held: held * 2,
            processes,
        })
    }
}

impl HolderProcess {
    /// Starts a process that holds a share of the connections.
    fn start(share: u64) -> Result<Self, LabError> {
        let hint = "raise ulimit -n or ulimit -u";
        let pipes = || Ok::<_, io::Error>((pipe()?, pipe()?));
        let ((ready, ready_pipe), (released, release)) =
            pipes().map_err(|why| LabError::os("make", "a pipe", why, hint))?;
        // SAFETY: roles start in the main thread of a process that has no other thread,
        // so the child may allocate and lock as usual.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { child }) => Ok(HolderProcess {
                pid: child,
                ready,
                _release: release,
            }),
            Ok(ForkResult::Child) => {
                drop((ready, release));
                let outcome = hold_memory(share, ready_pipe, released);
                if let Err(why) = &outcome {
                    eprintln!("error: {why}");
                }
                std::process::exit(i32::from(outcome.is_err()))
            }
            Err(why) => Err(LabError::os("start", "a process", why, hint)),
        }
    }

    /// Waits until the process has its connections; returns their number.
    fn wait_ready(&mut self) -> Result<u64, LabError> {
        let mut number = [0; 8];
        self.ready
            .read_exact(&mut number)
            .map_err(|why| LabError::os("open", "the connections", why, HINT_LIMIT))?;
        Ok(u64::from_le_bytes(number))
    }
}

/// Runs in the child: opens, reports, holds, resets.
fn hold_memory(
    share: u64,
    mut ready_pipe: PipeWriter,
    mut released: PipeReader,
) -> Result<(), LabError> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = SocketOptions::default();
    let listener = listen(any, &options)?;
    let to = SocketAddr::from(([127, 0, 0, 1], port_of(&listener)?));
    let mut held = Vec::new();
    for _ in 0..share {
        let client = Peer::connect(to, &options)?;
        let server = accept(&listener)?;
        // A reset at close: 50,000 sockets left in TIME_WAIT would burden whatever is
        // measured next.
        for end in [&client, &server] {
            SockRef::from(&end.stream)
                .set_linger(Some(Duration::ZERO))
                .map_err(|why| LabError::os("set", "SO_LINGER", why, HINT_LIMIT))?;
        }
        held.push((client, server));
    }
    ready_pipe
        .write_all(&share.to_le_bytes())
        .map_err(|why| LabError::os("write to", "the first process", why, "it has ended"))?;
    // Ends when the first process closes its end or dies.
    let _ = released.read(&mut [0]);
    Ok(())
}

/// Returns how many connections a process can have, by its limit of open files.
fn connections_per_process() -> Result<u64, LabError> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|why| LabError::os("read", "RLIMIT_NOFILE", why, HINT_LIMIT))?;
    // This process and its children only.
    let most = setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_or(soft, |()| hard);
    let connections = most.saturating_sub(DESCRIPTORS_SPARE) / 2;
    if connections == 0 {
        return Err(LabError::Option {
            option: "RLIMIT_NOFILE",
            value: most.to_string(),
            why: "too few descriptors to hold a connection",
            hint: "ulimit -n 20000",
        });
    }
    Ok(connections.min(CONNECTIONS_PER_PORT))
}
