//! Attempts to connect fail: refused, without an answer, without a local port, or without a way there.

use std::collections::BTreeMap;

use super::rule::{ProgramVerdict, Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{make_advice, number, time_fact};
use crate::report::severity::held_up;
use crate::report::{Confidence, ConfidenceLevel, Fact, FindingSubject, RuleDoubt, RuleId};
use crate::requests::digests::failed_connects::{
    AttemptSums, FailedAttempts, is_loopback, is_other_loopback,
};
use crate::requests::evidence::RequestEvidence;
use crate::units::{duration, quantity};

/// The rule `connect_failed`.
pub struct ConnectFailed;

impl RequestRule for ConnectFailed {
    fn id(&self) -> RuleId {
        RuleId::ConnectFailed
    }

    fn summary(&self) -> &'static str {
        "Attempts to connect failed"
    }

    fn check_programs(&self, evidence: &RequestEvidence<'_>) -> Vec<ProgramVerdict> {
        let attempts = evidence.digests.failed_connects.attempts.iter();
        attempts
            .map(|((pid, remote), attempts)| verdict(evidence, (*pid, remote), attempts))
            .collect()
    }
}

/// Why attempts failed, by errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FailureKind {
    Refused,
    NoAnswer,
    NoPort,
    Unreachable,
    GivenUp,
    Other,
}

impl FailureKind {
    /// Returns the kind of an errno (`include/uapi/asm-generic/errno.h`).
    fn new(errno: Option<i32>) -> Self {
        match errno {
            None => Self::GivenUp,
            Some(111) => Self::Refused,
            Some(110) => Self::NoAnswer,
            Some(99) => Self::NoPort,
            Some(100 | 101 | 113) => Self::Unreachable,
            Some(_) => Self::Other,
        }
    }

    /// Returns how the attempts failed, for the headline.
    fn text(self) -> &'static str {
        match self {
            Self::Refused => "were refused (ECONNREFUSED)",
            Self::NoAnswer => "got no answer (ETIMEDOUT)",
            Self::NoPort => "found no free local port (EADDRNOTAVAIL)",
            Self::Unreachable => "found no route (EHOSTUNREACH, ENETUNREACH)",
            Self::GivenUp => "got no answer until the program gave up",
            Self::Other => "failed",
        }
    }

    /// Returns what the user can do about this kind of failure.
    fn advice(self) -> &'static [&'static str] {
        match self {
            Self::Refused => &[
                "Check that the server listens there: `ss -ltn` on its host, the address and the port. A firewall that rejects \
                 looks the same.",
                "At start: wait until the server listens (readiness of the unit or the pod), and try again with short pauses.",
            ],
            Self::NoAnswer | Self::GivenUp => &[
                "Find where the SYN or its answer is lost: a firewall, a wrong address or route, or a full \
                    accept queue (`nstat -az TcpExtListenDrops` on the server).",
                "Set a connect timeout that suits the path, and try another address meanwhile (RFC 8305).",
            ],
            Self::NoPort => &[
                "Keep connections open: each closed one keeps its port for 60 s in TIME-WAIT.",
                "Then widen net.ipv4.ip_local_port_range, or set net.ipv4.tcp_tw_reuse=1 (ip-sysctl), or use more addresses.",
            ],
            Self::Unreachable => &[
                "Check the route (`ip route get ADDRESS`), and whether the host is up: `ip neigh` shows FAILED \
                    if no host answers.",
            ],
            Self::Other => &["Look the errno up in connect(2)."],
        }
    }

    /// Returns how sure it is that attempts failed so.
    fn confidence(self) -> Confidence {
        let (level, because) = match self {
            Self::GivenUp => (
                ConfidenceLevel::Medium,
                "no answer came before the program gave up, and a SYN counted as lost by then",
            ),
            _ => (
                ConfidenceLevel::High,
                "the kernel gave the error of these attempts",
            ),
        };
        Confidence {
            level,
            because: because.to_owned(),
        }
    }
}

/// Host part of the address at which clouds serve metadata to their machines.
const METADATA: &str = "169.254.169.254:";

/// Returns the fixes: for an address with a known meaning, its own come first. `has_other`: the process also tried or reached the
/// other address of `localhost`, at the same port.
fn list_fixes(kind: FailureKind, remote: &str, has_other: bool) -> Vec<&'static str> {
    let mut fixes = Vec::new();
    if remote.starts_with(METADATA) {
        fixes.push(
            "Clouds serve metadata at this address. Outside of them, configure the program not to ask: \
             `AWS_EC2_METADATA_DISABLED=true`, or name the credentials and the region. In a container of EC2, set the hop \
             limit of the metadata options to 2.",
        );
    }
    fixes.extend(kind.advice());
    let may_listen_elsewhere = matches!(kind, FailureKind::Refused | FailureKind::GivenUp);
    if may_listen_elsewhere && is_loopback(remote) {
        let place = if has_other { 0 } else { fixes.len() };
        fixes.insert(
            place,
            "`localhost` has two addresses, `::1` and `127.0.0.1`, and programs try them in turn. Let the server listen at \
             both, or give the client the address where it listens.",
        );
    }
    fixes
}

