//! Requests on their way to a report: rows in the order of time, and what is kept of them.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use table::manifest::{Coverage, Header, Loss, ProbeState};
use table::tables::{TcpSamples, TcpStages};

use super::accountant::Accountant;
use super::class::ConnectionClass;
use super::endpoint::EndpointTable;
use super::functions::{FunctionTable, ThreadSample};
use super::history::{History, Target, ThreadEventKind, ThreadPreemption, ThreadWait};
use super::id::{EndpointId, ServiceId, ThreadId};
use super::listing::{Listing, RequestFilter};
use super::loop_pool::FreeConnections;
use super::path_finder::HopCredit;
use super::resets::LostRequest;
use super::runs::ThreadRun;
use super::service::ServiceTable;
use super::stages::StageTable;
use super::turns::Turns;
use crate::rows::in_order::InOrder;
use crate::rows::windows::WindowTimes;
use crate::waits::{KernelPurpose, NameTable, StackPurpose};

/// Rows that are held back to be put in order: more than come from both tables between two drains of the kernel's buffers.
pub(super) const ROWS_KEPT: usize = 1 << 16;

/// Probes that requests are found by.
pub(super) const INPUTS: [&str; 3] = ["calls", "waits", "preemptions"];
/// Connections that are kept after their end: their last rows may come late, and a socket that is closed may have data.
pub(super) const CLOSED_KEPT: usize = 4_096;

/// Requests that are remembered while they may wait for a response, at least.
pub(super) const WAITING_LEAST: usize = 4_096;

/// Of so many rows of waits, one may be lost before times without rows count as unknown: `unknown` is to be 2 % at most.
pub(super) const LOST_OF: u64 = 50;

/// A table that takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `waits`.
    Waits,
    /// `calls`.
    Calls,
    /// `preemptions`.
    Preemptions,
    /// `on_cpu_samples`.
    Samples,
}

pub(super) const SOURCES: [Source; 4] = [
    Source::Waits,
    Source::Calls,
    Source::Preemptions,
    Source::Samples,
];

/// A row, as far as it matters.
#[derive(Debug)]
pub(super) enum Row {
    Wait {
        thread: ThreadId,
        wait: ThreadWait,
    },
    Preemption {
        thread: ThreadId,
        preemption: ThreadPreemption,
    },
    Sample {
        thread: ThreadId,
        sample: ThreadSample,
    },
    Call {
        endpoint: EndpointId,
        thread: ThreadId,
        is_send: bool,
        start_ns: Option<u64>,
        unread_ns: Option<u64>,
        tcp_ns: Option<u64>,
        bytes: u64,
        offset_end: u64,
    },
}

/// Time, and what decides between equal times: of these, waits come before calls that they may be within.
pub(super) type RowKey = (u64, u64);

