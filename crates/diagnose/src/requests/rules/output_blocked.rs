//! A thread that has a request writes to a pipe, a terminal or a UNIX socket, and nobody reads what is there: a log that is not
//! drained stops the program.

use super::host::{HostCause, describe_work, judge_cause, longest_place};
use super::rule::{RequestRule, RequestVerdict};
use super::shared::number;
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::duration;

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
        judge_cause(case, |harm| host_cause(case, harm), &[RequestPart::Output])
    }
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
        fact: ("output_ns", "waited for room for output"),
        facts: vec![number("blocked_writes", count, "writes that were blocked")],
        could_not_see: match reader {
            Some(_) => Vec::new(),
            None => vec!["Which process reads it: no read ended a wait.".to_owned()],
        },
        advice: vec![
            "Read the output as fast as the program writes it. Check the process at the other end of the pipe, \
                the terminal or the socket (`lsof -E -p PID` names it).",
            "Write less: a lower log level, no line for each request.",
            "Do not let a request wait for its log. Write to a file, or use an asynchronous logger that drops \
                lines when its queue is full (Python QueueHandler, log4j2 AsyncAppender, pino's worker thread).",
            "A larger pipe helps only in a burst: fcntl(F_SETPIPE_SZ), /proc/sys/fs/pipe-max-size.",
        ],
        gain: "another process reads the output at once",
        because: format!("blocked writes of {} were measured", duration(harm.ns)),
    }
}
