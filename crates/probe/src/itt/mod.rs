//! `itt`: what a program says by the Intel ITT API. In: the ring that our collector
//! (`crates/itt`), loaded into the program, writes. Out: rows of `counters` and `tasks`, and how
//! many records did not become rows.
//!
//! [`collector`] finds the collector's file. [`holder`] is a process that gives the ring a path
//! which the program may open and which ends with the recorder. [`assemble`] makes rows.

mod assemble;
mod collector;
mod counts;
mod holder;
mod names;
pub(crate) mod notes;
pub(crate) mod open;
mod refusal;
pub(crate) mod words;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ::itt::{COLLECTOR_VARIABLE, RING_VARIABLE, Ring, RingShape};
use table::RowSet;
use table::manifest::{Coverage, ProbeState};

pub(crate) use assemble::Assembler;
pub use collector::{COLLECTOR_OVERRIDE, find};
pub use counts::IttCounts;
use holder::Holder;
pub use holder::User;
pub use refusal::Refusal;

/// Name of the probe in coverage and accounts.
const PROBE: &str = "itt";

/// Rows that are handed over together, at least.
const BATCH_LEN: usize = 8192;

/// Returns the coverage line of ITT.
pub fn coverage<T>(found: Result<T, Refusal>) -> Coverage {
    Coverage {
        probe: PROBE.to_owned(),
        state: match found {
            Ok(_) => ProbeState::On,
            Err(Refusal { why, remedy }) => ProbeState::Off { why, remedy },
        },
    }
}

/// A ring, for a program that is not yet started and its children.
#[derive(Debug)]
pub struct Listener {
    ring: Ring,
    holder: Holder,
    collector: PathBuf,
    assembler: Assembler,
}

impl Listener {
    /// Makes a ring for programs of a user; of this process's own when none is named. Called
    /// early, as a process is forked.
    ///
    /// # Errors
    /// When there is no collector, or such programs could not use it or the ring.
    pub fn open(user: Option<User>) -> Result<Self, Refusal> {
        let collector = find()?;
        let (ring, fd) =
            Ring::nameless(RingShape::default()).map_err(|error| Refusal::from_error(&error))?;
        Ok(Self {
            ring,
            holder: Holder::start(fd, &collector, user)?,
            collector,
            assembler: Assembler::default(),
        })
    }

    /// Returns the environment variables by which a program finds collector and ring.
    pub fn environment(&self) -> [(&'static str, &OsStr); 2] {
        let ring: &Path = self.holder.ring_path();
        [
            (COLLECTOR_VARIABLE, self.collector.as_os_str()),
            (RING_VARIABLE, ring.as_os_str()),
        ]
    }

    /// Calls `put` with the rows reported since the last call.
    pub fn drain(&mut self, mut put: impl FnMut(RowSet)) {
        let assembler = &mut self.assembler;
        self.ring.drain(|record| {
            assembler.add_record(record);
            if assembler.rows_len() >= BATCH_LEN {
                put(assembler.take_rows());
            }
        });
        assembler.forget_early_ends();
        put(assembler.take_rows());
    }

    /// Ends the ring for programs, and calls `put` with the last rows; returns the counts.
    pub fn finish(&mut self, mut put: impl FnMut(RowSet)) -> IttCounts {
        self.ring.close();
        self.drain(&mut put);
        self.assembler.finish();
        put(self.assembler.take_rows());
        self.assembler.counts(self.ring.losses())
    }
}
