//! Services: requests of one process, one address and one side, and what their time went to. What is kept grows with the
//! services and the spread of durations, not with the requests.

use std::collections::HashMap;

use table::tables::Connection;

use super::blockers::BlockerDigest;
use super::contrast_digest::ContrastDigest;
use super::functions::FunctionCounts;
use super::holder_times::HolderTimes;
use super::id::RequestId;
pub use super::id::ServiceId;
use super::loop_pool::LoopPoolDigests;
use super::output_gap::OutputGapDigest;
use super::part::{PartShares, PartTimes};
use super::pauses::PauseDigest;
use super::pool::PoolDigest;
use super::queue_times::QueueTimes;
use super::repeats::RepeatDigest;
use super::resets::ResetDigest;
use super::runs::RunDigest;
use super::series::SeriesDigest;
use super::sleep_gap::SleepGapDigest;
use super::subjects::SubjectTable;
use super::workers::WorkerDigest;
pub use crate::answer::Side;
use crate::histogram::{Histogram, bucket_of};
use crate::rows::top::Top;
use crate::waits::NameTable;

/// The slowest of so many are judged by themselves.
const SLOWEST_OF: u64 = 100;

/// Key of a service: process name, side and address, which all its requests share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// Command name of the process.
    pub name: String,
    /// Side of the connection on which the process is.
    pub side: Side,
    /// Address at which it listens, or that it asks.
    pub address: String,
}

impl ServiceKey {
    /// Returns the service of a connection.
    pub fn new(row: &Connection, side: Side, names: &NameTable) -> Self {
        let address = match side {
            Side::Server => &row.local,
            Side::Client => &row.remote,
        };
        let key = Self::at(row.pid, side, address.clone(), names);
        // Packets show a host, and no process and no namespace.
        let host = row.local.rsplit_once(':').filter(|_| row.netns == 0);
        match host {
            Some((host, _)) => Self {
                name: host.to_owned(),
                ..key
            },
            None => key,
        }
    }

    /// Returns the service of a process at an address.
    pub fn at(pid: Option<u32>, side: Side, address: String, names: &NameTable) -> Self {
        let comm = pid.and_then(|pid| names.comm(pid));
        Self {
            name: comm.unwrap_or("?").to_owned(),
            side,
            address,
        }
    }
}

/// Times of requests: all of it, and what of it was in the process at the other end, where that is recorded.
#[derive(Debug, Clone, Copy, Default)]
struct PartSums {
    all: PartTimes,
    peer: PartTimes,
}

/// The slowest of a service's requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlowestRequests {
    /// How many.
    pub count: u64,
    /// The bucket of durations of the shortest of them.
    pub from_bucket: usize,
    /// Their parts.
    pub all: PartTimes,
    /// Parts that lie in the process at the other end.
    pub peer: PartTimes,
}

/// A request as a service keeps it.
#[derive(Debug, Clone, Copy)]
pub struct RequestSums<'a> {
    /// Name.
    pub id: RequestId,
    /// When it began and ended, ns.
    pub time: (u64, u64),
    /// Its parts.
    pub parts: &'a PartTimes,
    /// Parts of it that lie in the process at the other end.
    pub peer: &'a PartTimes,
    /// Samples of functions that ran for it.
    pub functions: &'a FunctionCounts,
    /// Most requests that it waited behind at a time.
    pub queue: u64,
}

