//! Parts that several rules on requests share: facts, sentences, excluded causes, and doubts.

use std::borrow::Cow;

use super::rule::RequestVerdict;
use crate::kernel::TCP_DELACK_MIN_NS;
pub use crate::report::severity::EXPLAINS_LEAST;
use crate::report::severity::{WARNING_SHARE, held_up};
use crate::report::{
    Advice, Confidence, ConfidenceLevel, Fact, FactMerge, FactUnit, FactValue, RuleDoubt, RuleId,
    RuledOut,
};
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
pub use crate::requests::part::LACK_OF_CPU;
use crate::rows::top::Top;
use crate::units::{duration, percent, quantity, ratio_of};

/// Makes a fact with this unit and label.
pub fn make_fact(
    name: &'static str,
    value: FactValue,
    unit: FactUnit,
    label: &'static str,
) -> Fact {
    Fact {
        name,
        value,
        unit,
        label,
        merge: FactMerge::Worst,
    }
}

/// Makes the fact of a count.
pub fn number(name: &'static str, value: u64, label: &'static str) -> Fact {
    make_fact(name, FactValue::Whole(value), FactUnit::Count, label)
}

/// Makes the fact of a duration, ns.
pub fn time_fact(name: &'static str, ns: u64, label: &'static str) -> Fact {
    make_fact(name, FactValue::Whole(ns), FactUnit::Ns, label)
}

/// Makes the fact of a share, 0 to 1.
pub fn share_fact(name: &'static str, value: f64, label: &'static str) -> Fact {
    make_fact(name, FactValue::Real(value), FactUnit::Share, label)
}

/// Makes the facts of the number of requests and of their durations.
pub fn duration_facts(case: &ServiceCase<'_>) -> Vec<Fact> {
    let half_ns = case.quantile_ns(0.5);
    let mut facts = vec![
        number("requests", case.requests(), "request(s)"),
        time_fact("request_p50_ns", half_ns, "duration of a request (p50)"),
    ];
    if case.requests() > 1 {
        let ns = case.quantile_ns(0.99);
        facts.push(time_fact(
            "request_p99_ns",
            ns,
            "duration of a request (p99)",
        ));
        let ns = case.max_ns();
        facts.push(time_fact("request_max_ns", ns, "the longest request"));
    }
    facts
}

/// Returns the harm as a part of the time of all requests: `5.00 s of 5.03 s (99.4 %)`.
pub fn of_time(case: &ServiceCase<'_>, ns: u64) -> String {
    format!(
        "{} of {} ({})",
        duration(ns),
        duration(case.total_ns()),
        percent(crate::units::ratio_of(ns, case.total_ns()))
    )
}

/// Returns the requests in a sentence: `5 requests from curl to 10.0.0.1:80`.
pub fn of_requests(case: &ServiceCase<'_>) -> String {
    let word = if case.is_server() { "to" } else { "from" };
    let requests = quantity(case.requests(), "request");
    format!("{requests} {word} {}", case.title())
}

/// Returns those of these parts that take too little to matter, with their shares.
pub fn rule_out(case: &ServiceCase<'_>, parts: &[(&'static str, &[RequestPart])]) -> Vec<RuledOut> {
    let excluded = |(cause, parts): &(&'static str, &[RequestPart])| {
        let harm = case.harm(parts);
        let is_small = harm.share <= WARNING_SHARE && harm.excess_share <= WARNING_SHARE;
        let because = match harm.ns {
            0 => "none of the time".to_owned(),
            ns => format!("{} of the time ({})", percent(harm.share), duration(ns)),
        };
        is_small.then_some(RuledOut { cause, because })
    };
    parts.iter().filter_map(excluded).collect()
}

/// Makes fixes of these sentences.
pub fn make_advice(lines: impl IntoIterator<Item = impl Into<Cow<'static, str>>>) -> Vec<Advice> {
    lines.into_iter().map(|line| Advice(line.into())).collect()
}

/// Returns high confidence for a measured finding; lower if records were lost.
pub fn direct_confidence(case: &ServiceCase<'_>, because: impl Into<String>) -> Confidence {
    let because = because.into();
    match case.evidence.losses().is_empty() {
        true => Confidence {
            level: ConfidenceLevel::High,
            because,
        },
        false => Confidence {
            level: ConfidenceLevel::Medium,
            because: format!("{because}; but records were lost"),
        },
    }
}

