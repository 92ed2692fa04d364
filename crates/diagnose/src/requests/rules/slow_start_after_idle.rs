//! After a pause the kernel sends with a small congestion window again, although the connection had a large one: requests wait
//! some round trips until it has grown (RFC 2861, net.ipv4.tcp_slow_start_after_idle).

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    duration_facts, make_advice, make_fact, number, of_requests, of_time, rule_out, time_fact,
};
use crate::kernel::TCP_RTO_MIN_NS;
use crate::report::severity::{EXPLAINS_LEAST, held_up};
use crate::report::{Confidence, ConfidenceLevel, Fact, FactUnit, FactValue, RuleDoubt, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::requests::digests::window_restarts::WindowRestarts;
use crate::units::quantity;

/// The rule `slow_start_after_idle`.
pub struct SlowStartAfterIdle;

const PARTS: &[RequestPart] = &[RequestPart::CongestionWindow];

impl RequestRule for SlowStartAfterIdle {
    fn id(&self) -> RuleId {
        RuleId::SlowStartAfterIdle
    }

    fn summary(&self) -> &'static str {
        "After each pause the congestion window is small again, and requests wait until it has grown"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let harm = case.harm(PARTS);
        if harm.ns == 0 {
            return RequestVerdict::Quiet;
        }
        let sums = sum_restarts(case);
        match (sums.restarts, sums.flights) {
            (0, 0) if has_bbr(case) => RequestVerdict::Quiet,
            (0, 0) => doubt_verdict(case, &harm),
            (0, _) => RequestVerdict::Quiet,
            _ => RequestVerdict::Fires(Box::new(finding(case, &harm, &sums))),
        }
    }
}

/// Returns the connections of a service, of both ends where both are recorded.
fn list_conns(case: &ServiceCase<'_>) -> impl Iterator<Item = u64> {
    let peers = |peer| case.evidence.endpoint(peer).conn;
    let conns = case
        .endpoints()
        .flat_map(move |it| [Some(it.conn), it.peer.map(peers)]);
    conns.flatten()
}

/// Returns whether a connection uses BBR, in any version. It sets the window by its own estimate of the path, after a pause, too.
fn is_bbr(case: &ServiceCase<'_>, conn: u64) -> bool {
    let row = case.evidence.names().row(conn);
    let congestion = row.and_then(|row| row.congestion.as_deref());
    congestion.is_some_and(|name| name.starts_with("bbr"))
}

/// Returns whether a connection of the service uses BBR.
fn has_bbr(case: &ServiceCase<'_>) -> bool {
    list_conns(case).any(|conn| is_bbr(case, conn))
}

/// Adds up the restarts of a service's connections without BBR.
fn sum_restarts(case: &ServiceCase<'_>) -> WindowRestarts {
    let digest = &case.evidence.digests.window_restarts;
    let conns = list_conns(case).filter(|conn| !is_bbr(case, *conn));
    let mut sums = WindowRestarts::default();
    for of_one in conns.map(|conn| digest.connection(conn)) {
        sums.flights += of_one.flights;
        sums.restarts += of_one.restarts;
        sums.limited_ns += of_one.limited_ns;
        sums.window_bytes = sums.window_bytes.max(of_one.window_bytes);
    }
    sums
}

/// Makes the finding: windows began again after pauses, by what was the limit.
fn finding(case: &ServiceCase<'_>, harm: &PartHarm, sums: &WindowRestarts) -> RequestFinding {
    let harm = harm.without(harm.ns.saturating_sub(sums.limited_ns));
    RequestFinding {
        parts: PARTS.to_vec(),
        headline: format!(
            "Slow start after idle delays {}: {}. After {} the congestion window was the limit, although it had been \
             large enough.",
            of_requests(case),
            of_time(case, harm.ns),
            quantity(sums.restarts, "pause"),
        ),
        facts: collect_facts(case, &harm, sums),
        ruled_out: rule_out(
            case,
            &[
                (
                    "retransmissions",
                    &[
                        RequestPart::RetransmitTimeout,
                        RequestPart::TailLoss,
                        RequestPart::FastRetransmit,
                    ],
                ),
                ("the receive window", &[RequestPart::ReceiverWindow]),
                ("computing", &[RequestPart::Cpu]),
                ("the other end", &[RequestPart::Remote]),
            ],
        ),
        could_not_see: [
            "The window right after a pause, and net.ipv4.tcp_slow_start_after_idle of the sending host.",
            "Restarts after pauses in which no sample was taken.",
        ]
        .map(str::to_owned)
        .to_vec(),
        advice: make_advice(FIXES),
        gain: Some("the window stays as large as before the pause"),
        confidence: Confidence {
            level: ConfidenceLevel::Medium,
            because: "restarts are inferred from windows that covered what followed, and still were the limit"
                .to_owned(),
        },
        ..RequestFinding::from_harm(case, &harm, Remedy::Avoidable)
    }
}

const FIXES: [&str; 3] = [
    "On the sending host: `sysctl net.ipv4.tcp_slow_start_after_idle=0` (ip-sysctl). Side effect: a whole window leaves at once \
     after a pause, and a queue may overflow (burst_after_idle). Pacing prevents that: the qdisc fq, or BBR.",
    "Use BBR there: it keeps its estimate of the path over a pause (`ip route change … congctl bbr`, TCP_CONGESTION).",
    "Send less for each request (compression), or use one connection for more of the requests: pauses are shorter then.",
];

fn collect_facts(case: &ServiceCase<'_>, harm: &PartHarm, sums: &WindowRestarts) -> Vec<Fact> {
    let mut facts = vec![
        number(
            "restarts",
            sums.restarts,
            "pauses after which a window that had been large enough was the limit",
        ),
        number("flights", sums.flights, "pauses that a sample shows"),
        make_fact(
            "window_bytes",
            FactValue::Whole(sums.window_bytes),
            FactUnit::Bytes,
            "congestion window before a pause (most)",
        ),
        time_fact(
            "restart_ns",
            harm.ns,
            "wait for the congestion window after these pauses",
        ),
    ];
    facts.extend(
        case.digest
            .path_ns
            .map(|ns| time_fact("min_rtt_ns", ns, "min RTT of the path")),
    );
    facts.extend(duration_facts(case));
    facts
}

/// Returns an undecided verdict: no sample shows the window in a pause.
fn doubt_verdict(case: &ServiceCase<'_>, harm: &PartHarm) -> RequestVerdict {
    let pause_ns = case.digest.series.gaps.quantile_ns(0.5).unwrap_or(0);
    let is_slow = harm.share >= EXPLAINS_LEAST && held_up(harm.ns, case.total_ns());
    if pause_ns < TCP_RTO_MIN_NS || !is_slow {
        return RequestVerdict::Quiet;
    }
    let mut facts = vec![
        time_fact("cwnd_ns", harm.ns, "wait for the congestion window"),
        time_fact("pause_ns", pause_ns, "pause before a request (p50)"),
    ];
    facts.extend(duration_facts(case));
    RequestVerdict::undecided(
        format!(
            "{} waited {} for the congestion window. The recording does not show whether it was larger before their \
             pauses.",
            of_requests(case),
            of_time(case, harm.ns)
        ),
        RuleDoubt {
            candidates: vec![RuleId::SlowStartAfterIdle, RuleId::PathLimited],
            concerned_ns: harm.ns,
            facts,
            why: "No sample was taken in a pause.",
            would_help: Some("Record for longer, or with a shorter `--poll-ms`."),
        },
    )
}
