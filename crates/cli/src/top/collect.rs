//! From a watch to what is shown: rows go into a window of the last seconds, which is judged at every snapshot.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use diagnose::live::{Histories, LiveReport, LiveWindow, SnapshotInfo};
use record::{LiveSnapshot, RecordError, WatchOptions, watch};
use table::RowSet;

use crate::args;

/// Snapshots that a window holds: enough that a share of time does not jump from one to the next.
const SNAPSHOTS: u32 = 5;

/// Watches connections, and calls `each` with every report and the connections' histories.
pub(crate) fn run(
    options: &WatchOptions,
    stop: &AtomicBool,
    mut each: impl FnMut(LiveReport, &Histories) -> ControlFlow<()>,
) -> Result<(), RecordError> {
    let length = options.interval * SNAPSHOTS;
    let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let mut window = None;
    watch(options, stop, |snapshot| {
        let window =
            window.get_or_insert_with(|| LiveWindow::new(snapshot.header.clone(), length_ns));
        let mut live = judge_snapshot(window, snapshot);
        live.about.filter = args::option_of(&options.target);
        each(live, &window.histories())
    })
}

/// Collects one interval, and judges it.
pub(crate) fn collect_once(options: &WatchOptions) -> anyhow::Result<LiveReport> {
    let (mut snapshots, mut last) = (0, None);
    run(options, &AtomicBool::new(false), |live, _| {
        last = Some(live);
        snapshots += 1;
        // the first snapshot has seen no time pass
        match snapshots {
            1 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    })?;
    last.context("no snapshot was taken")
}

/// Adds a snapshot to the window, and judges what is in it.
fn judge_snapshot(window: &mut LiveWindow, snapshot: LiveSnapshot<'_>) -> LiveReport {
    let LiveSnapshot {
        header: _,
        now_ns,
        polls_ns,
        rows,
        gone,
        coverage,
        loss,
        cost,
        interval_ns,
        poll_mean_ns,
        only_own,
    } = snapshot;
    window.add_polls(&polls_ns);
    add(window, rows);
    window.forget_connections(&gone);
    window.judge_window(SnapshotInfo {
        now_ns,
        interval_ns,
        poll_mean_ns,
        only_own,
        coverage,
        loss,
        cost,
    })
}

/// Adds all rows to the window.
fn add(window: &mut LiveWindow, rows: RowSet) {
    window.add_connections(&rows.connections);
    window.add_listeners(rows.listeners);
    window.add_processes(&rows.processes);
    window.add_process_samples(rows.process_samples);
    window.add_cpu_samples(rows.cpu_samples);
    window.add_samples(&rows.tcp_samples);
    window.add_stages(&rows.tcp_stages);
    window.add_events(rows.tcp_events);
    window.add_calls(rows.calls);
    window.add_waits(rows.waits);
}
