//! Stores a sample only when something changed. In: every socket of every poll. Out: a row, or
//! the word that there is nothing new; and the counts for the loss identity.
//!
//! Kept per connection are a digest of what was last stored, the largest send queue and the
//! last visit: 32 bytes, and an index entry. A dump visits the sockets in the order of the
//! kernel's table, nearly the same every time, so they are kept in that order and the next one
//! is expected to follow the last: no search, and the processor has it loaded already.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use table::tables::TcpSample;

use super::digest::{GOLDEN, digest_sample};
use super::info::REQUIRED_LEN_BYTES;
use super::message::SocketView;
use super::rows::sample_row;

/// Polls after which a socket that was not seen any more is forgotten: one poll may miss it.
const FORGET_AFTER_POLLS: u32 = 8;

/// Out of so many visits, one may need a search before the order is put right.
const VISITS_PER_SEARCH: u64 = 64;

/// Hashes socket cookies, which the kernel counts up: one multiplication spreads them.
#[derive(Debug, Clone, Copy, Default)]
pub struct CookieHasher(u64);

impl Hasher for CookieHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(GOLDEN);
        // The table takes both the low and the high bits.
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map by socket cookie.
pub type CookieMap<V> = HashMap<u64, V, BuildHasherDefault<CookieHasher>>;

/// The fate of a visited socket: a row, or why there is none.
// The row is the common case for a busy connection, and is moved once, into a column.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq)]
pub enum Offer {
    /// Something changed: to be stored.
    Row(TcpSample),
    /// Nothing changed since the last row of this connection.
    Unchanged,
    /// The socket is recorded, but has no TCP statistics, or fewer than a row needs (before
    /// Linux 4.2).
    Incomplete,
    /// The socket is not recorded.
    NotChosen,
}

/// The filter's side of `produced = stored + filtered + Σ lost`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleCounts {
    /// Samples of recorded sockets.
    pub produced: u64,
    /// Rows handed out to be stored.
    pub rows: u64,
    /// Samples that showed nothing new.
    pub filtered: u64,
    /// Samples that could not become a row.
    pub incomplete: u64,
}

#[derive(Debug, Clone, Copy)]
struct Memory {
    cookie: u64,
    digest: u64,
    /// Number of the last visit, counted over all polls.
    visit: u64,
    max_send_queue_bytes: u32,
}

/// The last reading of every recorded connection.
#[derive(Debug, Default)]
pub struct SampleFilter {
    memories: Vec<Memory>,
    index: CookieMap<u32>,
    /// Where the next socket of the dump is expected.
    expected: usize,
    /// So many of the memories are in the dump's order; the others came later.
    ordered: usize,
    visits: u64,
    searches: u64,
    polls: u32,
    /// Visit number at the last tidying, and searches then.
    tidied: (u64, u64),
    counts: SampleCounts,
}

impl SampleFilter {
    /// Takes a socket of the poll under way. `choose` is asked for sockets not seen before;
    /// one that was chosen stays so.
    pub fn visit(&mut self, view: &SocketView, choose: impl FnOnce(&SocketView) -> bool) -> Offer {
        let Some(place) = self.find(view.cookie) else {
            if !choose(view) {
                return Offer::NotChosen;
            }
            return self.take_new(view);
        };
        // A newcomer found by search interrupts the order; the one expected may still follow.
        if place == self.expected || place < self.ordered {
            self.expected = place + 1;
        }
        self.take(view, place, false)
    }

    /// Returns where a socket is remembered; None if it is new.
    fn find(&mut self, cookie: u64) -> Option<usize> {
        if self
            .memories
            .get(self.expected)
            .is_some_and(|memory| memory.cookie == cookie)
        {
            return Some(self.expected);
        }
        let place = *self.index.get(&cookie)? as usize;
        self.searches += 1;
        Some(place)
    }

