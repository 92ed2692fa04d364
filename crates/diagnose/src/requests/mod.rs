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
//! owner     which request a thread had to do with, of several at once
//! path      backward over waits and wakers: the critical path
//! trail     steps without gap or overlap, and their sums
//! budget    an exchange → its steps
//! stages    what TCP held back meanwhile
//! functions what threads ran meanwhile
//! part      the parts that a request's time is made of
//! service   requests of one process and address
//! subjects  who took the time of a service's requests
//! pool      waits for a connection, before requests
//! series    how its requests follow each other
//! runs      requests in series, and what they spend on the path
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
mod class;
mod datagrams;
pub(crate) mod digests;
mod endpoint;
mod evidence;
pub mod functions;
mod history;
mod intake;
mod judge;
mod listing;
mod owner;
pub mod page;
mod part;
mod path;
mod pool;
pub mod report;
mod resets;
pub mod rules;
mod runs;
mod series;
mod service;
mod stages;
mod subjects;
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
use functions::{FunctionTable, ThreadSample};
use history::{
    History, ResponseTimes, Target, ThreadCall, ThreadEventKind, ThreadId, ThreadPreemption,
    ThreadWait,
};
pub use judge::RequestFindings;
use listing::Listing;
pub use listing::{Request, RequestFilter, RequestId};
use owner::TimedCall;
pub use part::{PartShares, PartTimes, RequestPart};
use path::HopCredit;
pub use report::RequestReport;
use resets::LostRequest;
use runs::{SeriesRequest, ThreadRun};
use series::ConnectionSeries;
pub use service::Side;
use service::{RequestSums, ServiceId, ServiceTable};
use stages::StageTable;
use turns::{Exchange, MovingCall, StreamRange, TurnChange, TurnTracker};

/// Rows that are held back to be put in order: more than come from both tables between two drains of the kernel's buffers.
const ROWS_KEPT: usize = 1 << 16;

/// Probes that requests are found by.
const INPUTS: [&str; 3] = ["calls", "waits", "preemptions"];
/// Connections that are kept after their end: their last rows may come late, and a socket that is closed may have data.
const CLOSED_KEPT: usize = 4_096;

/// Requests that are remembered while they may wait for a response, at least.
const WAITING_LEAST: usize = 4_096;

/// An end that was silent for so long had nothing to send (`TCP_RTO_MIN`; RFC 5681, 4.1).
const SILENT_NS: u64 = 200_000_000;

/// Of so many rows of waits, one may be lost before times without rows count as unknown: `unknown` is to be 2 % at most.
const LOST_OF: u64 = 50;

/// Errors of a connection that a RST ended: before the FIN of the other end, and after (`include/uapi/asm-generic/errno.h`).
const ECONNRESET: i32 = 104;
const EPIPE: i32 = 32;

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

/// One connection's turns, and its exchanges until it is judged.
#[derive(Debug)]
struct Turns {
    tracker: TurnTracker,
    held: Vec<Exchange>,
    series: ConnectionSeries,
    /// How many of these, the first ones, are requests.
    judged: usize,
    /// When the last response ended.
    answered_ns: Option<u64>,
    /// Until then stages are shared by those that are held.
    shared_until_ns: u64,
}

impl Turns {
    fn new(tracker: TurnTracker) -> Self {
        Self {
            tracker,
            held: Vec::new(),
            series: ConnectionSeries::default(),
            judged: 0,
            answered_ns: None,
            shared_until_ns: 0,
        }
    }

    /// Judges the exchanges that are held since the last time: they are requests, or dropped.
    fn judge(&mut self) {
        match self.tracker.counts.judge() {
            true => self.judged = self.held.len(),
            false => self.held.truncate(self.judged),
        }
    }
}

/// Requests on their way to a report.
#[derive(Debug)]
pub struct RequestTable {
    header: Header,
    names: Rc<NameTable>,
    has_waits: bool,
    /// Few rows of waits were lost.
    is_whole: bool,
    has_preemptions: bool,
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
    /// When the last request of a thread ended.
    answered_ns: HashMap<(ServiceId, ThreadId), u64>,
    /// Requests of a thread that follow each other until now.
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
            header,
            is_whole,
            is_lossless: lost("calls").is_none_or(|it| it.lost_total() == 0),
            has_waits: is_on("waits"),
            has_preemptions: is_on("preemptions"),
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
            stages: StageTable::default(),
            history: History::default(),
            functions: FunctionTable::default(),
            classes: HashMap::new(),
            answered_ns: HashMap::new(),
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

