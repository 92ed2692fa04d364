//! The BPF programs of all probes, loaded and attached as one object (`src/bpf/hooks.bpf.c` is
//! the list of what is hooked). In: what to record. Out: rows, counts of what was produced and
//! lost, and coverage: which hooks this kernel has, decided from its BTF.

mod attach;
mod choose;
mod drain;
mod follow;
mod iterate;
mod links;
mod load;
mod log;
mod netns_walk;
mod netns_walker;
mod open_sockets;
mod select;
#[cfg(test)]
mod stand_in_tests;
mod tasks;
#[cfg(test)]
mod tests;
mod walk;
mod window;
mod window_hooks;
#[cfg(test)]
mod window_tests;

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::skel::Skel;
use libbpf_rs::{Program, ProgramInput, ProgramMut};
use table::manifest::Coverage;
use table::tables::DropCounts;

use crate::PROBES;
use crate::drops::DropReader;
use crate::interface::KernelCounts;
use crate::interface::features::Levels;
pub use crate::interface::{
    Detail, HooksError, ProbeCount, ProbeCounts, ProbeOutput, REENTERED, RING_FULL,
};
use crate::inventory::kinds::KINDS;
use crate::nic::Nics;
use crate::python::PythonProcesses;
use crate::self_cost::{BpfTimeError, BpfTimeSampler};
use crate::skel::HooksSkel;
use crate::wire::types as wire;
pub use drain::Drainer;
pub use follow::{FOLLOW, FollowCounts};
use links::AttachedLinks;
pub use load::Storage;
use netns_walker::NetnsWalks;
pub use open_sockets::MPTCP_SOCKETS;
pub use select::Selection;
pub use walk::{WALK_LEVEL_MOST, WalkCounts, WalkOf};
pub use window_hooks::HookTimes;
use window_hooks::WindowHooks;

/// Returns the least detail that includes a probe, by its name in coverage.
pub fn least_detail(name: &str) -> Option<Detail> {
    let probe = PROBES.iter().find(|probe| probe.name() == name)?;
    Some(probe.detail())
}

/// The running programs. Dropping it detaches them all; so does the kernel after a kill.
pub struct Hooks<'obj> {
    skel: HooksSkel<'obj>,
    attached: RefCell<AttachedLinks>,
    cpus: usize,
    /// Levels that are recorded.
    levels: Levels,
    /// The present walk is.
    over_active: Cell<bool>,
    /// So many walks are not to be, though they might.
    over_all: Cell<u8>,
    /// Sockets that walks over active ones did not have to read, so far.
    resting: Cell<u64>,
    counts_timeouts: bool,
    /// Calls on sockets that are no TCP sockets are counted.
    counts_other_calls: bool,
    /// Sockets of recorded processes, as most were open at one walk, by kind.
    open_sockets: Cell<[u64; KINDS]>,
    /// Why a network namespace could not be entered, in which MPTCP sockets are.
    unreached: RefCell<Option<String>>,
    /// How walks go over network namespaces.
    netns_walks: NetnsWalks,
    /// A clock on every CPU; none if no waits are recorded, or the kernel refused.
    clocks: Vec<OwnedFd>,
    /// Hooks that are attached in windows only.
    of_windows: WindowHooks,
    /// Adapters that may stamp what is sent, if that is recorded.
    nics: Option<Nics>,
    coverage: Vec<Coverage>,
    /// Processes that serve recorded connections are followed.
    follows: bool,
}

