//! Windows in which calls and waits are recorded: between them their programs are not attached. Those that stay
//! attached, as at functions, leave after one load.

use std::os::fd::AsFd;
use std::time::Duration;

use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, ProgramInput, ProgramMut};

use super::Hooks;
use super::attach::hook;
use super::iterate::read_iterator;
use super::window_hooks::{HookTimes, ProgramGroup};
use crate::interface::HooksError;
use crate::self_cost::{BpfTimeError, ProgramTimes};
use crate::{perf_event, udp_flows};

impl Hooks<'_> {
    /// Returns whether calls and waits are recorded in windows only.
    pub fn has_windows(&self) -> bool {
        self.levels.windows
    }

    /// Attaches the programs of windows, all or none.
    ///
    /// # Errors
    /// When the kernel does not let a program be attached, or a clock go on.
    pub fn attach_windows(&self) -> Result<(), HooksError> {
        if !self.attached.borrow().of_windows.is_empty() {
            return Ok(());
        }
        let links = self.attach_of_windows()?;
        self.switch_clocks(true)?;
        self.attached.borrow_mut().of_windows = links;
        Ok(())
    }

    /// Begins a window; returns its start, `CLOCK_MONOTONIC` ns. What began before is not in the
    /// window. The window ends by itself after this time, at the next full batch of records.
    ///
    /// # Errors
    /// As [`attach_windows`](Self::attach_windows), and when the kernel does not let a program run that is loaded.
    pub fn open_window(&self, lasts: Duration) -> Result<u64, HooksError> {
        self.attach_windows()?;
        run(&self.skel.progs.begin_window, lasts)?;
        let bss = self.skel.maps.bss_data.as_deref();
        Ok(bss.map_or(0, |bss| bss.window_latest_ns))
    }

    /// Lets the window last for this time from now on; returns false if it had ended before.
    ///
    /// # Errors
    /// When the kernel does not let a program run that is loaded.
    pub fn extend_window(&self, lasts: Duration) -> Result<bool, HooksError> {
        run(&self.skel.progs.extend_window, lasts)?;
        Ok(self.window_ended_ns() == 0)
    }

    /// Ends the window and detaches its programs; returns its end, `CLOCK_MONOTONIC` ns.
    ///
    /// # Errors
    /// As [`extend_window`](Self::extend_window).
    pub fn close_window(&self) -> Result<u64, HooksError> {
        run(&self.skel.progs.extend_window, Duration::ZERO)?;
        self.attached.borrow_mut().of_windows.clear();
        self.switch_clocks(false)?;
        let attached = self.attached.borrow();
        read_iterator(attached.preemptions.as_ref(), "preempted threads")?;
        self.flush()?;
        Ok(self.window_ended_ns())
    }

    /// Attaches the programs of windows; returns their links.
    pub(super) fn attach_of_windows(&self) -> Result<Vec<Link>, HooksError> {
        let mut links = Vec::new();
        for program in self.skel.object().progs_mut() {
            if let Some(hook) = hook(&program).filter(|hook| self.of_windows.has(hook)) {
                let link = program.attach();
                links.push(link.map_err(HooksError::attach(&hook))?);
            }
        }
        if let Some(root) = &self.of_windows.udp_root {
            links.extend(udp_flows::attach(&self.skel, root)?);
        }
        Ok(links)
    }

    /// Starts or stops the clocks of samples. They keep their program: kernels before 5.15 cannot
    /// give a clock another one.
    fn switch_clocks(&self, on: bool) -> Result<(), HooksError> {
        let mut clocks = self.clocks.iter();
        let switched = clocks.try_for_each(|clock| perf_event::switch(clock.as_fd(), on));
        switched.map_err(|error| HooksError::Use {
            action: "let the clocks of CPUs run, or halt them",
            error: error.into(),
        })
    }

    /// Returns the counters of the programs at hooks.
    ///
    /// # Errors
    /// When there can be no more descriptors.
    pub fn hook_times(&self) -> Result<HookTimes, BpfTimeError> {
        let loaded = self.loaded();
        let of = |group: ProgramGroup| {
            let all = loaded.iter().filter(|program| {
                let name = program.name().to_str().unwrap_or_default();
                self.of_windows.find_group(name) == Some(group)
            });
            ProgramTimes::new(all.map(AsFd::as_fd))
        };
        Ok(HookTimes {
            of_windows: of(ProgramGroup::OfWindows)?,
            leaving: of(ProgramGroup::Leaving)?,
            staying: of(ProgramGroup::Staying)?,
        })
    }

    /// Returns when the last window ended, by the monotonic clock; 0 if none has.
    fn window_ended_ns(&self) -> u64 {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.map_or(0, |bss| bss.window_ended_ns)
    }
}

/// Runs a program that starts or ends a window.
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