    fn call(&mut self, end_ns: u64, row: Row) {
        let Row::Call {
            endpoint: id,
            thread,
            is_send,
            start_ns,
            unread_ns,
            bytes,
            offset_end,
        } = row
        else {
            return;
        };
        if bytes == 0 {
            // The server may send on after its client has ended its own direction.
            let is_client = self.endpoints.get(id).side == Side::Client;
            if !is_send && is_client && self.is_answered(id) {
                self.finish_connection(id);
            }
            return;
        }
        if self.endpoints.get(id).is_side_open {
            let side = if is_send { Side::Client } else { Side::Server };
            self.endpoints.decide_side(id, side, &mut self.services);
        }
        let endpoint = self.endpoints.get(id);
        let began_after_ns = start_ns.unwrap_or_else(|| self.history.last_ns(thread));
        let begin_ns = match is_send {
            true => start_ns.unwrap_or(end_ns),
            false => self.arrival_ns(
                id,
                (start_ns, end_ns),
                unread_ns,
                offset_end - bytes.min(offset_end),
            ),
        };
        let moving = MovingCall {
            is_request: is_send == (endpoint.side == Side::Client),
            begin_ns,
            is_coarse: !is_send && self.is_coarse(unread_ns),
            end_ns,
            began_after_ns,
            range: StreamRange {
                first: offset_end.saturating_sub(bytes),
                end: offset_end,
            },
            thread,
        };
        let side = endpoint.side;
        self.endpoints.note_call(id, end_ns);
        let timed = |served| TimedCall {
            end_ns,
            is_send,
            served,
        };
        if side == Side::Server {
            self.history.count_time(thread, timed(id));
        }
        self.take_turn(id, &moving);
        let call = self.thread_call(id, side, &moving);
        if let (Side::Client, Some(served)) = (side, call.served) {
            self.history.count_time(thread, timed(served));
        }
        let horizon_ns = self.horizon_ns(end_ns);
        let call = ThreadEventKind::Call(call);
        self.history.add(thread, end_ns, call, horizon_ns);
    }

    /// Says what a call was for: of a client, for the request that its thread served when it asked.
    fn thread_call(&mut self, id: EndpointId, side: Side, call: &MovingCall) -> ThreadCall {
        let is_server = side == Side::Server;
        let turns = self.turns[id.index()].as_mut();
        let open = turns.and_then(|turns| turns.tracker.open());
        let response = open
            .as_ref()
            .filter(|_| !is_server && !call.is_request)
            .map(|open| ResponseTimes {
                asked_ns: open.begin_ns,
                arrived_ns: call.begin_ns,
            });
        ThreadCall {
            endpoint: id,
            is_udp: self.endpoints.get(id).is_udp,
            is_send: is_server != call.is_request,
            served: match is_server {
                true => Some(id),
                false => open.and_then(|open| open.asked_for),
            },
            response,
        }
    }

    /// When the first byte that a receive call took was there.
    fn arrival_ns(
        &self,
        id: EndpointId,
        (start_ns, end_ns): (Option<u64>, u64),
        unread_ns: Option<u64>,
        offset: u64,
    ) -> u64 {
        let endpoint = self.endpoints.get(id);
        let Some(unread_ns) = unread_ns else {
            let peer = endpoint
                .peer
                .and_then(|peer| self.turns[peer.index()].as_deref());
            let sent_ns = peer.and_then(|peer| peer.tracker.sent_ns(offset));
            return arrival::of_unseen(endpoint, start_ns, end_ns, sent_ns);
        };
        let jiffy_ns = self.header.jiffy_ns.unwrap_or(0);
        let is_coarse = self.is_coarse(Some(unread_ns));
        let less_ns = if is_coarse { jiffy_ns } else { 0 };
        arrival::of_unread(
            end_ns,
            unread_ns.saturating_sub(less_ns),
            start_ns,
            endpoint.woken,
        )
    }

