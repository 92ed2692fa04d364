//! Requests of a page while they come: how many by time and duration, of all of them, and those that it shows one by one: the
//! slowest of each service, and a sample. What is kept is bounded, whatever the recording holds.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};

use super::id::{RequestId, ServiceId};
use super::part::{PartTimes, RequestPart};
use super::request::{RankedRequest, Request};

/// Slowest requests of a service that are kept, and services that have such.
const SLOWEST: usize = 100;
const SERVICES: usize = 200;

/// Requests of the sample: all of a recording that has no more.
const SAMPLE: usize = 4_000;

/// Columns and cells of the map of time and duration.
const BINS: u64 = 240;
const CELLS: usize = 40_000;

/// Width of a column at first, ns.
const LEAST_BIN_NS: u64 = 1_000_000;

/// Parts of a doubling of the duration, each a row of the map.
const ROWS_OF_DOUBLING: f64 = 4.0;

/// A cell: service, largest part, column, row.
type Cell = (ServiceId, RequestPart, u64, u32);

/// Requests of a page while they come.
#[derive(Debug)]
pub(super) struct PageDigest {
    started_ns: u64,
    pub(super) bin_ns: u64,
    pub(super) cells: HashMap<Cell, u64>,
    slowest: HashMap<ServiceId, BinaryHeap<RankedRequest>>,
    sample: BinaryHeap<SampledRequest>,
}

/// A request by the hash of its name: the greatest is dropped first, so that those that stay are a sample that the order of
/// arrival does not change.
#[derive(Debug)]
struct SampledRequest(u64, RequestId, ServiceId, Request);

impl PartialEq for SampledRequest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SampledRequest {}

impl PartialOrd for SampledRequest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SampledRequest {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl PageDigest {
    /// Begins at the start of a recording.
    pub fn new(started_ns: u64) -> Self {
        Self {
            started_ns,
            bin_ns: LEAST_BIN_NS,
            cells: HashMap::new(),
            slowest: HashMap::new(),
            sample: BinaryHeap::new(),
        }
    }

    /// Adds a request of a service.
    pub fn add(&mut self, service: ServiceId, request: &Request) {
        self.count(service, request);
        self.keep_slow(service, request);
        self.keep_sample(service, request);
    }

    /// Counts a request in the heat map: by service, main part, time and duration.
    fn count(&mut self, service: ServiceId, request: &Request) {
        let since_ns = request.begin_ns.saturating_sub(self.started_ns);
        while since_ns / self.bin_ns >= BINS {
            self.widen_columns();
        }
        let key = (
            service,
            first_part(&request.breakdown.parts),
            since_ns / self.bin_ns,
            heat_row(request.duration_ns()),
        );
        *self.cells.entry(key).or_default() += 1;
        // One column is left at the end: then services and durations alone are counted.
        while self.cells.len() > CELLS && self.bin_ns < u64::MAX / 2 {
            self.widen_columns();
        }
    }

    /// Joins two columns of the heat map into one.
    fn widen_columns(&mut self) {
        self.bin_ns *= 2;
        let narrow = std::mem::take(&mut self.cells);
        for ((service, part, bin, row), count) in narrow {
            *self.cells.entry((service, part, bin / 2, row)).or_default() += count;
        }
    }

    /// Keeps a request if it is among the slowest of its service.
    fn keep_slow(&mut self, service: ServiceId, request: &Request) {
        if !self.slowest.contains_key(&service) && self.slowest.len() >= SERVICES {
            return;
        }
        let heap = self.slowest.entry(service).or_default();
        let is_slower = |least: &RankedRequest| request.rank() < least.0.rank();
        if heap.len() < SLOWEST {
            heap.push(RankedRequest(request.clone()));
        } else if heap.peek().is_some_and(is_slower) {
            heap.pop();
            heap.push(RankedRequest(request.clone()));
        }
    }

    /// Keeps a request if its hash is among the smallest: an even sample.
    fn keep_sample(&mut self, service: ServiceId, request: &Request) {
        let hash = mix_bits(request.id.conn ^ mix_bits(request.id.offset));
        let place = (hash, request.id);
        let is_less = |most: &SampledRequest| place < (most.0, most.1);
        if self.sample.len() < SAMPLE {
            let kept = SampledRequest(hash, request.id, service, request.clone());
            self.sample.push(kept);
        } else if self.sample.peek().is_some_and(is_less) {
            self.sample.pop();
            let kept = SampledRequest(hash, request.id, service, request.clone());
            self.sample.push(kept);
        }
    }

    /// Takes the requests that are kept, each once, the slowest first.
    pub(super) fn take_requests(&mut self) -> Vec<(ServiceId, Request)> {
        let slowest = std::mem::take(&mut self.slowest).into_iter();
        let slowest =
            slowest.flat_map(|(service, heap)| heap.into_iter().map(move |it| (service, it.0)));
        let sample = std::mem::take(&mut self.sample).into_iter();
        let sample = sample.map(|SampledRequest(_, _, service, request)| (service, request));
        let mut seen = HashSet::new();
        let mut all: Vec<_> = slowest
            .chain(sample)
            .filter(|(_, request)| seen.insert(request.id))
            .collect();
        all.sort_by_key(|(_, request)| request.rank());
        all
    }
}

/// Returns a number that looks like chance (SplitMix64's finalizer: Steele, Lea and Flood, 2014).
const fn mix_bits(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

/// Returns the part with the most time.
fn first_part(parts: &PartTimes) -> RequestPart {
    let largest = parts.largest();
    largest
        .first()
        .map_or(RequestPart::Unknown, |(part, _)| *part)
}

/// Returns the row of a duration in the map.
fn heat_row(ns: u64) -> u32 {
    ((ns.max(1) as f64).log2() * ROWS_OF_DOUBLING).floor() as u32
}
