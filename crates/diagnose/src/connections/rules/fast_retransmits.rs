//! Loss that duplicate ACKs repair, and that makes the flow slower than it was: the congestion
//! window shrinks and limits the rate. A retransmission is no harm in itself, nor is the state
//! Recovery: the flow's own earlier best rate is the measure. Losses of the same path that only a timer
//! noticed count here as long as they cost less.

use table::{Stage, TcpEventKind};

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known, min_rtt, sum, total_ns, worst};
use super::shared::sentences::{advice, direct_confidence, of_life};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::connections::gather::rates::RateFall;
use crate::report::{
    Confidence, ConfidenceLevel, DataDirection, Fact, FactUnit, FactValue, Finding, RuleId,
    UndecidedFinding,
};
use crate::units::duration;

/// The rule `fast_retransmits`.
pub struct FastRetransmits;

/// Loss below which no version of BBR sends more slowly: `LossThresh` of draft-ietf-ccwg-bbr.
const BBR_LEAST_LOSS: f64 = 0.02;
/// The same of version 1, which Linux has: `bbr_lt_loss_thresh` in tcp_bbr.c.
const BBR1_LEAST_LOSS: f64 = 50.0 / 256.0;

/// Least fall that counts. A flow that fills its path loses segments by design and swings below
/// its best: that is the search for the path's rate, not harm. So the fall has to be deeper than
/// what the algorithm's own swing explains.
fn least_fall(case: &Case) -> f64 {
    match congestion_control(case) {
        // Paces at three quarters of its rate in one of eight round trips (bbr_pacing_gain), and at
        // a hundredth less than it could (bbr_pacing_margin_percent): a sample may have caught that.
        Some(name) if name.starts_with("bbr") => 1.0 - 3.0 / 4.0 * 0.99,
        // Halves its window (tcp_reno_ssthresh).
        Some("reno") => 0.5,
        // Cubic and its like: to 717/1024 of the window (beta in tcp_cubic.c).
        _ => 1.0 - 717.0 / 1024.0,
    }
}

impl Rule for FastRetransmits {
    fn id(&self) -> RuleId {
        RuleId::FastRetransmits
    }

    fn summary(&self) -> &'static str {
        "Packet loss keeps the flow below its own best rate"
    }

    fn check(&self, case: &Case) -> Verdict {
        if case.is_mostly_spurious() {
            return Verdict::Quiet;
        }
        let retransmits = count_retransmits(case);
        let suspected_ns = suspected_ns(case);
        if suspected_ns == 0 || retransmits == 0 || case.loss_named {
            return Verdict::Quiet;
        }
        let Some(fall) = rate_fall(case) else {
            return self.cannot_compare(case, suspected_ns, retransmits);
        };
        let Some((limited_ns, harm_ns)) = slowed_ns(case) else {
            return Verdict::Quiet;
        };
        if by_model(case) && fall.loss_share < BBR_LEAST_LOSS {
            return Verdict::Quiet;
        }
        if by_model(case) && fall.loss_share < BBR1_LEAST_LOSS {
            return self.which_bbr(case, limited_ns, retransmits, fall);
        }
        let stalled_ns = lesser_stalls_ns(case);
        let mut facts = collect_facts(case, retransmits, fall);
        facts.push(total_ns("limited_ns", limited_ns, "time limited by loss"));
        if stalled_ns > 0 {
            let label = "of this time: until a timer detected the loss";
            facts.push(total_ns("stalled_ns", stalled_ns, label));
        }
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: limited_ns + stalled_ns,
            harm_ns: harm_ns + stalled_ns,
            facts,
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        blind.push("Where on the path the data was lost.".into());
        let because = "time and rates measured in the kernel";
        let confidence = match case.ledger() {
            Some(_) => Confidence {
                level: ConfidenceLevel::Medium,
                ..direct_confidence(case, because)
            },
            None => Confidence {
                level: ConfidenceLevel::Low,
                because: "from random polls".into(),
            },
        };
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::ReceiverWindow,
                ExcludableCause::SenderApp,
                ExcludableCause::SendBuffer,
            ]),
            could_not_see: blind,
            advice: match has_short_queue(case) {
                true => advice(WITHOUT_QUEUE),
                false => advice([FIND_LOSS, RANDOM_LOSS]),
            },
            win: WinBasis::AtLeast(
                f64::INFINITY,
                "the flow keeps the best rate that it has reached between losses",
            ),
            confidence,
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        format!(
            "Packet loss kept the flow below its own best rate — cost {}.",
            of_life(finding)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "After packet loss the congestion window was the limit for {}.",
            duration(undecided.possible_harm_ns)
        )
    }
}

