//! All threads that serve have a request already and wait for something with it: further requests wait for a free thread.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    LACK_OF_CPU, direct_confidence, duration_facts, make_advice, most_at_once, of_time, rule_out,
    share_fact, time_fact,
};
use crate::kernel::WAKE_NS;
use crate::report::{Fact, FactUnit, FactValue, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, QUEUE, ServiceCase};
use crate::requests::endpoint::Endpoint;
use crate::rows::top::KEPT;
use crate::units::{count, percent, quantity, ratio_of};

/// The rule `busy_workers`.
pub struct BusyWorkers;

/// A thread that waits for these could serve others meanwhile, if there were more threads. Locks, disks and the like have
/// rules of their own: more threads would wait for the same.
const WAITS: [RequestPart; 7] = [
    RequestPart::Timer,
    RequestPart::Upstream,
    RequestPart::Remote,
    RequestPart::Process,
    RequestPart::Dns,
    RequestPart::Connect,
    RequestPart::Network,
];

/// Threads with so much of the time are those that serve: others only took part.
const THREADS_SHARE: f64 = 0.9;

/// Where a thread passes from one request to the next, the time of its wake-up may count for both. That is [`WAKE_NS`], and so
/// much of a request that keeps the thread for 1 ms. Of longer ones it is less.
const HANDOVER_SHARE: f64 = WAKE_NS as f64 / 1e6;

/// The threads wait for most of the time that they have requests, or more of them would not help.
const WAITING_LEAST: f64 = 0.5;

impl RequestRule for BusyWorkers {
    fn id(&self) -> RuleId {
        RuleId::BusyWorkers
    }

    fn summary(&self) -> &'static str {
        "All serving threads wait with a request, and further requests wait for a thread"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let is_explained = case.is_claimed(RequestPart::Queued);
        if !case.is_server() || !case.evidence.has_waits() || is_explained {
            return RequestVerdict::Quiet;
        }
        let queued = case.harm(&QUEUE);
        let served_ns = case.served_ns();
        let waiting = case.harm(&WAITS);
        let is_waiting = ratio_of(waiting.ns, served_ns) >= WAITING_LEAST;
        let is_busy = is_waiting || is_held(case, &queued);
        match queued.ns > 0 && is_busy && !is_of_loops(case) {
            true => RequestVerdict::Fires(Box::new(finding(case, &queued, served_ns))),
            false => RequestVerdict::Quiet,
        }
    }
}

/// Returns whether threads waited for other clients between their requests, for most of the time that requests waited for a
/// thread. A wait within a request, as for a slow client, keeps at most all other connections from the thread.
fn is_held(case: &ServiceCase<'_>, queued: &PartHarm) -> bool {
    let held_ns = case.digest.queue.held_ns as f64;
    let others = connections_at_once(case).saturating_sub(1);
    let within_ns = case.harm(&WAITS).ns as f64 * others as f64;
    held_ns >= queued.ns as f64 * WAITING_LEAST && within_ns < held_ns * WAITING_LEAST
}

/// Returns the most connections that were open at once. One with an unknown begin or end counts all the time.
fn connections_at_once(case: &ServiceCase<'_>) -> u64 {
    let life = |it: &Endpoint| (it.opened_ns.unwrap_or(0), it.closed_ns.unwrap_or(u64::MAX));
    most_at_once(case.endpoints().map(life))
}

