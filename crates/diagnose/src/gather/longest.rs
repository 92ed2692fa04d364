//! Which connections are judged where there are more than memory holds: those that were open longest. What a
//! connection can lose lies within its life, so that those left out have the least to lose, one by one.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use table::tables::Connections;

use super::hash::{CookieHasher, Digests};

/// From when to when a connection was open, ns; open before or after is as good as always.
#[derive(Debug, Default)]
struct Life {
    opened_ns: Option<u64>,
    closed_ns: Option<u64>,
}

impl Life {
    fn length_ns(&self) -> u64 {
        let closed_ns = self.closed_ns.unwrap_or(u64::MAX);
        closed_ns.saturating_sub(self.opened_ns.unwrap_or(0))
    }
}

/// How long each connection of a recording was open: 16 bytes each, and an index.
#[derive(Debug, Default)]
pub struct Lives(Digests<Life>);

impl Lives {
    /// Adds rows of table `connections`.
    pub fn add(&mut self, rows: &Connections) {
        let times = rows.opened_ns.iter().zip(&rows.closed_ns);
        for (conn, (opened_ns, closed_ns)) in rows.conn.iter().zip(times) {
            let place = self.0.position(*conn);
            let life = self.0.at(place);
            life.opened_ns = opened_ns.or(life.opened_ns);
            life.closed_ns = closed_ns.or(life.closed_ns);
        }
    }

    /// The longest, at most so many; `None`: all are.
    pub(super) fn longest(&self, most: usize) -> Option<Longest> {
        let life_of = |conn| Some((Reverse(self.0.get(conn)?.length_ns()), conn));
        let mut lives: Vec<_> = self.0.conns().filter_map(life_of).collect();
        let others = lives.len().checked_sub(most).filter(|others| *others > 0)?;
        if most > 0 {
            lives.select_nth_unstable(most - 1);
        }
        Some(Longest {
            conns: lives.iter().take(most).map(|(_, conn)| *conn).collect(),
            others: others as u64,
        })
    }
}

/// The connections that are judged.
#[derive(Debug)]
pub struct Longest {
    conns: HashSet<u64, BuildHasherDefault<CookieHasher>>,
    /// How many are not.
    pub others: u64,
}

impl Longest {
    /// Whether this one is.
    pub fn has(&self, conn: u64) -> bool {
        self.conns.contains(&conn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lives: &[(u64, Option<u64>, Option<u64>)]) -> Connections {
        let mut rows = Connections::default();
        for (conn, opened_ns, closed_ns) in lives {
            rows.conn.push(*conn);
            rows.opened_ns.push(*opened_ns);
            rows.closed_ns.push(*closed_ns);
        }
        rows
    }

    #[test]
    fn those_that_were_open_longest_are_judged() {
        let mut lives = Lives::default();
        lives.add(&rows(&[
            (1, Some(100), None),
            (2, Some(100), Some(900)),
            (3, None, None),
            (4, Some(800), None),
        ]));
        lives.add(&rows(&[(1, None, Some(200)), (4, None, Some(850))]));
        let kept = |most: usize| {
            let longest = lives.longest(most).expect("there are more");
            let kept: Vec<u64> = (1..=4).filter(|conn| longest.has(*conn)).collect();
            assert_eq!(kept.len() as u64 + longest.others, 4);
            kept
        };
        assert_eq!(kept(3), [1, 2, 3]);
        assert_eq!(kept(2), [2, 3]);
        assert_eq!(kept(1), [3]);
        assert!(kept(0).is_empty());
        assert!(lives.longest(4).is_none());
    }
}
