//! Round trips between the place of the capture and each end: a segment passes, and later what answers it. Both together are the
//! path's round trip, and their split is the place.

use std::collections::VecDeque;

use super::sequence::Offset;

/// Segments of a direction that wait for their ACK: more are not measured.
const PROBES_MOST: usize = 1024;

/// Least and smoothed round trip of a side.
#[derive(Debug, Clone, Copy, Default)]
pub struct SideTrip {
    /// The least, ns; `None`: no segment was answered.
    pub least_ns: Option<u64>,
    /// Smoothed as TCP does (RFC 6298), ns.
    pub smoothed_ns: u64,
    /// Mean deviation, ns.
    pub deviation_ns: u64,
    is_smoothed: bool,
}

impl SideTrip {
    /// Adds a sample, ns.
    pub fn add(&mut self, ns: u64) {
        match self.is_smoothed {
            false => (self.smoothed_ns, self.deviation_ns) = (ns, ns / 2),
            true => {
                let off_ns = self.smoothed_ns.abs_diff(ns);
                self.deviation_ns = (3 * self.deviation_ns + off_ns) / 4;
                self.smoothed_ns = (7 * self.smoothed_ns + ns) / 8;
            }
        }
        self.is_smoothed = true;
        self.least_ns = Some(self.least_ns.map_or(ns, |least| least.min(ns)));
    }

    /// Adds a time that is no less than a round trip.
    pub fn add_bound(&mut self, ns: u64) {
        let least_ns = self.least_ns.map_or(ns, |least| least.min(ns));
        self.least_ns = Some(least_ns);
        if !self.is_smoothed {
            self.smoothed_ns = least_ns;
        }
    }
}

/// A timestamp of one end that waits for its echo (RFC 7323, 3.2). No data of the other end needs to be acknowledged: so there
/// is a round trip to a sender, too, though the capture has no handshake, or a late one. An end echoes when it has something to
/// send: that may be later, and only the least counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct EchoTrip {
    latest: Option<u32>,
    waiting: Option<(u32, u64)>,
}

impl EchoTrip {
    /// Notes a segment with this timestamp; of several with the same one the first counts.
    pub fn note_segment(&mut self, now_ns: u64, stamp: u32) {
        let Some(latest) = self.latest else {
            self.latest = Some(stamp);
            return;
        };
        if is_after(stamp, latest) {
            self.latest = Some(stamp);
            self.waiting.get_or_insert((stamp, now_ns));
        }
    }

    /// Returns the time since the echoed timestamp passed, ns.
    pub fn take_echo(&mut self, now_ns: u64, echo: u32) -> Option<u64> {
        let (stamp, since_ns) = self.waiting?;
        if echo != stamp && !is_after(echo, stamp) {
            return None;
        }
        self.waiting = None;
        (echo == stamp).then(|| now_ns.saturating_sub(since_ns))
    }
}

/// Returns whether a timestamp is later than another, which may have wrapped.
pub fn is_after(one: u32, other: u32) -> bool {
    one != other && one.wrapping_sub(other) < 1 << 31
}

/// Segment that waits for its ACK.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Offset after its last byte.
    end: Offset,
    /// When it passed.
    pub passed_ns: u64,
    /// By so much the path delayed it more than others before it came here, by the sender's clock.
    pub delay_ns: i64,
}

/// Segments of one direction that wait for their ACK.
#[derive(Debug, Clone, Default)]
pub struct PendingSegments {
    probes: VecDeque<Probe>,
}

impl PendingSegments {
    /// Adds a segment that was sent for the first time.
    pub fn push(&mut self, end: Offset, passed_ns: u64, delay_ns: i64) {
        if self.probes.len() < PROBES_MOST {
            self.probes.push_back(Probe {
                end,
                passed_ns,
                delay_ns,
            });
        }
    }

    /// Drops pending segments after a retransmission: they are not measured (Karn's algorithm).
    pub fn clear(&mut self) {
        self.probes.clear();
    }

    /// Removes acknowledged segments, and returns the last of them.
    pub fn acknowledge(&mut self, ack: Offset) -> Option<Probe> {
        let mut last = None;
        while let Some(probe) = self.probes.front().copied()
            && probe.end <= ack
        {
            self.probes.pop_front();
            last = Some(probe);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_of_the_first_segment_with_a_timestamp_is_a_round_trip() {
        let mut trip = EchoTrip::default();
        // what came before the first one of the capture is not known
        trip.note_segment(100, 7);
        assert_eq!(trip.take_echo(150, 7), None);
        trip.note_segment(200, 8);
        trip.note_segment(210, 8);
        trip.note_segment(220, 9);
        assert_eq!(trip.take_echo(230, 7), None);
        assert_eq!(trip.take_echo(260, 8), Some(60));
        assert_eq!(trip.take_echo(270, 8), None);
        // the segment was lost behind the capture, and a later one is echoed
        trip.note_segment(300, u32::MAX);
        trip.note_segment(310, 10);
        trip.note_segment(320, 11);
        assert_eq!(trip.take_echo(400, 11), None);
        trip.note_segment(500, 12);
        assert_eq!(trip.take_echo(501, 12), Some(1));
    }

    #[test]
    fn bound_lowers_the_least_and_leaves_the_smoothed_round_trip() {
        let mut side = SideTrip::default();
        side.add_bound(900);
        side.add_bound(500);
        assert_eq!((side.least_ns, side.smoothed_ns), (Some(500), 500));
        side.add(800);
        side.add_bound(100);
        side.add_bound(5_000);
        assert_eq!((side.least_ns, side.smoothed_ns), (Some(100), 800));
    }
}
