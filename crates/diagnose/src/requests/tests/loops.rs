//! Tests of event loops: requests that one thread serves at once.

use super::*;

/// A server with the connections 1 to 4, and 11 to 13 to another.
pub(super) fn event_loop() -> Rows {
    let served = (1..5).map(|conn| connection(conn, Role::Server, SERVER));
    let asked = (11..14).map(|conn| connection(conn, Role::Client, SERVER));
    Rows {
        connections: served.chain(asked).collect(),
        ..Rows::default()
    }
}

impl Rows {
    /// Adds a wait in epoll; `conn` is the connection that became ready.
    pub(super) fn epoll(&mut self, start_ms: u64, end_ms: u64, conn: Option<u64>) {
        let times = (start_ms * MS, end_ms * MS, end_ms * MS);
        self.waits.push(wait(70, times, WaitObject::Epoll, conn));
    }

    /// Adds a wait of the event loop that a request on `conn` ended, with a time limit until
    /// `due_ms`.
    fn epoll_until(&mut self, start_ms: u64, end_ms: u64, due_ms: u64, conn: u64) {
        self.epoll(start_ms, end_ms, Some(conn));
        let wait = self.waits.last_mut().expect("it");
        wait.limit_ns = Some((due_ms - start_ms) * MS);
    }

    /// Adds a sleep of the loop's thread.
    fn sleep(&mut self, start_ms: u64, end_ms: u64) {
        let times = (start_ms * MS, end_ms * MS, end_ms * MS);
        self.waits.push(wait(70, times, WaitObject::Sleep, None));
    }

    /// Adds a receive call at `at_ms` of a request that arrived before.
    pub(super) fn read(&mut self, conn: u64, arrived_ms: u64, at_ms: u64) {
        self.calls.push(Call {
            unread_ns: Some((at_ms - arrived_ms) * MS),
            ..call(conn, at_ms * MS, false, 10, 70)
        });
    }

    /// Adds a send call of 10 bytes on a connection.
    pub(super) fn send(&mut self, conn: u64, at_ms: u64) {
        self.calls.push(call(conn, at_ms * MS, true, 10, 70));
    }

    /// The parts of the first request of a connection, in ms.
    pub(super) fn parts_ms(&self, conn: u64) -> Vec<(RequestPart, u64)> {
        let id = format!("{conn}:q0");
        self.parts_ms_of(&id)
    }

    /// Returns the parts of one request, in milliseconds.
    fn parts_ms_of(&self, id: &str) -> Vec<(RequestPart, u64)> {
        let requests = self.clone().with_offsets().requests();
        requests.iter().for_each(check);
        let row = requests.iter().find(|row| row.id == id).expect("it");
        row.parts.iter().map(|(part, ns)| (part, ns / MS)).collect()
    }
}

#[test]
fn a_loop_that_computes_when_it_reads_answers_the_last_first() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 11);
    rows.read(2, 10, 13);
    // This one takes 200 ms.
    rows.read(3, 10, 20);
    rows.send(3, 220);
    rows.send(2, 221);
    rows.send(1, 222);
    let cpu = RequestPart::Cpu;
    let queued = RequestPart::Queued;
    assert_eq!(rows.parts_ms(3), [(queued, 10), (cpu, 200)]);
    assert_eq!(rows.parts_ms(2), [(queued, 203), (cpu, 8)]);
    assert_eq!(rows.parts_ms(1), [(queued, 208), (cpu, 4)]);
    let requests = rows.with_offsets().requests();
    let behind = |conn: u64| {
        let row = requests.iter().find(|row| row.id == format!("{conn}:q0"));
        let steps = &row.expect("it").path;
        steps.iter().filter_map(|step| step.behind).sum::<u64>()
    };
    assert_eq!((behind(1), behind(2)), (2, 2));
}

/// Returns the largest number of requests that one request waited behind.
fn queue_most(rows: &Rows) -> u64 {
    let report = rows.clone().with_offsets().report();
    let most = report.services.iter().map(|it| it.queue_most);
    most.max().expect("a service")
}

#[test]
fn a_loop_that_reads_all_and_then_answers_all_counts_each_request_once() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    // requests 2 and 3 are served both while 4 lies unread and until it is answered
    for conn in 1..5 {
        rows.read(conn, 10, 10 + conn);
    }
    for conn in 1..5 {
        rows.send(conn, 20 + 10 * conn);
    }
    assert_eq!(queue_most(&rows), 3);
    let requests = rows.with_offsets().requests();
    requests.iter().for_each(check);
}

