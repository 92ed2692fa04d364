//! Services in the last seconds: the engine of requests over the calls and waits that the window holds, from the latest
//! backward, as many as are worth a moment of each snapshot.

use std::collections::{HashMap, HashSet};

use std::collections::VecDeque;
use table::Columns;

use table::manifest::{Coverage, Header};
use table::tables::{Calls, Connection, Connections, Process, Processes, Waits};

use super::report::LiveService;
use crate::answer::RecordingState;
use crate::requests::digests::DigestSet;
use crate::requests::{RequestFilter, RequestFindings, RequestTable};
use crate::waits::NameTable;

/// Batches of a table, with the time of the last row of each.
pub(super) type Batches<C> = VecDeque<(u64, C)>;

/// Rows that are judged at each snapshot: some ten milliseconds of one CPU.
const MOST_ROWS: usize = 50_000;

/// Rows of a window that requests come from.
pub(super) struct ServiceRows<'a> {
    pub(super) calls: &'a Batches<Calls>,
    pub(super) waits: &'a Batches<Waits>,
    pub(super) processes: &'a HashMap<u32, Process>,
    pub(super) coverage: &'a [Coverage],
}

/// Services of the last seconds, and what rules on requests find of them.
#[derive(Default)]
pub(super) struct JudgedServices {
    /// Those with the most time first.
    pub(super) services: Vec<LiveService>,
    pub(super) found: RequestFindings,
}

/// Judges the services of the last seconds. `until_ns`: the latest poll.
pub(super) fn judge_services<'a>(
    header: &Header,
    rows: &ServiceRows<'_>,
    (window_ns, until_ns): (u64, u64),
    identity: impl Fn(u64) -> Option<&'a Connection>,
) -> JudgedServices {
    let from_ns = worth_judging(rows, until_ns.saturating_sub(window_ns));
    let calls = rows_since(rows.calls, from_ns, |rows| &rows.end_ns);
    let waits = rows_since(rows.waits, from_ns, |rows| &rows.end_ns);
    if calls.is_empty() {
        return JudgedServices::default();
    }
    let names = connection_names(&calls, rows.processes, identity);
    let header = Header {
        started_ns: from_ns,
        ..header.clone()
    };
    // Rows of other tables are not kept: rules that need them find nothing here.
    let digests = DigestSet::new(&header, &names);
    let filter = RequestFilter::default();
    let manifest = (rows.coverage, &[][..]);
    let mut table = RequestTable::new(header, names, manifest, (filter, 0));
    table.begin_rows();
    table.add_waits(Some(&waits));
    table.add_calls(Some(&calls));
    table.add_waits(None);
    table.add_calls(None);
    table.add_preemptions(None);
    table.add_on_cpu_samples(None);
    table.finish();
    let found = table.judge_requests(&digests);
    let report = table.report(RecordingState::default());
    let seconds = until_ns.saturating_sub(from_ns) as f64 / 1e9;
    let services = report.services.into_iter();
    JudgedServices {
        services: services.map(|it| LiveService::new(it, seconds)).collect(),
        found,
    }
}

/// Returns when the rows begin that are judged: at `from_ns`, or later if these are too many.
fn worth_judging(rows: &ServiceRows<'_>, from_ns: u64) -> u64 {
    let calls = rows.calls.iter().flat_map(|(_, rows)| &rows.end_ns);
    let waits = rows.waits.iter().flat_map(|(_, rows)| &rows.end_ns);
    let ends = calls.chain(waits).copied();
    let mut ends: Vec<u64> = ends.filter(|ns| *ns >= from_ns).collect();
    match ends.len().checked_sub(MOST_ROWS) {
        None | Some(0) => from_ns,
        Some(more) => *ends.select_nth_unstable(more).1,
    }
}

/// Returns the rows that ended since.
fn rows_since<C: Columns>(
    batches: &Batches<C>,
    from_ns: u64,
    ends_ns: impl Fn(&C) -> &Vec<u64>,
) -> C {
    let mut kept = C::default();
    for (_, rows) in batches.iter().filter(|(ns, _)| *ns >= from_ns) {
        let ends = ends_ns(rows).iter().enumerate();
        let recent = ends.filter(|(_, ns)| **ns >= from_ns);
        recent.for_each(|(row, _)| kept.push(rows.row(row)));
    }
    kept
}