    /// Whether the kernel knew only the jiffy since when bytes were unread.
    fn is_coarse(&self, unread_ns: Option<u64>) -> bool {
        let whole = |ns: u64, jiffy_ns: u64| ns >= jiffy_ns && ns.is_multiple_of(jiffy_ns);
        let jiffy_ns = self.header.jiffy_ns.filter(|ns| *ns > 0);
        unread_ns
            .zip(jiffy_ns)
            .is_some_and(|(ns, jiffy_ns)| whole(ns, jiffy_ns))
    }

    fn is_answered(&mut self, id: EndpointId) -> bool {
        let turns = self.turns[id.index()].as_mut();
        let open = turns.and_then(|turns| turns.tracker.open());
        open.is_some_and(|open| open.response.is_some())
    }

    /// Adds a call to its connection's turns.
    fn take_turn(&mut self, id: EndpointId, call: &MovingCall) {
        if self.over[id.index()] {
            return;
        }
        let mut turns = self.turns[id.index()].take().unwrap_or_else(|| {
            let endpoint = self.endpoints.get(id);
            let tracker = TurnTracker::new(endpoint.side, self.is_lossless);
            Box::new(Turns::new(tracker.of_datagrams(endpoint.is_udp)))
        });
        let handshake_ns = self.endpoints.get(id).handshake_ns;
        let finished = match call.is_request && handshake_ns > 0 {
            true => turns.tracker.take_finished(handshake_ns),
            false => None,
        };
        match turns.tracker.add(call) {
            TurnChange::None => {}
            TurnChange::Begun(over) => self.begin(id, &mut turns, (over, finished), call),
            TurnChange::Answered => self.answer(id, &mut turns, call),
        }
        self.turns[id.index()] = Some(turns);
    }

    /// A request began, and the one before is over.
    fn begin(
        &mut self,
        id: EndpointId,
        turns: &mut Turns,
        (over, finished): (Option<Box<Exchange>>, Option<Box<Exchange>>),
        call: &MovingCall,
    ) {
        let side = self.endpoints.get(id).side;
        if side == Side::Server {
            self.history.begin_serving(call.thread);
        }
        let before = over.as_deref().filter(|_| side == Side::Client);
        let before = before.filter(|before| before.request_thread != call.thread);
        let pool = before.zip(turns.tracker.open()).and_then(|(before, open)| {
            pool::wait_before(
                &self.history,
                call.thread,
                open.begin_ns,
                before.answered_ns,
            )
        });
        let opening = over.and_then(|over| self.hold(id, turns, *over));
        let opening = finished.map(|finished| *finished).or(opening);
        if let Some(open) = turns.tracker.open() {
            open.pool = pool;
            open.served = self.history.served(call.thread);
            if side == Side::Client {
                open.asked_for = self.history.asker(call.thread, call.end_ns);
            }
            match opening {
                Some(opening) => budget::join_opening(open, opening),
                None => budget::join_connecting(&self.history, self.endpoints.get(id), open),
            }
            self.waiting.push_back((open.begin_ns, id));
        }
        if self.waiting.len() > self.waiting_most {
            self.forget_answered();
        }
    }

    /// Forgets requests that do not wait any more, behind one that does.
    fn forget_answered(&mut self) {
        let turns = &self.turns;
        self.waiting.retain(|(begin_ns, id)| {
            let turns = turns[id.index()].as_ref();
            turns.and_then(|turns| turns.tracker.waits_since()) == Some(*begin_ns)
        });
        self.waiting_most = WAITING_LEAST.max(2 * self.waiting.len());
    }

    /// Bytes of a response moved.
    fn answer(&mut self, id: EndpointId, turns: &mut Turns, call: &MovingCall) {
        if self.is_push(id, turns, call) {
            turns.tracker.counts.pushes += 1;
        }
        if let Some(open) = turns.tracker.open() {
            let finder = path::PathFinder {
                history: &self.history,
                endpoints: &self.endpoints,
                has_waits: self.has_waits && self.is_whole,
                credit: &self.credit,
            };
            self.credit.add_call();
            let peer = self.endpoints.get(id).peer;
            let peer = peer.and_then(|peer| self.turns[peer.index()].as_deref());
            let peer = peer.and_then(|peer| peer.tracker.peer_of(open));
            self.accountant.account(&finder, id, open, (call, peer));
            open.add_response(call);
            turns.answered_ns = Some(call.end_ns);
        }
        if let Some(before) = turns.tracker.take_before() {
            self.hold(id, turns, *before);
        }
    }

