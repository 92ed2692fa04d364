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
}

impl SideTrip {
    /// Adds a sample.
    pub fn add(&mut self, ns: u64) {
        match self.least_ns {
            None => (self.smoothed_ns, self.deviation_ns) = (ns, ns / 2),
            Some(_) => {
                let off_ns = self.smoothed_ns.abs_diff(ns);
                self.deviation_ns = (3 * self.deviation_ns + off_ns) / 4;
                self.smoothed_ns = (7 * self.smoothed_ns + ns) / 8;
            }
        }
        self.least_ns = Some(self.least_ns.map_or(ns, |least| least.min(ns)));
    }
}

/// Segment that waits for its ACK.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Offset after its last byte.
    end: Offset,
    /// When it passed.
    pub passed_ns: u64,
    /// When it left, by the sender's clock.
    pub sent_ns: u64,
}

/// Segments of one direction that wait for their ACK.
#[derive(Debug, Clone, Default)]
pub struct PendingSegments {
    probes: VecDeque<Probe>,
}

impl PendingSegments {
    /// Adds a segment that was sent for the first time.
    pub fn push(&mut self, end: Offset, passed_ns: u64, sent_ns: u64) {
        if self.probes.len() < PROBES_MOST {
            self.probes.push_back(Probe {
                end,
                passed_ns,
                sent_ns,
            });
        }
    }

    /// A segment was retransmitted: what waits is not measured (Karn's algorithm).
    pub fn clear(&mut self) {
        self.probes.clear();
    }

    /// Takes what is acknowledged. Returns the last segment of it.
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
