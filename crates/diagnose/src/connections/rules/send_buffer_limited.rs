//! The send buffer is smaller than what path and receiver would take: all is sent, the writer
//! has no room for more, and neither window is full.
//!
//! A writer that blocks proves nothing (every bulk flow blocks), and the kernel's own clock
//! `sndbuf_limited` missed the textbook case; the stage is the proof.

use table::{Method, Stage};

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::delayed_acks::round_trips_ns;
use super::shared::facts::{
    known, known_bytes, known_flag, known_real, min_rtt, sum, total_ns, whole, worst,
};
use super::shared::growth::is_send_buffer_growth;
use super::shared::sentences::{advice, direct_confidence, of_life};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::connections::gather::calls::CallDigest;
use crate::connections::gather::polls::PollClass;
use crate::report::{
    Advice, Confidence, ConfidenceLevel, DataDirection, Fact, FactUnit, FactValue, Finding, RuleId,
};
use crate::units::{count, duration, format_bytes, percent};

/// The rule `send_buffer_limited`.
pub struct SendBufferLimited;

impl Rule for SendBufferLimited {
    fn id(&self) -> RuleId {
        RuleId::SendBufferLimited
    }

    fn summary(&self) -> &'static str {
        "The send buffer is too small for the path"
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::SendBuffer]
    }

    fn check(&self, case: &Case) -> Verdict {
        let limited_ns = case.ns(Stage::SendBuffer);
        if limited_ns == 0 {
            return self.check_queue(case);
        }
        let is_delayed = case.has_fired(RuleId::DelayedAck);
        let delayed_ns = if is_delayed { round_trips_ns(case) } else { 0 };
        let limited_ns = limited_ns - delayed_ns;
        if limited_ns == 0 || case.send_buffer_fills_path() {
            return Verdict::Quiet;
        }
        let growth_ns = case.send_buffer_growth_ns().filter(|ns| *ns > 0);
        let label = "waits for a send buffer that the kernel then made larger";
        let mut facts = collect_facts(case);
        facts.extend(growth_ns.map(|ns| total_ns(GROWTH, ns, label)));
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: limited_ns,
            harm_ns: limited_ns.saturating_sub(growth_ns.unwrap_or(0)),
            facts,
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        if path_bytes(case).is_none() {
            blind.push("How much data the path can hold: no sample shows the windows.".into());
        }
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::ReceiverWindow,
                ExcludableCause::CongestionWindow,
                ExcludableCause::DelayedAck,
                ExcludableCause::Loss,
            ]),
            could_not_see: blind,
            advice: list_fixes(case),
            win: win_basis(case),
            confidence: confidence(case),
        }
    }

    fn is_apart(&self, case: &Case) -> bool {
        is_send_buffer_growth(case)
    }

    fn headline(&self, finding: &Finding) -> String {
        let growth_ns = whole(&finding.evidence.0, GROWTH).unwrap_or(0);
        if finding.is_note() && growth_ns > finding.harm_ns {
            return format!(
                "The send buffer grew with the data, and the program waited {} for room meanwhile.",
                duration(growth_ns)
            );
        }
        format!(
            "The send buffer was full while path and receiver could take more — cost {}.",
            of_life(finding)
        )
    }
}

/// Name of the fact: the buffer was the limit while it still grew.
const GROWTH: &str = "send_buffer_growth_ns";

/// Fixes for a buffer that grows with the data.
const GROWTH_FIXES: [&str; 2] = [
    "A longer transfer needs no change: the kernel makes the buffer twice the congestion window, up to the third value of \
     net.ipv4.tcp_wmem.",
    "Or raise the second value of net.ipv4.tcp_wmem: a connection begins with that buffer.",
];

/// Makes the facts of the buffer, and of how much data the path could take.
fn collect_facts(case: &Case) -> Vec<Fact> {
    let identity = case.own.identity();
    let limit = case.own.sndbuf_bytes().map(u64::from);
    let locked = identity.and_then(|identity| identity.sndbuf_locked);
    let queue = Some(case.max_send_queue_bytes()).filter(|queue| *queue > 0);
    let rate = case.delivered_bytes_per_s();
    let label = "send buffer limit (SO_SNDBUF), when last seen";
    let mut facts = vec![
        known_bytes("sndbuf_bytes", limit, label),
        known_flag(
            "sndbuf_locked",
            locked,
            "the application set this limit (SO_SNDBUF)",
        ),
        known_bytes("max_send_queue_bytes", queue, "largest send queue"),
    ];
    let label = "limit of both windows";
    facts.push(known_bytes("path_bytes", path_bytes(case), label));
    let label = "in flight at the flow's best rate: rate × min RTT";
    let in_flight = case.best_in_flight_bytes();
    facts.push(known_bytes("best_in_flight_bytes", in_flight, label));
    if let Some((share, _)) = share_bytes(case) {
        let label = "fair share of the host's send buffers, by congestion window";
        facts.push(known_bytes("buffer_share_bytes", Some(share), label));
    }
    facts.push(known_real(
        "delivered",
        rate,
        FactUnit::BytesPerS,
        "delivered",
    ));
    facts.push(min_rtt(case));
    if let Some(CallDigest { send, .. }) = case.calls_with_blocking() {
        let label = "send calls that blocked";
        facts.push(Some(sum("blocked_sends", send.blocked_calls, label)));
        let label = "time blocked in these calls";
        facts.push(Some(total_ns("send_blocked_ns", send.blocked_ns, label)));
    }
    facts.into_iter().flatten().collect()
}

