//! A thread that serves several connections was blocked in a call on one of them while another had
//! data for it: a proxy that waits until the far side has taken what it passes on (SNAP, figure 7), or
//! a server with one slow client that blocks the others.

use std::cmp::Reverse;

use table::{Method, Stage};

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known, sum, total_ns};
use super::shared::sentences::{advice, direct_confidence, of_life};
use crate::connections::case::{Case, LEAST_POLLS};
use crate::connections::gather::threads::{BlockedElsewhere, Blocker};
use crate::connections::subject::ConnectionSubject;
use crate::report::{Advice, DataDirection, FactUnit, Finding, RuleId, UndecidedFinding};
use crate::units::{duration, percent};

/// The rule `proxy_stall`.
pub struct ProxyStall;

impl Rule for ProxyStall {
    fn id(&self) -> RuleId {
        RuleId::ProxyStall
    }

    fn summary(&self) -> &'static str {
        "A thread blocked on one connection delays the data of another"
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some(behind) = case.own.behind else {
            return Verdict::Quiet;
        };
        let blockers = find_blockers(case, behind);
        let waited_ns: u64 = blockers.iter().map(|(_, blocker)| blocker.waited_ns).sum();
        // The first bytes may have been ready since before the recording.
        let harm_ns = waited_ns.min(case.life_ns());
        let Some((worst, _)) = blockers.first() else {
            return self.check_unknown(case, behind.unknown_ns);
        };
        let times = blockers.iter().map(|(_, blocker)| blocker.times).sum();
        let receive = case.own.judged.receive.as_ref();
        let late = receive.map(|receive| receive.reader_slow);
        let late = late.filter(|late| late.method == Method::Ledger);
        let facts = [
            Some(sum(
                "blocked_before",
                times,
                "call(s) on other connections blocked its thread while data waited here",
            )),
            Some(total_ns(
                "waited_ns",
                harm_ns,
                "data waited behind these calls",
            )),
            late.map(|late| total_ns("reader_slow_ns", late.ns, "data waited in total")),
            (behind.others_ns > 0).then(|| {
                let label = "wait of data behind other connections";
                total_ns("others_ns", behind.others_ns, label)
            }),
            known(
                "other_connection",
                Some(worst.id),
                FactUnit::Id,
                "id of the connection that delayed the data longest",
            ),
        ];
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Receiving,
            concerned_ns: harm_ns,
            harm_ns,
            facts: facts.into_iter().flatten().collect(),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let blockers = case.own.behind.map(|behind| find_blockers(case, behind));
        let worst = blockers.as_ref().and_then(|blockers| blockers.first());
        let mut advised: Vec<Advice> = worst
            .and_then(|(other, _)| fix_first(other))
            .into_iter()
            .collect();
        advised.extend(advice([
            "Let no call wait for one peer: use O_NONBLOCK and epoll, with a queue for each connection. Or use \
                a thread for each.",
            "Limit how long one peer may block a thread: SO_SNDTIMEO for sends, SO_RCVTIMEO for receives.",
        ]));
        FindingExplanation {
            ruled_out: Vec::new(),
            could_not_see: vec![
                "Waits of the thread outside socket calls (locks, files, sleep).".into(),
            ],
            advice: advised,
            // What a late reader costs its sender depends on what the buffers between them hold.
            win: WinBasis::Unknown,
            confidence: direct_confidence(case, "calls and waiting bytes were timed in the kernel"),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        format!(
            "The thread was blocked on another connection while data waited — cost {}.",
            of_life(finding)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "A thread was blocked {} on other connections before it read here. Data may have waited.",
            duration(undecided.possible_harm_ns)
        )
    }
}

/// The connections behind which data waited, worst first. Where the path is the other's limit, the
/// data waits at one end of it or at the other.
fn find_blockers<'a>(
    case: &Case<'a>,
    behind: &'a BlockedElsewhere,
) -> Vec<(&'a ConnectionSubject<'a>, &'a Blocker)> {
    let known = behind.blockers.iter().filter_map(|blocker| {
        let other = case.neighbours.get(blocker.conn)?;
        (!is_path_limited(other)).then_some((other, blocker))
    });
    let mut known: Vec<_> = known.collect();
    known.sort_by_key(|(other, blocker)| (Reverse(blocker.waited_ns), other.id));
    known
}

/// Returns whether congestion control held the connection up for most of its duration.
fn is_path_limited(other: &ConnectionSubject) -> bool {
    let network = [
        Stage::CongestionWindow,
        Stage::Pacing,
        Stage::FastRetransmit,
    ];
    let ns: u64 = network
        .iter()
        .map(|stage| other.judged.stages.stage_ns(*stage))
        .sum();
    ns * 2 > other.judged.life_ns
}

/// Returns advice about the other connection's own problem, by its longest stage; `None`: no such
/// stage is known.
fn fix_first(other: &ConnectionSubject) -> Option<Advice> {
    let identity = other.identity()?;
    let stages = other.judged.stages.iter();
    let known = stages.filter(|(stage, share)| {
        share.ns > 0 && !matches!(stage, Stage::InFlight | Stage::Unknown)
    });
    let (stage, share) = known.max_by_key(|(_, share)| share.ns)?;
    let (local, remote) = (&identity.local, &identity.remote);
    // TCP holds nothing up there: the thread waits for what the other end sends.
    let line = if stage == Stage::SenderApp {
        format!("Check {local} → {remote}: the thread waits for data from it.")
    } else {
        format!(
            "First fix {local} → {remote}, which blocked the thread: its stage `{}` took {} of its duration.",
            stage.name(),
            percent(share.share)
        )
    };
    Some(Advice(line.into()))
}

impl ProxyStall {
    /// Checks without a ledger, which alone shows how long bytes had been ready.
    fn check_unknown(&self, case: &Case, blocked_ns: u64) -> Verdict {
        let receive = case.own.judged.receive.as_ref();
        let never_late = receive.is_some_and(|receive| receive.reader_slow.ns == 0);
        let polled = case.own.gathered.samples.polls >= LEAST_POLLS;
        if blocked_ns == 0 || (never_late && polled) {
            return Verdict::Quiet;
        }
        let label = "its thread was blocked in calls on others before";
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: blocked_ns,
            facts: vec![total_ns("blocked_ns", blocked_ns, label)],
            why: "The recording does not show how long bytes waited to be read.",
            would_help: Some("Record with the ledger (`tcp_stages`) on."),
        })
    }
}
