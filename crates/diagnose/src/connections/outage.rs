//! Outages: times in which none of several connections got an ACK from a host.
//!
//! A timer retransmits a segment, and then the same one, or one before it: nothing was acknowledged in between, so that the
//! first retransmission was lost, too. Random loss does this to a few connections of many. If it does it to most of those to a
//! host at one time, and each of them gets through only after the last such loss, then a link was down, or a route changed.
//! More segments in flight would have been lost, too.
//!
//! Nothing says so where the retransmissions were late, not lost, or where a new connection to the host was established meanwhile.
//! Losses a few ms apart may be of one full queue.

use crate::connections::gather::events::LostAgain;
use crate::connections::subject::ConnectionSubject;
use crate::kernel::TCP_RTO_MIN_NS;

/// Connections that must be cut off at one time: bad luck explains one.
const LEAST_CONNECTIONS: usize = 2;

/// A time in which connections to a host got no ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// When the first retransmission was lost, ns.
    pub first_ns: u64,
    /// When the last one was lost, ns.
    pub last_ns: u64,
    /// When the next one passed, or was acknowledged, ns.
    pub until_ns: u64,
    /// When one of each connection was, ns.
    pub all_until_ns: u64,
    /// How long before the first one the segment itself was sent, at most, ns.
    pub before_ns: u64,
    /// Connections with lost retransmissions.
    pub connections: usize,
}

/// When a connection to the host existed.
#[derive(Debug, Clone, Copy)]
struct Life {
    id: u64,
    /// When it was established, ns; `None`: before the recording.
    opened_ns: Option<u64>,
    start_ns: u64,
    end_ns: u64,
}

impl Outage {
    /// Returns the outages that these connections to one host show together: all that sent something.
    pub fn find(subjects: &[&ConnectionSubject]) -> Vec<Self> {
        let lost = subjects.iter().filter(|one| !one.is_mostly_late());
        let lost = lost.flat_map(|one| {
            let lost = one.gathered.events.lost_again().into_iter();
            lost.filter(is_long).map(|lost| (one.id, lost))
        });
        let lost: Vec<_> = lost.collect();
        if lost.is_empty() {
            return Vec::new();
        }
        let lives = subjects.iter().map(|one| {
            let (start_ns, end_ns) = one.life();
            Life {
                id: one.id,
                opened_ns: one.opened_ns(),
                start_ns,
                end_ns,
            }
        });
        // the timer of a tail-loss probe (tcp_schedule_loss_probe())
        let slowest_us = subjects.iter().filter_map(|one| one.round_trip_us()).max();
        let before_ns = 2 * 1_000 * slowest_us.unwrap_or(0);
        Self::join(lost, before_ns, &lives.collect::<Vec<_>>())
    }

    /// Joins times of connections, given with their ids, in which nothing passed until the last loss of all. Leaves out those of
    /// few of the connections with these lives.
    fn join(mut lost: Vec<(u64, LostAgain)>, before_ns: u64, lives: &[Life]) -> Vec<Self> {
        lost.sort_unstable_by_key(|(id, lost)| (lost.first_ns, *id));
        let mut found: Vec<(Self, Vec<u64>)> = Vec::new();
        for (id, lost) in lost {
            let until_ns = lost.until_ns.unwrap_or(u64::MAX);
            if let Some((open, ids)) = found.last_mut() {
                let last_ns = open.last_ns.max(lost.last_ns);
                let until_ns = open.until_ns.min(until_ns);
                if last_ns < until_ns {
                    open.all_until_ns = open.all_until_ns.max(lost.until_ns.unwrap_or(0));
                    (open.last_ns, open.until_ns) = (last_ns, until_ns);
                    ids.push(id);
                    continue;
                }
            }
            let open = Self {
                first_ns: lost.first_ns,
                last_ns: lost.last_ns,
                until_ns,
                all_until_ns: lost.until_ns.unwrap_or(0),
                before_ns,
                connections: 0,
            };
            found.push((open, vec![id]));
        }
        let found = found.into_iter().filter_map(|(outage, mut ids)| {
            ids.sort_unstable();
            ids.dedup();
            let outage = Self {
                connections: ids.len(),
                ..outage
            };
            outage.is_of_most(&ids, lives).then_some(outage)
        });
        found.collect()
    }

    /// Returns whether several connections, and more than half of those that existed through it, had lost retransmissions. One
    /// that was established meanwhile shows that something passed.
    fn is_of_most(&self, ids: &[u64], lives: &[Life]) -> bool {
        let exists = |it: &&Life| it.start_ns <= self.first_ns && self.until_ns <= it.end_ns;
        let is_one = |it: &&Life| ids.binary_search(&it.id).is_ok();
        let others = lives.iter().filter(|it| !is_one(it) && exists(it)).count();
        let is_new = |it: &Life| {
            it.opened_ns
                .is_some_and(|ns| self.first_ns < ns && ns < self.last_ns)
        };
        ids.len() >= LEAST_CONNECTIONS
            && ids.len() > others
            && self.until_ns != u64::MAX
            && !lives.iter().any(is_new)
    }

