//! A recording and a trace of the same time in, a recording out that has the trace's functions among what its CPUs did.

use std::collections::BTreeMap;
use std::path::Path;

use ::import::{MergedFunctions, TraceImport, merge};
use anyhow::{Context, bail};
use clap::ValueEnum;
use table::clock::{ClockMap, Nature};
use table::manifest::{Coverage, Line, Loss, ProbeState};
use table::tables::{Activities, Activity, ClockPair, ClockPairs};
use table::{
    ActivityKind, ActivitySource, ClosedRecording, Columns, Recording, Table, WriteOptions, Writer,
    for_each_table,
};

use crate::out;

/// Name under which a recording accounts for the functions of a trace.
const PROBE: &str = "activity.functions";

/// Clock of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Clock {
    /// The default of perf and ftrace (`local`).
    Perf,
    /// `perf record -k CLOCK_MONOTONIC`, `trace-cmd record -C mono`, or `mono` in `trace_clock`.
    Monotonic,
}

/// Writes a copy of the recording with the trace in it; returns a message for the user.
pub(super) fn store(
    trace: &TraceImport,
    path: &Path,
    clock: Clock,
    output: &Path,
    force: bool,
) -> anyhow::Result<String> {
    let recording = Recording::open(path)?;
    let recorded = recorded_activities(&recording)?;
    let map = clock_map(&recording, clock)?;
    let merged = merge(&recorded, &trace.activities, |ns| match &map {
        None => Some((ns, 0)),
        Some(map) => {
            let stamp = map.convert(i64::try_from(ns).ok()?)?;
            Some((stamp.monotonic_ns, stamp.error_ns))
        }
    });
    if merged.functions == 0 {
        bail!("{}", explain_no_functions(&merged, path, clock));
    }
    let message = format!(
        "{}: {} rows of functions among the {} of {}, their times to ±{} ns; {} functions lie outside of what it kept",
        out::name(output),
        merged.functions,
        recorded.len(),
        out::name(path),
        merged.error_ns,
        merged.outside + merged.timeless,
    );
    write(&recording, merged, &trace.notes, output, force)?;
    Ok(message)
}

/// Returns the CPU activity of the recording.
fn recorded_activities(recording: &Recording) -> anyhow::Result<Activities> {
    let path = out::name(recording.path());
    if recording.is_live() {
        bail!("{path} is still being recorded\nhint: whylat import … after it has ended");
    }
    let recorded = recording.read_all::<Activity>();
    if recorded.is_empty() {
        bail!(
            "{path} has no CPU activity, to which functions could be added\nhint: whylat record --detail \
                messages --keep p99,sample=100 …, while the tracer runs"
        );
    }
    let is_traced = |row: &usize| {
        let is_own = matches!(recorded.source[*row], ActivitySource::Tracepoints);
        recorded.kind[*row] == ActivityKind::Function && !is_own
    };
    if (0..recorded.len()).any(|row| is_traced(&row)) {
        bail!(
            "{path} has functions of a trace already, and whylat cannot find which are the same\nhint: import \
                this trace with the recording from which {path} was made"
        );
    }
    Ok(recorded)
}

/// Returns the map from the trace's clock to the recording's; `None`: both are one clock.
fn clock_map(recording: &Recording, clock: Clock) -> anyhow::Result<Option<ClockMap>> {
    let name = match clock {
        Clock::Monotonic => return Ok(None),
        Clock::Perf => "perf",
    };
    let pairs: ClockPairs = recording.read_all::<ClockPair>();
    let of_it = (0..pairs.len()).filter(|row| pairs.clock[*row] == name);
    let pairs: Vec<ClockPair> = of_it.map(|row| pairs.row(row)).collect();
    let nature = Nature::from_name(name).filter(|_| !pairs.is_empty());
    let nature = nature.with_context(|| {
        format!(
            "{} has no readings of perf's clock to convert the trace's times with\n\
             hint: whylat doctor says why; or trace with the clock `mono` and import with --clock monotonic",
            out::name(recording.path())
        )
    })?;
    Ok(Some(ClockMap::new(nature, &pairs)))
}

