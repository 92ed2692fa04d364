//! A request, and its rank among others.

use std::cmp::Reverse;

use super::datagrams::RepeatedQuestions;
use super::endpoint::Endpoint;
use super::holder_times::HolderTimes;
use super::id::{EndpointId, RequestId, ThreadId};
use super::loop_pool::LoopPoolWait;
use super::output_gap::OutputGap;
use super::pace::ClientPace;
use super::pauses::ResponsePauses;
use super::pool::PoolWait;
use super::sleep_gap::SleepGap;
use super::trail::RequestBreakdown;
use super::turns::{Exchange, StreamRange};

/// A request and its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its connection.
    pub endpoint: EndpointId,
    /// Its name.
    pub id: RequestId,
    /// When its first byte was there.
    pub begin_ns: u64,
    /// When the last byte of its response was.
    pub end_ns: u64,
    /// Bytes of the request.
    pub request: StreamRange,
    /// Bytes of the response.
    pub response: StreamRange,
    /// Send and receive calls.
    pub calls: u64,
    /// The thread that sent or took the request.
    pub thread: ThreadId,
    /// The wait for its connection, before it.
    pub pool: Option<PoolWait>,
    /// Waits for the reader of its output, before it.
    pub output: Option<OutputGap>,
    /// The sleep of its client before it.
    pub sleep: Option<SleepGap>,
    /// Its wait for a connection to another server.
    pub loop_pool: Option<LoopPoolWait>,
    /// Requests that its thread had begun to serve.
    pub served: u64,
    /// Its datagrams that were repeated.
    pub again: RepeatedQuestions,
    /// Pauses of the server within its response.
    pub pauses: ResponsePauses,
    /// Sleeps of the client by its own pace.
    pub pace: ClientPace,
    /// Work of processes that it waited for.
    pub holders: Option<Box<HolderTimes>>,
    /// Where its time went.
    pub breakdown: RequestBreakdown,
}

impl Request {
    /// Makes a request of an exchange that is over.
    pub(super) fn new(endpoint: &Endpoint, id: EndpointId, exchange: Exchange) -> Self {
        Self {
            endpoint: id,
            id: RequestId {
                conn: endpoint.conn,
                offset: exchange.request.first,
            },
            begin_ns: exchange.begin_ns,
            end_ns: exchange.answered_ns,
            request: exchange.request,
            response: exchange.response.unwrap_or_default(),
            calls: exchange.calls,
            thread: exchange.request_thread,
            pool: exchange.pool,
            output: exchange.output,
            sleep: exchange.sleep,
            loop_pool: exchange.loop_pool,
            served: exchange.served,
            again: exchange.again,
            pauses: exchange.pauses,
            pace: exchange.pace,
            holders: exchange.holders,
            breakdown: exchange.breakdown,
        }
    }

    /// Returns the duration, ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }

    /// The order of answers: the slowest first.
    pub(super) fn rank(&self) -> (Reverse<u64>, u64, RequestId) {
        (Reverse(self.duration_ns()), self.begin_ns, self.id)
    }
}

/// A request by its rank: the greatest is the one that is dropped first.
#[derive(Debug)]
pub(super) struct RankedRequest(pub Request);

impl PartialEq for RankedRequest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RankedRequest {}

impl PartialOrd for RankedRequest {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RankedRequest {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.rank().cmp(&other.0.rank())
    }
}
