//! Long requests of a service that keep its threads, and what waits behind them.
//!
//! The mean wait in a queue grows with the mean square of the time that a request keeps its server (Pollaczek and Khinchine,
//! for Poisson arrivals; Kleinrock, "Queueing Systems" 1, 5.6). So the share of the sum of squares that is of the longest
//! hundredth is the share of the queue that they make. Where all are about alike, it is small, however long the queue is.

use super::endpoint::EndpointId;
use super::id::RequestId;
use super::part::{PartTimes, RequestPart};
use crate::histogram::{Histogram, bucket_of};
use crate::rows::top::Top;
use crate::waits::populations;

/// Where the times do not fall into two populations, the longest of so many requests is a long one.
const LONGEST_OF: u64 = 100;

/// A request that kept its thread for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongRequest {
    /// How long, ns.
    pub kept_ns: u64,
    /// Name.
    pub id: RequestId,
    /// Its connection.
    pub endpoint: EndpointId,
}

/// How long requests kept the threads that served them.
#[derive(Debug, Default)]
pub struct BlockerDigest {
    kept: Histogram,
    /// Sums by bucket.
    by_bucket: Vec<Option<Box<KeptSums>>>,
    /// Connections by the squares of their requests, in µs².
    connections: Top,
    longest: Option<LongRequest>,
}

/// Sums of requests that kept their threads for about the same time.
#[derive(Debug, Clone, Default)]
struct KeptSums {
    /// Of the squares of these times, s².
    squares: f64,
    /// Activity with which they kept their threads busy.
    parts: PartTimes,
    /// Time in which others waited for them: also while their threads had no CPU, ns.
    blocking_ns: u64,
}

/// The longest requests of a service, by the time that they kept its threads.
#[derive(Debug, Clone, Copy, Default)]
pub struct LongRequests {
    /// How many.
    pub count: u64,
    /// The shortest of them kept its thread so long, ns.
    pub from_ns: u64,
    /// Their share of the sum of squares: the share of the queue that they make.
    pub queue_share: f64,
    /// Time of the requests, by part.
    pub parts: PartTimes,
    /// Time in which others had to wait for them, ns.
    pub blocking_ns: u64,
}

/// Parts in which the thread of a request could run, and had no CPU: others wait for it as well.
const WITHOUT_CPU: [RequestPart; 3] = [
    RequestPart::RunQueue,
    RequestPart::Preempted,
    RequestPart::CpuQuota,
];

/// Returns the parts in which a request keeps its thread from others: all but the queue, and what TCP or the other end did.
fn blocking_parts(parts: &PartTimes) -> PartTimes {
    let mut blocking = PartTimes::default();
    for (part, ns) in parts.iter() {
        let is_free = matches!(
            part,
            RequestPart::Queued
                | RequestPart::Unread
                | RequestPart::RunQueue
                | RequestPart::Preempted
                | RequestPart::CpuQuota
                | RequestPart::Unknown
        );
        if !part.is_elsewhere() && !is_free {
            blocking.add(part, ns);
        }
    }
    blocking
}

impl BlockerDigest {
    /// Adds a request that a server answered.
    pub fn add(&mut self, id: RequestId, endpoint: EndpointId, parts: &PartTimes) {
        let blocking = blocking_parts(parts);
        let kept_ns = blocking.total_ns();
        let without_cpu_ns: u64 = WITHOUT_CPU.iter().map(|it| parts.get(*it)).sum();
        self.kept.add(kept_ns);
        let bucket = bucket_of(kept_ns);
        if bucket >= self.by_bucket.len() {
            self.by_bucket.resize(bucket + 1, None);
        }
        let sums = self.by_bucket[bucket].get_or_insert_default();
        let s = kept_ns as f64 / 1e9;
        sums.squares += s * s;
        sums.parts.add_all(&blocking);
        sums.blocking_ns += kept_ns + without_cpu_ns;
        let us = kept_ns / 1_000;
        self.connections
            .add(endpoint.index() as u32, us.saturating_mul(us));
        if self.longest.is_none_or(|it| kept_ns > it.kept_ns) {
            self.longest = Some(LongRequest {
                kept_ns,
                id,
                endpoint,
            });
        }
    }

    /// Returns the longest request.
    pub fn longest_request(&self) -> Option<LongRequest> {
        self.longest
    }

    /// Returns the long requests: those of the slow population, if the times fall into two; else the longest hundredth. At
    /// least one, and of about the same time (a bucket of the histogram) all or none.
    pub fn long_requests(&self, jiffy_ns: u64) -> LongRequests {
        let boundary = populations::find_boundary(&self.kept, jiffy_ns);
        let wanted = self.kept.count().div_ceil(LONGEST_OF);
        let sums = |bucket: usize| self.by_bucket.get(bucket)?.as_deref();
        let squares = |bucket: usize| sums(bucket).map_or(0.0, |it| it.squares);
        let mut counts: Vec<_> = self.kept.buckets().collect();
        let all: f64 = counts.iter().map(|(bucket, _)| squares(*bucket)).sum();
        let mut long = LongRequests::default();
        let mut of_long = 0.0;
        while let Some((bucket, count)) = counts.pop() {
            let is_long = match boundary {
                Some(least) => bucket >= least,
                None => long.count + count <= wanted,
            };
            if long.count > 0 && !is_long {
                break;
            }
            long.count += count;
            long.from_ns = crate::histogram::lower_edge(bucket);
            of_long += squares(bucket);
            if let Some(sums) = sums(bucket) {
                long.parts.add_all(&sums.parts);
                long.blocking_ns += sums.blocking_ns;
            }
        }
        long.queue_share = if all > 0.0 { of_long / all } else { 0.0 };
        long
    }
}
