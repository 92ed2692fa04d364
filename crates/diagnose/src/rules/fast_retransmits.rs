//! Loss that duplicate ACKs mend, and that makes the flow slower than it was: the congestion
//! window shrinks and is the brake. A retransmission is no harm in itself, nor is the state
//! Recovery: the flow's own earlier best rate is the measure.

use table::{Stage, TcpEventKind};

use super::{
    Doubt, Explanation, Found, Rule, Verdict, WinBasis, advice, measured, min_rtt, sum, worst,
};
use crate::case::Case;
use crate::report::{Confidence, Direction, Fact, Finding, Level, Undecided, Unit, Value};
use crate::units::{duration, percent};

/// See the module.
pub struct FastRetransmits;

/// Least fall that counts: the best of several readings lies a little above their mean in any
/// flow. A twentieth is the least share that SNAP's Table 4 counts applications by.
const LEAST_FALL: f64 = 0.05;

impl Rule for FastRetransmits {
    fn name(&self) -> &'static str {
        "fast_retransmits"
    }

    fn summary(&self) -> &'static str {
        "Packet loss makes the flow slower than its own best"
    }

    fn check(&self, case: &Case) -> Verdict {
        let limited_ns = limited_ns(case);
        let retransmits = retransmits(case);
        if limited_ns == 0 || retransmits == 0 {
            return Verdict::Quiet;
        }
        let rates = &case.own.gathered.samples.rates;
        if rates.judged_ns == 0 {
            return self.cannot_compare(case, limited_ns, retransmits);
        }
        // Samples cover less than the life: the fall they show holds for all of the stage.
        let fall = rates.deficit_ns / rates.judged_ns as f64;
        let harm_ns = (limited_ns as f64 * fall) as u64;
        if fall <= LEAST_FALL || harm_ns == 0 {
            return Verdict::Quiet;
        }
        Verdict::Fires(Found {
            direction: Direction::Sending,
            concerned_ns: limited_ns,
            harm_ns,
            facts: facts(case, retransmits),
        })
    }

    fn explain(&self, case: &Case) -> Explanation {
        let mut blind = case.general_blind_spots();
        blind.push("Where on the path the data was lost.".into());
        let because = "time measured in the kernel, rates from samples";
        let confidence = match case.ledger() {
            Some(_) => Confidence {
                level: Level::Medium,
                ..measured(case, because)
            },
            None => Confidence {
                level: Level::Low,
                because: "from random polls".into(),
            },
        };
        Explanation {
            ruled_out: [
                case.not_stage("the receiver's window", Stage::ReceiverWindow),
                case.not_stage("the sending application", Stage::SenderApp),
                case.not_stage("the send buffer", Stage::SendBuffer),
            ]
            .into_iter()
            .flatten()
            .collect(),
            could_not_see: blind,
            advice: advice([
                "Find where the path loses data: `ip -s link` and `tc -s qdisc` on both hosts, then \
                 the switches between.",
                "If the loss is random and not from full queues (radio, long lines), BBR keeps its \
                 rate: `ip route change … congctl bbr`, or setsockopt TCP_CONGESTION.",
            ]),
            win: WinBasis::HarmGone("the flow keeps its own best rate"),
            confidence,
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        format!(
            "Packet loss kept the flow below its own best rate: worth {} of {} ({} limited by \
             loss).",
            duration(finding.harm_ns),
            duration(finding.subject.lifetime_ns),
            percent(finding.share)
        )
    }

    fn doubt(&self, undecided: &Undecided) -> String {
        format!(
            "After packet loss the congestion window was the limit for {}.",
            duration(undecided.possible_harm_ns)
        )
    }
}

/// Time in which loss was the brake: recovery itself, and the congestion window until it is
/// back where it was. Polls cannot tell the second from a window that was never larger. BBR
/// sends at its estimate of the path through Recovery, so there that state alone is no brake.
fn limited_ns(case: &Case) -> u64 {
    let congestion = case
        .own
        .identity()
        .and_then(|identity| identity.congestion.as_deref());
    let by_model = congestion.is_some_and(|name| name.starts_with("bbr"));
    match case.ledger() {
        Some(ledger) if by_model => ledger.cwnd_loss_ns,
        None if by_model => 0,
        Some(ledger) => ledger.fast_retransmit_ns + ledger.cwnd_loss_ns,
        None => case.ns(Stage::FastRetransmit) + case.ns(Stage::CongestionWindow),
    }
}

/// Segments sent again, by counters or by events.
fn retransmits(case: &Case) -> u64 {
    let seen = case.own.gathered.events.count(TcpEventKind::FastRetransmit);
    case.retransmits().unwrap_or(0).max(seen)
}

fn facts(case: &Case, retransmits: u64) -> Vec<Fact> {
    let rates = &case.own.gathered.samples.rates;
    let mut facts = vec![sum("retransmits", retransmits, "segments sent again")];
    if let Some(segments) = case
        .own
        .growth(|sample| sample.data_segs_out.map(u64::from))
        && segments > 0
    {
        let share = retransmits as f64 / segments as f64;
        facts.push(worst(
            "loss_share",
            Value::Real(share),
            Unit::Share,
            "of all segments",
        ));
    }
    if let Some(rate) = rates.rate_under_loss() {
        let label = "delivered while segments were lost";
        facts.push(worst(
            "rate_under_loss",
            Value::Real(rate),
            Unit::BytesPerS,
            label,
        ));
    }
    let best = Value::Real(rates.best_bytes_per_s);
    facts.push(worst(
        "best_rate",
        best,
        Unit::BytesPerS,
        "best rate of the same flow",
    ));
    let spurious = case.own.growth(|sample| sample.dsack_dups.map(u64::from));
    facts.extend(spurious.map(|n| sum("spurious", n, "of them the receiver already had")));
    facts.extend(min_rtt(case));
    facts
}

impl FastRetransmits {
    fn cannot_compare(&self, case: &Case, limited_ns: u64, retransmits: u64) -> Verdict {
        Verdict::CannotTell(Doubt {
            candidates: vec![self.name()],
            concerned_ns: limited_ns,
            facts: [
                Some(sum("retransmits", retransmits, "segments sent again")),
                min_rtt(case),
            ]
            .into_iter()
            .flatten()
            .collect(),
            why: "Too few samples: whether the flow fell below its own earlier rate cannot be told.",
            would_help: Some("Record for longer, so that several samples of the flow are taken."),
        })
    }
}
