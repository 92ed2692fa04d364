//! Turn-taking on one connection: calls in, in the order of time; exchanges out, each a turn of bytes from the client and
//! the turn of the server that answers it. No payload is read.
//!
//! A connection with ends that do not take turns has no requests. It shows by bytes that cross: the next request, or a response,
//! arrives before the turn before it was over. A few crossings may be of calls that were preempted at their end, so that
//! their time is late; many are not.

use super::class::{CALL_END_NS, JUDGED_TOGETHER, TurnCounts, is_crossing};
use super::control::{CONTROL_MOST_BYTES, CONTROLLED_LEAST_BYTES};
use super::datagrams::{DatagramTurns, Question};
pub use super::exchange::{Exchange, MovingCall, StreamRange};
use super::series::ConnectionSeries;
use super::service::Side;

/// Body of a record with TLS's message Finished: 4 bytes and a hash of 32 or 48, the type, and a tag of 16 (RFC 8446, 4.4.4
/// and 5.2).
const FINISHED_BYTES: [u64; 2] = [53, 69];

/// Calls after which an end that never answered is not expected to: what threads did since need not be kept.
const UNANSWERED_CALLS: u64 = JUDGED_TOGETHER;

/// Effect of a call on the turns of its connection.
#[derive(Debug)]
pub enum TurnChange {
    /// Nothing that matters.
    None,
    /// A request began; the exchange before it is over.
    Begun(Option<Box<Exchange>>),
    /// The open exchange has another call of its response, which is to be accounted and added.
    Answered,
}

/// A turn that began before the window, and that is skipped with its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutTurn {
    Request,
    Response,
}

/// The turns of one connection.
#[derive(Debug)]
pub struct TurnTracker {
    side: Side,
    open: Option<Box<Exchange>>,
    /// The exchange before, while it may not be over: what began the open one may be control of its flow.
    before: Option<Box<Exchange>>,
    /// Offsets after the last bytes of requests and of responses.
    ends: [Option<u64>; 2],
    /// Bytes of the smallest request that was answered.
    smallest_bytes: u64,
    /// The same of the smallest and of the largest that came without a pause.
    unpaused_bytes: Option<(u64, u64)>,
    /// No row of a call was lost: bytes that no call moved were spliced.
    is_lossless: bool,
    /// Of a flow of UDP: its datagrams.
    datagrams: Option<DatagramTurns>,
    /// Where it is in a turn that began before the window; `None`: in none.
    cut_turn: Option<CutTurn>,
    /// When the call ended that moved the server's greeting: its first bytes, before any request.
    greeted_ns: Option<u64>,
    /// Counts of exchanges and calls so far.
    pub counts: TurnCounts,
}

impl TurnTracker {
    /// Begins without an exchange; `is_lossless`: no call record was lost.
    pub fn new(side: Side, is_lossless: bool) -> Self {
        Self {
            side,
            is_lossless,
            open: None,
            before: None,
            ends: [None; 2],
            smallest_bytes: u64::MAX,
            unpaused_bytes: None,
            datagrams: None,
            cut_turn: None,
            greeted_ns: None,
            counts: TurnCounts::default(),
        }
    }

    /// Counts datagrams instead of bytes if the flow is of UDP.
    #[must_use]
    pub fn of_datagrams(mut self, is_udp: bool) -> Self {
        self.datagrams = is_udp.then(DatagramTurns::default);
        self
    }

    /// Returns when the server's greeting had been moved: bytes of the server before any request, as MySQL and SMTP have it.
    pub fn greeted_ns(&self) -> Option<u64> {
        self.greeted_ns
    }

    /// Returns the open exchange.
    pub fn open(&mut self) -> Option<&mut Exchange> {
        self.open.as_deref_mut()
    }

    /// Returns whether a message is as small as a protocol's own, and smaller than every request that was answered: with TLS's
    /// close_notify or PostgreSQL's Terminate a client takes leave.
    pub fn may_be_farewell(&self, exchange: &Exchange) -> bool {
        let bytes = exchange.request.bytes();
        let is_answering = self.smallest_bytes < u64::MAX;
        is_answering && bytes <= CONTROL_MOST_BYTES && bytes < self.smallest_bytes
    }

