//! Outages: times in which nothing of several connections reached a host.
//!
//! A timer retransmits a segment, and then the same one, or one before it: nothing was acknowledged in between, so that the
//! first retransmission was lost, too. Random loss does this to one connection. If it does it to several at one time, and each
//! of them gets through only after the last such loss, then nothing passed meanwhile: a link was down, or a route changed.
//! More segments in flight would have been lost, too.

use std::collections::HashMap;

use crate::connections::gather::events::LostAgain;
use crate::connections::subject::ConnectionSubject;

/// Connections that must be cut off at one time: bad luck explains one.
const LEAST_CONNECTIONS: usize = 2;

/// A time in which nothing reached a host.
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

impl Outage {
    /// Returns the outages that these connections to one host show together.
    pub fn find(subjects: &[&ConnectionSubject]) -> Vec<Self> {
        let lost = subjects.iter().flat_map(|one| {
            let lost = one.gathered.events.lost_again();
            lost.into_iter().map(|lost| (one.id, lost))
        });
        // the timer of a tail-loss probe (tcp_schedule_loss_probe())
        let slowest_us = subjects.iter().filter_map(|one| one.round_trip_us()).max();
        Self::join(lost.collect(), 2 * 1_000 * slowest_us.unwrap_or(0))
    }

    /// Joins times of connections, given with their ids, in which nothing passed until the last loss of all.
    fn join(mut lost: Vec<(u64, LostAgain)>, before_ns: u64) -> Vec<Self> {
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
        let found = found.into_iter().map(|(outage, mut ids)| {
            ids.sort_unstable();
            ids.dedup();
            let connections = ids.len();
            Self {
                connections,
                ..outage
            }
        });
        let is_outage = |it: &Self| it.connections >= LEAST_CONNECTIONS && it.until_ns != u64::MAX;
        found.filter(is_outage).collect()
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

/// Outages by direction: local and remote host.
#[derive(Debug, Default)]
pub struct OutageMap<'a> {
    by_hosts: HashMap<(&'a str, &'a str), Vec<Outage>>,
}

impl<'a> OutageMap<'a> {
    /// Adds the outages of connections from one host to another.
    pub fn add(&mut self, hosts: (&'a str, &'a str), outages: Vec<Outage>) {
        if !outages.is_empty() {
            self.by_hosts.entry(hosts).or_default().extend(outages);
        }
    }

    /// Returns the outages in one direction.
    fn towards<'s>(&'s self, hosts: (&'s str, &'s str)) -> &'s [Outage] {
        self.by_hosts.get(&hosts).map_or(&[], Vec::as_slice)
    }

    /// Returns the outages in which this connection retransmitted, if they explain most of what its timers retransmitted.
    pub fn of_connection(&self, hosts: (&str, &str), own: &ConnectionSubject) -> Vec<Outage> {
        let times: Vec<u64> = own.gathered.events.timer_times_ns().collect();
        let mut all = self.towards(hosts).to_vec();
        for back in self.towards((hosts.1, hosts.0)) {
            if !all.iter().any(|it| it.overlaps(back)) {
                all.push(*back);
            }
        }
        let is_within = |ns: &&u64| all.iter().any(|it| it.has_time(**ns));
        if 2 * times.iter().filter(is_within).count() <= times.len() {
            return Vec::new();
        }
        let has_own = |it: &&Outage| times.iter().any(|ns| it.has_time(*ns));
        all.iter().filter(has_own).copied().collect()
    }
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
        assert_eq!(Outage::join(all, 20), [outage]);
        assert_eq!((outage.most_ns(), outage.least_ns()), (250, 210));
        assert_eq!(
            [69, 70, 700, 701].map(|ns| outage.has_time(ns)),
            [false, true, true, false]
        );
    }

    #[test]
    fn a_segment_that_passes_between_two_losses_shows_none() {
        let all = vec![(1, lost(100, 400, 900)), (2, lost(110, 110, 320))];
        assert_eq!(Outage::join(all, 20), []);
    }

    #[test]
    fn one_connection_and_dead_ones_show_none() {
        let alone = vec![(1, lost(100, 300, 700)), (1, lost(150, 300, 700))];
        assert_eq!(Outage::join(alone, 20), []);
        let dead = LostAgain {
            until_ns: None,
            ..lost(100, 300, 0)
        };
        assert_eq!(Outage::join(vec![(1, dead), (2, dead)], 20), []);
    }
}