/// Rules that speak of what threads did with a request: where that is not recorded, each of them may apply.
const OF_THREADS: [RuleId; 13] = [
    RuleId::DnsSlow,
    RuleId::ProcessPause,
    RuleId::CpuQuota,
    RuleId::MemoryStall,
    RuleId::DiskWait,
    RuleId::OutputBlocked,
    RuleId::UnevenWorkers,
    RuleId::BlockedEventLoop,
    RuleId::BusyWorkers,
    RuleId::LockWait,
    RuleId::ProcessWait,
    RuleId::TimerWait,
    RuleId::Computes,
];

/// Returns how many intervals there are at once, at most: each from its begin to its end, ns.
pub fn most_at_once(intervals: impl Iterator<Item = (u64, u64)>) -> u64 {
    let ends = intervals.flat_map(|(begin_ns, end_ns)| [(begin_ns, 1), (end_ns, -1)]);
    let mut changes: Vec<(u64, i64)> = ends.collect();
    changes.sort_unstable(); // an end comes before a start of the same time
    let open = changes.iter().scan(0, |open, (_, change)| {
        *open += change;
        Some(*open)
    });
    open.max()
        .map_or(0, |most| u64::try_from(most).unwrap_or(0))
}

/// A pool of connections that are in use for so much of the time is full.
pub const BUSY_LEAST: f64 = 0.9;

/// Returns the share of their time in which the connections of a service carried a request.
pub fn busy_share(case: &ServiceCase<'_>) -> f64 {
    let busy_ns = case.total_ns();
    ratio_of(busy_ns, busy_ns + case.digest.series.gaps_ns)
}

/// Functions in which threads of Go wait for the next task or timer.
const OWN_SCHEDULERS: [&str; 3] = ["runtime.netpoll", "runtime.findRunnable", "runtime.mPark"];

/// Returns whether timers hold requests in a runtime that schedules its own tasks: its threads wait for all of them.
pub fn has_own_scheduler(case: &ServiceCase<'_>) -> bool {
    case.is_mostly_in(RequestPart::Timer, &OWN_SCHEDULERS)
}

/// Returns whether the stack with the most time is one of such a runtime.
pub fn is_of_scheduler(case: &ServiceCase<'_>, stacks: &Top) -> bool {
    let stacks = case.evidence.stacks(stacks);
    let longest = stacks.first();
    longest.is_some_and(|it| OWN_SCHEDULERS.iter().any(|name| it.subject.contains(name)))
}

/// Returns whether something that has to be done makes the slowest requests slow: it is most of what they took longer, and the
/// longest takes longer than the shortest stall that Linux makes on purpose.
pub fn slows_slowest(case: &ServiceCase<'_>, harm: &PartHarm) -> bool {
    harm.excess_share >= 0.5
        && held_up(harm.excess_ns, case.total_ns())
        && case.max_ns() >= TCP_DELACK_MIN_NS
}

/// Returns a doubt, if it was not recorded what threads did, and the slowest requests lost time in the program.
pub fn unseen_verdict(case: &ServiceCase<'_>) -> RequestVerdict {
    let harm = case.harm(&[
        RequestPart::Unknown,
        RequestPart::Unread,
        RequestPart::Queued,
    ]);
    let is_slow = held_up(harm.excess_ns, case.total_ns()) && harm.excess_share >= 0.5;
    if case.evidence.has_waits() || !is_slow {
        return RequestVerdict::Quiet;
    }
    let mut facts = duration_facts(case);
    facts.push(time_fact(
        "unknown_ns",
        harm.ns,
        "time in the program, not recorded",
    ));
    RequestVerdict::undecided(
        format!(
            "The slowest of {} lost {} in the program. The recording does not show why.",
            of_requests(case),
            duration(harm.excess_ns)
        ),
        RuleDoubt {
            candidates: OF_THREADS.to_vec(),
            concerned_ns: harm.excess_ns,
            facts,
            why: "The activity of threads was not recorded.",
            would_help: Some("Record as root with `--detail waits`."),
        },
    )
}
