//! A whole recording in, a small one out that says the same: only the tables and rows that a judgement
//! needs, one file a table, compressed as far as it goes, without names of the machine it was made on.

use std::any::Any;
use std::collections::HashSet;
use std::fs;
use std::path::Path;

use table::manifest::{Header, Line, ProbeState};
use table::tables::{
    Activity, ActivityWindow, Call, Connection, DropCount, NetCounter, Preemption, Process,
    ReceivedMessage, StackFrame, Symbol, TcpEvent, TcpSample, TcpStage, Wait,
};
use table::{Columns, Recording, Table, WriteOptions, Writer, for_each_table};

use self::parquet_file::{FOREIGN, check_text, write_table};

pub use self::comparison::finds_the_same;

mod comparison;
mod parquet_file;

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $($table:ident)+;)+) => {
        $($(#[$doc])* pub const $name: &[&str] = &[$(stringify!($table)),+];)+
    };
}

tables! {
    /// Tables by which connections are judged.
    CONNECTIONS: calls connections cpu_samples listeners process_samples processes tcp_events
        tcp_samples tcp_stages;
    /// The same, and what threads waited for and programs reported.
    WAITS: calls connections counters cpu_samples listeners process_samples processes spins tasks
        tcp_events tcp_samples tcp_stages waits;
    /// The same, and from where.
    STACKS: calls connections counters cpu_samples listeners process_samples processes spins
        stacks symbols tasks tcp_events tcp_samples tcp_stages waits;
    /// Requests, what threads did with them, and where.
    REQUESTS: calls connections listeners preemptions processes stacks symbols tcp_samples waits;
    /// Tables by which the requests of programs are judged, with all that they may wait for.
    CAUSES: calls connections dns_waits failed_connects listeners on_cpu_samples preemptions
        processes stacks symbols tcp_samples udp_flows udp_sockets waits;
    /// Tables by which connections are judged, and what the host dropped.
    DROPPED: calls connections cpu_samples drops listeners process_samples processes tcp_events
        tcp_samples tcp_stages;
    /// Tables by which the requests of UDP sockets are judged, and what the host dropped.
    DATAGRAMS: calls connections drop_counts drops processes stacks symbols udp_flows udp_sockets
        waits;
    /// Tables by which connections are judged, and their messages.
    MESSAGES: calls clock_pairs connections cpu_samples listeners process_samples processes
        received_messages sent_messages tcp_events tcp_samples tcp_stages udp_sockets;
    /// Waits of threads, and what programs reported.
    REPORTED: connections counters processes tasks waits;
    /// Messages that were received, and what CPUs did meanwhile.
    ACTIVITY: activity activity_windows connections processes received_messages udp_sockets;
    /// The same, and what threads waited for.
    BLOCKED: activity activity_windows connections processes received_messages udp_sockets waits;
}

/// The socket calls that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// All.
    All,
    /// Without receive calls that only waited for data: of a bulk transfer they are the most.
    Eventful,
    /// None.
    None,
}

/// Rows that a kept recording omits, because it would be too large with them.
#[derive(Debug, Clone)]
pub struct LeftOut {
    /// The calls that are kept.
    pub calls: Calls,
    /// Sockets, with all of their rows.
    pub sockets: HashSet<u64>,
    /// When the calls were that took the messages that are judged, the best known first: of others, most are left out. Of the
    /// first it is kept what CPUs did meanwhile. Empty: all messages are judged.
    pub judged: Vec<(u64, u64)>,
    /// Waits for something else than a connection.
    pub waits: bool,
    /// Processes, with what their threads waited for.
    pub processes: HashSet<u32>,
}

impl LeftOut {
    /// Nothing.
    pub fn nothing() -> Self {
        LeftOut {
            calls: Calls::All,
            sockets: HashSet::new(),
            judged: Vec::new(),
            waits: false,
            processes: HashSet::new(),
        }
    }
}

