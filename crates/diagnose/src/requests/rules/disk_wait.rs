//! A thread that has a request waits for a disk: for data that has to be written before it goes on, or that it reads.

use super::host::{HostCause, judge_cause, longest_place};
use super::rule::{RequestRule, RequestVerdict};
use super::shared::number;
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::duration;

/// The rule `disk_wait`.
pub struct DiskWait;

impl RequestRule for DiskWait {
    fn id(&self) -> RuleId {
        RuleId::DiskWait
    }

    fn summary(&self) -> &'static str {
        "Requests wait for a disk"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        judge_cause(case, |harm| host_cause(case, harm), RequestPart::Disk)
    }
}

fn host_cause(case: &ServiceCase<'_>, harm: &PartHarm) -> HostCause {
    let stacks = case.stacks(RequestPart::Disk);
    let is_sync = stacks.first().is_some_and(|it| it.subject.contains("sync"));
    let threads = case.threads(RequestPart::Disk);
    let count = threads.iter().map(|it| it.count).sum();
    HostCause {
        part: RequestPart::Disk,
        holds: "A disk delays",
        place: longest_place(case, RequestPart::Disk),
        fact: ("disk_ns", "waited for a disk"),
        facts: vec![number("disk_waits", count, "waits for a disk")],
        could_not_see: vec![
            "Which disk it was, and which programs used it, too (`iostat -x`).".to_owned(),
        ],
        advice: match is_sync {
            true => SYNC.to_vec(),
            false => READ.to_vec(),
        },
        gain: "no request waits for the disk",
        because: format!(
            "waits of {} were measured in calls on files",
            duration(harm.ns)
        ),
    }
}

/// Fixes where data has to be on the disk before the call returns.
const SYNC: [&str; 4] = [
    "If a second of writes may be lost: do not wait for each of them. redis `appendfsync everysec`, PostgreSQL \
     `synchronous_commit = off`, MySQL `innodb_flush_log_at_trx_commit = 2`.",
    "Let one fdatasync() serve many requests: write in batches, or let the database commit in groups (PostgreSQL \
     `commit_delay`, MySQL `binlog_group_commit_sync_delay`).",
    "Call it in another thread than the one that serves, if the answer need not wait for it.",
    "Use a faster disk for this file, or lift its limit (`io.max`, `blkio.throttle.*`).",
];

/// Fixes where a file is read or written.
const READ: [&str; 3] = [
    "Read ahead of the request, or keep the data in memory: more page cache, posix_fadvise(POSIX_FADV_WILLNEED), a cache.",
    "Read in another thread than the one that serves: a thread pool, io_uring (nginx `aio threads`).",
    "Use a faster disk for this file, or lift its limit (`io.max`, `blkio.throttle.*`).",
];
