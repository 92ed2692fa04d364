//! One pass over a recording for all analyses that are wanted. Each table is read once, and each batch of rows goes to
//! everyone who takes it.
//!
//! What is read a second time, because the first reading decides which rows matter:
//!
//! - the listening sockets: their rows are names and readings;
//! - the connections, their samples and stages, if there are more connections than are judged: the first reading finds
//!   the longest;
//! - the calls, if short segments waited on a connection while its ACKs were delayed: only the calls of such connections
//!   need a closer look;
//! - the waits, with calls and counters beside them, if a group has slow waits: which are slow is known after the last;
//! - for requests, which rules judge: the calls, waits and preemptions side by side in the order of time, after the samples
//!   and stages of their connections.

use std::rc::Rc;

use table::manifest::Header;
use table::tables::{Call, Connection, Counter, Wait};
use table::{Recording, Rows, TableConsumer, TableId};

use super::options::DiagnosisOptions;
use crate::connections::gather::Evidence;
use crate::connections::gather::longest::Lifespans;
use crate::messages::MessageTable;
use crate::messages::tail::TailTable;
use crate::requests::digests::DigestSet;
use crate::rows::windows::WindowTimes;
use crate::waits::join::JoinSource;
use crate::waits::{Grouping, NameTable, WaitFilter, WaitTable};

/// Tables that name what others are about: all of these come first.
pub(super) const NAMING: &[TableId] = &[
    TableId::Connection,
    TableId::Listener,
    TableId::UdpSocket,
    TableId::UnixSocket,
    TableId::UdpFlow,
    TableId::Process,
    TableId::StackFrame,
    TableId::Symbol,
    TableId::Task,
    TableId::WaitedFile,
];

/// All other tables that an analysis takes. Clocks come before the messages with stamps to convert, and messages before
/// what CPUs did while they were under way.
pub(super) const NAMED: &[TableId] = &[
    TableId::ProcessSample,
    TableId::CpuSample,
    TableId::TcpSample,
    TableId::TcpStage,
    TableId::TcpEvent,
    TableId::PacketDrop,
    TableId::DropCount,
    TableId::Call,
    TableId::ZerocopySend,
    TableId::OnCpuSample,
    TableId::FailedConnect,
    TableId::DnsWait,
    TableId::Preemption,
    TableId::ClockPair,
    TableId::ReceivedMessage,
    TableId::SentMessage,
    TableId::Wait,
    TableId::Spin,
    TableId::Activity,
];

/// Wanted analyses beside that of the connections.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AnalysisSelection {
    /// Waits by object, with the number of listed groups.
    pub(super) waits: Option<usize>,
    pub(super) messages: bool,
    pub(super) tail: bool,
    /// Digests for rules on requests.
    pub(super) requests: bool,
}

/// Analyses with all of their rows.
#[derive(Debug)]
pub(super) struct AnalysisSet {
    pub(super) names: Rc<NameTable>,
    pub(super) connections: Evidence,
    pub(super) digests: Option<DigestSet>,
    pub(super) waits: Option<WaitTable>,
    pub(super) messages: Option<MessageTable>,
    pub(super) tail: Option<TailTable>,
}

/// Reads the tables of a recording for all wanted analyses.
pub(super) fn read(
    recording: &Recording,
    judging: DiagnosisOptions,
    wanted: AnalysisSelection,
) -> AnalysisSet {
    let header = || recording.header().clone();
    let mut connections = evidence(recording, judging);
    let mut names = wanted.name_table(recording.header());
    recording.feed(NAMING, &mut [&mut names, &mut connections]);
    let names = names.map(NameTable::complete).unwrap_or_default();
    let waits = |_| {
        let all = WaitFilter::default();
        WaitTable::new(header(), Rc::clone(&names), Grouping::Object, all)
    };
    let messages = || MessageTable::new(header(), Rc::clone(&names));
    let tail = || TailTable::new(header(), Rc::clone(&names));
    let mut filled = AnalysisSet {
        digests: wanted
            .requests
            .then(|| DigestSet::new(recording.header(), &names)),
        names: Rc::clone(&names),
        connections,
        waits: wanted.waits.map(waits),
        messages: wanted.messages.then(messages),
        tail: wanted.tail.then(tail),
    };
    filled.feed_rows(recording);
    if let Some((waits, limit)) = filled.waits.as_mut().zip(wanted.waits) {
        join(waits, recording, limit);
    }
    filled
}

