//! The first segments of a connection were lost, or nobody took them: connect() waited for timers of
//! seconds. That comes before the connection's duration, and no stage holds it.

use std::collections::BTreeMap;

use table::Role;
use table::tables::Connection;

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::explained_drops::is_full_accept_queue;
use super::shared::facts::{longest_ns, min_rtt, sum, whole};
use super::shared::sentences::advice;
use crate::connections::case::Case;
use crate::drops::DropCause;
use crate::report::{
    Advice, Confidence, ConfidenceLevel, DataDirection, Fact, Finding, RuleId, UndecidedFinding,
};
use crate::units::{count, duration, quantity};

/// The rule `syn_retries`.
pub struct SynRetries;

/// The first timeout of a SYN (RFC 6298 section 2.1, the kernel's TCP_TIMEOUT_INIT).
const FIRST_TIMEOUT_NS: u64 = 1_000_000_000;

impl Rule for SynRetries {
    fn id(&self) -> RuleId {
        RuleId::SynRetries
    }

    fn summary(&self) -> &'static str {
        "Connecting took seconds because SYNs were not answered"
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some(identity) = case.own.identity() else {
            return Verdict::Quiet;
        };
        let (Some(retries), Some(waited_ns)) = (identity.syn_retries, waited_ns(identity)) else {
            return self.check_counters(case);
        };
        if retries == 0 {
            return Verdict::Quiet;
        }
        let rtt_ns = case.own.gathered.samples.min_rtt_us.map_or(0, u64::from) * 1_000;
        // who refused them says so, with what it cost: `listen_overflow`
        let harm_ns = match is_refused(case) {
            true => 0,
            false => waited_ns.saturating_sub(rtt_ns),
        };
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: waited_ns,
            harm_ns,
            facts: [
                Some(sum("syn_retries", retries.into(), "SYNs retransmitted")),
                is_refused(case).then(|| {
                    let label = "of them, to a listener that is recorded and was full";
                    sum(REFUSED, retries.into(), label)
                }),
                drops_here(case),
                Some(longest_ns(
                    "connecting_ns",
                    waited_ns,
                    "longest connect time",
                )),
                min_rtt(case),
            ]
            .into_iter()
            .flatten()
            .collect(),
        })
    }

    fn is_beyond_life(&self) -> bool {
        true
    }

    fn interval(&self, case: &Case) -> (u64, u64) {
        let times = case
            .own
            .identity()
            .and_then(|own| own.connect_ns.zip(own.opened_ns));
        times.unwrap_or_else(|| case.interval(&[]))
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        let dropped = causes_here(case);
        let is_refused = is_refused(case);
        let keep = "Keep connections open and reuse them: an open connection sends no SYN.";
        let advice = match dropped.is_empty() {
            _ if is_refused => advice([
                "See listen_overflow: the accept queue of the listener was full.",
                keep,
            ]),
            false => {
                let fixes = dropped.keys().map(|cause| Advice(cause.explain().into()));
                fixes.chain(advice([keep])).collect()
            }
            true => {
                blind.push(
                    "Whether the SYNs were lost, or their answers, or the listener was full."
                        .into(),
                );
                advice([
                    "On the server, check whether listening sockets overflow: `nstat -az \
                 TcpExtListenOverflows TcpExtListenDrops`, and `ss -ltn` (Recv-Q at its limit, \
                 Send-Q). If so, accept faster, or raise listen()'s backlog and \
                 net.core.somaxconn.",
                    "Otherwise find where the path loses packets: `ip -s link` on both hosts, and firewalls \
                        with connection tables between them.",
                    keep,
                ])
            }
        };
        FindingExplanation {
            ruled_out: Vec::new(),
            could_not_see: blind,
            advice,
            win: WinBasis::Unknown,
            confidence: Confidence {
                level: ConfidenceLevel::High,
                because: "counted and timed in the kernel, from connect() on".into(),
            },
        }
    }

    fn headline_of_worst(&self, finding: &Finding, worst: &Case) -> String {
        let dropped = whole(&finding.evidence.0, "dropped").unwrap_or(0);
        let causes = causes_here(worst);
        match causes.iter().max_by_key(|(_, segments)| **segments) {
            Some((cause, _)) if finding.harm_ns > 0 => format!(
                "{}: this host dropped {} of handshakes itself — connecting took {} longer.",
                cause.meaning(),
                quantity(dropped, "segment"),
                duration(finding.harm_ns)
            ),
            _ => self.headline(finding),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let retries = whole(&finding.evidence.0, "syn_retries").unwrap_or(0);
        if whole(&finding.evidence.0, REFUSED) == Some(retries) {
            return format!(
                "SYNs were not answered ({} retransmitted): the accept queue of the listener was full.",
                count(retries)
            );
        }
        format!(
            "SYNs were not answered ({} retransmitted) — connecting took {} longer.",
            count(retries),
            duration(finding.harm_ns)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "Segments without data were retransmitted. Connecting may have taken {} longer, or more.",
            duration(undecided.possible_harm_ns)
        )
    }
}

