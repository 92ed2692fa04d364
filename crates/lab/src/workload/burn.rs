//! `burn`: leaves others little CPU time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Args;
use serde::Serialize;

use super::context::Context;
use super::cpu::{ThreadCpu, burn_us, wait_for_end};
use super::threads::{join_threads, start};
use crate::error::LabError;

/// Options of `burn`.
#[derive(Debug, Args)]
pub(crate) struct Burn {
    /// Threads that never sleep.
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

/// Truth that `burn` prints: the CPU time of each thread; `null`: the kernel does not count it.
#[derive(Debug, Serialize)]
pub(crate) struct BurnTruth {
    threads: Vec<Option<ThreadCpu>>,
}

impl Burn {
    /// Uses CPU time until the workload ends.
    pub(crate) fn run(&self, context: &Context) -> Result<BurnTruth, LabError> {
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let burn = || {
                while !ended.load(Ordering::Relaxed) {
                    burn_us(100);
                }
                Ok(ThreadCpu::read_own())
            };
            let threads = (0..self.threads)
                .map(|_| start(scope, burn))
                .collect::<Result<_, _>>()?;
            let ready = context.ready(0);
            wait_for_end();
            ended.store(true, Ordering::Relaxed);
            let threads = join_threads(threads)?;
            ready.map(|()| BurnTruth { threads })
        })
    }
}