impl AnalysisSelection {
    /// Returns names of connections and processes, if an analysis needs them before its rows.
    fn name_table(self, header: &Header) -> Option<NameTable> {
        let names = || NameTable::from_header(header);
        match self.waits.is_some() || self.requests {
            true => Some(names().with_stacks()),
            false => (self.messages || self.tail).then(names),
        }
    }
}

impl AnalysisSet {
    /// Reads each wanted table once, and hands its rows to all analyses.
    fn feed_rows(&mut self, recording: &Recording) {
        let Self {
            names: _,
            connections,
            digests,
            waits,
            messages,
            tail,
        } = self;
        // names come first, and digests are made with them: so these readings come once more
        recording.feed(&[TableId::Listener], &mut [&mut *digests]);
        recording.feed(NAMED, &mut [connections, digests, waits, messages, tail]);
        if connections.wants_calls_again() {
            let mut again = CallRereader(connections);
            recording.feed(&[TableId::Call], &mut [&mut again]);
        }
    }
}

/// Evidence that takes the calls once more.
struct CallRereader<'a>(&'a mut Evidence);

impl TableConsumer for CallRereader<'_> {
    fn is_reader_of(&self, table: TableId) -> bool {
        table == TableId::Call
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        if let Rows::Call(rows) = rows {
            self.0.add_calls_again(rows);
        }
    }
}

/// Makes the evidence before any row; of too many connections it keeps the longest.
fn evidence(recording: &Recording, judging: DiagnosisOptions) -> Evidence {
    let mut evidence = Evidence::new(
        recording.header().clone(),
        recording.coverage().to_vec(),
        recording.loss().to_vec(),
        recording.cost().cloned(),
        recording.closed().cloned(),
        Vec::new(),
    )
    .with_snap(judging.snap)
    .with_windows(WindowTimes::read(recording).sums());
    evidence.add_sockets(recording.sockets());
    // A connection has a row at least, but for what was lost.
    if recording.rows::<Connection>() <= judging.max_connections as u64 {
        return evidence;
    }
    let mut lives = Lifespans::default();
    recording.feed(TableId::ALL, &mut [&mut lives]);
    evidence.keep_longest(&lives, judging.max_connections)
}

/// Finds the calls before the slow waits that a report with this limit lists. Reads three tables
/// side by side, so that none runs ahead of the others.
pub(super) fn join(waits: &mut WaitTable, recording: &Recording, limit: usize) {
    // between windows other calls may have gone before
    if WindowTimes::read(recording).sums().is_some() {
        return;
    }
    let Some(mut join) = waits.join(limit) else {
        return;
    };
    let mut counters = recording.batches::<Counter>();
    let mut waits = recording.batches::<Wait>();
    let mut calls = recording.batches::<Call>();
    while let Some(source) = join.lacks() {
        match source {
            JoinSource::Counters => join.add_counters(counters.next().as_ref()),
            JoinSource::Waits => join.add_waits(waits.next().as_ref()),
            JoinSource::Calls => join.add_calls(calls.next().as_ref()),
        }
    }
    join.finish();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table in no list would never be read.
    #[test]
    fn every_table_that_an_analysis_takes_is_read_once() {
        let header: table::manifest::Header = serde_json::from_value(serde_json::json!({
            "format": 1, "whylat": "", "host": "", "boot_id": "", "kernel": "", "cpus": 1,
            "clocksource": "", "detail": "", "arguments": [], "started_ns": 0,
            "started_realtime_ns": 0, "jiffy_ns": null,
        }))
        .expect("a header");
        let names = Rc::<NameTable>::default();
        let (all, id) = (WaitFilter::default(), "1:r1".parse().expect("an id"));
        let none = || (Vec::new(), Vec::new());
        let evidence = Evidence::new(header.clone(), none().0, none().1, None, None, Vec::new());
        let waits = WaitTable::new(header.clone(), Rc::clone(&names), Grouping::Object, all);
        let messages = MessageTable::new(header.clone(), Rc::clone(&names)).looking_for(id);
        let digests = DigestSet::new(&header, &names);
        let tail = TailTable::new(header, names);
        let analyses: [&dyn TableConsumer; 5] = [&evidence, &digests, &waits, &messages, &tail];
        let all_names = NameTable::default().with_stacks().with_spans();
        let is_named = |table: &TableId| all_names.is_reader_of(*table);
        for table in TableId::ALL {
            let lists = [NAMING, NAMED].concat();
            let listed = lists.iter().filter(|it| *it == table).count();
            let is_wanted = is_named(table) || analyses.iter().any(|it| it.is_reader_of(*table));
            assert_eq!(listed, usize::from(is_wanted), "{table:?}");
            assert_eq!(NAMING.contains(table), is_named(table), "{table:?}");
        }
    }
}
