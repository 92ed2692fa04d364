//! Requests wait for a timer: a sleep, or a time limit that nothing else ended. Nobody works on them meanwhile.
//!
//! A server that sends by its own plan, a ping or an event, looks like one that answers late. Where that may be most of the
//! time, the rule does not decide. A client that sleeps between its own sends or reads keeps only itself waiting: that is no
//! harm, and information.

use super::host::longest_place;
use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    EXPLAINS_LEAST, LACK_OF_CPU, direct_confidence, duration_facts, has_own_scheduler,
    is_of_scheduler, make_advice, number, of_requests, of_time, rule_out, share_fact, time_fact,
};
use crate::report::finding::SLEPT_BETWEEN;
use crate::report::severity::held_up;
use crate::report::{Fact, RuleDoubt, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::requests::pace::ClientPace;
use crate::units::{count, duration, percent, ratio_of};

/// The rule `timer_wait`.
pub struct TimerWait;

const PARTS: &[RequestPart] = &[RequestPart::Timer];

impl RequestRule for TimerWait {
    fn id(&self) -> RuleId {
        RuleId::TimerWait
    }

    fn summary(&self) -> &'static str {
        "Requests wait for a timer, and no thread works on them"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let harm = case.harm(PARTS);
        if sleeps_between(case, &harm) {
            return RequestVerdict::Fires(Box::new(make_gap_finding(case, &harm)));
        }
        if case.is_claimed(RequestPart::Timer) || harm.ns == 0 || is_of_blocking_commands(case) {
            return RequestVerdict::Quiet;
        }
        if is_mostly(case.digest.pauses.sums.unasked_ns, &harm) {
            return doubt_verdict(case, &harm);
        }
        let pace = &case.digest.pauses.pace;
        let rest = harm.without(pace.sure_ns());
        let is_held_up = held_up(rest.ns, case.total_ns());
        if is_mostly(pace.sure_ns(), &harm) && !is_held_up {
            return RequestVerdict::Fires(Box::new(pace_finding(case, pace, &rest)));
        }
        match is_mostly(pace.unsure_ns, &rest) {
            false => RequestVerdict::Fires(Box::new(finding(case, &rest))),
            true if is_held_up => pace_doubt(case, pace),
            true => RequestVerdict::Quiet,
        }
    }
}

/// Servers with commands that wait for data until a time limit of the client's: BLPOP, BRPOP, XREAD BLOCK. A timer
/// delays no other response of them (<https://redis.io/docs/latest/commands/blpop/>).
const BLOCKING_SERVERS: [&str; 3] = ["redis-server", "valkey-server", "keydb-server"];

/// Returns whether a timer ends requests as their client asked for: a consumer of an empty queue.
fn is_of_blocking_commands(case: &ServiceCase<'_>) -> bool {
    case.is_server() && BLOCKING_SERVERS.contains(&case.key.name.as_str())
}

/// Returns whether `ns` is at least half of the time that requests waited for timers.
fn is_mostly(ns: u64, harm: &PartHarm) -> bool {
    ns > 0 && ns >= harm.ns.div_ceil(2)
}

/// Makes the finding: threads slept by a timer while requests waited.
fn finding(case: &ServiceCase<'_>, harm: &PartHarm) -> RequestFinding {
    let place = longest_place(case, RequestPart::Timer);
    let is_paced = is_mostly(case.digest.pauses.sums.paced_ns, harm);
    let pauses = if is_paced {
        " between parts of responses"
    } else {
        ""
    };
    let is_of_sqlite = case
        .find_function(RequestPart::Timer, &[SQLITE_SLEEP])
        .is_some();
    let holds = match is_of_sqlite {
        true => "The write lock of a SQLite database delays",
        false => "A timer delays",
    };
    let unseen = [
        has_own_scheduler(case).then_some(SCHEDULED),
        is_of_sqlite.then_some(SQLITE_HOLDER),
    ];
    RequestFinding {
        parts: PARTS.to_vec(),
        involved: name_involved(case),
        headline: format!(
            "{holds} {}: {}{pauses}{}.",
            of_requests(case),
            of_time(case, harm.ns),
            place
        ),
        facts: collect_facts(case, harm, is_paced),
        ruled_out: rule_out(case, &OTHERS),
        could_not_see: unseen.into_iter().flatten().map(str::to_owned).collect(),
        advice: match (is_of_sqlite, is_paced) {
            (true, _) => make_advice(OF_SQLITE),
            (false, true) => make_advice(PACED),
            (false, false) => make_advice(ALONE),
        },
        gain: Some("the program continues as soon as it can"),
        confidence: direct_confidence(
            case,
            format!(
                "a timer, and no event, ended waits of {}, which were measured",
                duration(harm.ns)
            ),
        ),
        ..RequestFinding::from_harm(case, harm, Remedy::Avoidable)
    }
}

/// Causes that a wait for a timer may be mistaken for.
const OTHERS: [(&str, &[RequestPart]); 4] = [
    ("computing", &[RequestPart::Cpu]),
    ("lack of CPU", LACK_OF_CPU),
    ("locks", &[RequestPart::Lock]),
    (
        "the other end",
        &[RequestPart::Remote, RequestPart::Upstream],
    ),
];

