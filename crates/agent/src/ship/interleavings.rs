//! Any order of storing, sending, failing and dying leaves each row at the target once: the spool against a target that is
//! a map in memory, with operations that are chosen at random.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use table::fleet::{
    FleetConnections, FleetCoverage, FleetDetails, FleetIntervals, FleetProblem, FleetProblems,
};
use table::{Columns, dataset, row_of};

use super::name::{HOUR_NS, Key};
use super::spool::{Spool, Work};
use crate::Interval;

const BEGIN_NS: i64 = 490_000 * HOUR_NS;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// An interval is stored, so many seconds after the one before.
    Store(i64),
    /// The next thing is done at the target, and the spool learns of it.
    Deliver,
    /// The target does it, and the agent dies before it learns of it.
    DieAfter,
    /// The target does not do it.
    Fail,
    /// An interval is stored while a file is sent that it changes.
    StoreWhileSending,
    /// The agent dies and another one begins.
    Die,
    /// The host boots.
    Boot,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1_i64..5).prop_map(|length| Step::Store(length * 10)),
        // to the next hour
        1 => Just(Step::Store(3600)),
        8 => Just(Step::Deliver),
        2 => Just(Step::DieAfter),
        2 => Just(Step::Fail),
        2 => Just(Step::StoreWhileSending),
        1 => Just(Step::Die),
        1 => Just(Step::Boot),
    ]
}

struct World {
    dir: tempfile::TempDir,
    spool: Option<Spool>,
    boot: u32,
    now_ns: i64,
    target: BTreeMap<Key, Vec<u8>>,
    stored: Vec<i64>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let mut world = Self {
            dir: dir.expect("directory"),
            spool: None,
            boot: 0,
            now_ns: BEGIN_NS,
            target: BTreeMap::new(),
            stored: Vec::new(),
        };
        world.open();
        world
    }

    fn open(&mut self) {
        self.spool = None;
        let boot = format!("{:08x}", self.boot);
        let spool = Spool::open(self.dir.path(), "h", &boot, 1 << 30);
        self.spool = Some(spool.expect("spool"));
    }

    fn spool(&mut self) -> &mut Spool {
        self.spool.as_mut().expect("open")
    }

    fn store(&mut self, length_s: i64) {
        self.now_ns += length_s * 1_000_000_000;
        let begin_ns = self.now_ns;
        self.spool().store(interval(begin_ns));
        self.stored.push(begin_ns);
    }

    /// Does the next thing at the target.
    fn perform(&mut self) -> Option<Work> {
        let work = self.spool().next()?;
        match &work {
            Work::Send { key, path, .. } => {
                self.spool().trying(key);
                let bytes = std::fs::read(path).expect("a file that waits");
                self.target.insert(key.clone(), bytes);
            }
            Work::Remove(key) => drop(self.target.remove(key)),
        }
        Some(work)
    }

    fn report(&mut self, work: &Work) {
        match work {
            Work::Send {
                key, generation, ..
            } => self.spool().delivered(key, *generation),
            Work::Remove(key) => self.spool().removed(key),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Store(length_s) => self.store(length_s),
            Step::Deliver => {
                if let Some(work) = self.perform() {
                    self.report(&work);
                }
            }
            Step::DieAfter => {
                self.perform();
                self.open();
            }
            Step::Fail => {
                if let Some(Work::Send { key, .. }) = self.spool().next() {
                    self.spool().trying(&key);
                }
            }
            Step::StoreWhileSending => {
                let work = self.perform();
                self.store(10);
                if let Some(work) = work {
                    self.report(&work);
                }
            }
            Step::Die => self.open(),
            Step::Boot => {
                self.boot += 1;
                self.open();
            }
        }
    }

    fn drain(&mut self) {
        while let Some(work) = self.perform() {
            self.report(&work);
        }
    }

    /// Rows of a table as readers take them.
    fn times<C: Columns>(&self) -> Vec<u64>
    where
        C::Row: dataset::FleetRow,
    {
        let mut times = Vec::new();
        let path: PathBuf = self.dir.path().join("read");
        for (key, bytes) in &self.target {
            let is_covered = !key.is_hour() && self.target.contains_key(&key.of_hour());
            if key.table() == <C::Row as table::Table>::NAME && !is_covered {
                times.extend(times_of::<C>(&path, bytes));
            }
        }
        times.sort_unstable();
        times
    }
}

fn times_of<C: Columns>(path: &Path, bytes: &[u8]) -> Vec<u64> {
    std::fs::write(path, bytes).expect("write");
    let rows: C = dataset::read(path).expect("a file");
    let time = |index| table::Table::time_ns(&rows.row(index));
    (0..rows.len()).map(time).collect()
}

fn interval(begin_ns: i64) -> Interval {
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
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn each_row_is_there_once(steps in proptest::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.drain();
        let stored: Vec<u64> = world.stored.iter().map(|time| time.cast_unsigned()).collect();
        prop_assert_eq!(world.times::<FleetProblems>(), stored.clone());
        prop_assert_eq!(world.times::<table::fleet::FleetCoverages>(), stored);
        let given = world.spool().given;
        prop_assert_eq!((given.full_files, given.failed_files, given.late_rows), (0, 0, 0));
        // no minute's file is left beside its hour's
        let covered = world.target.keys().filter(|key| !key.is_hour() && world.target.contains_key(&key.of_hour()));
        prop_assert_eq!(covered.count(), 0);
    }
}
