//! Times of a queue in which threads did not work for the requests ahead.

use super::part::RequestPart;

/// Time in which requests waited for a thread, and the thread worked for no other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueTimes {
    /// The thread waited for bytes of another client, ns: a part of the queue.
    pub held_ns: u64,
    /// It could run and had no CPU, ns: beside the queue.
    pub no_cpu_ns: u64,
    /// Its CPU quota was used up, ns: beside the queue.
    pub quota_ns: u64,
}

impl QueueTimes {
    /// Adds a lack of CPU of the thread that a request waited for.
    pub fn add_lack(&mut self, part: RequestPart, ns: u64) {
        match part {
            RequestPart::CpuQuota => self.quota_ns += ns,
            _ => self.no_cpu_ns += ns,
        }
    }

    /// Adds the times of another request.
    pub fn add(&mut self, other: &Self) {
        self.held_ns += other.held_ns;
        self.no_cpu_ns += other.no_cpu_ns;
        self.quota_ns += other.quota_ns;
    }

    /// Returns the lack of CPU of threads that requests waited for, ns.
    pub fn without_cpu_ns(&self) -> u64 {
        self.no_cpu_ns + self.quota_ns
    }

    /// Returns how much of that is of these parts, ns.
    pub fn without_cpu_of(&self, parts: &[RequestPart]) -> u64 {
        let quota = parts.contains(&RequestPart::CpuQuota);
        let others = [RequestPart::RunQueue, RequestPart::Preempted];
        let other = others.iter().any(|part| parts.contains(part));
        u64::from(quota) * self.quota_ns + u64::from(other) * self.no_cpu_ns
    }
}
