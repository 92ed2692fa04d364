//! Holds what probes make of records.

use std::collections::BTreeMap;

use table::RowSet;

use super::process::ObservedProcess;
use super::reading::SocketReading;
use super::stack::{PythonCode, SampledAddress, SeenStack};
use crate::wire::types::process_seen;

/// Output of the probes since the last [`Drainer::take`](crate::hooks::Drainer::take): rows, and readings that become
/// rows later.
#[derive(Debug, Default)]
pub struct ProbeOutput {
    /// Rows as the kernel side knows them.
    pub rows: RowSet,
    /// Owners of sockets, one for each row of a socket that has one.
    pub owners: Vec<ObservedProcess>,
    /// Recorded processes that became other programs, which they are now.
    pub programs: Vec<ObservedProcess>,
    /// Call stacks that came for the first time.
    pub stacks: Vec<SeenStack>,
    /// Stacks of the callers of functions that samples interrupted, which came for the first time.
    pub sampled_stacks: Vec<SeenStack>,
    /// Functions of Python that came for the first time.
    pub python_codes: Vec<PythonCode>,
    /// Where samples interrupted programs: one for each row of `on_cpu_samples`, in their order.
    pub sampled: Vec<SampledAddress>,
    /// Where the clock found programs that spin: one for each row of `spins`, in their order.
    pub spun: Vec<SampledAddress>,
    /// Watched sockets, as they were read.
    pub readings: Vec<SocketReading>,
    /// Records that could not be decoded, by probe; none unless program and reader do not fit.
    pub undecoded: BTreeMap<&'static str, u64>,
}

impl ProbeOutput {
    /// Adds the owner of a socket, if the kernel reported one.
    pub(crate) fn add_owner(&mut self, owner: &process_seen, time_ns: u64) {
        self.owners
            .extend(ObservedProcess::from_wire(owner, time_ns));
    }

    /// Counts records that a probe could not decode.
    pub(crate) fn note_undecoded(&mut self, probe: &'static str, records: u64) {
        if records > 0 {
            *self.undecoded.entry(probe).or_default() += records;
        }
    }
}
