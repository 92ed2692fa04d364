//! The rows of the probes → the store, completed by what only user space knows: the other end of a
//! connection, who its owner is, and what the owner does with the CPUs. Counts the rows that it adds. A recording
//! stores them; a live view buffers them.

use probe::clock::Clocks;
use probe::files::FileReader;
use probe::hooks::{Hooks, ProbeOutput};
use probe::processes::{ObservedProcess, ProcessReader};
use probe::stacks::{SampledAddress, SeenStack, Stacks, ended_programs_coverage};
use table::manifest::{Coverage, Line, ProbeState};
use table::tables::{Connections, Listeners, Processes, Waits};
use table::{Columns, RowSet, TcpEventKind, WaitObject, Waker};

use crate::account::{RowCounts, UserSpaceCounts, add_counts, count_rows};
use crate::collector::WalkShare;
use crate::cpu::CpuUse;
use crate::poll::Polls;
use crate::sockets::Sockets;
use crate::store::{RowSink, Store};

/// Readings of each clock pair; the narrowest is kept.
const CLOCK_ATTEMPTS: u32 = 5;

/// Completes rows, and hands them to where they are kept.
pub(crate) struct RowPipeline<S = Store> {
    pub(crate) sockets: Sockets,
    in_proc: bool,
    pub(crate) cpu: CpuUse,
    pub(crate) clocks: Clocks,
    stacks: Stacks,
    files: FileReader,
    pub(crate) added: UserSpaceCounts,
    /// Coverage says how MPTCP connections are seen.
    has_mptcp_coverage: bool,
    pub(crate) store: S,
}

impl<S: RowSink> RowPipeline<S> {
    /// Makes a pipeline into `store`; without a reader, `/proc` has other processes than those that are recorded. The
    /// reader is made before hooks are attached: it waits for runtimes.
    pub(crate) fn new(store: S, reader: Option<ProcessReader>) -> Self {
        Self {
            in_proc: reader.is_some(),
            sockets: Sockets::new(reader),
            cpu: CpuUse::default(),
            clocks: Clocks::open(),
            stacks: Stacks::default(),
            files: FileReader::default(),
            added: UserSpaceCounts::default(),
            has_mptcp_coverage: false,
            store,
        }
    }

    /// Reads functions of Python from now on, if hooks see threads.
    pub(crate) fn read_python(&mut self, hooks: Option<&Hooks<'_>>) {
        if let Some(processes) = hooks.and_then(Hooks::python_processes) {
            self.stacks.read_python(processes);
        }
    }

    /// Has stacks of programs that end soon be named from now on, if hooks see threads.
    pub(crate) fn record_code(&mut self, hooks: Option<&Hooks<'_>>) {
        if hooks.is_some_and(Hooks::records_stacks) {
            let opened = self.stacks.record_code();
            self.put_coverage(ended_programs_coverage(&opened));
        }
    }

    /// Returns whether [`RowPipeline::store_output`] would read `/proc` for this output.
    pub(crate) fn is_new(&self, output: &ProbeOutput) -> bool {
        let mut owners = output.owners.iter();
        let mut stacks = output.stacks.iter().chain(&output.sampled_stacks);
        stacks.any(|stack| !self.stacks.knows(stack))
            || owners.any(|owner| !self.sockets.knows(owner))
    }

    /// Completes the hooks' records and stores them; returns whether the state of a socket changed.
    pub(crate) fn store_output(&mut self, output: ProbeOutput) -> bool {
        let ProbeOutput {
            mut rows,
            owners,
            programs,
            stacks,
            sampled_stacks,
            python_codes,
            sampled,
            spun,
            readings: _,
            undecoded,
        } = output;
        add_counts(&mut self.added.undecoded, undecoded);
        let before = count_rows(&rows);
        self.describe(&programs, &mut rows);
        self.watch_cpu(owners.iter().map(|owner| owner.pid), &mut rows);
        self.describe(&owners, &mut rows);
        self.complete_connections(&mut rows);
        self.describe_threads(&mut rows);
        self.describe_files(&mut rows);
        self.note_full_tables(&rows.listeners);
        for code in &python_codes {
            self.stacks.put_code(code);
        }
        self.stacks.read_code();
        self.add_stacks(&stacks, &mut rows);
        self.add_sampled(&sampled_stacks, (&sampled, &spun), &mut rows);
        self.added.add_since(&before, &rows);
        let changed = rows.tcp_events.kind.contains(&TcpEventKind::State);
        self.store.store_rows(rows);
        changed
    }

