//! Windows in which calls and waits were recorded: rows of table `windows` in, times out.

use std::collections::BTreeMap;

use serde::Serialize;
use table::tables::{Window, Windows};
use table::{Columns, Recording};

/// Rules on requests that compare them with what happened between windows, too: they are not asked.
pub const RULES_NOT_ASKED: [&str; 5] = [
    "connection_churn",
    "connection_rejected",
    "reset_by_peer",
    "udp_drops",
    "uneven_workers",
];

/// How much of the time of a recording its calls and waits are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WindowSums {
    /// Windows.
    pub windows: u64,
    /// Length of all of them, ns.
    pub window_ns: u64,
}

/// The windows of a recording, in the order of time.
#[derive(Debug, Clone, Default)]
pub struct WindowTimes(Vec<(u64, u64)>);

impl WindowTimes {
    /// Reads them; none: calls and waits were recorded all the time.
    pub fn read(recording: &Recording) -> Self {
        if recording.rows::<Window>() == 0 {
            return Self::default();
        }
        let mut rows = Windows::default();
        recording.scan::<Window>(|found| {
            (0..found.len()).for_each(|row| rows.push(found.row(row)));
        });
        let latest_ns = recording.time_range_ns().map_or(0, |range| range.1);
        let ended_ns = recording.closed().map(|closed| closed.ended_ns);
        Self::from_rows(&rows, ended_ns.unwrap_or(latest_ns))
    }

    /// Takes rows. A window without an end lasted until the recording ended.
    pub fn from_rows(rows: &Windows, ended_ns: u64) -> Self {
        let mut times: BTreeMap<u64, Option<u64>> = BTreeMap::new();
        for (begin_ns, end_ns) in rows.begin_ns.iter().zip(&rows.end_ns) {
            let known = times.entry(*begin_ns).or_default();
            *known = known.or(*end_ns);
        }
        let times = times.into_iter();
        Self(
            times
                .map(|(begin_ns, end_ns)| (begin_ns, end_ns.unwrap_or(ended_ns.max(begin_ns))))
                .collect(),
        )
    }

    /// Returns a window by its number.
    pub fn get(&self, number: usize) -> Option<(u64, u64)> {
        self.0.get(number).copied()
    }

    /// Returns how many there are, and how long they are; `None`: there are none.
    pub fn sums(&self) -> Option<WindowSums> {
        let lengths = self.0.iter().map(|(begin_ns, end_ns)| end_ns - begin_ns);
        (!self.0.is_empty()).then(|| WindowSums {
            windows: self.0.len() as u64,
            window_ns: lengths.sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_has_a_row_for_its_begin_and_one_for_its_end() {
        let mut rows = Windows::default();
        for (begin_ns, end_ns) in [
            (10, None),
            (40, None),
            (10, Some(20)),
            (70, None),
            (40, Some(45)),
        ] {
            rows.push(Window { begin_ns, end_ns });
        }
        let times = WindowTimes::from_rows(&rows, 100);
        assert_eq!(times.0, [(10, 20), (40, 45), (70, 100)]);
        let sums = times.sums().expect("windows");
        assert_eq!((sums.windows, sums.window_ns), (3, 45));
        assert_eq!(WindowTimes::default().sums(), None);
    }
}
