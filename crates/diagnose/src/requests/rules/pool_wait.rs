//! Threads, or requests of an event loop, wait for a connection of their pool, because others use all of them.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    BUSY_LEAST, EXPLAINS_LEAST, busy_share, direct_confidence, duration_facts, make_advice, number,
    share_fact, time_fact,
};
use crate::report::{Confidence, ConfidenceLevel, RuleDoubt, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::ServiceCase;
use crate::requests::id::ServiceId;
use crate::requests::loop_pool::LoopPoolDigest;
use crate::units::{count, duration, percent, quantity, ratio_of};

/// The rule `pool_wait`.
pub struct PoolWait;

impl RequestRule for PoolWait {
    fn id(&self) -> RuleId {
        RuleId::PoolWait
    }

    fn summary(&self) -> &'static str {
        "Threads or requests wait for a free connection of a pool"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let series = &case.digest.series;
        if let Some((asked, pool)) = find_loop_pool(case) {
            return RequestVerdict::Fires(Box::new(make_loop_finding(case, &asked, &pool)));
        }
        if let Some(excess) = UpstreamExcess::find(case) {
            return RequestVerdict::Fires(Box::new(make_excess_finding(case, &excess)));
        }
        match case.digest.pool.ns {
            0 if case.digest.loop_pools.all.endpoint.is_some() => RequestVerdict::Quiet,
            0 => unseen_verdict(case),
            // each thread may have a connection of its own
            _ if series.threads <= series.connections => RequestVerdict::Quiet,
            _ => RequestVerdict::Fires(Box::new(finding(case))),
        }
    }
}

/// Returns the requests to the server for which a loop's requests waited, and these waits; `None`: too little, as a
/// loop may take a connection that was just given back, though others are free. What another loop gave away counts only
/// if none was free.
fn find_loop_pool<'a>(case: &ServiceCase<'a>) -> Option<(ServiceCase<'a>, LoopPoolDigest)> {
    let pools = &case.digest.loop_pools;
    let find = |pool: LoopPoolDigest| Some((case.evidence.service_of(pool.endpoint?), pool));
    let all = find(pools.all).filter(|(asked, _)| PoolUse::find(asked).busy >= BUSY_LEAST);
    let (asked, pool) = all.or_else(|| find(pools.of_own_loop))?;
    let is_small = ratio_of(pool.ns, case.total_ns()) < EXPLAINS_LEAST;
    (!is_small && asked.digest.series.connections > 0).then_some((asked, pool))
}

/// Makes the finding: requests waited for a free connection of a pool.
fn finding(case: &ServiceCase<'_>) -> RequestFinding {
    let (pool, series) = (&case.digest.pool, &case.digest.series);
    let whole_ns = case.total_ns() + pool.ns;
    let stacks = case.evidence.stacks(&pool.stacks).into_iter();
    let stacks = stacks.map(|it| format!("{}: {}", it.subject, duration(it.ns)));
    let mut facts = duration_facts(case);
    facts.extend([
        time_fact(
            "pool_wait_ns",
            pool.ns,
            "wait for a connection before requests",
        ),
        share_fact(
            "pool_share",
            ratio_of(pool.ns, whole_ns),
            "of the time of requests and of these waits",
        ),
        number("pool_waits", pool.requests, "request(s) that had to wait"),
        time_fact("longest_pool_wait_ns", pool.most_ns, "the longest wait"),
        number("threads", series.threads, "thread(s) with requests"),
        number("connections", series.connections, "connection(s)"),
        share_fact(
            "busy",
            busy_share(case),
            "of the time the connections had a request",
        ),
    ]);
    RequestFinding {
        involved: stacks.take(2).map(|it| format!("in {it}")).collect(),
        harm_ns: pool.ns,
        whole_ns,
        remedy: Remedy::Avoidable,
        headline: format!(
            "Too few connections to {}: {} of {} share {}, and waited {} of {} for a free one ({}).",
            case.key.address,
            quantity(series.threads, "thread"),
            case.key.name,
            count(series.connections),
            duration(pool.ns),
            duration(whole_ns),
            percent(ratio_of(pool.ns, whole_ns)),
        ),
        facts,
        ruled_out: super::shared::rule_out(case, &[("computing", &[RequestPart::Cpu])]),
        could_not_see: vec![
            "Waits for a connection without a thread, as in asynchronous pools.".to_owned(),
        ],
        advice: make_advice([
            "Let the pool have more connections, as many as the server serves at once: SQLAlchemy `pool_size` and \
             `max_overflow`, HikariCP `maximumPoolSize`, Go `SetMaxOpenConns`, urllib3 `maxsize`.",
            "Give a connection back sooner: before work that does not need it.",
            "Make the requests shorter: each holds its connection for as long as it takes.",
        ]),
        gain: Some("a connection is always free, and the server stays as fast"),
        confidence: direct_confidence(
            case,
            "each wait ended when another thread's request on the same connection was over",
        ),
        ..RequestFinding::new(case)
    }
}

