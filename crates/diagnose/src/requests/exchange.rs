//! An exchange: a turn of bytes from the client, and the turn of the server that answers it.

use super::datagrams::RepeatedQuestions;
use super::history::Release;
use super::holder_times::HolderTimes;
use super::id::{EndpointId, ThreadId};
use super::loop_pool::LoopPoolWait;
pub use super::moving_call::{MovingCall, StreamRange};
use super::output_gap::OutputGap;
use super::pace::ClientPace;
use super::pauses::ResponsePauses;
use super::pool::PoolWait;
use super::sleep_gap::SleepGap;
use super::trail::RequestBreakdown;

/// A message that comes within this part of the time between two others comes at once: one of so many does by chance.
const AT_ONCE_OF: u64 = 16;

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
    /// When its last call had begun: it was sending.
    pub sending_ns: u64,
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
    /// Bytes of the last call of the request.
    pub last_bytes: u64,
    /// Datagrams of the request that were repeated.
    pub again: RepeatedQuestions,
    /// It may be control of the flow of the exchange before, and no request.
    pub may_be_control: bool,
    /// Small messages of the client that came while the server sent.
    pub(super) controls: u64,
    /// The request came in several parts, with time between.
    pub(super) has_pause: bool,
    /// Longest time between two calls of the response.
    pub pause_ns: u64,
    /// Pauses between these that timers ended.
    pub pauses: ResponsePauses,
    /// Sleeps of the client by its own pace.
    pub pace: ClientPace,
    /// Work of processes that it waited for.
    pub holders: Option<Box<HolderTimes>>,
    /// Bytes are missing in between: rows were lost, or moved without a call.
    pub has_gap: bool,
    /// The wait for its connection, before it.
    pub pool: Option<PoolWait>,
    /// Of a client, its waits for the reader of its output, before it.
    pub output: Option<OutputGap>,
    /// Of a client, its sleep before it.
    pub sleep: Option<SleepGap>,
    /// Of a loop that asked: its connection was in use until then.
    pub release: Option<Release>,
    /// Its wait for a connection to another server.
    pub loop_pool: Option<LoopPoolWait>,
    /// Requests that its thread had begun to serve.
    pub served: u64,
    /// Its time until then is accounted.
    pub accounted_ns: u64,
    /// That time, by part.
    pub breakdown: RequestBreakdown,
}

impl Exchange {
    /// Begins an exchange with the first call that moves bytes of a request.
    pub(super) fn new(call: &MovingCall) -> Self {
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
            sending_ns: begin_ns,
            asked_for: None,
            request: call.range,
            response: None,
            answered_ns: call.end_ns,
            answer_began_after_ns: call.began_after_ns,
            calls: 1,
            last_bytes: call.range.bytes(),
            again: RepeatedQuestions::new(call),
            may_be_control: false,
            controls: 0,
            has_pause: false,
            pause_ns: 0,
            pauses: ResponsePauses::default(),
            pace: ClientPace::default(),
            holders: None,
            has_gap: false,
            pool: None,
            output: None,
            sleep: None,
            release: None,
            loop_pool: None,
            served: 0,
            breakdown: RequestBreakdown::default(),
        }
    }

    /// Adds what processes did that it waited for.
    pub(super) fn add_holders(&mut self, times: HolderTimes) {
        match &mut self.holders {
            Some(holders) => holders.add(&times),
            None => self.holders = times.boxed(),
        }
    }

    /// Adds a further call that moves bytes of the same request.
    pub(super) fn add_request(&mut self, call: &MovingCall) {
        self.requested_ns = self.requested_ns.max(call.end_ns);
        self.request_thread = call.thread;
        self.request_began_after_ns = call.began_after_ns;
        self.sending_ns = self.sending_ns.max(call.begin_ns.min(call.end_ns));
        self.request.end = call.range.end;
        self.last_bytes = call.range.bytes();
        self.calls += 1;
    }

    /// Adds a question that repeats the request; after the first answer it changes no times.
    pub(super) fn repeat_question(&mut self, call: &MovingCall) {
        if self.response.is_none() {
            return self.add_request(call);
        }
        self.request.end = call.range.end;
        self.calls += 1;
    }

    /// Adds a call that moves bytes of the response; account the time until it first.
    pub fn add_response(&mut self, call: &MovingCall) {
        let first = self.response.map_or(call.range.first, |range| range.first);
        if self.response.is_some() {
            let pause_ns = call.begin_ns.saturating_sub(self.answered_ns);
            self.pause_ns = self.pause_ns.max(pause_ns);
        }
        self.response = Some(StreamRange {
            first,
            end: call.range.end,
        });
        self.answered_ns = self.accounted_ns.max(call.end_ns);
        self.answer_began_after_ns = call.began_after_ns;
        self.calls += 1;
    }

    /// Notes when the next request began, or the connection ended: if at once, the response was
    /// complete.
    pub(super) fn set_next_request(&mut self, next_ns: u64) {
        let after_ns = next_ns.saturating_sub(self.answered_ns);
        if after_ns < self.pause_ns / AT_ONCE_OF {
            self.pauses.unasked_ns = 0;
        }
    }

    /// Returns since when the other end or the path had the request, ns.
    pub(super) fn handed_ns(&self, peer: Option<&Self>) -> u64 {
        let arrived_ns = peer.map_or(self.requested_ns, |peer| peer.asked_ns);
        self.requested_ns.min(arrived_ns.max(self.sending_ns))
    }

    /// Returns the bytes of the response so far; 0 before it begins.
    pub(super) fn response_bytes(&self) -> u64 {
        self.response.map_or(0, StreamRange::bytes)
    }

    /// Returns whether the response may go on: it paused longer before than it does now.
    pub fn may_go_on(&self, now_ns: u64) -> bool {
        let waits_ns = now_ns.saturating_sub(self.answered_ns);
        self.response.is_some() && self.pause_ns > 0 && waits_ns <= self.pause_ns
    }
}
