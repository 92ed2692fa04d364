//! Packs tables of a recording as columns for a browser; a page needs few columns.
//!
//! A page that would be too large has only a part of its long tables ([`Thinning`]), and says so.

use arrow_array::RecordBatch;
use serde::Serialize;
use table::tables::{
    Activity, ActivityWindow, ClockPair, Connection, Counter, Process, ReceivedMessage,
    SentMessage, TcpEvent, TcpSample, TcpStage, Wait,
};
use table::{Columns, Field, Recording, Table};

use diagnose::messages::breakdown::BreakdownSource;
use diagnose::tail::report::TailReport;
use diagnose::waits::ObjectTitles;

use super::calls::BlockedCalls;
use super::causes;
use super::column::{CellKind, ColumnCells, ColumnHead, DeltaBase, DerivedColumn};
use super::encode::{RealColumn, TableEncoder};
use super::life::{LIFE_FIELDS, MessageLife};
use super::steps::{self, StepHead, StepLists};
use super::thin::Thinning;

/// Columns of a page, with their encodings.
type ColumnChoices = &'static [(&'static str, CellKind)];

/// Keeps times as differences from this base.
const fn delta_from(near: DeltaBase) -> CellKind {
    CellKind::Moment(near)
}

/// Keeps times as differences from another column.
const fn delta_after(column: &'static str) -> CellKind {
    CellKind::Moment(DeltaBase::Column(column))
}

const WAITS: ColumnChoices = &[
    ("start_ns", delta_from(DeltaBase::Previous)),
    ("woken_ns", delta_after("start_ns")),
    ("end_ns", delta_after("start_ns")),
    ("tid", CellKind::Word),
    ("pid", CellKind::Word),
    ("kind", CellKind::Word),
    ("object", CellKind::Word),
    ("conn", CellKind::Word),
    ("ready_conn", CellKind::Word),
    ("fd", CellKind::Number),
    ("syscall", CellKind::Number),
    ("waker", CellKind::Word),
    ("waker_tid", CellKind::Word),
    ("cpu", CellKind::Number),
];

/// Column that is added to waits.
const OBJECT_NAME: Field = Field {
    name: "object_name",
    doc: "What it was for, as `whylat report --by object` names it.",
    unit: "-",
    null: "",
};

const RECEIVED: ColumnChoices = &[
    ("conn", CellKind::Word),
    ("bytes", CellKind::Number),
    ("offset_end", CellKind::Number),
    ("receive_cpu", CellKind::Number),
    ("cpu", CellKind::Number),
    ("tid", CellKind::Word),
    ("pid", CellKind::Word),
];

const SENT: ColumnChoices = &[
    ("conn", CellKind::Word),
    ("bytes", CellKind::Number),
    ("offset_end", CellKind::Number),
    ("resent_segments", CellKind::Number),
    ("driver_cpu", CellKind::Number),
    ("cpu", CellKind::Number),
    ("tid", CellKind::Word),
    ("pid", CellKind::Word),
];

const TCP_SAMPLES: ColumnChoices = &[
    ("time_ns", delta_from(DeltaBase::Previous)),
    ("conn", CellKind::Word),
    ("srtt_us", CellKind::Number),
    ("min_rtt_us", CellKind::Number),
    ("rto_us", CellKind::Number),
    ("cwnd", CellKind::Number),
    ("ssthresh", CellKind::Number),
    ("mss_bytes", CellKind::Number),
    ("unacked", CellKind::Number),
    ("sacked", CellKind::Number),
    ("lost", CellKind::Number),
    ("retrans", CellKind::Number),
    ("snd_wnd_bytes", CellKind::Number),
    ("rcv_wnd_bytes", CellKind::Number),
    ("send_queue_bytes", CellKind::Number),
    ("receive_queue_bytes", CellKind::Number),
    ("notsent_bytes", CellKind::Number),
    ("delivery_rate_bytes_per_s", CellKind::Number),
];

const TCP_EVENTS: ColumnChoices = &[
    ("time_ns", delta_from(DeltaBase::Previous)),
    ("conn", CellKind::Word),
    ("kind", CellKind::Word),
    ("old", CellKind::Number),
    ("new", CellKind::Number),
    ("segments", CellKind::Number),
    ("in_flight_bytes", CellKind::Number),
];

