//! Many senders answer one receiver at the same moment, and the queue before it overflows: their
//! losses come together, and with few segments out many wait for a timer (SNAP 4.1; Phanishayee et
//! al., FAST 2008).

use table::Stage;

use super::delayed_ack_after_timeout;
use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known, known_real, min_rtt, sum, whole};
use super::shared::sentences::{advice, direct_confidence, of_life};
use crate::connections::case::{Case, LOSS_STAGES};
use crate::connections::coincidence::Coincidence;
use crate::connections::exclusion::ExcludableCause;
use crate::report::severity::WARNING_SHARE;
use crate::report::{DataDirection, FactUnit, Finding, RuleId, UndecidedFinding};
use crate::rows::addresses::host;
use crate::units::{count, duration};

/// The rule `incast`.
pub struct Incast;

impl Rule for Incast {
    fn id(&self) -> RuleId {
        RuleId::Incast
    }

    fn summary(&self) -> &'static str {
        "Many senders answer one receiver at once and overflow a queue"
    }

    fn names_cause_of_loss(&self) -> bool {
        true
    }

    fn stages(&self) -> &'static [Stage] {
        &LOSS_STAGES
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some(coincidence) = loses_together(case) else {
            return Verdict::Quiet;
        };
        if is_of_one_address(case) || case.has_outage() {
            return Verdict::Quiet;
        }
        // The kernel says why: `packet_dropped_here` names it.
        let dropped_here = case.own.gathered.drops.retransmitted;
        if 2 * dropped_here > case.retransmits().unwrap_or(0).max(dropped_here) {
            return Verdict::Quiet;
        }
        let senders = case.neighbours.to_same_host(case.own);
        let Some(ledger) = case.ledger() else {
            return self.inconclusive_verdict(case, senders);
        };
        let (losses, together) = coincidence.count_losses(case.own);
        // Flows that never pause, and repair their losses without a timer, share a full path.
        if case.stalled_ns() < ledger.fast_retransmit_ns
            && case.share(Stage::SenderApp) <= WARNING_SHARE
        {
            return Verdict::Quiet;
        }
        // A queue that overflows has grown first: round trips are twice the path's.
        let queued = queueing_ratio(case).is_some_and(|ratio| ratio >= 2.0);
        if !queued {
            return Verdict::Quiet;
        }
        let harm_ns = case.stalled_ns() + case.ack_held_ns() + ledger.fast_retransmit_ns;
        if harm_ns == 0 {
            return Verdict::Quiet;
        }
        let facts = [
            Some(sum("losses", losses, "times segments were lost")),
            Some(sum(
                "together",
                together,
                "of them while two or more others to that host lost segments, too",
            )),
            known_real(
                "clustering",
                Some(coincidence.clustering),
                FactUnit::Ratio,
                "variance of the losses, divided by that of independent losses",
            ),
            known(
                "senders",
                Some(senders as u64),
                FactUnit::Count,
                "connections to that host",
            ),
            Some(sum(
                "timeout_stalls",
                ledger.timeout_stalls.into(),
                "stall(s) ended by a timeout",
            )),
            Some(sum(
                "tail_loss_stalls",
                ledger.tail_loss_stalls.into(),
                "stall(s) ended by a tail-loss probe",
            )),
            delayed_ack_after_timeout::part_of(case),
            known_real(
                "queueing",
                queueing_ratio(case),
                FactUnit::Ratio,
                "mean RTT / min RTT",
            ),
            min_rtt(case),
        ];
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: harm_ns,
            harm_ns,
            facts: facts.into_iter().flatten().collect(),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        blind.push(
            "Which queue overflowed: a switch port, or the receiver's network adapter.".into(),
        );
        FindingExplanation {
            ruled_out: case
                .rule_out(&[ExcludableCause::ReceiverWindow, ExcludableCause::SendBuffer]),
            could_not_see: blind,
            advice: advice([
                "In the receiver: ask fewer senders at a time, pause between requests, or ask each for less data.",
                "On the senders: if the network marks packets with ECN, use DCTCP (`ip route change … congctl \
                    dctcp`). Lower the timeout: `ip route change … rto_min 20ms`.",
                "On the switch: a deeper or shared buffer for the receiver's port, with ECN marking.",
            ]),
            // What comes to it: the window that each loss made smaller.
            win: WinBasis::AtLeast(f64::INFINITY, "the answers no longer overflow the queue"),
            confidence: direct_confidence(
                case,
                "each loss was timed in the kernel, on every connection",
            ),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        format!(
            "{} connections sent to one host at once, and a queue overflowed — cost {}.",
            count(whole(&finding.evidence.0, "senders").unwrap_or(0)),
            of_life(finding)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "Several connections to one host lost segments together. A full queue may have cost {}.",
            duration(undecided.possible_harm_ns)
        )
    }
}

/// Returns the losses of all connections to the host, if they coincide with most losses of this
/// one.
pub(super) fn loses_together<'a>(case: &Case<'a>) -> Option<&'a Coincidence> {
    let coincidence = case.neighbours.coincidence(case.own)?;
    let (losses, together) = coincidence.count_losses(case.own);
    (coincidence.is_proved() && together * 2 > losses).then_some(coincidence)
}

/// Returns whether both ends have the same address: what they send passes no network adapter and no switch.
fn is_of_one_address(case: &Case) -> bool {
    let identity = case.own.identity();
    identity.is_some_and(|it| host(&it.local) == host(&it.remote))
}

/// Returns the mean RTT divided by the min RTT.
fn queueing_ratio(case: &Case) -> Option<f64> {
    let least_us = case.own.gathered.samples.min_rtt_us.filter(|us| *us > 0)?;
    Some(case.mean_rtt_us()? as f64 / f64::from(least_us))
}

impl Incast {
    /// Returns an undecided verdict: the recording does not show whether round trips grew before
    /// the losses.
    fn inconclusive_verdict(&self, case: &Case, senders: usize) -> Verdict {
        let label = "other connections to that host";
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id(), RuleId::ThinStreamTimeouts],
            concerned_ns: case.stalled_ns().max(case.ns(Stage::FastRetransmit)),
            facts: known(
                "connections_beside",
                Some(senders as u64 - 1),
                FactUnit::Count,
                label,
            )
            .into_iter()
            .collect(),
            why: "A full queue makes round trips longer. The recording does not show whether they grew before \
                the losses.",
            would_help: None,
        })
    }
}
