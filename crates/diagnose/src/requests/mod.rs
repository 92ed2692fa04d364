//! Requests: rows of the tables `calls`, `waits` and `preemptions` in, side by side in the order of time; out, where each request's time
//! went ([`RequestReport`]). What is kept grows with the connections, the services, the threads and the longest request, not
//! with the requests.
//!
//! ```text
//! endpoint  connections: which end serves, which is the other end
//! arrival   when the bytes were there that a receive call took
//! turns     calls of a connection → exchanges, by turn-taking
//! class     whether its ends take turns
//! datagrams the same by datagrams
//! intake    rows of the tables, in the order of time
//! history   what threads did lately
//! holder    what the thread that held a lock waited for
//! owner     which request a thread had to do with, of several at once
//! path      backward over waits and wakers: the critical path
//! cause     the cause of a wait on it
//! trail     steps without gap or overlap, and their sums
//! budget    an exchange → its steps
//! stages    what TCP held back meanwhile
//! functions what threads ran meanwhile
//! part      the parts that a request's time is made of
//! exchanges calls → exchanges → requests, by connection
//! tally     a request → the sums of its service
//! service   requests of one process and address
//! contrast  what distinguishes the slowest of a service
//! subjects  who took the time of a service's requests
//! pool      waits for a connection, before requests
//! series    how its requests follow each other
//! runs      requests in series, and what they spend on the path
//! repeats   requests with datagrams that were repeated
//! resets    requests that a reset answered
//! blockers  its long ones, and what waits behind them
//! workers   the processes that share its address
//! digests/  what rules need beside requests, from the same rows
//! evidence  all of that, as rules see it; case: one service
//! rules/    one file a rule: fires, quiet, or inconclusive
//! judge     all rules in order → findings
//! listing   the slowest requests, or one of them
//! page      what a page shows
//! report    the contract `whylat.requests/1`
//! ```

mod arrival;
mod blockers;
mod budget;
mod case;
mod cause;
mod class;
mod contrast;
pub mod contrast_report;
mod datagrams;
pub(crate) mod digests;
mod endpoint;
mod evidence;
mod exchanges;
pub mod functions;
mod history;
mod holder;
mod intake;
mod judge;
mod listing;
mod owner;
pub mod page;
mod part;
mod path;
mod pool;
mod repeats;
pub mod report;
mod resets;
pub mod rules;
mod runs;
mod series;
mod service;
mod stages;
mod subjects;
mod tally;
mod trail;
mod turns;
mod workers;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use table::manifest::{Coverage, Header, Loss, ProbeState};
use table::tables::{TcpSamples, TcpStages};

use crate::answer::RecordingState;
use crate::rows::in_order::InOrder;
use crate::waits::{KernelPurpose, NameTable, StackPurpose};
use budget::Accountant;
use class::ConnectionClass;
use digests::DigestSet;
use endpoint::{EndpointId, EndpointTable};
use evidence::RequestEvidence;
use exchanges::Turns;
use functions::{FunctionTable, ThreadSample};
use history::{History, Target, ThreadEventKind, ThreadId, ThreadPreemption, ThreadWait};
pub use judge::RequestFindings;
use listing::Listing;
pub use listing::{Request, RequestFilter, RequestId};
pub use part::{PartShares, PartTimes, RequestPart};
use path::HopCredit;
pub use report::RequestReport;
use runs::ThreadRun;
pub use service::Side;
use service::{ServiceId, ServiceTable};
use stages::StageTable;

/// Rows that are held back to be put in order: more than come from both tables between two drains of the kernel's buffers.
const ROWS_KEPT: usize = 1 << 16;

/// Probes that requests are found by.
const INPUTS: [&str; 3] = ["calls", "waits", "preemptions"];
/// Connections that are kept after their end: their last rows may come late, and a socket that is closed may have data.
const CLOSED_KEPT: usize = 4_096;

/// Requests that are remembered while they may wait for a response, at least.
const WAITING_LEAST: usize = 4_096;

/// Of so many rows of waits, one may be lost before times without rows count as unknown: `unknown` is to be 2 % at most.
const LOST_OF: u64 = 50;

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

const SOURCES: [Source; 4] = [
    Source::Waits,
    Source::Calls,
    Source::Preemptions,
    Source::Samples,
];

/// A row, as far as it matters.
#[derive(Debug)]
enum Row {
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
        bytes: u64,
        offset_end: u64,
    },
}

/// Time, and what decides between equal times: of these, waits come before calls that they may be within.
type Key = (u64, u64);

