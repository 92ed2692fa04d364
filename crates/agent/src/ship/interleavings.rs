//! Any order of storing, sending, failing and dying leaves each row at the target once: the spool against a target that is
//! a map in memory, with operations that are chosen at random.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use table::fleet::{
    FleetConnections, FleetCoverage, FleetDetail, FleetDetails, FleetIntervals, FleetProblem,
    FleetProblems,
};
use table::{Columns, dataset, row_of};

use super::name::{FileKey, HOUR_NS};
use super::spool::{DeliveryTask, Spool};
use super::stage::StagedInterval;
use crate::Interval;

const BEGIN_NS: i64 = 490_000 * HOUR_NS;

#[derive(Debug, Clone, Copy)]
enum InterleavingStep {
    /// An interval is stored, so many seconds after the one before.
    Store(i64),
    /// The next thing is done at the target, and the spool learns of it.
    Deliver,
    /// The target does it, and the agent dies before it learns of it.
    DieAfter,
    /// The target does not do it.
    Fail,
    /// The target does it, and its answer is lost.
    Unsure,
    /// An interval is stored, so many seconds after the one before, between the choice of a file and its sending.
    StoreBeforeSending(i64),
    /// An interval is stored, so many seconds after the one before, while a file is sent that it may change.
    StoreWhileSending(i64),
    /// The agent dies and another one starts.
    Die,
    /// The host boots.
    Boot,
}

/// Within the minute, and to the next hour.
const SOON_OR_LATE_S: [i64; 2] = [10, 3600];

/// Generates one step: store, send, restart, or a failure.
fn step() -> impl Strategy<Value = InterleavingStep> {
    let soon_or_late = || proptest::sample::select(SOON_OR_LATE_S.as_slice());
    prop_oneof![
        6 => (1_i64..5).prop_map(|length| InterleavingStep::Store(length * 10)),
        // to the next hour
        1 => Just(InterleavingStep::Store(3600)),
        8 => Just(InterleavingStep::Deliver),
        2 => Just(InterleavingStep::DieAfter),
        2 => Just(InterleavingStep::Fail),
        1 => Just(InterleavingStep::Unsure),
        2 => soon_or_late().prop_map(InterleavingStep::StoreBeforeSending),
        2 => soon_or_late().prop_map(InterleavingStep::StoreWhileSending),
        1 => Just(InterleavingStep::Die),
        1 => Just(InterleavingStep::Boot),
    ]
}

struct InterleavingWorld {
    dir: tempfile::TempDir,
    spool: Option<Spool>,
    boot: u32,
    now_ns: i64,
    target: BTreeMap<FileKey, Vec<u8>>,
    /// Files that the target may have, as far as the agent can know.
    asked: BTreeSet<FileKey>,
    stored: Vec<i64>,
}

