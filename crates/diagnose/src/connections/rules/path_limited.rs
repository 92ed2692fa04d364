//! Congestion control held data back, and nothing is wrong with either end: the flow ran at what
//! the path gave. As `sender_app_limited`, an answer and not a problem.

use table::Stage;

use super::fast_retransmits::{WITHOUT_QUEUE, has_short_queue};
use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known, known_real, min_rtt, real, worst};
use super::shared::sentences::{advice, direct_confidence, outstanding};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::report::severity::WARNING_SHARE;
use crate::report::{
    Advice, Confidence, ConfidenceLevel, DataDirection, Fact, FactUnit, FactValue, Finding, RuleId,
    UndecidedFinding,
};
use crate::units::{format_rate, percent};

/// The rule `path_limited`.
pub struct PathLimited;

/// Stages in which congestion control stops the next byte.
const NETWORK: [Stage; 3] = [
    Stage::FastRetransmit,
    Stage::CongestionWindow,
    Stage::Pacing,
];

impl Rule for PathLimited {
    fn id(&self) -> RuleId {
        RuleId::PathLimited
    }

    fn summary(&self) -> &'static str {
        "Congestion control sets the rate; neither end has a problem"
    }

    fn is_answer(&self) -> bool {
        true
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::CongestionWindow, Stage::Pacing]
    }

    fn check(&self, case: &Case) -> Verdict {
        if case.is_held_up() || case.doubt || is_paced(case) {
            return Verdict::Quiet;
        }
        let network_ns = network_ns(case);
        let others = case.own.judged.stages.iter();
        let others = others.filter(|(stage, _)| !is_network(case, *stage));
        let is_known = |(stage, _): &(Stage, _)| *stage != Stage::Unknown;
        let most_ns = others.filter(is_known).map(|(_, share)| share.ns).max();
        if network_ns == 0 || network_ns <= most_ns.unwrap_or(0) {
            return Verdict::Quiet;
        }
        // A window that losses made small is not what the path gives.
        let by_loss_ns = case.ledger().map_or(0, |ledger| ledger.cwnd_loss_ns);
        if by_loss_ns * 2 > network_ns && has_timeouts(case) {
            return Verdict::Quiet;
        }
        let unknown_ns = case.ns(Stage::Unknown);
        if unknown_ns > network_ns {
            return self.inconclusive_verdict(case, unknown_ns);
        }
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: network_ns,
            harm_ns: 0,
            facts: collect_facts(case),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let confidence = match case.method(Stage::CongestionWindow) {
            Some(method) if method.is_measured() => {
                direct_confidence(case, "every stage was measured in the kernel")
            }
            _ => Confidence {
                level: ConfidenceLevel::Low,
                because: "from random polls".into(),
            },
        };
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::SenderApp,
                ExcludableCause::ReceiverWindow,
                ExcludableCause::SendBuffer,
                ExcludableCause::Loss,
            ]),
            could_not_see: case.general_blind_spots(),
            advice: list_fixes(case),
            win: WinBasis::Unknown,
            confidence,
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let startup = real(&finding.evidence.0, "startup").unwrap_or(0.0);
        let by_loss = real(&finding.evidence.0, BY_LOSS).unwrap_or(0.0);
        let network = percent(finding.share);
        if by_loss * 2.0 > finding.share {
            let rate = real(&finding.evidence.0, "rate")
                .map_or_else(String::new, |rate| format!(" to {}", format_rate(rate)));
            format!(
                "Packet loss without a queue before it limited the rate{rate}: congestion control answers to it {network} of the \
                    time."
            )
        } else if startup * 2.0 > finding.share {
            format!(
                "Both ends were fast enough: congestion control limited the rate {network} of the time, mostly \
                    in slow start."
            )
        } else {
            format!(
                "Both ends were fast enough: congestion control limited the rate {network} of the time. The \
                    path sets the rate."
            )
        }
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        outstanding(undecided)
    }
}

/// Returns whether the path causes this stage: by congestion control, or by a window or buffer that
/// keeps it full.
fn is_network(case: &Case, stage: Stage) -> bool {
    NETWORK.contains(&stage)
        || (stage == Stage::ReceiverWindow && case.window_fills_path())
        || (stage == Stage::SendBuffer && case.send_buffer_fills_path())
}

