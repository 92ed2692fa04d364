//! Sequence of the requests of a service: on a connection, and by the thread that asks.

use super::control::{CONTROL_MOST_BYTES, CONTROLLED_LEAST_BYTES};
use crate::histogram::Histogram;

/// Requests of a service in the order in which they ended.
#[derive(Debug, Default)]
pub struct SeriesDigest {
    /// Connections that had a request.
    pub connections: u64,
    /// Most requests of one connection.
    pub requests_most: u64,
    /// Threads that sent or took a request.
    pub threads: u64,
    /// Time from a response to the next request on the same connection.
    pub gaps: Histogram,
    /// Sum of these, ns.
    pub gaps_ns: u64,
    /// Requests that a thread sent or took after the response to its request before, on any connection of the service.
    pub followed: u64,
    /// Time between these, ns.
    pub followed_gaps_ns: u64,
    /// Requests that only let the other end send on.
    pub credits: u64,
    /// Requests that a thread sent or took before the response to its request before.
    pub overlapping: u64,
}

/// The request before another one, of a connection or of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestBefore {
    /// There was none.
    None,
    /// It ended then, ns.
    Ended(u64),
    /// It came after the last window, if at all.
    Unseen,
}

/// The requests of one connection, as far as they are over.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectionSeries {
    /// How many.
    requests: u64,
    /// When the last response ended; `None`: after the last window, if at all.
    answered_ns: Option<u64>,
    /// Bytes of the largest request so far.
    largest_bytes: u64,
}

impl ConnectionSeries {
    /// Returns the bytes of the connection's largest request so far.
    pub const fn largest_bytes(&self) -> u64 {
        self.largest_bytes
    }

    /// Ends the series at the end of a window: what follows is another series.
    pub fn cut(&mut self) {
        self.answered_ns = None;
    }

    /// Returns how many bytes a request let the other end send, if it only does that: it is as small as a protocol's own
    /// messages, and smaller than a request before it. Else 0.
    pub fn credit_bytes(&mut self, request_bytes: u64, response_bytes: u64) -> u64 {
        let is_credit = request_bytes <= CONTROL_MOST_BYTES
            && request_bytes < self.largest_bytes
            && response_bytes >= CONTROLLED_LEAST_BYTES;
        self.largest_bytes = self.largest_bytes.max(request_bytes);
        if is_credit { response_bytes } else { 0 }
    }
}

impl SeriesDigest {
    /// Adds the next request of a connection and its thread.
    pub fn add(
        &mut self,
        connection: &mut ConnectionSeries,
        before: RequestBefore,
        (begin_ns, end_ns): (u64, u64),
    ) {
        if let Some(answered_ns) = connection.answered_ns {
            let gap_ns = begin_ns.saturating_sub(answered_ns);
            self.gaps.add(gap_ns);
            self.gaps_ns += gap_ns;
        }
        self.connections += u64::from(connection.requests == 0);
        connection.requests += 1;
        connection.answered_ns = Some(end_ns);
        self.requests_most = self.requests_most.max(connection.requests);
        match before {
            RequestBefore::None => self.threads += 1,
            RequestBefore::Unseen => {}
            RequestBefore::Ended(before_ns) => match begin_ns.checked_sub(before_ns) {
                Some(gap_ns) => {
                    self.followed += 1;
                    self.followed_gaps_ns += gap_ns;
                }
                None => self.overlapping += 1,
            },
        }
    }
}
