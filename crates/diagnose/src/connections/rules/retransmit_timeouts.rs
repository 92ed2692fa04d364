//! Lost data was repaired only by a timer: the retransmission timeout (200 ms or more on Linux)
//! or the tail-loss probe. Until then nothing was acknowledged. Where the same losses cost more by a
//! small window, that is the finding (`fast_retransmits`), and the stalls are its evidence.
//!
//! A connection may end so: nothing of the other end arrives any more, and the retransmissions go on until the program or the
//! kernel gives up. Then the path or the other host is gone for it, and other fixes help.

use table::Stage;

use super::fast_retransmits;
use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known, sum, whole};
use super::shared::sentences::{advice, direct_confidence, of_life};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::report::{
    Confidence, ConfidenceLevel, DataDirection, Fact, FactUnit, Finding, RuleId, UndecidedFinding,
};
use crate::rows::addresses::host;
use crate::units::{count, duration};

/// The rule `retransmit_timeouts`.
pub struct RetransmitTimeouts;

/// One retransmission may be lost by chance; after two without an answer more than chance is at work.
const UNANSWERED_LEAST: u8 = 2;

/// Returns how many timeouts in a row nothing answered when the connection, or the recording, ended; `None`: an answer came.
/// Probes of a zero window are counted as timeouts, too (`tcp_send_probe0()`): the peer may answer each of them.
fn unanswered_timeouts(case: &Case) -> Option<u8> {
    let gathered = &case.own.gathered;
    let last = case.own.last_sample()?;
    let has_data_out = last.unacked > 0;
    let has_window = last.snd_wnd_bytes != Some(0) && !gathered.events.has_zero_window();
    let is_longest = gathered.events.stuck_segment().is_some_and(|it| {
        let unanswered_ns = last.time_ns.saturating_sub(it.since_ns);
        let acked_since_ns = gathered.samples.acked_since_ns;
        let is_unanswered = acked_since_ns.is_none_or(|ns| ns < it.since_ns);
        is_unanswered && unanswered_ns * 2 >= case.stalled_ns()
    });
    let is_dead = has_data_out && has_window && is_longest;
    Some(last.backoff).filter(|backoff| is_dead && *backoff >= UNANSWERED_LEAST)
}

impl Rule for RetransmitTimeouts {
    fn id(&self) -> RuleId {
        RuleId::RetransmitTimeouts
    }

