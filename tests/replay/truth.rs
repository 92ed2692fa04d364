//! The view of one end's TCP: its segments, with the kernel's stamps in its namespace. No
//! program has to run for them to be right, so a busy machine does not blur them.

use std::iter::Sum;

use lab::{CaptureDirection, CapturedSegment};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use testbed::report::text;

/// A length of time that lies between two.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct DurationRange {
    pub least_ns: u64,
    pub most_ns: u64,
}

impl DurationRange {
    pub fn exactly(ns: u64) -> Self {
        DurationRange {
            least_ns: ns,
            most_ns: ns,
        }
    }

    /// From a moment within the first span to one within the second.
    pub fn between(begin_ns: (u64, u64), end_ns: (u64, u64)) -> Self {
        DurationRange {
            least_ns: end_ns.0.saturating_sub(begin_ns.1),
            most_ns: end_ns.1.saturating_sub(begin_ns.0),
        }
    }

    /// Returns the rest of a whole duration.
    pub fn rest_of(self, whole_ns: u64) -> Self {
        DurationRange {
            least_ns: whole_ns.saturating_sub(self.most_ns),
            most_ns: whole_ns.saturating_sub(self.least_ns),
        }
    }

    pub fn middle_ns(self) -> u64 {
        u64::midpoint(self.least_ns, self.most_ns)
    }

    pub fn doubt_ns(self) -> u64 {
        self.most_ns - self.middle_ns()
    }
}

impl Sum for DurationRange {
    fn sum<I: Iterator<Item = DurationRange>>(all: I) -> DurationRange {
        all.fold(DurationRange::default(), |sum, one| DurationRange {
            least_ns: sum.least_ns + one.least_ns,
            most_ns: sum.most_ns + one.most_ns,
        })
    }
}

/// State of one end's TCP sequence space at one moment, bytes from its first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moment {
    pub at_ns: u64,
    /// Data sent.
    pub nxt: u64,
    /// Data acknowledged.
    pub una: u64,
    /// Window announced, bytes beyond `una`.
    pub window: u64,
    /// Whether this is a segment with new data: not an ACK, nor a retransmission.
    pub sent: bool,
}

/// All segments of one end of a connection, in order.
#[derive(Debug)]
pub struct Trace(Vec<CapturedSegment>);

impl Trace {
    /// The segments of this connection, of a report or of one who had it.
    pub fn new(passed: &[CapturedSegment], connection: &Value) -> Self {
        let port = |end| text(connection, end).rsplit(':').next()?.parse().ok();
        let (local, remote): (Option<u16>, Option<u16>) = (port("local"), port("remote"));
        let is = |passed: &&CapturedSegment| {
            let (from, to) = (
                Some(passed.segment.source_port),
                Some(passed.segment.destination_port),
            );
            match passed.direction {
                CaptureDirection::Out => (from, to) == (local, remote),
                CaptureDirection::In => (from, to) == (remote, local),
            }
        };
        Trace(passed.iter().filter(is).copied().collect())
    }

    pub fn passed(&self, direction: CaptureDirection) -> impl Iterator<Item = &CapturedSegment> {
        self.0
            .iter()
            .filter(move |passed| passed.direction == direction)
    }

    /// Segments with data.
    pub fn data(&self, direction: CaptureDirection) -> Vec<&CapturedSegment> {
        let data = |passed: &&CapturedSegment| passed.segment.payload_bytes > 0;
        self.passed(direction).filter(data).collect()
    }

    fn syn(&self, direction: CaptureDirection) -> &CapturedSegment {
        let syn = |passed: &&CapturedSegment| passed.segment.flags & 2 != 0;
        self.passed(direction).find(syn).expect("a SYN")
    }

    /// The offset of a sequence number of this end's data.
    pub fn offset(&self, seq: u32) -> u64 {
        let first = self.syn(CaptureDirection::Out).segment.seq.wrapping_add(1);
        u64::from(seq.wrapping_sub(first))
    }

    /// Returns the state of the sequence space after each segment, from the handshake on.
    pub fn history(&self) -> Vec<Moment> {
        let heard_syn = self.syn(CaptureDirection::In).segment;
        let scale = heard_syn.window_scale.unwrap_or(0);
        let mut now = Moment {
            // That of a SYN is not scaled.
            window: u64::from(heard_syn.window),
            ..Moment::default()
        };
        let after = self.0.iter().filter(|passed| passed.segment.flags & 2 == 0);
        after
            .map(|passed| {
                let tcp = passed.segment;
                now.at_ns = passed.time_ns;
                now.sent = false;
                if passed.direction == CaptureDirection::Out {
                    let end = self.offset(tcp.seq.wrapping_add(tcp.payload_bytes));
                    now.sent = end > now.nxt;
                    now.nxt = now.nxt.max(end);
                } else {
                    let acked = self.offset(tcp.ack).min(now.nxt);
                    if acked >= now.una {
                        now.una = acked;
                        now.window = u64::from(tcp.window) << scale;
                    }
                }
                now
            })
            .collect()
    }

    /// The samples that TCP took of the round trip, each with its time: from the oldest segment
    /// that an ACK is the first to cover. Nothing may have been retransmitted.
    pub fn round_trips(&self) -> Vec<(u64, u64)> {
        let opened_ns = self.syn(CaptureDirection::In).time_ns;
        let mut samples = vec![(
            opened_ns,
            opened_ns - self.syn(CaptureDirection::Out).time_ns,
        )];
        let moments = self.history();
        let steps = moments.windows(2).map(|step| (step[0].una, step[1]));
        samples.extend(
            steps
                .filter(|(una, now)| now.una > *una)
                .filter_map(|(una, now)| {
                    let oldest = moments.iter().find(|sent| sent.sent && sent.nxt > una)?;
                    Some((now.at_ns, now.at_ns - oldest.at_ns))
                }),
        );
        samples
    }
}

/// The smoothed round trip after these samples, as `tcp_rtt_estimator()` has it.
pub fn smoothed_ns(samples: &[(u64, u64)]) -> u64 {
    let mut samples = samples.iter().map(|(_, ns)| *ns as f64);
    let first = samples.next().unwrap_or(0.0);
    samples.fold(first, |srtt, sample| srtt + (sample - srtt) / 8.0) as u64
}

/// The time between two sendings.
#[derive(Debug)]
pub struct Gap<'a> {
    /// The first of them.
    pub from: &'a Moment,
    /// The segments that were heard between.
    pub heard: &'a [Moment],
    /// The second.
    pub until_ns: u64,
}

impl Gap<'_> {
    pub fn ns(&self) -> u64 {
        self.until_ns - self.from.at_ns
    }

    /// Returns whether an ACK let the next segment go, and not a timer or a writer.
    pub fn ended_by_ack(&self) -> bool {
        // Both happen in one softirq.
        const AT_ONCE_NS: u64 = 100_000;
        let last = self.heard.last();
        last.is_some_and(|ack| self.until_ns - ack.at_ns <= AT_ONCE_NS)
    }
}

/// The gaps between all segments with new data.
pub fn gaps(moments: &[Moment]) -> Vec<Gap<'_>> {
    let sent = (0..moments.len()).filter(|at| moments[*at].sent);
    let sent: Vec<usize> = sent.collect();
    let steps = sent.windows(2);
    steps
        .map(|step| Gap {
            from: &moments[step[0]],
            heard: &moments[step[0] + 1..step[1]],
            until_ns: moments[step[1]].at_ns,
        })
        .collect()
}
