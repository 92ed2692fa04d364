//! Inputs of the search for a request's path: the request, the history of all threads, and a limit of events to read.

use std::cell::Cell;

use super::endpoint::EndpointTable;
use super::history::History;
use super::id::{EndpointId, ThreadId};
use super::pace::ClientTurn;
use super::service::Side;

/// Events that are read for one stretch of a request, at least: a loop that serves many connections has more than matter.
/// More are read as long as [`HopCredit`] has some.
pub(super) const HOPS_LEAST: u32 = 1_000;

/// More events that are read for each call of a response, on average: so time stays linear in calls.
const HOPS_PER_CALL: u64 = 64;

/// Events that may be read before any call came.
const HOPS_AT_FIRST: u64 = 1 << 20;

/// The request that a path belongs to.
#[derive(Debug, Clone, Copy)]
pub struct PathContext {
    /// Its connection.
    pub own: EndpointId,
    /// The other end of that, if it is recorded.
    pub peer: Option<EndpointId>,
    /// Side of the connection on which this end is.
    pub side: Side,
    /// When the request began.
    pub begin_ns: u64,
    /// The thread that had the request, and since when.
    pub home: (ThreadId, u64),
    /// Of a client, the connection with the request that asked.
    pub served: Option<EndpointId>,
    /// It is served by the other end: what its threads wait for is judged there.
    pub(super) is_of_peer: bool,
    /// Its turn, as far as its sleeps may be its own pace.
    pub(super) turn: ClientTurn,
}

impl PathContext {
    /// Returns whether work for this connection's request is work for the request that is followed.
    pub(super) fn is_own(&self, served: EndpointId) -> bool {
        served == self.own || Some(served) == self.peer || Some(served) == self.served
    }

    /// Returns whether the server first read the request at `ns` or later: a timer before that delayed nothing.
    pub(super) fn is_unread_until(&self, ns: u64) -> bool {
        self.side == Side::Server && ns <= self.home.1
    }

    /// Returns whether time of other requests can be separated from that of this one.
    pub(super) fn has_others(&self) -> bool {
        self.side == Side::Server || self.served.is_some()
    }
}

/// Events that paths may read beyond the least number.
#[derive(Debug)]
pub struct HopCredit(Cell<u64>);

impl Default for HopCredit {
    fn default() -> Self {
        Self(Cell::new(HOPS_AT_FIRST))
    }
}

impl HopCredit {
    /// Adds the credit of a call.
    pub fn add_call(&self) {
        self.0.set(self.0.get().saturating_add(HOPS_PER_CALL));
    }

    /// Uses one of the hops to other threads; false if none is left.
    pub(super) fn take(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }
}

/// Finds the path of requests.
#[derive(Debug, Clone, Copy)]
pub struct PathFinder<'a> {
    /// Activity of all threads.
    pub history: &'a History,
    /// All connections.
    pub endpoints: &'a EndpointTable,
    /// Whether the recording has waits.
    pub has_waits: bool,
    /// Whether few calls were lost: a thread worked for one request between two of them.
    pub has_most_calls: bool,
    /// How much may be read.
    pub credit: &'a HopCredit,
}
