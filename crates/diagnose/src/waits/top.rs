//! The few that took most time, of any number, in bounded memory: Space-Saving (Metwally, Agrawal and
//! El Abbadi, "Efficient computation of frequent and top-k elements in data streams", ICDT 2005).

/// Kept of each kind: an element with more than a sixteenth of the time is never missed.
const KEPT: usize = 16;

/// What is known of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// Its number.
    pub number: u32,
    /// Waits, since it was last not among those kept.
    pub count: u64,
    /// Time blocked, at most, ns.
    most_ns: u64,
    /// How much of it may be of others, ns.
    error_ns: u64,
}

impl Element {
    /// Time blocked, at least, ns.
    pub fn blocked_ns(&self) -> u64 {
        self.most_ns - self.error_ns
    }

    /// Whether count and time are exact.
    pub fn is_exact(&self) -> bool {
        self.error_ns == 0
    }
}

/// Elements with much time.
#[derive(Debug, Clone, Default)]
pub struct Top(Vec<Element>);

impl Top {
    /// Adds a wait.
    pub fn add(&mut self, number: u32, blocked_ns: u64) {
        if let Some(known) = self.0.iter_mut().find(|known| known.number == number) {
            known.count += 1;
            known.most_ns += blocked_ns;
            return;
        }
        let new = Element {
            number,
            count: 1,
            most_ns: blocked_ns,
            error_ns: 0,
        };
        if self.0.len() < KEPT {
            self.0.push(new);
        } else if let Some(least) = self.0.iter_mut().min_by_key(|known| known.most_ns) {
            *least = Element {
                most_ns: least.most_ns + blocked_ns,
                error_ns: least.most_ns,
                ..new
            };
        }
    }

    /// The worst, worst first.
    pub fn worst(&self, number: usize) -> Vec<Element> {
        let mut all = self.0.clone();
        all.sort_by_key(|known| (std::cmp::Reverse(known.blocked_ns()), known.number));
        all.truncate(number);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_exact_and_the_worst_of_many_is_found() {
        let mut top = Top::default();
        (0..KEPT as u32).for_each(|number| top.add(number, 10 + u64::from(number)));
        assert!(top.worst(KEPT).iter().all(Element::is_exact));
        for round in 0..1_000_u32 {
            top.add(7, 100);
            top.add(1_000 + round, 30);
        }
        let worst = top.worst(1)[0];
        assert_eq!(
            (worst.number, worst.count, worst.blocked_ns()),
            (7, 1_001, 100_017)
        );
        assert_eq!(top.worst(usize::MAX).len(), KEPT);
    }
}
