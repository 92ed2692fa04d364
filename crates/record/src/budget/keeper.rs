//! Opens and closes windows as the controller says, and makes the rows of table `windows`.

use std::os::fd::OwnedFd;
use std::time::Duration;

use probe::clock::monotonic_ns;
use probe::hooks::{Hooks, HooksError};
use probe::self_cost::{BpfTimeError, Statistics};
use table::manifest::{Coverage, ProbeState};
use table::tables::Window;
use table::{Columns, RowSet};

use super::Budget;
use super::controller::{Controller, Spending, WindowChange};
use super::cpu_use::CpuUse;
use super::hook_cost::HookMeter;
use crate::RecordError;

/// Times between two looks, ms: in a window, and between them.
const OPEN_MS: u16 = 10;
const CLOSED_MS: u16 = 25;

/// A window ends by itself if no look comes for so long, because others have the CPUs.
const LASTS: Duration = Duration::from_millis(100);

/// The name in coverage, where no window can be opened any more.
const WINDOWS: &str = "windows";

/// A window that is open.
struct OpenWindow {
    begin_ns: u64,
    /// Holds the kernel's statistics of programs on.
    _statistics: OwnedFd,
}

/// Keeps the windows of a recording.
pub(crate) struct WindowKeeper<'a> {
    hooks: &'a Hooks<'a>,
    statistics: Statistics,
    controller: Controller,
    meter: HookMeter,
    cpu_use: CpuUse,
    open: Option<OpenWindow>,
    /// The kernel did not let a program be attached again: no window opens any more.
    is_refused: bool,
    /// Coverage of that, until it is taken.
    refusal: Option<Coverage>,
}

impl<'a> WindowKeeper<'a> {
    /// Begins without a window. `run_ns`: what a run of a hook costs at least.
    ///
    /// # Errors
    /// When there can be no more descriptors.
    pub(crate) fn new(
        hooks: &'a Hooks<'a>,
        statistics: Statistics,
        budget: Budget,
        run_ns: f64,
    ) -> Result<Self, RecordError> {
        let now_ns = monotonic_ns();
        let seed = now_ns ^ u64::from(std::process::id());
        let mut cpu_use = CpuUse::default();
        cpu_use.read(hooks, now_ns);
        Ok(Self {
            hooks,
            statistics,
            controller: Controller::new(budget.share(), seed, now_ns),
            meter: HookMeter::new(hooks, run_ns).map_err(RecordError::Budget)?,
            cpu_use,
            open: None,
            is_refused: false,
            refusal: None,
        })
    }

    /// Opens a window and returns its row; no row if the kernel refuses to attach a program.
    /// [`take_refusal`](Self::take_refusal) has the reason.
    ///
    /// # Errors
    /// When the kernel does not turn its statistics on, or does not let a program run that is loaded.
    pub(crate) fn open(&mut self) -> Result<RowSet, RecordError> {
        if let Err(error) = self.hooks.attach_windows() {
            self.is_refused = true;
            self.refusal = Some(off(&error));
            return Ok(RowSet::default());
        }
        let statistics = self.statistics.enable().map_err(BpfTimeError::Enable);
        let statistics = statistics.map_err(RecordError::Budget)?;
        self.meter.begin_window().map_err(RecordError::Budget)?;
        let begin_ns = self.hooks.open_window(LASTS)?;
        self.open = Some(OpenWindow {
            begin_ns,
            _statistics: statistics,
        });
        Ok(row(begin_ns, None))
    }

    /// Closes the open window and returns its second row.
    ///
    /// # Errors
    /// When the kernel does not let a program run that is loaded.
    pub(crate) fn close(&mut self) -> Result<RowSet, RecordError> {
        let Some(OpenWindow { begin_ns, .. }) = self.open.take() else {
            return Ok(RowSet::default());
        };
        let end_ns = self.hooks.close_window()?;
        Ok(row(begin_ns, Some(end_ns)))
    }

    /// Opens or closes a window by the budget, and returns the window's row. `before_change` is
    /// called before hooks are attached or detached.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`close`](Self::close).
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        before_change: impl FnOnce(),
    ) -> Result<RowSet, RecordError> {
        if self.is_refused {
            return Ok(RowSet::default());
        }
        let cpu_ns = self.cpu_use.read(self.hooks, now_ns);
        let cost_ns = match self.open {
            Some(_) => self.meter.in_window(cpu_ns).map_err(RecordError::Budget)?,
            None => self.meter.between_windows(cpu_ns),
        };
        let change = self.controller.look(now_ns, Spending { cpu_ns, cost_ns });
        if change.is_none() && self.open.is_some() && !self.hooks.extend_window(LASTS)? {
            self.controller.end();
            before_change();
            return self.close();
        }
        let Some(change) = change else {
            return Ok(RowSet::default());
        };
        before_change();
        match change {
            WindowChange::Begin => self.open(),
            WindowChange::End => self.close(),
        }
    }

    /// Returns the coverage of a refusal to attach programs since the last call.
    pub(crate) fn take_refusal(&mut self) -> Option<Coverage> {
        self.refusal.take()
    }

    /// Returns how long the next look may wait, ms.
    pub(crate) fn look_ms(&self) -> u16 {
        match self.open {
            Some(_) => OPEN_MS,
            None if self.is_refused => u16::MAX,
            None => CLOSED_MS,
        }
    }
}

/// Makes the coverage line: no window opens any more.
fn off(error: &HooksError) -> Coverage {
    Coverage {
        probe: WINDOWS.to_owned(),
        state: ProbeState::Off {
            why: format!("no window opened after the last one that is listed: {error}"),
            remedy: error.remedy(),
        },
    }
}

/// Makes the row of a window; `end_ns` is None while the window is open.
fn row(begin_ns: u64, end_ns: Option<u64>) -> RowSet {
    let mut rows = RowSet::default();
    rows.windows.push(Window { begin_ns, end_ns });
    rows
}

#[cfg(test)]
mod tests;
