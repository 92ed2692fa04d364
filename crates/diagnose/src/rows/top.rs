//! The few that took most time, of any number, in bounded memory: Space-Saving (Metwally, Agrawal and
//! El Abbadi, "Efficient computation of frequent and top-k elements in data streams", ICDT 2005).

/// Kept of each kind: an element with more than an eighth of the time is never missed.
pub(crate) const KEPT: usize = 8;

/// Counts of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// Its number.
    pub number: u32,
    /// Times that were added, since it was last not among those kept.
    pub count: u64,
    /// Its time, at least, ns.
    pub blocked_ns: u64,
    /// Whether count and time are exact.
    pub is_exact: bool,
}

/// Elements with much time.
#[derive(Debug, Clone, Default)]
pub struct Top(Option<Box<Slots>>);

/// By place, each field in a cache line of its own, because a row of ten thousand groups meets none of
/// them there.
#[derive(Debug, Clone, Default)]
struct Slots {
    numbers: [u32; KEPT],
    used: usize,
    /// Time blocked, at most, ns.
    most_ns: [u64; KEPT],
    counts: [u64; KEPT],
    /// How much of the time may be of others, ns.
    errors_ns: [u64; KEPT],
}

impl Top {
    /// Adds time of an element, such as a wait.
    pub fn add(&mut self, number: u32, blocked_ns: u64) {
        let slots = self.0.get_or_insert_default();
        let known = slots.numbers[..slots.used]
            .iter()
            .position(|it| *it == number);
        let place = known.unwrap_or_else(|| slots.begin(number));
        slots.counts[place] += 1;
        slots.most_ns[place] = slots.most_ns[place].saturating_add(blocked_ns);
    }

    /// The worst, worst first.
    pub fn worst(&self, number: usize) -> Vec<Element> {
        let slots = self.0.as_deref().cloned().unwrap_or_default();
        let element = |place: usize| Element {
            number: slots.numbers[place],
            count: slots.counts[place],
            blocked_ns: slots.most_ns[place] - slots.errors_ns[place],
            is_exact: slots.errors_ns[place] == 0,
        };
        let mut all: Vec<Element> = (0..slots.used).map(element).collect();
        all.sort_by_key(|known| (std::cmp::Reverse(known.blocked_ns), known.number));
        all.truncate(number);
        all
    }
}

impl Slots {
    /// Makes a place for another element: that of the one with the least time, which it may have
    /// had before.
    fn begin(&mut self, number: u32) -> usize {
        if self.used < KEPT {
            self.used += 1;
            self.numbers[self.used - 1] = number;
            return self.used - 1;
        }
        let least = (0..KEPT)
            .min_by_key(|place| self.most_ns[*place])
            .unwrap_or(0);
        self.numbers[least] = number;
        self.counts[least] = 0;
        self.errors_ns[least] = self.most_ns[least];
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lists_are_exact_and_long_lists_keep_the_worst() {
        let mut top = Top::default();
        (0..KEPT as u32).for_each(|number| top.add(number, 10 + u64::from(number)));
        assert!(top.worst(KEPT).iter().all(|it| it.is_exact));
        for round in 0..1_000_u32 {
            top.add(7, 100);
            top.add(1_000 + round, 30);
        }
        let worst = top.worst(1)[0];
        assert_eq!(
            (worst.number, worst.count, worst.blocked_ns),
            (7, 1_001, 100_017)
        );
        assert_eq!(top.worst(usize::MAX).len(), KEPT);
    }
}
