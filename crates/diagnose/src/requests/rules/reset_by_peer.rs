//! The other end had closed the connection, and answered a request with RST: the program has to ask again.

use super::rule::{ProgramVerdict, Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{direct_confidence, make_advice, number, time_fact};
use crate::report::severity::held_up;
use crate::report::{Fact, RuleDoubt, RuleId};
use crate::requests::case::ServiceCase;
use crate::requests::evidence::RequestEvidence;
use crate::requests::resets::{LostRequest, ResetDigest};
use crate::units::{count, duration, quantity};

/// The rule `reset_by_peer`.
pub struct ResetByPeer;

impl RequestRule for ResetByPeer {
    fn id(&self) -> RuleId {
        RuleId::ResetByPeer
    }

    fn summary(&self) -> &'static str {
        "The other end answered requests with a reset"
    }

    /// The time is lost between requests, so that it counts beside theirs.
    fn check_programs(&self, evidence: &RequestEvidence<'_>) -> Vec<ProgramVerdict> {
        let services = evidence.clients_with_resets();
        services.iter().map(verdict).collect()
    }
}

/// Judges the resets that the other end answered to a service's requests.
fn verdict(case: &ServiceCase<'_>) -> ProgramVerdict {
    let resets = &case.digest.resets;
    let lost_ns = resets.lost.iter().map(LostRequest::lost_ns).sum();
    let begin_ns = resets.lost.iter().map(|it| it.begin_ns).min().unwrap_or(0);
    let end_ns = resets.lost.iter().map(|it| it.closed_ns).max().unwrap_or(0);
    let time = case.digest.time.unwrap_or((begin_ns, end_ns));
    let mut subject = case.subject();
    subject.lifetime_ns = case.total_ns() + lost_ns;
    ProgramVerdict {
        subject,
        time: (time.0.min(begin_ns), time.1.max(end_ns)),
        verdict: match (resets.count, resets.farewells) {
            (0, 0) => doubt_verdict(case, resets),
            (0, _) => match doubt_verdict(case, resets) {
                RequestVerdict::Quiet => {
                    RequestVerdict::Fires(Box::new(harmless_finding(case, resets)))
                }
                doubt => doubt,
            },
            _ => RequestVerdict::Fires(Box::new(finding(case, resets, lost_ns))),
        },
    }
}

/// Makes a note: every request had its response before the reset came.
fn harmless_finding(case: &ServiceCase<'_>, resets: &ResetDigest) -> RequestFinding {
    RequestFinding {
        remedy: Remedy::Avoidable,
        headline: format!(
            "{} reset {} after the last message of {}. No harm: every request before had its response.",
            case.key.address,
            quantity(resets.farewells, "connection"),
            case.key.name,
        ),
        facts: vec![
            number(
                "resets_after_last",
                resets.farewells,
                "resets after a last, small message",
            ),
            number("requests", case.requests(), "requests with a response"),
        ],
        could_not_see: vec![
            "What the last message was: its size is that of a closing message, such as TLS's close_notify."
                .to_owned(),
        ],
        advice: make_advice(["Nothing needs to change."]),
        confidence: direct_confidence(case, "the kernel noted the RST as the connection's error"),
        ..RequestFinding::new(case)
    }
}

/// Returns an undecided verdict: connections ended during a request, and nobody knows which end
/// closed them.
fn doubt_verdict(case: &ServiceCase<'_>, resets: &ResetDigest) -> RequestVerdict {
    let waited_ns = resets.unanswered_ns;
    if !held_up(waited_ns, case.total_ns() + waited_ns) {
        return RequestVerdict::Quiet;
    }
    RequestVerdict::undecided(
        format!(
            "{} of {} got no response before their connections ended.",
            quantity(resets.unanswered, "request"),
            case.title()
        ),
        RuleDoubt {
            candidates: vec![RuleId::ResetByPeer],
            concerned_ns: waited_ns,
            facts: vec![
                number(
                    "unanswered",
                    resets.unanswered,
                    "requests without a response",
                ),
                number("requests", case.requests(), "requests with a response"),
                time_fact(
                    "unanswered_ns",
                    waited_ns,
                    "time until the connections ended",
                ),
            ],
            why: "No RST came: the program gave up, or the other end closed without an answer.",
            would_help: Some("Read the logs of both ends at these times."),
        },
    )
}

