//! Rows come in batch by batch and in any order of tables; one small digest a connection is
//! kept. Only the cost of this part grows with the recording.

pub mod answers;
pub mod blocked;
pub mod calls;
pub mod cpu;
pub mod drops;
pub mod events;
pub mod ledger;
pub mod listeners;
pub mod longest;
pub mod polls;
pub mod rates;
pub mod samples;
pub mod system_calls;
pub mod threads;
pub mod timer_sleeps;
pub mod zerocopy;

use std::collections::{BTreeMap, BTreeSet};

use table::manifest::{Close, Cost, Coverage, Header, Loss, SocketKind};
use table::tables::{
    Calls, Connection, Connections, CpuSamples, DropCounts, Listeners, OnCpuSamples, PacketDrops,
    Preemptions, ProcessSamples, Processes, StackFrames, Symbols, TcpEvents, TcpSamples, TcpStages,
    ZerocopySends,
};
use table::{Chosen, Columns, Rows, TableConsumer, TableId};

use answers::AnswerTable;
use blocked::BlockedTable;
use calls::{CallDigest, CallTable};
use cpu::CpuTimes;
use drops::{DropDigest, DropRows};
use events::EventDigest;
use ledger::LedgerDigest;
use listeners::ListenerDigest;
use longest::{Lifespans, LongestConnections};
use samples::SampleDigest;
use system_calls::SystemCallTable;
use threads::ThreadTable;
use timer_sleeps::TimerSleeps;
use zerocopy::ZerocopyDigest;

use crate::answer::OmittedRows;
use crate::connections::snap::delayed_acks::SnapSettings;
use crate::rows::hash::ConnectionMap;
use crate::rows::windows::WindowSums;

/// All that is kept of one connection, calls apart.
#[derive(Debug, Default)]
pub struct ConnectionDigest {
    /// Identity; `None` when only other tables name it.
    pub identity: Option<Connection>,
    /// Samples.
    pub samples: SampleDigest,
    /// Ledger readings.
    pub ledger: LedgerDigest,
    /// Events.
    pub events: EventDigest,
    /// Readings of a listening socket; `None` for connections.
    pub listener: Option<ListenerDigest>,
    /// Packets that this host dropped, and resets.
    pub drops: DropDigest,
    /// Zero-copy sends.
    pub zerocopy: ZerocopyDigest,
}

/// A recording on its way to a diagnosis: what its manifest says, and a digest of its rows.
#[derive(Debug)]
pub struct Evidence {
    pub(crate) header: Header,
    pub(crate) coverage: Vec<Coverage>,
    pub(crate) loss: Vec<Loss>,
    pub(crate) cost: Option<Cost>,
    pub(crate) closed: Option<Close>,
    pub(crate) problems: Vec<String>,
    pub(crate) left_out: Vec<OmittedRows>,
    pub(crate) windows: Option<WindowSums>,
    pub(crate) sockets: Vec<SocketKind>,
    pub(crate) span: (u64, u64),
    pub(crate) snap: SnapSettings,
    pub(crate) latest_ns: u64,
    pub(crate) any_events: bool,
    pub(crate) connections: ConnectionMap<ConnectionDigest>,
    pub(crate) listeners: BTreeMap<u64, ConnectionDigest>,
    pub(crate) calls: CallTable,
    no_calls: CallDigest,
    only: Option<LongestConnections>,
    pub(crate) threads: ThreadTable,
    pub(crate) blocked: BlockedTable,
    pub(crate) answers: AnswerTable,
    pub(crate) sleeps: TimerSleeps,
    pub(crate) processes: crate::rows::processes::Processes,
    pub(crate) cpu: CpuTimes,
    pub(crate) system_calls: SystemCallTable,
    pub(crate) drops: DropRows,
    identities: Connections,
}

/// Returns whether a connection is; without a choice all are.
fn is_judged(only: &Option<LongestConnections>, conn: u64) -> bool {
    only.as_ref().is_none_or(|only| only.has_connection(conn))
}

