//! Services: requests of one process, one address and one side, and what their time went to. What is kept grows with the
//! services and the spread of durations, not with the requests.

use std::collections::HashMap;

use serde::Serialize;
use table::tables::Connection;

use super::part::{PartShares, PartTimes};
use crate::histogram::{Histogram, bucket};
use crate::waits::NameTable;

/// The slowest of so many are judged by themselves.
const SLOWEST_OF: u64 = 100;

/// Says which side of a connection a process is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// It answers.
    Server,
    /// It asks.
    Client,
}

impl Side {
    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// Says what requests of a service have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// Command name of the process.
    pub name: String,
    /// Says which side it is on.
    pub side: Side,
    /// Address at which it listens, or that it asks.
    pub address: String,
}

impl ServiceKey {
    /// Returns the service of a connection.
    pub fn new(row: &Connection, side: Side, names: &NameTable) -> Self {
        let comm = row.pid.and_then(|pid| names.comm(pid));
        let address = match side {
            Side::Server => &row.local,
            Side::Client => &row.remote,
        };
        Self {
            name: comm.unwrap_or("?").to_owned(),
            side,
            address: address.clone(),
        }
    }
}

/// Number of a service in a [`ServiceTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServiceId(u32);

/// The requests of a service.
#[derive(Debug, Default)]
pub struct ServiceDigest {
    durations: Histogram,
    /// Sums of the requests of each bucket of durations.
    by_bucket: Vec<Option<Box<PartTimes>>>,
    all: PartTimes,
    /// The longest queue that a request waited in.
    pub queue_most: u64,
    /// Most bytes that a client sent until a TLS handshake was over; 0: none was seen.
    pub handshake_bytes: u64,
}

impl ServiceDigest {
    /// Adds a request.
    pub fn add(&mut self, duration_ns: u64, parts: &PartTimes, queue: u64) {
        self.durations.add(duration_ns);
        let bucket = bucket(duration_ns);
        if bucket >= self.by_bucket.len() {
            self.by_bucket.resize(bucket + 1, None);
        }
        self.by_bucket[bucket]
            .get_or_insert_with(Box::default)
            .add_all(parts);
        self.all.add_all(parts);
        self.queue_most = self.queue_most.max(queue);
    }

    /// Returns how many there are.
    pub fn requests(&self) -> u64 {
        self.durations.count()
    }

    /// Returns their durations.
    pub fn durations(&self) -> &Histogram {
        &self.durations
    }

    /// Returns the parts of all.
    pub fn all(&self) -> PartShares {
        PartShares(self.all)
    }

    /// Returns the parts of the slowest hundredth, of one at least. Requests of about the same duration (a bucket of
    /// the histogram) count all or not at all.
    pub fn slowest(&self) -> PartShares {
        let wanted = self.requests().div_ceil(SLOWEST_OF);
        let mut counts: Vec<_> = self.durations.buckets().collect();
        let (mut seen, mut sum) = (0, PartTimes::default());
        while let Some((bucket, count)) = counts.pop()
            && seen < wanted
        {
            seen += count;
            if let Some(Some(parts)) = self.by_bucket.get(bucket) {
                sum.add_all(parts);
            }
        }
        PartShares(sum)
    }
}

/// All services.
#[derive(Debug, Default)]
pub struct ServiceTable {
    numbers: HashMap<ServiceKey, ServiceId>,
    services: Vec<(ServiceKey, ServiceDigest)>,
}

impl ServiceTable {
    /// Returns the number of a service, which is made if it is new.
    pub fn number(&mut self, key: ServiceKey) -> ServiceId {
        let next = ServiceId(self.services.len() as u32);
        let services = &mut self.services;
        *self.numbers.entry(key).or_insert_with_key(|key| {
            services.push((key.clone(), ServiceDigest::default()));
            next
        })
    }

    /// Returns what requests of a service have in common.
    pub fn key(&self, id: ServiceId) -> &ServiceKey {
        &self.services[id.0 as usize].0
    }

    /// Returns the requests of a service.
    pub fn digest_mut(&mut self, id: ServiceId) -> &mut ServiceDigest {
        &mut self.services[id.0 as usize].1
    }

    /// Returns the services that have requests, those with the most time first.
    pub fn ranked(&self) -> Vec<&(ServiceKey, ServiceDigest)> {
        let has_any = |(_, digest): &&(ServiceKey, ServiceDigest)| digest.requests() > 0;
        let mut ranked: Vec<_> = self.services.iter().filter(has_any).collect();
        ranked.sort_by(|(a_key, a), (b_key, b)| {
            (b.all.total_ns(), a_key).cmp(&(a.all.total_ns(), b_key))
        });
        ranked
    }
}