/// Connections to a server that requests could have at once.
struct PoolUse {
    /// Their number.
    connections: u64,
    /// Share of the time in which they carried a request.
    busy: f64,
}

impl PoolUse {
    /// Returns all connections, or the most that ever were in use: a limit may be lower (haproxy `maxconn`). Then these
    /// are nearly always in use, and never more.
    fn find(asked: &ServiceCase<'_>) -> Self {
        let all = Self {
            connections: asked.digest.series.connections,
            busy: busy_share(asked),
        };
        let (begin_ns, end_ns) = asked.digest.time.unwrap_or_default();
        let most = asked.evidence.table.free.most_in_use(asked.id);
        let limited = Self {
            connections: most,
            busy: ratio_of(asked.total_ns(), most * end_ns.saturating_sub(begin_ns)),
        };
        match all.busy < BUSY_LEAST && (BUSY_LEAST..=1.0).contains(&limited.busy) {
            true => limited,
            false => all,
        }
    }
}

/// Makes the finding: requests that an event loop had read waited for a free connection to another server.
fn make_loop_finding(
    case: &ServiceCase<'_>,
    asked: &ServiceCase<'_>,
    pool: &LoopPoolDigest,
) -> RequestFinding {
    let PoolUse { connections, busy } = PoolUse::find(asked);
    let mut facts = duration_facts(case);
    facts.extend([
        time_fact("pool_wait_ns", pool.ns, "wait for a connection in requests"),
        share_fact(
            "pool_share",
            ratio_of(pool.ns, case.total_ns()),
            "of the time of requests",
        ),
        number("pool_waits", pool.requests, "request(s) that had to wait"),
        time_fact("longest_pool_wait_ns", pool.most_ns, "the longest wait"),
        number("connections", connections, "connection(s)"),
        share_fact("busy", busy, "of the time the connections had a request"),
    ]);
    RequestFinding {
        parts: vec![RequestPart::Upstream],
        harm_ns: pool.ns,
        remedy: Remedy::Avoidable,
        headline: format!(
            "Too few connections to {}: requests to {} share {}, and waited {} of {} for a free one ({}).",
            asked.key.address,
            case.key.name,
            count(connections),
            duration(pool.ns),
            duration(case.total_ns()),
            percent(ratio_of(pool.ns, case.total_ns())),
        ),
        facts,
        ruled_out: super::shared::rule_out(case, &[("computing", &[RequestPart::Cpu])]),
        could_not_see: vec![
            "Waits that ended in a round of the loop with several responses: they may count as `upstream` alone."
                .to_owned(),
        ],
        advice: make_advice(LOOP_FIXES),
        gain: Some("a connection is always free, and the server stays as fast"),
        confidence: Confidence {
            level: ConfidenceLevel::Medium,
            because: "each request was sent in the round of the loop that read another one's response on the connection"
                .to_owned(),
        },
        ..RequestFinding::new(case)
    }
}

/// Time that requests of a server waited for another server, beyond the time of the requests to that one: they waited for their
/// turn to ask. Where tasks do not move between threads, rounds and waits show that better.
struct UpstreamExcess<'a> {
    /// The requests to the other server.
    asked: ServiceCase<'a>,
    /// That time, ns.
    ns: u64,
}

