//! Requests, which of them are wanted, and the slowest of these.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::str::FromStr;

use super::datagrams::RepeatedQuestions;
use super::endpoint::{Endpoint, EndpointId};
use super::history::{History, ThreadId};
use super::page::PageDigest;
use super::pool::PoolWait;
use super::service::ServiceId;
use super::trail::Budget;
use super::turns::{Exchange, StreamRange};

/// NameTable a request: its connection, and the offset of its first byte in the stream to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Socket cookie.
    pub conn: u64,
    /// Offset of the first byte.
    pub offset: u64,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:q{}", self.conn, self.offset)
    }
}

/// A text that names no request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestIdError(String);

impl fmt::Display for RequestIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no request: CONN:qOFFSET, such as 4711:q51790, as `whylat report --requests` prints it",
            self.0
        )
    }
}

impl std::error::Error for RequestIdError {}

impl FromStr for RequestId {
    type Err = RequestIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once(":q").and_then(|(conn, offset)| {
            Some(Self {
                conn: conn.parse().ok()?,
                offset: offset.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| RequestIdError(text.to_owned()))
    }
}

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
    /// Requests that its thread had begun to serve.
    pub served: u64,
    /// Its datagrams that were repeated.
    pub again: RepeatedQuestions,
    /// Where its time went.
    pub budget: Budget,
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
            served: exchange.served,
            again: exchange.again,
            budget: exchange.budget,
        }
    }

    /// Returns how long it took, ns.
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

/// Says which requests are wanted. Times count from the recording's start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// Only those that ended then or later, ns.
    pub from_ns: Option<u64>,
    /// Only those that ended before, ns.
    pub to_ns: Option<u64>,
    /// Only those of this process.
    pub pid: Option<u32>,
    /// Only those that this thread sent or took.
    pub tid: Option<u32>,
    /// Only those of this connection: its id, one of its addresses, or its name as printed.
    pub object: Option<String>,
    /// Only those that took longer, ns.
    pub longer_than_ns: Option<u64>,
    /// Only this one.
    pub id: Option<RequestId>,
}

/// The slowest of the requests that are wanted.
#[derive(Debug)]
pub(super) struct Listing {
    filter: RequestFilter,
    started_ns: u64,
    limit: usize,
    slowest: BinaryHeap<RankedRequest>,
    /// All, if anybody takes them.
    over: Option<Vec<Request>>,
    /// Requests of a page, if there will be one.
    page: Option<Box<PageDigest>>,
}

impl Listing {
    /// Lists at most `limit`.
    pub fn new(filter: RequestFilter, limit: usize, started_ns: u64) -> Self {
        Self {
            filter,
            started_ns,
            limit,
            slowest: BinaryHeap::new(),
            over: None,
            page: None,
        }
    }

    /// Keeps all, until they are taken.
    pub fn keep_all(&mut self) {
        self.over = Some(Vec::new());
    }

    /// Keeps what a page shows.
    pub fn keep_page(&mut self) {
        self.page = Some(Box::new(PageDigest::new(self.started_ns)));
    }

    /// Takes what a page shows.
    pub fn take_page(&mut self) -> Option<PageDigest> {
        self.page.take().map(|page| *page)
    }

    /// Takes what was kept.
    pub fn take_over(&mut self) -> Vec<Request> {
        self.over.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns whether a request is wanted.
    pub fn passes(&self, request: &Request, endpoint: &Endpoint, history: &History) -> bool {
        let filter = &self.filter;
        let ended_ns = request.end_ns.saturating_sub(self.started_ns);
        let thread = history.get(request.thread);
        filter.from_ns.is_none_or(|from_ns| ended_ns >= from_ns)
            && filter.to_ns.is_none_or(|to_ns| ended_ns < to_ns)
            && filter.pid.is_none_or(|pid| pid == thread.pid)
            && filter.tid.is_none_or(|tid| tid == thread.tid)
            && endpoint.is_wanted
            && filter.id.is_none_or(|id| id == request.id)
            && filter
                .longer_than_ns
                .is_none_or(|ns| request.duration_ns() > ns)
    }

    /// Adds a request that is wanted, of a service.
    pub fn add(&mut self, service: ServiceId, request: Request) {
        if let Some(page) = &mut self.page {
            page.add(service, &request);
        }
        if let Some(over) = &mut self.over {
            over.push(request.clone());
        }
        let is_slower = |it: &RankedRequest| request.rank() < it.0.rank();
        if self.slowest.len() < self.limit {
            self.slowest.push(RankedRequest(request));
        } else if self.slowest.peek().is_some_and(is_slower) {
            self.slowest.pop();
            self.slowest.push(RankedRequest(request));
        }
    }

    /// Takes the slowest, slowest first.
    pub fn take_slowest(&mut self) -> Vec<Request> {
        let sorted = std::mem::take(&mut self.slowest).into_sorted_vec();
        sorted.into_iter().map(|it| it.0).collect()
    }
}