/// Returns the time of all stages that the network causes.
fn network_ns(case: &Case) -> u64 {
    let stages = case.own.judged.stages.iter();
    let network = stages.filter(|(stage, _)| is_network(case, *stage));
    network.map(|(_, share)| share.ns).sum()
}

/// Returns whether data was retransmitted after a timeout: then the window begins again at one segment.
fn has_timeouts(case: &Case) -> bool {
    let timeouts = case.own.growth(|sample| sample.total_rto.map(u64::from));
    timeouts.is_some_and(|timeouts| timeouts > 0)
}

/// Time in slow start without a loss yet, as the ledger shows.
fn startup_share(case: &Case) -> Option<f64> {
    let startup_ns = case.ledger()?.cwnd_startup_ns;
    Some(startup_ns as f64 / case.life_ns().max(1) as f64)
}

/// Name of the fact: share of the time in which losses kept the window small, with almost no queue before them.
const BY_LOSS: &str = "by_loss";

/// Returns the share of the time in which losses kept the window small, if there was almost no queue before them.
fn by_loss_share(case: &Case) -> Option<f64> {
    let lost = case.retransmits().unwrap_or(0) > 0 && !case.is_mostly_spurious();
    let ledger = case.ledger().filter(|_| lost && has_short_queue(case))?;
    let by_loss_ns = ledger.cwnd_loss_ns + case.ns(Stage::FastRetransmit);
    Some(by_loss_ns as f64 / case.life_ns().max(1) as f64)
}

fn collect_facts(case: &Case) -> Vec<Fact> {
    let network = network_ns(case) as f64 / case.life_ns().max(1) as f64;
    let label = "of the time congestion control limited the rate";
    let network = worst(
        "by_congestion_control",
        FactValue::Real(network),
        FactUnit::Share,
        label,
    );
    let label = "of the time in slow start";
    let startup = known_real("startup", startup_share(case), FactUnit::Share, label);
    let rate = case.delivered_bytes_per_s();
    let rate = known_real("rate", rate, FactUnit::BytesPerS, "delivered");
    let mean_rtt_ns = case.mean_rtt_us().map(|us| us * 1_000);
    let label = "mean RTT; the part above the min RTT is time in queues";
    let mean_rtt = known("mean_rtt_ns", mean_rtt_ns, FactUnit::Ns, label);
    let label = "of the time after losses, and no queue was there before them";
    let by_loss = known_real(BY_LOSS, by_loss_share(case), FactUnit::Share, label);
    let facts = [
        Some(network),
        by_loss,
        startup,
        rate,
        mean_rtt,
        min_rtt(case),
    ];
    facts.into_iter().flatten().collect()
}

fn list_fixes(case: &Case) -> Vec<Advice> {
    let network = network_ns(case) as f64 / case.life_ns().max(1) as f64;
    if by_loss_share(case).is_some_and(|share| share * 2.0 > network) {
        return advice(WITHOUT_QUEUE);
    }
    if startup_share(case)
        .is_some_and(|share| share * case.life_ns() as f64 * 2.0 > network_ns(case) as f64)
    {
        return advice([
            "If this is too slow, keep connections open and reuse them. A new one starts with a small window, \
                and doubles it each round trip.",
        ]);
    }
    advice([
        "If this is too slow, the path needs more bandwidth or less delay. Find what else uses \
         it: `whylat record --all` on both hosts, then the counters of the links between.",
    ])
}

/// Returns whether a reader set the pace, though that was no harm.
fn is_paced(case: &Case) -> bool {
    case.has_fired(RuleId::SlowReader) && case.share(Stage::ReceiverWindow) > WARNING_SHARE
}

impl PathLimited {
    /// Returns an undecided verdict: time without a known stage exceeds that of any stage.
    fn inconclusive_verdict(&self, case: &Case, unknown_ns: u64) -> Verdict {
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id(), RuleId::SenderAppLimited],
            concerned_ns: unknown_ns,
            facts: collect_facts(case),
            why: "The time without a known stage is longer than that of any stage.",
            would_help: None,
        })
    }
}