/// A client that paces itself. `rest`: what of its waits for timers is a delay all the same.
fn pace_finding(case: &ServiceCase<'_>, pace: &ClientPace, rest: &PartHarm) -> RequestFinding {
    let slept_ns = pace.sure_ns();
    let pauses = match (pace.sending_ns > 0, pace.reading_ns > 0) {
        (true, false) => "parts of its requests",
        (false, _) => "reads of its responses",
        (true, true) => "parts of its requests, and reads of its responses",
    };
    RequestFinding {
        involved: name_threads(case),
        headline: format!(
            "The client paces itself: {} sleeps {} between {pauses}{}.",
            case.title(),
            of_time(case, slept_ns),
            longest_place(case, RequestPart::Timer),
        ),
        facts: [duration_facts(case), pace_facts(pace)].concat(),
        ruled_out: rule_out(case, &OTHERS),
        could_not_see: vec![WAITS_FOR_CLIENT.to_owned()],
        advice: make_advice(OWN_PACE),
        confidence: direct_confidence(
            case,
            format!(
                "timers ended sleeps of {}, in which the thread asked for no response",
                duration(slept_ns)
            ),
        ),
        ..RequestFinding::from_harm(case, rest, Remedy::Avoidable)
    }
}

/// Returns whether a client sleeps between its requests, for much of its time. Timers within its requests that hold up come
/// first.
fn sleeps_between(case: &ServiceCase<'_>, harm: &PartHarm) -> bool {
    let gap_ns = case.digest.sleep.ns;
    let share = ratio_of(gap_ns, case.total_ns() + gap_ns);
    let is_pace = share >= EXPLAINS_LEAST && !is_of_scheduler(case, &case.digest.sleep.stacks);
    !case.is_server() && is_pace && !held_up(harm.ns, case.total_ns())
}

/// Makes the finding: a client sleeps between its requests. `harm`: its timers within them.
fn make_gap_finding(case: &ServiceCase<'_>, harm: &PartHarm) -> RequestFinding {
    let gap = &case.digest.sleep;
    let whole_ns = case.total_ns() + gap.ns;
    let share = ratio_of(gap.ns, whole_ns);
    let stacks = case.evidence.stacks(&gap.stacks);
    let place = stacks.first().map(|it| format!(", in {}", it.subject));
    let label = "of the time of requests and of these sleeps";
    let facts = vec![
        time_fact(SLEPT_BETWEEN, gap.ns, "slept between requests"),
        share_fact("slept_between_share", share, label),
        number(
            "slept_between_requests",
            gap.requests,
            "request(s) after a sleep",
        ),
        time_fact("longest_sleep_ns", gap.most_ns, "the longest sleep"),
    ];
    RequestFinding {
        parts: Vec::new(),
        headline: format!(
            "The client paces itself: {} sleeps {} of {} ({}) between its requests{}.",
            case.title(),
            duration(gap.ns),
            duration(whole_ns),
            percent(share),
            place.unwrap_or_default(),
        ),
        facts: [duration_facts(case), facts].concat(),
        could_not_see: vec![WAITS_FOR_CLIENT.to_owned()],
        advice: make_advice(OWN_PAUSES),
        confidence: direct_confidence(
            case,
            format!(
                "timers ended sleeps of {}, with no request under way",
                duration(gap.ns)
            ),
        ),
        ..RequestFinding::from_harm(case, harm, Remedy::Avoidable)
    }
}

/// Fixes of sleeps between requests.
const OWN_PAUSES: [&str; 2] = [
    "Nothing, if this pace is meant: a program that asks at an interval. Else remove the sleep: its stack, if one is shown.",
    "If the client sleeps after an error (`Retry-After`, a backoff): find why the server refuses (503, 429). whylat reads no \
     payload.",
];

/// Returns how long a client slept by its own pace.
fn pace_facts(pace: &ClientPace) -> Vec<Fact> {
    let sending = (
        "paced_sending_ns",
        pace.sending_ns,
        "slept between parts of its requests",
    );
    let reading = (
        "paced_reading_ns",
        pace.reading_ns,
        "slept between reads of its responses",
    );
    let known = [sending, reading].into_iter().filter(|it| it.1 > 0);
    known
        .map(|(name, ns, label)| time_fact(name, ns, label))
        .collect()
}

/// Facts that requests of a client do not show.
const WAITS_FOR_CLIENT: &str =
    "Whether anyone waits for this client: a user, or a peer of a connection that is not recorded.";

/// Fixes of a client's own pace.
const OWN_PACE: [&str; 1] = [
    "Nothing, if this pace is meant: a rate limit (`curl --limit-rate`), records at an interval. Else remove the sleep: its \
     stack, if one is shown.",
];

fn collect_facts(case: &ServiceCase<'_>, harm: &PartHarm, is_paced: bool) -> Vec<Fact> {
    let mut facts = duration_facts(case);
    facts.push(time_fact("timer_ns", harm.ns, "wait for timers"));
    facts.push(share_fact(
        "timer_share",
        harm.share,
        "of the time of requests",
    ));
    if is_paced {
        let label = "parts of responses that timers held";
        facts.push(number("paced_parts", case.digest.pauses.sums.paced, label));
    }
    facts.extend(pace_facts(&case.digest.pauses.pace));
    facts
}

