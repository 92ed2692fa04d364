//! A thread that has a request writes to a pipe, a terminal or a UNIX socket, and nobody reads what is there: a log that is not
//! drained stops the program.

use super::host::{HostCause, describe_work, judge_cause, longest_place};
use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    EXPLAINS_LEAST, direct_confidence, duration_facts, make_advice, number, share_fact, time_fact,
};
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::{duration, percent, ratio_of};

/// The rule `output_blocked`.
pub struct OutputBlocked;

impl RequestRule for OutputBlocked {
    fn id(&self) -> RuleId {
        RuleId::OutputBlocked
    }

    fn summary(&self) -> &'static str {
        "The program waits until another process reads its output"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        match stops_between(case) {
            true => RequestVerdict::Fires(Box::new(make_gap_finding(case))),
            false => judge_cause(case, |harm| host_cause(case, harm), &[RequestPart::Output]),
        }
    }
}

/// Returns whether output stops a client between its requests for longer than within them, and for much of its time.
fn stops_between(case: &ServiceCase<'_>) -> bool {
    let gap_ns = case.digest.output.ns;
    let within_ns = case.harm(&[RequestPart::Output]).ns;
    let share = ratio_of(gap_ns, case.total_ns() + gap_ns);
    !case.is_server() && gap_ns > within_ns && share >= EXPLAINS_LEAST
}

/// Returns texts and facts of the time that a full pipe or terminal blocked writes.
fn host_cause(case: &ServiceCase<'_>, harm: &PartHarm) -> HostCause {
    let threads = case.threads(RequestPart::Output);
    let count = threads.iter().map(|it| it.count).sum();
    let readers = case.part_wakers(RequestPart::Output);
    let reader = readers.first().map(|it| it.subject.name.as_str());
    HostCause {
        parts: &[RequestPart::Output],
        holds: "Output that is not read in time delays",
        place: match reader {
            Some(reader) => {
                let place = longest_place(case, RequestPart::Output);
                match describe_work(case, &case.digest.holders.output) {
                    Some(work) => format!("{place}; {reader} has to read it, and {work} meanwhile"),
                    None => format!("{place}; {reader} reads it"),
                }
            }
            None => longest_place(case, RequestPart::Output),
        },
        fact: ("output_ns", "waited for space for output"),
        facts: vec![number("blocked_writes", count, "waits for blocked writes")],
        could_not_see: match reader {
            Some(_) => Vec::new(),
            None => vec!["Which process reads it: no read ended a wait.".to_owned()],
        },
        advice: FIXES.to_vec(),
        gain: GAIN,
        because: format!("blocked writes of {} were measured", duration(harm.ns)),
    }
}

/// Fixes, best first.
const FIXES: [&str; 4] = [
    "Read the output as fast as the program writes it. Check the process at the other end of the pipe, \
        the terminal or the socket (`lsof -E -p PID` names it).",
    "Write less: a lower log level, no line for each request.",
    "Do not let a request wait for its log. Write to a file, or use an asynchronous logger that drops \
        lines when its queue is full (Python QueueHandler, log4j2 AsyncAppender, pino's worker thread).",
    "A larger pipe helps only in a burst: fcntl(F_SETPIPE_SZ), /proc/sys/fs/pipe-max-size.",
];

/// Assumption under which the harm goes away.
const GAIN: &str = "another process reads the output at once";

/// Makes the finding: a client waited for the reader of its output between its requests.
fn make_gap_finding(case: &ServiceCase<'_>) -> RequestFinding {
    let gap = &case.digest.output;
    let whole_ns = case.total_ns() + gap.ns;
    let stacks = case.evidence.stacks(&gap.stacks);
    let place = stacks.first().map(|it| format!(", in {}", it.subject));
    let reader = case.evidence.threads(&gap.readers).into_iter().next();
    let reader = reader.map(|it| format!("; {} reads it", it.subject.name));
    let could_not_see = match &reader {
        Some(_) => Vec::new(),
        None => vec!["Which process reads it: no read ended a wait.".to_owned()],
    };
    let mut facts = duration_facts(case);
    facts.extend([
        time_fact(
            "output_ns",
            gap.ns,
            "waited for space for output between requests",
        ),
        share_fact(
            "output_share",
            ratio_of(gap.ns, whole_ns),
            "of the time of requests and of these waits",
        ),
        number(
            "output_requests",
            gap.requests,
            "request(s) after such waits",
        ),
        time_fact("longest_output_ns", gap.most_ns, "the longest"),
    ]);
    RequestFinding {
        harm_ns: gap.ns,
        whole_ns,
        remedy: Remedy::Avoidable,
        headline: format!(
            "Output that is not read in time stops {} between requests to {}: {} of {} ({}){}{}.",
            case.key.name,
            case.key.address,
            duration(gap.ns),
            duration(whole_ns),
            percent(ratio_of(gap.ns, whole_ns)),
            place.unwrap_or_default(),
            reader.unwrap_or_default(),
        ),
        facts,
        could_not_see,
        advice: make_advice(FIXES),
        gain: Some(GAIN),
        confidence: direct_confidence(
            case,
            format!("blocked writes of {} were measured", duration(gap.ns)),
        ),
        ..RequestFinding::new(case)
    }
}