impl Hooks<'_> {
    /// Returns the coverage of all probes: what works, and why the rest does not.
    pub fn coverage(&self) -> &[Coverage] {
        &self.coverage
    }

    /// Returns whether the ledger and the call log are kept.
    pub fn has_calls(&self) -> bool {
        self.levels.keeps_ledger()
    }

    /// Returns whether this kernel counts retransmission timeouts of sockets.
    pub fn counts_timeouts(&self) -> bool {
        self.counts_timeouts
    }

    /// Returns the map of processes that are recorded, for programs of other objects.
    pub(crate) fn tasks(&self) -> BorrowedFd<'_> {
        self.skel.maps.tasks.as_fd()
    }

    /// Returns the storage of recorded sockets, for programs of other objects.
    pub(crate) fn sockets(&self) -> BorrowedFd<'_> {
        self.skel.maps.sockets.as_fd()
    }

    /// Reads the counts of drops, unless the last time was less than a second ago.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub fn read_drops_if_due(
        &self,
        reader: &mut DropReader,
        rows: &mut DropCounts,
    ) -> Result<(), HooksError> {
        reader.read_if_due(&self.kernel_counts(), rows)
    }

    /// Reads the counts of drops: a row for each that has changed.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub fn read_drops(
        &self,
        reader: &mut DropReader,
        rows: &mut DropCounts,
    ) -> Result<(), HooksError> {
        reader.read(&self.kernel_counts(), rows)
    }

    /// Returns access to the counts that the programs keep.
    fn kernel_counts(&self) -> KernelCounts<'_> {
        KernelCounts::new(&self.skel, self.levels)
    }

    /// Returns the adapters that may stamp sent messages; `None`: these are not recorded.
    pub(crate) fn nics(&self) -> Option<&Nics> {
        self.nics.as_ref()
    }

    /// Begins to read recorded sockets with traffic since the last read: samples and ledgers.
    /// Returns true if there are more than the ring holds: after that was drained,
    /// [`read_more_sockets`](Self::read_more_sockets) reads on.
    pub fn read_sockets(&self) -> Result<bool, HooksError> {
        self.begin_poll([0; 4])?;
        self.read_more_sockets()
    }

    /// Runs the program that begins a poll, with these arguments.
    fn begin_poll(&self, arguments: [u64; 4]) -> Result<(), HooksError> {
        let mut context: Vec<u8> = arguments.iter().flat_map(|n| n.to_ne_bytes()).collect();
        let input = ProgramInput {
            context_in: Some(&mut context),
            ..ProgramInput::default()
        };
        let begun = self.skel.progs.begin_poll.test_run(input);
        begun.map(drop).map_err(|error| HooksError::Use {
            action: "begin a poll",
            error,
        })
    }

    /// Reads the sockets that [`read_sockets`](Self::read_sockets) had no room for.
    pub fn read_more_sockets(&self) -> Result<bool, HooksError> {
        let attached = self.attached.borrow();
        let link = match self.over_active.get() {
            true => &attached.active,
            false => &attached.sockets,
        };
        let walk = || {
            self.read_walk(link.as_ref(), "recorded sockets")?;
            self.end_poll()
        };
        Ok(self.count_raised(walk, |walked| walked.postponed)? > 0)
    }

    /// Advances the ledgers of connections with an end that has closed, and that may still send: no
    /// hook sees their ACKs. Returns how many there were.
    pub fn read_draining(&self) -> Result<u64, HooksError> {
        let attached = self.attached.borrow();
        let walk = || self.read_walk(attached.draining.as_ref(), "draining sockets");
        self.count_raised(walk, |walked| walked.draining)
    }

    /// Returns by how much a walk raised a count.
    fn count_raised(
        &self,
        walk: impl FnOnce() -> Result<(), HooksError>,
        count: impl Fn(&wire::walk_counts) -> u64,
    ) -> Result<u64, HooksError> {
        let read = || {
            let bss = self.skel.maps.bss_data.as_deref();
            bss.map_or(0, |bss| count(&bss.walked))
        };
        let before = read();
        walk()?;
        Ok(read() - before)
    }

    /// Moves the batches of every CPU to the rings, full or not.
    pub fn flush(&self) -> Result<(), HooksError> {
        if !self.skel.progs.flush_batches.autoload() {
            return Ok(());
        }
        self.run_on_each_cpu(&self.skel.progs.flush_batches, "flush batches")
    }

    /// Runs a program that is attached to nothing once on every CPU that is on.
    fn run_on_each_cpu(
        &self,
        program: &ProgramMut<'_>,
        action: &'static str,
    ) -> Result<(), HooksError> {
        const BPF_F_TEST_RUN_ON_CPU: u32 = 1;
        for cpu in 0..self.cpus {
            let input = ProgramInput {
                cpu: u32::try_from(cpu).unwrap_or(0),
                flags: BPF_F_TEST_RUN_ON_CPU,
                ..Default::default()
            };
            match program.test_run(input) {
                Ok(_) => {}
                // possible, but not online
                Err(error) if error.kind() == libbpf_rs::ErrorKind::Other => {}
                Err(error) => return Err(HooksError::Use { action, error }),
            }
        }
        Ok(())
    }

    /// Records produced and lost so far, by probe.
    pub fn counts(&self) -> Result<ProbeCounts, HooksError> {
        let kernel = self.kernel_counts();
        let mut counts = ProbeCounts::default();
        for probe in PROBES {
            counts.add(probe.name(), probe.count(&kernel)?);
        }
        Ok(counts)
    }

    /// Opens the rings to read the programs' records.
    pub fn drainer(&self) -> Result<Drainer<'_>, HooksError> {
        Drainer::new(&self.skel.maps)
    }

    /// Makes a sampler of the run time of all loaded programs, and of `others`.
    pub fn run_time<'a>(
        &'a self,
        now_ns: u64,
        others: impl IntoIterator<Item = BorrowedFd<'a>>,
    ) -> Result<BpfTimeSampler, BpfTimeError> {
        let loaded = self.loaded();
        let mut programs: Vec<BorrowedFd<'_>> = others.into_iter().collect();
        programs.extend(loaded.iter().map(AsFd::as_fd));
        BpfTimeSampler::new(programs, now_ns, now_ns)
    }

    /// Returns the programs that were loaded.
    fn loaded(&self) -> Vec<Program<'_>> {
        let programs = self.skel.object().progs();
        programs.filter(|program| program.autoload()).collect()
    }
}

impl Hooks<'_> {
    /// Returns whether stacks of threads are recorded.
    pub fn records_stacks(&self) -> bool {
        self.levels.waits
    }

    /// Returns the map of processes with interpreters of Python; `None`: their functions are not read.
    pub fn python_processes(&self) -> Option<PythonProcesses> {
        let processes = self
            .records_stacks()
            .then(|| PythonProcesses::new(&self.skel.maps.python_processes));
        processes.flatten()
    }
}

/// A probe as accounts of loss know it.
#[derive(Debug, Clone, Copy)]
pub struct ProbeAccount {
    /// Name of the probe.
    pub probe: &'static str,
    /// The table of its rows.
    pub table: &'static str,
    /// Its rows are counted where they are made, in user space.
    pub counts_rows: bool,
}

/// Returns the probes with rows in recordings.
pub fn accounts() -> impl Iterator<Item = ProbeAccount> {
    PROBES.iter().filter_map(|probe| {
        Some(ProbeAccount {
            probe: probe.name(),
            table: probe.table()?.name(),
            counts_rows: probe.counts_rows(),
        })
    })
}

/// Returns the probes of this detail that are missing if no BPF program can be loaded.
pub fn missed_without_bpf(detail: Detail) -> impl Iterator<Item = &'static str> {
    let asked = PROBES.iter().filter(move |probe| probe.detail() <= detail);
    asked.filter(|it| it.needs_bpf()).map(|it| it.name())
}
