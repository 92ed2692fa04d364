//! Pauses of a server for which timers are the cause: before its response, or between the parts of one. Who made them, the
//! request or the server's own plan, shows by sizes only.

use super::control::CONTROL_MOST_BYTES;
use super::pace::ClientPace;

/// A part of a response that is larger than this fills a segment: an MTU of 1,500 (RFC 894) without the headers of IPv4 and
/// TCP. Messages about events are smaller.
const SEGMENT_BYTES: u64 = 1_460;

/// Pauses that a timer ended, within one response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponsePauses {
    /// Those before small messages, ns: the server may have sent these without being asked.
    pub unasked_ns: u64,
    /// Those before parts that fill segments, ns.
    pub paced_ns: u64,
    /// Number of these parts.
    pub paced: u64,
}

impl ResponsePauses {
    /// Adds the part of a response before which the server was idle for `pause_ns`, and that for a timer for `timer_ns`.
    /// Returns whether it may be a message that nobody asked for.
    pub fn add(&mut self, bytes: u64, pause_ns: u64, timer_ns: u64) -> bool {
        if bytes > SEGMENT_BYTES && timer_ns > pause_ns / 2 {
            self.paced_ns += timer_ns;
            self.paced += 1;
            return false;
        }
        self.unasked_ns += timer_ns;
        true
    }
}

/// Returns whether an exchange may be a server's ping and the client's answer, by its sizes. Both
/// are as small as a protocol's own messages, and the connection had a larger request before.
pub const fn may_be_pings(request_bytes: u64, response_bytes: u64, largest_bytes: u64) -> bool {
    request_bytes <= CONTROL_MOST_BYTES
        && response_bytes <= CONTROL_MOST_BYTES
        && largest_bytes > CONTROL_MOST_BYTES
}

/// Pauses of the requests of a service.
#[derive(Debug, Default)]
pub struct PauseDigest {
    /// Requests with messages that the server may have sent without being asked.
    pub unasked: u64,
    /// Sums of these.
    pub sums: ResponsePauses,
    /// Sleeps of clients by their own pace.
    pub pace: ClientPace,
}

impl PauseDigest {
    /// Adds the pauses of one response, and the pace of its client.
    pub fn add(&mut self, pauses: ResponsePauses, pace: &ClientPace) {
        self.pace.add(pace);
        self.unasked += u64::from(pauses.unasked_ns > 0);
        self.sums.unasked_ns += pauses.unasked_ns;
        self.sums.paced_ns += pauses.paced_ns;
        self.sums.paced += pauses.paced;
    }
}
