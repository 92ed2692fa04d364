//! Parts that rules on the host and the program share: a cause with its time in some parts of the requests, which can be
//! avoided.

use table::tables::WaitedFile;

use super::rule::{Remedy, RequestFinding, RequestVerdict};
use super::shared::{
    direct_confidence, duration_facts, make_advice, of_requests, of_time, rule_out, share_fact,
    time_fact,
};
use crate::report::Fact;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::requests::holder_times::HolderWork;
use crate::requests::id::EndpointId;

/// Words of a rule for its parts, beside the numbers.
pub struct HostCause {
    /// The parts.
    pub parts: &'static [RequestPart],
    /// Subject and verb of the headline: `A CPU quota stops`.
    pub holds: &'static str,
    /// Words after the number in the headline.
    pub place: String,
    /// Name and label of the fact with the time of these.
    pub fact: (&'static str, &'static str),
    /// Further facts.
    pub facts: Vec<Fact>,
    /// Facts that the recording cannot show.
    pub could_not_see: Vec<String>,
    /// Fixes, best first.
    pub advice: Vec<&'static str>,
    /// Assumption under which the harm goes away.
    pub gain: &'static str,
    /// Why it is sure.
    pub because: String,
}

/// Causes that one of these may be mistaken for.
const OTHERS: [(&str, &[RequestPart]); 6] = [
    ("computing", &[RequestPart::Cpu]),
    (
        "other threads on the CPU",
        &[RequestPart::RunQueue, RequestPart::Preempted],
    ),
    ("the CPU quota", &[RequestPart::CpuQuota]),
    ("locks", &[RequestPart::Lock]),
    ("disks", &[RequestPart::Disk]),
    (
        "the other end",
        &[RequestPart::Remote, RequestPart::Upstream],
    ),
];

/// Returns the finding of a cause on the host; quiet if it took no time.
pub fn judge_cause(
    case: &ServiceCase<'_>,
    cause: impl FnOnce(&PartHarm) -> HostCause,
    parts: &[RequestPart],
) -> RequestVerdict {
    judge_harm(case, cause, case.harm(parts))
}

/// Returns the same, where this harm of its parts counts.
pub fn judge_harm(
    case: &ServiceCase<'_>,
    cause: impl FnOnce(&PartHarm) -> HostCause,
    own: PartHarm,
) -> RequestVerdict {
    match own.ns {
        0 => RequestVerdict::Quiet,
        _ => RequestVerdict::Fires(Box::new(finding(case, &own, cause(&own)))),
    }
}

/// Makes the finding of a cause on the host, such as a CPU quota or a disk.
fn finding(case: &ServiceCase<'_>, own: &PartHarm, cause: HostCause) -> RequestFinding {
    let (harm, behind_ns) = case.harm_with_queue(*own, cause.parts);
    let mut facts = duration_facts(case);
    facts.push(time_fact(cause.fact.0, own.ns, cause.fact.1));
    if behind_ns > 0 {
        let label = "wait of other requests behind them";
        facts.push(time_fact("queued_behind_ns", behind_ns, label));
    }
    facts.push(share_fact("share", harm.share, "of the time of requests"));
    facts.extend(cause.facts);
    let others = OTHERS
        .iter()
        .filter(|(_, parts)| !parts.iter().any(|it| cause.parts.contains(it)));
    let others: Vec<_> = others.copied().collect();
    RequestFinding {
        parts: match behind_ns {
            0 => cause.parts.to_vec(),
            _ => [cause.parts, &[RequestPart::Queued]].concat(),
        },
        harm_ns: harm.ns,
        excess_ns: harm.excess_ns,
        excess_share: harm.excess_share,
        remedy: Remedy::Avoidable,
        headline: format!(
            "{} {}: {}{}.",
            cause.holds,
            of_requests(case),
            of_time(case, harm.ns),
            cause.place
        ),
        facts,
        ruled_out: rule_out(case, &others),
        could_not_see: cause.could_not_see,
        advice: make_advice(cause.advice),
        gain: Some(cause.gain),
        confidence: direct_confidence(case, cause.because),
        ..RequestFinding::new(case)
    }
}

/// Fix where the holder of a lock waits for its own client.
pub const OF_CLIENTS: &str = "Commit before the client does something else: a session keeps its locks until the transaction ends. \
     PostgreSQL ends such sessions with `idle_in_transaction_session_timeout`, MariaDB with `idle_transaction_timeout`.";

/// Returns the place in the program with the most time of a part, for a headline.
pub fn longest_place(case: &ServiceCase<'_>, part: RequestPart) -> String {
    let stacks = case.stacks(part);
    let place = stacks.first().map(|it| format!(", in {}", it.subject));
    place.unwrap_or_default()
}

/// Returns path and device of a file: `/var/lib/redis/appendonly.aof on vda1`.
pub fn file_title(file: &WaitedFile) -> String {
    let path = match file.path.as_deref() {
        Some(path) => path.to_owned(),
        None => format!("inode {}", file.inode),
    };
    let deleted = if file.deleted { " (deleted)" } else { "" };
    let disk = file.disk.as_deref();
    let disk = disk.map_or_else(String::new, |disk| format!(" on {disk}"));
    format!("{path}{deleted}{disk}")
}

/// Returns what a process did while others waited for it; `None`: nothing to name.
pub fn describe_work(case: &ServiceCase<'_>, holders: &HolderWork) -> Option<String> {
    let (work, _) = holders.largest_part()?;
    let text = match work {
        RequestPart::Remote => {
            return Some(format!(
                "waited for its client{}",
                other_end(case, holders.client)
            ));
        }
        RequestPart::Cpu => "computed",
        RequestPart::RunQueue | RequestPart::Preempted => "waited for a CPU",
        RequestPart::CpuQuota => "waited for its CPU quota",
        RequestPart::Timer => "slept",
        RequestPart::Disk => "waited for a disk",
        RequestPart::Memory => "waited for memory",
        RequestPart::Lock => "waited for a lock",
        RequestPart::Upstream => {
            return Some(format!(
                "waited for the server{}",
                other_end(case, holders.server)
            ));
        }
        RequestPart::Paused => "was stopped",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Returns the process or the address at the other end of a connection; empty if it is not known.
fn other_end(case: &ServiceCase<'_>, endpoint: Option<EndpointId>) -> String {
    let Some(endpoint) = endpoint.map(|it| case.evidence.endpoint(it)) else {
        return String::new();
    };
    let names = case.evidence.names();
    let peer = endpoint.peer.map(|it| case.evidence.endpoint(it).pid);
    match peer.filter(|pid| *pid != 0) {
        Some(pid) => format!(" {}", names.process(pid).title()),
        None => names
            .row(endpoint.conn)
            .map_or_else(String::new, |row| format!(" {}", row.remote)),
    }
}