/// Requests on their way to a report.
#[derive(Debug)]
pub struct RequestTable {
    header: Header,
    names: Rc<NameTable>,
    has_waits: bool,
    /// Few rows of waits were lost.
    is_whole: bool,
    has_preemptions: bool,
    has_drops: bool,
    is_lossless: bool,
    /// Records that were lost, by probe.
    lost: Vec<(String, u64)>,
    services: ServiceTable,
    endpoints: EndpointTable,
    stages: StageTable,
    history: History,
    functions: FunctionTable,
    turns: Vec<Option<Box<Turns>>>,
    classes: HashMap<(ServiceId, ConnectionClass), u64>,
    /// Requests of a thread that follow each other until now, and when the last one ended.
    runs: HashMap<(ServiceId, ThreadId), ThreadRun>,
    broken: u64,
    unanswered: u64,
    /// Requests that wait for a response, by their beginnings, and some that do not any more.
    waiting: VecDeque<(u64, EndpointId)>,
    /// So many of these may be kept before some are forgotten.
    waiting_most: usize,
    closings: Vec<(u64, EndpointId)>,
    /// When processes began with ids that others had, the first one last.
    reused: Vec<(u64, u32)>,
    closed: usize,
    /// The latest that were closed, and those that are over.
    ending: VecDeque<EndpointId>,
    over: Vec<bool>,
    unfinished: u64,
    purposes: HashMap<u32, StackPurpose>,
    kernel_purposes: HashMap<u32, KernelPurpose>,
    rows: InOrder<Key, Row>,
    reached_ns: [Option<u64>; SOURCES.len()],
    latest_ns: u64,
    accountant: Accountant,
    credit: HopCredit,
    listing: Listing,
}

impl RequestTable {
    /// Starts with what the manifest says, and names that are complete. `limit`: so many requests are listed.
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
        let is_whole = lost("waits").is_none_or(|it| it.lost_total() * LOST_OF <= it.produced);
        let is_on = |probe: &str| coverage.iter().any(|it| it.probe == probe && !is_off(it));
        Self {
            latest_ns: header.started_ns,
            listing: Listing::new(filter, limit, header.started_ns),
            is_whole,
            is_lossless: lost("calls").is_none_or(|it| it.lost_total() == 0),
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
            closings: endpoints.closings(),
            reused: names.reused_pids(),
            names,
            ending: VecDeque::new(),
            over: vec![false; endpoints.len()],
            unfinished: 0,
            endpoints,
            stages: StageTable::new(header.is_capture()),
            header,
            history: History::default(),
            functions: FunctionTable::default(),
            classes: HashMap::new(),
            runs: HashMap::new(),
            broken: 0,
            unanswered: 0,
            waiting: VecDeque::new(),
            waiting_most: WAITING_LEAST,
            closed: 0,
            purposes: HashMap::new(),
            kernel_purposes: HashMap::new(),
            rows: InOrder::new(ROWS_KEPT),
            reached_ns: [Some(0); SOURCES.len()],
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

    /// Keeps what a page shows for [`RequestTable::page`].
    #[must_use]
    pub fn keeping_page(mut self) -> Self {
        self.listing.keep_page();
        self
    }

    /// Takes the requests that are over since the last time, in about the order in which they ended.
    pub fn take_over(&mut self) -> Vec<report::RequestRow> {
        let over = self.listing.take_over();
        let rows = over.iter().map(|it| report::row(self, it));
        rows.collect()
    }

    /// Adds rows of table `tcp_samples`, before all others.
    pub fn add_samples(&mut self, rows: &TcpSamples) {
        self.endpoints.add_samples(rows);
    }

    /// Adds rows of table `tcp_stages`, before those of `calls` and `waits`.
    pub fn add_stages(&mut self, rows: &TcpStages) {
        self.stages.add(rows, &mut self.endpoints);
    }

    /// Ends what comes before `calls` and `waits`.
    pub fn begin_rows(&mut self) {
        self.stages.finish();
    }

    /// Takes a row in its order.
    fn pass(&mut self, end_ns: u64, row: Row) {
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
            Row::Call { .. } => self.call(end_ns, row),
        }
    }

    /// Forgets the threads of processes that ended, if others have their ids since.
    fn replace_processes(&mut self, now_ns: u64) {
        while let Some((since_ns, pid)) = self.reused.last().copied()
            && since_ns < now_ns
        {
            self.reused.pop();
            self.history.replace_process(pid, since_ns);
        }
    }

    /// Ends the exchanges of connections that were closed by then.
    fn close_until(&mut self, now_ns: u64) {
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

    /// When the oldest request began that waits for a response: nothing before that is needed any more.
    fn horizon_ns(&mut self, now_ns: u64) -> u64 {
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

    /// Ends what is open: no more rows come.
    pub fn finish(&mut self) {
        let mut rows = std::mem::replace(&mut self.rows, InOrder::new(ROWS_KEPT));
        rows.finish().for_each(|(key, row)| self.pass(key.0, row));
        for id in self.endpoints.ids() {
            self.finish_connection(id);
        }
    }

    /// Returns what rules see, after [`RequestTable::finish`].
    pub(crate) fn judge(&self, digests: &DigestSet) -> RequestFindings {
        judge::judge(&RequestEvidence::new(self, digests))
    }

    /// Returns the report of all rows added, after [`RequestTable::finish`].
    pub fn report(self, recorded: RecordingState) -> RequestReport {
        report::assemble(self, recorded)
    }

    /// Returns the same, and the page if it was kept.
    pub fn page(self, recorded: RecordingState) -> (RequestReport, Option<page::RequestPage>) {
        page::assemble(self, recorded)
    }
}

#[cfg(test)]
mod tests;
