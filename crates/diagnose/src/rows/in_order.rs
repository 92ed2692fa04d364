//! Rows put in the order of time, in bounded memory. Rows of sends, of receives and of different CPUs
//! come in batches of their own, some milliseconds apart; so many of the latest are held back that what
//! belongs before them has come.

use std::vec::Drain;

/// Rows on their way into the order of their keys (a time, and what decides between equal times).
#[derive(Debug)]
pub struct InOrder<K, T> {
    waiting: Vec<(K, T)>,
    kept: usize,
}

impl<K: Ord + Copy, T> InOrder<K, T> {
    /// Holds back the last `kept` rows, and twice as many at most between two releases.
    pub fn new(kept: usize) -> Self {
        Self {
            waiting: Vec::new(),
            kept,
        }
    }

    /// Adds a row with its key.
    pub fn push(&mut self, key: K, row: T) {
        self.waiting.push((key, row));
    }

    /// Returns whether so many rows wait that some should be released.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= 2 * self.kept
    }

    /// Takes the first rows out, in order (those of one key as they came): of those before `until`, or
    /// of all if it is not given, all but the last `kept`.
    pub fn release(&mut self, until: Option<K>) -> Drain<'_, (K, T)> {
        self.sort();
        let before = until.map_or(self.waiting.len(), |until| {
            self.waiting.partition_point(|(key, _)| *key < until)
        });
        self.waiting.drain(..before.saturating_sub(self.kept))
    }

    /// Takes all rows out, in order: no more come.
    pub fn finish(&mut self) -> Drain<'_, (K, T)> {
        self.sort();
        self.waiting.drain(..)
    }

    /// Sorts the waiting rows by their key.
    fn sort(&mut self) {
        self.waiting.sort_by_key(|(key, _)| *key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_a_little_out_of_order_come_out_in_order() {
        let mut rows = InOrder::new(8);
        let mut out = Vec::new();
        for number in 0..1_000_u64 {
            // pairs of runs of four change places
            rows.push(number ^ 4, number);
            if rows.is_full() {
                out.extend(rows.release(None));
            }
        }
        out.extend(rows.finish());
        assert!(out.iter().map(|(key, _)| *key).eq(0..1_000));
    }

    #[test]
    fn nothing_beyond_the_limit_is_released() {
        let mut rows = InOrder::new(1);
        for number in [3, 1, 2, 5] {
            rows.push(number, ());
        }
        let keys = |rows: Drain<(u64, ())>| rows.map(|it| it.0).collect::<Vec<_>>();
        assert_eq!(keys(rows.release(Some(3))), [1]);
        assert_eq!(keys(rows.release(None)), [2, 3]);
        assert_eq!(keys(rows.finish()), [5]);
    }
}
