//! SNAP's Table 4: of all connections, how many have each problem for more than a given share
//! of their time, and how many applications do.

use std::collections::BTreeMap;

use super::flags::{FlagTime, FlagTimes};
use crate::report::snap::{SnapTable4, Table4Row};

/// Shares of time of the table's columns: > 0, > 25 %, > 50 %, > 75 %, > 99.9 %.
const CONNECTION_SHARES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 0.999];

/// Shares of time that applications are counted by: > 5 %, > 50 %.
const APP_SHARES: [f64; 2] = [0.05, 0.5];

/// One problem of one connection: its time, and whether all its inputs were measured.
type Reading = fn(&FlagTimes) -> Option<(FlagTime, bool)>;

const ROWS: [(&str, Reading); 5] = [
    ("sender_app_limited", FlagTimes::sender_app_time),
    ("send_buffer_limited", |flags| {
        observe_flag(flags.send_buffer)
    }),
    ("congestion", |flags| observe_flag(flags.congestion)),
    ("receiver_window_limited", |flags| {
        observe_flag(flags.receiver_window)
    }),
    ("delayed_ack", |flags| observe_flag(flags.delayed_ack)),
];

/// Returns the time of a flag, as complete; None if it was never observed.
fn observe_flag(flag: FlagTime) -> Option<(FlagTime, bool)> {
    (flag.observed_ns > 0).then_some((flag, true))
}

/// Fills the table from each connection's application (command name) and flags.
pub fn fill_table4<'a>(
    connections: impl Iterator<Item = (Option<&'a str>, &'a FlagTimes)> + Clone,
) -> SnapTable4 {
    let rows = ROWS
        .iter()
        .map(|(problem, reading)| table_row(problem, *reading, connections.clone()));
    SnapTable4 {
        rows: rows.collect(),
    }
}

/// Makes one row of SNAP's table 4: connections that have the problem for these shares of their
/// time.
fn table_row<'a>(
    problem: &'static str,
    reading: Reading,
    connections: impl Iterator<Item = (Option<&'a str>, &'a FlagTimes)>,
) -> Table4Row {
    let mut total = 0u64;
    let mut over = [0u64; CONNECTION_SHARES.len()];
    let mut upper_bound = false;
    let mut apps: BTreeMap<&str, FlagTime> = BTreeMap::new();
    for (app, flags) in connections {
        let Some((flag, complete)) = reading(flags) else {
            continue;
        };
        let Some(share) = flag.share() else { continue };
        total += 1;
        upper_bound |= !complete;
        for (slot, least) in over.iter_mut().zip(CONNECTION_SHARES) {
            *slot += u64::from(share > least);
        }
        if let Some(app) = app {
            let sum = apps.entry(app).or_default();
            sum.observed_ns += flag.observed_ns;
            sum.flagged_ns += flag.flagged_ns;
        }
    }
    let apps_over = |least| {
        apps.values()
            .filter(|app| app.share() > Some(least))
            .count() as u64
    };
    Table4Row {
        problem,
        connections: total,
        percent_over: (total > 0).then(|| over.map(|n| n as f64 * 100.0 / total as f64)),
        apps_over: (total > 0).then(|| APP_SHARES.map(apps_over)),
        upper_bound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_connections_and_apps() {
        let flags = |flagged_ns| FlagTimes {
            receiver_window: FlagTime {
                observed_ns: 1_000,
                flagged_ns,
            },
            ..FlagTimes::default()
        };
        let all = [flags(0), flags(300), flags(800), flags(1_000)];
        let names = ["a", "a", "b", "b"];
        let table = fill_table4(names.iter().map(|name| Some(*name)).zip(all.iter()));
        let row = table
            .rows
            .iter()
            .find(|row| row.problem == "receiver_window_limited");
        let row = row.expect("the row is always there");
        assert_eq!(row.percent_over, Some([75.0, 75.0, 50.0, 50.0, 25.0]));
        assert_eq!(row.apps_over, Some([2, 1]));
        assert!(!row.upper_bound);
        let late = table
            .rows
            .iter()
            .find(|row| row.problem == "delayed_ack")
            .expect("a row");
        assert_eq!((late.connections, late.percent_over), (0, None));
    }
}
