//! Whether connections to one host lose segments at the same moments, more often than if each lost
//! its own at random.
//!
//! Time is cut into slots. Were the losses of each connection independent of the others', the number
//! of connections that lose in a slot would scatter around its mean as the sum of independent trials
//! does. [`Coincidence::clustering`] is its scatter over that one: about 1 by chance, as large as the
//! number of connections where all lose together.

use crate::connections::subject::ConnectionSubject;
use crate::kernel::LONGEST_JIFFY_NS;

/// Two flows that meet in a queue are what congestion control is made for (a fair share each): it
/// takes more to lose together.
pub const LEAST_OTHERS: usize = 2;

/// Standard deviations by which the scatter exceeds what chance would make it: once in 700 by chance.
const SIGMAS: f64 = 3.0;

/// The losses of all connections to one host.
#[derive(Debug)]
pub struct Coincidence {
    slot_ns: u64,
    /// Slots with losses, and how many connections lost in each.
    losing: Vec<(u64, u32)>,
    /// Scatter of the number of connections that lose at a time, over what independent losses of as
    /// many would have.
    pub clustering: f64,
    by_chance: f64,
}

/// One connection: when it was there, and when it lost, in slots.
struct SenderLosses {
    first: u64,
    last: u64,
    losing: Vec<u64>,
}

impl Coincidence {
    /// Compares the losses of these connections; `None`: too few of them lost anything.
    pub fn from_subjects(subjects: &[&ConnectionSubject]) -> Option<Self> {
        let slot_ns = slot_ns(subjects);
        let members: Vec<SenderLosses> = subjects
            .iter()
            .filter_map(|one| SenderLosses::from_subject(one, slot_ns))
            .collect();
        if members.len() <= LEAST_OTHERS {
            return None;
        }
        let losing = count_losing(&members);
        let (clustering, by_chance) = measure_clustering(&members, &losing);
        Some(Coincidence {
            slot_ns,
            losing,
            clustering,
            by_chance,
        })
    }

    /// Returns whether the losses cluster more than chance explains.
    pub fn is_proved(&self) -> bool {
        self.clustering > self.by_chance
    }

    /// Returns how often this connection lost segments, and how often at least [`LEAST_OTHERS`]
    /// others did then.
    pub fn count_losses(&self, own: &ConnectionSubject) -> (u64, u64) {
        let own = loss_slots(&own.gathered.events.losses_ns, self.slot_ns);
        let together = own
            .iter()
            .filter(|slot| self.count_others(**slot, &own) >= LEAST_OTHERS);
        (own.len() as u64, together.count() as u64)
    }

    /// Returns how many other connections lost segments in this slot or a neighbouring one.
    fn count_others(&self, slot: u64, own: &[u64]) -> usize {
        let near = slot.saturating_sub(1)..=slot + 1;
        let others = near.map(|slot| {
            let at = self.losing.binary_search_by_key(&slot, |(slot, _)| *slot);
            let all = at.map_or(0, |at| self.losing[at].1 as usize);
            all.saturating_sub(usize::from(own.binary_search(&slot).is_ok()))
        });
        others.max().unwrap_or(0)
    }
}

impl SenderLosses {
    /// Returns the time slots in which a connection lost packets; None if it lost none.
    fn from_subject(subject: &ConnectionSubject, slot_ns: u64) -> Option<Self> {
        let losing = loss_slots(&subject.gathered.events.losses_ns, slot_ns);
        let (first_loss, last_loss) = (*losing.first()?, *losing.last()?);
        let (start_ns, life_ns) = (subject.start_ns(), subject.judged.life_ns);
        Some(SenderLosses {
            first: (start_ns / slot_ns).min(first_loss),
            last: ((start_ns + life_ns) / slot_ns).max(last_loss),
            losing,
        })
    }
}

/// Returns the time in which TCP finds all losses of one overflow: two round trips, the queue's time included
/// (tcp_schedule_loss_probe()). Timers that began together expire within it, too.
fn slot_ns(subjects: &[&ConnectionSubject]) -> u64 {
    let slowest_us = subjects.iter().filter_map(|one| one.round_trip_us()).max();
    (2 * 1_000 * slowest_us.unwrap_or(0)).max(LONGEST_JIFFY_NS)
}

