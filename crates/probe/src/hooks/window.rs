//! Windows in which calls and waits are recorded: between them their programs leave after one load.

use std::time::Duration;

use libbpf_rs::{ProgramInput, ProgramMut};

use super::Hooks;
use super::iterate::read_iterator;
use crate::interface::HooksError;

impl Hooks<'_> {
    /// Whether calls and waits are recorded in windows only.
    pub fn has_windows(&self) -> bool {
        self.levels.windows
    }

    /// Begins a window. Returns when, `CLOCK_MONOTONIC` ns: what began before is not in it. It ends by itself after this time, at
    /// the next full batch of records.
    ///
    /// # Errors
    /// When the kernel does not let a program run that is loaded.
    pub fn open_window(&self, lasts: Duration) -> Result<u64, HooksError> {
        run(&self.skel.progs.begin_window, lasts)?;
        let bss = self.skel.maps.bss_data.as_deref();
        Ok(bss.map_or(0, |bss| bss.window_latest_ns))
    }

    /// Lets the window last for this time from now on. Returns whether it had not ended before.
    ///
    /// # Errors
    /// As [`open_window`](Self::open_window).
    pub fn extend_window(&self, lasts: Duration) -> Result<bool, HooksError> {
        run(&self.skel.progs.extend_window, lasts)?;
        Ok(self.window_ended_ns() == 0)
    }

    /// Ends the window, and has everything handed over that was seen in it: batches, and sums of short preemptions. Returns
    /// when it ended, `CLOCK_MONOTONIC` ns.
    ///
    /// # Errors
    /// As [`open_window`](Self::open_window).
    pub fn close_window(&self) -> Result<u64, HooksError> {
        run(&self.skel.progs.extend_window, Duration::ZERO)?;
        let attached = self.attached.borrow();
        read_iterator(attached.preemptions.as_ref(), "preempted threads")?;
        self.flush()?;
        Ok(self.window_ended_ns())
    }

    fn window_ended_ns(&self) -> u64 {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.map_or(0, |bss| bss.window_ended_ns)
    }
}

fn run(program: &ProgramMut<'_>, lasts: Duration) -> Result<(), HooksError> {
    let lasts_ns = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
    let mut context = lasts_ns.to_ne_bytes();
    let input = ProgramInput {
        context_in: Some(&mut context),
        ..ProgramInput::default()
    };
    let run = program.test_run(input);
    run.map(drop).map_err(|error| HooksError::Use {
        action: "begin or end a window",
        error,
    })
}
