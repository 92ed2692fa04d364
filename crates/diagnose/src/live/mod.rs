//! The last seconds of connections, judged again and again: by the same digests, stages and rules as a recording.
//!
//! Comes in: rows as they are taken, and when polls were. Goes out: [`LiveReport`], the contract `whylat.top/1`. Memory is
//! bounded: when more rows come than are kept ([`MOST_READINGS`], [`MOST_CALLS`]), the window becomes shorter, and says
//! so; no row within it is ever left out.

mod history;
mod judge;
mod kept;
mod report;
mod services;
mod waits;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use table::manifest::{Cost, Coverage, Header, Loss};
use table::tables::{
    Calls, Connections, CpuSamples, Listeners, Process, ProcessSamples, TcpEvents, TcpSample,
    TcpSamples, TcpStage, TcpStages, Waits,
};
use table::{Columns, Stage};

pub use history::{Histories, HistoryBin, REACH_NS};
use kept::{LiveSpan, RecentRows};
pub use report::{
    AboutLive, HoldReason, LiveConnection, LiveProcess, LiveReport, LiveService, LiveSums,
    MainHold, SCHEMA,
};
use services::{Batches, JudgedServices};
pub use waits::{ObjectWaits, ProcessWaits, ThreadSample, ThreadSnapshots, WaitSource};

use crate::connections::gather::Evidence;
use crate::connections::gather::polls::PollClass;
use crate::report::Report;

/// Samples and readings of ledgers that are kept: about 30 MB.
const MOST_READINGS: usize = 100_000;
/// Calls and waits that are kept: about 40 MB.
const MOST_CALLS: usize = 400_000;

/// A poll, and the rows that came from it until the next.
#[derive(Debug, Clone, Copy)]
struct PollTime {
    time_ns: u64,
    readings: usize,
    calls: usize,
}

/// Facts of a snapshot beside its rows.
#[derive(Debug, Clone, Default)]
pub struct SnapshotInfo {
    /// `CLOCK_MONOTONIC` ns.
    pub now_ns: u64,
    /// Time until the next look, ns.
    pub interval_ns: u64,
    /// Mean time between polls, ns.
    pub poll_mean_ns: u64,
    /// Only the user's own connections.
    pub only_own: bool,
    /// State of the probes.
    pub coverage: Vec<Coverage>,
    /// Totals of the probes.
    pub loss: Vec<Loss>,
    /// Cost of the profiler so far.
    pub cost: Option<Cost>,
}

/// Rows of the last seconds.
#[derive(Debug)]
pub struct LiveWindow {
    header: Header,
    length_ns: u64,
    /// Where it began when it was last judged: what lies before is not kept any more.
    from_ns: u64,
    polls: VecDeque<PollTime>,
    kept: HashMap<u64, RecentRows>,
    histories: Histories,
    processes: HashMap<u32, Process>,
    listeners: Batches<Listeners>,
    events: Batches<TcpEvents>,
    calls: Batches<Calls>,
    waits: Batches<Waits>,
    process_samples: Batches<ProcessSamples>,
    cpu_samples: Batches<CpuSamples>,
    cost: Option<Cost>,
}

impl LiveWindow {
    /// An empty window of at most `length_ns`.
    pub fn new(header: Header, length_ns: u64) -> Self {
        Self {
            header,
            length_ns,
            from_ns: 0,
            polls: VecDeque::new(),
            kept: HashMap::new(),
            histories: Histories::default(),
            processes: HashMap::new(),
            listeners: VecDeque::new(),
            events: VecDeque::new(),
            calls: VecDeque::new(),
            waits: VecDeque::new(),
            process_samples: VecDeque::new(),
            cpu_samples: VecDeque::new(),
            cost: None,
        }
    }

    /// Returns the histories of connections: a handle that may be read while rows are added.
    pub fn histories(&self) -> Histories {
        self.histories.clone()
    }

    /// Adds the times of polls, in order; call it before the rows of these polls are added.
    pub fn add_polls(&mut self, times_ns: &[u64]) {
        let polls = times_ns.iter().map(|time_ns| PollTime {
            time_ns: *time_ns,
            readings: 0,
            calls: 0,
        });
        self.polls.extend(polls);
    }