/// Requests on their way to a report.
#[derive(Debug)]
pub struct RequestTable {
    pub(super) header: Header,
    pub(super) names: Rc<NameTable>,
    pub(super) has_waits: bool,
    /// Few rows of waits were lost.
    pub(super) is_whole: bool,
    /// The same of calls.
    pub(super) has_most_calls: bool,
    pub(super) has_preemptions: bool,
    pub(super) has_drops: bool,
    pub(super) is_lossless: bool,
    pub(super) has_calls: bool,
    /// Records that were lost, by probe.
    pub(super) lost: Vec<(String, u64)>,
    pub(super) services: ServiceTable,
    pub(super) endpoints: EndpointTable,
    pub(super) stages: StageTable,
    pub(super) history: History,
    pub(super) functions: FunctionTable,
    pub(super) turns: Vec<Option<Box<Turns>>>,
    pub(super) classes: HashMap<(ServiceId, ConnectionClass), u64>,
    /// Requests of a thread that follow each other until now, and when the last one ended.
    pub(super) runs: HashMap<(ServiceId, ThreadId), ThreadRun>,
    pub(super) free: FreeConnections,
    pub(super) broken: u64,
    pub(super) unanswered: u64,
    /// Requests that wait for a response, by their beginnings, and some that do not any more.
    pub(super) waiting: VecDeque<(u64, EndpointId)>,
    /// So many of these may be kept before some are forgotten.
    pub(super) waiting_most: usize,
    pub(super) closings: Vec<(u64, EndpointId)>,
    /// Transfers that a RST ended without a FIN: whether their programs knew is open until all calls are known.
    pub(super) reset_transfers: Vec<(EndpointId, ThreadId, LostRequest)>,
    /// When processes began with ids that others had, the first one last.
    pub(super) reused: Vec<(u64, u32)>,
    pub(super) closed: usize,
    /// The latest that were closed, and those that are over.
    pub(super) ending: VecDeque<EndpointId>,
    pub(super) over: Vec<bool>,
    pub(super) unfinished: u64,
    pub(super) excluded: u64,
    pub(super) purposes: HashMap<u32, StackPurpose>,
    pub(super) kernel_purposes: HashMap<u32, KernelPurpose>,
    pub(super) rows: InOrder<RowKey, Row>,
    pub(super) reached_ns: [Option<u64>; SOURCES.len()],
    pub(super) latest_ns: u64,
    /// Windows that rows are of; none: of all the time.
    pub(super) windows: WindowTimes,
    /// So many have begun.
    pub(super) windows_begun: usize,
    pub(super) accountant: Accountant,
    pub(super) credit: HopCredit,
    pub(super) listing: Listing,
}

impl RequestTable {
    /// Makes an empty table of requests; `names` are complete, and the filter's `limit` is the
    /// number of listed requests.
    pub fn new(
        header: Header,
        names: Rc<NameTable>,
        (coverage, loss): (&[Coverage], &[Loss]),
        (filter, limit): (RequestFilter, usize),
    ) -> Self {
        let mut services = ServiceTable::default();
        let endpoints = EndpointTable::new(&names, filter.object.as_deref(), &mut services);
        let is_off = |it: &Coverage| matches!(it.state, ProbeState::Off { .. });
        let lost = |probe: &str| loss.iter().find(|it| it.probe == probe);
        let is_few =
            |probe: &str| lost(probe).is_none_or(|it| it.lost_total() * LOST_OF <= it.produced);
        let is_on = |probe: &str| coverage.iter().any(|it| it.probe == probe && !is_off(it));
        Self {
            latest_ns: header.started_ns,
            reset_transfers: Vec::new(),
            listing: Listing::new(filter, limit, header.started_ns),
            is_whole: is_few("waits"),
            has_most_calls: is_few("calls"),
            is_lossless: lost("calls").is_none_or(|it| it.lost_total() == 0),
            has_calls: is_on("calls"),
            has_waits: is_on("waits"),
            has_preemptions: is_on("preemptions"),
            has_drops: is_on("drops"),
            lost: loss
                .iter()
                .map(|it| (it.probe.clone(), it.lost_total()))
                .filter(|(probe, lost)| *lost > 0 && INPUTS.contains(&probe.as_str()))
                .collect(),
            services,
            turns: (0..endpoints.len()).map(|_| None).collect(),
            closings: endpoints.closed_endpoints(),
            reused: names.reused_pids(),
            names,
            ending: VecDeque::new(),
            over: vec![false; endpoints.len()],
            unfinished: 0,
            excluded: 0,
            endpoints,
            stages: StageTable::new(header.is_capture()),
            header,
            history: History::default(),
            functions: FunctionTable::default(),
            classes: HashMap::new(),
            runs: HashMap::new(),
            free: FreeConnections::default(),
            broken: 0,
            unanswered: 0,
            waiting: VecDeque::new(),
            waiting_most: WAITING_LEAST,
            closed: 0,
            purposes: HashMap::new(),
            kernel_purposes: HashMap::new(),
            rows: InOrder::new(ROWS_KEPT),
            reached_ns: [Some(0); SOURCES.len()],
            windows: WindowTimes::default(),
            windows_begun: 0,
            accountant: Accountant::default(),
            credit: HopCredit::default(),
        }
    }

