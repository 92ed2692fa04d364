//! A program spreads its requests over several connections to one host, so that each has too few
//! segments out for duplicate ACKs: every loss waits for a timer (SNAP 6.1).

use table::Stage;

use super::delayed_ack_after_timeout;
use super::incast;
use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known, sum, total_ns};
use super::shared::sentences::{advice, direct_confidence, of_life};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::report::{DataDirection, FactUnit, Finding, RuleId, UndecidedFinding};
use crate::units::duration;

/// The rule `thin_stream_timeouts`.
pub struct ThinStreamTimeouts;

impl Rule for ThinStreamTimeouts {
    fn id(&self) -> RuleId {
        RuleId::ThinStreamTimeouts
    }

    fn summary(&self) -> &'static str {
        "Too few packets are in flight to detect loss by duplicate ACKs; recovery waits for a timeout"
    }

    fn names_cause_of_loss(&self) -> bool {
        true
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::RetransmitTimeout, Stage::TailLoss]
    }

    fn check(&self, case: &Case) -> Verdict {
        let stalled_ns = case.stalled_ns();
        if case.loss_named || stalled_ns == 0 || case.has_outage() {
            return Verdict::Quiet;
        }
        let beside = case.neighbours.beside_in_process(case.own) as u64;
        if beside == 0 {
            return Verdict::Quiet;
        }
        let Some(ledger) = case.ledger() else {
            // Then `incast` has asked already, and names this as a candidate.
            if incast::loses_together(case).is_some() {
                return Verdict::Quiet;
            }
            return self.inconclusive_verdict(stalled_ns, beside);
        };
        let thin_ns = ledger.thin_stall_ns.min(stalled_ns);
        if thin_ns * 2 < stalled_ns {
            return Verdict::Quiet;
        }
        let mean_ns = thin_ns.checked_div(ledger.thin_stalls.into());
        let label = "stall(s) with three or fewer segments in flight";
        let facts = [
            Some(sum("thin_stalls", ledger.thin_stalls.into(), label)),
            Some(total_ns(
                "thin_stall_ns",
                thin_ns,
                "length of these stalls, in total",
            )),
            known("mean_stall_ns", mean_ns, FactUnit::Ns, "average stall"),
            delayed_ack_after_timeout::part_of(case),
            known(
                "connections_beside",
                Some(beside),
                FactUnit::Count,
                "other connection(s) of the program to that host",
            ),
            case.retransmits()
                .map(|n| sum("retransmits", n, "segment(s) retransmitted")),
        ];
        let harm_ns = stalled_ns + case.ack_held_ns();
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: harm_ns,
            harm_ns,
            facts: facts.into_iter().flatten().collect(),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        blind.push("Where on the path the data was lost.".into());
        FindingExplanation {
            ruled_out: case
                .rule_out(&[ExcludableCause::ReceiverWindow, ExcludableCause::SendBuffer]),
            could_not_see: blind,
            advice: advice([
                "Send the requests over one connection, several at a time. Segments after a lost one then show \
                    the loss within a round trip.",
                "Find where the path loses data: `ip -s link` and `tc -s qdisc` on both hosts, then the \
                    switches between them.",
                "On a short path that you control, a lower timeout helps: `ip route change … rto_min \
                 20ms`.",
            ]),
            win: WinBasis::HarmGone("losses are found within a round trip"),
            confidence: direct_confidence(
                case,
                "every stall was measured in the kernel, with the segments in flight",
            ),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        format!(
            "Too few packets were in flight to detect loss by duplicate ACKs; recovery waited for \
             timeouts — cost {}.",
            of_life(finding)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "Several connections to one host waited {} for timers. Each may have had too few packets in flight.",
            duration(undecided.possible_harm_ns)
        )
    }
}

impl ThinStreamTimeouts {
    /// Returns an undecided verdict: the number of segments in flight is unknown.
    fn inconclusive_verdict(&self, stalled_ns: u64, beside: u64) -> Verdict {
        let label = "other connection(s) of the program to that host";
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: stalled_ns,
            facts: known("connections_beside", Some(beside), FactUnit::Count, label)
                .into_iter()
                .collect(),
            why: "The kernel's statistics do not show how many segments were in flight when a stall began.",
            would_help: None,
        })
    }
}