    /// Returns the poll that brought a row of this time.
    fn poll_of(&mut self, time_ns: u64) -> Option<&mut PollTime> {
        let after = self.polls.partition_point(|poll| poll.time_ns <= time_ns);
        self.polls.get_mut(after.checked_sub(1)?)
    }

    /// Adds rows of table `connections`.
    pub fn add_connections(&mut self, rows: &Connections) {
        for index in 0..rows.len() {
            let row = rows.row(index);
            self.kept.entry(row.conn).or_default().add_identity(row);
        }
    }

    /// Adds rows of table `processes`.
    pub fn add_processes(&mut self, rows: &table::tables::Processes) {
        for index in 0..rows.len() {
            let row = rows.row(index);
            self.processes.insert(row.pid, row);
        }
    }

    /// Adds rows of table `tcp_samples`, in the order of time for each connection.
    pub fn add_samples(&mut self, rows: &TcpSamples) {
        for index in 0..rows.len() {
            let row = rows.row(index);
            if let Some(poll) = self.poll_of(row.time_ns) {
                poll.readings += 1;
            }
            let kept = self.kept.entry(row.conn).or_default();
            if let Some(earlier) = kept.sample().filter(|it| it.time_ns < row.time_ns) {
                let stage = seen_by_poll(kept, &row);
                self.histories.add(earlier, &row, stage);
            }
            kept.add_sample(row);
        }
    }

    /// Adds rows of table `tcp_stages`, in the order of time for each connection; after their samples.
    pub fn add_stages(&mut self, rows: &TcpStages) {
        for index in 0..rows.len() {
            let row = rows.row(index);
            if let Some(poll) = self.poll_of(row.time_ns) {
                poll.readings += 1;
            }
            let kept = self.kept.entry(row.conn).or_default();
            if let Some(stage) = longest_stage(kept.stage(), &row) {
                self.histories.note_stage(row.conn, stage);
            }
            kept.add_stage(row);
        }
    }

    /// Adds rows of table `calls`, each thread's in the order of time.
    pub fn add_calls(&mut self, rows: Calls) {
        let last_ns = rows.time_range_ns().map_or(0, |(_, last_ns)| last_ns);
        if let Some(poll) = self.poll_of(last_ns) {
            poll.calls += rows.len();
        }
        keep_rows(&mut self.calls, rows);
    }

    /// Adds rows of table `waits`.
    pub fn add_waits(&mut self, rows: Waits) {
        let last_ns = rows.time_range_ns().map_or(0, |(_, last_ns)| last_ns);
        if let Some(poll) = self.poll_of(last_ns) {
            poll.calls += rows.len();
        }
        keep_rows(&mut self.waits, rows);
    }

    /// Adds rows of table `tcp_events`, in the order of time for each connection.
    pub fn add_events(&mut self, rows: TcpEvents) {
        keep_rows(&mut self.events, rows);
    }

    /// Adds rows of table `listeners`, in the order of time for each socket.
    pub fn add_listeners(&mut self, rows: Listeners) {
        keep_rows(&mut self.listeners, rows);
    }

    /// Adds rows of table `process_samples`, in the order of time for each process.
    pub fn add_process_samples(&mut self, rows: ProcessSamples) {
        keep_rows(&mut self.process_samples, rows);
    }

    /// Adds rows of table `cpu_samples`, in the order of time for each CPU.
    pub fn add_cpu_samples(&mut self, rows: CpuSamples) {
        keep_rows(&mut self.cpu_samples, rows);
    }

    /// Forgets connections that are gone.
    pub fn forget_connections(&mut self, gone: &[u64]) {
        for conn in gone {
            self.kept.remove(conn);
        }
    }

    /// Judges the window as of now.
    pub fn judge_window(&mut self, now: SnapshotInfo) -> LiveReport {
        let span = self.slide_window(now.now_ns);
        let mut report = crate::diagnose(self.evidence(span, now.now_ns));
        let about = self.describe_window(span, now);
        let judged = self.judge_services(span, &about);
        report.add_findings(judged.found);
        self.live(span, about, report, judged.services)
    }

