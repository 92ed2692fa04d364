//! Requests that a reset answered: the other end had closed the connection, and sent RST instead of a response.

use std::collections::HashMap;

use super::exchange::StreamRange;
use super::history::ThreadId;

/// Requests that are kept of a service; more are counted.
const KEPT_MOST: usize = 1 << 16;

/// How much of a request the other end had read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadExtent {
    /// Nothing, or the other end is not recorded.
    None,
    /// The first bytes.
    Part,
    /// All that was sent.
    Whole,
}

impl ReadExtent {
    /// Returns how much lies before `read_end`, the offset after the last byte of requests that was read; `None`: none was.
    pub fn new(request: StreamRange, read_end: Option<u64>) -> Self {
        match read_end {
            Some(end) if end >= request.end => Self::Whole,
            Some(end) if end > request.first => Self::Part,
            _ => Self::None,
        }
    }
}

/// A request that a reset answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostRequest {
    /// Its connection: the socket cookie.
    pub conn: u64,
    /// When its first byte was sent.
    pub begin_ns: u64,
    /// When its connection was closed.
    pub closed_ns: u64,
    /// How long the connection had been idle before; `None`: it was the first request.
    pub idle_ns: Option<u64>,
    /// Whether the other end had closed before (FIN) and answered with RST then.
    pub is_after_fin: bool,
    /// How much of it the other end had read before it closed.
    pub read: ReadExtent,
    /// Responses before it on the connection; `None`: the connection is older than the recording.
    pub responses: Option<u64>,
    /// When the thread began its next request to the service; `None`: it did not.
    pub next_ns: Option<u64>,
}

impl LostRequest {
    /// Returns the time until the thread asked again, or saw the end, ns.
    pub fn lost_ns(&self) -> u64 {
        let until_ns = self.next_ns.unwrap_or(self.closed_ns);
        until_ns.saturating_sub(self.begin_ns)
    }
}

/// Requests of a service that resets answered.
#[derive(Debug, Default)]
pub struct ResetDigest {
    /// The first ones.
    pub lost: Vec<LostRequest>,
    /// How many, those that are not kept included.
    pub count: u64,
    /// Last messages that need no response, and that a reset answered: nothing was lost.
    pub farewells: u64,
    /// Connections without any response that sent until the other end had closed (FIN), or until their last call: a transfer
    /// ended.
    pub transfers: u64,
    /// Requests without a response, on connections that closed without an error.
    pub unanswered: u64,
    /// Time from these to the ends of their connections, ns.
    pub unanswered_ns: u64,
    /// The latest of each thread.
    latest: HashMap<ThreadId, usize>,
}

impl ResetDigest {
    /// Adds a request of this thread that a reset answered.
    pub fn add(&mut self, thread: ThreadId, request: LostRequest) {
        self.count += 1;
        if self.lost.len() < KEPT_MOST {
            self.latest.insert(thread, self.lost.len());
            self.lost.push(request);
        }
    }

    /// Notes that the thread began another request after its lost one.
    pub fn follow(&mut self, thread: ThreadId, begin_ns: u64) {
        let latest = self.latest.get(&thread);
        let Some(lost) = latest.and_then(|at| self.lost.get_mut(*at)) else {
            return;
        };
        if begin_ns > lost.begin_ns {
            lost.next_ns = Some(lost.next_ns.map_or(begin_ns, |ns| ns.min(begin_ns)));
        }
    }
}
