//! Stages from the in-kernel ledger: every interval was measured, so this only divides by
//! the life and says how exact it is. Life that the ledger does not cover is `unknown`.

use table::tables::TcpStage;
use table::{Method, Stage};

use super::bound;
use crate::report::{StageShare, Stages};

/// Inputs of the bounds beside the ledger.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Life to divide by, ns.
    pub life_ns: u64,
    /// How often the socket's stage may have changed: send calls, or data segments.
    pub changes: u64,
    /// Length of a jiffy, ns.
    pub jiffy_ns: u64,
    /// How the ledger was kept.
    pub method: Method,
}

/// Returns the share of each stage, from the ledger.
pub fn stages(ledger: &TcpStage, scale: Scale) -> Stages {
    let times = ledger.stages_ns();
    let covered_ns: u64 = times.iter().map(|(_, ns)| ns).sum();
    let missing_ns = scale.life_ns.saturating_sub(covered_ns);
    let mut stages = Stages::default();
    for (stage, ns) in times {
        let ns = if stage == Stage::Unknown {
            ns + missing_ns
        } else {
            ns
        };
        stages.set(
            stage,
            StageShare {
                method: scale.method,
                ..ledger_share(ns, bound_ns(ledger, stage, scale), scale.life_ns)
            },
        );
    }
    stages
}

/// A share measured by the ledger.
pub fn ledger_share(ns: u64, bound_ns: f64, life_ns: u64) -> StageShare {
    StageShare {
        share: if life_ns == 0 {
            0.0
        } else {
            ns as f64 / life_ns as f64
        },
        ns,
        method: Method::Ledger,
        bound: bound::as_share(bound_ns, life_ns),
    }
}

/// Returns the largest error of a stage's time: clock granularity, unseen and guessed time.
fn bound_ns(ledger: &TcpStage, stage: Stage, scale: Scale) -> f64 {
    let delayed = u64::from(ledger.delayed_acks);
    let (intervals, timed) = match stage {
        Stage::Nagle | Stage::DelayedAck => (u64::from(ledger.nagle_holds).max(delayed), delayed),
        Stage::RetransmitTimeout => (
            u64::from(ledger.timeout_stalls),
            ledger.timeout_stalls.into(),
        ),
        Stage::TailLoss => (
            u64::from(ledger.tail_loss_stalls),
            ledger.tail_loss_stalls.into(),
        ),
        _ => (scale.changes, 0),
    };
    let guessed_ns = match stage {
        Stage::InFlight | Stage::SenderApp => ledger.asleep_ns.min(ledger.in_flight_ns),
        _ => 0,
    };
    // what was not seen may belong to any stage
    bound::ledger_ns(intervals, timed, scale.jiffy_ns) + (ledger.unseen_ns + guessed_ns) as f64
}
