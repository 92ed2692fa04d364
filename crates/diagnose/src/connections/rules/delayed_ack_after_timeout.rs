//! After a retransmission timeout one segment goes, and its receiver, who expects more or is about
//! to answer, holds the ACK back: the stall lasts longer by the delayed-ACK timer (SNAP, figure 6).

use table::Stage;

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known, min_rtt, sum, total_ns, whole};
use super::shared::sentences::{advice, direct_confidence};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::kernel::{TCP_DELACK_MAX_NS, TCP_DELACK_MIN_NS};
use crate::report::{DataDirection, Fact, FactUnit, Finding, RuleId, UndecidedFinding};
use crate::units::{duration, quantity};

/// The rule `delayed_ack_after_timeout`.
pub struct DelayedAckAfterTimeout;

impl Rule for DelayedAckAfterTimeout {
    fn id(&self) -> RuleId {
        RuleId::DelayedAckAfterTimeout
    }

    fn summary(&self) -> &'static str {
        "After a timeout, the receiver delays the ACK of the one retransmitted segment"
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::RetransmitTimeout]
    }

    fn check(&self, case: &Case) -> Verdict {
        // What named the cause has counted this, too: it goes with the timeouts.
        if case.loss_named {
            return Verdict::Quiet;
        }
        let Some(ledger) = case.ledger() else {
            return self.check_events(case);
        };
        let held = u64::from(ledger.timeout_acks_delayed);
        if held == 0 {
            return Verdict::Quiet;
        }
        let held_ns = case.ack_held_ns();
        let facts = [
            Some(sum(
                "timeout_acks_delayed",
                held,
                "ACK(s) delayed after a timeout",
            )),
            known(
                "mean_held_ns",
                held_ns.checked_div(held),
                FactUnit::Ns,
                "average delay",
            ),
            Some(sum(
                "timeout_stalls",
                ledger.timeout_stalls.into(),
                "stall(s) ended by a timeout",
            )),
            min_rtt(case),
        ];
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: held_ns,
            harm_ns: held_ns,
            facts: facts.into_iter().flatten().collect(),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        FindingExplanation {
            ruled_out: case.rule_out(&[ExcludableCause::ReceiverWindow]),
            could_not_see: case.general_blind_spots(),
            advice: advice([
                "First remove the timeouts (see the other finding). Without timeouts, the receiver delays no \
                    ACK here.",
                "On the receiver: set TCP_QUICKACK before each receive call. Or set it for a route: `ip route \
                    change … quickack 1`.",
                "In the application: send smaller messages, or answer as soon as the first part \
                 arrives. The answer carries the ACK.",
            ]),
            win: WinBasis::HarmGone("the receiver acknowledges at once"),
            confidence: direct_confidence(case, "each ACK was timed in the kernel"),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let held = whole(&finding.evidence.0, "timeout_acks_delayed").unwrap_or(0);
        format!(
            "The receiver delayed its ACK after {} — added {}.",
            quantity(held, "timeout"),
            duration(finding.harm_ns)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "ACKs after timeouts came late, {} in total: the receiver delayed them, or more was lost.",
            duration(undecided.possible_harm_ns)
        )
    }
}

/// Makes a fact for a rule on lost data: how much the delayed ACKs made the stalls longer.
pub(super) fn part_of(case: &Case) -> Option<Fact> {
    let held_ns = case.ack_held_ns();
    let label = "of the time, receivers delayed the ACK after a timeout";
    (held_ns > 0).then(|| total_ns("ack_held_ns", held_ns, label))
}

impl DelayedAckAfterTimeout {
    /// Checks without a ledger: by the time from each timeout to the end of state Loss, which comes with an ACK of all
    /// that was out.
    fn check_events(&self, case: &Case) -> Verdict {
        let rtt_ns = case.own.gathered.samples.min_rtt_us.map_or(0, u64::from) * 1_000;
        let long = |(from_ns, until_ns): &(u64, Option<u64>)| {
            let length_ns = (*until_ns)?.checked_sub(*from_ns + rtt_ns)?;
            // what takes longer waits for another timeout
            (TCP_DELACK_MIN_NS..=TCP_DELACK_MAX_NS)
                .contains(&length_ns)
                .then_some(length_ns)
        };
        let late: Vec<u64> = case
            .own
            .gathered
            .events
            .loss
            .iter()
            .filter_map(long)
            .collect();
        if late.is_empty() {
            return Verdict::Quiet;
        }
        let label = "timeout(s) after which the ACK was late";
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: late.iter().sum(),
            facts: vec![sum("slow_recoveries", late.len() as u64, label)],
            why: "The recording shows when all data was recovered, not when the ACKs came.",
            would_help: None,
        })
    }
}