/// Returns whether the queue on the path was too short for the algorithm, on average, or there was none: after a loss
/// the window falls to a part (beta) of what path and queue hold, and the path runs idle unless the queue is (1 − beta)
/// / beta of it. A policer, a shallow buffer and random loss look so; a full queue does not.
pub(super) fn has_short_queue(case: &Case) -> bool {
    let min_us = case.own.gathered.samples.min_rtt_us.map(f64::from);
    let times_us = case.mean_rtt_us().zip(min_us);
    let fall = least_fall(case);
    let is_short =
        |(mean_us, min_us): (u64, f64)| mean_us as f64 - min_us < min_us * fall / (1.0 - fall);
    !by_model(case) && times_us.is_some_and(is_short)
}

const FIND_LOSS: &str = "Find where the path loses data: `ip -s link` and `tc -s qdisc` on both hosts, then the switches between them.";
const RANDOM_LOSS: &str = "If the loss is random and not from full queues (radio, long lines), BBR keeps its rate: `ip route change … \
     congctl bbr`, or setsockopt TCP_CONGESTION.";

/// Fixes for losses without a queue before them.
pub(super) const WITHOUT_QUEUE: [&str; 3] = [
    "Almost no queue was there before the losses: mean and min RTT are alike. A policer does this: it drops what exceeds its rate \
     (providers, cloud instances, `police` and `limit` of routers). Send below that rate: SO_MAX_PACING_RATE, or a shaper with a \
     queue (`tc … tbf`). To test: `iperf3 -u -b RATE` loses nothing below it.",
    RANDOM_LOSS,
    FIND_LOSS,
];

/// Time in which retransmissions kept the flow far below its own best rate, and what that cost, ns;
/// `None` where they did not, or where that is unknown.
pub(super) fn slowed_ns(case: &Case) -> Option<(u64, u64)> {
    let fall = rate_fall(case)?;
    let limited_ns = limited_ns(case, fall);
    let harm_ns = (limited_ns as f64 * fall.share) as u64;
    (fall.share > least_fall(case) && harm_ns > 0).then_some((limited_ns, harm_ns))
}

/// Stalls until a timer noticed a loss, ns, where they cost less than the small window: one path loses
/// segments, and some losses leave too little in flight for duplicate ACKs.
fn lesser_stalls_ns(case: &Case) -> u64 {
    let stalled_ns = case.stalled_ns();
    let is_lesser = slowed_ns(case).is_some_and(|(_, harm_ns)| stalled_ns <= harm_ns);
    if is_lesser && !case.stalls_may_be_late_acks() {
        stalled_ns
    } else {
        0
    }
}

/// Returns whether this rule fired on the connection, and counts the stalls as its own.
pub(super) fn names_stalls(case: &Case) -> bool {
    case.has_fired(RuleId::FastRetransmits) && lesser_stalls_ns(case) > 0
}

/// Returns whether congestion control follows a model of the path, as BBR: it ignores the Recovery
/// state.
fn by_model(case: &Case) -> bool {
    congestion_control(case).is_some_and(|name| name.starts_with("bbr"))
}

fn congestion_control<'a>(case: &'a Case) -> Option<&'a str> {
    case.own.identity()?.congestion.as_deref()
}

/// The fall of the rate under loss.
fn rate_fall(case: &Case) -> Option<RateFall> {
    match case.ledger() {
        Some(ledger) => RateFall::from_ledger(ledger),
        None => case
            .own
            .gathered
            .samples
            .rates_since(case.own.opened_ns())
            .rate_fall(),
    }
}

/// Time in which loss may have limited the rate. Polls do not distinguish a window that loss made small from
/// one that was never larger, nor see that loss is what BBR's pacing answers to.
fn suspected_ns(case: &Case) -> u64 {
    let recovery_ns = case.ns(Stage::FastRetransmit);
    match case.ledger() {
        Some(_) if by_model(case) => recovery_ns + case.ns(Stage::Pacing),
        Some(ledger) => recovery_ns + ledger.cwnd_loss_ns,
        None if by_model(case) => 0,
        None => recovery_ns + case.ns(Stage::CongestionWindow),
    }
}

