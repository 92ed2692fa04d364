//! Chooses what the flight recorder keeps: the windows of slow messages and of some others, and all that it
//! holds when a trigger or the user asks for it. In: messages as they come. Out: rows of `activity` and
//! `activity_windows`.

mod captured;
mod options;
mod slow;

use std::collections::HashMap;
use std::time::Duration;

use probe::activity::{Flight, PROBE, Storage, Window};
use probe::clock::monotonic_ns;
use probe::hooks::HooksError;
use table::manifest::{Coverage, ProbeState};
use table::tables::{ActivityWindow, ReceivedMessage, ReceivedMessages, SentMessage, SentMessages};
use table::{Columns, RowSet, Why};

use captured::CapturedIntervals;
pub use options::{RetentionError, RetentionPolicy};
use slow::Durations;

/// Kept before a message's first time and after its last: what is under way then began before.
const MARGIN_NS: u64 = 100_000;
/// Waited for a margin at most.
const LONGEST_WAIT_NS: u64 = 2 * MARGIN_NS;
/// Spans that may be kept in a second, on average, so that hours of recording stay some gigabytes.
const SPANS_PER_S: u64 = 20_000;
/// The unused part of that is saved up for so long.
const SAVED_S: u64 = 10;
/// The trigger keeps everything this often at most; between, it keeps the slow message's moment.
const FULL_EVERY_NS: u64 = 10_000_000_000;
/// Messages with windows that are read at once, where they touch: each read replays what a CPU did from the last
/// switch between threads on.
const READ_AT_ONCE: usize = 64;
/// Processes with thresholds of their own.
const MOST_PROCESSES: usize = 1_024;
const NS_PER_S: u64 = 1_000_000_000;

/// Returns the number and length of kept windows in words.
pub(crate) fn summary(windows: &RowSet) -> String {
    let activity = &windows.activity;
    let begin_ns = activity.begin_ns.iter().min().copied();
    let end_ns = activity.end_ns.iter().max().copied();
    let length_ns = end_ns.unwrap_or(0).saturating_sub(begin_ns.unwrap_or(0));
    let (spans, length_s) = (activity.len(), length_ns as f64 / 1e9);
    format!("{spans} spans of {length_s:.3} s")
}

/// How many windows there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WindowCounts {
    /// Asked for.
    pub(crate) produced: u64,
    /// Not kept: more than the recording may grow.
    pub(crate) filtered: u64,
}

/// A message, as far as it matters here.
struct Message {
    conn: u64,
    pid: u32,
    tid: u32,
    is_send: bool,
    offset_end: u64,
    from_ns: u64,
    until_ns: u64,
    /// From `from_ns` on, how long it took.
    took_ns: u64,
    cpus: [Option<u16>; 2],
}

/// Keeps windows of what every CPU did.
pub(crate) struct FlightRecorder<'a> {
    flight: Flight<'a>,
    keep: RetentionPolicy,
    durations: HashMap<(u32, bool), Durations>,
    kept: Vec<CapturedIntervals>,
    random: u64,
    /// Spans that may be kept now; below zero: too many were.
    saved_spans: i64,
    saved_until_ns: u64,
    full_ns: Option<u64>,
    counts: WindowCounts,
}

/// Begins the flight recorder if the user asked for it; the coverage says why it cannot run.
pub(crate) fn begin(
    storage: &mut Storage,
    keep: RetentionPolicy,
) -> (Option<FlightRecorder<'_>>, Option<Coverage>) {
    if !keep.is_asked() {
        return (None, None);
    }
    let flight = Flight::begin(storage, keep.memory_bytes);
    let state = flight.as_ref().map_or_else(off_state, |_| ProbeState::On);
    let coverage = Coverage {
        probe: PROBE.to_owned(),
        state,
    };
    let now_ns = monotonic_ns();
    let flight_recorder = flight
        .ok()
        .map(|flight| FlightRecorder::new(flight, keep, now_ns));
    (flight_recorder, Some(coverage))
}

/// Returns the coverage line: whether the flight recorder can run on this host.
pub fn flight_recorder_coverage() -> Coverage {
    let mut storage = Storage::uninit();
    let state = match Flight::begin(&mut storage, None) {
        Ok(_) => ProbeState::On,
        Err(error) => off_state(&error),
    };
    Coverage {
        probe: PROBE.to_owned(),
        state,
    }
}

/// Makes the state of a flight recorder that cannot run: why, and what helps.
fn off_state(error: &HooksError) -> ProbeState {
    ProbeState::Off {
        why: error.to_string(),
        remedy: error.remedy(),
    }
}