#[test]
fn a_loop_that_answers_each_request_at_once_counts_those_before() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    for conn in 1..5 {
        rows.read(conn, 10, 10 * conn + 1);
        rows.send(conn, 10 * conn + 9);
    }
    assert_eq!(queue_most(&rows), 3);
}

#[test]
fn a_pipelining_client_counts_as_one_request_if_its_requests_are_read_at_once() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 11);
    rows.read(2, 10, 12);
    // client 1 had sent three requests
    for answer in 0..3 {
        rows.send(1, 20 + answer);
    }
    rows.send(2, 30);
    assert_eq!(queue_most(&rows), 1);
}

#[test]
fn each_request_of_a_pipelining_client_counts_if_it_is_read_alone() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    for request in 0..3 {
        rows.read(1, 10, 11 + 5 * request);
        rows.send(1, 14 + 5 * request);
    }
    rows.read(2, 10, 31);
    rows.send(2, 32);
    assert_eq!(queue_most(&rows), 3);
}

#[test]
fn a_loop_that_computes_when_it_sends_runs_one_after_the_other() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    rows.read(2, 10, 11);
    rows.send(1, 31);
    rows.send(2, 71);
    let cpu = RequestPart::Cpu;
    let queued = RequestPart::Queued;
    assert_eq!(rows.parts_ms(1), [(cpu, 21)]);
    assert_eq!(rows.parts_ms(2), [(queued, 21), (cpu, 40)]);
}

#[test]
fn times_between_reads_show_where_a_loop_computes() {
    let mut rows = event_loop();
    for round in 0..10 {
        let at = round * 1_000;
        rows.epoll(at, at + 10, Some(1));
        // It computes 50 ms after each read, and sends at the end, in the same order.
        rows.read(1, at + 10, at + 11);
        rows.read(2, at + 10, at + 61);
        rows.read(3, at + 10, at + 111);
        rows.send(1, at + 161);
        rows.send(2, at + 162);
        rows.send(3, at + 163);
    }
    let cpu = RequestPart::Cpu;
    let queued = RequestPart::Queued;
    assert_eq!(rows.parts_ms_of("1:q90"), [(queued, 100), (cpu, 51)]);
    assert_eq!(rows.parts_ms_of("3:q90"), [(queued, 102), (cpu, 51)]);
}

#[test]
fn an_upstream_request_is_that_of_the_request_that_asked() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    rows.send(11, 11);
    rows.read(2, 11, 12);
    rows.send(12, 13);
    rows.epoll(13, 20, Some(12));
    rows.read(12, 20, 21);
    rows.send(2, 22);
    rows.epoll(22, 50, Some(11));
    rows.read(11, 50, 51);
    rows.send(1, 52);
    let upstream = RequestPart::Upstream;
    assert_eq!(rows.parts_ms(1), [(RequestPart::Cpu, 3), (upstream, 39)]);
    assert_eq!(rows.parts_ms(2), [(RequestPart::Cpu, 4), (upstream, 7)]);
}

#[test]
fn a_response_from_upstream_that_lies_unread_is_queued() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    rows.send(11, 11);
    rows.epoll(11, 15, Some(2));
    rows.read(2, 15, 15);
    // The response came at 20, while the thread computed for another.
    rows.send(2, 40);
    rows.read(11, 20, 41);
    rows.send(1, 42);
    let expected = [
        (RequestPart::Queued, 20),
        (RequestPart::Cpu, 3),
        (RequestPart::Upstream, 9),
    ];
    assert_eq!(rows.parts_ms(1), expected);
}

#[test]
fn work_for_others_while_a_request_sleeps_is_its_sleep() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    rows.epoll(11, 20, Some(2));
    rows.read(2, 20, 20);
    rows.send(2, 30);
    // The time limit of this wait passed: nothing was ready.
    rows.epoll(30, 60, None);
    rows.send(1, 61);
    let parts = rows.parts_ms(1);
    assert_eq!(parts, [(RequestPart::Cpu, 2), (RequestPart::Timer, 49)]);
}

#[test]
fn rounds_of_a_busy_loop_are_no_queue() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    // It sleeps until 60, and the loop never has to wait.
    rows.read(1, 10, 10);
    for round in 0..5 {
        rows.read(2, 10 + round * 10, 12 + round * 10);
        rows.send(2, 19 + round * 10);
    }
    rows.send(1, 61);
    let expected = [
        (RequestPart::Queued, 10),
        (RequestPart::Cpu, 4),
        (RequestPart::Unknown, 37),
    ];
    assert_eq!(rows.parts_ms(1), expected);
}

