//! Tests of input that no kernel should write, and of what is kept.

use proptest::prelude::*;

use super::any_rows::any_rows;
use super::*;
use crate::requests::history::ThreadWait;

/// Generates times of all sizes that a clock shows: 2^56 ns are two years.
fn any_ns() -> impl Strategy<Value = u64> {
    prop_oneof![0..10 * MS, 0..1_u64 << 56, Just(0)]
}

/// Rows with nothing right: times that step, ranges that overlap, connections and threads that nobody knows.
fn wrong_rows() -> impl Strategy<Value = Rows> {
    let called = (
        (0..6_u64, any_ns(), any::<bool>(), any::<i32>(), 70..75_u32),
        (any_ns(), any_ns(), any_ns()),
    );
    let kinds = prop::sample::select(WaitObject::ALL);
    let waited = (any_ns(), any_ns(), any_ns(), 70..75_u32, kinds, 0..6_u64);
    let calls = prop::collection::vec(called, 0..60);
    let waits = prop::collection::vec(waited, 0..60);
    (calls, waits, any_rows()).prop_map(|(calls, waits, mut rows)| {
        rows.connections[2].closed_ns = Some(MS);
        rows.connections[3].connect_ns = Some(1 << 56);
        rows.connections[3].opened_ns = Some(3);
        for ((conn, end_ns, is_send, bytes, tid), (start_ns, unread_ns, offset_end)) in calls {
            rows.calls.push(Call {
                start_ns: (start_ns % 2 == 0).then_some(start_ns),
                tcp_ns: (start_ns % 3 == 0).then_some(unread_ns),
                unread_ns: Some(unread_ns),
                offset_end,
                ..call(conn, end_ns, is_send, bytes, tid)
            });
        }
        for (start_ns, woken_ns, end_ns, tid, kind, conn) in waits {
            let times = (start_ns, woken_ns, end_ns);
            rows.waits.push(wait(tid, times, kind, Some(conn)));
        }
        rows
    })
}

proptest! {
    #[test]
    fn wrong_rows_give_no_wrong_sums(rows in wrong_rows(), batch in 1..90_usize) {
        let report = rows.report_in(batch);
        for row in &report.requests {
            prop_assert_eq!(row.parts.total_ns(), row.duration_ns);
        }
        for service in &report.services {
            prop_assert!((0.0..=1.0).contains(&service.unknown));
        }
    }
}

#[test]
fn connections_with_one_request_each_are_all_counted() {
    let mut rows = Rows::default();
    for conn in 1..=20_000 {
        let mut made = connection(conn, Role::Client, CLIENT);
        made.remote = format!("10.1.{}.{}:80", conn / 256, conn % 256);
        made.closed_ns = Some(conn * MS + 100);
        rows.connections.push(made);
        rows.calls.push(call(conn, conn * MS, true, 10, 80));
        rows.calls.push(call(conn, conn * MS + 50, false, 10, 80));
    }
    let report = rows.with_offsets().report_in(1_000);
    assert_eq!(report.count(), 20_000);
    // the addresses beyond a number are one service
    assert_eq!(report.services.len(), 4_097);
    let rest = report
        .services
        .iter()
        .find(|it| it.address == "other addresses");
    assert_eq!(rest.map(|it| it.requests), Some(20_000 - 4_096));
}

/// Makes a sleep of 1 ns that ends at this time.
fn sleep_until(end_ns: u64) -> ThreadEventKind {
    let times = (end_ns.saturating_sub(1), end_ns);
    ThreadEventKind::Wait(ThreadWait::of_interrupt(times, WaitObject::Sleep))
}

#[test]
fn events_of_ended_threads_are_forgotten() {
    let mut history = History::default();
    for tid in 0..4_000 {
        let thread = history.thread(70, tid);
        for number in 1..=1_000 {
            let end_ns = u64::from(tid) * MS + number;
            history.add(thread, end_ns, sleep_until(end_ns), end_ns);
        }
    }
    assert!(
        history.event_count() <= 1 << 21,
        "{}",
        history.event_count()
    );
    let first = history.thread(70, 0);
    assert!(!history.get(first).is_known_since(1));
}

#[test]
fn a_process_with_the_id_of_another_has_threads_of_its_own() {
    let mut history = History::default();
    let thread = history.thread(70, 70);
    history.add(thread, MS, sleep_until(MS), 0);
    history.replace_process(70, 5 * MS);
    history.add(thread, 7 * MS, sleep_until(7 * MS), 0);
    let thread = history.get(thread);
    assert_eq!(thread.event_count_until(u64::MAX), 1);
    assert!(!thread.is_known_since(2 * MS));
    assert!(thread.is_known_since(6 * MS));
}

#[test]
fn a_connection_that_only_sends_does_not_keep_what_threads_did() {
    let mut rows = Rows::client();
    rows.connections.push(connection(2, Role::Client, CLIENT));
    for turn in 1..=100_000 {
        rows.calls.push(call(1, turn * 1_000, true, 10, 80));
        rows.calls.push(call(2, turn * 1_000 + 100, true, 10, 80));
        rows.calls.push(call(2, turn * 1_000 + 200, false, 10, 80));
    }
    let report = rows.with_offsets().report_in(10_000);
    assert_eq!(report.count(), 100_000);
}