    fn summary(&self) -> &'static str {
        "Lost data waits for a retransmission timer"
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::RetransmitTimeout, Stage::TailLoss]
    }

    fn check(&self, case: &Case) -> Verdict {
        if case.loss_named || case.stalls_may_be_late_acks() {
            return Verdict::Quiet;
        }
        let stalled_ns = case.stalled_ns();
        if stalled_ns == 0 {
            return self.check_counters(case);
        }
        if fast_retransmits::names_stalls(case) && !case.has_outage() {
            return Verdict::Quiet;
        }
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: stalled_ns,
            harm_ns: stalled_ns,
            facts: collect_facts(case, stalled_ns),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        blind.push("Where on the path the data was lost.".into());
        let confidence = if case.ledger().is_some() {
            direct_confidence(case, "every stall was measured in the kernel")
        } else {
            blind.push(
                "Stalls that a tail-loss probe ended: detail `stats` does not measure their time."
                    .into(),
            );
            let because = "from timeouts and the kernel's own timer values".to_owned();
            Confidence {
                level: ConfidenceLevel::Medium,
                because,
            }
        };
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::ReceiverWindow,
                ExcludableCause::SenderApp,
                ExcludableCause::SendBuffer,
            ]),
            could_not_see: blind,
            advice: match unanswered_timeouts(case) {
                Some(_) if has_no_data_acked(case) => advice([ONLY_SMALL, GONE[1], GONE[2]]),
                Some(_) => advice(GONE),
                None if case.has_outage() => advice(OUTAGE),
                None => advice([
                    "Find where the path loses data: `ip -s link` and `tc -s qdisc` on both hosts, then the \
                    switches between them. Look for bursts, full queues, and paths that fail.",
                    "With few segments in flight TCP cannot detect loss by duplicate ACKs. Use fewer \
                 connections, so that each has more in flight.",
                    "On a short path that you control, a lower timeout helps: `ip route change … rto_min \
                 20ms`.",
                ]),
            },
            win: WinBasis::HarmGone("nothing is lost"),
            confidence,
        }
    }

    fn is_apart(&self, case: &Case) -> bool {
        unanswered_timeouts(case).is_some() || case.has_outage()
    }

    fn headline_of_worst(&self, finding: &Finding, worst: &Case) -> String {
        match unanswered_timeouts(worst) {
            Some(_) => {
                let who = match finding.subject.connections {
                    0 | 1 => finding.subject.remote.clone(),
                    number => format!("The other ends of {} connections", count(number)),
                };
                format!(
                    "{who} acknowledged nothing any more: data was retransmitted until the end — cost {}.",
                    of_life(finding)
                )
            }
            None => outage_headline(finding, worst).unwrap_or_else(|| self.headline(finding)),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        format!(
            "Lost data waited for a retransmission timer — cost {}.",
            of_life(finding)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        let retransmitted = whole(&undecided.evidence.0, "retransmits").unwrap_or(0);
        format!(
            "{} segments were retransmitted, at unknown cost.",
            count(retransmitted)
        )
    }
}

/// Returns the headline of connections that had to wait because none got an ACK; `None`: that is not known.
fn outage_headline(finding: &Finding, worst: &Case) -> Option<String> {
    let most = worst.outages.iter().max_by_key(|it| it.most_ns())?;
    let remote = worst.own.identity().map_or("", |it| host(&it.remote));
    let times = match worst.outages.len() {
        1 => format!("None of {} connections", count(most.connections as u64)),
        many => format!("{} times, none of the connections", count(many as u64)),
    };
    Some(format!(
        "{times} with {remote} that waited got an ACK, for up to about {} — cost {}.",
        duration(most.most_ns()),
        of_life(finding)
    ))
}

/// Fixes if the path passed nothing for some time.
const OUTAGE: [&str; 3] = [
    "Find what failed at these times: a link, a route, a switch, a virtual machine that moved. Read `dmesg`, `ip -s link`, and the \
     logs of both hosts and of the switches between them.",
    "TCP notices the end of an outage at its next timer, and each is twice the one before. On a short path that you control, a \
     lower timeout helps: `ip route change … rto_min 20ms`.",
    "If the program has other servers, let it ask one of these when an answer is late: a time limit for each request.",
];

/// Returns whether no byte of data was ever acknowledged, so that the connection was not idle before.
fn has_no_data_acked(case: &Case) -> bool {
    let last = case.own.last_sample();
    let is_from_begin = case.own.opened_ns().is_some();
    is_from_begin && last.is_some_and(|last| last.bytes_acked <= 1)
}

/// The handshake passed, and no data did.
const ONLY_SMALL: &str = "The handshake passed, and no data did: the path may drop large segments (path_mtu). `ping -M do -s 1472 ADDRESS` \
     shows it. Or a firewall lets connections open, and drops their data.";

/// Fixes if nothing of the other end arrives any more.
const GONE: [&str; 3] = [
    "A firewall, a NAT or a load balancer may have forgotten the connection. They do so after some idle time, without notice. \
     Send keepalives sooner: SO_KEEPALIVE and TCP_KEEPIDLE, or net.ipv4.tcp_keepalive_time. Or close idle connections before \
     that time.",
    "Or the other host is down, or its link: `ping` it, and read its log. Its program alone cannot be the cause: its kernel would \
     acknowledge the data.",
    "Give up sooner, and connect again: TCP_USER_TIMEOUT (tcp(7)), or a time limit for each request. Linux alone gives up after \
     15 minutes or more (net.ipv4.tcp_retries2).",
];

fn collect_facts(case: &Case, stalled_ns: u64) -> Vec<Fact> {
    let mut facts = stall_facts(case, stalled_ns);
    let unanswered = unanswered_timeouts(case).map(u64::from);
    let label = "timeouts in a row that nothing answered until the end";
    let unit = FactUnit::Count;
    facts.extend(known("unanswered_timeouts", unanswered, unit, label));
    facts.extend(outage_facts(case));
    let samples = &case.own.gathered.samples;
    let rto_ns = samples.first_rto_us.map(|us| u64::from(us) * 1_000);
    let counted = |name, value: Option<u64>, label| value.map(|n| sum(name, n, label));
    facts.extend(counted(
        "retransmits",
        case.retransmits(),
        "segments retransmitted",
    ));
    let label = "of them by duplicate ACKs, without a timer";
    facts.extend(counted("fast_retransmits", case.fast_retransmits(), label));
    facts.extend(counted(
        "spurious",
        case.spurious_retransmits(),
        "of them the receiver already had",
    ));
    let label = "first retransmission timeout";
    facts.extend(known("first_timeout_ns", rto_ns, FactUnit::Ns, label));
    facts
}

/// Facts of the outages that made it wait.
fn outage_facts(case: &Case) -> Vec<Fact> {
    let outages = &case.outages;
    let Some(most) = outages.iter().max_by_key(|it| it.most_ns()) else {
        return Vec::new();
    };
    let facts = [
        known(
            "outages",
            Some(outages.len() as u64),
            FactUnit::Count,
            "outage(s): most connections with that host waited, and none of these got an ACK",
        ),
        known(
            "longest_outage_ns",
            Some(most.most_ns()),
            FactUnit::Ns,
            "the longest outage: from the first known loss to an ACK",
        ),
        known(
            "longest_outage_least_ns",
            Some(most.least_ns()),
            FactUnit::Ns,
            "the longest outage, at least: between losses",
        ),
    ];
    facts.into_iter().flatten().collect()
}

/// Stalls by what ended them; without the ledger only those by timeouts are known.
fn stall_facts(case: &Case, stalled_ns: u64) -> Vec<Fact> {
    let by_timeout = |number| {
        let label = "stall(s) ended by a retransmission timeout";
        sum("timeout_stalls", number, label)
    };
    let Some(ledger) = case.ledger() else {
        return vec![by_timeout(case.own.gathered.events.loss.len() as u64)];
    };
    let timeouts = u64::from(ledger.timeout_stalls);
    let probes = u64::from(ledger.tail_loss_stalls);
    let label = "stall(s) ended by a tail-loss probe";
    let mut facts = vec![by_timeout(timeouts), sum("tail_loss_stalls", probes, label)];
    let mean_ns = stalled_ns.checked_div(timeouts + probes);
    facts.extend(known(
        "mean_stall_ns",
        mean_ns,
        FactUnit::Ns,
        "average stall",
    ));
    facts
}

impl RetransmitTimeouts {
    /// Judges retransmissions of an unknown kind: kernels before 6.7 count no timeouts in
    /// `tcp_info`.
    fn check_counters(&self, case: &Case) -> Verdict {
        let counted = case
            .own
            .last_sample()
            .is_some_and(|last| last.total_rto.is_some());
        let retransmits = case.retransmits().unwrap_or(0);
        if case.ledger().is_some() || case.context.events || counted || retransmits == 0 {
            return Verdict::Quiet;
        }
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id(), RuleId::FastRetransmits],
            concerned_ns: case.ns(Stage::Unknown),
            facts: vec![sum("retransmits", retransmits, "segments retransmitted")],
            why: "The kernel's statistics do not show which segments a timer retransmitted, and \
                  no events were recorded.",
            would_help: None,
        })
    }
}
