//! Times of an ordinary message: the mean over a reference set. Means add up as times do, so that what all places
//! deviate is what the whole deviates; a band of latencies bounds what any one message can do to them.

use super::tree::{PlaceTime, PlaceTimes, TreeNode};

/// The reference set of an application and direction.
#[derive(Debug, Default)]
pub(super) struct ReferenceSet {
    messages: u32,
    latency_ns: u64,
    ahead: u64,
    observed: Vec<PlaceSum>,
}

/// Over all messages of the set.
#[derive(Debug, Clone, Copy, Default)]
struct PlaceSum {
    time_ns: u64,
    count: u64,
    messages: u32,
}

/// Time of an ordinary message at a place.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct UsualTime {
    pub(super) time_ns: f64,
    pub(super) count: f64,
    /// Share of the messages that meet it at all, 0–1.
    pub(super) present: f64,
}

impl ReferenceSet {
    /// Adds the times of one usual message.
    pub(super) fn add(&mut self, latency_ns: u64, ahead: u32, times: &mut PlaceTimes) {
        self.messages += 1;
        self.latency_ns += latency_ns;
        self.ahead += u64::from(ahead);
        for (node, PlaceTime { time_ns, count }) in times.sort_places() {
            let index = node.index();
            if index >= self.observed.len() {
                self.observed.resize(index + 1, PlaceSum::default());
            }
            let sum = &mut self.observed[index];
            sum.time_ns += time_ns;
            sum.count += u64::from(count);
            sum.messages += 1;
        }
    }

    /// Returns the number of usual messages.
    pub(super) fn messages(&self) -> u32 {
        self.messages
    }

    /// Returns the mean latency of usual messages, ns; 0 without any.
    pub(super) fn latency_ns(&self) -> f64 {
        self.mean(self.latency_ns)
    }

    /// Returns the mean number of messages ahead in the queue.
    pub(super) fn mean_ahead(&self) -> f64 {
        self.mean(self.ahead)
    }

    /// Returns the usual time at a place.
    pub(super) fn usual_time(&self, node: TreeNode) -> UsualTime {
        let sum = self.observed.get(node.index()).copied().unwrap_or_default();
        UsualTime {
            time_ns: self.mean(sum.time_ns),
            count: self.mean(sum.count),
            present: self.mean(u64::from(sum.messages)),
        }
    }

    /// Returns a sum divided by the number of usual messages.
    fn mean(&self, sum: u64) -> f64 {
        match self.messages {
            0 => 0.0,
            messages => sum as f64 / f64::from(messages),
        }
    }
}
