//! After a pause a connection sends a whole congestion window at once, as large as the path once
//! bore, and a queue on the way overflows. The kernel's slow start after idle prevents it (RFC 2861,
//! tcp_cwnd_restart()); it is often turned off for the sake of the first byte.

use super::delayed_ack_after_timeout;
use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known_bytes, min_rtt, sum, whole};
use super::shared::sentences::{advice, direct_confidence};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::report::{DataDirection, Finding, RuleId, UndecidedFinding};
use crate::units::{count, duration, quantity};

/// The rule `burst_after_idle`.
pub struct BurstAfterIdle;

impl Rule for BurstAfterIdle {
    fn id(&self) -> RuleId {
        RuleId::BurstAfterIdle
    }

    fn summary(&self) -> &'static str {
        "After a pause the sender sends a whole old window at once and loses part of it"
    }

    fn names_cause_of_loss(&self) -> bool {
        true
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some(ledger) = case.ledger() else {
            return self.check_counters(case);
        };
        // Where most losses are others, this is not what they come from.
        let is_cause = ledger.burst_losses > 0 && ledger.burst_losses * 2 >= ledger.loss_episodes;
        if !is_cause || case.loss_named {
            return Verdict::Quiet;
        }
        let bursts = u64::from(ledger.bursts_after_idle);
        let losses = u64::from(ledger.burst_losses);
        let episodes = u64::from(ledger.loss_episodes);
        let facts = [
            Some(sum(
                "burst_losses",
                losses,
                "burst(s) after a pause lost segments",
            )),
            Some(sum(
                "bursts_after_idle",
                bursts,
                "burst(s) after a pause in total",
            )),
            Some(sum(
                "loss_episodes",
                episodes,
                "time(s) segments were lost in total",
            )),
            case.retransmits()
                .map(|n| sum("retransmits", n, "segment(s) retransmitted")),
            delayed_ack_after_timeout::part_of(case),
            known_bytes(
                "cwnd_bytes",
                case.cwnd_bytes(),
                "congestion window, last seen",
            ),
            min_rtt(case),
        ];
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: ledger.burst_loss_ns,
            harm_ns: ledger.burst_loss_ns,
            facts: facts.into_iter().flatten().collect(),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        blind.push("Which queue overflowed.".into());
        FindingExplanation {
            ruled_out: case
                .rule_out(&[ExcludableCause::ReceiverWindow, ExcludableCause::SendBuffer]),
            could_not_see: blind,
            advice: advice([
                "If slow start after idle is off, turn it on: \
                 net.ipv4.tcp_slow_start_after_idle=1 (the kernel's default).",
                "Or pace the sender: `tc qdisc replace dev … root fq`, or SO_MAX_PACING_RATE in the \
                    application. BBR always paces.",
                "In the application: send data when it is ready; do not collect it.",
            ]),
            win: WinBasis::HarmGone("bursts lose nothing"),
            confidence: direct_confidence(case, "each burst and each loss was seen in the kernel"),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let facts = &finding.evidence.0;
        format!(
            "{} of {} after a pause overflowed a queue — recovery took {}.",
            count(whole(facts, "burst_losses").unwrap_or(0)),
            quantity(whole(facts, "bursts_after_idle").unwrap_or(0), "burst"),
            duration(finding.harm_ns)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        let losses = whole(&undecided.evidence.0, "loss_episodes").unwrap_or(0);
        format!(
            "Segments were lost {} on a connection that pauses: in bursts after a pause, or at other \
             times.",
            quantity(losses, "time")
        )
    }
}

impl BurstAfterIdle {
    /// Checks without a ledger: by losses that duplicate ACKs showed, and a sender that was idle for half of its duration or
    /// more.
    fn check_counters(&self, case: &Case) -> Verdict {
        let episodes = case.own.gathered.events.recoveries;
        let busy_ns = case
            .own
            .growth(|sample| sample.busy_us)
            .map(|us| us * 1_000);
        let pauses = busy_ns.is_some_and(|busy_ns| busy_ns * 2 < case.life_ns());
        if episodes == 0 || !pauses {
            return Verdict::Quiet;
        }
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id(), RuleId::FastRetransmits],
            concerned_ns: case.own.gathered.events.recovery_ns,
            facts: vec![sum("loss_episodes", episodes, "time(s) segments were lost")],
            why: "The kernel's statistics do not show what was sent before a loss, or when.",
            would_help: None,
        })
    }
}
