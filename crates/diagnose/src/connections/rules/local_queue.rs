//! The queue of this host held data back: TCP small queues let no more into the qdisc and the device than they send. A
//! qdisc with a rate (tbf, htb, cake, fq with maxrate) does this, or the device itself. As `path_limited`, an answer
//! and not a problem.

use table::Stage;

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known_real, min_rtt, real, worst};
use super::shared::sentences::{advice, direct_confidence, outstanding};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::report::{DataDirection, Fact, FactUnit, FactValue, Finding, RuleId, UndecidedFinding};
use crate::units::{format_rate, percent};

/// The rule `local_queue`.
pub struct LocalQueue;

impl Rule for LocalQueue {
    fn id(&self) -> RuleId {
        RuleId::LocalQueue
    }

    fn summary(&self) -> &'static str {
        "The qdisc or the device of this host sets the rate"
    }

    fn is_answer(&self) -> bool {
        true
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::LocalQueue]
    }

    fn check(&self, case: &Case) -> Verdict {
        if case.is_held_up() || case.doubt {
            return Verdict::Quiet;
        }
        let queued_ns = case.ns(Stage::LocalQueue);
        let stages = case.own.judged.stages.iter();
        let others =
            stages.filter(|(stage, _)| !matches!(stage, Stage::LocalQueue | Stage::Unknown));
        let most_ns = others.map(|(_, share)| share.ns).max().unwrap_or(0);
        if queued_ns == 0 || queued_ns <= most_ns {
            return Verdict::Quiet;
        }
        let unknown_ns = case.ns(Stage::Unknown);
        if unknown_ns > queued_ns {
            return Verdict::Inconclusive(RuleDoubt {
                candidates: vec![self.id(), RuleId::PathLimited],
                concerned_ns: unknown_ns,
                facts: collect_facts(case),
                why: "The time without a known stage is longer than that of any stage.",
                would_help: None,
            });
        }
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: queued_ns,
            harm_ns: 0,
            facts: collect_facts(case),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        blind.push("Whether the qdisc has a rate, or the device is the limit.".into());
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::SenderApp,
                ExcludableCause::CongestionWindow,
                ExcludableCause::ReceiverWindow,
                ExcludableCause::SendBuffer,
                ExcludableCause::Loss,
            ]),
            could_not_see: blind,
            advice: advice([
                "`tc -s -d qdisc show` and `tc -s class show dev DEV` show a rate (tbf, htb, cake, fq maxrate). In a container or a \
                 namespace, ask there. If the rate is too low, change it.",
                "If no qdisc has a rate, the device is the limit: `ethtool DEV` shows its speed, and `ip -s link` who else uses it.",
            ]),
            win: WinBasis::Unknown,
            confidence: direct_confidence(case, "the kernel held data back for its own queue"),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let rate = real(&finding.evidence.0, "rate").map(format_rate);
        let rate = rate.map_or_else(String::new, |rate| format!(", to {rate}"));
        format!(
            "The qdisc or the device of this host limited the rate {} of the time{rate}.",
            percent(finding.share)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        outstanding(undecided)
    }
}

fn collect_facts(case: &Case) -> Vec<Fact> {
    let queued = FactValue::Real(case.share(Stage::LocalQueue));
    let label = "of the time the queue of this host was full enough";
    let rate = case.delivered_bytes_per_s();
    let facts = [
        Some(worst("by_local_queue", queued, FactUnit::Share, label)),
        known_real("rate", rate, FactUnit::BytesPerS, "delivered"),
        min_rtt(case),
    ];
    facts.into_iter().flatten().collect()
}
