//! From a diagnosis of the last seconds to what is shown of connections and processes.

use std::collections::HashMap;

use table::tables::{Connection as Identity, TcpSample, Waits};
use table::{Columns, Stage};

use super::report::{HoldReason, LiveConnection, LiveProcess, LiveSums, MainHold};
use super::waits::ProcessWaits;
use crate::answer::Process;
use crate::report::severity::{WARNING_SHARE, severity};
use crate::report::{Connection, Receive, RuleId, StageShare, Stages};

/// Returns whether a stage limits the rate.
const fn is_limit(stage: Stage) -> bool {
    !matches!(stage, Stage::SenderApp | Stage::InFlight | Stage::Unknown)
}

/// A connection on which something happened.
pub fn active_connection(connection: Connection) -> LiveConnection {
    let life_ns = connection.lifetime_ns;
    let per_s = |bytes: Option<u64>| {
        let bytes = bytes.filter(|_| life_ns > 0)?;
        Some(bytes as f64 * 1e9 / life_ns as f64)
    };
    let harm = (connection.harm_ns, life_ns);
    let totals = &connection.totals;
    let blocked_ns = totals.send_blocked_ns.zip(totals.receive_blocked_ns);
    let blocked_share = blocked_ns
        .filter(|_| life_ns > 0)
        .map(|(send_ns, receive_ns)| (send_ns + receive_ns) as f64 / life_ns as f64);
    let receive = connection.receive.as_ref();
    let is_quiet = totals.bytes_sent == Some(0) && totals.bytes_received == Some(0);
    LiveConnection {
        id: connection.id,
        closed: connection.closed_ns.is_some(),
        idle: is_quiet && connection.findings.is_empty(),
        judged_ns: life_ns,
        held: main_hold(&connection.stages, receive),
        limited_share: limited_share(&connection.stages, receive),
        out_bytes_per_s: per_s(totals.bytes_sent),
        in_bytes_per_s: per_s(totals.bytes_received),
        srtt_us: connection.tcp.srtt_us.filter(|us| *us > 0),
        min_rtt_us: connection.tcp.min_rtt_us,
        cwnd: connection.tcp.cwnd,
        snd_wnd_bytes: connection.tcp.snd_wnd_bytes,
        nodelay: connection.tcp.nodelay,
        retransmits: totals.retransmits,
        timeouts: totals.timeouts,
        blocked_share,
        severity: (!connection.findings.is_empty()).then(|| severity(&[harm])),
        local: connection.local,
        remote: connection.remote,
        process: connection.process,
        role: connection.role,
        peer: connection.peer,
        stages: connection.stages,
        receive: connection.receive,
        not_judged: connection.not_judged,
        congestion: connection.tcp.congestion,
        findings: connection.findings,
    }
}

/// Makes the live row of a connection on which nothing happened, from its last row.
pub fn idle_connection(
    identity: &Identity,
    last: Option<&TcpSample>,
    comm: Option<&str>,
) -> LiveConnection {
    let measured = last.map(|_| 0.0);
    let known = identity.pid.is_some() || comm.is_some();
    LiveConnection {
        id: identity.conn,
        local: identity.local.clone(),
        remote: identity.remote.clone(),
        process: known.then(|| Process {
            pid: identity.pid,
            comm: comm.map(str::to_owned),
        }),
        role: identity.role,
        peer: identity.peer_conn,
        closed: identity.closed_ns.is_some(),
        idle: true,
        judged_ns: 0,
        held: None,
        limited_share: None,
        stages: Stages::default(),
        receive: None,
        not_judged: None,
        out_bytes_per_s: measured,
        in_bytes_per_s: measured,
        srtt_us: last.map(|last| last.srtt_us).filter(|us| *us > 0),
        min_rtt_us: last.and_then(|last| last.min_rtt_us),
        cwnd: last.map(|last| last.cwnd),
        snd_wnd_bytes: last.and_then(|last| last.snd_wnd_bytes),
        congestion: identity.congestion.clone(),
        nodelay: identity.nodelay,
        retransmits: last.map(|_| 0),
        timeouts: last.and_then(|last| last.total_rto).map(|_| 0),
        blocked_share: None,
        severity: None,
        findings: Vec::new(),
    }
}

/// Returns how long threads waited for each connection since `from_ns`: in calls on it, or for several descriptors
/// until it was ready.
pub fn sum_waits<'a>(batches: impl Iterator<Item = &'a Waits>, from_ns: u64) -> HashMap<u64, u64> {
    let mut waited = HashMap::new();
    for rows in batches {
        for index in 0..rows.len() {
            let conn = rows.conn[index].or(rows.ready_conn[index]);
            let since_ns = rows.start_ns[index].max(from_ns);
            let length_ns = rows.end_ns[index].saturating_sub(since_ns);
            if let Some(conn) = conn.filter(|_| length_ns > 0) {
                *waited.entry(conn).or_default() += length_ns;
            }
        }
    }
    waited
}

/// Adds the time that threads waited for the connection together with other descriptors.
pub fn add_waits(connection: &mut LiveConnection, waited: &HashMap<u64, u64>) {
    let Some(waited_ns) = waited
        .get(&connection.id)
        .filter(|_| connection.judged_ns > 0)
    else {
        return;
    };
    let share = *waited_ns as f64 / connection.judged_ns as f64;
    connection.blocked_share = Some(
        connection
            .blocked_share
            .map_or(share, |calls| calls.max(share)),
    );
}