    /// Returns which of the outages in either direction of its path explain most of what the timers of a connection
    /// retransmitted at these times, ns.
    pub fn explain(towards: &[Self], back: &[Self], times: &[u64]) -> Vec<Self> {
        let mut all = towards.to_vec();
        for back in back {
            if !all.iter().any(|it| it.overlaps(back)) {
                all.push(*back);
            }
        }
        let is_within = |ns: &&u64| all.iter().any(|it| it.has_time(**ns));
        if 2 * times.iter().filter(is_within).count() <= times.len() {
            return Vec::new();
        }
        all.retain(|it| times.iter().any(|ns| it.has_time(*ns)));
        all
    }

    /// Returns its longest duration, ns: from when the first lost segment was sent to when data passed.
    pub fn most_ns(&self) -> u64 {
        self.until_ns - self.start_ns()
    }

    /// Returns its shortest duration, ns: between the first and the last loss of a retransmission.
    pub fn least_ns(&self) -> u64 {
        self.last_ns - self.first_ns
    }

    /// Returns whether both may be one, seen in two directions.
    fn overlaps(&self, other: &Self) -> bool {
        self.start_ns() <= other.all_until_ns && other.start_ns() <= self.all_until_ns
    }

    fn start_ns(&self) -> u64 {
        self.first_ns.saturating_sub(self.before_ns)
    }

    /// Returns whether a timer that expired at this time did so because of the outage.
    fn has_time(&self, time_ns: u64) -> bool {
        (self.start_ns()..=self.all_until_ns).contains(&time_ns)
    }
}

/// Returns whether the losses of a connection are apart: a tail-loss probe and a timeout may both meet one full queue.
fn is_long(lost: &LostAgain) -> bool {
    lost.last_ns - lost.first_ns >= TCP_RTO_MIN_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(first_ns: u64, last_ns: u64, until_ns: u64) -> LostAgain {
        LostAgain {
            first_ns,
            last_ns,
            until_ns: Some(until_ns),
        }
    }

    /// Returns connections with these ids that exist all the time.
    fn lives(ids: std::ops::Range<u64>) -> Vec<Life> {
        let life = |id| Life {
            id,
            opened_ns: None,
            start_ns: 0,
            end_ns: 10_000,
        };
        ids.map(life).collect()
    }

    #[test]
    fn connections_that_pass_after_the_last_loss_show_an_outage() {
        let all = vec![
            (1, lost(100, 300, 700)),
            (2, lost(110, 110, 320)),
            (3, lost(90, 200, 650)),
            (1, lost(5_000, 5_000, 5_400)),
        ];
        let outage = Outage {
            first_ns: 90,
            last_ns: 300,
            until_ns: 320,
            all_until_ns: 700,
            before_ns: 20,
            connections: 3,
        };
        assert_eq!(Outage::join(all, 20, &lives(1..4)), [outage]);
        assert_eq!((outage.most_ns(), outage.least_ns()), (250, 210));
        assert_eq!(
            [69, 70, 700, 701].map(|ns| outage.has_time(ns)),
            [false, true, true, false]
        );
    }

    #[test]
    fn a_segment_that_passes_between_two_losses_shows_none() {
        let all = vec![(1, lost(100, 400, 900)), (2, lost(110, 110, 320))];
        assert_eq!(Outage::join(all, 20, &lives(1..3)), []);
    }

    #[test]
    fn one_connection_and_dead_ones_show_none() {
        let alone = vec![(1, lost(100, 300, 700)), (1, lost(150, 300, 700))];
        assert_eq!(Outage::join(alone, 20, &lives(1..2)), []);
        let dead = LostAgain {
            until_ns: None,
            ..lost(100, 300, 0)
        };
        assert_eq!(
            Outage::join(vec![(1, dead), (2, dead)], 20, &lives(1..3)),
            []
        );
    }

    #[test]
    fn few_connections_of_many_show_none() {
        let two = || vec![(1, lost(100, 300, 700)), (2, lost(110, 310, 720))];
        let find = |lives: &[Life]| Outage::join(two(), 20, lives).len();
        assert_eq!(find(&lives(1..4)), 1);
        assert_eq!(find(&lives(1..5)), 0);
        // others that did not exist through it say nothing
        let mut ended = lives(1..9);
        for life in &mut ended[2..] {
            life.end_ns = 600;
        }
        assert_eq!(find(&ended), 1);
        // but if a handshake passed, so did the path
        ended[7].opened_ns = Some(200);
        assert_eq!(find(&ended), 0);
    }

    #[test]
    fn losses_a_few_ms_apart_may_be_of_one_queue() {
        let ms = |first: u64, last: u64| lost(first * 1_000_000, last * 1_000_000, u64::MAX);
        assert_eq!(
            [(10, 209), (10, 210)].map(|(a, b)| is_long(&ms(a, b))),
            [false, true]
        );
    }

    #[test]
    fn outages_explain_timers_within_them() {
        let at = |first_ns: u64| Outage {
            first_ns,
            last_ns: first_ns + 100,
            until_ns: first_ns + 200,
            all_until_ns: first_ns + 200,
            before_ns: 0,
            connections: 2,
        };
        let (towards, back) = ([at(100)], [at(150), at(1_000)]);
        let explain = |times: &[u64]| Outage::explain(&towards, &back, times).len();
        assert_eq!(explain(&[120, 1_100]), 2);
        assert_eq!(explain(&[120, 250]), 1);
        assert_eq!(explain(&[120, 500]), 0);
        assert_eq!(explain(&[]), 0);
    }
}
