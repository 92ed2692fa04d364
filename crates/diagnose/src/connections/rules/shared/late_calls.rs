//! Calls that were blocked as long as a delayed ACK takes, or longer, and what they followed: whether
//! short sends, or several of them, made the wait.

use super::delayed_acks::delack_min_ns;
use super::facts::{known_real, sum};
use crate::connections::case::Case;
use crate::connections::gather::blocked::{CallsAfter, ShortSends};
use crate::report::{Fact, FactUnit};

/// The late calls of a connection, and its other blocked calls.
#[derive(Debug, Clone, Copy)]
pub struct LateCalls {
    /// Blocked for the path's round trip and the least time of a delayed ACK, or longer.
    pub late: CallsAfter,
    /// The others that were blocked.
    pub others: CallsAfter,
    /// The late ones after a send of less than a segment.
    pub short_sends: ShortSends,
}

impl LateCalls {
    /// Counts the late calls of a connection; `None` without them, or where blocking, the path's round trip or the
    /// segment size is not known.
    pub fn from_case(case: &Case) -> Option<Self> {
        case.calls_with_blocking()?;
        let rtt_us = case.own.gathered.samples.min_rtt_us?;
        let segment_bytes = case.own.identity()?.mss_bytes?;
        let least_ns = u64::from(rtt_us) * 1_000 + delack_min_ns(case);
        let blocked = case.own.blocked?;
        let (late, others) = blocked.split_calls(least_ns);
        (late.calls > 0).then(|| Self {
            late,
            others,
            short_sends: blocked.short_sends(least_ns, segment_bytes.into()),
        })
    }

    /// Returns whether most late calls came after several sends in a row; `None`: unknown for most.
    pub fn follow_several(&self) -> Option<bool> {
        let CallsAfter {
            calls,
            sends_known,
            several_sends,
        } = self.late;
        (sends_known * 2 > calls).then_some(several_sends * 2 > sends_known)
    }
}

/// Returns part / whole; None if the whole is 0.
fn share_of(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Makes the facts of late calls: their number, and the calls before them and others.
pub fn late_call_facts(case: &Case) -> Vec<Fact> {
    let Some(calls) = LateCalls::from_case(case) else {
        return Vec::new();
    };
    let LateCalls {
        late,
        others,
        short_sends,
    } = calls;
    let label = "call(s) blocked as long as a delayed ACK takes";
    let mut facts = vec![sum("late_calls", late.calls, label)];
    let shares = [
        (
            "late_after_short_send",
            share_of(short_sends.short, short_sends.known),
            "of these followed a send of less than a segment",
        ),
        (
            "late_after_several_sends",
            share_of(late.several_sends, late.sends_known),
            "of these followed two or more sends since the last receive",
        ),
        (
            "other_after_several_sends",
            share_of(others.several_sends, others.sends_known),
            "of the other blocked calls followed two or more sends",
        ),
    ];
    let known = shares.map(|(name, share, label)| known_real(name, share, FactUnit::Share, label));
    facts.extend(known.into_iter().flatten());
    facts
}
