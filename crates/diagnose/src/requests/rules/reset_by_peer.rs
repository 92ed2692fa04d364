//! The other end had closed the connection, and answered a request with RST: the program has to ask again.

use super::rule::{ProgramVerdict, Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{direct_confidence, make_advice, number, time_fact};
use crate::report::severity::held_up;
use crate::report::{Fact, RuleDoubt, RuleId};
use crate::requests::case::ServiceCase;
use crate::requests::evidence::RequestEvidence;
use crate::requests::resets::{LostRequest, ReadExtent, ResetDigest};
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
        verdict: match (resets.count, resets.farewells + resets.transfers) {
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

/// Makes a note: every request had its response before the reset came, or no response was ever sent.
fn harmless_finding(case: &ServiceCase<'_>, resets: &ResetDigest) -> RequestFinding {
    let (address, name) = (&case.key.address, &case.key.name);
    let (headline, unseen, advice) = match resets.farewells {
        0 => (
            format!(
                "{address} reset {} on which {name} had only sent. No response had come on them.",
                quantity(resets.transfers, "connection")
            ),
            "Whether a response was due. A transfer in one direction has none, and may end so.",
            "Nothing needs to change if these transfers were to end then. Else read the other end's log.",
        ),
        farewells => (
            format!(
                "{address} reset {} after the last message of {name}. No harm: every request before had its response.",
                quantity(farewells, "connection")
            ),
            "What the last message was: its size is that of a closing message, such as TLS's close_notify.",
            "Nothing needs to change.",
        ),
    };
    let after_last = (resets.farewells > 0).then(|| {
        let label = "resets after a last, small message";
        number("resets_after_last", resets.farewells, label)
    });
    let of_transfers = (resets.transfers > 0).then(|| {
        let label = "resets of connections that only sent";
        number("resets_of_transfers", resets.transfers, label)
    });
    let requests = number("requests", case.requests(), "requests with a response");
    RequestFinding {
        remedy: Remedy::Avoidable,
        headline,
        facts: after_last
            .into_iter()
            .chain(of_transfers)
            .chain([requests])
            .collect(),
        could_not_see: vec![unseen.to_owned()],
        advice: make_advice([advice]),
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
            "{} from {} got no response before their connections ended.",
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

/// A server looks for idle connections no more often than once in this time: the unit of the time limit of epoll_wait(2), ns.
const IDLE_LEAST_NS: u64 = 1_000_000;

/// Why the other end closed connections with requests, as far as the recording shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CloseCause {
    /// It had read the first bytes of most requests.
    Refusal,
    /// It had read all bytes of most requests.
    Abort,
    /// They had been idle; the least time, ns.
    Idleness(u64),
    /// They had just had a response, their only one.
    Response,
    /// They had just had a response, and some had others before.
    Use,
    /// Most requests were the first of their connections.
    Unknown,
}

impl CloseCause {
    /// `closed_ns`: when the other end closed a connection, if that was seen.
    fn new(lost: &[LostRequest], closed_ns: impl Fn(u64) -> Option<u64>) -> Self {
        let read = |extent| lost.iter().filter(|it| it.read == extent).count();
        let (part, whole) = (read(ReadExtent::Part), read(ReadExtent::Whole));
        let idle_ns = |it: &LostRequest| {
            let idle_ns = it.idle_ns?;
            let answered_ns = it.begin_ns.saturating_sub(idle_ns);
            let closed_ns = closed_ns(it.conn).map(|ns| ns.saturating_sub(answered_ns));
            Some(closed_ns.map_or(idle_ns, |ns| ns.min(idle_ns)))
        };
        let mut idle: Vec<u64> = lost.iter().filter_map(idle_ns).collect();
        idle.sort_unstable();
        match idle.get(idle.len() / 2) {
            _ if 2 * (part + whole) > lost.len() => match part > whole {
                true => Self::Refusal,
                false => Self::Abort,
            },
            Some(half_ns) if *half_ns < IDLE_LEAST_NS => match had_one_response(lost) {
                true => Self::Response,
                false => Self::Use,
            },
            Some(_) => Self::Idleness(least_idle_ns(lost).unwrap_or(0)),
            None => Self::Unknown,
        }
    }

    /// Returns the beginning of the headline, after the address.
    fn text(self) -> String {
        match self {
            Self::Refusal => "closed connections before it had read the whole request".to_owned(),
            Self::Idleness(ns) => {
                format!(
                    "had closed connections that were idle for {} or longer",
                    duration(ns)
                )
            }
            Self::Abort => "read the request and reset the connection".to_owned(),
            Self::Response => "closed connections right after a response".to_owned(),
            Self::Use => {
                "closed connections in use, as a restart or a limit of requests does".to_owned()
            }
            Self::Unknown => "reset the connection".to_owned(),
        }
    }

    /// Returns the fixes, best first.
    fn advice(self) -> Vec<String> {
        match self {
            Self::Refusal => OF_REFUSAL.map(str::to_owned).to_vec(),
            Self::Idleness(ns) => of_idle(ns).to_vec(),
            Self::Abort => OF_ABORT.map(str::to_owned).to_vec(),
            Self::Response => OF_RESPONSE.map(str::to_owned).to_vec(),
            Self::Use => OF_USE.map(str::to_owned).to_vec(),
            Self::Unknown => OF_UNKNOWN.map(str::to_owned).to_vec(),
        }
    }
}

const OF_REFUSAL: [&str; 3] = [
    "Read the other end's log: it refused these requests, for example a body above its limit (HTTP 413, nginx \
     `client_max_body_size`). The reset may delete its answer before the client reads it (RFC 9112, section 9.6).",
    "Let the server read the rest of the request before it closes: nginx `lingering_close`. In a program: \
     shutdown(SHUT_WR), then read until the end.",
    "Let the client ask first, and not repeat what was refused: `Expect: 100-continue` (RFC 9110, section 10.1.1).",
];

const OF_ABORT: [&str; 3] = [
    "Read the other end's log at these times: it had the request, and gave it up. It ended, ran into an error or a time \
     limit, or lost its own server behind a proxy.",
    "Let the server answer with an error before it closes. It sends RST if it sets `SO_LINGER` to 0 (socket(7)). nginx: \
     `reset_timedout_connection`, `return 444`.",
    "Let the client ask again only where the request may be repeated (RFC 9110, section 9.2.2): the other end may have \
     done its work.",
];

const OF_USE: [&str; 3] = [
    "Read the other end's log: it restarted or reloaded at these times, or reached a limit of requests. nginx: \
     `keepalive_requests`; gunicorn: `--max-requests`.",
    "Let the server say that it closes: `Connection: close` (RFC 9112, section 9.6), and then read until the client \
     closes. Or raise its limit of requests.",
    "Ask again at once on a new connection, where the request may be repeated (RFC 9110, section 9.2.2).",
];

const OF_RESPONSE: [&str; 2] = [
    "Let the server say that it closes: `Connection: close` (RFC 9112, section 9.6). Or let it keep connections: uWSGI \
     `--http11-socket`, gunicorn `-k gthread`.",
    "Until then, let the client use a new connection for each request.",
];

const OF_UNKNOWN: [&str; 2] = [
    "Read the other end's log. It or a proxy refused the first request of the connection, or ended.",
    "Check that the server has free descriptors (`ls /proc/PID/fd | wc -l`, `ulimit -n`): without one, Node.js accepts \
     connections and closes them at once.",
];

/// Returns whether the connections that had been used before had just one response each.
fn had_one_response(lost: &[LostRequest]) -> bool {
    let mut used = lost.iter().filter(|it| it.idle_ns.is_some());
    used.all(|it| it.responses == Some(1))
}

/// Returns the least time that a connection had been idle before its request, ns.
fn least_idle_ns(lost: &[LostRequest]) -> Option<u64> {
    lost.iter().filter_map(|it| it.idle_ns).min()
}

/// Makes the finding of requests that a reset answered.
fn finding(case: &ServiceCase<'_>, resets: &ResetDigest, lost_ns: u64) -> RequestFinding {
    let ends = &case.evidence.digests.connection_ends;
    let cause = CloseCause::new(&resets.lost, |conn| ends.closed_by_other_ns(conn));
    RequestFinding {
        harm_ns: lost_ns,
        whole_ns: case.total_ns() + lost_ns,
        remedy: Remedy::Avoidable,
        headline: headline(case, resets, lost_ns, cause),
        facts: collect_facts(case, resets, lost_ns),
        could_not_see: list_unseen(cause),
        advice: make_advice(cause.advice()),
        gain: Some("no request is sent on a closed connection"),
        confidence: direct_confidence(case, "the kernel noted the RST as the connection's error"),
        ..RequestFinding::new(case)
    }
}

/// Returns what the recording does not show.
fn list_unseen(cause: CloseCause) -> Vec<String> {
    let of_work = match cause {
        CloseCause::Refusal => "Whether the other end sent an answer that the reset deleted.",
        _ => "Whether the other end had begun to work on the request: then it may do it twice.",
    };
    let of_rest = match cause {
        CloseCause::Abort => Some("Whether the client had more of the request to send."),
        _ => None,
    };
    let lines = ["Whether the next request repeats this one.", of_work];
    let lines = lines.into_iter().chain(of_rest);
    lines.map(str::to_owned).collect()
}

fn headline(
    case: &ServiceCase<'_>,
    resets: &ResetDigest,
    lost_ns: u64,
    cause: CloseCause,
) -> String {
    let requests = quantity(resets.count, "request");
    let of = case.requests() + resets.count;
    format!(
        "{} {}: it answered {requests} of {} from {} with RST. {} passed before the next ones.",
        case.key.address,
        cause.text(),
        count(of),
        case.key.name,
        duration(lost_ns)
    )
}

fn collect_facts(case: &ServiceCase<'_>, resets: &ResetDigest, lost_ns: u64) -> Vec<Fact> {
    let kept = || resets.lost.iter();
    let idle = || kept().filter_map(|it| it.idle_ns);
    let (on_idle, least_ns) = (idle().count() as u64, least_idle_ns(&resets.lost));
    let read = kept().filter(|it| it.read != ReadExtent::None).count() as u64;
    let whole = kept().filter(|it| it.read == ReadExtent::Whole).count() as u64;
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
    if read > 0 {
        let label = "of these, the other end had read the first bytes";
        facts.push(number("requests_read", read, label));
        let label = "of these, it had read all bytes";
        facts.push(number("requests_read_whole", whole, label));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::exchange::StreamRange;

    /// Makes a lost request: idle time before it, and how much of it the server had read.
    fn lost(idle_ns: Option<u64>, read: ReadExtent) -> LostRequest {
        LostRequest {
            conn: 1,
            begin_ns: 2_000_000_000,
            closed_ns: 2_000_000_001,
            idle_ns,
            is_after_fin: false,
            read,
            responses: Some(u64::from(idle_ns.is_some())),
            next_ns: None,
        }
    }

    const SECOND: Option<u64> = Some(1_000_000_000);
    const SHORT: Option<u64> = Some(117_000);

    fn cause_of(lost: &[LostRequest]) -> CloseCause {
        CloseCause::new(lost, |_| None)
    }

    #[test]
    fn idleness_is_no_cause_where_the_server_had_read_or_just_answered() {
        let unread = lost(SECOND, ReadExtent::None);
        assert_eq!(cause_of(&[unread]), CloseCause::Idleness(1_000_000_000));
        let just_answered = lost(SHORT, ReadExtent::None);
        assert_eq!(cause_of(&[just_answered]), CloseCause::Response);
        // it closed 50 µs after the response, and the client asked a second later
        let closed = |_| Some(1_000_050_000);
        let found = CloseCause::new(&[unread], closed);
        assert_eq!(found, CloseCause::Response);
        let first = lost(None, ReadExtent::None);
        assert_eq!(cause_of(&[first]), CloseCause::Unknown);
        // one of three was read: a race, and no refusal
        let mostly_idle = [lost(SECOND, ReadExtent::Part), unread, unread];
        let idleness = CloseCause::Idleness(1_000_000_000);
        assert_eq!(cause_of(&mostly_idle), idleness);
    }

    #[test]
    fn refusal_needs_a_rest_that_was_not_read() {
        let part = lost(SECOND, ReadExtent::Part);
        let whole = lost(SECOND, ReadExtent::Whole);
        assert_eq!(cause_of(&[part]), CloseCause::Refusal);
        assert_eq!(cause_of(&[whole]), CloseCause::Abort);
        assert_eq!(cause_of(&[part, whole, whole]), CloseCause::Abort);
        let range = StreamRange {
            first: 100,
            end: 200,
        };
        let read = [None, Some(100), Some(101), Some(200)];
        assert_eq!(
            read.map(|end| ReadExtent::new(range, end)),
            [
                ReadExtent::None,
                ReadExtent::None,
                ReadExtent::Part,
                ReadExtent::Whole
            ]
        );
    }

    #[test]
    fn server_that_answered_more_than_once_does_not_close_after_each_response() {
        let answered = |responses| LostRequest {
            responses,
            ..lost(SHORT, ReadExtent::None)
        };
        let first = lost(None, ReadExtent::None);
        assert_eq!(cause_of(&[first, answered(Some(1))]), CloseCause::Response);
        assert_eq!(
            cause_of(&[answered(Some(1)), answered(Some(900))]),
            CloseCause::Use
        );
        // older than the recording: nobody knows
        assert_eq!(cause_of(&[answered(None)]), CloseCause::Use);
    }
}
