//! The join against a plain search through all rows, with rows in batches and out of order.

use proptest::prelude::*;
use serde_json::{Value, json};
use table::row_of;
use table::tables::{Call, Calls, Counter, Counters, Wait, Waits};

use std::rc::Rc;

use super::history::{CALLS_KEPT, HELD};
use super::*;
use crate::report::RecordingState;
use crate::rows::sends::PrecedingCalls;
use crate::waits::{Grouping, WaitFilter, WaitTable};

const CONNS: u64 = 3;

/// Next act of a thread, and its duration.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// A call on a connection that blocks so many times, and moves so many bytes (or fails).
    Call(u64, bool, usize, i32),
    /// A wait for one of several connections.
    Epoll(Option<u64>),
    /// A wait on a connection outside of calls, such as connect().
    Bare(u64),
    /// A counter gets a value.
    Value(u8, i64),
}

/// Generates acts of a thread: calls, waits in epoll, values of counters.
fn acts() -> impl Strategy<Value = Act> {
    let conn = 1..=CONNS;
    let bytes = prop_oneof![Just(-11), Just(0), 1..2_000_i32];
    prop_oneof![
        6 => (conn.clone(), any::<bool>(), 0..4_usize, bytes)
            .prop_map(|(conn, is_send, waits, bytes)| Act::Call(conn, is_send, waits, bytes)),
        2 => prop::option::of(conn.clone()).prop_map(Act::Epoll),
        1 => conn.prop_map(Act::Bare),
        2 => (0..3_u8, -50..50_i64).prop_map(|(counter, value)| Act::Value(counter, value)),
    ]
}

/// All rows of a recording, each thread's in its own time; no two times are the same.
#[derive(Debug, Default)]
struct Rows {
    waits: Vec<Wait>,
    calls: Vec<Call>,
    counters: Vec<Counter>,
}

struct Thread {
    tid: u32,
    threads: u32,
    step: u64,
}

impl Thread {
    /// Returns a later time, which no other row of this thread has.
    fn now(&mut self, pause: u64) -> u64 {
        self.step += 1 + pause;
        self.step * u64::from(self.threads) + u64::from(self.tid)
    }
}

impl Rows {
    /// Adds a wait of the thread that lasts `pause`; returns its start.
    fn wait(&mut self, thread: &mut Thread, pause: u64, more: &Value) -> u64 {
        let (start_ns, end_ns) = (thread.now(1), thread.now(pause));
        let mut row = json!({
            "end_ns": end_ns, "start_ns": start_ns, "tid": thread.tid, "pid": 1, "waker": "unseen",
            "uninterruptible": false,
        });
        row.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.waits.push(row_of(row).unwrap());
        start_ns
    }

    /// Adds the rows of one act of the thread.
    fn act(&mut self, thread: &mut Thread, act: Act, pause: u64) {
        let on = |conn: u64| json!({"kind": "connection", "conn": conn});
        match act {
            Act::Bare(conn) => {
                self.wait(thread, pause, &on(conn));
            }
            Act::Epoll(ready) => {
                self.wait(
                    thread,
                    pause,
                    &json!({"kind": "epoll", "ready_conn": ready}),
                );
            }
            Act::Value(counter, value) => {
                let row = json!({
                    "time_ns": thread.now(pause), "pid": 1, "tid": thread.tid, "source": "itt", "domain": "d",
                    "name": format!("c{counter}"), "kind": "set", "value_s64": value,
                });
                self.counters.push(row_of(row).unwrap());
            }
            Act::Call(conn, is_send, waits, result) => {
                let starts: Vec<u64> = (0..waits)
                    .map(|_| self.wait(thread, pause, &on(conn)))
                    .collect();
                // every fifth is the first of its stream
                let first = result > 0 && result % 5 == 0;
                let row = json!({
                    "conn": conn, "end_ns": thread.now(1), "start_ns": starts.first(),
                    "is_send": is_send, "result": result, "flags": 0, "tid": thread.tid, "pid": 1,
                    "offset_end": if first { result } else { 1 << 20 }, "cpu": 0,
                });
                self.calls.push(row_of(row).unwrap());
            }
        }
    }