impl TableConsumer for Evidence {
    fn is_reader_of(&self, table: TableId) -> bool {
        const TABLES: [TableId; 16] = [
            TableId::Connection,
            TableId::Listener,
            TableId::Process,
            TableId::ProcessSample,
            TableId::CpuSample,
            TableId::TcpSample,
            TableId::TcpStage,
            TableId::TcpEvent,
            TableId::ZerocopySend,
            TableId::StackFrame,
            TableId::Symbol,
            TableId::OnCpuSample,
            TableId::PacketDrop,
            TableId::DropCount,
            TableId::Preemption,
            TableId::Wait,
        ];
        // of windows, what a connection did between them is missing
        const OF_WINDOWS: [TableId; 4] = [
            TableId::Call,
            TableId::OnCpuSample,
            TableId::Preemption,
            TableId::Wait,
        ];
        if self.windows.is_some() && OF_WINDOWS.contains(&table) {
            return false;
        }
        // of a capture, these are runs of bytes, not calls
        let is_call = table == TableId::Call && !self.header.is_capture();
        TABLES.contains(&table) || is_call
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        match rows {
            Rows::Connection(rows) => self.add_connections(rows),
            Rows::Listener(rows) => self.add_listeners(rows),
            Rows::Process(rows) => self.add_processes(rows),
            Rows::ProcessSample(rows) => self.add_process_samples(rows),
            Rows::CpuSample(rows) => self.add_cpu_samples(rows),
            Rows::TcpSample(rows) => self.add_samples(rows),
            Rows::TcpStage(rows) => self.add_stages(rows),
            Rows::TcpEvent(rows) => self.add_events(rows),
            Rows::Call(rows) => self.add_calls(rows),
            Rows::ZerocopySend(rows) => self.add_zerocopy_sends(rows),
            Rows::StackFrame(rows) => self.add_frames(rows),
            Rows::Symbol(rows) => self.add_symbols(rows),
            Rows::OnCpuSample(rows) => self.add_on_cpu_samples(rows),
            Rows::PacketDrop(rows) => self.add_drops(rows),
            Rows::DropCount(rows) => self.add_drop_counts(rows),
            Rows::Preemption(rows) => self.add_preemptions(rows),
            Rows::Wait(rows) => self.sleeps.add(rows),
            _ => {}
        }
    }
}

impl Evidence {
    /// Starts with what the manifest says. `closed` is `None` for a recording that was not
    /// closed; `problems` are the reader's own words about damaged or missing parts.
    pub fn new(
        header: Header,
        coverage: Vec<Coverage>,
        loss: Vec<Loss>,
        cost: Option<Cost>,
        closed: Option<Close>,
        problems: Vec<String>,
    ) -> Self {
        Self {
            latest_ns: header.started_ns,
            header,
            coverage,
            loss,
            cost,
            closed,
            problems,
            left_out: Vec::new(),
            windows: None,
            sockets: Vec::new(),
            span: (0, u64::MAX),
            snap: SnapSettings::default(),
            any_events: false,
            connections: ConnectionMap::default(),
            listeners: BTreeMap::new(),
            calls: CallTable::default(),
            no_calls: CallDigest::default(),
            only: None,
            threads: ThreadTable::default(),
            blocked: BlockedTable::default(),
            answers: AnswerTable::default(),
            sleeps: TimerSleeps::default(),
            processes: crate::rows::processes::Processes::default(),
            cpu: CpuTimes::default(),
            system_calls: SystemCallTable::default(),
            drops: DropRows::default(),
            identities: Connections::default(),
        }
    }

    /// Judges only the time from `from_ns` to `to_ns` (`CLOCK_MONOTONIC`). To be called before
    /// rows are added.
    pub fn limit_to(mut self, from_ns: u64, to_ns: u64) -> Self {
        self.span = (from_ns, to_ns);
        self
    }

    /// Judges only the `most` connections that lasted longest: each takes about 7 kB. To be called
    /// before rows are added.
    pub fn keep_longest(mut self, lives: &Lifespans, most: usize) -> Self {
        self.only = Some(lives.find_longest(most));
        self
    }

    /// Returns how many connections are not judged.
    pub(crate) fn count_unjudged(&self) -> u64 {
        self.only.as_ref().map_or(0, |only| only.others)
    }

    /// Returns whether the report judges this connection: all, or only some are.
    fn is_judged(&self, conn: u64) -> bool {
        is_judged(&self.only, conn)
    }

    /// Leaves out calls and samples of threads if they were recorded in windows only (`--budget`). Call it before rows are
    /// added.
    pub fn with_windows(mut self, windows: Option<WindowSums>) -> Self {
        self.windows = windows;
        self
    }

    /// Uses these settings to estimate the shares of delayed ACKs.
    pub fn with_snap(mut self, settings: SnapSettings) -> Self {
        self.snap = settings;
        self
    }

    /// Adds a problem that the reader found, such as a damaged file, in its words.
    pub fn add_problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Adds rows that the reader left out because of damage.
    pub fn add_left_out(&mut self, left_out: OmittedRows) {
        self.left_out.push(left_out);
    }