impl<'a> FlightRecorder<'a> {
    /// Begins to remember activities; keeps those that the policy asks for.
    fn new(flight: Flight<'a>, keep: RetentionPolicy, now_ns: u64) -> Self {
        Self {
            kept: vec![CapturedIntervals::default(); flight.cpus().into()],
            flight,
            keep,
            durations: HashMap::new(),
            random: now_ns | 1,
            saved_spans: (SPANS_PER_S * SAVED_S) as i64,
            saved_until_ns: now_ns,
            full_ns: None,
            counts: WindowCounts::default(),
        }
    }

    /// Returns the ring of activities in the kernel.
    pub(crate) fn flight(&self) -> &Flight<'a> {
        &self.flight
    }

    /// Returns how many windows were kept and refused.
    pub(crate) fn counts(&self) -> WindowCounts {
        self.counts
    }

    /// Keeps the windows of slow or sampled messages. Calls `between` between any two.
    pub(crate) fn take(
        &mut self,
        received: &ReceivedMessages,
        sent: &SentMessages,
        now_ns: u64,
        between: impl Fn(),
    ) -> RowSet {
        let received = (0..received.len()).filter_map(|row| received_message(received.row(row)));
        let sent = (0..sent.len()).filter_map(|row| sent_message(sent.row(row)));
        let wanted: Vec<(Message, Why)> = received
            .chain(sent)
            .filter_map(|message| Some((self.keep_reason(&message)?, message)))
            .map(|(why, message)| (message, why))
            .collect();
        let mut windows = RowSet::default();
        if wanted.is_empty() {
            return windows;
        }
        self.save_up(now_ns);
        let last_ns = wanted.iter().map(|(message, _)| message.until_ns).max();
        wait_until_readable(last_ns.unwrap_or_default() + MARGIN_NS);
        for some in wanted.chunks(READ_AT_ONCE) {
            let mut new = Vec::new();
            for (message, why) in some {
                between();
                if *why == Why::Trigger
                    && self.full_ns.is_none_or(|at| now_ns >= at + FULL_EVERY_NS)
                {
                    self.full_ns = Some(now_ns);
                    self.keep_all(Some(message), *why, &mut new, &mut windows);
                } else {
                    self.keep_moment(message, *why, &mut new, &mut windows);
                }
            }
            self.read(new, &mut windows, &between);
        }
        self.flight.forget_threads();
        windows
    }

    /// Keeps everything that is held.
    pub(crate) fn snapshot(&mut self) -> RowSet {
        let mut windows = RowSet::default();
        let mut new = Vec::new();
        self.keep_all(None, Why::Snapshot, &mut new, &mut windows);
        self.read(new, &mut windows, || ());
        self.flight.forget_threads();
        windows
    }

    /// Ends the spans that are under way when the recording ends.
    pub(crate) fn detach(&mut self) {
        self.flight.detach();
    }

    /// Returns why a message's moment is to be kept; `None`: it is not.
    fn keep_reason(&mut self, message: &Message) -> Option<Why> {
        let is_slow = self.is_slow(message);
        if self
            .keep
            .trigger_ns
            .is_some_and(|most_ns| message.took_ns > most_ns)
        {
            return Some(Why::Trigger);
        }
        if is_slow {
            return Some(Why::Slow);
        }
        let one_of = self.keep.one_of?;
        self.next_random()
            .is_multiple_of(one_of)
            .then_some(Why::Sample)
    }

    /// Returns whether the message is among the slowest of its process and direction.
    fn is_slow(&mut self, message: &Message) -> bool {
        let Some(quantile) = self.keep.slower_than else {
            return false;
        };
        let key = (message.pid, message.is_send);
        if self.durations.len() >= MOST_PROCESSES && !self.durations.contains_key(&key) {
            self.durations.clear();
        }
        let durations = self.durations.entry(key);
        let durations = durations.or_insert_with(|| Durations::new(quantile));
        durations.add_duration(message.took_ns)
    }

    /// Returns the next random number (xorshift64).
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Adds spans that may be kept, for the time that passed; a few seconds' worth at most.
    fn save_up(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.saved_until_ns);
        let earned = passed_ns.min(SAVED_S * NS_PER_S) * SPANS_PER_S / NS_PER_S;
        let most = (SPANS_PER_S * SAVED_S) as i64;
        self.saved_spans = self.saved_spans.saturating_add_unsigned(earned).min(most);
        self.saved_until_ns = now_ns;
    }

    /// Adds the windows around a message on its CPUs to `new`.
    fn keep_moment(
        &mut self,
        message: &Message,
        why: Why,
        new: &mut Vec<Window>,
        windows: &mut RowSet,
    ) {
        self.counts.produced += 1;
        if self.saved_spans < 0 {
            self.counts.filtered += 1;
            return;
        }
        let from_ns = message.from_ns.saturating_sub(MARGIN_NS);
        let until_ns = message.until_ns + MARGIN_NS;
        for cpu in 0..self.flight.cpus() {
            let window = Window {
                cpu,
                from_ns,
                until_ns,
            };
            // the thread may have come from another CPU meanwhile
            if message.cpus.contains(&Some(cpu)) || self.flight.had_thread(window, message.tid) {
                self.keep_window(window, new);
            }
        }
        let window = window_row(Some(message), why, (from_ns, until_ns), message.cpus);
        windows.activity_windows.push(window);
    }

    /// Adds the windows of all CPUs to `new`.
    fn keep_all(
        &mut self,
        message: Option<&Message>,
        why: Why,
        new: &mut Vec<Window>,
        windows: &mut RowSet,
    ) {
        self.counts.produced += 1;
        let held: Vec<Window> = (0..self.flight.cpus())
            .map(|cpu| self.flight.held_window(cpu))
            .filter(|window| window.from_ns < window.until_ns)
            .collect();
        let from_ns = held.iter().map(|window| window.from_ns).min();
        let until_ns = held.iter().map(|window| window.until_ns).max();
        for window in held {
            self.keep_window(window, new);
        }
        let times = (from_ns.unwrap_or_default(), until_ns.unwrap_or_default());
        windows
            .activity_windows
            .push(window_row(message, why, times, [None; 2]));
    }

    /// Adds to `new` those parts of a window that were not kept before.
    fn keep_window(&mut self, mut window: Window, new: &mut Vec<Window>) {
        // what cannot be read yet may be wanted again
        window.until_ns = window.until_ns.min(Flight::readable_until_ns());
        let Some(kept) = self.kept.get_mut(usize::from(window.cpu)) else {
            return;
        };
        let parts = kept.add(window.from_ns, window.until_ns).into_iter();
        new.extend(parts.map(|(from_ns, until_ns)| Window {
            from_ns,
            until_ns,
            ..window
        }));
    }

    /// Reads windows, joining those that touch.
    fn read(&mut self, mut wanted: Vec<Window>, windows: &mut RowSet, between: impl Fn()) {
        wanted.sort_unstable_by_key(|window| (window.cpu, window.from_ns));
        let before = windows.activity.len();
        for touching in wanted.chunk_by(|a, b| a.cpu == b.cpu && a.until_ns == b.from_ns) {
            between();
            let (first, last) = (touching[0], touching[touching.len() - 1]);
            let whole = Window {
                until_ns: last.until_ns,
                ..first
            };
            self.flight.read(whole, &mut windows.activity);
        }
        self.saved_spans -= (windows.activity.len() - before) as i64;
    }
}

