//! Intervals with known rows, and what a dataset holds.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use table::dataset;
use table::fleet::{
    FleetConnection, FleetConnections, FleetCoverage, FleetCoverages, FleetDetail, FleetDetails,
    FleetInterval, FleetIntervals, FleetProblem, FleetProblems,
};
use table::{Columns, Table, row_of};
use whylat_agent::Interval;
use whylat_agent::config::ShipConfig;
use whylat_agent::ship::{Backoff, ShipState, Shipper, WriterIdentity};

/// 2026-11-24 05:00 UTC.
pub const HOUR_NS: i64 = 1_795_496_400_000_000_000;
pub const MINUTE_NS: i64 = 60_000_000_000;
pub const HOST: &str = "web-1";
pub const BOOT: &str = "0a1b2c3d-1111-4222-8333-444455556666";

/// A directory in memory, where the system has such: a kill takes no file that was written, synced or not, and a disk that
/// others use makes a test of thousands of files take minutes.
pub fn memory_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("temporary directory")
}

pub fn writer() -> WriterIdentity {
    WriterIdentity {
        host: HOST.to_owned(),
        boot_id: BOOT.to_owned(),
    }
}

pub fn config(dir: &Path) -> ShipConfig {
    let target = dir.join("dataset");
    fs::create_dir_all(&target).expect("target");
    ShipConfig {
        target: target.to_str().expect("a path").to_owned(),
        spool: dir.join("spool"),
        spool_max_bytes: 1 << 30,
    }
}

/// A row; only these fields matter.
pub fn row<T: Table + serde::de::DeserializeOwned>(given: serde_json::Value) -> T {
    let mut given = given;
    let ordinary = |name: &str| match name {
        "host" => HOST.into(),
        "role" => "client".into(),
        "delay_sensitive" => false.into(),
        "local_address" | "peer_address" | "boot_id" | "agent" | "kernel" | "detail" => "x".into(),
        _ => serde_json::Value::from(0),
    };
    for field in T::FIELDS.iter().filter(|field| field.null.is_empty()) {
        if given.get(field.name).is_none() {
            given[field.name] = ordinary(field.name);
        }
    }
    row_of(given).expect("a row")
}

/// The interval of a start, with a number of connections that each have a row in every table. `conn_id` says which rows
/// they are: `begin` in seconds times 1000 and the number.
pub fn interval(begin_ns: i64, connections: i64) -> Interval {
    let mut interval = Interval {
        begin_ns,
        coverage: row::<FleetCoverage>(serde_json::json!({"begin_ns": begin_ns, "length_us": 1})),
        problems: FleetProblems::default(),
        intervals: FleetIntervals::default(),
        connections: FleetConnections::default(),
        details: FleetDetails::default(),
        containers: Default::default(),
    };
    for number in 0..connections {
        let conn_id = begin_ns / 1_000_000_000 * 1000 + number;
        let at = |time: &str| serde_json::json!({"conn_id": conn_id, time: begin_ns + number});
        interval.problems.push(row::<FleetProblem>(at("begin_ns")));
        interval
            .intervals
            .push(row::<FleetInterval>(at("begin_ns")));
        interval
            .connections
            .push(row::<FleetConnection>(at("time_ns")));
        interval.details.push(row::<FleetDetail>(at("time_ns")));
    }
    interval
}

/// Waits that tests can afford.
pub const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(2),
    most: Duration::from_millis(20),
};

/// Starts shipping with this configuration.
pub fn start(config: &ShipConfig) -> Shipper {
    Shipper::start_with(&writer(), config, BACKOFF).expect("start")
}

/// Gives an interval to the shipper, as soon as there is room.
pub fn put(shipper: &Shipper, interval: Interval) {
    loop {
        let before = shipper.state().refused_intervals;
        shipper.add_interval(interval.clone());
        if shipper.state().refused_intervals == before {
            return;
        }
        std::thread::yield_now();
    }
}

/// Waits for a state of the shipper, and is that.
pub fn until(shipper: &Shipper, wanted: impl Fn(&ShipState) -> bool) -> ShipState {
    let begin = Instant::now();
    loop {
        let state = shipper.state();
        if wanted(&state) {
            return state;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{state:?}");
        std::thread::yield_now();
    }
}

/// Stops with all patience.
pub fn stop(shipper: Shipper) -> ShipState {
    shipper.stop(Duration::from_secs(60))
}

/// Returns the data files of a directory by their path below it.
pub fn files(root: &Path) -> Vec<String> {
    let mut found = all_files(root);
    found.retain(|name| !name.starts_with(".agents/"));
    found
}

/// Returns the half-written files of a target or spool.
pub fn half_files(root: &Path) -> Vec<String> {
    let mut found = all_files(root);
    found.retain(|name| name.ends_with("tmp") || name.starts_with("stag"));
    found
}

/// Returns all files of a directory by their path below it.
fn all_files(root: &Path) -> Vec<String> {
    /// Adds all files below a directory.
    fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                walk(&path, files);
            } else {
                files.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(root, &mut found);
    let below = |path: PathBuf| {
        path.strip_prefix(root)
            .expect("below")
            .display()
            .to_string()
    };
    let mut found: Vec<String> = found.into_iter().map(below).collect();
    found.sort();
    found
}

/// Returns all rows of a table as readers take them: of a merged hour from its one file.
pub fn rows<C: Columns>(root: &Path) -> Vec<C::Row>
where
    C::Row: dataset::FleetRow,
{
    let files = files(root);
    let of_table = |name: &&String| name.starts_with(&format!("{}/", C::Row::NAME));
    let mut all = Vec::new();
    for name in files.iter().filter(of_table) {
        let hour = format!("{}.parquet", &name[..name.len() - "00.parquet".len()]);
        let is_minute = name.rsplit('.').nth(1).is_some_and(|time| time.len() == 4);
        if is_minute && files.contains(&hour) {
            continue;
        }
        let columns: C = dataset::read(&root.join(name)).expect("a file");
        let first = all.len();
        all.extend((0..columns.len()).map(|index| columns.row(index)));
        let is_sorted = all[first..].is_sorted_by_key(|row: &C::Row| row.time_ns());
        assert!(is_sorted, "{name}");
    }
    all
}

/// Returns the number of rows of each connection in a table.
pub fn count<C: Columns>(root: &Path) -> BTreeMap<i64, usize>
where
    C::Row: dataset::FleetRow,
{
    let mut counts = BTreeMap::new();
    for row in rows::<C>(root) {
        *counts.entry(dataset::FleetRow::conn_id(&row)).or_default() += 1;
    }
    counts
}

/// Begins of the intervals that a dataset says were watched.
pub fn watched(root: &Path) -> Vec<i64> {
    let coverage = rows::<FleetCoverages>(root);
    let mut begins: Vec<i64> = coverage.iter().map(|row| row.begin_ns).collect();
    begins.sort_unstable();
    begins
}

/// Demands that each of these intervals is there once, with all its rows, and nothing else.
pub fn assert_holds(root: &Path, intervals: &[Interval]) {
    let mut begins: Vec<i64> = intervals.iter().map(|interval| interval.begin_ns).collect();
    begins.sort_unstable();
    assert_eq!(watched(root), begins);
    let ids: BTreeMap<i64, usize> = intervals
        .iter()
        .flat_map(|interval| interval.problems.conn_id.iter().map(|&id| (id, 1)))
        .collect();
    assert_eq!(count::<FleetProblems>(root), ids);
    assert_eq!(count::<FleetIntervals>(root), ids);
    assert_eq!(count::<FleetConnections>(root), ids);
    assert_eq!(count::<FleetDetails>(root), ids);
}
