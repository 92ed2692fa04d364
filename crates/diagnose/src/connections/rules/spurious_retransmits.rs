//! The path stalled for longer than TCP's timer, or let packets overtake each other for longer than
//! TCP had learnt to wait, and what was late was retransmitted though nothing had been lost. The kernel
//! finds that out afterwards and takes its reduction back (F-RTO, RFC 5682; Eifel, RFC 3522): what was
//! lost is the time.

use super::fast_retransmits::slowed_ns;
use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known, min_rtt, sum, whole};
use super::shared::sentences::{advice, direct_confidence, of_life};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::report::severity::is_too_small;
use crate::report::{DataDirection, Fact, FactUnit, Finding, RuleId, UndecidedFinding};
use crate::units::{duration, quantity, ratio_of};

/// The rule `spurious_retransmits`.
pub struct SpuriousRetransmits;

impl Rule for SpuriousRetransmits {
    fn id(&self) -> RuleId {
        RuleId::SpuriousRetransmits
    }

    fn summary(&self) -> &'static str {
        "ACKs came so late that TCP retransmitted data that was not lost"
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some(ledger) = case.ledger() else {
            return self.check_counters(case);
        };
        let late_ns = ledger.spurious_timeout_ns;
        let slowed = slowed_ns(case).filter(|_| case.is_mostly_spurious());
        let (slowed_ns, slowed_harm_ns) = slowed.unwrap_or((0, 0));
        let harm_ns = late_ns + slowed_harm_ns;
        let is_none = ledger.spurious_timeouts == 0 && slowed_harm_ns == 0;
        let is_named = case.has_outage() && late_ns > slowed_harm_ns;
        if is_none || is_named || is_too_small(ratio_of(harm_ns, case.life_ns())) {
            return Verdict::Quiet;
        }
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: late_ns + slowed_ns,
            harm_ns,
            facts: collect_facts(case, ledger.spurious_timeouts, late_ns),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        blind.push("Which part of the path, or of the other host, caused the delay.".into());
        FindingExplanation {
            ruled_out: case.rule_out(&[ExcludableCause::ReceiverWindow, ExcludableCause::LostData]),
            could_not_see: blind,
            advice: advice([
                "Find what delays packets for so long: paused virtual machines, radio, queues of seconds (`tc \
                    -s qdisc`), route changes. Or find what reorders them: several parallel links. No data was \
                    lost.",
                "Leave TCP timestamps on (net.ipv4.tcp_timestamps=1): with them the kernel \
                 detects the mistake at the first ACK.",
                "If the path must pause at times, a longer timeout avoids needless \
                 retransmissions: `ip route change … rto_min 1s`.",
            ]),
            win: WinBasis::HarmGone("packets arrive in time and in order"),
            confidence: direct_confidence(case, "the kernel and the receiver reported it"),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let timeouts = whole(&finding.evidence.0, "spurious_timeouts").unwrap_or(0);
        if timeouts == 0 {
            return format!(
                "Packets were reordered, and TCP reacted as to a loss — cost {}.",
                of_life(finding)
            );
        }
        format!(
            "{} after late ACKs, although no data was lost — ACKs were late by {} in total.",
            quantity(timeouts, "spurious timeout"),
            duration(finding.harm_ns)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "The receiver already had the retransmitted data. {} of waiting may come from late ACKs, not from loss.",
            duration(undecided.possible_harm_ns)
        )
    }
}

fn collect_facts(case: &Case, timeouts: u32, late_ns: u64) -> Vec<Fact> {
    let late_mean_ns = late_ns.checked_div(timeouts.into());
    let duplicates = case.own.growth(|sample| sample.dsack_dups.map(u64::from));
    let bytes = case.own.growth(|sample| sample.bytes_retrans);
    [
        Some(sum(
            "spurious_timeouts",
            timeouts.into(),
            "timeout(s) that the kernel found spurious",
        )),
        known(
            "mean_late_ns",
            late_mean_ns,
            FactUnit::Ns,
            "average lateness of the ACKs",
        ),
        duplicates.map(|n| sum("spurious", n, "segment(s) that the receiver already had")),
        known("bytes_retrans", bytes, FactUnit::Bytes, "retransmitted"),
        min_rtt(case),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the number of retransmitted segments, and of those that the receiver reported as
/// duplicates.
fn count_retransmitted(case: &Case) -> (u64, u64) {
    let duplicates = case.own.growth(|sample| sample.dsack_dups.map(u64::from));
    (case.retransmits().unwrap_or(0), duplicates.unwrap_or(0))
}

impl SpuriousRetransmits {
    /// Checks without a ledger, by counters: timeouts, and duplicates that the receiver reported.
    fn check_counters(&self, case: &Case) -> Verdict {
        if !case.stalls_may_be_late_acks() {
            return Verdict::Quiet;
        }
        let (retransmits, duplicates) = count_retransmitted(case);
        let label = "segment(s) that the receiver already had";
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id(), RuleId::RetransmitTimeouts],
            concerned_ns: case.stalled_ns(),
            facts: vec![
                sum("spurious", duplicates, label),
                sum("retransmits", retransmits, "segment(s) retransmitted"),
            ],
            why: "The kernel's statistics do not show which timeouts it found spurious.",
            would_help: None,
        })
    }
}