    fn new(threads: &[Vec<(Act, u64)>]) -> Self {
        let mut rows = Self::default();
        for (tid, acts) in (0..).zip(threads) {
            let mut thread = Thread {
                tid,
                threads: threads.len() as u32,
                step: 0,
            };
            for (act, pause) in acts {
                rows.act(&mut thread, *act, *pause);
            }
        }
        rows.waits.sort_by_key(|row| row.end_ns);
        rows.calls.sort_by_key(|row| row.end_ns);
        rows.counters.sort_by_key(|row| row.time_ns);
        rows
    }

    /// Returns the calls that moved bytes of a connection.
    fn moved(&self, conn: u64) -> Vec<&Call> {
        let calls = self.calls.iter();
        calls
            .filter(|it| it.conn == conn && it.result > 0)
            .collect()
    }

    /// Returns the calls before a wait, by a search through all calls.
    fn before(&self, wait: &Wait) -> PrecedingCalls {
        let Some(conn) = wait.conn.or(wait.ready_conn) else {
            return PrecedingCalls::default();
        };
        let moved = self.moved(conn);
        let earlier = moved.iter().filter(|it| it.end_ns <= wait.start_ns);
        let meanwhile = moved
            .iter()
            .filter(|it| it.end_ns > wait.start_ns && it.end_ns <= wait.end_ns);
        let mut seen: Vec<&&Call> = earlier.collect();
        if meanwhile.count() >= CALLS_KEPT {
            seen.clear();
        }
        let within = moved.iter().find(|it| {
            wait.conn.is_some()
                && it.is_send
                && it.tid == wait.tid
                && it.start_ns.is_some_and(|from| from <= wait.start_ns)
                && it.end_ns >= wait.end_ns
        });
        seen.extend(within);
        let sends = seen.iter().filter(|it| it.is_send);
        let bytes = |it: &&Call| it.result as u32;
        // counted from a receive, or from the first byte if nothing was counted before
        let receive = seen.iter().rposition(|it| !it.is_send);
        let first = seen
            .iter()
            .position(|it| it.is_send && it.offset_end == it.result as u64);
        let from = receive.map(|at| at + 1).or(first);
        let count = from.map(|from| seen[from..].iter().filter(|it| it.is_send).count() as u32);
        PrecedingCalls {
            sent_bytes: sends.clone().next_back().map(|it| bytes(it)),
            received_bytes: receive.map(|at| bytes(seen[at])),
            sends: count,
        }
    }

    /// Returns the counter's last value before the wait ended; None if it had none.
    fn value(&self, wait: &Wait, name: &str) -> Option<f64> {
        let of_it = |it: &&Counter| {
            it.tid == wait.tid && it.name.as_deref() == Some(name) && it.time_ns <= wait.end_ns
        };
        let last = self.counters.iter().rfind(of_it)?;
        last.value_s64.map(|value| value as f64)
    }
}

/// Makes batches of `of` rows; rows of about one time change places.
fn batches<C: Columns>(rows: Vec<C::Row>, of: usize, key: impl Fn(&C::Row) -> u64) -> Vec<C> {
    let mut rows = rows;
    rows.sort_by_key(key);
    let mut batches = Vec::new();
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let mut batch = C::default();
        rows.by_ref().take(of).for_each(|row| batch.push(row));
        batches.push(batch);
    }
    batches
}

fn header() -> table::manifest::Header {
    let header = json!({
        "format": 1, "whylat": "", "host": "", "boot_id": "", "kernel": "", "cpus": 2,
        "clocksource": "", "detail": "waits", "arguments": [], "started_ns": 0,
        "started_realtime_ns": 0, "jiffy_ns": 4_000_000,
    });
    serde_json::from_value(header).unwrap()
}

