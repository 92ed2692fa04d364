//! The choice of requests that are wanted, and the slowest of these.

use std::collections::BinaryHeap;

use super::endpoint::Endpoint;
use super::history::History;
use super::id::{RequestId, ServiceId};
use super::page_digest::PageDigest;
use super::request::{RankedRequest, Request};

/// Filter of requests. Times count from the recording's start.
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

    /// Keeps all requests until they are taken.
    pub fn keep_all(&mut self) {
        self.over = Some(Vec::new());
    }

    /// Starts to keep the rows that a page shows.
    pub fn keep_page(&mut self) {
        self.page = Some(Box::new(PageDigest::new(self.started_ns)));
    }

    /// Takes the rows that a page shows.
    pub fn take_page(&mut self) -> Option<PageDigest> {
        self.page.take().map(|page| *page)
    }

    /// Takes the requests that were kept.
    pub fn take_over(&mut self) -> Vec<Request> {
        self.over.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns whether a request is wanted.
    pub fn is_wanted(&self, request: &Request, endpoint: &Endpoint, history: &History) -> bool {
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