const TCP_STAGES: ColumnChoices = &[
    ("time_ns", delta_from(DeltaBase::Previous)),
    ("since_ns", delta_from(DeltaBase::Previous)),
    ("conn", CellKind::Word),
    ("retransmit_timeout_ns", CellKind::Number),
    ("tail_loss_ns", CellKind::Number),
    ("receiver_window_ns", CellKind::Number),
    ("fast_retransmit_ns", CellKind::Number),
    ("cwnd_startup_ns", CellKind::Number),
    ("cwnd_loss_ns", CellKind::Number),
    ("cwnd_cwr_ns", CellKind::Number),
    ("cwnd_probing_ns", CellKind::Number),
    ("pacing_ns", CellKind::Number),
    ("local_queue_ns", CellKind::Number),
    ("cork_ns", CellKind::Number),
    ("nagle_ns", CellKind::Number),
    ("delayed_ack_ns", CellKind::Number),
    ("send_buffer_ns", CellKind::Number),
    ("in_flight_ns", CellKind::Number),
    ("sender_app_ns", CellKind::Number),
    ("unknown_ns", CellKind::Number),
];

const ACTIVITY: ColumnChoices = &[
    ("begin_ns", delta_from(DeltaBase::Previous)),
    ("end_ns", delta_after("begin_ns")),
    ("depth", CellKind::Number),
    ("kind", CellKind::Word),
    ("name", CellKind::Word),
    ("pid", CellKind::Word),
    ("tid", CellKind::Word),
    ("cpu", CellKind::Word),
    ("begin_seen", CellKind::Word),
    ("end_seen", CellKind::Word),
];

const ACTIVITY_WINDOWS: ColumnChoices = &[
    ("begin_ns", delta_from(DeltaBase::Previous)),
    ("end_ns", delta_after("begin_ns")),
    ("why", CellKind::Word),
    ("conn", CellKind::Word),
    ("is_send", CellKind::Word),
    ("offset_end", CellKind::Number),
];

const COUNTERS: ColumnChoices = &[
    ("time_ns", delta_from(DeltaBase::Previous)),
    ("source", CellKind::Word),
    ("pid", CellKind::Word),
    ("tid", CellKind::Word),
    ("domain", CellKind::Word),
    ("name", CellKind::Word),
    ("counter", CellKind::Word),
    ("kind", CellKind::Word),
    ("value_u64", CellKind::Number),
    ("value_s64", CellKind::Number),
    ("value_f64", CellKind::Number),
    ("unit", CellKind::Word),
];

const TASKS: ColumnChoices = &[
    ("begin_ns", delta_from(DeltaBase::Previous)),
    ("end_ns", delta_after("begin_ns")),
    ("source", CellKind::Word),
    ("kind", CellKind::Word),
    ("domain", CellKind::Word),
    ("name", CellKind::Word),
    ("pid", CellKind::Word),
    ("tid", CellKind::Word),
];

const PROCESSES: ColumnChoices = &[
    ("pid", CellKind::Word),
    ("comm", CellKind::Word),
    ("exe", CellKind::Word),
];

const CONNECTIONS: ColumnChoices = &[
    ("conn", CellKind::Word),
    ("local", CellKind::Word),
    ("remote", CellKind::Word),
    ("pid", CellKind::Word),
];

/// Tables that a large page thins to every nth row: those that grow with the work. A sample
/// of a ledger, of growing counters or of names would be wrong, and of windows useless.
const THINNED: [&str; 7] = [
    "waits",
    "tcp_events",
    "received_messages",
    "sent_messages",
    "activity",
    "tasks",
    "tcp_samples",
];

/// Header of a table.
#[derive(Debug, Clone, Serialize)]
pub struct TableHead {
    /// Its name.
    name: &'static str,
    /// Description of a row.
    doc: &'static str,
    /// Rows in the page.
    rows: usize,
    /// Rows in the recording.
    all_rows: usize,
    columns: Vec<ColumnHead>,
}

/// Tables as bytes, with their headers.
#[derive(Debug, Default)]
pub struct PackedTables {
    pub heads: Vec<TableHead>,
    /// Lists of steps of messages, by number.
    pub step_lists: Vec<Vec<StepHead>>,
    pub bytes: Vec<u8>,
}

