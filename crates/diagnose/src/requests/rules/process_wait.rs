//! Requests wait for another process of this host: one that holds a lock of a database, a child, or a helper at the end of a
//! pipe or a socket.

use super::host::{HostCause, judge_cause, longest_place};
use super::rule::{RequestRule, RequestVerdict};
use super::shared::number;
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::duration;

/// The rule `process_wait`.
pub struct ProcessWait;

impl RequestRule for ProcessWait {
    fn id(&self) -> RuleId {
        RuleId::ProcessWait
    }

    fn summary(&self) -> &'static str {
        "Requests wait for another process of this host"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        judge_cause(case, |harm| host_cause(case, harm), &[RequestPart::Process])
    }
}

/// Fix where processes of one program wait for each other.
const OF_LOCKS: &str = "In a database, a session waits for a lock that another session holds. PostgreSQL: `pg_blocking_pids()` and \
     `idle in transaction` in pg_stat_activity; MySQL: `sys.innodb_lock_waits`. Commit sooner, and set `lock_timeout` and \
     `idle_in_transaction_session_timeout`.";

/// Fix where a process waits for another program.
const OF_CHILDREN: &str = "Start no program for each request: keep it running, or use a library. In an event loop, do not wait for a \
     child (Node.js `execSync`, Python `subprocess.run`).";

/// Returns texts and facts of the time that threads waited for child processes.
fn host_cause(case: &ServiceCase<'_>, harm: &PartHarm) -> HostCause {
    let threads = case.threads(RequestPart::Process);
    let count = threads.iter().map(|it| it.count).sum();
    let wakers = case.part_wakers(RequestPart::Process);
    let other = wakers.first().map(|it| it.subject.pid);
    let names = case.evidence.names();
    let is_sibling = other.is_some_and(|pid| names.comm(pid) == Some(case.key.name.as_str()));
    let by = other.map(|pid| format!("; {} ended most of these waits", names.process(pid).title()));
    let record = "Record that process, too (`-p PID`): its report shows what it does.";
    HostCause {
        parts: &[RequestPart::Process],
        holds: match is_sibling {
            true => "Another process of the same program delays",
            false => "Another process delays",
        },
        place: match by {
            Some(by) => by,
            None => longest_place(case, RequestPart::Process),
        },
        fact: ("process_ns", "waited for another process"),
        facts: vec![number("process_waits", count, "waits for another process")],
        could_not_see: vec![
            "What the other process did meanwhile, and which lock it held.".to_owned(),
        ],
        advice: match is_sibling {
            true => vec![OF_LOCKS, record],
            false => vec![record, OF_CHILDREN, OF_LOCKS],
        },
        gain: "no request waits for the other process",
        because: format!(
            "waits of {} and the processes that ended them were measured",
            duration(harm.ns)
        ),
    }
}
