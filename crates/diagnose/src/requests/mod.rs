//! Requests: rows of the tables `calls`, `waits` and `preemptions` in, side by side in the order of time; out, where each request's time
//! went ([`RequestReport`]). What is kept grows with the connections, the services, the threads and the longest request, not
//! with the requests.
//!
//! ```text
//! endpoint  connections: which end serves, which is the other end
//! arrival   when the bytes were there that a receive call took
//! turns     calls of a connection → exchanges, by turn-taking
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
//! series    how its requests follow each other
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
pub mod report;
pub mod rules;
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
use series::ConnectionSeries;
pub use service::Side;
use service::{RequestSums, ServiceId, ServiceTable};
use stages::StageTable;
use turns::{
    ConnectionClass, Exchange, JUDGED_AFTER, MovingCall, StreamRange, TurnChange, TurnTracker,
};

/// Rows that are held back to be put in order: more than come from both tables between two drains of the kernel's buffers.
const ROWS_KEPT: usize = 1 << 16;

/// Probes that requests are found by.
const INPUTS: [&str; 3] = ["calls", "waits", "preemptions"];

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
    /// Until then stages are shared by those that are held.
    shared_until_ns: u64,
}

impl Turns {
    fn new(tracker: TurnTracker) -> Self {
        Self {
            tracker,
            held: Vec::new(),
            series: ConnectionSeries::default(),
            shared_until_ns: 0,
        }
    }
}