/// Writes what `tables` hold of the recording `from` to `to`.
pub fn shrink(from: &Path, to: &Path, tables: &[&str], left_out: &LeftOut) -> Result<(), String> {
    let whole = Recording::open(from).map_err(|why| why.to_string())?;
    let mut header = whole.header().clone();
    redact_header(&mut header);
    let mut writer =
        Writer::create(to, &header, WriteOptions::default()).map_err(|why| why.to_string())?;
    let limits = Limits::new(&whole, left_out);
    macro_rules! copy_all {
        ($($row:ty),+ $(,)?) => {
            $(if tables.contains(&<$row as Table>::NAME) && !limits.is_without(<$row as Table>::NAME) {
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

/// Returns the lines of the manifest beside its files.
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

/// A message: its socket, and where it ends in the stream.
type Message = (u64, u64);

/// Chooses the rows that are kept.
struct Limits<'a> {
    left_out: &'a LeftOut,
    /// Begins and ends of the times for which activity is kept.
    windows: Vec<(u64, u64)>,
    /// Messages that are kept; `None`: all.
    messages: Option<HashSet<Message>>,
}

impl<'a> Limits<'a> {
    fn new(whole: &Recording, left_out: &'a LeftOut) -> Self {
        let windows = all::<ActivityWindow>(whole).into_iter();
        let windows = windows.filter(|window| window.is_send != Some(true));
        let windows: Vec<_> = windows.collect();
        if left_out.judged.is_empty() {
            return Limits {
                left_out,
                windows: longest_and_some(&windows),
                messages: None,
            };
        }
        let messages = all::<ReceivedMessage>(whole);
        let taken_by = |(begin_ns, end_ns): &(u64, u64)| {
            let is_its =
                |message: &&ReceivedMessage| (*begin_ns..=*end_ns).contains(&message.done_ns);
            messages.iter().find(is_its)
        };
        let judged = left_out.judged.iter().filter_map(taken_by);
        let judged: Vec<&ReceivedMessage> = judged.collect();
        let readers: HashSet<u32> = judged.iter().map(|message| message.pid).collect();
        let own: Vec<&ReceivedMessage> = messages
            .iter()
            .filter(|message| readers.contains(&message.pid))
            .collect();
        let sockets: HashSet<u64> = own.iter().map(|message| message.conn).collect();
        let windows: Vec<_> = windows
            .into_iter()
            .filter(|window| window.conn.is_some_and(|conn| sockets.contains(&conn)))
            .collect();
        let judged: Vec<Message> = judged.into_iter().map(message).collect();
        let windows = judged_and_some(&windows, &judged);
        Limits {
            left_out,
            messages: Some(with_some_others(&messages, &own, &judged, &windows)),
            windows,
        }
    }

    fn is_without(&self, table: &str) -> bool {
        table == Call::NAME && self.left_out.calls == Calls::None
    }

    /// Returns whether activity of this time is kept; all is, where there is no activity.
    fn is_meanwhile(&self, begin_ns: u64, end_ns: u64) -> bool {
        let overlaps = |window: &(u64, u64)| begin_ns <= window.1 && window.0 <= end_ns;
        self.windows.is_empty() || self.windows.iter().any(overlaps)
    }

    fn has_socket(&self, conn: u64) -> bool {
        !self.left_out.sockets.contains(&conn)
    }
}

/// All rows of a table.
fn all<T: Table>(whole: &Recording) -> Vec<T> {
    let rows = whole.read_all::<T>();
    (0..rows.len()).map(|row| rows.row(row)).collect()
}

/// The times of the longest messages, and of some of the others.
fn longest_and_some(windows: &[ActivityWindow]) -> Vec<(u64, u64)> {
    const LONGEST: usize = 41;
    const OTHERS: usize = 23;
    let mut longest: Vec<_> = windows
        .iter()
        .map(|window| (window.begin_ns, window.end_ns))
        .collect();
    longest.sort_by_key(|(begin_ns, end_ns)| std::cmp::Reverse(end_ns - begin_ns));
    let others = longest.split_off(LONGEST.min(longest.len()));
    longest.extend(spread(others, OTHERS));
    longest
}

/// The times of so many of the judged messages that a share of them says something, and of some of the others.
fn judged_and_some(windows: &[ActivityWindow], judged: &[Message]) -> Vec<(u64, u64)> {
    const JUDGED: usize = 24;
    const OTHERS: usize = 15;
    let place = |window: &ActivityWindow| {
        let message = window.conn.zip(window.offset_end)?;
        judged.iter().position(|judged| *judged == message)
    };
    let time = |window: &ActivityWindow| (window.begin_ns, window.end_ns);
    let (mut judged, others): (Vec<_>, Vec<_>) =
        windows.iter().partition(|window| place(window).is_some());
    judged.sort_by_key(|window| place(window));
    let judged = judged.into_iter().take(JUDGED);
    judged.chain(spread(others, OTHERS)).map(time).collect()
}

fn message(row: &ReceivedMessage) -> Message {
    (row.conn, row.offset_end)
}

/// The messages that are judged, those that came while it is kept what CPUs did, the one before each, and some of the
/// others of the same readers.
fn with_some_others(
    messages: &[ReceivedMessage],
    own: &[&ReceivedMessage],
    judged: &[Message],
    windows: &[(u64, u64)],
) -> HashSet<Message> {
    const OTHERS: usize = 151;
    let is_kept = |it: &ReceivedMessage| {
        let is_within = |(begin_ns, end_ns): &(u64, u64)| {
            let came_ns = it.tcp_ns.unwrap_or(it.done_ns);
            came_ns <= *end_ns && *begin_ns <= it.done_ns
        };
        judged.contains(&message(it)) || windows.iter().any(is_within)
    };
    let mut kept = HashSet::new();
    kept.extend(messages.iter().filter(|it| is_kept(it)).map(message));
    let pairs = own.windows(2).filter(|pair| is_kept(pair[1]));
    kept.extend(pairs.map(|pair| message(pair[0])));
    kept.extend(spread(own.iter().map(|it| message(it)).collect(), OTHERS));
    kept
}

/// At most so many of them, from begin to end.
fn spread<T>(all: Vec<T>, most: usize) -> impl Iterator<Item = T> {
    let step = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(step)
}

/// The rows of a table that are kept, without names of the machine.
fn small<T: Table + 'static>(whole: &Recording, limits: &Limits<'_>) -> T::Columns {
    let all = whole.read_all::<T>();
    let mut rows = T::Columns::default();
    for mut row in (0..all.len()).map(|row| all.row(row)) {
        let is_kept = rule(&mut row).is_none_or(|rule| {
            rule.redact();
            rule.is_within(limits)
        });
        if is_kept {
            rows.push(row);
        }
    }
    rows
}

/// A row that is not kept as it is: some are left out, or names of the machine are. Rows of other tables are all kept.
trait Redact {
    fn redact(&mut self) {}

    /// Returns whether it is kept.
    fn is_within(&self, _limits: &Limits<'_>) -> bool {
        true
    }
}

impl Redact for Activity {
    fn is_within(&self, limits: &Limits<'_>) -> bool {
        limits.is_meanwhile(self.begin_ns, self.end_ns)
    }
}

impl Redact for ActivityWindow {
    fn is_within(&self, limits: &Limits<'_>) -> bool {
        let is_its = |window: &(u64, u64)| *window == (self.begin_ns, self.end_ns);
        self.is_send != Some(true) && limits.windows.iter().any(is_its)
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

impl Redact for Call {
    fn is_within(&self, limits: &Limits<'_>) -> bool {
        // less is no wait for a CPU (`WAKE_NS` of crates/diagnose/src/connections/gather/cpu.rs), nor for a reader
        const LEAST_NS: u64 = 50_000;
        let is_long = |ns: Option<u64>| ns.is_some_and(|ns| ns >= LEAST_NS);
        let is_eventful =
            self.is_send || self.result <= 0 || is_long(self.runq_ns) || is_long(self.unread_ns);
        limits.has_socket(self.conn) && (limits.left_out.calls == Calls::All || is_eventful)
    }
}

macro_rules! of_sockets_kept {
    ($($row:ident)+) => {
        $(impl Redact for $row {
            fn is_within(&self, limits: &Limits<'_>) -> bool {
                limits.has_socket(self.conn)
            }
        })+
    };
}

of_sockets_kept! { Connection TcpEvent TcpSample TcpStage }

impl Redact for ReceivedMessage {
    fn is_within(&self, limits: &Limits<'_>) -> bool {
        let message = (self.conn, self.offset_end);
        let kept = limits.messages.as_ref();
        kept.is_none_or(|kept| kept.contains(&message))
    }
}

impl Redact for Wait {
    fn is_within(&self, limits: &Limits<'_>) -> bool {
        let is_asked_for = !limits.left_out.waits || self.conn.is_some();
        let is_kept = !limits.left_out.processes.contains(&self.pid);
        is_kept && is_asked_for && limits.is_meanwhile(self.start_ns, self.end_ns)
    }
}

/// Counts are of the whole host: those of others are not kept.
impl Redact for DropCount {
    fn is_within(&self, _: &Limits<'_>) -> bool {
        self.selected > 0
    }
}

/// As counts of drops: they are of all namespaces.
impl Redact for NetCounter {
    fn is_within(&self, _: &Limits<'_>) -> bool {
        false
    }
}

impl Redact for Preemption {
    fn redact(&mut self) {
        self.by_comm = self.by_comm.take().map(|_| "other".to_owned());
    }

    fn is_within(&self, limits: &Limits<'_>) -> bool {
        let is_kept = !limits.left_out.processes.contains(&self.pid);
        is_kept && limits.is_meanwhile(self.start_ns, self.end_ns)
    }
}

impl Redact for Process {
    fn redact(&mut self) {
        self.exe = self.exe.take().map(|path| file_name(&path).to_owned());
        self.cgroup = self.cgroup.take().map(|_| "/".to_owned());
    }
}

impl Redact for StackFrame {
    fn redact(&mut self) {
        self.object = self.object.take().map(|path| file_name(&path).to_owned());
    }
}

impl Redact for Symbol {
    fn redact(&mut self) {
        self.object = file_name(&self.object).to_owned();
        self.source = self.source.take().map(|path| file_name(&path).to_owned());
    }
}

macro_rules! rules {
    ($($row:ident)+) => {
        /// Returns the rule of a row; `None`: it is kept as it is.
        fn rule(row: &mut dyn Any) -> Option<&mut dyn Redact> {
            $(if row.is::<$row>() {
                return row.downcast_mut::<$row>().map(|row| row as &mut dyn Redact);
            })+
            None
        }
    };
}

rules! {
    Activity ActivityWindow Call Connection DropCount NetCounter Preemption Process ReceivedMessage StackFrame Symbol
        TcpEvent TcpSample TcpStage Wait
}
