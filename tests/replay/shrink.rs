//! A whole recording in, a small one out that says the same: only the tables and rows that a judgement
//! needs, one file a table, compressed as far as it goes, without names of the machine it was made on.

use std::fs;
use std::path::Path;

use arrow_schema::DataType;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use serde_json::Value;
use table::declare::RecordBatch;
use table::manifest::{Header, Line, ProbeState, Segment};
use table::tables::{Activity, ActivityWindow, Call, Process, StackFrame, Symbol};
use table::{Columns, Recording, Table, WriteOptions, Writer, for_each_table};

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $($table:ident)+;)+) => {
        $($(#[$doc])* pub const $name: &[&str] = &[$(stringify!($table)),+];)+
    };
}

tables! {
    /// What connections are judged by.
    CONNECTIONS: calls connections cpu_samples listeners process_samples processes tcp_events
        tcp_samples tcp_stages;
    /// The same, and what threads waited for and programs said of themselves.
    WAITS: calls connections counters cpu_samples listeners process_samples processes spins tasks
        tcp_events tcp_samples tcp_stages waits;
    /// The same, and from where.
    STACKS: calls connections counters cpu_samples listeners process_samples processes spins
        stacks symbols tasks tcp_events tcp_samples tcp_stages waits;
    /// What connections are judged by, and their messages.
    MESSAGES: calls clock_pairs connections cpu_samples listeners process_samples processes
        received_messages sent_messages tcp_events tcp_samples tcp_stages udp_sockets;
    /// Messages that were received, and what CPUs did meanwhile.
    ACTIVITY: activity activity_windows connections processes received_messages udp_sockets;
}

/// Highest level of zstd.
const ZSTD_LEVEL: i32 = 22;

/// What must not be in a recording that is kept.
const FOREIGN: &[&str] = &["/home", "/root", "/tmp", "/work", "/var/tmp"];

/// Which socket calls are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// All.
    All,
    /// Without receive calls that waited for nothing but data: of a bulk transfer they are the most.
    Eventful,
}

/// Writes what `tables` hold of the recording `from` to `to`.
pub fn shrink(from: &Path, to: &Path, tables: &[&str], calls: Calls) -> Result<(), String> {
    let whole = Recording::open(from).map_err(|why| why.to_string())?;
    let mut header = whole.header().clone();
    redact_header(&mut header);
    let mut writer =
        Writer::create(to, &header, WriteOptions::default()).map_err(|why| why.to_string())?;
    let limits = Limits {
        calls,
        windows: windows_of_received(&whole),
    };
    macro_rules! copy_all {
        ($($row:ty),+ $(,)?) => {
            $(if tables.contains(&<$row as Table>::NAME) {
                let rows = small::<$row>(&whole, &limits);
                if let Some(segment) = write_table::<$row>(to, rows)? {
                    writer.line(&Line::Merged(segment)).map_err(|why| why.to_string())?;
                }
            })+
        };
    }
    for_each_table!(copy_all);
    for line in lines(&whole) {
        writer.line(&line).map_err(|why| why.to_string())?;
    }
    let ended_ns = whole.closed().map_or(0, |close| close.ended_ns);
    let closed = writer.close(ended_ns).map_err(|why| why.to_string())?;
    if let Some(failure) = closed.failures.first() {
        return Err(failure.to_string());
    }
    let manifest = fs::read_to_string(to.join("manifest.jsonl")).map_err(|why| why.to_string())?;
    check_text(&manifest)
}

/// What the manifest says beside its files.
fn lines(whole: &Recording) -> Vec<Line> {
    let coverage = whole.coverage().iter().cloned().map(|mut coverage| {
        match &mut coverage.state {
            ProbeState::On => {}
            ProbeState::Fallback {
                which: text,
                why: more,
            }
            | ProbeState::Off {
                why: text,
                remedy: more,
            } => {
                redact_text(text);
                redact_text(more);
            }
        }
        Line::Coverage(coverage)
    });
    let loss = whole.loss().iter().cloned().map(Line::Loss);
    let cost = whole.cost().cloned().map(Line::Cost);
    coverage.chain(loss).chain(cost).collect()
}

/// Leaves of paths of this machine only their ends.
fn redact_text(text: &mut String) {
    let words = text.split(' ').map(|word| {
        let is_foreign = FOREIGN.iter().any(|foreign| word.starts_with(foreign));
        if is_foreign { file_name(word) } else { word }
    });
    *text = words.collect::<Vec<_>>().join(" ");
}