/// Makes the finding: requests waited because all workers served others.
fn finding(case: &ServiceCase<'_>, queued: &PartHarm, served_ns: u64) -> RequestFinding {
    let (why, why_ns) = largest_part(case);
    let is_held = is_held(case, queued);
    let busy = match is_held {
        true => "kept by other clients".to_owned(),
        false => format!(
            "busy ({} {})",
            reason(why),
            percent(ratio_of(why_ns, served_ns))
        ),
    };
    let threads = match is_held {
        true => most_threads(case, &[RequestPart::Queued]),
        false => serving_threads(case),
    };
    let subject = match count_threads(&threads) {
        Some(1) => format!("the only one of {} was {busy}", case.title()),
        Some(threads) => format!("the {} of {} were {busy}", count(threads), case.title()),
        None => format!("all of {} were {busy}", case.title()),
    };
    let mut facts = duration_facts(case);
    facts.push(time_fact("queued_ns", queued.ns, "wait for a thread"));
    let label = "of the time of requests";
    facts.push(share_fact("queued_share", queued.share, label));
    if case.digest.queue.held_ns > 0 {
        let label = "of the wait, the thread waited for another client";
        facts.push(time_fact("held_ns", case.digest.queue.held_ns, label));
    }
    facts.extend(occupation_facts(case, served_ns, queued.ns));
    RequestFinding {
        parts: match is_held {
            true => vec![RequestPart::Queued],
            false => vec![RequestPart::Queued, why],
        },
        involved: match is_held {
            true => Vec::new(),
            false => name_involved(case, why),
        },
        threads,
        headline: format!(
            "Too few threads: {subject}, and {} waited {} for one.",
            quantity(case.requests(), "request"),
            of_time(case, queued.ns),
        ),
        facts,
        ruled_out: rule_out(
            case,
            &[
                ("computing", &[RequestPart::Cpu]),
                ("lack of CPU", LACK_OF_CPU),
                ("locks", &[RequestPart::Lock]),
                ("disks", &[RequestPart::Disk]),
            ],
        ),
        could_not_see: vec!["How many requests the server accepts at once.".to_owned()],
        advice: make_advice(list_fixes(why, is_held)),
        gain: Some("a thread is always free"),
        confidence: direct_confidence(
            case,
            "the queue of each request and the waits of the threads were measured",
        ),
        ..RequestFinding::from_harm(case, queued, Remedy::Avoidable)
    }
}

/// Returns the fixes; slow clients and idle ones have some of their own.
fn list_fixes(why: RequestPart, is_held: bool) -> Vec<&'static str> {
    if is_held {
        return HELD_FIXES.to_vec();
    }
    let of_clients = "Let no client keep a thread. A proxy before the server can buffer whole requests (nginx \
        `proxy_request_buffering on`, its default). Or use workers that wait for many clients at once (gunicorn \
        `-k gthread` or `-k gevent`). Limit how long a client may take.";
    let is_of_clients = matches!(why, RequestPart::Remote | RequestPart::Network);
    let own = is_of_clients.then_some(of_clients);
    own.into_iter().chain(FIXES).collect()
}

/// Where a thread stays with its client between requests.
const HELD_FIXES: [&str; 3] = [
    "Let no client keep a thread between its requests. Use workers that wait for many clients at once: an event \
        loop, gunicorn `-k gthread`, Apache `mpm_event`.",
    "Or start more threads, as many as clients are connected at once. In Python, `ThreadingHTTPServer` has a thread \
        for each client, and `HTTPServer` one for all.",
    "Or close idle connections soon: a short keep-alive time limit (Apache `KeepAliveTimeout`), or \
        `Connection: close` in the response. Then each request pays for a new connection.",
];

const FIXES: [&str; 3] = [
    "Start more threads or workers, as many as requests come at once. Examples: gunicorn `--workers` \
        and `--threads`, uWSGI `processes`, php-fpm `pm.max_children`, Puma `threads`, Tomcat \
        `maxThreads`, the size of a Java executor. Behind an event loop: `UV_THREADPOOL_SIZE` of Node.js, \
        `ThreadPoolExecutor(max_workers=...)` of asyncio, `max_blocking_threads` of tokio.",
    "In an event loop (Node.js, asyncio), do not wait in the loop: use `await`, or another thread \
        (`run_in_executor`, `asyncio.to_thread`).",
    "Make the waits of the threads shorter: set a time limit, send independent requests at the same \
        time, or keep answers in a cache.",
];

/// Returns in words what a thread of a server waits for: its other end is the client.
fn reason(part: RequestPart) -> &'static str {
    match part {
        RequestPart::Remote | RequestPart::Network => "waiting for a client",
        other => other.text(),
    }
}