    /// Remembers a new socket, and offers its sample.
    fn take_new(&mut self, view: &SocketView) -> Offer {
        let place = self.memories.len();
        self.index.insert(view.cookie, place as u32);
        self.memories.push(Memory {
            cookie: view.cookie,
            digest: 0,
            visit: 0,
            max_send_queue_bytes: 0,
        });
        // The first poll makes the order; later the old ones go on where they were.
        if self.expected == place {
            self.expected = place + 1;
        }
        self.searches += 1;
        self.take(view, place, true)
    }

    /// Decides about the sample of the connection at `place`.
    fn take(&mut self, view: &SocketView, place: usize, is_new: bool) -> Offer {
        self.counts.produced += 1;
        self.visits += 1;
        let memory = &mut self.memories[place];
        memory.visit = self.visits;
        let Some(info) = view
            .info
            .filter(|info| info.bytes().len() >= REQUIRED_LEN_BYTES)
        else {
            self.counts.incomplete += 1;
            return Offer::Incomplete;
        };
        let digest = digest_sample(view, info);
        if memory.digest == digest && !is_new {
            self.counts.filtered += 1;
            return Offer::Unchanged;
        }
        memory.digest = digest;
        memory.max_send_queue_bytes = memory.max_send_queue_bytes.max(view.send_queue_bytes());
        let Some(row) = sample_row(view, memory.max_send_queue_bytes) else {
            self.counts.incomplete += 1;
            return Offer::Incomplete;
        };
        self.counts.rows += 1;
        Offer::Row(row)
    }

    /// Ends a poll; now and then forgets sockets that several polls have not seen.
    pub fn end_poll(&mut self) {
        self.expected = 0;
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(FORGET_AFTER_POLLS) {
            self.forget_unvisited();
        }
    }

    /// Forgets sockets that were not visited since the last call, and restores the dump's order.
    fn forget_unvisited(&mut self) {
        let (visits, searches) = self.tidied;
        self.tidied = (self.visits, self.searches);
        let known = self.memories.len();
        self.memories.retain(|memory| memory.visit > visits);
        self.ordered = self.memories.len();
        let disorder = (self.searches - searches) * VISITS_PER_SEARCH > self.visits - visits;
        if disorder {
            self.memories.sort_unstable_by_key(|memory| memory.visit);
        }
        if disorder || self.memories.len() != known {
            self.index.clear();
            let places = self.memories.iter().zip(0..);
            self.index
                .extend(places.map(|(memory, place)| (memory.cookie, place)));
        }
    }

    /// Returns whether the connection is recorded and a recent poll saw it.
    pub fn knows(&self, cookie: u64) -> bool {
        self.index.contains_key(&cookie)
    }

    /// Returns the number of remembered connections.
    pub fn len(&self) -> usize {
        self.memories.len()
    }

    /// Returns whether no connection is remembered.
    pub fn is_empty(&self) -> bool {
        self.memories.is_empty()
    }