/// Requests on their way to a report.
#[derive(Debug)]
pub struct RequestTable {
    header: Header,
    names: Rc<NameTable>,
    has_waits: bool,
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
    broken: u64,
    unanswered: u64,
    /// Requests that wait for a response, by their beginnings, and some that do not any more.
    waiting: VecDeque<(u64, EndpointId)>,
    closings: Vec<(u64, EndpointId)>,
    closed: usize,
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
        let of_waits = coverage.iter().find(|it| it.probe == "waits");
        let is_off = |it: &Coverage| matches!(it.state, ProbeState::Off { .. });
        let lost = loss.iter().find(|it| it.probe == "calls");
        Self {
            latest_ns: header.started_ns,
            listing: Listing::new(filter, limit, header.started_ns),
            header,
            has_waits: of_waits.is_some_and(|it| !is_off(it)),
            is_lossless: lost.is_none_or(|it| it.lost_total() == 0),
            lost: loss
                .iter()
                .map(|it| (it.probe.clone(), it.lost_total()))
                .filter(|(probe, lost)| *lost > 0 && INPUTS.contains(&probe.as_str()))
                .collect(),
            names,
            services,
            turns: (0..endpoints.len()).map(|_| None).collect(),
            closings: endpoints.closings(),
            endpoints,
            stages: StageTable::default(),
            history: History::default(),
            functions: FunctionTable::default(),
            classes: HashMap::new(),
            answered_ns: HashMap::new(),
            broken: 0,
            unanswered: 0,
            waiting: VecDeque::new(),
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

    /// Ends the exchanges of connections that were closed by then.
    fn close_until(&mut self, now_ns: u64) {
        while let Some((closed_ns, endpoint)) = self.closings.get(self.closed).copied()
            && closed_ns < now_ns
        {
            self.closed += 1;
            self.finish_connection(endpoint);
        }
    }

    /// When the oldest request began that waits for a response: nothing before that is needed any more.
    fn horizon_ns(&mut self, now_ns: u64) -> u64 {
        while let Some((begin_ns, endpoint)) = self.waiting.front() {
            let turns = self.turns[endpoint.index()].as_ref();
            let since = turns.and_then(|turns| turns.tracker.waits_since());
            if since == Some(*begin_ns) {
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
            if !is_send && self.is_answered(id) {
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
        self.endpoints.get_mut(id).called_ns = end_ns;
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
        let mut turns = self.turns[id.index()].take().unwrap_or_else(|| {
            let side = self.endpoints.get(id).side;
            Box::new(Turns::new(TurnTracker::new(side, self.is_lossless)))
        });
        match turns.tracker.add(call) {
            TurnChange::None => {}
            TurnChange::Begun(over) => self.begin(id, &mut turns, over, call),
            TurnChange::Answered => self.answer(id, &mut turns, call),
        }
        self.turns[id.index()] = Some(turns);
    }

    /// A request began, and the one before is over.
    fn begin(
        &mut self,
        id: EndpointId,
        turns: &mut Turns,
        over: Option<Box<Exchange>>,
        call: &MovingCall,
    ) {
        let side = self.endpoints.get(id).side;
        if side == Side::Server {
            self.history.begin_serving(call.thread);
        }
        let opening = over.and_then(|over| self.hold(id, turns, *over));
        if let Some(open) = turns.tracker.open() {
            if side == Side::Client {
                open.asked_for = self.history.asker(call.thread, call.end_ns);
            }
            match opening {
                Some(opening) => budget::join_opening(open, opening),
                None => budget::join_connecting(&self.history, self.endpoints.get(id), open),
            }
            self.waiting.push_back((open.begin_ns, id));
        }
    }

    /// Bytes of a response moved.
    fn answer(&mut self, id: EndpointId, turns: &mut Turns, call: &MovingCall) {
        if let Some(open) = turns.tracker.open() {
            let finder = path::PathFinder {
                history: &self.history,
                endpoints: &self.endpoints,
                has_waits: self.has_waits,
                credit: &self.credit,
            };
            self.credit.add_call();
            let peer = self.endpoints.get(id).peer;
            let peer = peer.and_then(|peer| self.turns[peer.index()].as_deref());
            let peer = peer.and_then(|peer| peer.tracker.peer_of(open));
            self.accountant.account(&finder, id, open, (call, peer));
            open.add_response(call);
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
        let is_judged = turns.tracker.counts.exchanges >= JUDGED_AFTER;
        let is_later = exchange.answered_ns > turns.shared_until_ns;
        if is_judged && is_later {
            self.release(id, turns);
        }
        if turns.held.is_empty() || is_later {
            let endpoint = self.endpoints.get(id);
            let shared = self.stages.shared_until(endpoint, id, exchange.answered_ns);
            turns.shared_until_ns = shared.unwrap_or(0);
        }
        turns.held.push(exchange);
        if is_judged && turns.shared_until_ns == 0 {
            self.release(id, turns);
        }
        None
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

    /// Makes the exchanges that are held requests, or drops them.
    fn release(&mut self, id: EndpointId, turns: &mut Turns) {
        let is_turn_taking = turns.tracker.counts.class() == ConnectionClass::TurnTaking;
        let mut held = std::mem::take(&mut turns.held);
        if !is_turn_taking {
            return;
        }
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
            digest.subjects.add(step, service);
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
    }

    /// The connection ended, or the recording did.
    fn finish_connection(&mut self, id: EndpointId) {
        let Some(mut turns) = self.turns[id.index()].take() else {
            return;
        };
        let before = turns.tracker.take_before();
        let last = turns.tracker.finish();
        for exchange in before.into_iter().chain(last) {
            self.hold(id, &mut turns, *exchange);
        }
        self.release(id, &mut turns);
        self.turns[id.index()] = Some(turns);
    }

    fn count_classes(&mut self) {
        for index in 0..self.turns.len() {
            let Some(turns) = self.turns[index].take() else {
                continue;
            };
            let counts = &turns.tracker.counts;
            if counts.class() != ConnectionClass::OneSided {
                self.broken += counts.broken;
                self.unanswered += counts.unanswered;
            }
            let service = self.endpoints.at(index).service;
            *self.classes.entry((service, counts.class())).or_default() += 1;
        }
    }

    /// Ends what is open: no more rows come.
    pub fn finish(&mut self) {
        let mut rows = std::mem::replace(&mut self.rows, InOrder::new(ROWS_KEPT));
        rows.finish().for_each(|(key, row)| self.pass(key.0, row));
        for id in self.endpoints.ids() {
            self.finish_connection(id);
        }
        self.count_classes();
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