/// Bytes that congestion window and announced window together let into the path.
fn path_bytes(case: &Case) -> Option<u64> {
    let window_bytes = u64::from(case.own.last_sample()?.snd_wnd_bytes?);
    Some(case.cwnd_bytes()?.min(window_bytes))
}

/// Estimates the gain. Where others wait behind this connection, it forwards their data, and their speed without waiting
/// is not known.
fn win_basis(case: &Case) -> WinBasis {
    if case.neighbours.blocks_others(case.own) {
        return WinBasis::Unknown;
    }
    let queue_bytes = case.max_send_queue_bytes();
    match path_bytes(case) {
        Some(path_bytes) if queue_bytes > 0 && path_bytes > queue_bytes => WinBasis::AtLeast(
            path_bytes as f64 / queue_bytes as f64,
            "the program has more to send, and both windows do not change; they may grow further",
        ),
        _ => WinBasis::Unknown,
    }
}

fn list_fixes(case: &Case) -> Vec<Advice> {
    if is_send_buffer_growth(case) {
        return advice(GROWTH_FIXES);
    }
    let locked = case
        .own
        .identity()
        .and_then(|identity| identity.sndbuf_locked);
    let first = if locked == Some(false) {
        "Raise the third value of net.ipv4.tcp_wmem: the kernel sizes the buffer itself, up to that value."
    } else {
        "Do not set SO_SNDBUF: Linux then sizes the buffer itself, up to net.ipv4.tcp_wmem."
    };
    let mut fixes = vec![Advice(first.into())];
    if let Some(path_bytes) = path_bytes(case) {
        // The kernel doubles the value for its own book-keeping (sock_setsockopt), and queued
        // data takes about twice its size in buffers (tcp_sndbuf_expand).
        let text = format!(
            "Or set SO_SNDBUF to {} or more: twice what the path takes now.",
            format_bytes(path_bytes * 2)
        );
        fixes.push(Advice(text.into()));
    }
    if let Some((share, senders)) = share_bytes(case) {
        let text = format!(
            "Or, without more memory in total: {}. That is its share of the send buffers of the \
             {} connections here, by congestion window.",
            format_bytes(share),
            count(senders)
        );
        fixes.push(Advice(text.into()));
    }
    fixes
}

/// Returns this connection's part if all send buffers of this host were divided by congestion windows (SNAP 5.3), and
/// the number of connections. `None`: it has more now.
fn share_bytes(case: &Case) -> Option<(u64, u64)> {
    let all = &case.context.send_buffers;
    let own = u64::from(case.own.last_sample()?.sndbuf_bytes?);
    let share = u128::from(case.cwnd_bytes()?) * u128::from(all.buffer_bytes);
    let share = u64::try_from(share.checked_div(all.cwnd_bytes.into())?).ok()?;
    (all.connections > 1 && share > own).then_some((share, all.connections))
}

fn confidence(case: &Case) -> Confidence {
    let Some(share) = case.own.judged.stages.get(Stage::SendBuffer) else {
        return Confidence {
            level: ConfidenceLevel::Low,
            because: "not measured".into(),
        };
    };
    match share.method {
        Method::Ledger => direct_confidence(case, "every interval was measured in the kernel"),
        _ => {
            let level = if share.bound < share.share {
                ConfidenceLevel::Medium
            } else {
                ConfidenceLevel::Low
            };
            let because = format!(
                "from {} random polls: {} ± {}",
                case.own.gathered.samples.polls,
                percent(share.share),
                percent(share.bound)
            );
            Confidence { level, because }
        }
    }
}

impl SendBufferLimited {
    /// Judges by SNAP's sign alone, a queue at its largest: the kernel reports neither the buffer's
    /// limit nor its use.
    fn check_queue(&self, case: &Case) -> Verdict {
        let samples = &case.own.gathered.samples;
        let seen = samples
            .last
            .as_ref()
            .is_some_and(|last| last.sndbuf_bytes.is_none());
        let flagged = samples.flags.send_buffer.share().unwrap_or(0.0);
        if case.ledger().is_some() || !seen || flagged == 0.0 || case.ns(Stage::Unknown) == 0 {
            return Verdict::Quiet;
        }
        let all_sent = samples
            .weights
            .class_shares([PollClass::AllSent, PollClass::HeldSegments]);
        if all_sent.is_none_or(|(shares, _)| shares[0] < shares[1]) {
            return Verdict::Quiet;
        }
        let flag = worst(
            "send_queue_at_largest",
            FactValue::Real(flagged),
            FactUnit::Share,
            "of the time the send queue was at its largest",
        );
        let queue = u64::from(samples.max_send_queue_bytes);
        let queue = known(
            "max_send_queue_bytes",
            Some(queue),
            FactUnit::Bytes,
            "largest send queue",
        );
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: case.ns(Stage::Unknown),
            facts: [Some(flag), queue].into_iter().flatten().collect(),
            why: "The send queue was at its largest, and all of it was sent. This kernel does not report the \
                buffer's limit or use. Maybe the program had no more data.",
            would_help: None,
        })
    }
}
