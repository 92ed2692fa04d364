//! Intervals to a dataset in a directory: names, merging, a target that goes and comes back, a full spool.

mod common;

use std::fs;
use std::path::Path;

use common::*;
use table::Columns;
use table::fleet::{FleetDetail, FleetProblem};
use whylat_agent::Interval;
use whylat_agent::ship::{ShipError, Shipper, WriterIdentity};

/// Makes intervals of one minute each.
fn minutes(from: i64, to: i64) -> Vec<Interval> {
    (from..to)
        .map(|minute| interval(HOUR_NS + minute * MINUTE_NS, 3))
        .collect()
}

#[test]
fn a_minute_is_a_file_of_each_table() {
    let dir = tempfile::tempdir().expect("directory");
    let config = config(dir.path());
    let shipper = start(&config);
    let intervals = minutes(12, 14);
    intervals.iter().for_each(|one| put(&shipper, one.clone()));
    let state = stop(shipper);
    assert_eq!(state.delivered_files, 10);
    assert_eq!((state.spooled_files, state.failures), (0, 0));
    let root = Path::new(&config.target);
    let names = files(root);
    assert_eq!(names.len(), 10);
    let name = "fleet_problems/date=2026-11-24/hour=05/web-1.0a1b2c3d.0512.parquet";
    assert!(names.contains(&name.to_owned()), "{names:?}");
    assert_holds(root, &intervals);
}

#[test]
fn an_hour_is_merged_and_its_minutes_removed() {
    let dir = memory_dir();
    let config = config(dir.path());
    let shipper = start(&config);
    let intervals = minutes(0, 62);
    intervals.iter().for_each(|one| put(&shipper, one.clone()));
    stop(shipper);
    let root = Path::new(&config.target);
    let names = files(root);
    assert_eq!(names.len(), 5 + 2 * 5, "{names:?}");
    assert!(
        names.contains(
            &"fleet_coverage/date=2026-11-24/hour=05/web-1.0a1b2c3d.05.parquet".to_owned()
        )
    );
    assert_holds(root, &intervals);
    // copies of the running hour's files, and nothing of the merged one
    assert_eq!(files(&config.spool.join("sent")).len(), 10);
    assert!(files(&config.spool.join("pending")).is_empty());
}

#[test]
fn partial_hour_keeps_minutes() {
    let dir = memory_dir();
    let config = config(dir.path());
    let root = Path::new(&config.target);
    let all = minutes(10, 62);
    let shipper = start(&config);
    all[..20].iter().for_each(|one| put(&shipper, one.clone()));
    stop(shipper);
    fs::remove_dir_all(&config.spool).expect("the spool is removed");
    let shipper = start(&config);
    all[20..].iter().for_each(|one| put(&shipper, one.clone()));
    let state = stop(shipper);
    assert!(state.given.unmerged_hours > 0);
    assert_eq!(files(root).len(), all.len() * 5);
    assert_holds(root, &all);
}

#[test]
fn minute_in_parts_is_one_file() {
    let dir = memory_dir();
    let config = config(dir.path());
    let root = Path::new(&config.target);
    let parts: Vec<Interval> = (0..6)
        .map(|part| interval(HOUR_NS + part * MINUTE_NS / 6, 2))
        .collect();
    // delivered after each, and by another agent
    for part in &parts {
        let shipper = start(&config);
        put(&shipper, part.clone());
        stop(shipper);
    }
    assert_eq!(files(root).len(), 5);
    assert_holds(root, &parts);
}

