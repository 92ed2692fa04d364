//! What probes give → the store, completed by what only user space knows: the other end of a
//! connection, who its owner is, and what the owner does with the CPUs. Counts the rows that it adds. A recording
//! stores them; a watch has a shelf in place of the store.

use probe::clock::Clocks;
use probe::hooks::Drained;
use probe::itt::Rows;
use probe::processes::Seen;
use probe::stacks::{SeenStack, Stacks};
use table::manifest::{Coverage, Line, ProbeState};
use table::tables::{
    ClockPairs, Connections, CpuSamples, ProcessSamples, Processes, SentMessages, Spins,
    StackFrames, TcpSamples, Waits,
};
use table::{Columns, TcpEventKind};

use crate::account::Added;
use crate::cpu::CpuUse;
use crate::keep::Moments;
use crate::poll::Polls;
use crate::sockets::Sockets;
use crate::store::{Batch, Sink, Store};

/// Readings of each clock pair, of which the narrowest is kept.
const CLOCK_ATTEMPTS: u32 = 5;

/// See the module.
pub(crate) struct Intake<S = Store> {
    pub(crate) sockets: Sockets,
    in_proc: bool,
    pub(crate) cpu: CpuUse,
    pub(crate) clocks: Clocks,
    stacks: Stacks,
    pub(crate) added: Added,
    /// Coverage says how MPTCP connections are seen.
    told_mptcp: bool,
    pub(crate) store: S,
}

impl<S: Sink> Intake<S> {
    /// `in_proc`: the ids of processes that come are those of `/proc` here.
    pub(crate) fn new(store: S, in_proc: bool) -> Self {
        Self {
            sockets: Sockets::new(in_proc),
            in_proc,
            cpu: CpuUse::default(),
            clocks: Clocks::open(),
            stacks: Stacks::default(),
            added: Added::default(),
            told_mptcp: false,
            store,
        }
    }

    /// Whether something in it makes [`Intake::put`] read about processes.
    pub(crate) fn is_new(&self, drained: &Drained) -> bool {
        let mut owners = drained.owners.iter();
        !drained.stacks.is_empty() || owners.any(|owner| !self.sockets.knows(owner))
    }

    /// Stores what the hooks gave. Whether the state of a socket changed.
    pub(crate) fn put(&mut self, drained: Drained) -> bool {
        let changed = drained.events.kind.contains(&TcpEventKind::State);
        for (probe, records) in &drained.undecoded {
            *self.added.undecoded.entry(probe).or_default() += records;
        }
        self.put_seen(&drained.programs);
        self.put_owners(&drained.owners);
        self.put_connections(&drained.connections);
        self.store.put(Batch::Listeners(drained.listeners));
        self.store.put(Batch::UdpSockets(drained.udp_sockets));
        self.store.put(Batch::Calls(drained.calls));
        self.put_stacks(&drained.stacks);
        self.put_waits(drained.waits);
        self.put_spins(drained.spins);
        self.store.put(Batch::Received(Box::new(drained.received)));
        self.put_sent(drained.sent);
        self.store.put(Batch::Events(drained.events));
        self.store.put(Batch::Samples(Box::new(drained.samples)));
        self.store.put(Batch::Stages(Box::new(drained.stages)));
        changed
    }

    pub(crate) fn put_sent(&self, sent: SentMessages) {
        self.store.put(Batch::Sent(Box::new(sent)));
    }

    fn put_connections(&mut self, seen: &Connections) {
        let mut rows = Connections::default();
        for index in 0..seen.len() {
            self.sockets.update(seen.row(index), &mut rows);
        }
        self.added.connections += (rows.len() - seen.len()) as u64;
        if !self.told_mptcp && rows.mptcp_token.iter().any(Option::is_some) {
            self.told_mptcp = true;
            self.put_coverage(mptcp_coverage());
        }
        self.store.put(Batch::Connections(rows));
    }

    /// Owners of sockets, with their use of the CPUs from when they are first met.
    fn put_owners(&mut self, owners: &[Seen]) {
        self.watch_cpu(owners.iter().map(|owner| owner.pid));
        self.put_seen(owners);
    }

    /// Processes that were not met before, or became other programs since.
    fn put_seen(&mut self, seen: &[Seen]) {
        let mut processes = Processes::default();
        self.sockets.describe(seen, &mut processes);
        self.put_processes(processes);
    }

    /// Processes that were not met before, of which nothing is told but their ids.
    fn put_pids(&mut self, pids: impl Iterator<Item = u32>) {
        let mut processes = Processes::default();
        self.sockets.describe_pids(pids, &mut processes);
        self.put_processes(processes);
    }

