//! The groups with preceding calls: those that are listed and have slow waits.

use super::Join;
use crate::histogram::lower_edge;
use crate::waits::WaitTable;

impl WaitTable {
    /// Asks what went before the slow waits of the groups that a report with this `limit` lists. Slow
    /// are those of the slower population, or with `longer_than_ns` those that are longer. `None`: no
    /// group has slow waits. To be called after the last row was added.
    pub fn join(&mut self, limit: usize) -> Option<Join<'_>> {
        let longer_than_ns = self.filter.longer_than_ns;
        let listed: Vec<u32> = self
            .rank_groups()
            .iter()
            .take(limit)
            .map(|it| it.0)
            .collect();
        let mut asked = vec![None; self.groups.len()];
        for number in listed {
            asked[number as usize] = match longer_than_ns {
                Some(ns) => Some(ns.saturating_add(1)),
                None => {
                    let boundary = self.slow_boundary(number);
                    self.boundaries.insert(number, boundary);
                    boundary.map(lower_edge)
                }
            };
        }
        let any = asked.iter().any(Option::is_some);
        any.then(|| Join::new(self, asked))
    }
}