/// Returns the names of the connections that these calls are on.
fn connection_names<'a>(
    calls: &Calls,
    known: &HashMap<u32, Process>,
    identity: impl Fn(u64) -> Option<&'a Connection>,
) -> std::rc::Rc<NameTable> {
    let conns: HashSet<u64> = calls.conn.iter().copied().collect();
    let mut connections = Connections::default();
    for row in conns.into_iter().filter_map(identity) {
        connections.push(row.clone());
    }
    let mut processes = Processes::default();
    let pids: HashSet<u32> = connections.pid.iter().copied().flatten().collect();
    for process in pids.into_iter().filter_map(|pid| known.get(&pid)) {
        processes.push(process.clone());
    }
    let mut names = NameTable::default();
    names.add_connections(&connections);
    names.add_processes(&processes);
    names.complete()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use table::row_of;

    use super::*;

    const MS: u64 = 1_000_000;

    fn header() -> Result<Header, serde_json::Error> {
        serde_json::from_value(json!({
            "format": 1, "whylat": "", "host": "", "boot_id": "", "kernel": "", "cpus": 1,
            "clocksource": "", "detail": "calls", "arguments": [], "started_ns": 0,
            "started_realtime_ns": 0, "jiffy_ns": null,
        }))
    }

    fn server() -> Result<Connection, serde_json::Error> {
        row_of(json!({
            "conn": 1, "time_ns": 0, "netns": 1, "local": "10.0.0.1:80", "remote": "10.0.0.2:50000",
            "role": "server", "chosen": "target", "pid": 7,
        }))
    }

    /// Makes ten requests, one each 100 ms, each answered after `length_ns`.
    fn calls(length_ns: u64) -> Result<Calls, serde_json::Error> {
        let mut calls = Calls::default();
        for turn in 0..10_u64 {
            for is_send in [false, true] {
                let answered_ns = if is_send { length_ns } else { 0 };
                calls.push(row_of(json!({
                    "conn": 1, "end_ns": (turn * 100 + 50) * MS + answered_ns,
                    "is_send": is_send, "result": 10, "offset_end": (turn + 1) * 10, "flags": 0,
                    "unread_ns": if is_send { None } else { Some(0) }, "tid": 7, "pid": 7, "cpu": 0,
                }))?);
            }
        }
        Ok(calls)
    }

    /// Judges these calls and waits of one server, in a window of this length.
    fn found(
        calls: &Calls,
        waits: Waits,
        window_ns: u64,
    ) -> Result<JudgedServices, serde_json::Error> {
        let identity = server()?;
        let rows = ServiceRows {
            calls: &Batches::from([(1_000 * MS, calls.clone())]),
            waits: &Batches::from([(1_000 * MS, waits)]),
            processes: &HashMap::new(),
            coverage: &[],
        };
        let span = (window_ns, 1_000 * MS);
        Ok(judge_services(&header()?, &rows, span, |_| Some(&identity)))
    }

    #[test]
    fn requests_of_the_last_seconds_have_a_rate() -> Result<(), Box<dyn std::error::Error>> {
        let calls = calls(MS)?;
        let judged = found(&calls, Waits::default(), 1_000 * MS)?;
        let [all] = &judged.services[..] else {
            return Err("one service".into());
        };
        assert_eq!((all.requests, all.requests_per_s), (10, Some(10.0)));
        assert_eq!((all.p50_ns, all.p99_ns), (MS, MS));
        assert!(judged.found.findings.is_empty());
        // Half of the time: half of the requests, as many a second.
        let mut half = found(&calls, Waits::default(), 500 * MS)?;
        let half = half.services.pop().ok_or("one service")?;
        assert_eq!((half.requests, half.requests_per_s), (5, Some(10.0)));
        Ok(())
    }

    #[test]
    fn requests_that_sleep_are_a_finding() -> Result<(), Box<dyn std::error::Error>> {
        let mut waits = Waits::default();
        for turn in 0..10_u64 {
            let begin_ns = (turn * 100 + 50) * MS;
            waits.push(row_of(json!({
                "start_ns": begin_ns + MS, "woken_ns": begin_ns + 39 * MS, "end_ns": begin_ns + 39 * MS,
                "tid": 7, "pid": 7, "kind": "sleep", "waker": "interrupt", "uninterruptible": false,
                "cpu": 0,
            }))?);
        }
        let judged = found(&calls(40 * MS)?, waits, 1_000 * MS)?;
        let findings = judged.found.findings.iter();
        let findings: Vec<_> = findings.map(|it| (it.rule.name(), it.harm_ns)).collect();
        assert_eq!(findings, [("timer_wait", 380 * MS)]);
        Ok(())
    }
}
