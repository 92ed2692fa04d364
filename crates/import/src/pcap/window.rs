//! Room that a receiver leaves: is its window small because data lies unread?
//!
//! A window that is full at the receiver, with all data there, opens when the program reads. One with a quick reader opens at
//! once: it is full only of what is on its way. And data that is not read makes the window smaller.

use super::sequence::Offset;

/// Window that one end announces, and what it is full of.
#[derive(Debug, Clone, Copy, Default)]
pub struct WindowRoom {
    /// The other end may send what is before this offset.
    edge: Option<Offset>,
    largest_bytes: i64,
    /// Since when the window is below half of its largest. A receiver says so when reading doubles its window
    /// (`tcp_cleanup_rbuf`): its program did not read.
    small_since_ns: Option<u64>,
    /// Since when there is no room for another segment (nothing is sent then: RFC 1122, 4.2.3.4).
    /// All data was acknowledged by then: before, it may have been on its way, or lost.
    full_since_ns: Option<u64>,
}

/// An announced window, and what is known of the connection then.
#[derive(Debug, Clone, Copy)]
pub struct AnnouncedWindow {
    /// First offset beyond it.
    pub edge: Offset,
    /// Bytes from the acknowledged one on.
    pub bytes: i64,
    /// Whether the receiver's delayed-ACK timer sent it: it says nothing of the reader.
    pub is_by_timer: bool,
}

impl WindowRoom {
    /// Applies an announced window; returns how long the reader kept it closed until now, ns.
    /// `out`: the sender's next offset, and its largest segment.
    pub fn announce(&mut self, now_ns: u64, window: AnnouncedWindow, out: (Offset, i64)) -> u64 {
        let (next, mss) = out;
        let edge = self.edge.map_or(window.edge, |edge| edge.max(window.edge));
        self.edge = Some(edge);
        self.largest_bytes = self.largest_bytes.max(window.bytes);
        let is_small = 2 * window.bytes < self.largest_bytes;
        let has_room = edge - next >= mss;
        let small_ns = end_span(&mut self.small_since_ns, is_small, now_ns);
        // with data that is on its way, or lost, the window is full of what the receiver does not have
        if !has_room && window.edge - next != window.bytes {
            self.full_since_ns = None;
            return small_ns;
        }
        let full_ns = end_span(&mut self.full_since_ns, !has_room, now_ns);
        match self.small_since_ns.is_some() || small_ns > 0 {
            true => small_ns,
            false if window.is_by_timer => 0,
            false => full_ns,
        }
    }

    /// Ends the connection; returns how long the window was closed, as [`Self::announce`].
    pub fn finish(&mut self, now_ns: u64) -> u64 {
        let since_ns = self.small_since_ns.or(self.full_since_ns);
        since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
    }
}

/// Begins a span that is on, or ends it; returns the length of the ended one, ns.
fn end_span(since_ns: &mut Option<u64>, is_on: bool, now_ns: u64) -> u64 {
    if is_on {
        since_ns.get_or_insert(now_ns);
        return 0;
    }
    let since_ns = since_ns.take();
    since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
}