/// The requests of a service.
#[derive(Debug, Default)]
pub struct ServiceDigest {
    durations: Histogram,
    /// Sums of the requests of each bucket of durations.
    by_bucket: Vec<Option<Box<PartSums>>>,
    sums: PartSums,
    functions: FunctionCounts,
    /// Functions of the requests of each bucket of durations.
    functions_by_bucket: Vec<FunctionCounts>,
    /// The longest queue that a request waited in.
    pub queue_most: u64,
    /// Most bytes that a client sent until a TLS handshake was over; 0: none was seen.
    pub handshake_bytes: u64,
    /// Stacks, threads and services that took the time.
    pub subjects: SubjectTable,
    /// How requests follow each other.
    pub series: SeriesDigest,
    /// Requests in series.
    pub runs: RunDigest,
    /// Requests that resets answered.
    pub resets: ResetDigest,
    /// Requests with questions that were asked again.
    pub repeats: RepeatDigest,
    /// The long ones, and what waited behind them.
    pub blockers: BlockerDigest,
    /// The processes that serve.
    pub workers: WorkerDigest,
    /// Waits for a connection, before requests.
    pub pool: PoolDigest,
    /// Waits for the reader of output, before its requests.
    pub output: OutputGapDigest,
    /// Sleeps of a client before its requests.
    pub sleep: SleepGapDigest,
    /// Waits of its requests for a connection of their loop to another server.
    pub loop_pools: LoopPoolDigests,
    /// Pauses that timers ended.
    pub pauses: PauseDigest,
    /// Work of processes that requests waited for.
    pub holders: HolderTimes,
    /// Time of the requests that asked other servers meanwhile, ns.
    pub asking_ns: u64,
    /// Time of queues in which threads worked for no other request.
    pub queue: QueueTimes,
    /// Run-queue delay that is part of every wake-up, ns.
    pub wakes_ns: u64,
    /// Slow and other requests, to be compared.
    pub contrast: ContrastDigest,
    /// Smallest round trip of any connection, ns; `None`: no sample has one.
    pub path_ns: Option<u64>,
    /// Connections with the most time, by their position.
    pub connections: Top,
    /// Processes with the most time.
    pub processes: Top,
    /// Processes at the other ends, where these are of this host.
    pub others: Top,
    /// The slowest: its duration and its name.
    pub longest: Option<(u64, RequestId)>,
    /// From the start of the first to the end of the last, ns.
    pub time: Option<(u64, u64)>,
}

impl ServiceDigest {
    /// Adds the times of one request.
    pub fn add(&mut self, request: &RequestSums<'_>) {
        let (begin_ns, end_ns) = request.time;
        let duration_ns = end_ns.saturating_sub(begin_ns);
        self.durations.add(duration_ns);
        let bucket = bucket_of(duration_ns);
        if bucket >= self.by_bucket.len() {
            self.by_bucket.resize(bucket + 1, None);
        }
        if !request.functions.is_empty() {
            self.functions.add_all(request.functions);
            let buckets = self.by_bucket.len();
            self.functions_by_bucket
                .resize_with(buckets, FunctionCounts::default);
            self.functions_by_bucket[bucket].add_all(request.functions);
        }
        let sums = self.by_bucket[bucket].get_or_insert_with(Box::default);
        sums.add(request);
        self.sums.add(request);
        self.queue_most = self.queue_most.max(request.queue);
        if self
            .longest
            .is_none_or(|(most_ns, _)| duration_ns > most_ns)
        {
            self.longest = Some((duration_ns, request.id));
        }
        let (first_ns, last_ns) = self.time.unwrap_or((begin_ns, end_ns));
        self.time = Some((first_ns.min(begin_ns), last_ns.max(end_ns)));
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.durations.count()
    }

    /// Returns the durations of all requests.
    pub fn durations(&self) -> &Histogram {
        &self.durations
    }

    /// Returns the parts of all.
    pub fn all(&self) -> PartShares {
        PartShares(self.sums.all)
    }

    /// Returns the functions of all.
    pub fn functions(&self) -> &FunctionCounts {
        &self.functions
    }

    /// Returns the functions of the slowest 1 %, one request at least.
    pub fn slowest_functions(&self) -> FunctionCounts {
        let wanted = self.requests().div_ceil(SLOWEST_OF);
        let mut counts: Vec<_> = self.durations.buckets().collect();
        let (mut seen, mut sum) = (0, FunctionCounts::default());
        while let Some((bucket, count)) = counts.pop()
            && seen < wanted
        {
            seen += count;
            if let Some(functions) = self.functions_by_bucket.get(bucket) {
                sum.add_all(functions);
            }
        }
        sum
    }

    /// Returns the parts of all that lie in the process at the other end.
    pub fn peer(&self) -> PartTimes {
        self.sums.peer
    }

    /// Returns the slowest 1 %, one at least. Requests of about the same duration (a bucket of the histogram) count
    /// all or not at all, so that it may be more than that.
    pub fn slowest(&self) -> SlowestRequests {
        let wanted = self.requests().div_ceil(SLOWEST_OF);
        self.slowest_while(|slowest, _| slowest < wanted)
    }