/// Packs the rows of the long tables that `thinning` keeps, and all others. `tail`: the explanation of slow messages,
/// if there is one.
///
/// This reads the rows once more than the answers did: which rows are packed is known only after the slow messages are
/// explained and, for a page that is too large, after all of it was packed. To keep the rows meanwhile would take as much
/// memory as the whole recording; here it is that of the packed columns, and of messages and spans.
pub fn pack(recording: &Recording, tail: Option<&TailReport>, thinning: &Thinning) -> PackedTables {
    let mut packer = Packer {
        started_ns: recording.header().started_ns,
        thinning,
        breakdowns: BreakdownSource::new(&recording.read_all::<ClockPair>()),
        step_lists: StepLists::default(),
        packed: PackedTables::default(),
    };
    packer.add::<Process>(recording, PROCESSES);
    packer.add::<Connection>(recording, CONNECTIONS);
    packer.add::<TcpSample>(recording, TCP_SAMPLES);
    packer.add::<TcpEvent>(recording, TCP_EVENTS);
    packer.add::<TcpStage>(recording, TCP_STAGES);
    packer.add_waits(recording);
    packer.add::<Counter>(recording, COUNTERS);
    packer.add::<table::tables::Task>(recording, TASKS);
    packer.add_messages::<ReceivedMessage>(recording, RECEIVED);
    packer.add_messages::<SentMessage>(recording, SENT);
    packer.add_activity(recording, tail);
    packer.add::<ActivityWindow>(recording, ACTIVITY_WINDOWS);
    PackedTables {
        step_lists: packer.step_lists.into_heads(),
        ..packer.packed
    }
}

struct Packer<'a> {
    started_ns: u64,
    thinning: &'a Thinning,
    breakdowns: BreakdownSource,
    step_lists: StepLists,
    packed: PackedTables,
}