    fn put_processes(&mut self, processes: Processes) {
        self.added.processes += processes.len() as u64;
        self.store.put(Batch::Processes(processes));
    }

    fn watch_cpu(&mut self, pids: impl Iterator<Item = u32>) {
        let mut samples = ProcessSamples::default();
        for pid in pids.filter(|_| self.in_proc) {
            self.cpu.watch(pid, &mut samples);
        }
        self.put_cpu(samples, CpuSamples::default());
    }

    fn put_waits(&mut self, waits: Waits) {
        let pids = waits.pid.chunk_by(|a, b| a == b);
        self.put_pids(pids.filter_map(<[u32]>::first).copied());
        self.store.put(Batch::Waits(Box::new(waits)));
    }

    fn put_spins(&mut self, spins: Spins) {
        self.put_pids(spins.pid.iter().copied());
        self.store.put(Batch::Spins(Box::new(spins)));
    }

    fn put_stacks(&mut self, stacks: &[SeenStack]) {
        let mut rows = StackFrames::default();
        for stack in stacks {
            self.stacks.put(stack, &mut rows);
        }
        self.added.stack_frames += rows.len() as u64;
        self.store.put(Batch::Stacks(Box::new(rows)));
    }

    /// Looks up what is at all places of all stacks: when the recording ends, as it takes time.
    pub(crate) fn put_symbols(&mut self) {
        let rows = std::mem::take(&mut self.stacks).symbols();
        self.added.symbols += rows.len() as u64;
        self.store.put(Batch::Symbols(Box::new(rows)));
    }

    /// Moments that the flight recorder kept.
    pub(crate) fn put_moments(
        &mut self,
        Moments {
            activities,
            windows,
        }: Moments,
    ) {
        self.added.activities += activities.len() as u64;
        self.store.put(Batch::Activities(Box::new(activities)));
        self.store.put(Batch::Windows(Box::new(windows)));
    }

    /// What programs said by USDT probes.
    pub(crate) fn put_usdt(&mut self, Rows { counters, tasks }: Rows) {
        self.put_pids(counters.pid.iter().chain(&tasks.pid).copied());
        self.store.put(Batch::Counters(Box::new(counters)));
        self.store.put(Batch::Tasks(Box::new(tasks)));
    }

    fn put_cpu(&mut self, processes: ProcessSamples, cpus: CpuSamples) {
        self.added.process_samples += processes.len() as u64;
        self.added.cpu_samples += cpus.len() as u64;
        self.store.put(Batch::ProcessSamples(processes));
        self.store.put(Batch::Cpus(cpus));
    }

    /// Reads who used the CPUs and who waited for one, unless the last time was too recent for what
    /// it took: see [`CpuUse::read_if_due`].
    pub(crate) fn read_cpu_if_due(&mut self, pause_factor: u64, between: impl Fn()) {
        let (mut processes, mut cpus) = Default::default();
        self.cpu
            .read_if_due(pause_factor, between, &mut processes, &mut cpus);
        self.put_cpu(processes, cpus);
    }

    /// The same in any case.
    pub(crate) fn read_cpu(&mut self) {
        let (mut processes, mut cpus) = Default::default();
        self.cpu.read_all(|| (), &mut processes, &mut cpus);
        self.put_cpu(processes, cpus);
    }

    /// Reads sockets without hooks.
    pub(crate) fn poll(&mut self, polls: &mut Polls) {
        let (mut samples, mut connections) = <(TcpSamples, Connections)>::default();
        polls.poll(&mut self.sockets, &mut samples, &mut connections);
        self.added.connections += connections.len() as u64;
        let owners = || connections.pid.iter().copied().flatten();
        self.watch_cpu(owners());
        self.put_pids(owners());
        self.store.put(Batch::Connections(connections));
        self.store.put(Batch::Samples(Box::new(samples)));
    }

    /// Reads how far the clocks are apart.
    pub(crate) fn read_clocks(&mut self) {
        let mut rows = ClockPairs::default();
        for pair in self.clocks.read(CLOCK_ATTEMPTS) {
            rows.push(pair);
        }
        self.added.clock_pairs += rows.len() as u64;
        self.store.put(Batch::ClockPairs(rows));
    }

    pub(crate) fn put_coverage(&mut self, coverage: Coverage) {
        self.store.put(Batch::Line(Line::Coverage(coverage)));
    }
}

/// How connections are seen that are subflows.
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