fn redact_header(header: &mut Header) {
    header.host = "lab".to_owned();
    header.boot_id = "00000000-0000-0000-0000-000000000000".to_owned();
    header.arguments = vec!["whylat".to_owned()];
    header.started_realtime_ns = 0;
}

/// Which rows are kept.
struct Limits {
    calls: Calls,
    /// Begins and ends of the times for which activity is kept.
    windows: Vec<(u64, u64)>,
}

/// Times of which activity was kept for messages that were received: the longest, and some of the others.
fn windows_of_received(whole: &Recording) -> Vec<(u64, u64)> {
    const LONGEST: usize = 41;
    const OTHERS: usize = 23;
    let windows = whole.read_all::<ActivityWindow>();
    let windows = (0..windows.len()).map(|row| windows.row(row));
    let received = windows.filter(|window| window.is_send != Some(true));
    let mut received: Vec<_> = received
        .map(|window| (window.begin_ns, window.end_ns))
        .collect();
    received.sort_by_key(|(begin_ns, end_ns)| std::cmp::Reverse(end_ns - begin_ns));
    let others = received.split_off(LONGEST.min(received.len()));
    let step = others.len().div_ceil(OTHERS).max(1);
    received.extend(others.into_iter().step_by(step));
    received
}

/// The rows of a table that are kept, without names of the machine.
fn small<T: Redact>(whole: &Recording, limits: &Limits) -> T::Columns {
    let all = whole.read_all::<T>();
    let mut rows = T::Columns::default();
    let all = (0..all.len()).map(|row| all.row(row));
    all.filter(|row| row.is_within(limits))
        .for_each(|row| rows.push(row.redacted()));
    rows
}

/// A row that may be without names of the machine.
trait Redact: Table {
    fn redacted(self) -> Self {
        self
    }

    /// Whether it is kept.
    fn is_within(&self, _limits: &Limits) -> bool {
        true
    }
}

impl Redact for Activity {
    fn is_within(&self, limits: &Limits) -> bool {
        let overlaps =
            |(begin_ns, end_ns): &(u64, u64)| self.begin_ns <= *end_ns && *begin_ns <= self.end_ns;
        limits.windows.iter().any(overlaps)
    }
}

