//! Preemptions: times in which a thread could run and did not, against what the kernel counted for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use table::tables::Preemption;

use testbed::report::{Report, number, text};
use testbed::{finish, program, root};

/// Uses one CPU with several threads: see its head.
const PREEMPT: &str = include_str!("programs/preempt.c");

/// Starts the program ($0) with its arguments ($1), its account in a file ($2), in a control group ($3).
const SCRIPT: &str = "[ -z \"$3\" ] || echo $$ > \"$3/cgroup.procs\"; exec \"$0\" $1 > \"$2\"";

/// Records the program at detail `waits`; returns what it says of its threads, and the recording.
fn record(arguments: &str, group: Option<&Path>) -> (Vec<Value>, Report) {
    let scratch = tempfile::tempdir().expect("a directory");
    let place = |name| scratch.path().join(name);
    std::fs::write(place("preempt.c"), PREEMPT).expect("the source");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O2", "-pthread", "-o"])
        .arg(place("preempt"));
    finish(compiler.arg(place("preempt.c"))).assert_status(0);
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", "waits", "--output"]);
    run.arg(place("r.whylat")).args(["--", "sh", "-c", SCRIPT]);
    run.arg(place("preempt")).arg(arguments).arg(place("truth"));
    run.arg(group.unwrap_or(Path::new("")));
    finish(&mut run).assert_status(0);
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    let truth = std::fs::read_to_string(report.file_beside("truth")).expect("its account");
    let truth = truth
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    (truth.collect(), report)
}

/// The rows of a thread, checked against the kernel's count of its involuntary switches and its run-queue delay.
#[track_caller]
fn of_thread<'a>(thread: &Value, rows: &'a [Preemption]) -> Vec<&'a Preemption> {
    let tid = number(thread, "/tid");
    let own: Vec<_> = rows.iter().filter(|it| u64::from(it.tid) == tid).collect();
    let (begin_ns, end_ns) = (number(thread, "/begin_ns"), number(thread, "/end_ns"));
    let count = |rows: &mut dyn Iterator<Item = &&Preemption>| {
        rows.map(|it| u64::from(it.count)).sum::<u64>()
    };
    // the thread ends after its count, and may be preempted until then
    let before = count(&mut own.iter().filter(|it| it.end_ns <= end_ns));
    let switches = number(thread, "/switches");
    assert!(
        (before..=count(&mut own.iter())).contains(&switches),
        "{thread}: {before} recorded before its end, {own:?}"
    );
    let since = own
        .iter()
        .filter(|it| (begin_ns..end_ns).contains(&it.start_ns));
    let off_ns: u64 = since.map(|it| it.off_cpu_ns).sum();
    let delay_ns = number(thread, "/delay_ns");
    // the kernel reads its clock a moment before the hook does, and short ones before the begin may be in a sum
    let bound_ns = delay_ns / 50 + 1_000_000;
    assert!(
        off_ns.abs_diff(delay_ns) <= bound_ns,
        "{thread}: {off_ns} ns recorded, {delay_ns} ns in schedstat"
    );
    own
}

#[track_caller]
fn assert_sound(row: &Preemption) {
    let span_ns = row.end_ns - row.start_ns;
    match row.count {
        0 => panic!("{row:?}"),
        1 => assert_eq!(row.off_cpu_ns, span_ns, "{row:?}"),
        _ => assert!(row.off_cpu_ns < span_ns, "{row:?}"),
    }
    let is_short = row.off_cpu_ns < 50_000 * u64::from(row.count);
    assert!(row.count == 1 || is_short, "{row:?}");
    assert!(row.yields <= row.count, "{row:?}");
}