#[test]
fn rows_are_stored_by_hour() {
    let dir = memory_dir();
    let config = config(dir.path());
    let root = Path::new(&config.target);
    let mut intervals = minutes(0, 62);
    let late = HOUR_NS + 60 * MINUTE_NS - 1;
    let early = HOUR_NS + 60 * MINUTE_NS + 5;
    let detail = |time_ns: i64| {
        row::<FleetDetail>(serde_json::json!({"conn_id": time_ns, "time_ns": time_ns}))
    };
    intervals[59].details.push(detail(early));
    intervals[60].details.push(detail(late));
    let shipper = start(&config);
    intervals.iter().for_each(|one| put(&shipper, one.clone()));
    stop(shipper);
    let counts = count::<table::fleet::FleetDetails>(root);
    assert_eq!((counts[&late], counts[&early]), (1, 1));
    for name in files(root)
        .iter()
        .filter(|name| name.starts_with("fleet_details"))
    {
        let columns: table::fleet::FleetDetails =
            table::dataset::read(&root.join(name)).expect("a file");
        let hour = HOUR_NS
            + if name.contains("hour=06") {
                60 * MINUTE_NS
            } else {
                0
            };
        let is_inside = |time: &i64| (hour..hour + 60 * MINUTE_NS).contains(time);
        assert!(columns.time_ns.iter().all(is_inside), "{name}");
    }
}

#[test]
fn target_outage_loses_nothing() {
    let dir = memory_dir();
    let config = config(dir.path());
    let root = Path::new(&config.target);
    fs::remove_dir(root).expect("away");
    let shipper = start(&config);
    let intervals = minutes(0, 130);
    intervals.iter().for_each(|one| put(&shipper, one.clone()));
    let state = until(&shipper, |state| {
        state.failures > 2 && state.spooled_files >= 60
    });
    assert!(state.error.expect("an error").contains("No such file"));
    assert!(state.delay_s > 0.0 && state.delivered_files == 0);
    fs::create_dir(root).expect("back");
    let state = until(&shipper, |state| {
        state.spooled_files == 0 && state.delivered_files > 0
    });
    assert_eq!((state.error, state.delay_s), (None, 0.0));
    stop(shipper);
    assert_holds(root, &intervals);
    // hours that ended meanwhile were merged before they were sent
    assert_eq!(files(root).len(), 5 + 5 + 10 * 5);
}

#[test]
fn spooled_files_survive_restart() {
    let dir = memory_dir();
    let config = config(dir.path());
    let root = Path::new(&config.target);
    fs::remove_dir(root).expect("away");
    let intervals = minutes(0, 3);
    let shipper = start(&config);
    intervals.iter().for_each(|one| put(&shipper, one.clone()));
    let state = shipper.stop(std::time::Duration::from_secs(60));
    assert_eq!(state.spooled_files, 15);
    fs::create_dir(root).expect("back");
    assert_eq!(stop(start(&config)).delivered_files, 15);
    assert_holds(root, &intervals);
}

#[test]
fn reboot_starts_new_file() {
    let dir = memory_dir();
    let config = config(dir.path());
    let root = Path::new(&config.target);
    let intervals = minutes(0, 6);
    let shipper = start(&config);
    intervals[..3]
        .iter()
        .for_each(|one| put(&shipper, one.clone()));
    stop(shipper);
    let reboot = WriterIdentity {
        boot_id: "ffffffff-0000".to_owned(),
        ..writer()
    };
    let shipper = Shipper::start_with(&reboot, &config, BACKOFF).expect("start");
    intervals[3..]
        .iter()
        .for_each(|one| put(&shipper, one.clone()));
    stop(shipper);
    let names = files(root);
    assert!(names[0].ends_with("web-1.0a1b2c3d.05.parquet"), "{names:?}");
    assert_eq!(names.len(), 5 + 3 * 5);
    assert_holds(root, &intervals);
}