impl InterleavingWorld {
    /// Begins with an empty spool.
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let mut world = Self {
            dir: dir.expect("directory"),
            spool: None,
            boot: 0,
            now_ns: BEGIN_NS,
            target: BTreeMap::new(),
            asked: BTreeSet::new(),
            stored: Vec::new(),
        };
        world.open();
        world
    }

    /// Opens the spool again, as after a restart.
    fn open(&mut self) {
        self.spool = None;
        let boot = format!("{:08x}", self.boot);
        let spool = Spool::open(self.dir.path(), "h", &boot, 1 << 30);
        let spool = spool.expect("spool");
        // no agent knows what the one before it has tried
        let left = spool.pending.keys().chain(spool.sent.keys()).cloned();
        self.asked.extend(left);
        self.spool = Some(spool);
    }

    /// Returns the open spool.
    fn spool(&mut self) -> &mut Spool {
        self.spool.as_mut().expect("open")
    }

    /// Stores an interval that begins `length_s` later.
    fn store(&mut self, length_s: i64) {
        self.now_ns += length_s * 1_000_000_000;
        let begin_ns = self.now_ns;
        self.spool().store(interval(begin_ns));
        self.stored.push(begin_ns);
    }

    /// Does the next task at the target, and returns it.
    fn perform(&mut self) -> Option<DeliveryTask> {
        let work = self.spool().next()?;
        self.perform_chosen(&work);
        Some(work)
    }

    /// Does the chosen task; returns whether that worked.
    fn perform_chosen(&mut self, work: &DeliveryTask) -> bool {
        match work {
            DeliveryTask::Send { key, path, .. } => {
                self.spool().trying(key);
                let Ok(bytes) = std::fs::read(path) else {
                    return false;
                };
                self.asked.insert(key.clone());
                self.target.insert(key.clone(), bytes);
            }
            DeliveryTask::Remove(key) => drop(self.target.remove(key)),
        }
        true
    }

    /// Stores an interval between the choice of a file and its sending.
    fn store_before_sending(&mut self, length_s: i64) {
        let work = self.spool().next();
        self.store(length_s);
        let Some(work) = work else { return };
        let is_done = self.perform_chosen(&work);
        match &work {
            DeliveryTask::Send {
                key, generation, ..
            } if !is_done => self.spool().mark_vanished(key, *generation),
            _ => self.report(&work),
        }
    }

    /// Reports a task as done.
    fn report(&mut self, work: &DeliveryTask) {
        match work {
            DeliveryTask::Send {
                key, generation, ..
            } => self.spool().mark_delivered(key, *generation),
            DeliveryTask::Remove(key) => self.spool().mark_removed(key),
        }
    }

    /// Does one step.
    fn step(&mut self, step: InterleavingStep) {
        match step {
            InterleavingStep::Store(length_s) => self.store(length_s),
            InterleavingStep::Deliver => {
                if let Some(work) = self.perform() {
                    self.report(&work);
                }
            }
            InterleavingStep::DieAfter => {
                self.perform();
                self.open();
            }
            InterleavingStep::Fail => {
                if let Some(DeliveryTask::Send { key, .. }) = self.spool().next() {
                    self.spool().trying(&key);
                    self.asked.insert(key);
                }
            }
            InterleavingStep::Unsure => drop(self.perform()),
            InterleavingStep::StoreBeforeSending(length_s) => self.store_before_sending(length_s),
            InterleavingStep::StoreWhileSending(length_s) => {
                let work = self.perform();
                self.store(length_s);
                if let Some(work) = work {
                    self.report(&work);
                }
            }
            InterleavingStep::Die => self.open(),
            InterleavingStep::Boot => {
                self.boot += 1;
                self.open();
            }
        }
    }

    /// Returns the path of the file that a merge of an hour writes, if there is one.
    fn merging(&self) -> Option<PathBuf> {
        let path = self.dir.path().join("merging.tmp");
        path.exists().then_some(path)
    }

    /// Checks the invariants of the spool after each step.
    fn check(&self) {
        let spool = self.spool.as_ref().expect("open");
        let unasked = spool.sent.keys().find(|key| !self.asked.contains(key));
        assert_eq!(unasked, None, "kept for a target that was never asked");
        let given = spool.given;
        let lost = (given.full_files, given.failed_files, given.late_rows);
        assert_eq!(lost, (0, 0, 0));
    }

    /// Delivers until nothing is left.
    fn drain(&mut self) {
        while let Some(work) = self.perform() {
            self.report(&work);
        }
    }

    /// Returns the times of all rows of a table that readers see.
    fn times<C: Columns>(&self) -> Vec<u64>
    where
        C::Row: dataset::FleetRow,
    {
        let mut times = Vec::new();
        let path: PathBuf = self.dir.path().join("read");
        for (key, bytes) in &self.target {
            let is_covered = !key.is_hour() && self.target.contains_key(&key.hour_key());
            if key.table() == <C::Row as table::Table>::NAME && !is_covered {
                times.extend(times_of::<C>(&path, bytes));
            }
        }
        times.sort_unstable();
        times
    }
}

/// Returns the times of all rows of a file.
fn times_of<C: Columns>(path: &Path, bytes: &[u8]) -> Vec<u64> {
    std::fs::write(path, bytes).expect("write");
    let rows: C = dataset::read(path).expect("a file");
    let time = |index| table::Table::time_ns(&rows.row(index));
    (0..rows.len()).map(time).collect()
}

