//! Turn-taking on one connection: calls in, in the order of time; exchanges out, each a turn of bytes from the client and
//! the turn of the server that answers it. No payload is read.
//!
//! A connection with ends that do not take turns has no requests. It shows by bytes that cross: the next request, or a response,
//! arrives before the turn before it was over. A few crossings may be of calls that were preempted at their end, so that
//! their time is late; many are not.

use super::endpoint::EndpointId;
use super::history::ThreadId;
use super::service::Side;
use super::trail::Budget;

/// Crossings within this are no crossings: the end of a call is noted after the other end has its bytes.
const CALL_END_NS: u64 = 50_000;

/// Messages of a protocol itself (a window update, a ping) are this small with their encryption.
const CONTROL_MOST_BYTES: u64 = 64;

/// A turn has sent so much before a small message of the other side is taken for control of its flow.
const CONTROLLED_LEAST_BYTES: u64 = 4_096;

/// Crossings that are certain: one turn of so many.
const CERTAIN_OF: u64 = 50;

/// Crossings that a late noted end of a call may explain: one turn of so many.
const POSSIBLE_OF: u64 = 3;

/// Exchanges before a connection is judged.
pub const JUDGED_AFTER: u64 = 8;

/// Bytes of a stream: from the first to the one after the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset after the last byte.
    pub end: u64,
}

impl StreamRange {
    /// Returns the number of bytes.
    pub fn bytes(self) -> u64 {
        self.end.saturating_sub(self.first)
    }
}

/// A call that moved bytes.
#[derive(Debug, Clone, Copy)]
pub struct MovingCall {
    /// Whether the bytes are of a request.
    pub is_request: bool,
    /// When its first byte was there: arrived, or given to send.
    pub begin_ns: u64,
    /// `begin_ns` is known to a jiffy only.
    pub is_coarse: bool,
    /// When it ended.
    pub end_ns: u64,
    /// It had not begun before: the thread did something else.
    pub began_after_ns: u64,
    /// Its bytes.
    pub range: StreamRange,
    /// Says who called.
    pub thread: ThreadId,
}

impl MovingCall {
    /// Returns the call with a begin of no earlier than `ns`, if its begin is coarse.
    fn no_earlier_than(&self, ns: u64) -> Self {
        let least_ns = if self.is_coarse { ns } else { 0 };
        Self {
            begin_ns: self.begin_ns.max(least_ns),
            ..*self
        }
    }
}

/// A request and its response, as far as they came.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// When the first byte of the request was there, or its connection was asked for.
    pub begin_ns: u64,
    /// When its first byte was there.
    pub asked_ns: u64,
    /// When the first call of the request ended.
    pub first_call_ns: u64,
    /// The thread that made it.
    pub first_thread: ThreadId,
    /// When the last call of the request ended.
    pub requested_ns: u64,
    /// The thread that made it.
    pub request_thread: ThreadId,
    /// When its last call had not begun yet.
    pub request_began_after_ns: u64,
    /// The connection with the request that its thread served then.
    pub asked_for: Option<EndpointId>,
    /// Bytes of the request.
    pub request: StreamRange,
    /// Bytes of the response; `None`: none came yet.
    pub response: Option<StreamRange>,
    /// When the last call of the response ended.
    pub answered_ns: u64,
    /// When its last call had not begun yet.
    pub answer_began_after_ns: u64,
    /// Calls of both turns.
    pub calls: u64,
    /// Bytes are missing in between: rows were lost, or moved without a call.
    pub has_gap: bool,
    /// Its time until then is accounted.
    pub accounted_ns: u64,
    /// Says what that time went to.
    pub budget: Budget,
}

impl Exchange {
    fn new(call: &MovingCall) -> Self {
        let begin_ns = call.begin_ns.min(call.end_ns);
        Self {
            begin_ns,
            asked_ns: begin_ns,
            accounted_ns: begin_ns,
            first_call_ns: call.end_ns,
            first_thread: call.thread,
            requested_ns: call.end_ns,
            request_thread: call.thread,
            request_began_after_ns: call.began_after_ns,
            asked_for: None,
            request: call.range,
            response: None,
            answered_ns: call.end_ns,
            answer_began_after_ns: call.began_after_ns,
            calls: 1,
            has_gap: false,
            budget: Budget::default(),
        }
    }

