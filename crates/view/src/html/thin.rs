//! Selects the rows of a page that would be too large: every nth of the tables that grow with the work, and
//! all messages and spans of the explained messages.

use std::collections::HashSet;

use diagnose::messages::message::MessageDirection;
use diagnose::messages::message::MessageId;
use diagnose::tail::report::TailReport;

/// Rules by which rows are left out of a page that would be too large.
#[derive(Debug)]
pub struct Thinning {
    /// One row of so many is kept; 1: every row.
    pub nth: usize,
    /// Messages that are always kept.
    explained: HashSet<MessageId>,
    /// Times with all spans kept, in order and disjoint; ns, as in rows.
    times: Vec<(u64, u64)>,
}

impl Thinning {
    /// Makes the selection of rows that the page has. `tail`: the explained messages of a
    /// recording that started then.
    pub fn new(nth: usize, tail: Option<&TailReport>, started_ns: u64) -> Self {
        let groups = tail.map_or(&[][..], |tail| &tail.groups);
        let explained = || groups.iter().flat_map(|group| &group.explained);
        let mut times: Vec<(u64, u64)> = explained()
            .map(|it| {
                let begin_ns = started_ns + it.since_start_ns;
                (begin_ns, begin_ns + it.latency_ns)
            })
            .collect();
        times.sort_unstable();
        Self {
            nth,
            explained: explained().filter_map(|it| it.id.parse().ok()).collect(),
            times: join_ranges(times),
        }
    }

    /// Returns whether a row is kept by its number.
    pub fn keeps_row(&self, row: usize) -> bool {
        row.is_multiple_of(self.nth)
    }

    /// Returns whether a message is one of the explained ones.
    pub fn holds_message(&self, conn: u64, direction: MessageDirection, offset_end: u64) -> bool {
        self.explained.contains(&MessageId {
            conn,
            direction,
            offset_end,
        })
    }

    /// Returns whether an explained message was under way in a time.
    pub fn holds_time(&self, begin_ns: u64, end_ns: u64) -> bool {
        let next = self.times.partition_point(|(_, until)| *until < begin_ns);
        self.times
            .get(next)
            .is_some_and(|(from, _)| *from <= end_ns)
    }
}

/// Joins times that overlap.
fn join_ranges(sorted: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (from, until) in sorted {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => out.push((from, until)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_times_are_joined() {
        let thinning = Thinning {
            nth: 2,
            explained: HashSet::new(),
            times: join_ranges(vec![(10, 20), (15, 30), (50, 60)]),
        };
        assert_eq!(thinning.times, [(10, 30), (50, 60)]);
        for (begin_ns, end_ns, held) in [
            (0, 9, false),
            (0, 10, true),
            (30, 31, true),
            (31, 49, false),
            (55, 55, true),
            (61, 70, false),
        ] {
            assert_eq!(thinning.holds_time(begin_ns, end_ns), held, "{begin_ns}");
        }
        assert!(thinning.keeps_row(4) && !thinning.keeps_row(5));
    }
}