    /// Adds the counts of sockets that the recorded processes had open.
    pub fn add_sockets(&mut self, sockets: &[SocketKind]) {
        self.sockets.extend_from_slice(sockets);
    }

    /// Returns the digest of a connection; makes an empty one for a new connection.
    pub(crate) fn digest_mut(&mut self, conn: u64) -> &mut ConnectionDigest {
        let position = self.connections.position(conn);
        self.connections.at(position)
    }

    /// Moves the end of the recording to the last time of these rows.
    fn reached(&mut self, range: Option<(u64, u64)>) {
        if let Some((_, last_ns)) = range {
            self.latest_ns = self.latest_ns.max(last_ns);
        }
    }

    /// Adds rows of table `connections`.
    pub fn add_connections(&mut self, rows: &Connections) {
        self.reached(rows.time_range_ns());
        for index in 0..rows.len() {
            if self.is_judged(rows.conn[index]) {
                self.identities.push(rows.row(index));
            }
        }
    }

    /// Adds rows of table `listeners`, in the order of time for each socket.
    pub fn add_listeners(&mut self, rows: &Listeners) {
        self.reached(rows.time_range_ns());
        for index in 0..rows.len() {
            let row = rows.row(index);
            let gathered = self.listeners.entry(row.conn).or_default();
            gathered.identity = Some(crate::rows::listeners::identity(&row));
            let digest = gathered.listener.get_or_insert_default();
            digest.add(&row, self.span);
        }
    }

    /// Joins rows that need others, such as drops and retransmissions; call it after the last row.
    pub(crate) fn finish(&mut self) {
        self.threads.finish();
        self.blocked.finish();
        self.answers.finish();
        let folded = table::fold_connections(std::mem::take(&mut self.identities));
        for index in 0..folded.len() {
            self.digest_mut(folded.conn[index]).identity = Some(folded.row(index));
        }
        self.distribute_drops(&folded);
        listeners::compare(self.listeners.values_mut().filter_map(|gathered| {
            let netns = gathered.identity.as_ref()?.netns;
            Some((netns, gathered.listener.as_mut()?))
        }));
    }

    /// Adds rows of table `tcp_samples`, in the order of time for each connection.
    pub fn add_samples(&mut self, rows: &TcpSamples) {
        self.reached(rows.time_range_ns());
        let span = self.span;
        for index in 0..rows.len() {
            if self.is_judged(rows.conn[index]) {
                let gathered = self.digest_mut(rows.conn[index]);
                gathered.samples.add(rows.row(index), span);
            }
        }
    }

    /// Adds rows of table `tcp_stages`, in the order of time for each connection.
    pub fn add_stages(&mut self, rows: &TcpStages) {
        self.reached(rows.time_range_ns());
        let span = self.span;
        for index in 0..rows.len() {
            if self.is_judged(rows.conn[index]) {
                let gathered = self.digest_mut(rows.conn[index]);
                gathered.ledger.add(rows.row(index), span);
            }
        }
    }

    /// Adds rows of table `tcp_events`, in the order of time for each connection.
    pub fn add_events(&mut self, rows: &TcpEvents) {
        self.reached(rows.time_range_ns());
        self.any_events |= !rows.is_empty();
        let span = self.span;
        for index in 0..rows.len() {
            let is_within = (span.0..=span.1).contains(&rows.time_ns[index]);
            if is_within && self.is_judged(rows.conn[index]) {
                self.digest_mut(rows.conn[index])
                    .events
                    .add(&rows.row(index));
            }
        }
    }

    /// Adds rows of table `calls`, each thread's in the order of time.
    pub fn add_calls(&mut self, rows: &Calls) {
        self.reached(rows.time_range_ns());
        let judges = |conn| is_judged(&self.only, conn);
        self.calls.add(rows, self.span, judges);
        self.threads.add(rows, self.span, judges);
        self.system_calls.add_calls(rows, self.span);
    }

    /// Adds rows of table `zerocopy_sends`, in the order of time.
    pub fn add_zerocopy_sends(&mut self, rows: &ZerocopySends) {
        let span = self.span;
        for index in 0..rows.len() {
            if self.is_judged(rows.conn[index]) {
                let gathered = self.digest_mut(rows.conn[index]);
                gathered.zerocopy.add(&rows.row(index), span);
            }
        }
    }