    /// Stores rows that user space made, and counts them.
    pub(crate) fn store_added(&mut self, rows: RowSet) {
        self.added.add_since(&RowCounts::new(), &rows);
        self.store.store_rows(rows);
    }

    /// Replaces connection rows of the kernel by completed ones.
    fn complete_connections(&mut self, rows: &mut RowSet) {
        let seen = std::mem::take(&mut rows.connections);
        for index in 0..seen.len() {
            self.sockets.update(seen.row(index), &mut rows.connections);
        }
        let is_subflow = |rows: &Connections| rows.mptcp_token.iter().any(Option::is_some);
        if !self.has_mptcp_coverage && is_subflow(&rows.connections) {
            self.has_mptcp_coverage = true;
            self.put_coverage(mptcp_coverage());
        }
    }

    /// Asks for another walk over open files while connections wait at a process without a free descriptor: how long they wait
    /// is known from two readings.
    fn note_full_tables(&mut self, rows: &Listeners) {
        let readings = rows.descriptors_full.iter().zip(&rows.waiting);
        let full = readings.filter(|(full, waiting)| **full == Some(true) && **waiting > 0);
        self.sockets.add_unresolved(full.count());
    }

    /// Adds processes that are new, or became other programs.
    fn describe(&mut self, seen: &[ObservedProcess], rows: &mut RowSet) {
        self.sockets.describe(seen, &mut rows.processes);
    }

    /// Stores workloads of pods that runtimes have answered since.
    pub(crate) fn store_workloads(&mut self) {
        let mut rows = Processes::default();
        self.sockets.describe_workloads(&mut rows);
        if !rows.is_empty() {
            self.store_added(rows.into());
        }
    }

    /// Adds rows for new processes, by their pids alone.
    fn describe_pids(&mut self, pids: impl Iterator<Item = u32>, rows: &mut RowSet) {
        self.sockets.describe_pids(pids, &mut rows.processes);
    }

    /// Adds rows for the processes of threads in waits, preemptions, busy polls and samples, and of those that ended waits for
    /// other processes.
    fn describe_threads(&mut self, rows: &mut RowSet) {
        let waited = rows.waits.pid.chunk_by(|a, b| a == b);
        let wakers: Vec<u32> = other_wakers(&rows.waits).collect();
        let pids = waited.filter_map(<[u32]>::first).chain(&wakers);
        let pids = pids.chain(&rows.preemptions.pid).chain(&rows.spins.pid);
        let pids = pids
            .chain(&rows.on_cpu_samples.pid)
            .chain(&rows.dns_waits.pid);
        self.sockets
            .describe_pids(pids.copied(), &mut rows.processes);
    }

    /// Adds the names of files that threads waited for, if they are new.
    fn describe_files(&mut self, rows: &mut RowSet) {
        if self.in_proc {
            self.files.describe(&rows.waits, &mut rows.files);
        }
    }

    /// Adds the CPU times of new owners of sockets, which are read again from now on.
    fn watch_cpu(&mut self, pids: impl Iterator<Item = u32>, rows: &mut RowSet) {
        for pid in pids.filter(|_| self.in_proc) {
            self.cpu.watch(pid, &mut rows.process_samples);
        }
    }

    /// Adds the frames of stacks that the kernel recorded.
    fn add_stacks(&mut self, stacks: &[SeenStack], rows: &mut RowSet) {
        for stack in stacks {
            self.stacks.put(stack, &mut rows.stacks);
        }
    }

    /// Replaces the kernel's stack numbers of samples, which are of callers, by numbers of whole
    /// stacks.
    fn add_sampled(
        &mut self,
        callers: &[SeenStack],
        (sampled, spun): (&[SampledAddress], &[SampledAddress]),
        rows: &mut RowSet,
    ) {
        for callers in callers {
            self.stacks.put_callers(callers, &mut rows.stacks);
        }
        let samples = rows.on_cpu_samples.stack.iter_mut().zip(sampled);
        let spins = rows.spins.stack.iter_mut().zip(spun);
        for (number, sample) in samples.chain(spins) {
            *number = self.stacks.add_sample(*sample, &mut rows.stacks);
        }
    }

