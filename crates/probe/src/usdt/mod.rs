//! `usdt`: what programs say by USDT probes, the second way in beside ITT. In: what the user asks
//! for ([`Request`]), and in which files it may be ([`Files`]). Out: rows of `counters` and `tasks`,
//! how often each probe fired, and what did not become a row.
//!
//! [`find()`] turns requests into probes, [`Probes`] attaches them (`usdt.bpf.c` is the program) and
//! [`Assembler`] makes rows. Markers of `include/whylat.h` are probes of provider `whylat`; the first
//! argument says what they are.

mod assemble;
mod attach;
mod error;
mod files;
mod find;
mod notes;
mod probe;
mod request;
mod skel;

use std::path::Path;

use table::manifest::{Coverage, ProbeState};

pub use assemble::{Assembler, UsdtCounts};
pub use attach::{Firing, FiringCounts, Probes, Storage};
pub use error::UsdtError;
pub use files::Files;
pub use find::find;
pub(crate) use notes::Elf;
pub use probe::{MOST_ARGUMENTS, Probe};
pub use request::{Request, RequestError};

/// Name of the probe in coverage and accounts.
pub const PROBE: &str = "usdt";

/// Returns the doctor's coverage line: whether this kernel has what USDT probes need.
pub fn coverage() -> Coverage {
    /// There with `CONFIG_UPROBE_EVENTS`.
    const UPROBES: &str = "/sys/bus/event_source/devices/uprobe";
    let is_there = |path: &str| Path::new(UPROBES).join(path).exists();
    let state = if is_there("format/ref_ctr_offset") {
        ProbeState::On
    } else if is_there("type") {
        ProbeState::Fallback {
            which: "probes without a semaphore".to_owned(),
            why: "this kernel does not count semaphores up (Linux 4.20 does)".to_owned(),
        }
    } else {
        ProbeState::Off {
            why: format!("this kernel has no uprobes ({UPROBES} is missing)"),
            remedy: "run a kernel with CONFIG_UPROBE_EVENTS".to_owned(),
        }
    };
    coverage_with(state)
}

/// Returns the probe's line of coverage.
pub fn coverage_with(state: ProbeState) -> Coverage {
    Coverage {
        probe: PROBE.to_owned(),
        state,
    }
}