/// Time in which it was. Polls do not distinguish loss that duplicate ACKs found from timeouts: recovery is
/// theirs alone, of the rest their part of the retransmissions. And they cover less than the life:
/// the fall that they show holds for all of the stage.
fn limited_ns(case: &Case, fall: RateFall) -> u64 {
    if case.ledger().is_some() || fall.limited_ns == 0 {
        return fall.limited_ns;
    }
    let limited_ns = suspected_ns(case);
    let recovery_ns = case.ns(Stage::FastRetransmit).min(limited_ns);
    recovery_ns + ((limited_ns - recovery_ns) as f64 * by_duplicate_acks(case)) as u64
}

/// Returns the share of retransmissions that duplicate ACKs started; 1 without events.
fn by_duplicate_acks(case: &Case) -> f64 {
    let fast = case.count_retransmits(TcpEventKind::FastRetransmit);
    let timeout = case.count_retransmits(TcpEventKind::TimeoutRetransmit);
    if fast + timeout == 0 {
        1.0
    } else {
        fast as f64 / (fast + timeout) as f64
    }
}

/// Returns the number of retransmitted segments, by counters or by events.
fn count_retransmits(case: &Case) -> u64 {
    let seen = case.count_retransmits(TcpEventKind::FastRetransmit);
    case.retransmits().unwrap_or(0).max(seen)
}

fn collect_facts(case: &Case, retransmits: u64, fall: RateFall) -> Vec<Fact> {
    let mut facts = vec![sum("retransmits", retransmits, "segments retransmitted")];
    if let Some(segments) = case
        .own
        .growth(|sample| sample.data_segs_out.map(u64::from))
        && segments > 0
    {
        let share = retransmits as f64 / segments as f64;
        facts.push(worst(
            "loss_share",
            FactValue::Real(share),
            FactUnit::Share,
            "of all segments",
        ));
    }
    let under_loss = FactValue::Real(fall.under_loss_bytes_per_s);
    let label = "rate while segments were lost";
    facts.push(worst(
        "rate_under_loss",
        under_loss,
        FactUnit::BytesPerS,
        label,
    ));
    let best = FactValue::Real(fall.best_bytes_per_s);
    facts.push(worst(
        "best_rate",
        best,
        FactUnit::BytesPerS,
        "best rate of the same flow",
    ));
    if !by_model(case) {
        facts.extend(window_facts(case, fall).into_iter().flatten());
    }
    facts.extend(
        case.spurious_retransmits()
            .map(|n| sum("spurious", n, "of them the receiver already had")),
    );
    let mean_rtt_ns = case.mean_rtt_us().map(|us| us * 1_000);
    let label = "mean RTT; the part above the min RTT is time in queues";
    facts.extend(known("mean_rtt_ns", mean_rtt_ns, FactUnit::Ns, label));
    facts.extend(min_rtt(case));
    facts
}

/// Makes the facts of the congestion window: its size, and the size that the best rate needs.
fn window_facts(case: &Case, fall: RateFall) -> [Option<Fact>; 2] {
    let rtt_us = case.own.gathered.samples.min_rtt_us;
    let needed = rtt_us.map(|us| (fall.best_bytes_per_s * f64::from(us) / 1e6) as u64);
    [
        known(
            "cwnd_under_loss_bytes",
            Some(fall.cwnd_bytes as u64),
            FactUnit::Bytes,
            "congestion window while segments were lost",
        ),
        known(
            "cwnd_needed_bytes",
            needed,
            FactUnit::Bytes,
            "congestion window that the best rate needs",
        ),
    ]
}

impl FastRetransmits {
    /// Returns an undecided verdict: the version of BBR is unknown, and version 1 does not slow
    /// down.
    fn which_bbr(&self, case: &Case, limited_ns: u64, retransmits: u64, fall: RateFall) -> Verdict {
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: limited_ns,
            facts: collect_facts(case, retransmits, fall),
            why: "BBR version 3 slows down at this loss, version 1 does not. Both have the same name.",
            would_help: Some("`modinfo tcp_bbr` shows the version; version 1 shows none."),
        })
    }

    /// Returns an undecided verdict: no best rate or too few samples to compare with.
    fn cannot_compare(&self, case: &Case, limited_ns: u64, retransmits: u64) -> Verdict {
        let retransmits = sum("retransmits", retransmits, "segments retransmitted");
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: limited_ns,
            facts: [Some(retransmits), min_rtt(case)]
                .into_iter()
                .flatten()
                .collect(),
            why: match case.ledger() {
                Some(_) => {
                    "The flow kept no rate for ten round trips, so there is no best rate to compare with."
                }
                None => "Too few samples to show whether the flow fell below its own earlier rate.",
            },
            would_help: Some("Record for longer, if possible from the start of the connection."),
        })
    }
}