    /// Returns whether rows of table `calls` are wanted once more, by [`Self::add_calls_again`]: there are
    /// connections on which short segments waited and ACKs were delayed, or on which a cork held data. To be asked after the
    /// last row.
    pub fn wants_calls_again(&mut self) -> bool {
        if self.header.is_capture() {
            return false;
        }
        for conn in self.connections.conns() {
            let gathered = self.connections.get(conn);
            let ledger = gathered.and_then(|gathered| gathered.ledger.last.as_ref());
            if ledger.is_some_and(|ledger| ledger.nagle_holds > 0 && ledger.delayed_acks > 0) {
                self.blocked.count_calls_of(conn);
            }
            if ledger.is_some_and(|ledger| ledger.cork_ns > 0) {
                self.answers.add_answers_of(conn);
            }
        }
        !self.blocked.is_empty() || !self.answers.is_empty()
    }

    /// Adds the same rows of table `calls` as [`Self::add_calls`], for the few connections with calls that
    /// need a closer look: of all others, it would cost as much as the rest of a row.
    pub fn add_calls_again(&mut self, rows: &Calls) {
        self.blocked.add(rows, self.span);
        self.answers.add(rows, self.span);
    }

    /// Adds rows of table `processes`.
    pub fn add_processes(&mut self, rows: &Processes) {
        for index in 0..rows.len() {
            self.processes.add(rows.row(index));
        }
    }

    /// Adds rows of table `process_samples`, in the order of time for each process.
    pub fn add_process_samples(&mut self, rows: &ProcessSamples) {
        for index in 0..rows.len() {
            self.cpu.add_process(&rows.row(index));
        }
    }

    /// Adds rows of table `cpu_samples`, in the order of time for each CPU.
    pub fn add_cpu_samples(&mut self, rows: &CpuSamples) {
        for index in 0..rows.len() {
            self.cpu.add_cpu(&rows.row(index));
        }
    }

    /// Adds rows of table `stacks`, before those of `symbols`.
    pub fn add_frames(&mut self, rows: &StackFrames) {
        self.system_calls.add_frames(rows);
    }

    /// Adds rows of table `symbols`, before those of `on_cpu_samples`.
    pub fn add_symbols(&mut self, rows: &Symbols) {
        self.system_calls.add_symbols(rows);
    }

    /// Adds rows of table `preemptions`.
    pub fn add_preemptions(&mut self, rows: &Preemptions) {
        for index in 0..rows.len() {
            self.cpu.add_preemption(&rows.row(index));
        }
    }

    /// Adds rows of table `on_cpu_samples`.
    pub fn add_on_cpu_samples(&mut self, rows: &OnCpuSamples) {
        self.system_calls.add_samples(rows, self.span);
    }

    /// Adds rows of table `drops`.
    pub fn add_drops(&mut self, rows: &PacketDrops) {
        for index in 0..rows.len() {
            let is_within = (self.span.0..=self.span.1).contains(&rows.time_ns[index]);
            if is_within {
                self.drops.add(rows.row(index));
            }
        }
    }

    /// Adds rows of table `drop_counts`, in the order of time.
    pub fn add_drop_counts(&mut self, rows: &DropCounts) {
        for index in 0..rows.len() {
            self.drops.add_count(&rows.row(index));
        }
    }

    /// Gives each drop to its connection, and finds the retransmissions that answer one.
    fn distribute_drops(&mut self, identities: &Connections) {
        let identities: Vec<Connection> = (0..identities.len())
            .map(|index| identities.row(index))
            .collect();
        let mut drops = std::mem::take(&mut self.drops);
        let mut concerned = BTreeSet::new();
        drops.distribute_rows(identities.iter(), |conn, add| {
            add(&mut self.digest_mut(conn).drops);
            concerned.insert(conn);
        });
        for conn in concerned {
            let gathered = self.digest_mut(conn);
            let ConnectionDigest { drops, events, .. } = gathered;
            drops.join(events);
        }
        self.drops = drops;
    }

    /// Returns the calls of a connection: empty if it made none, `None` if its calls were not
    /// logged. `logged`: those of the chosen sockets were; of their peers they never are.
    pub(crate) fn calls_of(&self, conn: u64, logged: bool) -> Option<&CallDigest> {
        let identity = |gathered: &ConnectionDigest| gathered.identity.as_ref().map(|it| it.chosen);
        let chosen = self.connections.get(conn).and_then(identity);
        let logged = logged && chosen != Some(Chosen::Peer);
        self.calls.get(conn).or(logged.then_some(&self.no_calls))
    }
}