/// Name of the fact: SYNs to a full listener.
const REFUSED: &str = "refused_syns";

/// Returns whether the listener is recorded, and its accept queue was full while the connection was made.
fn is_refused(case: &Case) -> bool {
    let Some(own) = case.own.identity() else {
        return false;
    };
    let connecting = own.connect_ns.zip(own.opened_ns);
    let is_full = connecting.is_some_and(|times| case.context.is_listener_full(own, times));
    is_full
        && causes_here(case)
            .keys()
            .all(|cause| is_full_accept_queue(cause))
}

/// Returns why this host dropped segments of the handshake, and how many: SYNs that this end sent, and the answers of the other
/// end.
fn causes_here<'a>(case: &'a Case) -> BTreeMap<&'a DropCause, u64> {
    let times = case
        .own
        .identity()
        .and_then(|own| own.connect_ns.zip(own.opened_ns));
    let Some(times) = times else {
        return BTreeMap::new();
    };
    let mut causes = case.own.gathered.drops.causes_within(times);
    let answers = case
        .peer
        .map(|peer| peer.gathered.drops.causes_within(times));
    for (cause, segments) in answers.into_iter().flatten() {
        *causes.entry(cause).or_default() += segments;
    }
    causes
}

/// Returns the fact of handshake segments that this host dropped; None if it dropped none.
fn drops_here(case: &Case) -> Option<Fact> {
    let dropped = causes_here(case).values().sum();
    (dropped > 0).then(|| {
        sum(
            "dropped",
            dropped,
            "segments of handshakes that this host dropped",
        )
    })
}

/// Returns the time from connect() to the answer, ns.
fn waited_ns(identity: &Connection) -> Option<u64> {
    identity.opened_ns?.checked_sub(identity.connect_ns?)
}

impl SynRetries {
    /// Judges by counters: a retransmission without data was a SYN or a FIN.
    fn check_counters(&self, case: &Case) -> Verdict {
        let retries = case.retransmits().unwrap_or(0);
        let data = case.own.growth(|sample| sample.bytes_retrans);
        // A server's are the SYN-ACKs of its listening socket: its client waited.
        let accepted = case
            .own
            .identity()
            .is_some_and(|own| own.role == Role::Server);
        if accepted || case.own.opened_ns().is_none() || retries == 0 || data != Some(0) {
            return Verdict::Quiet;
        }
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: FIRST_TIMEOUT_NS,
            facts: vec![sum(
                "retransmits",
                retries,
                "retransmitted segments without data",
            )],
            why: "The recording does not show when connect() was called. The retransmitted segments were SYNs, \
                or FINs at the end.",
            would_help: Some("Record as root from before the program connects."),
        })
    }
}