/// Returns an interval with a problem, and nothing else.
pub(super) fn interval(begin_ns: i64) -> Interval {
    let coverage = serde_json::json!({
        "host": "h", "begin_ns": begin_ns, "length_us": 1, "boot_id": "b", "agent": "a", "kernel": "k", "detail": "d",
        "connections": 0, "polled": 0, "polls": 0, "poll_interval_us": 0, "poll_gap_us": 0, "cpu_us": 0, "rss_bytes": 0,
        "lost": 0, "rows": 0, "spooled_files": 0, "dropped_files": 0,
    });
    let problem = serde_json::json!({
        "host": "h", "conn_id": 1, "begin_ns": begin_ns, "send_buffer_us": 0, "fast_retransmit_us": 0, "timeout_us": 0,
        "receiver_window_us": 0,
    });
    let mut problems = FleetProblems::default();
    problems.push(row_of::<FleetProblem>(problem).expect("a row"));
    Interval {
        begin_ns,
        coverage: row_of::<FleetCoverage>(coverage).expect("a row"),
        problems,
        intervals: FleetIntervals::default(),
        connections: FleetConnections::default(),
        details: FleetDetails::default(),
        containers: Default::default(),
    }
}

/// Returns an interval with a detail, and nothing else.
pub(super) fn interval_of_detail(begin_ns: i64) -> Interval {
    let detail = serde_json::json!({
        "host": "h", "conn_id": 1, "time_ns": begin_ns, "length_us": 1, "acked_bytes": 0, "received_bytes": 0,
        "retrans": 0, "send_queue_bytes": 0, "unacked_segs": 0, "cwnd_segs": 1,
    });
    let mut interval = interval(begin_ns);
    interval.problems = FleetProblems::default();
    interval
        .details
        .push(row_of::<FleetDetail>(detail).expect("a row"));
    interval
}

#[test]
fn hour_without_target_is_spooled_once() {
    let mut world = InterleavingWorld::new();
    // to the start of an hour, through it, and past its end
    for length_s in [3600].into_iter().chain([60; 57]).chain([300]) {
        world.store(length_s);
        world.step(InterleavingStep::Fail);
    }
    let spool = world.spool();
    assert_eq!(spool.sent.len(), 1, "the one that was tried all the time");
    assert_eq!(spool.pending.len(), 2 + 2, "two tables' hour and minute");
    world.drain();
    assert_eq!(world.target.len(), 4);
}

#[test]
fn file_dropped_during_delivery_goes_with_its_hour() {
    let mut world = InterleavingWorld::new();
    let begin_ns = BEGIN_NS;
    world.spool().store(interval_of_detail(begin_ns));
    let sent = world.perform();
    assert!(
        world
            .spool()
            .relieve(&mut StagedInterval::default(), begin_ns)
    );
    assert_eq!(world.spool().given.full_files, 1);
    // its minute goes on, and is not delivered until its hour is merged
    let (soon_ns, late_ns) = (begin_ns + HOUR_NS / 120, begin_ns + 2 * HOUR_NS);
    world.spool().store(interval_of_detail(soon_ns));
    world.spool().store(interval_of_detail(late_ns));
    world.report(&sent.expect("a file of details"));
    world.drain();
    let minutes = world.target.keys().filter(|key| !key.is_hour());
    let minutes: Vec<i64> = minutes.map(FileKey::begin_ns).collect();
    assert_eq!(minutes, [late_ns, late_ns], "those of the hour that runs");
}

#[test]
fn a_merge_that_fails_leaves_nothing() {
    let mut world = InterleavingWorld::new();
    world.store(3600);
    let files = std::fs::read_dir(world.dir.path().join("pending")).expect("files");
    for file in files {
        std::fs::write(file.expect("file").path(), "damaged").expect("write");
    }
    world.store(2 * 3600);
    assert_eq!(world.spool().given.unmerged_hours, 2);
    assert_eq!(world.merging(), None);
}

#[test]
fn half_merge_of_a_kill_is_removed() {
    let mut world = InterleavingWorld::new();
    let begun = world.dir.path().join("merging.tmp");
    std::fs::write(&begun, "half an hour").expect("write");
    world.open();
    assert_eq!(world.merging(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn each_row_is_there_once(steps in proptest::collection::vec(step(), 1..80)) {
        let mut world = InterleavingWorld::new();
        for step in steps {
            world.step(step);
            world.check();
        }
        world.drain();
        let stored: Vec<u64> = world.stored.iter().map(|time| time.cast_unsigned()).collect();
        prop_assert_eq!(world.times::<FleetProblems>(), stored.clone());
        prop_assert_eq!(world.times::<table::fleet::FleetCoverages>(), stored);
        world.check();
        // no minute's file is left beside its hour's
        let covered = world.target.keys().filter(|key| !key.is_hour() && world.target.contains_key(&key.hour_key()));
        prop_assert_eq!(covered.count(), 0);
    }
}
