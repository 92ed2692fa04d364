//! The tracks that several tables draw on: processes, threads, connections, CPUs. Each is made when it is first
//! needed.

use std::collections::HashMap;
use std::io;

use diagnose::messages::message::MessageDirection;
use diagnose::waits::NameTable;

use super::trace::{TraceWriter, TrackId, TrackKind};

/// A trace, and who is in it.
pub(super) struct TraceDrawing<'a> {
    pub(super) trace: TraceWriter<'a>,
    pub(super) names: &'a NameTable,
    processes: HashMap<u32, TrackId>,
    threads: HashMap<(u32, u32), TrackId>,
    connections: HashMap<u64, TrackId>,
    cpus: Option<TrackId>,
    flows: u64,
}

impl<'a> TraceDrawing<'a> {
    /// Begins a drawing, without tracks.
    pub(super) fn new(trace: TraceWriter<'a>, names: &'a NameTable) -> Self {
        Self {
            trace,
            names,
            processes: HashMap::new(),
            threads: HashMap::new(),
            connections: HashMap::new(),
            cpus: None,
            flows: 0,
        }
    }

    /// Returns the track of a process; makes it once.
    pub(super) fn process(&mut self, pid: u32) -> io::Result<TrackId> {
        if let Some(track) = self.processes.get(&pid) {
            return Ok(*track);
        }
        let of = TrackKind::Process(pid, self.names.comm(pid));
        let track = self.trace.track(of, None, None)?;
        self.processes.insert(pid, track);
        Ok(track)
    }

    /// Returns the track of a thread; makes it once. The first one has the process's name.
    pub(super) fn thread(&mut self, pid: u32, tid: u32) -> io::Result<TrackId> {
        if let Some(track) = self.threads.get(&(pid, tid)) {
            return Ok(*track);
        }
        let process = self.process(pid)?;
        let name = self.names.comm(pid).filter(|_| pid == tid);
        let of = TrackKind::Thread(pid, tid, name);
        let track = self.trace.track(of, Some(process), None)?;
        self.threads.insert((pid, tid), track);
        Ok(track)
    }

    /// Writes the name that a thread gave itself.
    pub(super) fn name_thread(&mut self, pid: u32, tid: u32, name: &str) -> io::Result<()> {
        let (process, track) = (self.process(pid)?, self.thread(pid, tid)?);
        let of = TrackKind::Thread(pid, tid, Some(name));
        self.trace.describe(track, of, Some(process), None)
    }

    /// A connection, listener or UDP socket, within its process if that is known.
    pub(super) fn connection(&mut self, conn: u64) -> io::Result<TrackId> {
        if let Some(track) = self.connections.get(&conn) {
            return Ok(*track);
        }
        let socket = self.names.connection(conn);
        let pid = socket.process.and_then(|process| process.pid);
        let process = pid.map(|pid| self.process(pid)).transpose()?;
        let track = (self.trace).track(TrackKind::Named(&socket.name), process, None)?;
        self.connections.insert(conn, track);
        Ok(track)
    }

    /// Returns the track that groups all CPUs; makes it once.
    pub(super) fn cpus(&mut self) -> io::Result<TrackId> {
        match self.cpus {
            Some(track) => Ok(track),
            None => {
                let track = self.trace.track(TrackKind::Group("CPUs"), None, None)?;
                Ok(*self.cpus.insert(track))
            }
        }
    }

    /// Returns a new number that connects events by arrows.
    pub(super) fn flow(&mut self) -> u64 {
        self.flows += 1;
        self.flows
    }
}

/// Returns the rank of a CPU's track: first its activity, then its messages.
pub(super) fn track_rank(cpu: u16, messages: Option<MessageDirection>) -> u16 {
    let place = match messages {
        None => 0,
        Some(MessageDirection::Received) => 1,
        Some(MessageDirection::Sent) => 2,
    };
    cpu.saturating_mul(3).saturating_add(place)
}