/// Returns the part that threads spent most time with while they had a request, and that time, ns.
fn largest_part(case: &ServiceCase<'_>) -> (RequestPart, u64) {
    let parts = WAITS.iter().map(|part| (*part, case.part_ns(*part)));
    parts
        .max_by_key(|(_, ns)| *ns)
        .unwrap_or((RequestPart::Unknown, 0))
}

/// Returns the number of threads with most of the time; `None`: there may be more than are kept, or none is known.
fn count_threads(serving: &BTreeSet<u32>) -> Option<u64> {
    let number = serving.len();
    (1..KEPT).contains(&number).then_some(number as u64)
}

/// Returns the threads with most of the time in which requests kept one.
fn serving_threads(case: &ServiceCase<'_>) -> BTreeSet<u32> {
    most_threads(case, &WAITS)
}

/// Returns the threads with most of the time of these parts.
fn most_threads(case: &ServiceCase<'_>, parts: &[RequestPart]) -> BTreeSet<u32> {
    let mut by_thread: BTreeMap<u32, u64> = BTreeMap::new();
    for thread in parts.iter().flat_map(|part| case.threads(*part)) {
        *by_thread.entry(thread.subject.tid).or_default() += thread.ns;
    }
    let most_ns = by_thread.values().sum::<u64>() as f64 * THREADS_SHARE;
    let mut times: Vec<(u32, u64)> = by_thread.into_iter().collect();
    times.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let mut sum_ns = 0;
    let before = times.into_iter().map(|(tid, ns)| {
        let before_ns = sum_ns;
        sum_ns += ns;
        (tid, before_ns)
    });
    let first =
        before.take_while(|(_, before_ns)| *before_ns == 0 || (*before_ns as f64) < most_ns);
    first.map(|(tid, _)| tid).collect()
}

/// Returns whether more requests had one of these threads at a time than there are: then these are event loops, and no request
/// that waits for something keeps one. Threads that are always busy are at that limit: beyond it is what matters. Requests also
/// lack a CPU before they have a thread: that time does not count.
fn is_of_loops(case: &ServiceCase<'_>) -> bool {
    let (begin_ns, end_ns) = case.digest.time.unwrap_or_default();
    let serving = serving_threads(case);
    let parts = RequestPart::ALL.iter();
    let parts = parts.filter(|it| !QUEUE.contains(it) && !LACK_OF_CPU.contains(it));
    let times = parts.flat_map(|part| case.threads(*part));
    let times = times.filter(|it| serving.contains(&it.subject.tid));
    let kept_ns: u64 = times.map(|it| it.ns).sum();
    let served_mean = ratio_of(kept_ns, end_ns.saturating_sub(begin_ns));
    let most = |threads: u64| threads as f64 * (1.0 + HANDOVER_SHARE);
    count_threads(&serving).is_some_and(|threads| served_mean > most(threads))
}

/// Returns how many requests were served and how many waited at a time: the sums of their times over the time in which there
/// were requests (Little's law).
fn occupation_facts(case: &ServiceCase<'_>, served_ns: u64, queued_ns: u64) -> Vec<Fact> {
    let Some((begin_ns, end_ns)) = case.digest.time else {
        return Vec::new();
    };
    let mean = |name, ns: u64, label| Fact {
        name,
        value: FactValue::Real(ratio_of(ns, end_ns.saturating_sub(begin_ns))),
        unit: FactUnit::Count,
        label,
        merge: crate::report::FactMerge::Worst,
    };
    vec![
        mean(
            "served_mean",
            served_ns,
            "average number of requests that had a thread",
        ),
        mean(
            "queued_mean",
            queued_ns,
            "average number of requests that waited for a thread",
        ),
    ]
}

/// Names the places in the program where threads waited with a request.
fn name_involved(case: &ServiceCase<'_>, why: RequestPart) -> Vec<String> {
    let stacks = case.stacks(why).into_iter().take(2);
    let line = |it: crate::requests::evidence::NamedTime<String>| {
        format!("in {}: {}", it.subject, crate::units::duration(it.ns))
    };
    stacks.map(line).collect()
}
