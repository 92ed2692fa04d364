//! What every answer says of its recording: where it was made, what it covers, lost and cost.

use serde::Serialize;
use table::manifest::{Close, Cost, Coverage, Header};

use super::{Closed, Host, Loss};

/// What the manifest says at the end of the recording, and the reader of its state.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// State of each probe.
    pub coverage: Vec<Coverage>,
    /// Totals of each probe.
    pub loss: Vec<table::manifest::Loss>,
    /// What the profiler used.
    pub cost: Option<Cost>,
    /// How it was closed; `None`: it was not.
    pub closed: Option<Close>,
    /// What is damaged or missing, in the reader's words.
    pub problems: Vec<String>,
}

/// Of what an answer is.
#[derive(Debug, Clone, Serialize)]
pub struct About {
    /// Where and how the recording was made.
    pub host: Host,
    /// Time looked at, ns.
    pub span_ns: u64,
    /// How the recording ended.
    pub closed: Closed,
    /// What the reader found damaged or missing, in its words.
    pub problems: Vec<String>,
    /// State of each probe.
    pub coverage: Vec<Coverage>,
    /// Totals of each probe.
    pub loss: Vec<Loss>,
    /// What the profiler itself used; `None` when the recording does not say.
    pub cost: Option<Cost>,
}

impl About {
    /// Of a recording whose latest row is of `latest_ns`, where only the time from the first of `span` to the
    /// second is looked at.
    pub fn of(header: &Header, recorded: Recorded, latest_ns: u64, span: (u64, u64)) -> Self {
        let closed = recorded.closed.as_ref();
        let ended_ns = closed.map_or(latest_ns, |close| close.ended_ns);
        let until_ns = ended_ns.min(span.1);
        Self {
            host: Host::of(header),
            span_ns: until_ns.saturating_sub(header.started_ns.max(span.0)),
            closed: Closed::of(closed),
            problems: recorded.problems,
            coverage: recorded.coverage,
            loss: recorded.loss.into_iter().map(Into::into).collect(),
            cost: recorded.cost,
        }
    }

    /// Whether the recording was closed in order, undamaged, and lost nothing.
    pub fn is_complete(&self) -> bool {
        let lost = |loss: &Loss| loss.lost_total != 0 || loss.residual != 0;
        self.closed == Closed::InOrder && self.problems.is_empty() && !self.loss.iter().any(lost)
    }
}