    /// Moves the window's begin by its length and the memory limit, and drops what lies before.
    fn slide_window(&mut self, now_ns: u64) -> LiveSpan {
        let earliest_ns = now_ns.saturating_sub(self.length_ns).max(self.from_ns);
        let (mut readings, mut calls) = (0, 0);
        let mut begin = self.polls.len().saturating_sub(1);
        for (index, poll) in self.polls.iter().enumerate().rev() {
            readings += poll.readings;
            calls += poll.calls;
            if poll.time_ns < earliest_ns || readings > MOST_READINGS || calls > MOST_CALLS {
                break;
            }
            begin = index;
        }
        let time_ns = |index: usize| self.polls.get(index).map_or(0, |poll| poll.time_ns);
        let span = LiveSpan {
            from_ns: time_ns(begin),
            before_ns: time_ns(begin.saturating_sub(1)),
            last_ns: time_ns(self.polls.len().saturating_sub(1)),
        };
        self.polls.drain(..begin.saturating_sub(1));
        let from_ns = span.from_ns;
        self.from_ns = from_ns;
        forget_rows(&mut self.listeners, from_ns);
        forget_rows(&mut self.events, from_ns);
        forget_rows(&mut self.calls, from_ns);
        forget_rows(&mut self.waits, from_ns);
        forget_rows(&mut self.process_samples, from_ns);
        forget_rows(&mut self.cpu_samples, from_ns);
        self.kept.retain(|_, kept| {
            kept.forget_before(from_ns);
            !kept.closed_before(from_ns)
        });
        let kept = &self.kept;
        self.histories.retain_open(|conn| kept.contains_key(&conn));
        self.forget_processes();
        span
    }

    /// Forgets processes without connections; does it only every few windows.
    fn forget_processes(&mut self) {
        const SPARE: usize = 1_000;
        if self.processes.len() <= self.kept.len() + SPARE {
            return;
        }
        let identities = self.kept.values().filter_map(|kept| kept.identity.as_ref());
        let owners: HashSet<u32> = identities.filter_map(|it| it.pid).collect();
        self.processes.retain(|pid, _| owners.contains(pid));
    }

    /// Collects what the rules judge: readings and events of this interval.
    fn evidence(&self, span: LiveSpan, now_ns: u64) -> Evidence {
        let header = Header {
            started_ns: span.from_ns,
            ..self.header.clone()
        };
        let none = (Vec::new(), Vec::new());
        let mut evidence = Evidence::new(header, none.0, none.1, None, None, Vec::new())
            .limit_to(span.from_ns, now_ns);
        evidence.latest_ns = span.last_ns;
        self.events
            .iter()
            .for_each(|(_, rows)| evidence.add_events(rows));
        for (conn, kept) in &self.kept {
            if kept.is_active(span.from_ns) || evidence.connections.get(*conn).is_some() {
                kept.add_to_digest(span, evidence.digest_mut(*conn));
            }
        }
        for process in self.processes.values() {
            evidence.processes.add(process.clone());
        }
        self.listeners
            .iter()
            .for_each(|(_, rows)| evidence.add_listeners(rows));
        self.process_samples
            .iter()
            .for_each(|(_, rows)| evidence.add_process_samples(rows));
        self.cpu_samples
            .iter()
            .for_each(|(_, rows)| evidence.add_cpu_samples(rows));
        self.calls
            .iter()
            .for_each(|(_, rows)| evidence.add_calls(rows));
        if evidence.wants_calls_again() {
            self.calls
                .iter()
                .for_each(|(_, rows)| evidence.add_calls_again(rows));
        }
        evidence
    }

    /// Describes the window: host, kernel, losses, and CPU cost since the window before.
    fn describe_window(&mut self, span: LiveSpan, now: SnapshotInfo) -> AboutLive {
        let lost = now.loss.iter().filter(|loss| loss.lost_total() > 0);
        let lost: BTreeMap<_, _> = lost
            .map(|loss| (loss.probe.clone(), loss.lost.clone()))
            .collect();
        let before = std::mem::replace(&mut self.cost, now.cost.clone());
        let cpu_share = before.zip(now.cost.as_ref()).and_then(|(before, cost)| {
            let wall_ns = cost
                .wall_ns
                .checked_sub(before.wall_ns)
                .filter(|ns| *ns > 0)?;
            Some(cost.cpu_ns.saturating_sub(before.cpu_ns) as f64 / wall_ns as f64)
        });
        let since_start_ns = now.now_ns.saturating_sub(self.header.started_ns);
        AboutLive {
            host: self.header.host.clone(),
            kernel: self.header.kernel.clone(),
            whylat: self.header.whylat.clone(),
            detail: self.header.detail.clone(),
            now_ns: now.now_ns,
            realtime_ns: self.header.started_realtime_ns + since_start_ns,
            window_ns: span.last_ns.saturating_sub(span.from_ns),
            interval_ns: now.interval_ns,
            poll_mean_ns: now.poll_mean_ns,
            only_own: now.only_own,
            filter: None,
            coverage: now.coverage,
            lost_total: lost.values().flat_map(BTreeMap::values).sum(),
            lost,
            cost: now.cost,
            cpu_share,
        }
    }