    /// Returns the counts of samples so far.
    pub fn counts(&self) -> SampleCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Reply, view_payload};
    use super::*;

    /// Offers a reply to the filter, which chooses every socket.
    fn visit(filter: &mut SampleFilter, reply: &Reply) -> Offer {
        filter.visit(&view_payload(&reply.bytes()), |_| true)
    }

    #[test]
    fn unchanged_samples_are_counted_not_stored() {
        let mut filter = SampleFilter::default();
        let reply = Reply {
            cookie: 9,
            wqueue: 4000,
            ..Reply::default()
        };
        assert!(matches!(visit(&mut filter, &reply), Offer::Row(_)));
        filter.end_poll();
        for _ in 0..3 {
            assert_eq!(visit(&mut filter, &reply), Offer::Unchanged);
            filter.end_poll();
        }
        let counts = filter.counts();
        assert_eq!((counts.produced, counts.rows, counts.filtered), (4, 1, 3));
    }

    #[test]
    fn the_largest_queue_is_remembered() {
        let mut filter = SampleFilter::default();
        for (wqueue, largest) in [(10, 10), (5000, 5000), (20, 5000)] {
            let reply = Reply {
                cookie: 3,
                wqueue,
                ..Reply::default()
            };
            let Offer::Row(row) = visit(&mut filter, &reply) else {
                panic!("a changed queue is a row");
            };
            assert_eq!(
                (row.send_queue_bytes, row.max_send_queue_bytes),
                (wqueue, largest)
            );
        }
    }

    #[test]
    fn selection_is_kept_between_polls() {
        let mut filter = SampleFilter::default();
        let bytes = Reply {
            cookie: 1,
            ..Reply::default()
        }
        .bytes();
        assert_eq!(
            filter.visit(&view_payload(&bytes), |_| false),
            Offer::NotChosen
        );
        assert!(!filter.knows(1) && filter.counts() == SampleCounts::default());
        assert!(matches!(
            filter.visit(&view_payload(&bytes), |_| true),
            Offer::Row(_)
        ));
        assert_eq!(
            filter.visit(&view_payload(&bytes), |_| false),
            Offer::Unchanged
        );
    }

    /// Polls these sockets in this order; returns the number of rows.
    fn poll(filter: &mut SampleFilter, cookies: &[u64], wqueue: u32) -> usize {
        let rows = cookies
            .iter()
            .filter(|cookie| {
                let reply = Reply {
                    cookie: **cookie,
                    wqueue,
                    ..Reply::default()
                };
                matches!(visit(filter, &reply), Offer::Row(_))
            })
            .count();
        filter.end_poll();
        rows
    }

    #[test]
    fn samples_are_matched_in_any_order() {
        let mut filter = SampleFilter::default();
        let mut cookies: Vec<u64> = (1..=40).collect();
        assert_eq!(poll(&mut filter, &cookies, 1), 40);
        for round in 2..100 {
            // One leaves, one comes, and the rest is turned round.
            cookies.remove(round % cookies.len());
            cookies.insert(round * 7 % cookies.len(), 1000 + round as u64);
            cookies.rotate_left(round % 3);
            assert_eq!(poll(&mut filter, &cookies, 1), 1, "round {round}");
            assert_eq!(poll(&mut filter, &cookies, round as u32), cookies.len());
            assert_eq!(poll(&mut filter, &cookies, 1), cookies.len());
        }
        let counts = filter.counts();
        assert_eq!(counts.produced, counts.rows + counts.filtered);
        assert!(
            filter.len() <= 40 + FORGET_AFTER_POLLS as usize,
            "{}",
            filter.len()
        );
    }

    #[test]
    fn constant_order_needs_no_search() {
        let mut filter = SampleFilter::default();
        let cookies: Vec<u64> = (1..=500).rev().collect();
        for _ in 0..2 * FORGET_AFTER_POLLS {
            poll(&mut filter, &cookies, 1);
        }
        let searches = filter.searches;
        poll(&mut filter, &cookies, 1);
        assert_eq!(filter.searches, searches);
    }

    #[test]
    fn a_socket_missed_once_is_remembered_and_a_vanished_one_is_not() {
        let mut filter = SampleFilter::default();
        poll(&mut filter, &[1, 2], 1);
        poll(&mut filter, &[1], 1);
        assert_eq!(poll(&mut filter, &[1, 2], 1), 0);
        for _ in 0..3 * FORGET_AFTER_POLLS {
            poll(&mut filter, &[1], 1);
        }
        assert!(filter.knows(1) && !filter.knows(2));
        assert_eq!((filter.len(), filter.index.len()), (1, 1));
    }

    #[test]
    fn short_statistics_are_counted_as_incomplete() {
        let mut filter = SampleFilter::default();
        let short = Reply {
            info: vec![1; 104],
            ..Reply::default()
        };
        assert_eq!(visit(&mut filter, &short), Offer::Incomplete);
        assert_eq!(visit(&mut filter, &short), Offer::Incomplete);
        let none = Reply {
            info: Vec::new(),
            ..Reply::default()
        };
        assert_eq!(visit(&mut filter, &none), Offer::Incomplete);
        assert_eq!(filter.counts().incomplete, 3);
    }
}