    /// Returns the open exchange if it has the same bytes as `other` at the other end.
    pub fn peer_of(&self, other: &Exchange) -> Option<&Exchange> {
        let open = self.open.as_deref()?;
        (open.request.first == other.request.first).then_some(open)
    }

    /// Returns when the end of the connection that sent this byte of the open exchange's request began to, if it is the
    /// first one.
    pub fn sent_ns(&self, offset: u64) -> Option<u64> {
        let open = self.open.as_deref()?;
        (open.request.first == offset && self.side == Side::Client).then_some(open.first_call_ns)
    }

    /// Returns the offset after the last byte of requests that this end moved; `None`: it moved none.
    pub fn request_end(&self) -> Option<u64> {
        self.ends[usize::from(true)]
    }

    /// Returns when the open exchange began, ns.
    pub fn begin_ns(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.begin_ns)
    }

    /// Returns when the open exchange began, if it has no response yet, ns.
    pub fn waits_since(&self) -> Option<u64> {
        let open = self.open.as_ref()?;
        let is_unanswered =
            self.counts.response_calls == 0 && self.counts.request_calls > UNANSWERED_CALLS;
        (open.response.is_none() && !is_unanswered).then_some(open.begin_ns)
    }

    /// Begins a request with the next call, if the call before ended a TLS handshake without a response: its bytes are
    /// those of the message Finished. Returns the exchange so far.
    pub fn take_finished(&mut self, handshake_ns: u64) -> Option<Box<Exchange>> {
        let is_finished = |open: &mut Box<Exchange>| {
            open.response.is_none()
                && open.request.first > 0
                && open.asked_ns <= handshake_ns
                && FINISHED_BYTES.contains(&open.last_bytes)
        };
        self.open.take_if(is_finished)
    }

    /// Adds a call, in the order of time.
    pub fn add(&mut self, call: &MovingCall) -> TurnChange {
        let has_gap = self.has_gap(call);
        if self.is_skipped(call) {
            return TurnChange::None;
        }
        let calls = match call.is_request {
            true => &mut self.counts.request_calls,
            false => &mut self.counts.response_calls,
        };
        *calls += 1;
        match (self.datagrams, call.is_request) {
            (Some(turns), _) => self.add_datagram(turns, call),
            (None, true) => self.add_request(call, has_gap),
            (None, false) => self.add_response(call, has_gap),
        }
    }

    /// Adds a call that moved a datagram. More answers than questions, and questions between answers, are no turns.
    fn add_datagram(&mut self, mut turns: DatagramTurns, call: &MovingCall) -> TurnChange {
        if !call.is_request {
            let is_open = self.open.is_some();
            if turns.add_answer(call) && is_open {
                self.counts.cross_surely();
            }
            self.datagrams = Some(turns);
            return match is_open {
                true => TurnChange::Answered,
                false => TurnChange::None,
            };
        }
        let question = turns.add_question(call);
        self.datagrams = Some(turns);
        match (question, &mut self.open) {
            (Question::New, _) | (_, None) => self.begin(call, false, (false, false)),
            (Question::Same, Some(open)) => {
                open.repeat_question(call);
                TurnChange::None
            }
            (Question::Again, Some(open)) => {
                open.repeat_question(call);
                open.again.add(call);
                TurnChange::None
            }
            (Question::Crossing, Some(open)) => {
                open.repeat_question(call);
                self.counts.cross_surely();
                TurnChange::None
            }
        }
    }

    /// Returns whether bytes are missing before those of a call.
    fn has_gap(&mut self, call: &MovingCall) -> bool {
        let end = &mut self.ends[usize::from(call.is_request)];
        let has_gap = end.is_some_and(|end| end != call.range.first);
        *end = Some(call.range.end);
        has_gap
    }

    /// Adds bytes of a request: begins a turn, or continues the open one.
    fn add_request(&mut self, call: &MovingCall, has_gap: bool) -> TurnChange {
        match &mut self.open {
            Some(open) if open.response.is_none() => {
                let since_ns = open.requested_ns.saturating_add(CALL_END_NS);
                if open.may_be_control && call.begin_ns > since_ns {
                    return self.begin_after_control(call, has_gap);
                }
                let is_later = call.begin_ns > since_ns;
                if is_later && is_control_after(open, call, self.unpaused_bytes) {
                    open.calls += 1;
                } else {
                    open.add_request(call);
                    open.has_pause |= is_later;
                }
                open.has_gap |= has_gap;
                TurnChange::None
            }
            Some(open) => {
                let (ended_ns, began_ns) = (open.answered_ns, open.answer_began_after_ns);
                let is_small = call.range.bytes() <= CONTROL_MOST_BYTES
                    && call.range.bytes() < self.smallest_bytes.min(open.request.bytes());
                let may_cross = open.controls <= open.response_bytes() / CONTROLLED_LEAST_BYTES;
                let follows = open.response_bytes() >= CONTROLLED_LEAST_BYTES;
                let call = &call.no_earlier_than(ended_ns);
                let crosses = self.side == Side::Server && is_crossing(call.begin_ns, ended_ns);
                if crosses && is_small && may_cross {
                    open.calls += 1;
                    open.controls += 1;
                    return TurnChange::None;
                }
                if crosses {
                    self.counts
                        .count_crossing(call.begin_ns, ended_ns, began_ns);
                }
                let is_kept = is_small && may_cross && self.side == Side::Client;
                self.begin(call, has_gap, (is_kept, is_small && follows))
            }
            None => self.begin(call, false, (false, false)),
        }
    }

    /// Begins an exchange in place of one that was only control of the flow.
    fn begin_after_control(&mut self, call: &MovingCall, has_gap: bool) -> TurnChange {
        let mut exchange = Box::new(Exchange::new(call));
        exchange.has_gap = has_gap;
        self.open = Some(exchange);
        TurnChange::Begun(self.take_before())
    }

    /// Begins an exchange. The one before is kept if this one may turn out to be control of its flow.
    fn begin(
        &mut self,
        call: &MovingCall,
        has_gap: bool,
        (is_kept, may_be_control): (bool, bool),
    ) -> TurnChange {
        let mut exchange = Box::new(Exchange::new(call));
        exchange.has_gap = has_gap;
        exchange.may_be_control = may_be_control;
        let mut over = self.open.replace(exchange);
        // Requests without rows lie between the two: their responses are in the one before.
        if let Some(over) = over.as_mut().filter(|_| has_gap) {
            over.has_gap = true;
        }
        if is_kept {
            let before = self.take_before();
            self.before = over;
            return TurnChange::Begun(before);
        }
        if let Some(over) = &over {
            self.end(over);
        }
        TurnChange::Begun(over)
    }

    /// Ends an exchange, and counts it.
    fn end(&mut self, exchange: &Exchange) {
        self.counts.end_exchange(exchange);
        if exchange.response.is_some() {
            let bytes = exchange.request.bytes();
            self.smallest_bytes = self.smallest_bytes.min(bytes);
            if !exchange.has_pause {
                let (least, most) = self.unpaused_bytes.unwrap_or((bytes, bytes));
                self.unpaused_bytes = Some((least.min(bytes), most.max(bytes)));
            }
        }
    }

    /// Adds bytes of a response to the open turn; none is open before the first request.
    fn add_response(&mut self, call: &MovingCall, has_gap: bool) -> TurnChange {
        // What the server says first, or what answers a request from before the recording, answers none.
        let Some(open) = &mut self.open else {
            if call.range.first == 0 {
                self.greeted_ns = Some(call.end_ns);
            }
            return TurnChange::None;
        };
        if open.response.is_none() && self.side == Side::Client {
            let (ended_ns, began_ns) = (open.requested_ns, open.request_began_after_ns);
            let call = &call.no_earlier_than(ended_ns);
            let crosses = is_crossing(call.begin_ns, ended_ns);
            if let Some(before) = self.before.take_if(|_| crosses) {
                let control = std::mem::replace(open, before);
                open.calls += control.calls;
                open.controls += 1;
                open.has_gap |= has_gap && !self.is_lossless;
                return TurnChange::Answered;
            }
            if crosses {
                self.counts
                    .count_crossing(call.begin_ns, ended_ns, began_ns);
            }
        }
        // Where no row was lost, bytes that moved without a call are of this response: sendfile.
        open.has_gap |= has_gap && !self.is_lossless;
        TurnChange::Answered
    }

    /// Bytes moved of a turn that began before the window: no exchange begins until it has its response.
    pub fn skip(&mut self) {
        self.open = None;
        self.cut_turn = Some(CutTurn::Request);
    }

    /// Returns whether a call belongs to a skipped turn, or to its response.
    fn is_skipped(&mut self, call: &MovingCall) -> bool {
        match (self.cut_turn, call.is_request) {
            (None, _) => false,
            (Some(CutTurn::Response), true) => {
                self.cut_turn = None;
                false
            }
            (Some(_), false) => {
                self.cut_turn = Some(CutTurn::Response);
                true
            }
            (Some(CutTurn::Request), true) => true,
        }
    }

    /// The window ended then, while the connection was open: takes the open exchange if it is over.
    pub fn cut(&mut self, ended_ns: u64) -> Option<Box<Exchange>> {
        self.ends = [None; 2];
        self.cut_turn = None;
        self.datagrams = self.datagrams.map(|_| DatagramTurns::default());
        let over = self.open.take()?;
        if over.response.is_none() || over.may_go_on(ended_ns) {
            return None;
        }
        self.end(&over);
        Some(over)
    }

    /// Returns the exchange that was kept while it might go on.
    pub fn take_before(&mut self) -> Option<Box<Exchange>> {
        let before = self.before.take()?;
        self.end(&before);
        Some(before)
    }

    /// The connection ended, or the recording did: takes the open exchange. `recorded_ns`: the recording ended then, while
    /// the connection was open.
    pub fn finish(&mut self, recorded_ns: Option<u64>) -> Option<Box<Exchange>> {
        let open = self.open.take()?;
        if recorded_ns.is_some_and(|ns| open.may_go_on(ns)) {
            self.counts.unfinished += 1;
            return None;
        }
        self.end(&open);
        Some(open)
    }
}