    /// Returns the slowest 1 %, one at least. Requests of about the same duration count all or not at all, so that it
    /// may be fewer than that.
    pub fn slowest_at_most(&self) -> SlowestRequests {
        let wanted = self.requests().div_ceil(SLOWEST_OF);
        self.slowest_while(|slowest, next| slowest == 0 || slowest + next <= wanted)
    }

    /// Returns the slowest requests: whole buckets, the slowest first, while `is_in` accepts their
    /// number.
    fn slowest_while(&self, is_in: impl Fn(u64, u64) -> bool) -> SlowestRequests {
        let mut counts: Vec<_> = self.durations.buckets().collect();
        let mut slowest = SlowestRequests::default();
        while let Some((bucket, count)) = counts.pop()
            && is_in(slowest.count, count)
        {
            slowest.count += count;
            slowest.from_bucket = bucket;
            if let Some(Some(sums)) = self.by_bucket.get(bucket) {
                slowest.all.add_all(&sums.all);
                slowest.peer.add_all(&sums.peer);
            }
        }
        slowest
    }
}

impl PartSums {
    fn add(&mut self, request: &RequestSums<'_>) {
        self.all.add_all(request.parts);
        self.peer.add_all(request.peer);
    }
}

/// Services with an address of their own. A program that asks more addresses than that has one service for the rest.
const ADDRESSES_MOST: usize = 4_096;

/// Address of the service that has all others.
pub const OTHER_ADDRESSES: &str = "other addresses";

/// All services.
#[derive(Debug, Default)]
pub struct ServiceTable {
    numbers: HashMap<ServiceKey, ServiceId>,
    services: Vec<(ServiceKey, ServiceDigest)>,
}

impl ServiceTable {
    /// Returns the id of a service; a new service gets one.
    pub fn number(&mut self, mut key: ServiceKey) -> ServiceId {
        if self.services.len() >= ADDRESSES_MOST && !self.numbers.contains_key(&key) {
            OTHER_ADDRESSES.clone_into(&mut key.address);
        }
        let next = ServiceId::from_number(self.services.len() as u32);
        let services = &mut self.services;
        *self.numbers.entry(key).or_insert_with_key(|key| {
            services.push((key.clone(), ServiceDigest::default()));
            next
        })
    }

    /// Returns the id of the same service, seen from this side.
    pub fn on_side(&mut self, id: ServiceId, side: Side) -> ServiceId {
        let key = self.key(id).clone();
        self.number(ServiceKey { side, ..key })
    }

    /// Returns the key of a service.
    pub fn key(&self, id: ServiceId) -> &ServiceKey {
        &self.services[id.index()].0
    }

    /// Returns the requests of a service.
    pub fn digest(&self, id: ServiceId) -> &ServiceDigest {
        &self.services[id.index()].1
    }

    /// Returns the digest of a service, to change it.
    pub fn digest_mut(&mut self, id: ServiceId) -> &mut ServiceDigest {
        &mut self.services[id.index()].1
    }

    /// Returns the numbers of all services.
    pub fn ids(&self) -> impl Iterator<Item = ServiceId> + use<> {
        (0..self.services.len() as u32).map(ServiceId::from_number)
    }

    /// Returns the position of each service among those that have requests.
    pub fn ranks(&self) -> HashMap<ServiceId, usize> {
        let ranked = self.rank_services().into_iter();
        let ids = ranked.filter_map(|(key, _)| self.numbers.get(key));
        ids.copied().zip(0..).collect()
    }

    /// Returns the services that have requests, those with the most time first.
    pub fn rank_services(&self) -> Vec<&(ServiceKey, ServiceDigest)> {
        let has_any = |(_, digest): &&(ServiceKey, ServiceDigest)| digest.requests() > 0;
        let mut ranked: Vec<_> = self.services.iter().filter(has_any).collect();
        ranked.sort_by(|(a_key, a), (b_key, b)| {
            (b.sums.all.total_ns(), a_key).cmp(&(a.sums.all.total_ns(), b_key))
        });
        ranked
    }
}