    /// An exchange is over. It is a request once its connection is judged; that of a TLS handshake is returned.
    fn hold(&mut self, id: EndpointId, turns: &mut Turns, exchange: Exchange) -> Option<Exchange> {
        if exchange.response.is_none() || exchange.has_gap {
            return None;
        }
        if self.is_handshake(id, &exchange) {
            return Some(exchange);
        }
        if turns.judged > 0 && exchange.answered_ns > turns.shared_until_ns {
            self.release(id, turns);
        }
        let endpoint = self.endpoints.get(id);
        let shared = self.stages.shared_until(endpoint, id, exchange.answered_ns);
        turns.shared_until_ns = turns.shared_until_ns.max(shared.unwrap_or(0));
        let is_shared = shared.is_some();
        turns.held.push(exchange);
        if turns.tracker.counts.is_due() {
            turns.judge();
            if !is_shared {
                self.release(id, turns);
            }
        }
        None
    }

    /// Whether the server sends without being asked: since it answered, its thread had nothing to do with the request and
    /// waited for others, or slept. At the client, if the server was silent for long.
    fn is_push(&self, id: EndpointId, turns: &mut Turns, call: &MovingCall) -> bool {
        let open = turns.tracker.open().filter(|open| open.response.is_some());
        let Some(answered_ns) = open.map(|open| open.answered_ns) else {
            return false;
        };
        let endpoint = self.endpoints.get(id);
        if endpoint.side == Side::Server {
            return self.history.get(call.thread).is_idle_since(id, answered_ns);
        }
        let peer = endpoint
            .peer
            .and_then(|peer| self.turns[peer.index()].as_ref());
        match peer {
            Some(peer) => peer.tracker.counts.pushes > turns.tracker.counts.pushes,
            None => call.begin_ns.saturating_sub(answered_ns) > SILENT_NS,
        }
    }

    /// Whether an exchange is of a TLS handshake: a thread waited in one for it. The handshakes of a service are of about
    /// the same length, so that one without a wait is known by its place.
    fn is_handshake(&mut self, id: EndpointId, exchange: &Exchange) -> bool {
        let endpoint = self.endpoints.get(id);
        let known = self.services.digest_mut(endpoint.service);
        if (exchange.asked_ns..=exchange.answered_ns).contains(&endpoint.handshake_ns) {
            known.handshake_bytes = known.handshake_bytes.max(exchange.request.end);
            return true;
        }
        endpoint.handshake_ns > 0 && exchange.request.end <= known.handshake_bytes
    }

    /// Makes the exchanges that were judged requests.
    fn release(&mut self, id: EndpointId, turns: &mut Turns) {
        let judged = std::mem::take(&mut turns.judged);
        let mut held: Vec<_> = turns.held.drain(..judged).collect();
        self.stages.share(self.endpoints.get(id), id, &mut held);
        for exchange in held {
            let endpoint = self.endpoints.get(id);
            let request = Request::new(endpoint, id, exchange);
            if self.listing.passes(&request, endpoint, &self.history) {
                self.count(&request, &mut turns.series);
                let service = self.endpoints.get(request.endpoint).service;
                self.listing.add(service, request);
            }
        }
    }

