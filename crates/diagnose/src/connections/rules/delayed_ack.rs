//! A writer waits for an ACK that the receiver delays, and Nagle's algorithm has no part in
//! it: the send buffer holds less than the application wants to write, or a single segment is
//! in flight (after a timeout, or with a congestion window of one).

use table::Stage;
use table::tables::TcpStage;

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::delayed_acks::{acks_late, held_by_nagle, round_trips_ns};
use super::shared::facts::{known, known_bytes, min_rtt, pattern, sum, total_ns, whole, worst};
use super::shared::sentences::{advice, direct_confidence, of_life};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::report::{
    DataDirection, Fact, FactUnit, FactValue, Finding, RuleId, RuledOut, UndecidedFinding,
};
use crate::units::{count, percent};

/// The rule `delayed_ack`.
pub struct DelayedAck;

impl Rule for DelayedAck {
    fn id(&self) -> RuleId {
        RuleId::DelayedAck
    }

    fn summary(&self) -> &'static str {
        "The writer waits for an ACK that the receiver delays"
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::DelayedAck]
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some(ledger) = case.ledger() else {
            return self.check_polls(case);
        };
        if ledger.delayed_acks == 0 || held_by_nagle(ledger) {
            return Verdict::Quiet;
        }
        let waited_ns = ledger.delayed_ack_ns + round_trips_ns(case);
        let harm_ns = harm_ns(case, waited_ns);
        if harm_ns == 0 {
            return Verdict::Quiet;
        }
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: waited_ns,
            harm_ns,
            facts: collect_facts(case, ledger),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let holds = case.ledger().map_or(0, |ledger| ledger.nagle_holds);
        let nagle = RuledOut {
            cause: "Nagle's algorithm",
            because: format!("it held {} segments", count(holds.into())),
        };
        FindingExplanation {
            ruled_out: [nagle]
                .into_iter()
                .chain(case.rule_out(&[
                    ExcludableCause::SlowReader,
                    ExcludableCause::ReceiverWindow,
                    ExcludableCause::Loss,
                ]))
                .collect(),
            could_not_see: case.general_blind_spots(),
            advice: advice([
                "Let the writer continue without the ACK: do not set SO_SNDBUF, or set it to more than one \
                    message. Then the next write has space.",
                "At the receiver: answer at once, or set TCP_QUICKACK after each receive.",
            ]),
            win: WinBasis::HarmGone("no write waits for a delayed ACK"),
            confidence: direct_confidence(case, "every wait was measured in the kernel"),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let waits = whole(&finding.evidence.0, "delayed_acks").unwrap_or(0);
        format!(
            "The receiver delayed ACKs for which the writer waited, {} times — cost {}.",
            count(waits),
            of_life(finding)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "ACKs came 40 ms or more later than the path needs; data was outstanding {} of the \
             time.",
            percent(undecided.share)
        )
    }
}

fn collect_facts(case: &Case, ledger: &TcpStage) -> Vec<Fact> {
    let waits = u64::from(ledger.delayed_acks);
    let mean_ns = ledger.delayed_ack_ns.checked_div(waits);
    let label = "waits ended only when the receiver's ACK timer expired";
    let mut facts = vec![sum("delayed_acks", waits, label)];
    let label = "average wait beyond the path's round trip";
    facts.extend(known("mean_wait_ns", mean_ns, FactUnit::Ns, label));
    if let Some(calls) = case.calls_with_blocking() {
        let label = "time blocked in send calls";
        facts.push(total_ns("send_blocked_ns", calls.send.blocked_ns, label));
    }
    facts.extend(pattern(case));
    let label = "send buffer limit, when last seen";
    let limit = case.own.sndbuf_bytes().map(u64::from);
    facts.extend(known_bytes("sndbuf_bytes", limit, label));
    facts.extend(min_rtt(case));
    facts
}

/// A delayed ACK harms only while a writer waits: blocked in a call, or turned away by
/// `EAGAIN` and waiting elsewhere.
fn harm_ns(case: &Case, waited_ns: u64) -> u64 {
    match case.calls_with_blocking() {
        Some(calls) if calls.send.would_block == 0 => waited_ns.min(calls.send.blocked_ns),
        _ => waited_ns,
    }
}

impl DelayedAck {
    /// Checks without a ledger: the smoothed round-trip time shows late ACKs, but a queue on the path does the same.
    fn check_polls(&self, case: &Case) -> Verdict {
        let unknown_ns = case.ns(Stage::Unknown);
        let Some(last) = case.own.last_sample() else {
            return Verdict::Quiet;
        };
        if unknown_ns == 0 || !acks_late(case) {
            return Verdict::Quiet;
        }
        let srtt = worst(
            "srtt_ns",
            FactValue::Whole(u64::from(last.srtt_us) * 1_000),
            FactUnit::Ns,
            "smoothed round-trip time",
        );
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: unknown_ns,
            facts: [Some(srtt), min_rtt(case)].into_iter().flatten().collect(),
            why: "The receiver may delay ACKs, or a queue on the path may. Polls do not show \
                  whether a writer waited for them.",
            would_help: None,
        })
    }
}