/// Adds the waits of each process, where waits are recorded; a process without an ended wait has no row.
pub fn add_process_waits(processes: &mut [LiveProcess], mut waits: HashMap<u32, ProcessWaits>) {
    for process in processes {
        let pid = process.process.as_ref().and_then(|process| process.pid);
        process.waits = pid.and_then(|pid| waits.remove(&pid));
    }
}

/// Returns the limit with the largest share, if that matters; else the largest share.
fn main_hold(stages: &Stages, receive: Option<&Receive>) -> Option<MainHold> {
    let largest = |of: fn(Stage) -> bool| {
        let found = stages.iter().filter(|(stage, _)| of(*stage));
        let found = found.max_by(|a, b| a.1.share.total_cmp(&b.1.share));
        found.map(|(stage, share)| MainHold {
            by: HoldReason::Stage(stage),
            share: share.share,
        })
    };
    let limit = largest(is_limit).filter(|held| held.share > WARNING_SHARE);
    let receiving = || {
        let receive = receive?;
        let slow = receive.reader_slow.share > WARNING_SHARE;
        Some(match slow {
            true => MainHold {
                by: HoldReason::ReaderSlow,
                share: receive.reader_slow.share,
            },
            false => MainHold {
                by: HoldReason::WaitingForPeer,
                share: receive.waiting_for_peer.share,
            },
        })
    };
    let late = || receiving().filter(|held| held.by == HoldReason::ReaderSlow);
    limit
        .or_else(late)
        .or_else(|| largest(|_| true))
        .or_else(receiving)
}

/// Returns the share of time that any stage limited the connection; None if it was not judged.
fn limited_share(stages: &Stages, receive: Option<&Receive>) -> Option<f64> {
    if stages.is_empty() {
        return receive.map(|receive| receive.reader_slow.share);
    }
    let limits = stages.iter().filter(|(stage, _)| is_limit(*stage));
    let sum: f64 = limits.map(|(_, share)| share.share).sum();
    // rounding apart
    Some(sum.min(1.0))
}

/// The connections of each process, put together.
pub fn processes(connections: &[LiveConnection]) -> Vec<LiveProcess> {
    let mut places = HashMap::<Option<&Process>, usize>::new();
    let mut groups: Vec<ProcessGroup> = Vec::new();
    for connection in connections {
        let place = *places
            .entry(connection.process.as_ref())
            .or_insert_with(|| {
                groups.push(ProcessGroup::default());
                groups.len() - 1
            });
        groups[place].add(connection);
    }
    groups.into_iter().map(ProcessGroup::finish).collect()
}

#[derive(Default)]
struct ProcessGroup<'a> {
    process: Option<&'a Process>,
    sums: LiveSums,
    stages: Stages,
    /// Judged time of those that sent, ns.
    sent_ns: u64,
    /// Judged and late time of those that only receive.
    received_ns: (u64, u64),
    srtt_us: Option<u32>,
    blocked_share: Option<f64>,
    severity: Option<crate::report::Severity>,
    findings: std::collections::BTreeSet<RuleId>,
}

impl<'a> ProcessGroup<'a> {
    /// Adds one connection to the sums of its process.
    fn add(&mut self, connection: &'a LiveConnection) {
        self.process = connection.process.as_ref();
        self.sums.add(connection);
        self.srtt_us = self.srtt_us.max(connection.srtt_us);
        self.severity = self.severity.max(connection.severity);
        self.findings.extend(&connection.findings);
        if let Some(share) = connection.blocked_share {
            *self.blocked_share.get_or_insert(0.0) += share;
        }
        if connection.stages.is_empty() {
            if let Some(receive) = &connection.receive {
                self.received_ns.0 += connection.judged_ns;
                self.received_ns.1 += receive.reader_slow.ns;
            }
            return;
        }
        self.sent_ns += connection.judged_ns;
        for (stage, share) in connection.stages.iter() {
            let before = self.stages.get(stage);
            let sum = StageShare {
                ns: share.ns + before.map_or(0, |before| before.ns),
                bound: share.bound.max(before.map_or(0.0, |before| before.bound)),
                ..*share
            };
            self.stages.set(stage, sum);
        }
    }

    /// Turns sums of time into shares, and names what holds the process most.
    fn finish(mut self) -> LiveProcess {
        for stage in Stage::ALL {
            if let Some(sum) = self.stages.get(*stage).copied() {
                let share = sum.ns as f64 / self.sent_ns.max(1) as f64;
                self.stages.set(*stage, StageShare { share, ..sum });
            }
        }
        let (judged_ns, late_ns) = self.received_ns;
        let late_share = (judged_ns > 0).then(|| late_ns as f64 / judged_ns as f64);
        let is_late = late_share.is_some_and(|share| share > WARNING_SHARE);
        let late = late_share
            .filter(|_| is_late || self.stages.is_empty())
            .map(|share| MainHold {
                by: if is_late {
                    HoldReason::ReaderSlow
                } else {
                    HoldReason::WaitingForPeer
                },
                share: if is_late { share } else { 1.0 - share },
            });
        let sending = main_hold(&self.stages, None);
        let braked =
            sending.filter(|held| matches!(held.by, HoldReason::Stage(stage) if is_limit(stage)));
        let limited = limited_share(&self.stages, None);
        LiveProcess {
            process: self.process.cloned(),
            sums: self.sums,
            held: braked.or(late).or(sending),
            limited_share: limited.into_iter().chain(late_share).reduce(f64::max),
            stages: self.stages,
            srtt_us: self.srtt_us,
            blocked_share: self.blocked_share,
            severity: self.severity,
            findings: self.findings.len() as u64,
            waits: None,
        }
    }
}
