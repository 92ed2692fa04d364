//! Nagle's algorithm holds a short segment until earlier data is acknowledged, while the
//! receiver delays that ACK in the hope of an answer to carry it. Each waits for the other
//! until the receiver's timer expires: 40 ms on Linux, 200 ms elsewhere.

use table::tables::TcpStage;
use table::{Method, Stage};

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::delayed_acks::{held_by_nagle, nagle_harm_ns};
use super::shared::facts::{
    known, known_bytes, longest_ns, min_rtt, pattern, sum, total_ns, whole,
};
use super::shared::late_calls;
use super::shared::nagle_fixes::list_fixes;
use super::shared::sentences::{direct_confidence, of_life};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::report::{DataDirection, Fact, FactUnit, Finding, RuleId, UndecidedFinding};
use crate::units::{count, percent, quantity};

/// The rule `nagle_delayed_ack`.
pub struct NagleDelayedAck;

/// Makes the facts of holds, calls and path.
fn collect_facts(case: &Case, ledger: &TcpStage) -> Vec<Fact> {
    let (holds, late_ns) = (u64::from(ledger.nagle_holds), ledger.delayed_ack_ns);
    let mean_ns = (ledger.nagle_ns + late_ns).checked_div(holds);
    let label = "short segments held back by Nagle's algorithm";
    let mut facts = vec![sum("nagle_holds", holds, label)];
    let label = "of these waits ended only when the receiver's ACK timer expired";
    facts.push(sum("delayed_acks", ledger.delayed_acks.into(), label));
    let label = "wait for delayed ACKs, beyond the path's round trip";
    facts.push(total_ns("delayed_ack_ns", late_ns, label));
    facts.extend(known("mean_hold_ns", mean_ns, FactUnit::Ns, "average wait"));
    let longest = ledger.longest_hold_ns;
    facts.push(longest_ns("longest_hold_ns", longest, "longest wait"));
    facts.extend(pattern(case));
    facts.extend(late_calls::late_call_facts(case));
    let segment = case.own.identity().and_then(|identity| identity.mss_bytes);
    let segment = segment.map(u64::from);
    facts.extend(known_bytes(
        "mss_bytes",
        segment,
        "size of a full segment (MSS)",
    ));
    facts.extend(min_rtt(case));
    facts
}

impl Rule for NagleDelayedAck {
    fn id(&self) -> RuleId {
        RuleId::NagleDelayedAck
    }

    fn summary(&self) -> &'static str {
        "Nagle's algorithm holds short writes until a delayed ACK arrives"
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Nagle, Stage::DelayedAck]
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some(ledger) = case.ledger() else {
            return self.check_polls(case);
        };
        if ledger.delayed_acks == 0 || !held_by_nagle(ledger) {
            return Verdict::Quiet;
        }
        let late_ns = ledger.delayed_ack_ns;
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: ledger.nagle_ns + late_ns,
            harm_ns: late_ns + nagle_harm_ns(case),
            facts: collect_facts(case, ledger),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        if case.calls_with_blocking().is_none() {
            blind.push(
                "How long threads were blocked. Only time beyond the round trip counts.".into(),
            );
        }
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::SlowReader,
                ExcludableCause::ReceiverWindow,
                ExcludableCause::CongestionWindow,
                ExcludableCause::Loss,
            ]),
            could_not_see: blind,
            advice: list_fixes(case),
            win: WinBasis::HarmGone("each message leaves at once"),
            confidence: direct_confidence(case, "every hold was measured in the kernel"),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let holds = whole(&finding.evidence.0, "nagle_holds").unwrap_or(0);
        let late = whole(&finding.evidence.0, "delayed_acks").unwrap_or(holds);
        let which = if late < holds {
            format!(", {} of them", count(late))
        } else {
            String::new()
        };
        format!(
            "Nagle's algorithm held {}{which} until a delayed ACK arrived — cost {}.",
            quantity(holds, "short write"),
            of_life(finding)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "Short segments stayed unsent while earlier data was unacknowledged, about {} of the time.",
            percent(undecided.share)
        )
    }
}

impl NagleDelayedAck {
    /// Judges by polls alone: they see short unsent tails, which a healthy stream has two thirds of
    /// the time, too.
    fn check_polls(&self, case: &Case) -> Verdict {
        let held_ns = case.ns(Stage::Nagle);
        if held_ns == 0 || case.method(Stage::Nagle) != Some(Method::Samples) {
            return Verdict::Quiet;
        }
        let polls = case.own.gathered.samples.polls;
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: held_ns,
            facts: [
                Some(sum("polls", polls, "polls of the connection")),
                min_rtt(case),
            ]
            .into_iter()
            .flatten()
            .collect(),
            why: "A poll shows that a short segment waits. It does not show for how long, or \
                  whether the receiver delayed its ACK. Healthy streams look the same.",
            would_help: None,
        })
    }
}
