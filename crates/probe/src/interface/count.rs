//! How many records each probe produced and lost, as counted in the kernel where it happened.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::skel::Skel;
use libbpf_rs::{MapCore, MapFlags, Program, ProgramMut};

use super::error::HooksError;
use super::features::{Levels, programs_at};
use crate::self_cost::program_info;
use crate::skel::{HooksMaps, HooksProgs, HooksSkel};
use crate::wire::types as wire;
use crate::wire::{Wire, read};

// SAFETY: `record_count` is `repr(C)` and made of integers.
unsafe impl Wire for wire::record_count {}

/// The cause of records that are lost because their ring was full.
pub const RING_FULL: &str = "ring_full";

/// Why records are lost that no program could make: the kernel refused to run it inside itself (`recursion_misses`), or
/// an interrupt found its batch being handed over.
pub const REENTERED: &str = "reentered";

/// Holds how many records of one probe there were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeCount {
    /// Records that it set out to make.
    pub produced: u64,
    /// Of these, without news, and so not to be stored.
    pub filtered: u64,
    /// Of these, lost, by cause.
    pub lost: BTreeMap<&'static str, u64>,
}

impl ProbeCount {
    /// Adds lost records that `produced` counts already.
    pub fn add_lost(&mut self, cause: &'static str, records: u64) {
        if records > 0 {
            *self.lost.entry(cause).or_default() += records;
        }
    }

    /// Adds records that could not be made, and so are not in `produced` yet.
    pub fn add_unmade(&mut self, cause: &'static str, records: u64) {
        self.produced += records;
        self.add_lost(cause, records);
    }

    /// Adds the records of another count.
    pub fn add(&mut self, other: Self) {
        let Self {
            produced,
            filtered,
            lost,
        } = other;
        self.produced += produced;
        self.filtered += filtered;
        for (cause, records) in lost {
            self.add_lost(cause, records);
        }
    }
}

/// Holds the records of all probes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeCounts(BTreeMap<&'static str, ProbeCount>);

impl ProbeCounts {
    /// Returns the counts of one probe: records made, filtered, lost.
    pub fn count(&self, probe: &str) -> ProbeCount {
        self.0.get(probe).cloned().unwrap_or_default()
    }

    /// Returns how many records of a probe were lost for one cause.
    pub fn count_lost(&self, probe: &str, cause: &str) -> u64 {
        let count = self.0.get(probe);
        count.map_or(0, |it| it.lost.get(cause).copied().unwrap_or(0))
    }

    /// Adds counts to one probe.
    pub fn add(&mut self, probe: &'static str, count: ProbeCount) {
        self.0.entry(probe).or_default().add(count);
    }

    /// Returns the records of watched sockets that were made and did not arrive. It includes sockets and calls
    /// without memory for a record.
    pub fn lost_to_watch(&self) -> u64 {
        const LOSSES: [(&str, &str); 5] = [
            ("inventory", RING_FULL),
            ("inventory", "no_memory"),
            ("watch", RING_FULL),
            ("calls", REENTERED),
            ("tcp_events", REENTERED),
        ];
        let lost = LOSSES
            .iter()
            .map(|(probe, cause)| self.count_lost(probe, cause));
        lost.sum()
    }
}

/// Reads what the programs counted.
pub(crate) struct KernelCounts<'a> {
    skel: &'a HooksSkel<'a>,
    pub(crate) levels: Levels,
}

impl<'a> KernelCounts<'a> {
    /// Reads counts from these loaded programs.
    pub(crate) fn new(skel: &'a HooksSkel<'a>, levels: Levels) -> Self {
        Self { skel, levels }
    }

    /// Returns the BPF maps.
    pub(crate) fn maps(&self) -> &'a HooksMaps<'a> {
        &self.skel.maps
    }

    /// Returns the BPF programs.
    pub(crate) fn programs(&self) -> &'a HooksProgs<'a> {
        &self.skel.progs
    }

    /// Returns the counters that the programs keep in variables.
    pub(crate) fn variables(&self) -> Option<&'a wire::bss> {
        self.skel.maps.bss_data.as_deref()
    }

    /// Reads the counts of rare records of one kind.
    pub(crate) fn records(&self, kind: wire::record_kind) -> Result<ProbeCount, HooksError> {
        let mut all = ProbeCount::default();
        for count in per_cpu::<wire::record_count>(&self.skel.maps.record_counts, kind.0)? {
            all.produced += count.produced;
            all.add_lost(RING_FULL, count.lost_ring_full);
        }
        Ok(all)
    }

    /// Counts the records of all batches in a map.
    pub(crate) fn batches<T: Wire>(
        &self,
        map: &impl MapCore,
        batch: impl Fn(&T) -> wire::batch,
    ) -> Result<ProbeCount, HooksError> {
        let mut all = ProbeCount::default();
        for key in 0..map.max_entries() {
            for counted in per_cpu::<T>(map, key)? {
                let counted = batch(&counted);
                all.produced += counted.produced;
                all.add_lost(RING_FULL, counted.lost_ring_full);
                all.add_unmade(REENTERED, counted.lost_flushed);
            }
        }
        Ok(all)
    }

    /// Counts the runs of these programs that the kernel refused. Programs that are not loaded count as zero.
    pub(crate) fn refused_runs(&self, programs: &[&ProgramMut<'_>]) -> Result<u64, HooksError> {
        let loaded = programs.iter().filter(|program| program.autoload());
        loaded.map(|program| refused_runs_of(program.as_fd())).sum()
    }

    /// Counts the runs that the kernel refused to the programs of a hook: at the tracepoint, or at functions in its place.
    pub(crate) fn refused_runs_at(&self, hook: &str) -> Result<u64, HooksError> {
        let names = programs_at(hook);
        let is_at_hook =
            |program: &Program<'_>| names.iter().any(|it| program.name() == it.as_str());
        let programs = self.skel.object().progs();
        let loaded = programs.filter(|program| program.autoload() && is_at_hook(program));
        loaded.map(|program| refused_runs_of(program.as_fd())).sum()
    }
}

/// Returns how often the kernel refused to run a loaded program, because the program ran already on that CPU.
fn refused_runs_of(program: BorrowedFd<'_>) -> Result<u64, HooksError> {
    let info = program_info(program).map_err(|error| HooksError::Read {
        what: "program statistics",
        error,
    })?;
    Ok(info.recursion_misses)
}

/// Returns the values of all CPUs for a key; leaves out those of another size.
pub(crate) fn per_cpu<T: Wire>(map: &impl MapCore, key: u32) -> Result<Vec<T>, HooksError> {
    let values = map
        .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| HooksError::Use {
            action: "read record counts",
            error,
        })?;
    Ok(values
        .unwrap_or_default()
        .iter()
        .filter_map(|bytes| read(bytes))
        .collect())
}
