//! `task-server`: answers requests, and does one kind of work for some of them, or beside them.
//!
//! In: which work, how much of it, for every how many requests; whether it is done in requests or, as in the healthy twin, by
//! a thread of its own. Out: the requests, and the time that the work took in them. [`work`] has the kinds of work, [`other`]
//! the processes that take part.

mod other;
mod work;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Args;
use serde::Serialize;

pub(crate) use other::{Drain, Helper, StopParent};
pub(crate) use work::{Work, WorkKind};

use super::context::Context;
use super::cpu::ThreadCpu;
use super::peer::{ConnectionTruth, Peer, SocketOptions, accept, listen, pause_us, port_of};
use super::shortage::Shortage;
use super::threads::{join_threads, start};
use super::until_end::{is_readable, serve_until_end};
use crate::clock::now_ns;
use crate::error::LabError;

/// Options of `task-server`.
#[derive(Debug, Args)]
pub(crate) struct TaskServer {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Bytes of a request, and of a reply.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Kind of work.
    #[arg(long, value_enum, default_value = "none")]
    work: WorkKind,
    /// How much of it: microseconds or pages.
    #[arg(long, default_value_t = 0)]
    amount: u64,
    /// Works for every so many requests.
    #[arg(long, default_value_t = 1)]
    every: u64,
    /// Does the work in a thread of its own; requests do not wait for it.
    #[arg(long)]
    beside: bool,
    /// Closes a connection that was idle for so long.
    #[arg(long)]
    idle_us: Option<u64>,
    /// Takes so long to close it: what has come meanwhile is not read.
    #[arg(long, default_value_t = 0)]
    sweep_us: u64,
    /// Reads one byte of each connection, and closes it.
    #[arg(long)]
    refuse: bool,
    /// Has so many descriptors for connections, until accept() has failed for a time.
    #[arg(long)]
    descriptors: Option<u64>,
    /// That time.
    #[arg(long, default_value_t = 0)]
    shortage_us: u64,
}

/// Truth that `task-server` prints: its requests, the work that they took, and the CPU time of its second thread.
#[derive(Debug, Serialize)]
pub(crate) struct TaskTruth {
    requests: u64,
    /// Requests with work.
    worked: u64,
    /// Time that the work took in requests.
    work_ns: u64,
    /// Connections that it closed although there was data to read.
    resets: u64,
    /// Calls of accept() that failed.
    failed_accepts: u64,
    /// The thread that works beside requests.
    thread_beside: Option<ThreadCpu>,
    connections: Vec<ConnectionTruth>,
}

/// Requests of one connection and the work that they took, ns.
struct ServedTasks {
    requests: u64,
    worked: u64,
    work_ns: u64,
    is_reset: bool,
    connection: ConnectionTruth,
}

impl TaskServer {
    /// Accepts connections and works for each request.
    pub(crate) fn run(&self, context: &Context) -> Result<TaskTruth, LabError> {
        let listener = listen(self.listen, &SocketOptions::default())?;
        let work = Work::new(self.work, self.amount, self.beside)?;
        let shortage = self
            .descriptors
            .map(|free| Shortage::begin(free, self.shortage_us));
        let mut shortage = shortage.transpose()?;
        context.ready(port_of(&listener)?)?;
        let ended = Arc::new(AtomicBool::new(false));
        let (served, thread_beside) = thread::scope(|scope| {
            let is_over = Arc::clone(&ended);
            let work = &work;
            work.hold_locks(scope, Arc::clone(&ended))?;
            let beside = self
                .beside
                .then(|| start(scope, move || work.repeat_until(&is_over)));
            let beside = beside.transpose()?;
            let accept_one = |listener: &TcpListener| match &mut shortage {
                Some(shortage) => shortage.accept(listener),
                None => accept(listener).map(Some),
            };
            let served = serve_until_end(&listener, accept_one, |peer| self.serve(peer, work));
            ended.store(true, Ordering::Relaxed);
            let beside = join_threads(beside.into_iter().collect())?;
            Ok::<_, LabError>((served?, beside.into_iter().flatten().next()))
        })?;
        Ok(TaskTruth {
            requests: served.iter().map(|one| one.requests).sum(),
            worked: served.iter().map(|one| one.worked).sum(),
            work_ns: served.iter().map(|one| one.work_ns).sum(),
            thread_beside,
            failed_accepts: shortage.map_or(0, |it| it.failures),
            resets: served.iter().filter(|one| one.is_reset).count() as u64,
            connections: served.into_iter().map(|one| one.connection).collect(),
        })
    }

    /// Answers the requests of one connection, with this work.
    fn serve(&self, mut peer: Peer, work: &Work) -> Result<ServedTasks, LabError> {
        let mut request = vec![0; self.bytes];
        let (mut requests, mut worked, mut work_ns) = (0, 0, 0);
        if self.refuse {
            peer.recv_exact(&mut request[..1])?;
        }
        while !self.refuse && !self.is_idle(&peer)? && peer.recv_exact(&mut request)? {
            requests += 1;
            if !self.beside && requests % self.every.max(1) == 0 {
                let begin_ns = now_ns();
                work.perform()?;
                work_ns += now_ns() - begin_ns;
                worked += 1;
            }
            peer.send_all(&request)?;
        }
        Ok(ServedTasks {
            requests,
            worked,
            work_ns,
            is_reset: is_readable(&peer.stream, Some(0))? && has_data(&peer.stream),
            connection: peer.close(),
        })
    }

    /// Waits for data; true: none came for so long that the connection is to be closed.
    fn is_idle(&self, peer: &Peer) -> Result<bool, LabError> {
        let Some(idle_us) = self.idle_us else {
            return Ok(false);
        };
        let is_idle = !is_readable(&peer.stream, Some(idle_us))?;
        if is_idle {
            pause_us(self.sweep_us);
        }
        Ok(is_idle)
    }
}

/// Returns whether there is data, and not only the end of the stream.
fn has_data(stream: &TcpStream) -> bool {
    stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0)
}