    fn add_request(&mut self, call: &MovingCall) {
        self.requested_ns = self.requested_ns.max(call.end_ns);
        self.request_thread = call.thread;
        self.request_began_after_ns = call.began_after_ns;
        self.request.end = call.range.end;
        self.calls += 1;
    }

    /// Adds a call of the response; its time is to be accounted until then.
    pub fn add_response(&mut self, call: &MovingCall) {
        let first = self.response.map_or(call.range.first, |range| range.first);
        self.response = Some(StreamRange {
            first,
            end: call.range.end,
        });
        self.answered_ns = self.accounted_ns.max(call.end_ns);
        self.answer_began_after_ns = call.began_after_ns;
        self.calls += 1;
    }

    fn response_bytes(&self) -> u64 {
        self.response.map_or(0, StreamRange::bytes)
    }
}

/// Says what was counted on a connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct TurnCounts {
    /// Exchanges with a response.
    pub exchanges: u64,
    /// Calls with bytes from the client.
    pub request_calls: u64,
    /// Calls with bytes from the server.
    pub response_calls: u64,
    /// Bytes crossed without doubt.
    certain: u64,
    /// Bytes crossed, if the end of a call was not noted late.
    possible: u64,
    /// Exchanges that have gaps.
    pub broken: u64,
    /// Requests without a response.
    pub unanswered: u64,
}

/// Whether the ends of a connection take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionClass {
    /// One asks, the other answers.
    TurnTaking,
    /// Only one sends.
    OneSided,
    /// Both send at once: pipelined or multiplexed requests, or two streams.
    Interleaved,
    /// It ended, or the recording did, before an answer.
    Unanswered,
}

impl TurnCounts {
    /// Returns the class, as far as the turns say.
    pub fn class(&self) -> ConnectionClass {
        let is_often = |crossings: u64, of: u64| crossings >= 2 && crossings * of > self.exchanges;
        if is_often(self.certain, CERTAIN_OF) || is_often(self.possible, POSSIBLE_OF) {
            ConnectionClass::Interleaved
        } else if self.request_calls == 0 || self.response_calls == 0 {
            ConnectionClass::OneSided
        } else if self.exchanges == 0 {
            ConnectionClass::Unanswered
        } else {
            ConnectionClass::TurnTaking
        }
    }

    fn cross(&mut self, arrived_ns: u64, ended_ns: u64, began_after_ns: u64) -> bool {
        if arrived_ns + CALL_END_NS >= ended_ns {
            return false;
        }
        self.certain += u64::from(arrived_ns < began_after_ns);
        self.possible += 1;
        true
    }
}

/// Says what a call did to the turns.
#[derive(Debug)]
pub enum TurnChange {
    /// Nothing that matters.
    None,
    /// A request began; the exchange before it is over.
    Begun(Option<Box<Exchange>>),
    /// The open exchange has another call of its response, which is to be accounted and added.
    Answered,
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
    /// No row of a call was lost: bytes that no call moved were spliced.
    is_lossless: bool,
    /// Says what was counted.
    pub counts: TurnCounts,
}

impl TurnTracker {
    /// Starts without any.
    pub fn new(side: Side, is_lossless: bool) -> Self {
        Self {
            side,
            is_lossless,
            open: None,
            before: None,
            ends: [None; 2],
            counts: TurnCounts::default(),
        }
    }

    /// Returns the open exchange.
    pub fn open(&mut self) -> Option<&mut Exchange> {
        self.open.as_deref_mut()
    }

    /// Returns the open exchange if it is the same as this one at the other end: it has the same bytes.
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

    /// Returns when the open exchange began, if it has no response yet: until it has, nothing of its time is accounted.
    pub fn waits_since(&self) -> Option<u64> {
        let open = self.open.as_ref()?;
        open.response.is_none().then_some(open.begin_ns)
    }