/// Facts that threads of Go do not show.
const SCHEDULED: &str =
    "Which goroutine slept: a goroutine that waits for the lock of a sleeping one looks the same.";

/// Function of SQLite that sleeps and tries again while another connection has the lock (`btree.c`).
const SQLITE_SLEEP: &str = "sqlite3InvokeBusyHandler";

/// Facts that a sleep of SQLite does not show.
const SQLITE_HOLDER: &str =
    "Which connection had the lock: `lslocks` names its process. SQLite sleeps and tries again.";

/// Fixes where SQLite sleeps until the lock is free.
const OF_SQLITE: [&str; 3] = [
    "Find the transaction that writes for long, here or in another process. Commit before the program does something else: \
     a request to another server, a sleep, a large computation.",
    "Let one connection write, and hand all writes to it. Use `BEGIN IMMEDIATE` for transactions that will write.",
    "Readers do not wait for a writer with `PRAGMA journal_mode=WAL`. A short `busy_timeout` ends the wait with an error.",
];

/// Fixes of a timer before a response.
const ALONE: [&str; 3] = [
    "Find the code that set the timer: its stack, if one is shown. Wait for the event instead of the time.",
    "curl and libcurl wait a second for `100 Continue` before a large body: `-H 'Expect:'`, \
     `CURLOPT_EXPECT_100_TIMEOUT_MS`.",
    "A server that limits the rate of requests delays those above it: nginx `limit_req` with `burst` and without \
     `nodelay`. Raise the rate, or let it refuse them.",
];

/// Fixes of a server that sends its responses in parts.
const PACED: [&str; 2] = [
    "If the server limits its rate, raise the limit: nginx `limit_rate` and `limit_rate_after`, Apache \
        mod_ratelimit, HAProxy `bwlim-out`, Envoy's bandwidth limit.",
    "Find the code that set the timer: its stack, if one is shown. A program with a live stream must wait for \
        its data.",
];

/// Returns an undecided verdict: the server may have sent by its own plan.
fn doubt_verdict(case: &ServiceCase<'_>, harm: &PartHarm) -> RequestVerdict {
    if !held_up(harm.ns, case.total_ns()) {
        return RequestVerdict::Quiet;
    }
    let pauses = &case.digest.pauses;
    let unasked_ns = pauses.sums.unasked_ns;
    let mut facts = duration_facts(case);
    facts.push(time_fact("timer_ns", harm.ns, "wait for timers"));
    facts.push(time_fact(
        "unasked_ns",
        unasked_ns,
        "of this time: before messages that may answer no request",
    ));
    facts.push(number(
        "unasked_requests",
        pauses.unasked,
        "request(s) with such messages",
    ));
    RequestVerdict::undecided(
        format!(
            "Late responses, or messages without a request: {} of {}, {}.",
            count(pauses.unasked),
            of_requests(case),
            of_time(case, unasked_ns),
        ),
        RuleDoubt {
            candidates: vec![RuleId::TimerWait],
            concerned_ns: harm.ns,
            facts,
            why: "A ping or an event of a server looks like a response that waits for a timer.",
            would_help: Some(
                "Record for longer: after 8 events in a row, whylat knows that the connection pushes.",
            ),
        },
    )
}

/// A client sends on after several time limits.
fn pace_doubt(case: &ServiceCase<'_>, pace: &ClientPace) -> RequestVerdict {
    let mut facts = duration_facts(case);
    let label = "waited for timers between parts of its requests";
    facts.push(time_fact("unsure_ns", pace.unsure_ns, label));
    facts.extend(pace_facts(pace));
    let place = longest_place(case, RequestPart::Timer);
    RequestVerdict::undecided(
        format!(
            "{} sends each part of its requests after a timer: {}{place}. It may pace itself.",
            case.title(),
            of_time(case, pace.unsure_ns),
        ),
        RuleDoubt {
            candidates: vec![RuleId::TimerWait],
            concerned_ns: pace.unsure_ns,
            facts,
            why: "The recording does not list the descriptors of a wait. The client's connection may be one of them.",
            would_help: Some(
                "Look at the code that sets the timer: does it wait for a response until then?",
            ),
        },
    )
}

/// Names the thread that waited, and where.
fn name_involved(case: &ServiceCase<'_>) -> Vec<String> {
    let stacks = case.stacks(RequestPart::Timer).into_iter().take(2);
    let stacks = stacks.map(|it| format!("in {}: {}", it.subject, duration(it.ns)));
    name_threads(case).into_iter().chain(stacks).collect()
}

/// Names the thread that waited.
fn name_threads(case: &ServiceCase<'_>) -> Vec<String> {
    let threads = case.threads(RequestPart::Timer).into_iter().take(1);
    let threads = threads.map(|it| format!("{} waited {}", it.subject.name, duration(it.ns)));
    threads.collect()
}
