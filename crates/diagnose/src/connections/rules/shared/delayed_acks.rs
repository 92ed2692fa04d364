//! Longest time for which delayed ACKs and Nagle's algorithm can hold data back.

use table::Stage;
use table::tables::TcpStage;

use crate::connections::case::Case;
use crate::kernel::TCP_DELACK_MIN_NS;

/// Returns whether the waits for delayed ACKs are Nagle's: holds go with at least half of them, and were long enough for
/// half of their time. The other waits are of writers with a full send buffer.
pub(in crate::connections::rules) fn held_by_nagle(ledger: &TcpStage) -> bool {
    let holds = u64::from(ledger.nagle_holds);
    let most_ns = ledger.longest_hold_ns.saturating_mul(holds);
    holds > 0
        && holds * 2 >= u64::from(ledger.delayed_acks)
        && most_ns.saturating_mul(2) >= ledger.delayed_ack_ns
}

/// Returns the largest cost of Nagle's algorithm itself: one round trip of the path for each hold. The receiver's timer or
/// its reader causes the rest of a hold. `None`: there is no ledger, or the path is unknown.
pub(in crate::connections::rules) fn most_by_nagle_ns(case: &Case) -> Option<u64> {
    let rtt_us = case.own.gathered.samples.min_rtt_us?;
    Some(u64::from(case.ledger()?.nagle_holds) * u64::from(rtt_us) * 1_000)
}

/// Time that Nagle's algorithm cost: holds for the path's round trip, as far as a thread here
/// waited. A stream loses nothing by them: more data joins the segment.
pub(in crate::connections::rules) fn nagle_harm_ns(case: &Case) -> u64 {
    let Some(calls) = case.calls_with_blocking() else {
        return 0;
    };
    let held_ns = case.ns(Stage::Nagle);
    held_ns
        .min(most_by_nagle_ns(case).unwrap_or(held_ns))
        .min(calls.blocked_ns())
}

/// The path's round trip in each of these waits. It, too, was waited for with a full send buffer: the
/// same waits, with the same fix.
pub(in crate::connections::rules) fn round_trips_ns(case: &Case) -> u64 {
    let (Some(ledger), Some(rtt_us)) = (case.ledger(), case.own.gathered.samples.min_rtt_us) else {
        return 0;
    };
    let waits_ns = u64::from(ledger.delayed_acks) * u64::from(rtt_us) * 1_000;
    waits_ns.min(case.ns(Stage::SendBuffer))
}

/// Returns how much later than the path's round trip a delayed ACK comes at least, but for a jiffy, ns.
pub(in crate::connections::rules) fn delack_min_ns(case: &Case) -> u64 {
    let jiffy_ns = case.context.given.jiffy_ns;
    TCP_DELACK_MIN_NS.saturating_sub(jiffy_ns)
}

/// Returns whether ACKs come later than the path needs, by as much as a receiver may delay them.
pub(in crate::connections::rules) fn acks_late(case: &Case) -> bool {
    let samples = &case.own.gathered.samples;
    let (Some(least_us), Some(last)) = (samples.min_rtt_us, &samples.last) else {
        return false;
    };
    let late_us = last.srtt_us.saturating_sub(least_us);
    u64::from(late_us) * 1_000 >= delack_min_ns(case)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a ledger with one delayed ACK of 40 ms, and one hold of this length.
    fn ledger(longest_hold_ns: u64) -> TcpStage {
        table::row_of(serde_json::json!({
            "nagle_holds": 1,
            "delayed_acks": 1,
            "delayed_ack_ns": 40_000_000,
            "longest_hold_ns": longest_hold_ns,
        }))
        .expect("a row")
    }

    #[test]
    fn short_hold_beside_a_delayed_ack_of_a_full_buffer_is_not_blamed() {
        assert!(held_by_nagle(&ledger(41_000_000)));
        assert!(!held_by_nagle(&ledger(200_000)));
        assert!(!held_by_nagle(&ledger(0)));
    }
}
