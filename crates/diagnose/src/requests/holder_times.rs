//! Time of holders while requests waited for them: of processes that had a lock of a database or of a file, of threads that had a
//! lock of their process, and of the readers of output.

use super::id::EndpointId;
use super::part::{PartTimes, RequestPart};

/// Time of holders while requests waited for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HolderWork {
    /// By part. `Remote` is a wait for the holder's own client.
    pub parts: PartTimes,
    /// Connection of that client.
    pub client: Option<EndpointId>,
    /// Connection to the server that the holder waited for.
    pub server: Option<EndpointId>,
}

/// Time of those that requests waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HolderTimes {
    /// Of other processes.
    pub process: HolderWork,
    /// Of the readers of output.
    pub output: HolderWork,
    /// Of threads with a lock, in long waits for them.
    pub lock: HolderWork,
}

impl HolderTimes {
    /// Adds the work of those that a wait with this part was for.
    pub fn add_work(&mut self, part: RequestPart, work: &HolderWork) {
        match part {
            RequestPart::Output => self.output.add(work),
            RequestPart::Lock => self.lock.add(work),
            _ => self.process.add(work),
        }
    }

    /// Adds the times of another.
    pub fn add(&mut self, other: &Self) {
        self.process.add(&other.process);
        self.output.add(&other.output);
        self.lock.add(&other.lock);
    }

    /// Returns the times on the heap, if there are any.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

impl HolderWork {
    /// Adds the time of another.
    pub fn add(&mut self, other: &Self) {
        self.parts.add_all(&other.parts);
        self.client = self.client.or(other.client);
        self.server = self.server.or(other.server);
    }

    /// Returns the part with most of the time, and that time, ns.
    pub fn largest_part(&self) -> Option<(RequestPart, u64)> {
        let (part, ns) = self.parts.largest().into_iter().next()?;
        (2 * ns > self.parts.total_ns()).then_some((part, ns))
    }
}
