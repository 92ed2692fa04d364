//! accept() fails: the process has no free descriptor (EMFILE), and connections wait in the accept queue.

use super::rule::{ProgramVerdict, Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{make_advice, number, time_fact};
use crate::report::{
    Confidence, ConfidenceLevel, DataDirection, Fact, FindingSubject, RuleDoubt, RuleId,
};
use crate::requests::RequestPart;
use crate::requests::case::{QUEUE, ServiceCase};
use crate::requests::digests::full_tables::{ClosedConnections, FullTable, TableKey};
use crate::requests::evidence::RequestEvidence;
use crate::rows::addresses::is_at;
use crate::units::{count, duration, quantity};

/// The rule `accept_failed`.
pub struct AcceptFailed;

impl RequestRule for AcceptFailed {
    fn id(&self) -> RuleId {
        RuleId::AcceptFailed
    }

    fn summary(&self) -> &'static str {
        "accept() fails: the process has no free descriptor"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let Some((key, table)) = find_table(case) else {
            return RequestVerdict::Quiet;
        };
        let who = case.evidence.names().process(key.0).title();
        let queued = case.harm(&QUEUE);
        if table.full_ns == 0 {
            return make_doubt(&who, table, queued.ns);
        }
        // connections that nobody has accepted yet have no request that is known
        let unknown_ns = table.waited_ns.saturating_sub(queued.ns);
        let found = RequestFinding {
            parts: vec![RequestPart::Queued, RequestPart::Unread],
            harm_ns: table.waited_ns,
            whole_ns: case.total_ns() + unknown_ns,
            ..RequestFinding::new(case)
        };
        RequestVerdict::Fires(Box::new(finding(case.evidence, found, (key, table))))
    }

    fn check_programs(&self, evidence: &RequestEvidence<'_>) -> Vec<ProgramVerdict> {
        let services = evidence.services();
        let judged: Vec<TableKey> = services
            .iter()
            .filter_map(|case| Some(find_table(case)?.0))
            .collect();
        let tables = evidence.digests.full_tables.tables();
        let others = tables.filter(|(key, _)| !judged.contains(key));
        let closers = evidence.digests.full_tables.closers();
        // without calls, nothing shows that a connection was closed unread
        let closers = closers.filter(|_| evidence.has_all_calls());
        let closers =
            closers.map(|((pid, _), table, closed)| close_verdict(evidence, (pid, table), &closed));
        others
            .map(|table| verdict(evidence, table))
            .chain(closers)
            .collect()
    }
}

/// Judges a process that accepts connections without a free descriptor, and closes them at once.
fn close_verdict(
    evidence: &RequestEvidence<'_>,
    (pid, table): (u32, &FullTable),
    closed: &ClosedConnections,
) -> ProgramVerdict {
    let subject = subject(evidence, pid, table);
    let who = evidence.names().process(pid).title();
    let found = RequestFinding {
        harm_ns: closed.closing_ns,
        whole_ns: subject.lifetime_ns,
        direction: Some(DataDirection::Receiving),
        remedy: Remedy::Avoidable,
        headline: format!(
            "{who} has no free descriptor (limit {}): it accepted {} at {} and closed them unread, in {}.",
            count(table.limit.into()),
            quantity(closed.count, "connection"),
            table.local,
            duration(closed.closing_ns),
        ),
        facts: vec![
            number(
                "descriptors_most",
                table.limit.into(),
                "descriptors that the process may have (RLIMIT_NOFILE)",
            ),
            number(
                "closed_unread",
                closed.count,
                "connections closed with unread data, and nothing read from them",
            ),
            time_fact(
                "closing_ns",
                closed.closing_ns,
                "from the first of these to the last, without a free descriptor",
            ),
        ],
        could_not_see: vec![
            "Between two readings: whylat reads the descriptors once a second at most.".to_owned(),
        ],
        advice: make_advice(FIXES),
        confidence: Confidence {
            level: ConfidenceLevel::Medium,
            because: "readings show the full table, and the kernel why it reset these connections"
                .to_owned(),
        },
        ..RequestFinding::without_harm()
    };
    ProgramVerdict {
        subject,
        time: closed.time,
        verdict: RequestVerdict::Fires(Box::new(found)),
    }
}

/// Returns the subject of a finding about a listening socket.
fn subject(evidence: &RequestEvidence<'_>, pid: u32, table: &FullTable) -> FindingSubject {
    let recorded = evidence.time_range();
    FindingSubject {
        process: Some(evidence.names().process(pid)),
        local: table.local.clone(),
        remote: "*".to_owned(),
        connections: 1,
        ids: Vec::new(),
        lifetime_ns: recorded.1.saturating_sub(recorded.0),
        requests: None,
    }
}