/// Returns why no function of a trace could be used.
fn explain_no_functions(merged: &MergedFunctions, path: &Path, clock: Clock) -> String {
    let path = out::name(path);
    let MergedFunctions {
        outside,
        timeless,
        others,
        ..
    } = merged;
    if outside + timeless == 0 {
        return format!(
            "the trace has no functions, only {others} rows of kinds that {path} has itself\nhint: use ftrace's \
                tracer function_graph, or Intel PT"
        );
    }
    let other = match clock {
        Clock::Perf => "--clock monotonic, if that was the tracer's clock",
        Clock::Monotonic => "--clock perf, if that was the tracer's clock",
    };
    format!(
        "none of the {} functions in the trace is at a time that {path} kept\nhint: {other}; both must be of \
            one host and time",
        outside + timeless
    )
}

/// Copies the recording, with its activity replaced.
fn write(
    recording: &Recording,
    merged: MergedFunctions,
    notes: &[String],
    output: &Path,
    force: bool,
) -> anyhow::Result<()> {
    let options = WriteOptions {
        force,
        ..WriteOptions::default()
    };
    let mut writer = Writer::create(output, recording.header(), options)?;
    macro_rules! copy {
        ($($row:ty),+ $(,)?) => {$(
            if <$row as Table>::NAME != Activity::NAME {
                // Not `append`, which would be compiled again here for each table.
                recording.batches::<$row>().try_for_each(|batch| writer.append_all(batch.into()))?;
            }
        )+};
    }
    for_each_table!(copy);
    let lines = lines(recording, &merged, notes);
    writer.append(merged.activities)?;
    lines.iter().try_for_each(|line| writer.line(line))?;
    let ended_ns = recording.closed().map(|closed| closed.ended_ns);
    let last_ns = recording.time_range_ns().map(|(_, last_ns)| last_ns);
    let closed = writer.close(ended_ns.or(last_ns).unwrap_or_default())?;
    let ClosedRecording { failures, .. } = closed;
    match failures.into_iter().next() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Returns the manifest's lines of the recording, and those on the trace.
fn lines(recording: &Recording, merged: &MergedFunctions, notes: &[String]) -> Vec<Line> {
    let mut why: Vec<String> = notes.to_vec();
    if merged.error_ns > 0 {
        why.push(format!(
            "the times of its functions are to ±{} ns",
            merged.error_ns
        ));
    }
    if merged.gaps > 0 {
        why.push(format!(
            "the trace has {} gaps or errors at times that were kept: functions may be missing there",
            merged.gaps
        ));
    }
    let state = match why.is_empty() {
        true => ProbeState::On,
        false => ProbeState::Fallback {
            which: "what the trace shows".to_owned(),
            why: why.join("; "),
        },
    };
    let mut lost = BTreeMap::new();
    if merged.timeless > 0 {
        lost.insert("no time".to_owned(), merged.timeless);
    }
    let coverage = recording.coverage().iter().cloned().map(Line::Coverage);
    let loss = recording.loss().iter().cloned().map(Line::Loss);
    let usdt = recording.usdt().iter().cloned().map(Line::Usdt);
    let sockets = recording.sockets().iter().cloned().map(Line::Sockets);
    let own = [
        Line::Coverage(Coverage {
            probe: PROBE.to_owned(),
            state,
        }),
        Line::Loss(Loss {
            probe: PROBE.to_owned(),
            produced: merged.functions + merged.outside + merged.timeless,
            stored: merged.functions,
            filtered: merged.outside,
            lost,
        }),
    ];
    let cost = recording.cost().cloned().map(Line::Cost);
    coverage
        .chain(loss)
        .chain(usdt)
        .chain(sockets)
        .chain(own)
        .chain(cost)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::json;
    use table::tables::{Activity, Process};
    use table::{ActivityKind, Columns, Recording, row_of};

    use super::super::header::header;
    use super::*;

    const GRAPH: &[u8] = include_bytes!("../../../import/tests/traces/graph.txt");
    const SCHED: &[u8] = include_bytes!("../../../import/tests/traces/sched.txt");
    /// The trace's begin.
    const BEGIN_NS: u64 = 20_000_000_000;

    /// Writes a recording of one thread's call at the time of the trace; perf's clock is 5 s ahead.
    fn recording(dir: &Path, knows_cpus: bool) -> PathBuf {
        let path = dir.join("r.whylat");
        let mut writer =
            Writer::create(&path, &header(BEGIN_NS), WriteOptions::default()).expect("created");
        let mut activities = Activities::default();
        for (kind, name, begin_us, end_us, depth) in
            [("task", "app", 0, 60, 0), ("syscall", "sendto", 1, 20, 1)]
        {
            let span = json!({
                "begin_ns": BEGIN_NS + begin_us * 1_000, "end_ns": BEGIN_NS + end_us * 1_000, "depth": depth,
                "kind": kind, "name": name, "pid": 71, "tid": 71, "cpu": 0, "source": "tracepoints",
                "begin_seen": true, "end_seen": true,
            });
            activities.push(row_of(span).expect("a row"));
        }
        if knows_cpus {
            writer.append(activities).expect("written");
        }
        let mut pairs = ClockPairs::default();
        for second in 0..3 {
            let at_ns = BEGIN_NS + second * 1_000_000_000;
            let pair = json!({
                "monotonic_ns": at_ns, "clock": "perf", "other_ns": at_ns + 5_000_000_000, "error_ns": 20,
                "steer_ppb": 0, "slew_ppb": 0,
            });
            pairs.push(row_of(pair).expect("a row"));
        }
        writer.append(pairs).expect("written");
        let process = json!({"pid": 71, "time_ns": BEGIN_NS, "comm": "app"});
        let mut processes = <Process as Table>::Columns::default();
        processes.push(row_of(process).expect("a row"));
        writer.append(processes).expect("written");
        writer.close(BEGIN_NS + 3_000_000_000).expect("closed");
        path
    }

    /// Imports a trace into a recording.
    fn join(path: &Path, trace: &[u8], clock: Clock, output: &Path) -> Result<String, String> {
        let trace = ::import::read_ftrace(trace).expect("a trace");
        store(&trace, path, clock, output, false).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn functions_are_added_to_recording() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = recording(dir.path(), true);
        let output = dir.path().join("joined.whylat");
        let message = join(&path, GRAPH, Clock::Monotonic, &output).expect("joined");
        assert!(message.contains("times to ±999 ns"), "{message}");
        assert_eq!(table::validate(&output).expect("read"), []);
        let joined = Recording::open(&output).expect("opened");
        assert_eq!(
            (joined.rows::<Process>(), joined.rows::<ClockPair>()),
            (1, 3)
        );
        let rows = joined.read_all::<Activity>();
        let functions: Vec<usize> = (0..rows.len())
            .filter(|row| rows.kind[*row] == ActivityKind::Function)
            .collect();
        let sendmsg = functions
            .iter()
            .find(|row| rows.name[**row].as_deref() == Some("tcp_sendmsg"));
        let sendmsg = *sendmsg.expect("it was called");
        // within inet_sendmsg, which began before the trace
        assert_eq!(
            (rows.depth[sendmsg], rows.tid[sendmsg], rows.cpu[sendmsg]),
            (3, Some(71), Some(0))
        );
        let loss = joined
            .loss()
            .iter()
            .find(|loss| loss.probe == PROBE)
            .expect("an account");
        assert_eq!((loss.residual(), loss.stored), (0, functions.len() as u64));
        let again = join(
            &output,
            GRAPH,
            Clock::Monotonic,
            &dir.path().join("again.whylat"),
        );
        assert!(
            again
                .expect_err("refused")
                .contains("has functions of a trace already")
        );
    }

    #[test]
    fn import_errors_have_hints() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = recording(dir.path(), true);
        let output = dir.path().join("joined.whylat");
        let error = join(&path, SCHED, Clock::Monotonic, &output).expect_err("no functions");
        assert!(
            error.contains("has no functions") && error.contains("hint: use ftrace's"),
            "{error}"
        );
        // five seconds apart
        let error = join(&path, GRAPH, Clock::Perf, &output).expect_err("another time");
        assert!(
            error.contains("none of the") && error.contains("hint: --clock monotonic"),
            "{error}"
        );
        assert!(!output.exists());
        let empty = tempfile::tempdir().expect("a directory");
        let path = recording(empty.path(), false);
        let error = join(&path, GRAPH, Clock::Monotonic, &output).expect_err("no place");
        assert!(
            error.contains("has no CPU activity") && error.contains("--keep"),
            "{error}"
        );
    }

    #[test]
    fn perfs_clock_is_converted() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = recording(dir.path(), true);
        let recording = Recording::open(path).expect("opened");
        let map = clock_map(&recording, Clock::Perf)
            .expect("readings")
            .expect("a map");
        let stamp = map.convert(25_500_000_000).expect("a time");
        assert!(
            stamp.monotonic_ns.abs_diff(20_500_000_000) <= stamp.error_ns && stamp.error_ns < 1_000
        );
    }
}