/// The slots of these times, each once, in order.
fn loss_slots(times_ns: &[u64], slot_ns: u64) -> Vec<u64> {
    let mut slots: Vec<u64> = times_ns.iter().map(|ns| ns / slot_ns).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Returns each slot with losses, and how many connections lost segments in it.
fn count_losing(members: &[SenderLosses]) -> Vec<(u64, u32)> {
    let mut slots: Vec<u64> = members
        .iter()
        .flat_map(|member| member.losing.iter().copied())
        .collect();
    slots.sort_unstable();
    let runs = slots.chunk_by(|a, b| a == b);
    runs.map(|run| (run[0], run.len() as u32)).collect()
}

/// Returns how much more the losses scatter than independent ones would (1: no more), and the most
/// that chance makes of that. The variance of a squared deviation from a mean of `v` is `v + 2v²`
/// (Poisson).
fn measure_clustering(members: &[SenderLosses], losing: &[(u64, u32)]) -> (f64, f64) {
    let mut steps: Vec<(u64, f64, f64)> = Vec::with_capacity(2 * members.len());
    for member in members {
        let there = (member.last - member.first + 1) as f64;
        let share = member.losing.len() as f64 / there;
        let variance = share * (1.0 - share);
        steps.push((member.first, share, variance));
        steps.push((member.last + 1, -share, -variance));
    }
    steps.sort_unstable_by_key(|(slot, ..)| *slot);
    let (mut scatter, mut expected, mut doubt) = (0.0, 0.0, 0.0);
    let (mut mean, mut variance) = (0.0_f64, 0.0_f64);
    let mut next_loss = 0;
    for pair in steps.windows(2) {
        let (from, share, of_share) = pair[0];
        let until = pair[1].0;
        mean += share;
        variance = (variance + of_share).max(0.0);
        let mut quiet = until - from;
        while let Some((_, lost)) = losing.get(next_loss).filter(|(slot, _)| *slot < until) {
            scatter += (f64::from(*lost) - mean).powi(2);
            quiet -= 1;
            next_loss += 1;
        }
        scatter += quiet as f64 * mean.powi(2);
        let length = (until - from) as f64;
        expected += length * variance;
        doubt += length * (variance + 2.0 * variance.powi(2));
    }
    if expected <= f64::EPSILON {
        return (1.0, f64::INFINITY);
    }
    (scatter / expected, 1.0 + SIGMAS * doubt.sqrt() / expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes senders that exist in all slots, and lose packets in these.
    fn members(losing: &[Vec<u64>], slots: u64) -> Vec<SenderLosses> {
        let member = |losing: &Vec<u64>| SenderLosses {
            first: 0,
            last: slots - 1,
            losing: losing.clone(),
        };
        losing.iter().map(member).collect()
    }

    /// Measures how far losses of these senders fall into the same slots.
    fn judged(of: &[Vec<u64>], slots: u64) -> (f64, f64) {
        let members = members(of, slots);
        measure_clustering(&members, &count_losing(&members))
    }

    /// Returns a pseudo-random number below 2³² for a seed.
    fn hash(seed: u64) -> u64 {
        let mixed = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
    }

    #[test]
    fn simultaneous_losses_cluster() {
        let of: Vec<Vec<u64>> = vec![vec![100, 300, 700]; 36];
        let (clustering, by_chance) = judged(&of, 1_000);
        assert!((clustering - 36.0).abs() < 1e-6, "{clustering}");
        assert!(by_chance < 3.0, "{by_chance}");
    }

    #[test]
    fn independent_losses_do_not_cluster() {
        for slots in [50, 400, 20_000] {
            for lost in [1, 4, 20, 40] {
                let one = |conn: u64| {
                    let at = |nth| hash(conn * 1_000 + nth + slots) % slots;
                    super::loss_slots(&(0..lost).map(at).collect::<Vec<_>>(), 1)
                };
                let of: Vec<Vec<u64>> = (0..36).map(one).collect();
                let (clustering, by_chance) = judged(&of, slots);
                assert!(
                    clustering < by_chance,
                    "{slots} {lost}: {clustering} {by_chance}"
                );
            }
        }
    }

    #[test]
    fn consecutive_connections_are_not_together() {
        let one = |nth: u64| SenderLosses {
            first: nth * 10,
            last: nth * 10 + 9,
            losing: vec![nth * 10 + hash(nth) % 10],
        };
        let members: Vec<SenderLosses> = (0..50).map(one).collect();
        let (clustering, by_chance) = measure_clustering(&members, &count_losing(&members));
        assert!(clustering < by_chance, "{clustering} {by_chance}");
    }
}
