//! The slow messages of a recording, in short: `whylat report --tail` has all.

use serde::Serialize;

use super::Severity;
use crate::messages::message::MessageDirection;
use crate::messages::tail::CoreRole;
use crate::messages::tail::report::{TailCause, TailGroup, TailReport};
use crate::report::severity::severity;

/// Listed causes of each application.
const CAUSES: usize = 3;

/// Slow messages of one application, one way, against its ordinary ones.
#[derive(Debug, Clone, Serialize)]
pub struct SlowMessages {
    /// Command name; `None`: not known.
    pub application: Option<String>,
    /// Direction.
    pub direction: MessageDirection,
    /// By the harm, as of findings: against the latencies of all of its messages instead of a life.
    pub severity: Severity,
    /// Extra time of slow messages over ordinary ones in total, ns: of those with a known cause.
    pub harm_ns: u64,
    /// The same, of the latencies of all of its messages, 0–1.
    pub share: f64,
    /// Band of the slow messages: `p99.9`.
    pub tail: String,
    /// Slow messages.
    pub messages: u64,
    /// Those of them with recorded CPU activity.
    pub judged: u64,
    /// The quickest and the slowest of them, ns.
    pub from_ns: u64,
    /// The same.
    pub until_ns: u64,
    /// Mean latency of ordinary ones, ns.
    pub usual_ns: f64,
    /// Explained share of the extra time, of the median message, 0–1.
    pub covered: f64,
    /// That which is first of most messages first.
    pub causes: Vec<SlowCause>,
}

/// Why they were slow.
#[derive(Debug, Clone, Serialize)]
pub struct SlowCause {
    /// Stable name of the rule.
    pub rule: &'static str,
    /// Its kind and name.
    pub what: String,
    /// On which core.
    pub role: CoreRole,
    /// Messages that it hit.
    pub messages: u64,
    /// Those of them with this as the largest cause.
    pub first: u64,
    /// Added time of the median of these, ns.
    pub deviation_ns: f64,
    /// Messages that it hit most.
    pub examples: Vec<String>,
    /// Fix.
    pub advice: &'static str,
}

impl SlowMessages {
    /// Returns a summary of slow messages for each application with causes.
    pub fn from_report(report: &TailReport) -> Vec<Self> {
        let groups = report.groups.iter();
        groups
            .filter_map(|group| Self::from_group(report.tail.clone(), group))
            .collect()
    }

    /// Returns the summary of slow messages of a group; None if it has none.
    fn from_group(tail: String, group: &TailGroup) -> Option<Self> {
        let causes = group.causes.iter().filter(|it| it.first > 0);
        let causes: Vec<SlowCause> = causes.take(CAUSES).map(SlowCause::from_cause).collect();
        let deviations_ns = group.explained.iter().map(|it| it.deviation_ns.max(0.0));
        let harm_ns = deviations_ns.sum::<f64>() as u64;
        (!causes.is_empty()).then_some(Self {
            severity: severity(&[(harm_ns, group.latency_sum_ns)]),
            harm_ns,
            share: harm_ns as f64 / group.latency_sum_ns.max(1) as f64,
            application: group.application.clone(),
            direction: group.direction,
            tail,
            messages: group.tail.messages,
            judged: group.tail.kept,
            from_ns: group.tail.from_ns,
            until_ns: group.tail.until_ns,
            usual_ns: group.usual_ns,
            covered: group.covered.as_ref()?.median,
            causes,
        })
    }
}

impl SlowCause {
    fn from_cause(cause: &TailCause) -> Self {
        Self {
            rule: cause.rule,
            what: cause.what.clone(),
            role: cause.role,
            messages: cause.messages,
            first: cause.first,
            deviation_ns: cause.deviation_ns.median,
            examples: cause.examples.clone(),
            advice: cause.advice,
        }
    }
}
