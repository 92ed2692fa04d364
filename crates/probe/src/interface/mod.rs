//! The interface of a probe: its hooks, its records and their decoder, their counts, and its coverage. Loading, draining,
//! counting and coverage (`hooks/`) go over [`PROBES`](crate::PROBES), the one list; who adds a probe there changes none of them.
//!
//! ```text
//! detail    how much is recorded
//! features  what this kernel has: hooks, MPTCP (mptcp), counters of network namespaces (mib)
//! output    what probes make of records: rows, and what becomes rows later (process, stack, reading)
//! btf       what its type information says
//! count     how many records there were
//! error     what can fail
//! ```

mod btf;
pub(crate) mod count;
mod detail;
mod error;
pub(crate) mod features;
mod map_iterator;
pub(crate) mod mib;
pub(crate) mod mptcp;
mod output;
mod process;
mod reading;
mod stack;

pub use btf::BtfError;
pub(crate) use count::KernelCounts;
pub use count::{ProbeCount, ProbeCounts, REENTERED, RING_FULL};
pub use detail::Detail;
pub use error::HooksError;
pub(crate) use features::on;
pub use output::ProbeOutput;
pub use process::ObservedProcess;
pub use reading::{CALL_CLASSES, CallCounts, CallSummary, SocketReading};
pub(crate) use stack::{ProgramKey, Registers};
pub use stack::{PythonCode, SampledAddress, SeenStack};

use features::{Features, Levels, Tracepoint};
use libbpf_rs::MapCore;
use table::TableId;
use table::manifest::Coverage;

use crate::skel::HooksMaps;
use crate::wire::types::record_kind;

/// Makes rows of the body of a record; `None`: it does not have the shape that it should have.
pub(crate) type DecodeRecord = fn(&mut ProbeOutput, &[u8]) -> Option<()>;

/// Makes rows of what lies in a ring: a batch, or one record. Returns how many records it could not decode.
pub(crate) type DecodeBatch = fn(&mut ProbeOutput, &[u8]) -> u64;

/// Finds a map among those of the object.
pub(crate) type FindMap = for<'a> fn(&'a HooksMaps<'a>) -> &'a dyn MapCore;

/// Finds a ring of batches, and its overflow.
pub(crate) type FindRings = for<'a> fn(&'a HooksMaps<'a>) -> [&'a dyn MapCore; 2];

/// Where the records of a probe lie.
pub(crate) enum Source {
    /// Nowhere: its rows are made in user space.
    UserSpace,
    /// In the rings of rare records, each with a header, by its kind.
    Records(&'static [(record_kind, DecodeRecord)]),
    /// In a ring of its own.
    Ring(FindMap, DecodeBatch),
    /// In a ring that fits the cache, and, while the reader is late, in another one: `batch_flush()`.
    Batches(FindRings, DecodeBatch),
}

/// Holds the inputs of coverage.
pub(crate) struct Support<'a> {
    /// Features of this kernel.
    pub(crate) features: &'a Features,
    /// The detail that is asked for.
    pub(crate) detail: Detail,
    /// Counters of network namespaces can be read.
    pub(crate) has_mib: bool,
}

/// A probe. It is called once for each batch at most; what it does for each record, its decoder does.
pub(crate) trait Probe: Sync {
    /// Returns the name in coverage and in accounts of loss.
    fn name(&self) -> &'static str;

    /// Returns the table of the probe's rows; `None` if it makes no rows.
    fn table(&self) -> Option<TableId>;

    /// Returns the least detail that includes the probe.
    fn detail(&self) -> Detail {
        Detail::Stats
    }

    /// Returns whether the probe's programs run at these levels.
    fn is_on(&self, _: Levels) -> bool {
        true
    }

    /// Returns whether the probe is off if no BPF program can be loaded.
    fn needs_bpf(&self) -> bool {
        false
    }

    /// Returns the probe's hooks that some kernels do not have. The program at hook X is
    /// `handle_X`.
    fn hooks(&self) -> &'static [Tracepoint] {
        &[]
    }

    /// Returns the programs that only this probe needs.
    fn programs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the maps that only this probe uses.
    fn maps(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns from which ring or map the probe's records come.
    fn source(&self) -> Source {
        Source::UserSpace
    }

    /// Returns whether user space counts the probe's rows.
    fn counts_rows(&self) -> bool {
        matches!(self.source(), Source::UserSpace)
    }

    /// Counts the records that the probe produced and lost in the kernel.
    fn count(&self, _: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        Ok(ProbeCount::default())
    }

    /// Returns the coverage of the probe and its parts; called only if the detail includes it.
    fn coverage(&self, _: &Support<'_>) -> Vec<Coverage> {
        Vec::new()
    }
}
