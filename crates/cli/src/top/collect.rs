//! From a watch to what is shown: rows go into a window of the last seconds, which is judged at every look.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use diagnose::live::{Histories, LiveReport, LiveWindow, SnapshotInfo};
use record::{Look, RecordError, Rows, WatchOptions, watch};

use crate::args;

/// Looks that a window holds: enough that a share of time does not jump from one to the next.
const LOOKS: u32 = 5;

/// Watches, and gives every look to `each`, with the connections' histories.
pub(crate) fn run(
    options: &WatchOptions,
    stop: &AtomicBool,
    mut each: impl FnMut(LiveReport, &Histories) -> ControlFlow<()>,
) -> Result<(), RecordError> {
    let length = options.interval * LOOKS;
    let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let mut window = None;
    watch(options, stop, |look| {
        let window = window.get_or_insert_with(|| LiveWindow::new(look.header.clone(), length_ns));
        let mut live = judge(window, look);
        live.about.filter = args::option_of(&options.target);
        each(live, &window.histories())
    })
}

/// One interval.
pub(crate) fn once(options: &WatchOptions) -> anyhow::Result<LiveReport> {
    let (mut looks, mut last) = (0, None);
    run(options, &AtomicBool::new(false), |live, _| {
        last = Some(live);
        looks += 1;
        // the first look has seen no time pass
        match looks {
            1 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    })?;
    last.context("nothing was looked at")
}

fn judge(window: &mut LiveWindow, look: Look<'_>) -> LiveReport {
    let Look {
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
    } = look;
    window.add_polls(&polls_ns);
    add(window, rows);
    window.forget(&gone);
    window.judge(SnapshotInfo {
        now_ns,
        interval_ns,
        poll_mean_ns,
        only_own,
        coverage,
        loss,
        cost,
    })
}

fn add(window: &mut LiveWindow, rows: Rows) {
    let Rows {
        connections,
        listeners,
        processes,
        process_samples,
        cpu_samples,
        samples,
        stages,
        events,
        calls,
        waits,
    } = rows;
    window.add_connections(&connections);
    window.add_listeners(listeners);
    window.add_processes(&processes);
    window.add_process_samples(process_samples);
    window.add_cpu_samples(cpu_samples);
    window.add_samples(&samples);
    window.add_stages(&stages);
    window.add_events(events);
    window.add_calls(calls);
    window.add_waits(waits);
}