impl<'a> UpstreamExcess<'a> {
    /// Finds it for the server that requests waited for longest; `None`: requests to that one may be unknown, or a connection was
    /// free.
    fn find(case: &ServiceCase<'a>) -> Option<Self> {
        let upstream = case.part_subjects(RequestPart::Upstream)?;
        let first = upstream.services.worst(1).into_iter().next()?;
        let asked = ServiceCase::new(case.evidence, ServiceId::from_number(first.number));
        let ns = first.blocked_ns.saturating_sub(asked.total_ns());
        let is_large = ratio_of(ns, case.total_ns()) >= EXPLAINS_LEAST;
        let has_all = !asked.is_server() && case.evidence.has_all_calls() && asked.has_only_turns();
        let is_full = asked.digest.series.connections > 0 && busy_share(&asked) >= BUSY_LEAST;
        let has_tasks = case.is_server() && case.has_task_runtime();
        (has_tasks && is_large && has_all && is_full).then_some(Self { asked, ns })
    }
}

/// Makes the finding: requests waited for another server for longer than they asked it, and its connections were never free.
fn make_excess_finding(case: &ServiceCase<'_>, excess: &UpstreamExcess<'_>) -> RequestFinding {
    let asked = &excess.asked;
    let connections = asked.digest.series.connections;
    let mut facts = duration_facts(case);
    facts.extend([
        time_fact(
            "pool_wait_ns",
            excess.ns,
            "wait for a connection in requests",
        ),
        share_fact(
            "pool_share",
            ratio_of(excess.ns, case.total_ns()),
            "of the time of requests",
        ),
        time_fact(
            "asked_ns",
            asked.total_ns(),
            "time of the requests on these connections",
        ),
        number("connections", connections, "connection(s)"),
        share_fact(
            "busy",
            busy_share(asked),
            "of the time the connections had a request",
        ),
    ]);
    RequestFinding {
        parts: vec![RequestPart::Upstream],
        harm_ns: excess.ns,
        remedy: Remedy::Avoidable,
        headline: format!(
            "Too few connections to {}: requests to {} share {}, and waited {} of {} for a free one ({}).",
            asked.key.address,
            case.key.name,
            count(connections),
            duration(excess.ns),
            duration(case.total_ns()),
            percent(ratio_of(excess.ns, case.total_ns())),
        ),
        facts,
        ruled_out: super::shared::rule_out(case, &[("computing", &[RequestPart::Cpu])]),
        could_not_see: vec![
            "Whether a pool or a lock of the program lets so few requests ask at a time.".to_owned(),
            "Whether several requests shared one response (Go `singleflight`): then more connections do not help.".to_owned(),
        ],
        advice: make_advice(LOOP_FIXES),
        gain: Some("a connection is always free, and the server stays as fast"),
        confidence: Confidence {
            level: ConfidenceLevel::Medium,
            because: "requests waited for the other server longer than it had requests, and its connections were always in use"
                .to_owned(),
        },
        ..RequestFinding::new(case)
    }
}

/// Waits were not recorded, and many threads share connections that are always in use.
fn unseen_verdict(case: &ServiceCase<'_>) -> RequestVerdict {
    let series = &case.digest.series;
    let shares = !case.is_server() && series.threads > series.connections;
    if case.evidence.has_waits() || !shares || busy_share(case) < BUSY_LEAST {
        return RequestVerdict::Quiet;
    }
    let mut facts = duration_facts(case);
    facts.push(number("threads", series.threads, "thread(s) with requests"));
    facts.push(number("connections", series.connections, "connection(s)"));
    facts.push(share_fact(
        "busy",
        busy_share(case),
        "of the time the connections had a request",
    ));
    RequestVerdict::undecided(
        format!(
            "{} of {} share {} to {}, and these are nearly always in use.",
            quantity(series.threads, "thread"),
            case.key.name,
            quantity(series.connections, "connection"),
            case.key.address
        ),
        RuleDoubt {
            candidates: vec![RuleId::PoolWait],
            concerned_ns: case.total_ns(),
            facts,
            why: "The recording does not show whether threads waited for a free connection.",
            would_help: Some("Record as root with `--detail waits`."),
        },
    )
}

/// Fixes of a pool in an event loop.
const LOOP_FIXES: [&str; 3] = [
    "Let the pool have more connections, as many as the server serves at once: pgbouncer `default_pool_size`, node-postgres \
     `max`, Go `SetMaxOpenConns` and `MaxConnsPerHost`, Node.js `http.Agent` `maxSockets`, asyncpg `max_size`, aiohttp \
     `TCPConnector(limit=…)`, SQLAlchemy `pool_size`.",
    "Give a connection back sooner: before work that does not need it. In pgbouncer, `pool_mode = transaction` does so.",
    "Make the requests shorter: each holds its connection for as long as it takes.",
];