/// Returns whether the process also tried or reached the other address of `localhost`, at the same port.
fn has_other_address(evidence: &RequestEvidence<'_>, pid: u32, remote: &str) -> bool {
    let failed = &evidence.digests.failed_connects;
    let mut reached = evidence.reached_addresses(pid);
    failed.has_other_loopback(pid, remote) || reached.any(|it| is_other_loopback(it, remote))
}

/// Judges the failed attempts of one process to one address.
fn verdict(
    evidence: &RequestEvidence<'_>,
    (pid, remote): (u32, &str),
    attempts: &FailedAttempts,
) -> ProgramVerdict {
    let has_failed = attempts.failed.count() > 0;
    let sums = match has_failed {
        true => &attempts.failed,
        false => &attempts.early,
    };
    let windows = windows(evidence, pid, remote, sums);
    let first_ns = windows.first().map_or(0, |it| it.0);
    let harm_ns = windows.iter().map(|(from, until)| until - from).sum();
    let recorded = evidence.time_range();
    let time = (first_ns, windows.last().map_or(0, |it| it.1));
    let local = sums.kept.iter().find_map(|it| it.local.clone());
    let subject = FindingSubject {
        process: Some(evidence.names().process(pid)),
        local: local.unwrap_or_else(|| "?".to_owned()),
        remote: remote.to_owned(),
        connections: sums.count(),
        ids: Vec::new(),
        lifetime_ns: recorded
            .1
            .max(time.1)
            .saturating_sub(recorded.0.min(first_ns)),
        requests: None,
    };
    let verdict = match has_failed {
        true => {
            let has_other = has_other_address(evidence, pid, remote);
            let found = finding(evidence, &subject, attempts, (harm_ns, has_other));
            RequestVerdict::Fires(Box::new(found))
        }
        false if held_up(harm_ns, subject.lifetime_ns) => {
            undecided_verdict(&subject, sums, harm_ns)
        }
        false => RequestVerdict::Quiet,
    };
    ProgramVerdict {
        subject,
        time,
        verdict,
    }
}

/// Returns an undecided verdict: the program gave up before a SYN was retransmitted, so an answer
/// may have been on its way.
fn undecided_verdict(
    subject: &FindingSubject,
    attempts: &AttemptSums,
    harm_ns: u64,
) -> RequestVerdict {
    let who = subject
        .process
        .as_ref()
        .map_or_else(String::new, |it| it.title());
    RequestVerdict::undecided(
        format!(
            "{who} gave up {} to connect to {} before an answer. The recording does not show whether an answer \
                would have come.",
            quantity(subject.connections, "attempt"),
            subject.remote
        ),
        RuleDoubt {
            candidates: vec![RuleId::ConnectFailed],
            concerned_ns: harm_ns,
            facts: vec![
                number(
                    "given_up",
                    subject.connections,
                    "attempts given up by the program",
                ),
                time_fact("longest_ns", attempts.longest_ns, "longest attempt"),
                time_fact(
                    "unconnected_ns",
                    harm_ns,
                    "time until a connection, or the last attempt",
                ),
            ],
            why: "No SYN was retransmitted by then: the first timeout of a SYN is 1 s (RFC 6298).",
            would_help: Some("Let the program wait longer, and record again."),
        },
    )
}

/// Returns times in which a process could not connect: from a failure to the next connection to that port, or to the last
/// failure. Another address of the same name has the same port.
fn windows(
    evidence: &RequestEvidence<'_>,
    pid: u32,
    remote: &str,
    attempts: &AttemptSums,
) -> Vec<(u64, u64)> {
    let opened = evidence.opened_ns(pid, remote);
    let mut windows: Vec<(u64, u64)> = Vec::new();
    for attempt in &attempts.kept {
        let next = opened.partition_point(|ns| *ns < attempt.end_ns);
        let until_ns = opened.get(next).copied();
        let until_ns = until_ns.unwrap_or(attempts.last_ns.max(attempt.end_ns));
        match windows.last_mut() {
            Some(last) if attempt.start_ns <= last.1 => last.1 = last.1.max(until_ns),
            _ => windows.push((attempt.start_ns, until_ns)),
        }
    }
    windows
}