/// Returns all that precedes the waits, as one group, with counters by name.
fn joined(rows: Rows, of: usize, stir: u64, slow_from_ns: u64) -> WaitSides {
    let mut table = WaitTable::new(
        header(),
        Rc::default(),
        Grouping::Waker,
        WaitFilter::default(),
    );
    let mut join = Join::new(&mut table, vec![Some(slow_from_ns)]).with_held_rows(64);
    let mut calls = batches::<Calls>(rows.calls, of, |row| row.end_ns ^ stir).into_iter();
    let mut waits = batches::<Waits>(rows.waits, of, |row| row.end_ns ^ stir).into_iter();
    let mut counters = batches::<Counters>(rows.counters, of, |row| row.time_ns ^ stir).into_iter();
    while let Some(source) = join.lacks() {
        match source {
            JoinSource::Counters => join.add_counters(counters.next().as_ref()),
            JoinSource::Waits => join.add_waits(waits.next().as_ref()),
            JoinSource::Calls => join.add_calls(calls.next().as_ref()),
        }
    }
    join.join_held_rows();
    let mut sides = join.sides.remove(0).unwrap();
    let number = |name: &Option<String>| name.as_deref().unwrap()[1..].parse().unwrap();
    let by_name = std::mem::take(&mut sides.counters).into_iter();
    sides.counters = by_name
        .map(|(at, factor)| (number(&join.names.get(at).name), factor))
        .collect();
    sides
}

/// Generates one to four threads with acts and pauses.
fn threads() -> impl Strategy<Value = Vec<Vec<(Act, u64)>>> {
    let act = (acts(), 0..40_u64);
    prop::collection::vec(prop::collection::vec(act, 1..120), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn join_equals_search_through_all_rows(
        threads in threads(),
        of in 1..24_usize,
        stir in 0..64_u64,
        slow_from_ns in 1..100_u64,
    ) {
        let rows = Rows::new(&threads);
        let mut expected = WaitSides::new(slow_from_ns);
        for wait in &rows.waits {
            let is_slow = wait.end_ns - wait.start_ns >= slow_from_ns;
            let names = ["c0", "c1", "c2"];
            let values: Vec<(u16, f64)> = (0..)
                .zip(names)
                .filter_map(|(number, name)| Some((number, rows.value(wait, name)?)))
                .collect();
            expected.add(is_slow, wait.conn.or(wait.ready_conn).is_some(), &values);
            let before = rows.before(wait);
            expected.add_calls(is_slow, before);
        }
        let found = joined(rows, of, stir, slow_from_ns);
        prop_assert_eq!(found, expected);
    }
}

/// Makes one call with this number of waits before it.
fn one_call(waits: usize) -> Rows {
    let mut thread = Thread {
        tid: 0,
        threads: 1,
        step: 0,
    };
    let mut rows = Rows::default();
    rows.act(&mut thread, Act::Call(1, true, 0, 5), 0);
    rows.act(&mut thread, Act::Call(1, true, waits, 700), 0);
    rows
}

#[test]
fn first_waits_of_a_long_call_are_unknown() {
    for (waits, known) in [(HELD, HELD), (HELD + 7, 7)] {
        let sides = joined(one_call(waits), 1_000, 0, 1);
        let preceding = sides.report(&counters::CounterNames::default());
        assert_eq!(preceding.slow + preceding.fast, waits as u64);
        let bytes = &preceding.factors[0];
        assert_eq!(bytes.slow_known + bytes.fast_known, known as u64);
    }
}

#[test]
fn nothing_is_joined_without_slow_waits() {
    let mut table = WaitTable::new(
        header(),
        Rc::default(),
        Grouping::Object,
        WaitFilter::default(),
    );
    batches::<Waits>(one_call(500).waits, 100, |row| row.end_ns)
        .iter()
        .for_each(|rows| table.add(rows));
    assert!(table.join(usize::MAX).is_none());
    let report = table.report(RecordingState::default(), usize::MAX);
    assert!(report.groups.iter().all(|group| group.preceding.is_none()));
}