impl Redact for ActivityWindow {
    fn is_within(&self, limits: &Limits) -> bool {
        let is_its = |window: &(u64, u64)| *window == (self.begin_ns, self.end_ns);
        self.is_send != Some(true) && limits.windows.iter().any(is_its)
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

impl Redact for Call {
    fn is_within(&self, limits: &Limits) -> bool {
        // less is no wait for a CPU (`WAKE_NS` of crates/diagnose/src/gather/cpu.rs), nor for a reader
        const LEAST_NS: u64 = 50_000;
        let is_long = |ns: Option<u64>| ns.is_some_and(|ns| ns >= LEAST_NS);
        limits.calls == Calls::All
            || self.is_send
            || self.result <= 0
            || is_long(self.runq_ns)
            || is_long(self.unread_ns)
    }
}

impl Redact for Process {
    fn redacted(mut self) -> Self {
        self.exe = self.exe.map(|path| file_name(&path).to_owned());
        self.cgroup = self.cgroup.map(|_| "/".to_owned());
        self
    }
}

impl Redact for StackFrame {
    fn redacted(mut self) -> Self {
        self.object = self.object.map(|path| file_name(&path).to_owned());
        self
    }
}

impl Redact for Symbol {
    fn redacted(mut self) -> Self {
        self.object = file_name(&self.object).to_owned();
        self.source = self.source.map(|path| file_name(&path).to_owned());
        self
    }
}

macro_rules! nothing_to_redact {
    ($($row:ident)+) => { $(impl Redact for table::tables::$row {})+ };
}

nothing_to_redact! {
    ClockPair Connection Counter CpuSample Listener ProcessSample
    ReceivedMessage SentMessage Spin Task TcpEvent TcpSample TcpStage UdpSocket Wait
}

/// Writes a table's rows as its only file; what the manifest says of it.
fn write_table<T: Table>(dir: &Path, rows: T::Columns) -> Result<Option<Segment>, String> {
    let Some((first_ns, last_ns)) = rows.time_range_ns() else {
        return Ok(None);
    };
    let count = rows.len() as u64;
    for index in 0..rows.len() {
        let mut foreign = Ok(());
        rows.for_each_value(index, |value| {
            if let table::Value::Text(text) = value {
                foreign = foreign.clone().and(check_text(text));
            }
        });
        foreign?;
    }
    let batch = without_empty(&rows.into_batch())?;
    let written = smallest(&batch).map_err(|why| format!("cannot encode {}: {why}", T::NAME))?;
    let file = format!("{}/1.parquet", T::NAME);
    let saved =
        fs::create_dir_all(dir.join(T::NAME)).and_then(|()| fs::write(dir.join(&file), &written));
    saved.map_err(|why| format!("cannot write {file}: {why}"))?;
    Ok(Some(Segment {
        table: T::NAME.to_owned(),
        file,
        rows: count,
        first_ns,
        last_ns,
        bytes: written.len() as u64,
        blake3: blake3::hash(&written).to_hex().to_string(),
    }))
}

/// Without the columns in which nothing is: readers take them for null.
fn without_empty(batch: &RecordBatch) -> Result<RecordBatch, String> {
    let rows = batch.num_rows();
    let filled = (0..batch.num_columns()).filter(|at| batch.column(*at).null_count() < rows);
    let filled: Vec<usize> = filled.collect();
    batch.project(&filled).map_err(|why| why.to_string())
}

/// How a column may be written; `None`: as a dictionary.
type Choice = Option<Encoding>;

/// A file with the encoding for each column that makes it smallest.
fn smallest(batch: &RecordBatch) -> Result<Vec<u8>, ParquetError> {
    let columns = batch.num_columns();
    let mut best: Vec<(i64, Choice)> = vec![(i64::MAX, None); columns];
    let packed = batch
        .schema()
        .fields()
        .iter()
        .map(|field| packed(field.data_type()))
        .collect();
    for choices in [
        packed,
        vec![Some(Encoding::PLAIN); columns],
        vec![None; columns],
    ] {
        let (_, sizes) = encode(batch, &choices)?;
        for ((best, size), choice) in best.iter_mut().zip(sizes).zip(choices) {
            if size < best.0 {
                *best = (size, choice);
            }
        }
    }
    let choices: Vec<Choice> = best.into_iter().map(|(_, choice)| choice).collect();
    Ok(encode(batch, &choices)?.0)
}

/// As the recorder writes columns of this type.
fn packed(kind: &DataType) -> Choice {
    Some(match kind {
        kind if kind.is_integer() => Encoding::DELTA_BINARY_PACKED,
        DataType::Utf8 => Encoding::DELTA_BYTE_ARRAY,
        _ => Encoding::PLAIN,
    })
}

/// The file with these encodings, and the bytes of each column in it.
fn encode(batch: &RecordBatch, choices: &[Choice]) -> Result<(Vec<u8>, Vec<i64>), ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::None);
    for (field, choice) in batch.schema().fields().iter().zip(choices) {
        let column = ColumnPath::from(field.name().as_str());
        properties = properties.set_column_dictionary_enabled(column.clone(), choice.is_none());
        if let Some(encoding) = choice {
            properties = properties.set_column_encoding(column, *encoding);
        }
    }
    let options = ArrowWriterOptions::new()
        .with_properties(properties.build())
        .with_skip_arrow_metadata(true);
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new_with_options(&mut file, batch.schema(), options)?;
    writer.write(batch)?;
    let written = writer.close()?;
    let groups = written.row_groups().iter();
    let mut sizes = vec![0; choices.len()];
    for (at, column) in groups.flat_map(|group| group.columns().iter().enumerate()) {
        sizes[at] += column.compressed_size();
    }
    Ok((file, sizes))
}

fn check_text(text: &str) -> Result<(), String> {
    match FOREIGN.iter().find(|foreign| text.contains(*foreign)) {
        Some(_) => Err(format!("a path of this machine is in {text:?}")),
        None => Ok(()),
    }
}

/// Whether two reports have the same findings of the same connections and times, and the same shares of stages.
pub fn finds_the_same(whole: &Value, small: &Value) -> Result<(), String> {
    let finding = [
        "rule",
        "severity",
        "direction",
        "subject",
        "from_ns",
        "until_ns",
    ];
    let connection = ["id", "stages", "receive", "not_judged"];
    let of = |report: &Value, part: &str, members: &[&str]| -> Value {
        let items = report[part].as_array().into_iter().flatten();
        let members = |item: &Value| -> Value {
            let members = members.iter();
            members
                .map(|name| ((*name).to_owned(), item[*name].clone()))
                .collect()
        };
        items.map(members).collect()
    };
    let parts = [
        ("findings", finding.as_slice()),
        ("connections", &connection),
    ];
    parts.iter().try_for_each(|(part, members)| {
        same(part, &of(whole, part, members), &of(small, part, members))
    })
}

fn same(part: &str, whole: &Value, small: &Value) -> Result<(), String> {
    match whole == small {
        true => Ok(()),
        false => Err(format!(
            "the small recording has other {part}: {small:#}, not {whole:#}"
        )),
    }
}