/// Makes the finding of requests that a reset answered.
fn finding(case: &ServiceCase<'_>, resets: &ResetDigest, lost_ns: u64) -> RequestFinding {
    let idle = || resets.lost.iter().filter_map(|it| it.idle_ns);
    let on_idle = idle().count() as u64;
    let least_ns = idle().min();
    RequestFinding {
        harm_ns: lost_ns,
        whole_ns: case.total_ns() + lost_ns,
        remedy: Remedy::Avoidable,
        headline: headline(case, resets, lost_ns, least_ns),
        facts: collect_facts(case, resets, (on_idle, least_ns), lost_ns),
        could_not_see: vec![
            "Whether the next request repeats this one.".to_owned(),
            "Whether the other end had begun to work on the request: then it may do it twice.".to_owned(),
        ],
        advice: make_advice(match least_ns {
            Some(least_ns) => of_idle(least_ns).to_vec(),
            None => vec![
                "Read the other end's log. It or a proxy refused the first request of the connection, or ended."
                    .to_owned(),
            ],
        }),
        gain: Some("no request is sent on a closed connection"),
        confidence: direct_confidence(case, "the kernel noted the RST as the connection's error"),
        ..RequestFinding::new(case)
    }
}

fn headline(
    case: &ServiceCase<'_>,
    resets: &ResetDigest,
    lost_ns: u64,
    idle_ns: Option<u64>,
) -> String {
    let requests = quantity(resets.count, "request");
    let of = case.requests() + resets.count;
    let cause = match idle_ns {
        Some(ns) => format!(
            "had closed connections that were idle for {} or longer",
            duration(ns)
        ),
        None => "reset the connection".to_owned(),
    };
    format!(
        "{} {cause}: it answered {requests} of {} of {} with RST, and {} passed before the next.",
        case.key.address,
        count(of),
        case.key.name,
        duration(lost_ns)
    )
}

fn collect_facts(
    case: &ServiceCase<'_>,
    resets: &ResetDigest,
    (on_idle, least_ns): (u64, Option<u64>),
    lost_ns: u64,
) -> Vec<Fact> {
    let kept = || resets.lost.iter();
    let after_fin = kept().filter(|it| it.is_after_fin).count() as u64;
    let again = kept().filter(|it| it.next_ns.is_some()).count() as u64;
    let mut facts = vec![
        number("resets", resets.count, "requests answered with RST"),
        number("requests", case.requests(), "requests with a response"),
        number(
            "resets_after_idle",
            on_idle,
            "of these on a connection that had been used before",
        ),
        number(
            "resets_after_fin",
            after_fin,
            "of these after the other end's FIN",
        ),
        number(
            "asked_again",
            again,
            "of these followed by another request of the thread",
        ),
        time_fact("lost_ns", lost_ns, "time until the next request"),
    ];
    if let Some(ns) = least_ns {
        facts.push(time_fact(
            "idle_min_ns",
            ns,
            "least idle time before a reset",
        ));
    }
    let answered_ns = case.digest.series.gaps.range_ns();
    if let Some((_, ns)) = answered_ns {
        facts.push(time_fact(
            "idle_answered_max_ns",
            ns,
            "longest idle time before a response",
        ));
    }
    facts
}

/// Returns the fixes if the other end closes connections that are idle.
fn of_idle(least_ns: u64) -> [String; 3] {
    [
        format!(
            "Close idle connections in the client before the other end does: its idle time below {}. Node.js: \
             agentkeepalive's freeSocketTimeout; Go: Transport.IdleConnTimeout; JDBC pools: maxLifetime, idleTimeout; \
             SQLAlchemy: pool_recycle.",
            duration(least_ns)
        ),
        "Raise the idle time of the other end above the client's: nginx keepalive_timeout, Node.js server.keepAliveTimeout, \
         uvicorn --timeout-keep-alive."
            .to_owned(),
        "Ask again at once, without a pause, where the request may be repeated (RFC 9110, section 9.2.2).".to_owned(),
    ]
}
