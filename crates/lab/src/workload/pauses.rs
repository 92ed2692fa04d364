//! Times when the machine itself was stalled: a hypervisor that runs another guest, or an interrupt that
//! takes long. A thread on each CPU, before all others in line, sleeps for a moment and looks how
//! late it is woken, as jHiccup does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use serde::Serialize;

use super::context::Context;
use super::cpu::{before_all_others, pin_thread, wait_for_end};
use super::threads::{join_threads, start};
use crate::clock::now_ns;
use crate::error::LabError;

/// How long a watching thread sleeps.
const SLEEP_NS: u64 = 2_000_000;
/// Later than this is a pause: a jiffy at HZ=250, by which the kernel's own timers may be late.
const LATE_NS: u64 = 4_000_000;

/// Options of `pauses`.
#[derive(Debug, Args)]
pub(crate) struct Pauses {}

/// Pauses of one CPU: how many, their total and the longest, ns.
#[derive(Debug, Serialize)]
pub(crate) struct CpuPauses {
    cpu: usize,
    pauses: u64,
    paused_ns: u64,
    longest_ns: u64,
}

/// Truth that `pauses` prints: the pauses of each CPU.
#[derive(Debug, Serialize)]
pub(crate) struct PausesTruth {
    cpus: Vec<CpuPauses>,
}

impl Pauses {
    /// Watches all CPUs for pauses of the machine.
    #[expect(clippy::unused_self, reason = "as all roles are run")]
    pub(crate) fn run(&self, context: &Context) -> Result<PausesTruth, LabError> {
        let ended = &AtomicBool::new(false);
        thread::scope(|scope| {
            let watch = |cpu: &usize| {
                let cpu = *cpu;
                start(scope, move || watch(cpu, ended))
            };
            let threads = context.cpus.iter().map(watch).collect::<Result<_, _>>()?;
            let ready = context.ready(0);
            wait_for_end();
            ended.store(true, Ordering::Relaxed);
            let cpus = join_threads(threads)?;
            ready.map(|()| PausesTruth { cpus })
        })
    }
}

/// Counts the pauses of one CPU until the end.
fn watch(cpu: usize, ended: &AtomicBool) -> Result<CpuPauses, LabError> {
    pin_thread(cpu)?;
    before_all_others();
    let mut seen = CpuPauses {
        cpu,
        pauses: 0,
        paused_ns: 0,
        longest_ns: 0,
    };
    while !ended.load(Ordering::Relaxed) {
        let until_ns = now_ns() + SLEEP_NS;
        let until = TimeSpec::from(Duration::from_nanos(until_ns));
        let clock = ClockId::CLOCK_MONOTONIC;
        // A signal ends the sleep early, which is no lateness.
        let _ = clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &until);
        let late_ns = now_ns().saturating_sub(until_ns);
        if late_ns >= LATE_NS {
            seen.pauses += 1;
            seen.paused_ns += late_ns;
            seen.longest_ns = seen.longest_ns.max(late_ns);
        }
    }
    Ok(seen)
}
