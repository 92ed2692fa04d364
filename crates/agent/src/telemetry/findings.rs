//! An interval → findings: which problem held which program, for how long. The bands of severity are those of every finding.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use diagnose::report::{Severity, severity};
use otlp::FindingRecord;
use otlp::attribute::attribute;
use table::Columns;
use table::fleet::{FleetConnection, FleetInterval};

use super::names;
use crate::problems::{ConnectionProblem, PROBLEMS};
use crate::{ContainerIdentity, Interval};

/// Findings of an interval, at most: those that cost most. More than these nobody reads.
const FINDINGS_MOST: usize = 100;

/// A connection without a row for so long is gone: an open one has a row every hour.
const FORGOTTEN_AFTER_NS: i64 = 2 * 3_600_000_000_000;

/// Facts about a connection that findings have.
#[derive(Debug, Clone)]
struct KnownConnection {
    application: Option<String>,
    process: Option<String>,
    pid: Option<i32>,
    container: Option<Arc<ContainerIdentity>>,
    local: String,
    peer: String,
    heard_ns: i64,
}

/// Makes findings, and remembers the owners of connections.
#[derive(Debug, Default)]
pub(super) struct FindingSource {
    known: HashMap<i64, KnownConnection>,
}

/// Connections of one program with one problem.
#[derive(Default)]
struct ProblemGroup {
    /// Time with the problem and time watched of each connection, ns.
    members: Vec<(u64, u64)>,
    /// The connection with the most of it.
    worst: Option<(u64, i64)>,
}

impl FindingSource {
    /// Returns the findings of an interval, and the number of those left out.
    pub(super) fn records(
        &mut self,
        interval: &Interval,
        times_ns: (u64, u64),
    ) -> (Vec<FindingRecord>, u64) {
        self.take_connections(interval);
        let mut groups: BTreeMap<(Option<&str>, usize), ProblemGroup> = BTreeMap::new();
        for index in 0..interval.intervals.len() {
            let row = interval.intervals.row(index);
            let service = self.service(row.conn_id);
            for (number, problem) in PROBLEMS.iter().enumerate() {
                // what is not measured is no member
                if let Some(time_us) = (problem.time_us)(&row) {
                    let group = groups.entry((service, number)).or_default();
                    group.add(&row, ns(time_us));
                }
            }
        }
        let mut found: Vec<_> = groups
            .into_iter()
            .filter_map(|((service, number), group)| {
                let record = self.record(service, &PROBLEMS[number], &group)?;
                Some((group.harm_ns(), record))
            })
            .collect();
        found.sort_by_key(|(harm_ns, _)| std::cmp::Reverse(*harm_ns));
        let left_out = found.len().saturating_sub(FINDINGS_MOST) as u64;
        let records = found.into_iter().take(FINDINGS_MOST);
        let records = records.map(|(_, record)| FindingRecord { times_ns, ..record });
        (records.collect(), left_out)
    }

    /// Takes the connections of an interval, and forgets those not heard of for long.
    fn take_connections(&mut self, interval: &Interval) {
        let since_ns = interval.begin_ns.saturating_sub(FORGOTTEN_AFTER_NS);
        self.known.retain(|_, it| it.heard_ns >= since_ns);
        for index in 0..interval.connections.len() {
            let row = interval.connections.row(index);
            let container = interval.containers.get(&row.conn_id).cloned();
            let (conn_id, known) = (row.conn_id, KnownConnection::new(row, container));
            self.known.insert(conn_id, known);
        }
    }

    /// Returns the application of a connection, or the name of its process.
    fn service(&self, conn_id: i64) -> Option<&str> {
        let known = self.known.get(&conn_id)?;
        known.application.as_deref().or(known.process.as_deref())
    }

    /// Returns the finding of a group; `None`: it is information at most.
    fn record(
        &self,
        service: Option<&str>,
        problem: &ConnectionProblem,
        group: &ProblemGroup,
    ) -> Option<FindingRecord> {
        let severity = severity::severity(&group.members);
        if severity == Severity::Info {
            return None;
        }
        let (harm_ns, watched_ns) = (group.harm_ns(), group.watched_ns());
        let share = harm_ns as f64 / watched_ns.max(1) as f64;
        let connections = group.members.iter().filter(|it| it.0 > 0).count() as u64;
        let mut attributes = vec![
            attribute("whylat.problem", problem.name),
            attribute("whylat.finding.harm_ns", harm_ns),
            attribute("whylat.finding.share", share),
            attribute("whylat.connections", connections),
        ];
        let worst = group
            .worst
            .and_then(|(_, conn_id)| self.known.get(&conn_id));
        if let Some(worst) = worst {
            attributes.push(attribute("whylat.local", worst.local.as_str()));
            attributes.push(attribute("whylat.remote", worst.peer.as_str()));
            let pid = worst.pid.and_then(|pid| u32::try_from(pid).ok());
            attributes.extend(pid.map(|pid| attribute("process.pid", pid)));
            let container = worst.container.as_deref();
            attributes.extend(container.into_iter().flat_map(names::container_attributes));
            if let Some(process) = worst.process.as_deref() {
                attributes.push(attribute("process.executable.name", process));
                let next = format!("sudo whylat record --comm '{process}' -d 30");
                attributes.push(attribute("whylat.finding.next", next));
            }
        }
        Some(FindingRecord {
            service: service.map(str::to_owned),
            times_ns: (0, 0),
            severity,
            rule: problem.rule,
            headline: format!(
                "{} — {:.2} s of {:.2} s of its connections ({:.1} %).",
                problem.sentence(),
                harm_ns as f64 / 1e9,
                watched_ns as f64 / 1e9,
                share * 100.0
            ),
            attributes,
        })
    }
}

impl KnownConnection {
    /// Keeps what a finding says of a connection.
    fn new(row: FleetConnection, container: Option<Arc<ContainerIdentity>>) -> Self {
        let address = |address: &str, port: i32| match address.contains(':') {
            true => format!("[{address}]:{port}"),
            false => format!("{address}:{port}"),
        };
        Self {
            local: address(&row.local_address, row.local_port),
            peer: address(&row.peer_address, row.peer_port),
            application: row.app,
            process: row.process,
            pid: row.pid,
            container,
            // one that has closed has had its last row
            heard_ns: row.closed_ns.map_or(row.time_ns, |_| i64::MIN),
        }
    }
}

impl ProblemGroup {
    /// Adds a connection's interval with this harm.
    fn add(&mut self, row: &FleetInterval, harm_ns: u64) {
        self.members.push((harm_ns, ns(row.length_us)));
        if self.worst.is_none_or(|(most_ns, _)| harm_ns > most_ns) {
            self.worst = Some((harm_ns, row.conn_id));
        }
    }

    /// Returns the harm of all connections.
    fn harm_ns(&self) -> u64 {
        self.members.iter().map(|it| it.0).sum()
    }

    /// Returns the watched time of all connections.
    fn watched_ns(&self) -> u64 {
        self.members.iter().map(|it| it.1).sum()
    }
}

/// Returns microseconds as nanoseconds; a negative number as 0.
fn ns(us: i64) -> u64 {
    us.max(0).cast_unsigned() * 1_000
}
