//! A thread that has a request waits for a disk: for data that has to be written before it goes on, or that it reads.

use table::tables::WaitedFile;

use super::host::{HostCause, file_title, judge_cause, longest_place};
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
        let files = FilesWaitedFor::find(case);
        let verdict = judge_cause(
            case,
            |harm| host_cause(case, harm, &files),
            &[RequestPart::Disk],
        );
        match verdict {
            RequestVerdict::Fires(mut found) => {
                found.involved = files.lines;
                RequestVerdict::Fires(found)
            }
            other => other,
        }
    }
}

/// Files that are named in a finding.
const FILES_NAMED: usize = 3;

/// Files that threads with requests waited for.
#[derive(Debug, Default)]
struct FilesWaitedFor {
    /// Thread, time and file, the longest time first.
    lines: Vec<String>,
    /// The file with the most time, if that is most of the time for files.
    first: Option<WaitedFile>,
}

impl FilesWaitedFor {
    /// Finds files and disks that the service's threads waited for; the most time first.
    fn find(case: &ServiceCase<'_>) -> Self {
        let mut waits = Vec::new();
        for thread in case.threads(RequestPart::Disk) {
            let thread = thread.subject;
            let files = case.evidence.digests.file_waits.files_of(thread.tid);
            waits.extend(
                files
                    .into_iter()
                    .map(|(key, ns)| (ns, key, thread.name.clone())),
            );
        }
        waits.sort_by_key(|(ns, ..)| std::cmp::Reverse(*ns));
        let names = case.evidence.names();
        let all_ns: u64 = waits.iter().map(|(ns, ..)| ns).sum();
        let most = waits.first().filter(|(ns, ..)| 2 * ns > all_ns);
        let first = most.and_then(|(_, (device, inode), _)| names.file(*device, *inode));
        let lines = waits
            .iter()
            .take(FILES_NAMED)
            .filter_map(|(ns, key, thread)| {
                let file = names.file(key.0, key.1)?;
                let name = file_title(file);
                Some(format!("{thread} waited {} for {name}", duration(*ns)))
            });
        Self {
            lines: lines.collect(),
            first: first.cloned(),
        }
    }

    /// Returns the file and disk for the headline; empty if no file took most of the time.
    fn place(&self) -> String {
        let named = self.first.as_ref().filter(|file| file.path.is_some());
        named.map_or_else(String::new, |file| format!(", for {}", file_title(file)))
    }

    /// Returns what the recording does not show of the disk.
    fn unseen(&self) -> String {
        let disk = self.first.as_ref().map(|file| file.disk.as_deref());
        match disk {
            Some(Some(disk)) => format!("Which programs used {disk}, too (`iostat -x`)."),
            Some(None) => "Which disk it was: the file system has no block device of its own. Which programs used it, too \
                           (`iostat -x`)."
                .to_owned(),
            None => "Which disk it was, and which programs used it, too (`iostat -x`).".to_owned(),
        }
    }
}

/// Returns texts and facts of the time that threads waited for the disk.
fn host_cause(case: &ServiceCase<'_>, harm: &PartHarm, files: &FilesWaitedFor) -> HostCause {
    let stacks = case.stacks(RequestPart::Disk);
    let is_sync = stacks.first().is_some_and(|it| it.subject.contains("sync"));
    let threads = case.threads(RequestPart::Disk);
    let count = threads.iter().map(|it| it.count).sum();
    HostCause {
        parts: &[RequestPart::Disk],
        holds: "A disk delays",
        place: files.place() + &longest_place(case, RequestPart::Disk),
        fact: ("disk_ns", "waited for a disk"),
        facts: vec![number("disk_waits", count, "waits for a disk")],
        could_not_see: vec![files.unseen()],
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