/// Waits a moment before the last message is read: the margin after the last message, too. Times of messages
/// are past, so that this is short.
fn wait_until_readable(until_ns: u64) {
    let left_ns = until_ns.saturating_sub(Flight::readable_until_ns());
    std::thread::sleep(Duration::from_nanos(left_ns.min(LONGEST_WAIT_NS)));
}

/// Makes the row of a kept window, with the message that was slow; None for a sample.
fn window_row(
    message: Option<&Message>,
    why: Why,
    (begin_ns, end_ns): (u64, u64),
    [first_cpu, last_cpu]: [Option<u16>; 2],
) -> ActivityWindow {
    ActivityWindow {
        begin_ns,
        end_ns,
        why,
        conn: message.map(|message| message.conn),
        is_send: message.map(|message| message.is_send),
        offset_end: message.map(|message| message.offset_end),
        first_cpu,
        last_cpu,
    }
}

/// Returns a received message from its arrival on; None if its arrival was not seen.
fn received_message(row: ReceivedMessage) -> Option<Message> {
    let from_ns = row.last_arrival_ns?;
    Some(Message {
        conn: row.conn,
        pid: row.pid,
        tid: row.tid,
        is_send: false,
        offset_end: row.offset_end,
        from_ns,
        until_ns: row.done_ns,
        took_ns: row.done_ns.saturating_sub(from_ns),
        cpus: [row.receive_cpu, Some(row.cpu)],
    })
}

/// Returns a sent message from its call on; None if a needed timestamp is missing.
fn sent_message(row: SentMessage) -> Option<Message> {
    let from_ns = row.call_ns?;
    let until_ns = row.driver_ns.map_or(row.done_ns, |at| at.max(row.done_ns));
    Some(Message {
        conn: row.conn,
        pid: row.pid,
        tid: row.tid,
        is_send: true,
        offset_end: row.offset_end,
        from_ns,
        until_ns,
        took_ns: until_ns.saturating_sub(from_ns),
        cpus: [Some(row.cpu), row.driver_cpu],
    })
}
