//! Processes that are recorded because they serve connections which recorded ones have opened (`--follow host`): the
//! programs find them, and here they are counted.

use table::manifest::{Coverage, ProbeState};

use super::Hooks;
use crate::interface::features::{Features, Levels};

/// So many are followed at a time: that a recording of one process does not become one of a whole host, and of its cost.
pub(super) const FOLLOW_MOST: u32 = 64;

/// The name in coverage.
pub const FOLLOW: &str = "inventory.follow";

/// Processes that were followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowCounts {
    /// All, so far.
    pub followed: u64,
    /// Those that were not, at least for a time, as others were.
    pub left_out: u64,
}

impl FollowCounts {
    /// Returns how well processes were followed.
    pub fn coverage(self) -> Coverage {
        let state = match self.left_out {
            0 => ProbeState::On,
            left_out => ProbeState::Fallback {
                which: format!(
                    "{FOLLOW_MOST} processes at a time, {} in all",
                    self.followed
                ),
                why: format!(
                    "connections lead to {left_out} more, with requests that are `remote` from there on"
                ),
            },
        };
        Coverage {
            probe: FOLLOW.to_owned(),
            state,
        }
    }
}

/// Makes the coverage line of a kernel that cannot follow processes.
pub(super) fn off() -> Coverage {
    Coverage {
        probe: FOLLOW.to_owned(),
        state: ProbeState::Off {
            why: "this kernel has no hooks of calls, or refuses the programs".to_owned(),
            remedy: "name all processes: -p PID,PID".to_owned(),
        },
    }
}

impl Features {
    /// Returns whether processes can be followed.
    pub(super) fn follows(&self, levels: Levels) -> bool {
        self.follow && levels.logs_calls()
    }
}

impl Hooks<'_> {
    /// Returns how many processes were followed so far; `None`: nobody is.
    pub fn follow_counts(&self) -> Option<FollowCounts> {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.filter(|_| self.follows).map(|bss| FollowCounts {
            followed: bss.followed,
            left_out: bss.follow_left_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_reports_processes_that_are_not_followed() {
        let counts = |left_out| FollowCounts {
            followed: 70,
            left_out,
        };
        assert_eq!(counts(0).coverage().state, ProbeState::On);
        let ProbeState::Fallback { which, why } = counts(3).coverage().state else {
            panic!("nobody is left out");
        };
        assert_eq!(which, "64 processes at a time, 70 in all");
        assert!(why.starts_with("connections lead to 3 more"), "{why}");
    }
}
