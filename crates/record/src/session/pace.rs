//! Pace of the loop that drains the rings: so fast that they stay in the cache.

/// How long the loop sleeps between two looks at least, and at most.
const LEAST_MS: u16 = 5;
const MOST_MS: u16 = 50;

/// Batches and records that one look should find: a quarter of what the smallest ring of batches holds (256 KiB, batches
/// of 5 KiB).
const BATCHES: usize = 12;

/// Sleep between two drains of the rings, ms. It adapts to the amount of records that a drain finds.
#[derive(Debug)]
pub(super) struct Pace {
    tick_ms: u16,
}

impl Default for Pace {
    fn default() -> Self {
        Self { tick_ms: MOST_MS }
    }
}

impl Pace {
    /// Returns how often the collector wakes, in milliseconds.
    pub(super) fn tick_ms(&self) -> u16 {
        self.tick_ms
    }

    /// Adapts the next sleep to the number of records: many make it shorter, few twice as long.
    pub(super) fn note(&mut self, taken: usize) {
        let next_ms = if taken > BATCHES {
            usize::from(self.tick_ms) * BATCHES / taken
        } else if taken <= BATCHES / 2 {
            usize::from(self.tick_ms) * 2
        } else {
            usize::from(self.tick_ms)
        };
        let next_ms = u16::try_from(next_ms).unwrap_or(MOST_MS);
        self.tick_ms = next_ms.clamp(LEAST_MS, MOST_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_follows_load() {
        let mut pace = Pace::default();
        assert_eq!(pace.tick_ms(), MOST_MS);
        pace.note(2 * BATCHES);
        assert_eq!(pace.tick_ms(), MOST_MS / 2);
        pace.note(BATCHES);
        assert_eq!(pace.tick_ms(), MOST_MS / 2);
        pace.note(1_000_000);
        assert_eq!(pace.tick_ms(), LEAST_MS);
        pace.note(usize::MAX / usize::from(MOST_MS));
        assert_eq!(pace.tick_ms(), LEAST_MS);
        for _ in 0..4 {
            pace.note(0);
        }
        assert_eq!(pace.tick_ms(), MOST_MS);
    }
}