    /// Makes the report of the live view from the judged connections and services.
    fn live(
        &self,
        span: LiveSpan,
        about: AboutLive,
        report: Report,
        services: Vec<LiveService>,
    ) -> LiveReport {
        let mut connections: Vec<LiveConnection> = report
            .connections
            .into_iter()
            .map(judge::active_connection)
            .collect();
        let waited = judge::sum_waits(self.waits.iter().map(|(_, rows)| rows), span.from_ns);
        connections
            .iter_mut()
            .for_each(|it| judge::add_waits(it, &waited));
        let judged: HashSet<u64> = connections.iter().map(|it| it.id).collect();
        let identities = self
            .kept
            .values()
            .filter_map(|kept| Some((kept, kept.identity.as_ref()?)));
        for (kept, identity) in identities.filter(|(_, it)| !judged.contains(&it.conn)) {
            let owner = identity.pid.and_then(|pid| self.processes.get(&pid));
            let comm = owner.map(|process| process.comm.as_str());
            connections.push(judge::idle_connection(identity, kept.sample(), comm));
        }
        let mut processes = judge::processes(&connections);
        if about.detail == "waits" {
            let rows = self.waits.iter().map(|(_, rows)| rows);
            let waits = waits::group_by_process(rows, span.from_ns, about.window_ns);
            judge::add_process_waits(&mut processes, waits);
        }
        let mut totals = LiveSums::default();
        connections
            .iter()
            .for_each(|connection| totals.add(connection));
        LiveReport {
            schema: SCHEMA,
            services,
            about,
            totals,
            processes,
            connections,
            containers: report.containers,
            findings: report.findings,
            undecided: report.undecided,
        }
    }
}

impl LiveWindow {
    /// Judges the requests of services in the window.
    fn judge_services(&self, span: LiveSpan, about: &AboutLive) -> JudgedServices {
        let rows = services::ServiceRows {
            calls: &self.calls,
            waits: &self.waits,
            processes: &self.processes,
            coverage: &about.coverage,
        };
        let identity = |conn: u64| self.kept.get(&conn)?.identity.as_ref();
        let window = (about.window_ns, span.last_ns);
        services::judge_services(&self.header, &rows, window, identity)
    }
}

/// Keeps a batch of rows, with the time of its last row.
fn keep_rows<C: Columns>(batches: &mut Batches<C>, rows: C) {
    if let Some((_, last_ns)) = rows.time_range_ns() {
        batches.push_back((last_ns, rows));
    }
}

/// Drops batches with no row after `from_ns`.
fn forget_rows<C>(batches: &mut Batches<C>, from_ns: u64) {
    while batches
        .front()
        .is_some_and(|(last_ns, _)| *last_ns < from_ns)
    {
        batches.pop_front();
    }
}

/// Returns the stage that a poll alone shows.
fn seen_by_poll(kept: &RecentRows, sample: &TcpSample) -> Option<Stage> {
    let identity = kept.identity.as_ref();
    let nodelay = identity.and_then(|identity| identity.nodelay);
    let congestion = identity.and_then(|identity| identity.congestion.as_deref());
    let stage = crate::connections::stages::seen_by_poll(
        PollClass::from_sample(sample),
        nodelay,
        congestion,
    );
    (stage != Stage::Unknown).then_some(stage)
}

/// The stage that grew most between two readings of a ledger.
fn longest_stage(earlier: Option<&TcpStage>, later: &TcpStage) -> Option<Stage> {
    let before = earlier?.stages_ns();
    let grown = later.stages_ns().into_iter().zip(before);
    let grown = grown.map(|((stage, ns), (_, before_ns))| (ns.saturating_sub(before_ns), stage));
    let most = grown.max_by_key(|(ns, _)| *ns)?;
    (most.0 > 0).then_some(most.1)
}

#[cfg(test)]
mod tests;