/// Returns whether a small message that comes after a request, and before its response, is control of the protocol: a ping
/// that a timer of the client sends. Requests of such a size were answered without one, so that the other end need not wait
/// for it.
fn is_control_after(open: &Exchange, call: &MovingCall, answered: Option<(u64, u64)>) -> bool {
    let asked = open.request.bytes();
    let is_small = call.range.bytes() <= CONTROL_MOST_BYTES.min(asked);
    is_small && answered.is_some_and(|(least, most)| (least..=most).contains(&asked))
}

/// One connection's turns, and its exchanges until it is judged.
#[derive(Debug)]
pub(super) struct Turns {
    /// Turns.
    pub(super) tracker: TurnTracker,
    pub(super) held: Vec<Exchange>,
    pub(super) series: ConnectionSeries,
    /// How many of these, the first ones, are requests.
    pub(super) judged: usize,
    /// When the last response ended.
    pub(super) answered_ns: Option<u64>,
    /// Responses that are over; a TLS handshake is none.
    pub(super) responses: u64,
    /// Of a loop that asks: several requests have sent on it before a response.
    pub(super) is_shared: bool,
    /// Until then stages are shared by those that are held.
    pub(super) shared_until_ns: u64,
}

impl Turns {
    /// Begins the turns of a connection.
    pub(super) fn new(tracker: TurnTracker) -> Self {
        Self {
            tracker,
            held: Vec::new(),
            series: ConnectionSeries::default(),
            judged: 0,
            answered_ns: None,
            responses: 0,
            is_shared: false,
            shared_until_ns: 0,
        }
    }

    /// Decides whether the held exchanges are requests; drops them if not.
    pub(super) fn judge(&mut self) {
        match self.tracker.counts.judge_exchanges() {
            true => self.judged = self.held.len(),
            false => self.held.truncate(self.judged),
        }
    }
}
