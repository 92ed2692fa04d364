//! Nothing held the connection up: all that the application gave had been sent. Either it gave
//! nothing more, or it waited for data on its way to be answered. SNAP's default class, and the
//! most common by far. It is an answer, not a problem.

use table::Stage;

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::delayed_acks::acks_late;
use super::shared::facts::{min_rtt, pattern, real, total_ns, worst};
use super::shared::sentences::{advice, direct_confidence, outstanding};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::report::{
    Advice, Confidence, ConfidenceLevel, DataDirection, Fact, FactUnit, FactValue, Finding, RuleId,
    UndecidedFinding,
};
use crate::units::percent;
use table::Chosen;

/// The rule `sender_app_limited`.
pub struct SenderAppLimited;

impl Rule for SenderAppLimited {
    fn id(&self) -> RuleId {
        RuleId::SenderAppLimited
    }

    fn summary(&self) -> &'static str {
        "TCP did not limit the rate; the application sets it"
    }

    fn is_answer(&self) -> bool {
        true
    }

    fn check(&self, case: &Case) -> Verdict {
        let asked_for = case
            .own
            .identity()
            .is_none_or(|identity| identity.chosen == Chosen::Target);
        if !asked_for || case.is_held_up() || case.doubt {
            return Verdict::Quiet;
        }
        // All sent: the application gave nothing more, for now or until an answer comes.
        let sent_ns = case.ns(Stage::SenderApp) + case.ns(Stage::InFlight);
        let unknown_ns = case.ns(Stage::Unknown);
        let of_tcp = |stage| !matches!(stage, Stage::SenderApp | Stage::InFlight | Stage::Unknown);
        let stages = case.own.judged.stages.iter();
        let by_tcp = stages.filter(|(stage, _)| of_tcp(*stage));
        let most_by_tcp_ns = by_tcp.map(|(_, share)| share.ns).max().unwrap_or(0);
        if sent_ns > unknown_ns && sent_ns > most_by_tcp_ns {
            return Verdict::Fires(RuleFinding {
                direction: DataDirection::Sending,
                concerned_ns: sent_ns,
                harm_ns: 0,
                facts: collect_facts(case),
            });
        }
        // The unknown part could hide a problem larger than what is known.
        if unknown_ns * 2 > case.life_ns() && !in_flight_explains(case, unknown_ns) {
            return self.cannot_exclude(case, unknown_ns);
        }
        Verdict::Quiet
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let confidence = match case.method(Stage::SenderApp) {
            Some(method) if method.is_measured() => {
                direct_confidence(case, "every stage was measured in the kernel")
            }
            _ => Confidence {
                level: ConfidenceLevel::Medium,
                because: "from the kernel's own busy time, in jiffies".into(),
            },
        };
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::DelayedAck,
                ExcludableCause::ReceiverWindow,
                ExcludableCause::CongestionWindow,
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
        let share = |name| real(&finding.evidence.0, name).unwrap_or(0.0);
        let (idle, in_flight) = (share("nothing_to_send"), share("in_flight"));
        if in_flight > idle {
            format!(
                "TCP was not the limit: all data was in flight {} of the time. Each request takes the path's \
                    round trip.",
                percent(in_flight)
            )
        } else {
            format!(
                "TCP was not the limit: the application had nothing to send {} of the time. The application \
                    sets the rate.",
                percent(idle)
            )
        }
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        outstanding(undecided)
    }
}

/// Returns whether plain round trips can explain the unknown time: as many as segments were sent. Not when ACKs come
/// so late that they may be is_delayed.
fn in_flight_explains(case: &Case, unknown_ns: u64) -> bool {
    let segments = case
        .own
        .growth(|sample| sample.data_segs_out.map(u64::from));
    let (Some(segments), Some(last)) = (segments, case.own.last_sample()) else {
        return false;
    };
    if acks_late(case) {
        return false;
    }
    segments.saturating_mul(u64::from(last.srtt_us) * 1_000) >= unknown_ns
}

fn list_fixes(case: &Case) -> Vec<Advice> {
    if case.ns(Stage::InFlight) > case.ns(Stage::SenderApp) {
        return advice([
            "If this is too slow, make fewer round trips: send more in one request, or several \
             requests at once.",
        ]);
    }
    advice([
        "If this is too slow, examine the program: what does it compute or wait for between two writes? TCP and \
            the path are not the limit.",
    ])
}

fn collect_facts(case: &Case) -> Vec<Fact> {
    let idle = FactValue::Real(case.share(Stage::SenderApp));
    let in_flight = FactValue::Real(case.share(Stage::InFlight));
    let label = "of the time, the application gave nothing to send";
    let mut facts = vec![worst("nothing_to_send", idle, FactUnit::Share, label)];
    if case.method(Stage::InFlight).is_some() {
        let label = "of the time, data was in flight, for about a round trip";
        facts.push(worst("in_flight", in_flight, FactUnit::Share, label));
    }
    let blocked_ns = case
        .calls_with_blocking()
        .map(|calls| calls.receive.blocked_ns);
    if let Some(blocked_ns) = blocked_ns.filter(|ns| *ns > 0) {
        facts.push(total_ns(
            "receive_blocked_ns",
            blocked_ns,
            "waited for the other end's data",
        ));
    }
    facts.extend(pattern(case));
    facts.extend(min_rtt(case));
    facts
}

impl SenderAppLimited {
    /// Returns an undecided verdict: the stage is unknown for most of the time.
    fn cannot_exclude(&self, case: &Case, unknown_ns: u64) -> Verdict {
        let unknown = FactValue::Real(case.share(Stage::Unknown));
        let label = "of the time data was outstanding for an unknown reason";
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: unknown_ns,
            facts: vec![worst("unknown", unknown, FactUnit::Share, label)],
            why: "The stage is unknown for most of the time. So the recording does not show whether the \
                application sets the rate.",
            would_help: None,
        })
    }
}
