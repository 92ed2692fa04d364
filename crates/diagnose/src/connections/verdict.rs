//! One word on a connection and a time: what held it most, of the stages that have a fix. Comes in: times
//! in the stages, or under SNAP's flags. Goes out: the greatest of them, if it is harm by the same measure
//! as in findings.

use table::Stage;

use crate::report::severity::held_up;

/// Returns whether a stage has a fix: at one of the ends, or where segments are lost. What the path gives (congestion
/// window, pacing, queues), a flight that lasts as long as the path, and an application that has nothing to send are
/// nobody's fault.
pub fn is_mendable(stage: Stage) -> bool {
    match stage {
        Stage::RetransmitTimeout
        | Stage::TailLoss
        | Stage::ReceiverWindow
        | Stage::FastRetransmit
        | Stage::Cork
        | Stage::Nagle
        | Stage::DelayedAck
        | Stage::SendBuffer => true,
        Stage::CongestionWindow
        | Stage::Pacing
        | Stage::LocalQueue
        | Stage::InFlight
        | Stage::SenderApp
        | Stage::Unknown => false,
    }
}

/// The stage that held the connection most, of times in stages over `life_ns`.
pub fn worst_stage(stages: &[(Stage, u64)], life_ns: u64) -> Option<Stage> {
    let mendable = stages.iter().filter(|(stage, _)| is_mendable(*stage));
    greatest_hold(mendable.copied(), life_ns)
}

/// Returns the owner of the largest time, if that time held the connection up.
pub fn greatest_hold<T>(held_ns: impl IntoIterator<Item = (T, u64)>, life_ns: u64) -> Option<T> {
    let most = held_ns.into_iter().max_by_key(|(_, ns)| *ns);
    most.filter(|(_, ns)| held_up(*ns, life_ns))
        .map(|(what, _)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: u64 = 60_000_000_000;

    #[test]
    fn longest_hold_with_a_fix_is_named() {
        let stages = [
            (Stage::SenderApp, 40_000_000_000),
            (Stage::CongestionWindow, 9_000_000_000),
            (Stage::Nagle, 4_000_000_000),
            (Stage::DelayedAck, 6_000_000_000),
        ];
        assert_eq!(worst_stage(&stages, MINUTE_NS), Some(Stage::DelayedAck));
        assert_eq!(worst_stage(&stages[..2], MINUTE_NS), None);
    }

    #[test]
    fn small_harm_gives_no_verdict() {
        let held = |ns| worst_stage(&[(Stage::SendBuffer, ns)], MINUTE_NS);
        assert_eq!(held(2_900_000_000), None);
        assert_eq!(held(3_100_000_000), Some(Stage::SendBuffer));
        assert_eq!(worst_stage(&[], MINUTE_NS), None);
    }
}