    /// Keeps every request for [`RequestTable::take_over`].
    #[must_use]
    pub fn keeping_all(mut self) -> Self {
        self.listing.keep_all();
        self
    }

    /// Makes the table keep the rows that a page shows, for [`RequestTable::page`].
    #[must_use]
    pub fn keeping_page(mut self) -> Self {
        self.listing.keep_page();
        self
    }

    /// Adds rows of table `tcp_samples`, before all others.
    pub fn add_samples(&mut self, rows: &TcpSamples) {
        self.endpoints.add_samples(rows);
    }

    /// Adds readings of the ledgers; call it before calls and waits are added.
    pub fn add_stages(&mut self, rows: &TcpStages) {
        self.stages.add(rows, &mut self.endpoints);
    }

    /// Sorts the readings of ledgers; calls and waits follow.
    pub fn begin_rows(&mut self) {
        self.stages.finish();
    }

    /// Adds a row, in the order of time over all tables.
    pub(super) fn pass(&mut self, end_ns: u64, row: Row) {
        self.begin_windows(end_ns);
        self.latest_ns = self.latest_ns.max(end_ns);
        self.close_until(end_ns);
        self.replace_processes(end_ns);
        match row {
            Row::Wait { thread, wait } => {
                if let Target::Connection(endpoint) = wait.target {
                    let endpoint = self.endpoints.get_mut(endpoint);
                    endpoint.woken = Some((wait.woken_ns, wait.waker_thread));
                    if wait.purpose == StackPurpose::Handshake {
                        endpoint.handshake_ns = wait.woken_ns;
                    }
                }
                let horizon_ns = self.horizon_ns(end_ns);
                let event = ThreadEventKind::Wait(wait);
                self.history.add(thread, end_ns, event, horizon_ns);
            }
            Row::Preemption { thread, preemption } => {
                let horizon_ns = self.horizon_ns(end_ns);
                let event = ThreadEventKind::Preemption(preemption);
                self.history.add(thread, end_ns, event, horizon_ns);
            }
            Row::Sample { thread, sample } => {
                let horizon_ns = self.horizon_ns(end_ns);
                self.history.add_sample(thread, sample, horizon_ns);
            }
            Row::Call { .. } => self.take_call(end_ns, row),
        }
    }

    /// Forgets the threads of processes that ended, if others have their ids since.
    pub(super) fn replace_processes(&mut self, now_ns: u64) {
        while let Some((since_ns, pid)) = self.reused.last().copied()
            && since_ns < now_ns
        {
            self.reused.pop();
            self.history.replace_process(pid, since_ns);
        }
    }

    /// Ends the exchanges of connections that were closed by then.
    pub(super) fn close_until(&mut self, now_ns: u64) {
        while let Some((closed_ns, endpoint)) = self.closings.get(self.closed).copied()
            && closed_ns < now_ns
        {
            self.closed += 1;
            self.ending.push_back(endpoint);
            if self.ending.len() > CLOSED_KEPT
                && let Some(endpoint) = self.ending.pop_front()
            {
                self.finish_connection(endpoint);
            }
        }
    }

    /// Returns when the oldest request began that waits for a response: nothing before that is needed any more.
    pub(super) fn horizon_ns(&mut self, now_ns: u64) -> u64 {
        while let Some((begin_ns, endpoint)) = self.waiting.front() {
            let turns = self.turns[endpoint.index()].as_ref();
            let since = turns.and_then(|turns| turns.tracker.waits_since());
            let closed_ns = self.endpoints.get(*endpoint).closed_ns;
            if since == Some(*begin_ns) && closed_ns.is_none_or(|ns| ns >= now_ns) {
                return *begin_ns;
            }
            self.waiting.pop_front();
        }
        now_ns
    }

    /// Ends all open requests; no more rows follow.
    pub fn finish(&mut self) {
        let mut rows = std::mem::replace(&mut self.rows, InOrder::new(ROWS_KEPT));
        rows.finish().for_each(|(key, row)| self.pass(key.0, row));
        for id in self.endpoints.ids() {
            self.finish_connection(id);
        }
        self.count_reset_transfers();
    }
}
