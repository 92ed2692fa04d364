//! Requests that are compared: the slowest [`KEPT`] of a service, and so many drawn from all, by a hash of their names.
//! Memory does not grow with the requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::contrast_report::TraitKind;
use super::id::{EndpointId, RequestId, ThreadId};
use super::part::PartTimes;
use crate::histogram::bucket_of;

/// Requests that are kept of each kind: the slowest, and those that are drawn.
const KEPT: usize = 1_024;

/// A request, as far as it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestTraits {
    /// How long it took, ns.
    pub duration_ns: u64,
    /// Its name.
    pub id: RequestId,
    /// Numbers, in the order of [`NUMBERS`].
    pub numbers: [u64; NUMBERS.len()],
    /// Its connection.
    pub endpoint: EndpointId,
    /// The thread that took or sent it.
    pub thread: ThreadId,
    /// Its parts.
    pub parts: PartTimes,
}

/// Kinds of the numbers of a request.
pub const NUMBERS: [TraitKind; 4] = [
    TraitKind::RequestBytes,
    TraitKind::ResponseBytes,
    TraitKind::Calls,
    TraitKind::Behind,
];

/// Requests of a service that are compared.
#[derive(Debug, Default)]
pub struct ContrastDigest {
    slowest: BinaryHeap<Reverse<RequestTraits>>,
    drawn: BinaryHeap<(u64, RequestTraits)>,
}

impl ContrastDigest {
    /// Adds a request; calls `traits` only if it is kept.
    pub fn add(&mut self, duration_ns: u64, id: RequestId, traits: impl Fn() -> RequestTraits) {
        let least = self.slowest.peek().map_or(0, |it| it.0.duration_ns);
        if self.slowest.len() < KEPT || duration_ns > least {
            self.slowest.push(Reverse(traits()));
            if self.slowest.len() > KEPT {
                self.slowest.pop();
            }
        }
        let lot = random_rank(id);
        let most = self.drawn.peek().map_or(0, |it| it.0);
        if self.drawn.len() < KEPT || lot < most {
            self.drawn.push((lot, traits()));
            if self.drawn.len() > KEPT {
                self.drawn.pop();
            }
        }
    }

    /// Returns the kept requests with durations in this bucket or above.
    pub(super) fn slow_requests(&self, from_bucket: usize) -> Vec<&RequestTraits> {
        let slowest = self.slowest.iter().map(|it| &it.0);
        let slow = slowest.filter(|it| bucket_of(it.duration_ns) >= from_bucket);
        slow.collect()
    }

    /// Returns the random sample of the other requests.
    pub(super) fn other_requests(&self, slow_from_bucket: usize) -> Vec<&RequestTraits> {
        let drawn = self.drawn.iter().map(|(_, it)| it);
        let others = drawn.filter(|it| bucket_of(it.duration_ns) < slow_from_bucket);
        others.collect()
    }
}

/// A number that looks random (the last step of MurmurHash3): the same for the same request.
fn random_rank(id: RequestId) -> u64 {
    let mut mixed = id.conn.rotate_left(32) ^ id.offset;
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    mixed ^ mixed >> 33
}