    /// Looks up the names of all stack frames; call it when the recording ends, because it takes
    /// time.
    pub(crate) fn put_symbols(&mut self) {
        let symbols = std::mem::take(&mut self.stacks).symbols();
        self.store_added(symbols.into());
    }

    /// Stores rows of USDT probes.
    pub(crate) fn put_usdt(&mut self, reported: RowSet) {
        let mut processes = RowSet::default();
        let pids = reported.counters.pid.iter().chain(&reported.tasks.pid);
        self.describe_pids(pids.copied(), &mut processes);
        self.store_added(processes);
        self.store.store_rows(reported);
    }

    /// Reads CPU times and run-queue delays, if that is due: see [`CpuUse::read_if_due`].
    pub(crate) fn read_cpu_if_due(&mut self, share: WalkShare, between: impl Fn()) {
        let mut rows = RowSet::default();
        let (processes, cpus) = (&mut rows.process_samples, &mut rows.cpu_samples);
        self.cpu.read_if_due(share, between, processes, cpus);
        self.store_added(rows);
    }

    /// Reads CPU times and run-queue delays at once.
    pub(crate) fn read_cpu(&mut self) {
        let mut rows = RowSet::default();
        let (processes, cpus) = (&mut rows.process_samples, &mut rows.cpu_samples);
        self.cpu.read_all(|| (), processes, cpus);
        self.store_added(rows);
    }

    /// Reads sockets without hooks. The samples are counted by who polls.
    pub(crate) fn poll(&mut self, polls: &mut Polls) {
        let mut rows = RowSet::default();
        let (samples, connections) = (&mut rows.tcp_samples, &mut rows.connections);
        polls.poll(&mut self.sockets, samples, connections);
        let owners: Vec<u32> = connections.pid.iter().copied().flatten().collect();
        self.watch_cpu(owners.iter().copied(), &mut rows);
        self.describe_pids(owners.into_iter(), &mut rows);
        let samples = std::mem::take(&mut rows.tcp_samples);
        self.store_added(rows);
        self.store.store_rows(samples.into());
    }

    /// Reads how far the clocks are apart.
    pub(crate) fn read_clocks(&mut self) {
        let mut rows = RowSet::default();
        for pair in self.clocks.read(CLOCK_ATTEMPTS) {
            rows.clock_pairs.push(pair);
        }
        self.store_added(rows);
    }

    /// Writes a line of coverage into the recording.
    pub(crate) fn put_coverage(&mut self, coverage: Coverage) {
        self.store.store_line(Line::Coverage(coverage));
    }
}

/// Returns how connections are seen that are subflows.
fn mptcp_coverage() -> Coverage {
    Coverage {
        probe: "mptcp".to_owned(),
        state: ProbeState::Fallback {
            which:
                "calls and waits are those of the first subflow; stages come from segments alone; \
                    there are no messages"
                    .to_owned(),
            why: "programs call on the MPTCP socket, not on its subflows".to_owned(),
        },
    }
}

/// Objects by which a thread waits for another process: that has a lock or the other end, hands something over, or ends.
const BETWEEN_PROCESSES: [WaitObject; 10] = [
    WaitObject::Futex,
    WaitObject::File,
    WaitObject::Child,
    WaitObject::Signal,
    WaitObject::Pipe,
    WaitObject::Unix,
    WaitObject::Event,
    WaitObject::Epoll,
    WaitObject::Poll,
    WaitObject::Select,
];

/// Returns the processes that ended waits of others for them.
fn other_wakers(rows: &Waits) -> impl Iterator<Item = u32> {
    let all = rows.waker_pid.iter().zip(&rows.pid);
    let all = all.zip(rows.waker.iter().zip(&rows.kind));
    all.filter_map(|((other, own), (waker, kind))| {
        let is_meant = *waker == Waker::Thread && BETWEEN_PROCESSES.contains(kind);
        other.filter(|other| is_meant && other != own)
    })
}