/// A loop reads the first request and works for two others until 45. The first one's timer is due at `due_ms`.
fn busy_loop_with_timer(due_ms: u64) -> Rows {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    rows.epoll_until(11, 12, due_ms, 2);
    rows.read(2, 12, 12);
    rows.send(2, 30);
    rows.read(3, 12, 31);
    rows.send(3, 45);
    rows.send(1, 46);
    rows
}

#[test]
fn a_timer_that_is_due_in_the_work_for_others_ends_the_sleep() {
    let expected = [
        (RequestPart::Queued, 14),
        (RequestPart::Cpu, 2),
        (RequestPart::Timer, 20),
    ];
    // limits are known to 1 ms
    assert_eq!(busy_loop_with_timer(31).parts_ms(1), expected);
}

#[test]
fn a_timer_says_nothing_of_a_request_that_a_thread_pool_may_have() {
    let mut rows = busy_loop_with_timer(31);
    // thread 71 of the process ends a wait of the loop
    let slept = wait(71, (5 * MS, 10 * MS, 10 * MS), WaitObject::Sleep, None);
    let woken = wait(70, (10 * MS, 11 * MS, 11 * MS), WaitObject::Epoll, None);
    rows.waits.insert(1, slept);
    rows.waits.insert(2, woken_by(woken, 71));
    let parts = rows.parts_ms(1);
    let timer = parts.iter().find(|(part, _)| *part == RequestPart::Timer);
    assert_eq!(timer, None, "{parts:?}");
}

#[test]
fn a_blocking_call_is_of_the_request_that_is_sent_next() {
    let mut rows = event_loop();
    for at_ms in [0, 200, 400] {
        rows.epoll(at_ms, at_ms + 10, Some(1));
        rows.read(1, at_ms + 10, at_ms + 11);
        rows.read(2, at_ms + 10, at_ms + 12);
        // each handler sleeps, and the loop with it
        rows.sleep(at_ms + 13, at_ms + 63);
        rows.send(1, at_ms + 64);
        rows.sleep(at_ms + 65, at_ms + 115);
        rows.send(2, at_ms + 116);
    }
    let slept = |conn: u64| {
        let parts = rows.parts_ms_of(&format!("{conn}:q20"));
        let timer = parts.iter().find(|(part, _)| *part == RequestPart::Timer);
        timer.map(|(_, ms)| *ms)
    };
    assert_eq!([1, 2].map(slept), [Some(50), Some(50)]);
}

#[test]
fn the_timer_of_a_request_is_the_one_that_all_waits_allow() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    // the first timer is that of request 1; then request 2 has one that is due earlier
    rows.epoll_until(11, 12, 41, 2);
    rows.read(2, 12, 12);
    rows.epoll_until(13, 14, 20, 3);
    rows.read(3, 14, 14);
    rows.send(3, 45);
    rows.send(2, 46);
    rows.send(1, 47);
    let expected = [
        (RequestPart::Queued, 5),
        (RequestPart::Cpu, 2),
        (RequestPart::Timer, 30),
    ];
    assert_eq!(rows.parts_ms(1), expected);
}

#[test]
fn a_timer_that_is_due_later_is_of_something_else() {
    let unknown = (RequestPart::Unknown, 19);
    assert!(busy_loop_with_timer(50).parts_ms(1).contains(&unknown));
}

#[test]
fn a_loop_that_is_never_idle_sleeps_as_long_as_was_seen() {
    let mut rows = event_loop();
    for at in [0, 1_000, 2_000] {
        rows.epoll(at, at + 10, Some(1));
        rows.read(1, at + 10, at + 10);
        rows.epoll(at + 11, at + 31, None);
        rows.send(1, at + 32);
    }
    let at = 3_000;
    rows.epoll(at, at + 10, Some(1));
    rows.read(1, at + 10, at + 10);
    for round in 0..5 {
        rows.read(2, at + 10 + round * 10, at + 12 + round * 10);
        rows.send(2, at + 19 + round * 10);
    }
    rows.send(1, at + 61);
    // 20 ms were seen
    let expected = [
        (RequestPart::Queued, 27),
        (RequestPart::Cpu, 4),
        (RequestPart::Timer, 20),
    ];
    assert_eq!(rows.parts_ms_of("1:q30"), expected);
}

