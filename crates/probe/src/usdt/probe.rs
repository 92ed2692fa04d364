//! A probe in a file, and what its firings say.

use std::fmt;
use std::path::PathBuf;

/// Arguments of a probe that libbpf reads (`BPF_USDT_MAX_ARG_CNT`), and so do we.
pub const MOST_ARGUMENTS: usize = 12;

/// Provider of the markers of `include/whylat.h`.
pub(super) const MARKERS: &str = "whylat";

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
    pub(super) opened: PathBuf,
    /// Where it has its arguments, as the notes show.
    pub(super) arguments: String,
    pub(super) meaning: Meaning,
}

/// The meaning of a firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Its first argument says.
    Marker,
    /// A value by each of these arguments.
    Values(Vec<Argument>),
    /// That it fired.
    Moment,
}

/// An argument that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) index: usize,
    /// Name of its counter.
    pub(super) name: String,
    /// It is at one of the probe's places, at least.
    pub(super) is_signed: bool,
}

/// The meaning of a marker of `include/whylat.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    Counter { is_unsigned: bool },
    Begin,
    End,
    Mark { is_unsigned: bool },
}

impl Marker {
    /// Returns the kind of a marker by its first argument: `WHYLAT_KIND_*_` in the header.
    pub(super) fn from_kind(kind: i64) -> Option<Self> {
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
    /// Returns the number of arguments to read.
    pub(super) fn read_len(&self) -> usize {
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
    pub(super) fn width(&self) -> u64 {
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
