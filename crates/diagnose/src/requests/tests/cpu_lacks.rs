//! Tests of time in which the thread that serves others had no CPU: who waits for the thread waits for a CPU, too.

use super::loops::event_loop;
use super::*;

const CPU: RequestPart = RequestPart::Cpu;
const QUEUED: RequestPart = RequestPart::Queued;
const PREEMPTED: RequestPart = RequestPart::Preempted;
const RUN_QUEUE: RequestPart = RequestPart::RunQueue;

/// Adds an interval in which another thread ran on the CPU.
fn preempt(rows: &mut Rows, from_ms: u64, to_ms: u64) {
    let times = (from_ms * MS, to_ms * MS);
    let row = preemption(70, times, (to_ms - from_ms) * MS, 1);
    rows.preemptions.push(row);
}

/// A loop is woken at 10 by two requests and runs from 15 on. Something else has its CPU from 17 to 27.
fn late_loop() -> Rows {
    let mut rows = event_loop();
    let times = (0, 10 * MS, 15 * MS);
    rows.waits.push(wait(70, times, WaitObject::Epoll, Some(1)));
    rows.read(1, 10, 16);
    preempt(&mut rows, 17, 27);
    rows.send(1, 30);
    rows.read(2, 10, 31);
    rows.send(2, 33);
    rows
}

#[test]
fn unread_request_waits_for_a_cpu_while_its_loop_has_none() {
    let rows = late_loop();
    assert_eq!(
        rows.parts_ms(1),
        [(CPU, 5), (PREEMPTED, 10), (RUN_QUEUE, 5)]
    );
    assert_eq!(
        rows.parts_ms(2),
        [(QUEUED, 5), (CPU, 3), (PREEMPTED, 10), (RUN_QUEUE, 5)]
    );
}

#[test]
fn quota_of_the_loop_is_that_of_requests_which_wait_for_it() {
    let mut rows = late_loop();
    rows.preemptions[0].quota_used_up = Some(true);
    let expected = [
        (QUEUED, 5),
        (CPU, 3),
        (RequestPart::CpuQuota, 10),
        (RUN_QUEUE, 5),
    ];
    assert_eq!(rows.parts_ms(2), expected);
}

#[test]
fn request_that_was_read_waits_for_a_cpu_while_its_loop_has_none() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 11);
    rows.read(2, 10, 13);
    // this one takes 150 ms; for 50 ms more, the thread has no CPU
    rows.read(3, 10, 20);
    preempt(&mut rows, 100, 150);
    rows.send(3, 220);
    rows.send(2, 221);
    rows.send(1, 222);
    assert_eq!(
        rows.parts_ms(3),
        [(QUEUED, 10), (CPU, 150), (PREEMPTED, 50)]
    );
    assert_eq!(rows.parts_ms(2), [(QUEUED, 153), (CPU, 8), (PREEMPTED, 50)]);
    assert_eq!(rows.parts_ms(1), [(QUEUED, 158), (CPU, 4), (PREEMPTED, 50)]);
}

#[test]
fn worker_that_waits_for_something_with_a_request_lets_others_queue() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    // it sleeps with the first request, and then has no CPU for 4 ms
    let times = (11 * MS, 41 * MS, 45 * MS);
    rows.waits.push(wait(70, times, WaitObject::Sleep, None));
    rows.send(1, 46);
    rows.read(2, 10, 47);
    rows.send(2, 48);
    assert_eq!(
        rows.parts_ms(1),
        [(CPU, 2), (RUN_QUEUE, 4), (RequestPart::Timer, 30)]
    );
    assert_eq!(rows.parts_ms(2), [(QUEUED, 32), (CPU, 2), (RUN_QUEUE, 4)]);
}

#[test]
fn lack_of_cpu_of_one_worker_is_none_of_anothers_connection() {
    let mut rows = event_loop();
    for (conn, tid, woken_ms, run_ms) in [(1, 70, 10, 18), (2, 71, 10, 10)] {
        let times = (0, woken_ms * MS, run_ms * MS);
        let row = wait(tid, times, WaitObject::Connection, Some(conn));
        rows.waits.push(row);
        let at_ns = (run_ms + 1) * MS;
        let taken = Call {
            unread_ns: Some(at_ns - 10 * MS),
            ..call(conn, at_ns, false, 10, tid)
        };
        rows.calls.push(taken);
        rows.calls.push(call(conn, 30 * MS, true, 10, tid));
    }
    preempt(&mut rows, 20, 25);
    assert_eq!(rows.parts_ms(1), [(CPU, 7), (PREEMPTED, 5), (RUN_QUEUE, 8)]);
    assert_eq!(rows.parts_ms(2), [(CPU, 20)]);
}