impl Packer<'_> {
    /// Packs the rows of a table, with these columns.
    fn add<T: Table>(&mut self, recording: &Recording, picks: ColumnChoices) {
        self.add_batches::<T>(recording, picks, |_| Vec::new());
    }

    /// Packs a table batch by batch. `derive` returns the columns of a batch beside those of the table.
    fn add_batches<T: Table>(
        &mut self,
        recording: &Recording,
        picks: ColumnChoices,
        mut derive: impl FnMut(&T::Columns) -> Vec<DerivedColumn>,
    ) {
        let mut reals = Vec::new();
        loop {
            let mut table = TableEncoder::new(self.started_ns, &reals);
            match self.encode_batches::<T>(&mut table, recording, picks, &mut derive) {
                Ok(all_rows) => return self.put::<T>(table, all_rows),
                Err(real) => reals.push(real),
            }
        }
    }

    /// Encodes the rows of a table, and returns how many there are with those that are left out.
    fn encode_batches<T: Table>(
        &self,
        table: &mut TableEncoder<'_>,
        recording: &Recording,
        picks: ColumnChoices,
        mut derive: impl FnMut(&T::Columns) -> Vec<DerivedColumn>,
    ) -> Result<usize, RealColumn> {
        let mut all = 0;
        // a table without rows has columns, too
        let empty = std::iter::once(T::Columns::default());
        for columns in empty.chain(recording.batches::<T>()) {
            let rows = self.rows::<T>(all, columns.len(), |_| false);
            all += columns.len();
            let derived = derive(&columns).into_iter();
            let derived = derived.map(|(field, keep, cells)| (field, keep, cells.select(&rows)));
            let batch = columns.into_batch();
            table.push(pick_columns::<T>(&batch, &rows, picks).chain(derived))?;
        }
        Ok(all)
    }

    /// Ends a table, and adds its description; `all_rows` counts those left out, too.
    fn put<T: Table>(&mut self, table: TableEncoder<'_>, all_rows: usize) {
        self.packed.heads.push(TableHead {
            name: T::NAME,
            doc: T::DOC,
            rows: table.rows(),
            all_rows,
            columns: table.finish(&mut self.packed.bytes),
        });
    }

    /// Returns the rows of a batch that the page keeps, the first being row `begin` of the table. `is_held`: rows that are
    /// always kept.
    fn rows<T: Table>(
        &self,
        begin: usize,
        len: usize,
        is_held: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let is_thinned = self.thinning.nth > 1 && THINNED.contains(&T::NAME);
        let rows = 0..len;
        rows.filter(|row| !is_thinned || self.thinning.keeps_row(begin + row) || is_held(*row))
            .collect()
    }

    /// Packs spans, all of the explained messages; then which of them explain these.
    fn add_activity(&mut self, recording: &Recording, tail: Option<&TailReport>) {
        let spans = recording.read_all::<Activity>();
        let rows = self.rows::<Activity>(0, spans.len(), |row| {
            let (begin_ns, end_ns) = (spans.begin_ns[row], spans.end_ns[row]);
            self.thinning.holds_time(begin_ns, end_ns)
        });
        let explaining = causes::columns(tail, &spans, &rows);
        let none = std::iter::empty();
        self.add_table::<Activity>(&spans.into_batch(), &rows, ACTIVITY, none);
        let all = explaining.first().map_or(0, |(.., cells)| cells.len());
        let columns = self
            .encode(explaining.into_iter())
            .finish(&mut self.packed.bytes);
        self.packed.heads.push(TableHead {
            name: causes::NAME,
            doc: causes::DOC,
            rows: all,
            all_rows: all,
            columns,
        });
    }

    /// Packs waits with their objects.
    fn add_waits(&mut self, recording: &Recording) {
        let names = diagnose::recording::read_names(recording);
        let mut titles = ObjectTitles::new(&names);
        let calls = BlockedCalls::read(recording);
        self.add_batches::<Wait>(recording, WAITS, |rows| {
            let titles = titles.wait_titles(rows).into_iter().map(Some).collect();
            let title = (&OBJECT_NAME, CellKind::Word, ColumnCells::Word(titles));
            let [bytes, sends] = calls.columns(rows);
            vec![title, bytes, sends]
        });
    }

    /// Packs messages with their steps and their times on this host.
    fn add_messages<T: MessageLife>(&mut self, recording: &Recording, picks: ColumnChoices) {
        let rows = recording.read_all::<T>();
        let held = self.rows::<T>(0, rows.len(), |row| {
            let (conn, direction, offset_end) = T::id(&rows, row);
            self.thinning.holds_message(conn, direction, offset_end)
        });
        let messages = held.iter().map(|row| T::message(&rows, *row));
        let steps = steps::columns(self.step_lists.all(messages, &self.breakdowns));
        let lives: Vec<_> = held.iter().map(|row| T::life(&rows, *row)).collect();
        let began = lives.iter().map(|life| life.map(|life| life.0)).collect();
        let latency = lives.iter().map(|life| life.map(|life| life.1)).collect();
        let is_sample = |row: &usize| Some(i64::from(self.thinning.keeps_row(*row)));
        let is_sample = held.iter().map(is_sample).collect();
        let [begin, length, sample] = &LIFE_FIELDS;
        let derived = steps.chain([
            (begin, delta_from(steps::FIRST), ColumnCells::Whole(began)),
            (length, CellKind::Number, ColumnCells::Whole(latency)),
            (sample, CellKind::Number, ColumnCells::Whole(is_sample)),
        ]);
        self.add_table::<T>(&rows.into_batch(), &held, picks, derived);
    }

    /// Packs these rows of a batch, with columns that are computed.
    fn add_table<T: Table>(
        &mut self,
        batch: &RecordBatch,
        rows: &[usize],
        picks: ColumnChoices,
        derived: impl Iterator<Item = DerivedColumn>,
    ) {
        let table = self.encode(pick_columns::<T>(batch, rows, picks).chain(derived));
        self.put::<T>(table, batch.num_rows());
    }

    /// Encodes a table with all its rows at hand.
    fn encode(&self, columns: impl Iterator<Item = DerivedColumn>) -> TableEncoder<'static> {
        let mut table = TableEncoder::new(self.started_ns, &[]);
        let pushed = table.push(columns);
        pushed.expect("the first rows of a table decide what its columns are");
        table
    }
}

/// Returns the columns of a page, with these rows of a batch.
fn pick_columns<'a, T: Table>(
    batch: &'a RecordBatch,
    rows: &'a [usize],
    picks: ColumnChoices,
) -> impl Iterator<Item = DerivedColumn> + 'a {
    picks.iter().map(|(name, keep)| {
        let field = T::FIELDS.iter().find(|field| field.name == *name);
        let array = batch.column_by_name(name);
        let (field, array) = field.zip(array).expect("a view picks declared columns");
        let cells = ColumnCells::from_array(array, *keep).select(rows);
        (field, *keep, cells)
    })
}