#[test]
fn handlers_of_earlier_requests_run_before_a_sleep_begins() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    rows.read(2, 10, 11);
    rows.read(3, 10, 12);
    // The handlers run in this order: the second one sleeps.
    rows.send(1, 40);
    rows.send(3, 50);
    rows.epoll(51, 60, None);
    rows.send(2, 61);
    let expected = [
        (RequestPart::Queued, 29),
        (RequestPart::Cpu, 2),
        (RequestPart::Timer, 20),
    ];
    assert_eq!(rows.parts_ms(2), expected);
}

/// Makes a loop that runs one request after the other, with two sleeps of 22 ms and two of 37 ms.
fn serial_loop() -> Rows {
    let mut rows = event_loop();
    for (round, sleep) in [5, 20, 5, 20].into_iter().enumerate() {
        let at = round as u64 * 1_000;
        rows.epoll(at, at + 10, Some(1));
        for conn in 1..4 {
            rows.read(conn, at + 10, at + 10 + conn);
        }
        rows.send(2, at + 20);
        rows.send(3, at + 28);
        // the first one sleeps; its handler ran before those of the others
        rows.epoll(at + 29, at + 29 + sleep, None);
        rows.send(1, at + 30 + sleep);
    }
    rows
}

#[test]
fn rounds_of_a_loop_bound_a_sleep_that_it_does_not_show() {
    let mut rows = serial_loop();
    let at = 4_000;
    rows.epoll(at, at + 10, Some(1));
    rows.read(1, at + 10, at + 11);
    rows.read(2, at + 10, at + 12);
    // the loop is never idle: a round each 10 ms
    for round in 0..4 {
        rows.send(2, at + 20 + round * 10);
        rows.read(2, at + 21 + round * 10, at + 22 + round * 10);
    }
    rows.send(1, at + 54);
    rows.send(2, at + 60);
    // a timer that was due before 32 was seen by the round before the last two; both lengths fit until 52
    let expected = [
        (RequestPart::Queued, 11),
        (RequestPart::Cpu, 4),
        (RequestPart::Timer, 28),
    ];
    assert_eq!(rows.parts_ms_of("1:q40"), expected);
}

#[test]
fn a_request_that_a_later_one_overtakes_slept() {
    let mut rows = serial_loop();
    let at = 4_000;
    rows.epoll(at, at + 10, Some(1));
    for conn in 1..4 {
        rows.read(conn, at + 10, at + 10 + conn);
    }
    rows.send(2, at + 20);
    rows.send(3, at + 28);
    rows.send(1, at + 60);
    let expected = [(RequestPart::Cpu, 34), (RequestPart::Timer, 16)];
    assert_eq!(rows.parts_ms_of("1:q40"), expected);
}

#[test]
fn a_sleep_over_more_rounds_than_are_read_keeps_its_begin() {
    let mut rows = serial_loop();
    let at = 4_000;
    rows.epoll(at, at + 10, Some(1));
    rows.read(1, at + 10, at + 11);
    rows.read(2, at + 10, at + 12);
    for round in 0..700 {
        rows.send(2, at + 20 + round * 10);
        rows.read(2, at + 21 + round * 10, at + 22 + round * 10);
    }
    rows.send(1, at + 7_014);
    rows.send(2, at + 7_020);
    let requests = rows.with_offsets().requests();
    let row = requests.iter().find(|row| row.id == "1:q40").expect("it");
    check(row);
    // two rounds of 10 ms, and the middle of what fits
    let timer_ms = row.parts.get(RequestPart::Timer) / MS;
    assert!((6_981..7_001).contains(&timer_ms), "{timer_ms}");
}

/// The thread of the pool is idle until the loop gives it the request, just before it waits.
#[test]
fn a_thread_that_was_idle_had_no_other_work() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    rows.read(2, 10, 11);
    rows.send(2, 59);
    let idle = (12 * MS, 61 * MS, 61 * MS);
    rows.waits
        .push(woken_by(wait(71, idle, WaitObject::Futex, None), 70));
    let done = wait(70, (60 * MS, 100 * MS, 100 * MS), WaitObject::Epoll, None);
    let slept = (61 * MS, 99 * MS, 99 * MS);
    rows.waits.push(wait(71, slept, WaitObject::Sleep, None));
    rows.waits.push(woken_by(done, 71));
    rows.send(1, 101);
    let parts = rows.parts_ms(1);
    assert!(parts.contains(&(RequestPart::Timer, 38)), "{parts:?}");
    let queued = parts.iter().find(|it| it.0 == RequestPart::Queued);
    assert!(queued.is_some_and(|it| it.1 >= 47), "{parts:?}");
}
