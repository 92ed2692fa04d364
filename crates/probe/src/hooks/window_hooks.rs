//! Hooks that are attached in windows only, and the groups of programs that the budget counts apart.

use std::fs::File;

use crate::interface::features::Features;
use crate::self_cost::ProgramTimes;
use crate::udp_flows;

/// The program of the clocks.
pub(super) const SAMPLE_CPU: &str = "sample_cpu";

/// Hooks that are attached in windows only; none, if there are no windows.
#[derive(Debug, Default)]
pub(super) struct WindowHooks {
    tracepoints: Vec<&'static str>,
    /// Programs that stay attached at functions instead.
    stand_ins: Vec<&'static str>,
    /// The root control group, if the hooks of UDP are attached to it.
    pub(super) udp_root: Option<File>,
}

impl WindowHooks {
    /// Finds the hooks of windows that this kernel has.
    pub(super) fn new(features: &Features) -> Self {
        Self {
            tracepoints: features.window_hooks(),
            stand_ins: features.window_stand_ins(),
            udp_root: None,
        }
    }

    /// Returns whether the program at this hook is attached during windows only.
    pub(super) fn has(&self, hook: &str) -> bool {
        self.tracepoints.contains(&hook)
    }

    /// Returns whether a program is attached only during windows.
    pub(super) fn has_program(&self, name: &str) -> bool {
        let is_at_tracepoint = name.strip_prefix("handle_").is_some_and(|it| self.has(it));
        is_at_tracepoint || name == SAMPLE_CPU || udp_flows::PROGRAMS.contains(&name)
    }

    /// Returns the group of a program; `None`: it is at no hook.
    pub(super) fn find_group(&self, name: &str) -> Option<ProgramGroup> {
        let hook = name.strip_prefix("handle_");
        if self.has_program(name) {
            Some(ProgramGroup::OfWindows)
        } else if self.stand_ins.contains(&hook?) {
            Some(ProgramGroup::Leaving)
        } else {
            Some(ProgramGroup::Staying)
        }
    }
}

/// Programs by their state between windows; see [`HookTimes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramGroup {
    OfWindows,
    Leaving,
    Staying,
}

/// Counters of the programs at hooks.
#[derive(Debug)]
pub struct HookTimes {
    /// Those that are attached in windows only.
    pub of_windows: ProgramTimes,
    /// Those that are attached all the time, and leave at once between windows.
    pub leaving: ProgramTimes,
    /// Those that do the same all the time.
    pub staying: ProgramTimes,
}