    /// Adds a call, in the order of time.
    pub fn add(&mut self, call: &MovingCall) -> TurnChange {
        let has_gap = self.has_gap(call);
        match call.is_request {
            true => {
                self.counts.request_calls += 1;
                self.add_request(call, has_gap)
            }
            false => {
                self.counts.response_calls += 1;
                self.add_response(call, has_gap)
            }
        }
    }

    /// Whether bytes are missing before those of a call.
    fn has_gap(&mut self, call: &MovingCall) -> bool {
        let end = &mut self.ends[usize::from(call.is_request)];
        let has_gap = end.is_some_and(|end| end != call.range.first);
        *end = Some(call.range.end);
        has_gap
    }

    fn add_request(&mut self, call: &MovingCall, has_gap: bool) -> TurnChange {
        match &mut self.open {
            Some(open) if open.response.is_none() => {
                open.add_request(call);
                open.has_gap |= has_gap;
                TurnChange::None
            }
            Some(open) => {
                let (ended_ns, began_ns) = (open.answered_ns, open.answer_began_after_ns);
                let is_small = call.range.bytes() <= CONTROL_MOST_BYTES
                    && open.response_bytes() >= CONTROLLED_LEAST_BYTES;
                let call = &call.no_earlier_than(ended_ns);
                let crosses = self.side == Side::Server && call.begin_ns + CALL_END_NS < ended_ns;
                if crosses && is_small {
                    open.calls += 1;
                    return TurnChange::None;
                }
                if crosses {
                    self.counts.cross(call.begin_ns, ended_ns, began_ns);
                }
                self.begin(call, has_gap, is_small && self.side == Side::Client)
            }
            None => self.begin(call, false, false),
        }
    }

    /// Begins an exchange. The one before is kept while `may_be_control`.
    fn begin(&mut self, call: &MovingCall, has_gap: bool, may_be_control: bool) -> TurnChange {
        let mut exchange = Box::new(Exchange::new(call));
        exchange.has_gap = has_gap;
        let over = self.open.replace(exchange);
        if may_be_control {
            self.before = over;
            return TurnChange::Begun(None);
        }
        TurnChange::Begun(over.inspect(|over| self.counts.end(over)))
    }

    fn add_response(&mut self, call: &MovingCall, has_gap: bool) -> TurnChange {
        // What the server says first, or what answers a request from before the recording, answers none.
        let Some(open) = &mut self.open else {
            return TurnChange::None;
        };
        if open.response.is_none() && self.side == Side::Client {
            let (ended_ns, began_ns) = (open.requested_ns, open.request_began_after_ns);
            let call = &call.no_earlier_than(ended_ns);
            let crosses = call.begin_ns + CALL_END_NS < ended_ns;
            if let Some(before) = self.before.take_if(|_| crosses) {
                let control = std::mem::replace(open, before);
                open.calls += control.calls;
                open.has_gap |= has_gap && !self.is_lossless;
                return TurnChange::Answered;
            }
            if crosses {
                self.counts.cross(call.begin_ns, ended_ns, began_ns);
            }
        }
        // Where no row was lost, bytes that moved without a call are of this response: sendfile.
        open.has_gap |= has_gap && !self.is_lossless;
        TurnChange::Answered
    }

    /// Takes the exchange that was kept while it might go on.
    pub fn take_before(&mut self) -> Option<Box<Exchange>> {
        let before = self.before.take();
        before.inspect(|it| self.counts.end(it))
    }

    /// The connection ended, or the recording did: takes the open exchange.
    pub fn finish(&mut self) -> Option<Box<Exchange>> {
        let open = self.open.take();
        open.inspect(|it| self.counts.end(it))
    }
}

impl TurnCounts {
    fn end(&mut self, exchange: &Exchange) {
        match exchange.response {
            None => self.unanswered += 1,
            Some(_) if exchange.has_gap => self.broken += 1,
            Some(_) => self.exchanges += 1,
        }
    }
}