#[test]
fn a_second_agent_is_refused() {
    let dir = memory_dir();
    let config = config(dir.path());
    let shipper = start(&config);
    let second = Shipper::start(&writer(), &config).err().expect("refused");
    assert!(matches!(second, ShipError::SpoolBusy { .. }), "{second}");
    let mut elsewhere = config.clone();
    elsewhere.spool = dir.path().join("other");
    let second = Shipper::start(&writer(), &elsewhere)
        .err()
        .expect("refused");
    assert!(matches!(second, ShipError::NameTaken { .. }), "{second}");
    assert!(
        second.to_string().contains("as host web-1\nhint: "),
        "{second}"
    );
    let other = WriterIdentity {
        host: "web-2".to_owned(),
        ..writer()
    };
    drop(Shipper::start(&other, &elsewhere).expect("another name"));
    drop(shipper);
    drop(start(&elsewhere));
}

#[test]
fn clock_set_back_keeps_unmerged_minutes() {
    let dir = memory_dir();
    let config = config(dir.path());
    let root = Path::new(&config.target);
    let mut all = minutes(0, 62);
    let shipper = start(&config);
    all.iter().for_each(|one| put(&shipper, one.clone()));
    // into the merged hour: dropped and counted, not written beside a file that has its hour
    put(
        &shipper,
        interval(HOUR_NS + 30 * MINUTE_NS + 7_000_000_000, 3),
    );
    // a year back: begins again
    let back = interval(HOUR_NS - 365 * 24 * 60 * MINUTE_NS, 3);
    put(&shipper, back.clone());
    all.push(back);
    let state = stop(shipper);
    assert_eq!(state.given.late_rows, 3 * 4 + 1);
    assert_holds(root, &all);
}

#[test]
fn full_spool_drops_details_then_newest() {
    let dir = memory_dir();
    let mut config = config(dir.path());
    let root = Path::new(&config.target);
    fs::remove_dir(root).expect("away");
    config.spool_max_bytes = 400_000;
    let shipper = start(&config);
    let intervals = minutes(1, 40);
    intervals.iter().for_each(|one| put(&shipper, one.clone()));
    let dropped = |state: &whylat_agent::ship::ShipState| state.given.full_files;
    let state = until(&shipper, |state| {
        dropped(state) + state.spooled_files >= 39 * 5
    });
    assert!(state.spooled_bytes <= 400_000, "{state:?}");
    assert!(dropped(&state) > 5 && state.spooled_files > 10, "{state:?}");
    fs::create_dir(root).expect("back");
    until(&shipper, |state| state.spooled_files == 0);
    stop(shipper);
    let kept = watched(root);
    let oldest: Vec<i64> = intervals
        .iter()
        .map(|one| one.begin_ns)
        .take(kept.len())
        .collect();
    assert_eq!(kept, oldest, "the oldest are kept");
    let problems = count::<table::fleet::FleetProblems>(root);
    assert_eq!(
        problems.len(),
        kept.len() * 3,
        "who was watched has all problems"
    );
    let details = count::<table::fleet::FleetDetails>(root);
    assert!(details.len() < problems.len());
    let names = files(root).len() as u64;
    assert_eq!(
        names + dropped(&state),
        39 * 5,
        "all that is missing is counted"
    );
}

#[test]
fn coverage_lists_spool() {
    let dir = memory_dir();
    let config = config(dir.path());
    let root = Path::new(&config.target);
    fs::remove_dir(root).expect("away");
    let shipper = start(&config);
    let mut intervals = minutes(1, 3);
    let begin_ns = intervals[1].begin_ns;
    intervals[1].problems.push(row::<FleetProblem>(
        serde_json::json!({"conn_id": 7, "begin_ns": begin_ns}),
    ));
    intervals.iter().for_each(|one| put(&shipper, one.clone()));
    until(&shipper, |state| state.spooled_files == 10);
    fs::create_dir(root).expect("back");
    stop(shipper);
    let coverage = rows::<table::fleet::FleetCoverages>(root);
    let totals: Vec<_> = coverage
        .iter()
        .map(|row| (row.rows, row.spooled_files, row.dropped_files))
        .collect();
    assert_eq!(totals, [(12, 0, 0), (13, 5, 0)]);
}