/// Makes the finding of failed attempts, with the kinds of failure and the time lost.
fn finding(
    evidence: &RequestEvidence<'_>,
    subject: &FindingSubject,
    attempts: &FailedAttempts,
    (harm_ns, has_other): (u64, bool),
) -> RequestFinding {
    let mut kinds: BTreeMap<FailureKind, u64> = BTreeMap::new();
    for (errno, count) in &attempts.failed.by_errno {
        *kinds.entry(FailureKind::new(*errno)).or_default() += count;
    }
    let most = kinds.iter().max_by_key(|(_, count)| **count);
    let kind = most.map_or(FailureKind::Other, |(kind, _)| *kind);
    let who = subject
        .process
        .as_ref()
        .map_or_else(String::new, |it| it.title());
    RequestFinding {
        harm_ns,
        whole_ns: subject.lifetime_ns,
        remedy: Remedy::Avoidable,
        headline: format!(
            "{who} could not connect to {}: {} {} in {}.",
            subject.remote,
            quantity(subject.connections, "attempt"),
            kind.text(),
            duration(harm_ns)
        ),
        facts: facts(attempts, &kinds, harm_ns),
        could_not_see: list_unseen(evidence, &kinds),
        advice: make_advice(list_fixes(kind, &subject.remote, has_other)),
        confidence: kind.confidence(),
        ..RequestFinding::without_harm()
    }
}

/// Returns what the recording does not show.
fn list_unseen(evidence: &RequestEvidence<'_>, kinds: &BTreeMap<FailureKind, u64>) -> Vec<String> {
    let of_program = match evidence.has_waits() {
        true => "The program may have worked between attempts; that time counts as lost, too.",
        false => "The activity of threads was not recorded.",
    };
    let of_given_up = "Whether an answer would have come later: the program did not wait for it.";
    let given_up = kinds.contains_key(&FailureKind::GivenUp);
    let lines = [Some(of_program), given_up.then_some(of_given_up)];
    lines.into_iter().flatten().map(str::to_owned).collect()
}

/// Returns the number of attempts by kind of failure, and their times.
fn facts(attempts: &FailedAttempts, kinds: &BTreeMap<FailureKind, u64>, harm_ns: u64) -> Vec<Fact> {
    const NAMES: [(FailureKind, &str, &str); 6] = [
        (FailureKind::Refused, "refused", "refused: a RST came"),
        (
            FailureKind::NoAnswer,
            "no_answer",
            "without an answer (ETIMEDOUT)",
        ),
        (FailureKind::NoPort, "no_port", "without a free local port"),
        (
            FailureKind::Unreachable,
            "unreachable",
            "unreachable: ICMP, or no neighbour",
        ),
        (FailureKind::GivenUp, "given_up", "given up by the program"),
        (FailureKind::Other, "other", "with another error"),
    ];
    let mut facts: Vec<Fact> = NAMES
        .into_iter()
        .filter_map(|(kind, name, label)| Some(number(name, *kinds.get(&kind)?, label)))
        .collect();
    let FailedAttempts { failed, early } = attempts;
    if early.count() > 0 {
        let label = "given up before an answer was due: not counted";
        facts.push(number("given_up_early", early.count(), label));
    }
    facts.push(time_fact(
        "longest_ns",
        failed.longest_ns,
        "longest attempt",
    ));
    facts.push(time_fact("attempts_ns", failed.waited_ns, "all attempts"));
    facts.push(time_fact(
        "unconnected_ns",
        harm_ns,
        "time until a connection, or the last attempt",
    ));
    if failed.syn_retries > 0 {
        facts.push(number(
            "syn_retries",
            failed.syn_retries,
            "SYNs retransmitted",
        ));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixes_of_known_addresses_come_first() {
        let first = |remote| list_fixes(FailureKind::GivenUp, remote, true)[0];
        assert!(first("169.254.169.254:80").starts_with("Clouds serve metadata"));
        assert!(first("[::1]:80").starts_with("`localhost` has two addresses"));
        assert!(first("10.0.0.1:80").starts_with("Find where the SYN"));
    }

    #[test]
    fn localhost_is_the_last_fix_unless_the_other_address_was_tried() {
        let is_of_localhost = |fix: &&'static str| fix.starts_with("`localhost` has two addresses");
        let places = |kind, has_other| {
            let fixes = list_fixes(kind, "127.0.0.1:80", has_other);
            (fixes.iter().position(is_of_localhost), fixes.len())
        };
        assert_eq!(places(FailureKind::Refused, true), (Some(0), 3));
        assert_eq!(places(FailureKind::Refused, false), (Some(2), 3));
        assert_eq!(places(FailureKind::NoPort, true), (None, 2));
    }
}
