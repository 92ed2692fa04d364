//! This host dropped segments that it was to send or to receive, and they had to be retransmitted. The kernel says for what
//! reason and in which function (`kfree_skb`); the sequence numbers show that it was these segments.

use table::Stage;

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::explained_drops::explaining_rule;
use super::shared::facts::{sum, whole};
use super::shared::sentences::{direct_confidence, of_life};
use crate::connections::case::{Case, LOSS_STAGES};
use crate::connections::exclusion::ExcludableCause;
use crate::connections::gather::drops::DropDigest;
use crate::drops::DropCause;
use crate::report::{Advice, DataDirection, Finding, RuleId, UndecidedFinding};
use crate::units::{count, quantity, ratio_of};

/// The rule `packet_dropped_here`.
pub struct PacketDroppedHere;

impl Rule for PacketDroppedHere {
    fn id(&self) -> RuleId {
        RuleId::PacketDroppedHere
    }

    fn summary(&self) -> &'static str {
        "This host dropped segments that had to be retransmitted"
    }

    fn stages(&self) -> &'static [Stage] {
        &LOSS_STAGES
    }

    fn names_cause_of_loss(&self) -> bool {
        true
    }

    fn interval(&self, case: &Case) -> (u64, u64) {
        let dropped = case.own.gathered.drops.interval();
        dropped.unwrap_or_else(|| case.interval(self.stages()))
    }

    fn check(&self, case: &Case) -> Verdict {
        if case.loss_named {
            return Verdict::Quiet;
        }
        let drops = &case.own.gathered.drops;
        let retransmits = case.retransmits().unwrap_or(0).max(drops.retransmitted);
        if drops.retransmitted == 0 {
            return self.check_unstored(case, retransmits);
        }
        let lost_ns = case.lost_ns();
        let explained = count_explained(case);
        let share = ratio_of(drops.retransmitted.saturating_sub(explained), retransmits);
        let mut facts = vec![
            sum("dropped", drops.packets, "packets that this host dropped"),
            sum(
                "dropped_retransmits",
                drops.retransmitted,
                "segments retransmitted that this host had dropped",
            ),
        ];
        if explained > 0 {
            let label = "of them, for a cause that another finding names";
            facts.push(sum(EXPLAINED, explained, label));
        }
        facts.push(sum(
            "retransmits",
            retransmits,
            "segments retransmitted in all",
        ));
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: lost_ns,
            harm_ns: (lost_ns as f64 * share) as u64,
            facts,
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let drops = &case.own.gathered.drops;
        let mut could_not_see = case.general_blind_spots();
        if drops.causes.keys().any(|cause| cause.hook.is_some()) {
            could_not_see
                .push("Which rule of the firewall it was. A trace of one packet shows it.".into());
        }
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::ReceiverWindow,
                ExcludableCause::SenderApp,
                ExcludableCause::SendBuffer,
            ]),
            could_not_see,
            advice: drops
                .causes
                .keys()
                .map(|cause| fix(case, cause, drops))
                .collect(),
            win: WinBasis::HarmGone("this host drops none of its segments"),
            confidence: direct_confidence(
                case,
                "the kernel says what it dropped, and the sequence numbers agree",
            ),
        }
    }

    fn headline_of_worst(&self, finding: &Finding, worst: &Case) -> String {
        let drops = &worst.own.gathered.drops;
        match drops.first_cause() {
            Some(cause) => {
                let meaning = cause.meaning_at(drops.qdiscs.get(cause));
                format!("{meaning}: this {}", describe_effect(finding))
            }
            None => self.headline(finding),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        format!("This {}", describe_effect(finding))
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        let retransmits = whole(&undecided.evidence.0, "retransmits").unwrap_or(0);
        format!(
            "{} segments were retransmitted. This host may have dropped them.",
            count(retransmits)
        )
    }
}

/// Name of the fact: segments for which another finding names the cause.
const EXPLAINED: &str = "explained_retransmits";

/// Returns the second half of the headline: what the drops did.
fn describe_effect(finding: &Finding) -> String {
    let facts = &finding.evidence.0;
    let dropped = whole(facts, "dropped_retransmits").unwrap_or(0);
    let segments = quantity(dropped, "segment");
    if whole(facts, EXPLAINED) == Some(dropped) {
        return format!(
            "host dropped {segments} itself. Another finding names the cause and its cost."
        );
    }
    format!(
        "host dropped {segments} itself — retransmitting them cost {}.",
        of_life(finding)
    )
}

/// Returns the number of segments retransmitted for a cause that another rule names.
fn count_explained(case: &Case) -> u64 {
    let causes = case.own.gathered.drops.causes.iter();
    let explained = causes.filter(|(cause, _)| explaining_rule(case, cause).is_some());
    explained.map(|(_, segments)| segments).sum()
}

/// Returns the advice for a cause of drops, and names the rule that explains more.
fn fix(case: &Case, cause: &DropCause, drops: &DropDigest) -> Advice {
    let explained = cause.explain_at(drops.qdiscs.get(cause));
    Advice(match explaining_rule(case, cause) {
        Some(rule) => format!("{explained} See {rule}.").into(),
        None => explained.into(),
    })
}

impl PacketDroppedHere {
    /// Judges retransmissions if dropped packets have no rows: the drops may be of this connection.
    fn check_unstored(&self, case: &Case, retransmits: u64) -> Verdict {
        let unstored = case.context.drops_unstored;
        if unstored == 0 || retransmits == 0 {
            return Verdict::Quiet;
        }
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: case.lost_ns(),
            facts: vec![
                sum("retransmits", retransmits, "segments retransmitted"),
                sum(
                    "unstored",
                    unstored,
                    "dropped packets of recorded sockets, counted without details",
                ),
            ],
            why: "This host dropped more packets than whylat stores one by one. So their sequence numbers are \
                unknown.",
            would_help: Some(
                "See `whylat report --drops`. Record again with --port or -p for this connection alone.",
            ),
        })
    }
}