    /// Adds a request to its service.
    fn count(&mut self, request: &Request, series: &mut ConnectionSeries) {
        let endpoint = self.endpoints.get(request.endpoint);
        let (id, budget) = (request.id, &request.budget);
        let digest = self.services.digest_mut(endpoint.service);
        let other = endpoint.peer.map(|peer| self.endpoints.get(peer).pid);
        let other = other.filter(|pid| *pid != endpoint.pid);
        let mut peer = PartTimes::default();
        for step in &budget.steps {
            let pid = step.thread.map(|thread| self.history.get(thread).pid);
            if pid.is_some() && pid == other {
                peer.add(step.part, step.end_ns - step.begin_ns);
                continue;
            }
            let about = step.subject.endpoint;
            let service = about.map(|it| self.endpoints.get(it).service);
            let stack = step.subject.stack;
            let stack = stack.and_then(|it| self.names.distinct_stack(it));
            digest.subjects.add(step, stack, service);
        }
        let time = (request.begin_ns, request.end_ns);
        digest.add(&RequestSums {
            id,
            time,
            parts: &budget.parts,
            peer: &peer,
            functions: &budget.functions,
            queue: budget.queue_most,
        });
        if let Some(pool) = &request.pool {
            let stack = pool.stack.and_then(|it| self.names.distinct_stack(it));
            digest.pool.add(pool, stack);
        }
        if let Some(path_ns) = endpoint.min_rtt_ns {
            let known_ns = digest.path_ns.unwrap_or(path_ns);
            digest.path_ns = Some(known_ns.min(path_ns));
        }
        let ns = request.duration_ns();
        digest.connections.add(request.endpoint.index() as u32, ns);
        digest.processes.add(endpoint.pid, ns);
        if endpoint.side == Side::Server {
            digest.blockers.add(id, request.endpoint, &budget.parts);
            let of = request.endpoint;
            digest.workers.add(endpoint.pid, of, time, &budget.parts);
        }
        let before = (endpoint.service, request.thread);
        let before_ns = self.answered_ns.insert(before, request.end_ns);
        digest.series.add(series, before_ns, time);
        digest.resets.follow(request.thread, request.begin_ns);
        let on_path_ns = budget.parts.get(RequestPart::Network) - peer.get(RequestPart::Network);
        let path_ns = endpoint.min_rtt_ns.filter(|_| !endpoint.is_within_host);
        let in_series = SeriesRequest {
            time,
            served: request.served,
            round_trip_ns: path_ns.unwrap_or(0).min(on_path_ns),
        };
        if endpoint.side == Side::Client {
            digest
                .runs
                .add(self.runs.entry(before).or_default(), &in_series);
        }
    }

    /// A connection ended while a request waited for its response: if that was a reset, this is what it answered.
    fn count_reset(&mut self, id: EndpointId, answered_ns: Option<u64>, request: &Exchange) {
        let endpoint = self.endpoints.get(id);
        let is_reset = matches!(endpoint.errno, Some(ECONNRESET | EPIPE));
        let begin_ns = request.asked_ns;
        if endpoint.side != Side::Client || request.response.is_some() {
            return;
        }
        if !is_reset {
            // where nothing was ever answered, one end may have nothing to say
            let is_answering = answered_ns.is_some() && endpoint.errno.is_none();
            let closed_ns = endpoint.closed_ns.filter(|_| is_answering);
            let digest = self.services.digest_mut(endpoint.service);
            digest.resets.unanswered += u64::from(closed_ns.is_some());
            let waited_ns = closed_ns.map_or(0, |ns| ns.saturating_sub(begin_ns));
            digest.resets.unanswered_ns += waited_ns;
            return;
        }
        let lost = LostRequest {
            begin_ns,
            closed_ns: endpoint.closed_ns.unwrap_or(begin_ns),
            idle_ns: answered_ns.map(|ns| begin_ns.saturating_sub(ns)),
            is_after_fin: endpoint.errno == Some(EPIPE),
            next_ns: None,
        };
        let digest = self.services.digest_mut(endpoint.service);
        digest.resets.add(request.request_thread, lost);
    }

    /// The connection ended, or the recording did.
    fn finish_connection(&mut self, id: EndpointId) {
        let Some(mut turns) = self.turns[id.index()].take() else {
            return;
        };
        self.over[id.index()] = true;
        let before = turns.tracker.take_before();
        let endpoint = self.endpoints.get(id);
        let may_be_open = endpoint.has_close && endpoint.closed_ns.is_none();
        let recorded_ns = may_be_open.then_some(self.latest_ns);
        let last = turns.tracker.finish(recorded_ns);
        let unanswered = last.clone().filter(|it| it.response.is_none());
        for exchange in before.into_iter().chain(last) {
            self.hold(id, &mut turns, *exchange);
        }
        turns.judge();
        self.release(id, &mut turns);
        self.count_class(id, &turns);
        if let Some(request) = unanswered {
            self.count_reset(id, turns.answered_ns, &request);
        }
    }

    fn count_class(&mut self, id: EndpointId, turns: &Turns) {
        let counts = &turns.tracker.counts;
        let class = counts.class();
        if class != ConnectionClass::OneSided {
            self.broken += counts.broken;
            self.unanswered += counts.unanswered;
        }
        if class == ConnectionClass::TurnTaking {
            self.unfinished += counts.unfinished;
        }
        let service = self.endpoints.get(id).service;
        *self.classes.entry((service, class)).or_default() += 1;
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