/// Returns the process of a service that had no free descriptor for its address, and when.
fn find_table<'a>(case: &ServiceCase<'a>) -> Option<(TableKey, &'a FullTable)> {
    if !case.is_server() {
        return None;
    }
    let pids: Vec<u32> = case.pids().collect();
    let tables = case.evidence.digests.full_tables.tables();
    let own = tables
        .filter(|((pid, _), table)| pids.contains(pid) && is_at(&case.key.address, &table.local));
    own.max_by_key(|(_, table)| table.waited_ns)
}

/// Judges a process without a request that was answered.
fn verdict(evidence: &RequestEvidence<'_>, (key, table): (TableKey, &FullTable)) -> ProgramVerdict {
    let who = evidence.names().process(key.0).title();
    let subject = subject(evidence, key.0, table);
    let verdict = match table.full_ns {
        0 => make_doubt(&who, table, 0),
        harm_ns => {
            let found = RequestFinding {
                harm_ns,
                whole_ns: subject.lifetime_ns,
                direction: Some(DataDirection::Receiving),
                ..RequestFinding::without_harm()
            };
            RequestVerdict::Fires(Box::new(finding(evidence, found, (key, table))))
        }
    };
    ProgramVerdict {
        subject,
        time: table.time,
        verdict,
    }
}

/// Returns an undecided verdict: one reading has no duration.
fn make_doubt(who: &str, table: &FullTable, concerned_ns: u64) -> RequestVerdict {
    RequestVerdict::undecided(
        format!(
            "{who} had no free descriptor (limit {}) at one reading, and {} waited at {}.",
            count(table.limit.into()),
            quantity(table.most_waiting.into(), "connection"),
            table.local,
        ),
        RuleDoubt {
            candidates: vec![RuleId::AcceptFailed],
            concerned_ns,
            facts: table_facts(table),
            why: "One reading does not show how long accept() failed.",
            would_help: Some(
                "Record for longer: whylat reads the descriptors once a second at most.",
            ),
        },
    )
}

/// Completes the finding of a process without a free descriptor.
fn finding(
    evidence: &RequestEvidence<'_>,
    found: RequestFinding,
    (key, table): (TableKey, &FullTable),
) -> RequestFinding {
    let who = evidence.names().process(key.0).title();
    let has_other = evidence.digests.full_tables.has_other_acceptor(key);
    RequestFinding {
        remedy: Remedy::Avoidable,
        headline: format!(
            "accept() fails with EMFILE: {who} has no free descriptor (limit {}), and {} at {} for {}.",
            count(table.limit.into()),
            match table.most_waiting {
                1 => "a connection waited".to_owned(),
                most => format!("up to {} waited", quantity(most.into(), "connection")),
            },
            table.local,
            duration(table.full_ns),
        ),
        facts: table_facts(table),
        could_not_see: vec![
            "The calls of accept(): whylat reads the descriptors and the accept queue once a second at most.".to_owned(),
            "Which files and connections have the descriptors: `ls -l /proc/PID/fd`, `ss -tnp`.".to_owned(),
        ],
        advice: make_advice(FIXES),
        confidence: match has_other {
            false => Confidence {
                level: ConfidenceLevel::High,
                because: "the kernel gives no descriptor above the limit, and accept() needs one".to_owned(),
            },
            true => Confidence {
                level: ConfidenceLevel::Medium,
                because: "another process with free descriptors accepts at this address, too".to_owned(),
            },
        },
        ..found
    }
}

/// Returns what the readings found.
fn table_facts(table: &FullTable) -> Vec<Fact> {
    vec![
        number(
            "descriptors_most",
            table.limit.into(),
            "descriptors that the process may have (RLIMIT_NOFILE)",
        ),
        number(
            "full_readings",
            table.readings,
            "reading(s) without a free one while connections waited",
        ),
        time_fact("full_ns", table.full_ns, "time between such readings"),
        time_fact(
            "waited_ns",
            table.waited_ns,
            "wait of connections in that time, all together",
        ),
        number(
            "most_waiting",
            table.most_waiting.into(),
            "connections in the accept queue at most, when read",
        ),
    ]
}

const FIXES: [&str; 3] = [
    "Raise the limit, and restart the program: `LimitNOFILE=` of a systemd unit, `ulimit -n`, `--ulimit nofile=` of a \
     container, nginx `worker_rlimit_nofile`.",
    "If the number of descriptors only grows, find what the program does not close (`ls -l /proc/PID/fd`): connections to \
     other servers, files, bodies of responses.",
    "Close idle connections sooner (nginx `keepalive_timeout`, Node.js `server.keepAliveTimeout`), or limit how many a client \
     may open.",
];