#[test]
fn preemptions_match_involuntary_switches() {
    const YIELDS: u32 = 101;
    if !root() {
        return;
    }
    let (truth, report) = record(&format!("1 3 300 {YIELDS}"), None);
    let rows: Vec<Preemption> = report.rows();
    rows.iter().for_each(assert_sound);
    assert_eq!(truth.len(), 3);
    let names: BTreeMap<u64, &str> = truth
        .iter()
        .map(|thread| (number(thread, "/tid"), text(thread, "name")))
        .collect();
    for thread in &truth {
        let own = of_thread(thread, &rows);
        assert!(own.iter().any(|row| row.count == 1), "{own:#?}");
        for row in own {
            assert_ne!(row.quota_used_up, Some(true), "{row:?}");
            assert_eq!(row.cpu, 1, "{row:?}");
            let sibling = row.by_tid.and_then(|tid| names.get(&u64::from(tid)));
            if let Some(name) = sibling {
                let comm = row.by_comm.as_deref();
                // until it names itself, a thread has the name of the program
                assert!(comm == Some(*name) || comm == Some("preempt"), "{row:?}");
                assert_eq!(row.by_pid, Some(row.pid), "{row:?}");
            }
        }
    }
    let by_siblings = rows.iter().filter(|row| row.by_pid == Some(row.pid));
    assert!(by_siblings.count() >= truth.len());
    let first = number(&truth[0], "/tid");
    let (own, others): (Vec<_>, Vec<_>) = rows.iter().partition(|it| u64::from(it.tid) == first);
    let yields = |rows: &[&Preemption]| rows.iter().map(|row| row.yields).sum::<u32>();
    assert!((1..=YIELDS).contains(&yields(&own)), "{own:#?}");
    assert_eq!(yields(&others), 0);
}

/// The period of the quota.
const PERIOD_NS: u64 = 100_000_000;

/// A control group of version 1 with a CPU quota of a twentieth; removed when dropped.
struct QuotaGroup(PathBuf);

impl QuotaGroup {
    /// `None`: the host has none of version 1.
    fn new() -> Option<Self> {
        let all = Path::new("/sys/fs/cgroup/cpu");
        if !all.join("cpu.cfs_quota_us").exists() {
            eprintln!("skipped: no control groups of version 1 for CPUs");
            return None;
        }
        let group = Self(all.join(format!("whylat-test-{}", std::process::id())));
        std::fs::create_dir(&group.0).expect("a control group");
        let period_us = PERIOD_NS / 1_000;
        for (file, value_us) in [
            ("cpu.cfs_period_us", period_us),
            ("cpu.cfs_quota_us", period_us / 20),
        ] {
            std::fs::write(group.0.join(file), value_us.to_string()).expect("a quota");
        }
        Some(group)
    }

    fn stat(&self, name: &str) -> u64 {
        let stat = std::fs::read_to_string(self.0.join("cpu.stat")).expect("its statistics");
        let value = stat.lines().find_map(|line| line.strip_prefix(name));
        value
            .and_then(|it| it.trim().parse().ok())
            .expect("a number")
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        // a process may be on its way out still
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn quota_rows_match_cgroup_statistics() {
    if !root() {
        return;
    }
    let Some(group) = QuotaGroup::new() else {
        return;
    };
    let (truth, report) = record("1 1 110 0", Some(&group.0));
    let rows: Vec<Preemption> = report.rows();
    rows.iter().for_each(assert_sound);
    of_thread(&truth[0], &rows);
    let throttled: Vec<_> = rows
        .iter()
        .filter(|row| row.quota_used_up == Some(true))
        .collect();
    // the kernel counts a period in which several threads used up the quota once, and late periods together
    let (periods, time_ns) = (group.stat("nr_throttled "), group.stat("throttled_time "));
    let found = throttled.len() as u64;
    let neighbours: Vec<_> = rows.iter().filter(|row| is_neighbours(row)).collect();
    let explained: u64 = neighbours.iter().map(|row| count_periods(row)).sum();
    assert!(periods >= 10, "{periods}");
    assert!(
        found <= periods + 1 && periods <= found + explained + 2,
        "{found} rows, {explained} by neighbours, {periods} periods: {rows:#?}"
    );
    let off_ns: u64 = throttled
        .iter()
        .chain(&neighbours)
        .map(|row| row.off_cpu_ns)
        .sum();
    assert!(
        off_ns >= time_ns - time_ns / 50,
        "{off_ns} ns recorded, {time_ns} ns in cpu.stat: {rows:#?}"
    );
}

/// Returns whether another process had the CPU, while there was quota when the thread left it.
fn is_neighbours(row: &Preemption) -> bool {
    row.quota_used_up == Some(false) && row.by_pid.is_some_and(|pid| pid != row.pid)
}

/// Returns how many periods may have ended while the thread waited for a CPU: the kernel counts them as those of a thread
/// that waits for the quota.
fn count_periods(row: &Preemption) -> u64 {
    u64::from(row.count) + row.off_cpu_ns / PERIOD_NS
}
