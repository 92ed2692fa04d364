//! Requests wait for another process of this host: one that holds a lock of a database, a child, or a helper at the end of a
//! pipe or a socket.

use std::collections::BTreeMap;

use super::host::{HostCause, OF_CLIENTS, describe_work, file_title, judge_cause, longest_place};
use super::rule::{RequestRule, RequestVerdict};
use super::shared::number;
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::requests::digests::file_waits::FileKey;
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

/// Fix where a process waits for the lock of a file.
const OF_FILES: &str = "Hold the lock of the file for less time. SQLite: short write transactions, `PRAGMA journal_mode=WAL`. PHP: \
     `session_write_close()`. Or use a lock for each part of the data.";

/// Fix of an unknown process.
const RECORD: &str = "Record that process, too (`-p PID`): its report shows what it does.";

/// Returns texts and facts of the time that threads waited for another process.
fn host_cause(case: &ServiceCase<'_>, harm: &PartHarm) -> HostCause {
    let threads = case.threads(RequestPart::Process);
    let count = threads.iter().map(|it| it.count).sum();
    let wakers = case.part_wakers(RequestPart::Process);
    let other = wakers.first().map(|it| it.subject.pid);
    let names = case.evidence.names();
    let is_sibling = other.is_some_and(|pid| names.comm(pid) == Some(case.key.name.as_str()));
    let file = locked_file(case, harm);
    let holders = &case.digest.holders.process;
    let work = describe_work(case, holders);
    let waits_for_client = holders
        .largest_part()
        .is_some_and(|(part, _)| part == RequestPart::Remote);
    let advice = [
        waits_for_client.then_some(OF_CLIENTS),
        file.as_ref().map(|_| OF_FILES),
        (is_sibling && file.is_none()).then_some(OF_LOCKS),
        work.is_none().then_some(RECORD),
        (!is_sibling && file.is_none()).then_some(OF_CHILDREN),
        (!is_sibling && file.is_none()).then_some(OF_LOCKS),
    ];
    HostCause {
        parts: &[RequestPart::Process],
        holds: match is_sibling {
            true => "Another process of the same program delays",
            false => "Another process delays",
        },
        place: place(case, other, file.as_deref(), work.as_deref()),
        fact: ("process_ns", "waited for another process"),
        facts: vec![number("process_waits", count, "waits for another process")],
        could_not_see: match (&work, &file) {
            (None, None) => {
                vec!["What the other process did meanwhile, and which lock it held.".to_owned()]
            }
            (None, Some(_)) => vec!["What the other process did meanwhile.".to_owned()],
            (Some(_), None) => vec!["Which lock the other process held.".to_owned()],
            (Some(_), Some(_)) => Vec::new(),
        },
        advice: advice.into_iter().flatten().collect(),
        gain: "no request waits for the other process",
        because: format!(
            "waits of {} and the processes that ended them were measured",
            duration(harm.ns)
        ),
    }
}

/// Returns who had the lock, and what that process did meanwhile; else the place of the wait.
fn place(
    case: &ServiceCase<'_>,
    other: Option<u32>,
    file: Option<&str>,
    work: Option<&str>,
) -> String {
    let lock = file.map_or_else(String::new, |file| format!(", for the lock of {file}"));
    let Some(pid) = other else {
        return lock + &longest_place(case, RequestPart::Process);
    };
    let title = case.evidence.names().process(pid).title();
    match work {
        Some(work) => format!("{lock}; they waited for {title}, which {work}"),
        None => format!("{lock}; {title} ended most of these waits"),
    }
}

/// Returns the file with the lock that threads waited for during most of this time, and its device.
fn locked_file(case: &ServiceCase<'_>, harm: &PartHarm) -> Option<String> {
    let waits = case.threads(RequestPart::Process);
    let digest = &case.evidence.digests.file_waits;
    let mut files: BTreeMap<FileKey, u64> = BTreeMap::new();
    for (file, ns) in waits.iter().flat_map(|it| digest.locks_of(it.subject.tid)) {
        *files.entry(file).or_default() += ns;
    }
    let (file, ns) = files.into_iter().max_by_key(|(_, ns)| *ns)?;
    let named = case.evidence.names().file(file.0, file.1);
    named.filter(|_| 2 * ns > harm.ns).map(file_title)
}
