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
mod request;
mod skel;

use std::fmt;
use std::path::{Path, PathBuf};

use table::manifest::{Coverage, ProbeState};

pub use assemble::{Assembler, UsdtCounts};
pub use attach::{Firing, FiringCounts, Probes, Storage};
pub use error::UsdtError;
pub use files::Files;
pub use find::find;
pub(crate) use notes::Elf;
pub use request::{Request, RequestError};

/// Name of the probe in coverage and accounts.
pub const PROBE: &str = "usdt";

/// Arguments of a probe that libbpf reads (`BPF_USDT_MAX_ARG_CNT`), and so do we.
pub const MOST_ARGUMENTS: usize = 12;

/// Provider of the markers of `include/whylat.h`.
const MARKERS: &str = "whylat";

/// A probe that was found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Provider.
    pub provider: String,
    /// Name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Places in the file's code.
    pub places: usize,
    /// Where the file can be opened from here.
    opened: PathBuf,
    /// Where it has its arguments, as the notes show.
    arguments: String,
    meaning: Meaning,
}

/// Holds what a firing says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Meaning {
    /// Its first argument says.
    Marker,
    /// A value by each of these arguments.
    Values(Vec<Argument>),
    /// That it fired.
    Moment,
}

/// An argument that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Argument {
    index: usize,
    /// Name of its counter.
    name: String,
    /// It is at one of the probe's places, at least.
    is_signed: bool,
}

/// Holds what a marker of `include/whylat.h` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    Counter { is_unsigned: bool },
    Begin,
    End,
    Mark { is_unsigned: bool },
}

impl Marker {
    /// Of its first argument: `WHYLAT_KIND_*_` in the header.
    fn from_kind(kind: i64) -> Option<Self> {
        const UNSIGNED: i64 = 16;
        let is_unsigned = kind & UNSIGNED != 0;
        Some(match kind & !UNSIGNED {
            1 => Self::Counter { is_unsigned },
            2 => Self::Begin,
            3 => Self::End,
            4 => Self::Mark { is_unsigned },
            _ => return None,
        })
    }
}

impl Probe {
    /// Arguments to read.
    fn read_len(&self) -> usize {
        match &self.meaning {
            Meaning::Marker => 2,
            Meaning::Values(arguments) => arguments
                .iter()
                .map(|argument| argument.index + 1)
                .max()
                .unwrap_or(0),
            Meaning::Moment => 0,
        }
    }

    /// Records that a firing means in the account.
    fn width(&self) -> u64 {
        match &self.meaning {
            Meaning::Values(arguments) => arguments.len() as u64,
            Meaning::Marker | Meaning::Moment => 1,
        }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.name)
    }
}

/// Whether this kernel has what USDT probes need, as far as a file shows: for the doctor.
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
    covered(state)
}

/// The probe's line of coverage.
pub fn covered(state: ProbeState) -> Coverage {
    Coverage {
        probe: PROBE.to_owned(),
        state,
    }
}
