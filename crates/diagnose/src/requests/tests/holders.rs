//! Waits for those who hold a lock, or have to read output.

use super::*;
use crate::requests::holder_times::HolderTimes;
use crate::requests::service::Side;

/// Rows of a server: its thread 70 has a request from 10 to 40 ms.
fn make_server_rows(waits: impl IntoIterator<Item = Wait>) -> Rows {
    let mut rows = Rows::server();
    rows.waits
        .push(wait(70, (0, 10 * MS, 10 * MS), WaitObject::Epoll, Some(1)));
    rows.calls.push(call(1, 10 * MS, false, 10, 70));
    rows.waits.extend(waits);
    rows.calls.push(call(1, 40 * MS, true, 10, 70));
    rows.waits.sort_by_key(|row| row.end_ns);
    rows.with_offsets()
}

/// Returns the only request, and what those did that it waited for.
fn judge_request(rows: &Rows) -> (RequestRow, HolderTimes) {
    let table = rows.fill(rows.table(&[]), usize::MAX);
    let ids = table.services.ids();
    let mut servers = ids.filter(|id| table.services.key(*id).side == Side::Server);
    let server = servers.next().expect("a server");
    let holders = table.services.digest(server).holders;
    let mut requests = rows.requests();
    assert_eq!(requests.len(), 1);
    let request = requests.remove(0);
    check(&request);
    (request, holders)
}

/// Makes a wait of PostgreSQL: for descriptors, without a time limit.
fn make_endless_wait(tid: u32, (start_ns, end_ns): (u64, u64)) -> Wait {
    Wait {
        syscall: Some(232),
        ..wait(tid, (start_ns, end_ns, end_ns), WaitObject::Epoll, None)
    }
}

#[test]
fn lock_of_a_file_is_no_disk() {
    for (syscall, part) in [
        (72, RequestPart::Process),
        (73, RequestPart::Process),
        (0, RequestPart::Disk),
    ] {
        let lock = Wait {
            syscall: Some(syscall),
            ..wait(70, (11 * MS, 39 * MS, 39 * MS), WaitObject::File, None)
        };
        let (request, _) = judge_request(&make_server_rows([woken_by(lock, 90)]));
        assert_eq!(
            parts(&request),
            [(RequestPart::Cpu, 2 * MS), (part, 28 * MS)]
        );
    }
    // another thread of the process had it
    let lock = Wait {
        syscall: Some(73),
        ..wait(70, (11 * MS, 39 * MS, 39 * MS), WaitObject::File, None)
    };
    let other = wait(71, (0, MS, MS), WaitObject::Sleep, None);
    let (request, _) = judge_request(&make_server_rows([other, woken_by(lock, 71)]));
    let lock = parts(&request)
        .into_iter()
        .find(|it| it.0 != RequestPart::Cpu);
    assert_eq!(lock, Some((RequestPart::Lock, 28 * MS)));
}

#[test]
fn a_signal_does_not_end_a_wait_that_goes_on() {
    let first = make_endless_wait(70, (11 * MS, 21 * MS));
    let second = woken_by(make_endless_wait(70, (21 * MS, 39 * MS)), 90);
    let (request, _) = judge_request(&make_server_rows([first.clone(), second.clone()]));
    assert_eq!(
        parts(&request),
        [(RequestPart::Cpu, 2 * MS), (RequestPart::Process, 28 * MS)]
    );
    // a time limit is a timer, whatever comes next
    let limited = Wait {
        limit_ns: Some(10 * MS),
        ..first
    };
    let (request, _) = judge_request(&make_server_rows([limited, second]));
    assert_eq!(
        parts(&request),
        [
            (RequestPart::Cpu, 2 * MS),
            (RequestPart::Timer, 10 * MS),
            (RequestPart::Process, 18 * MS)
        ]
    );
}

/// 91 waited for 92, and that for its client: the session of 92 is idle in a transaction.
#[test]
fn the_last_holder_counts() {
    let lock = woken_by(make_endless_wait(70, (11 * MS, 39 * MS)), 91);
    let behind = woken_by(make_endless_wait(91, (5 * MS, 38 * MS)), 92);
    let client = wait(
        92,
        (6 * MS, 37 * MS, 37 * MS),
        WaitObject::Connection,
        Some(2),
    );
    let mut rows = make_server_rows([lock, behind, client]);
    rows.connections.push(connection(2, Role::Server, 90));
    let (request, holders) = judge_request(&rows);
    let waiting = request
        .path
        .iter()
        .find(|it| it.part == RequestPart::Process);
    let waker = waiting.and_then(|step| step.woken_by.as_ref());
    assert_eq!(waker.map(|it| it.tid), Some(92), "{:?}", request.path);
    assert_eq!(
        holders.process.largest_part(),
        Some((RequestPart::Remote, 26 * MS))
    );
    assert!(holders.process.client.is_some());
}

#[test]
fn a_thread_with_a_lock_waits_for_its_client() {
    let times = |start: u64, end: u64| (start * MS, end * MS, end * MS);
    let judge = |lock_end_ms| {
        let lock = wait(70, times(11, lock_end_ms), WaitObject::Futex, None);
        let client = wait(71, times(6, 37), WaitObject::Connection, Some(2));
        let mut rows = make_server_rows([woken_by(lock, 71), client]);
        rows.connections.push(connection(2, Role::Server, SERVER));
        judge_request(&rows).1.lock
    };
    let holder = judge(39);
    let remote = Some((RequestPart::Remote, 26 * MS));
    assert_eq!(holder.largest_part(), remote);
    assert!(holder.client.is_some());
    // a short wait counts for nobody
    assert_eq!(judge(20).largest_part(), None);
}

/// A loop with a timer of its own every 4 ms: the request waits until another client's request comes, as `BLPOP` of redis does.
#[test]
fn timers_of_a_loop_do_not_hold_a_request_that_another_answers() {
    let tick = |start: u64, end: u64| Wait {
        limit_ns: Some(4 * MS),
        ..wait(
            70,
            (start * MS, end * MS, end * MS),
            WaitObject::Epoll,
            None,
        )
    };
    let pushed = Wait {
        limit_ns: Some(9 * MS),
        ..wait(70, (19 * MS, 21 * MS, 21 * MS), WaitObject::Epoll, Some(2))
    };
    let mut rows = make_server_rows([tick(11, 15), tick(15, 19), pushed]);
    rows.connections.push(connection(2, Role::Server, SERVER));
    rows.calls.pop();
    rows.calls.push(call(2, 21 * MS, false, 20, 70));
    rows.calls.push(call(1, 22 * MS, true, 10, 70));
    rows.calls.push(call(2, 23 * MS, true, 10, 70));
    let requests = rows.with_offsets().requests();
    let held = requests.iter().find(|row| row.id == "1:q0").expect("it");
    check(held);
    let part = |part| parts(held).iter().find(|it| it.0 == part).map(|it| it.1);
    assert_eq!(part(RequestPart::Timer), None, "{:?}", held.path);
    assert_eq!(part(RequestPart::Unknown), Some(10 * MS));
}

#[test]
fn a_time_limit_does_not_end_a_wait_for_a_lock_that_goes_on() {
    let other = wait(71, (0, MS, MS), WaitObject::Sleep, None);
    let at_one_place = |times| Wait {
        stack: Some(1),
        ..wait(70, times, WaitObject::Futex, None)
    };
    let first = at_one_place((11 * MS, 21 * MS, 21 * MS));
    let second = at_one_place((21 * MS, 39 * MS, 39 * MS));
    let (request, _) = judge_request(&make_server_rows([
        other.clone(),
        first.clone(),
        woken_by(second.clone(), 71),
    ]));
    assert_eq!(
        parts(&request),
        [(RequestPart::Cpu, 2 * MS), (RequestPart::Lock, 28 * MS)]
    );
    // nobody ended it: a sleep
    let (request, _) = judge_request(&make_server_rows([other, first, second]));
    assert_eq!(
        parts(&request),
        [(RequestPart::Cpu, 2 * MS), (RequestPart::Timer, 28 * MS)]
    );
}

/// The only thread of a pool does the job of another request until 20 ms, and then that of this one.
#[test]
fn a_request_waits_for_a_free_thread_of_a_pool() {
    let times = |start: u64, end: u64| (start * MS, end * MS, end * MS);
    let result = |tid, (start, end)| Wait {
        stack: Some(RESULT),
        ..woken_by(wait(tid, times(start, end), WaitObject::Futex, None), 71)
    };
    let sleep = |start, end| wait(71, times(start, end), WaitObject::Sleep, None);
    let of_other = [sleep(1, 20), result(72, (5, 20))];
    let of_own = [sleep(20, 39), result(70, (11, 39))];
    let judge = |waits: &[Wait]| parts(&judge_request(&make_server_rows(waits.to_vec())).0);
    assert_eq!(
        judge(&[of_other.as_slice(), of_own.as_slice()].concat()),
        [
            (RequestPart::Queued, 9 * MS),
            (RequestPart::Cpu, 2 * MS),
            (RequestPart::Timer, 19 * MS)
        ]
    );
    // no result before: all of it was its own job
    assert_eq!(
        judge(&[sleep(1, 20), sleep(20, 39), of_own[1].clone()]),
        [(RequestPart::Cpu, 2 * MS), (RequestPart::Timer, 28 * MS)]
    );
}

/// Returns the parts of a request that waits from 11 to 39 ms for a result, which thread 71 gave. `waits`: of that
/// thread; it gave another result at `before_ms`.
fn judge_result(waits: impl IntoIterator<Item = Wait>, before_ms: u64) -> Vec<(RequestPart, u64)> {
    let result = |tid, start: u64, end: u64| Wait {
        stack: Some(RESULT),
        ..woken_by(
            wait(
                tid,
                (start * MS, end * MS, end * MS),
                WaitObject::Futex,
                None,
            ),
            71,
        )
    };
    let results = [result(72, 5, before_ms), result(70, 11, 39)];
    parts(&judge_request(&make_server_rows(waits.into_iter().chain(results))).0)
}

/// Processes do the jobs at the same time, as those of Python's `multiprocessing.Pool` and `ProcessPoolExecutor`: the thread that
/// hands the results on does none.
#[test]
fn a_result_that_another_process_has_is_no_queue() {
    let expected = [(RequestPart::Cpu, 2 * MS), (RequestPart::Process, 28 * MS)];
    let read = |object, start: u64, end: u64| {
        woken_by(wait(71, (start * MS, end * MS, end * MS), object, None), 90)
    };
    for object in [WaitObject::Pipe, WaitObject::Poll] {
        let waits = [read(object, 1, 27), read(object, 27, 39)];
        assert_eq!(judge_result(waits, 27), expected);
        // two results come at once
        assert_eq!(judge_result([read(object, 1, 38)], 38), expected);
    }
}

/// The loop of asyncio does several jobs at once, as `run_coroutine_threadsafe` gives them to it; so do threads behind
/// the one that hands results on.
#[test]
fn a_result_of_one_that_has_many_jobs_is_no_queue() {
    let times = |start: u64, end: u64| (start * MS, end * MS, end * MS);
    let expected = [(RequestPart::Cpu, 2 * MS), (RequestPart::Unknown, 28 * MS)];
    let of_loop = |start, end| wait(71, times(start, end), WaitObject::Epoll, None);
    assert_eq!(
        judge_result([of_loop(1, 27), of_loop(27, 39)], 27),
        expected
    );
    let of_threads = |start, end| {
        let other = wait(73, (0, MS, MS), WaitObject::Sleep, None);
        let wait = wait(71, times(start, end), WaitObject::Futex, None);
        [other, woken_by(wait, 73)]
    };
    let waits = [of_threads(1, 27), of_threads(27, 39)].concat();
    assert_eq!(judge_result(waits, 27), expected);
}

/// A thread reads the responses to what others asked on a connection that they share.
#[test]
fn a_result_of_a_reader_of_responses_is_no_queue() {
    let of_server = |start: u64, end: u64| {
        let times = (start * MS, end * MS, end * MS);
        wait(71, times, WaitObject::Connection, Some(11))
    };
    let result = |tid, start: u64, end: u64| Wait {
        stack: Some(RESULT),
        ..woken_by(
            wait(
                tid,
                (start * MS, end * MS, end * MS),
                WaitObject::Futex,
                None,
            ),
            71,
        )
    };
    let mut rows = make_server_rows([
        of_server(1, 27),
        result(72, 5, 27),
        of_server(27, 39),
        result(70, 11, 39),
    ]);
    rows.connections.push(connection(11, Role::Client, SERVER));
    rows.calls.push(call(11, 5 * MS, true, 10, 72));
    rows.calls.push(call(11, 27 * MS, false, 10, 71));
    rows.calls.push(call(11, 39 * MS, false, 10, 71));
    let requests = rows.with_offsets().requests();
    let of_client = requests.iter().find(|row| row.id == "1:q0").expect("it");
    let parts = parts(of_client);
    let queued = parts.iter().find(|it| it.0 == RequestPart::Queued);
    assert_eq!(queued, None, "{parts:?}");
}

/// A thread writes a line from 11 to 30 ms, and then asks a database.
fn make_log_rows(rows: &mut Rows, tid: u32) -> u64 {
    let line = Wait {
        syscall: Some(1),
        ..wait(tid, (11 * MS, 30 * MS, 30 * MS), WaitObject::Pipe, None)
    };
    rows.waits.push(woken_by(line, 97));
    rows.calls.push(call(11, 31 * MS, true, 10, tid));
    rows.calls.push(call(11, 39 * MS, false, 10, tid));
    let rows = rows.clone().with_offsets();
    let table = rows.fill(rows.table(&[]), usize::MAX);
    let mut ids = table.services.ids();
    let client = ids.find(|id| table.services.key(*id).side == Side::Client);
    table.services.digest(client.expect("a client")).output.ns
}

#[test]
fn output_of_a_middle_tier_lies_in_its_requests() {
    let mut rows = make_server_rows([]);
    rows.connections.push(connection(11, Role::Client, SERVER));
    assert_eq!(make_log_rows(&mut rows, 70), 0);
    let requests = rows.with_offsets().requests();
    let served = requests.iter().find(|row| row.id == "1:q0").expect("it");
    let of = |wanted| parts(served).into_iter().find(|it| it.0 == wanted);
    assert_eq!(
        of(RequestPart::Output),
        Some((RequestPart::Output, 19 * MS))
    );
    // the same of a client that serves nobody
    let mut rows = Rows::default();
    rows.connections.push(connection(11, Role::Client, CLIENT));
    assert_eq!(make_log_rows(&mut rows, 80), 19 * MS);
}

/// Returns the parts of a request that waits from 11 to 39 ms for a condition. Thread 72 ends that. `before`: its wait until
/// 38 ms, for client 2 or for something else. `calls`: its calls for that client before.
fn judge_condition(
    before: Option<WaitObject>,
    calls: impl IntoIterator<Item = Call>,
) -> Vec<(RequestPart, u64)> {
    let waiting = Wait {
        stack: Some(CONDITION),
        ..woken_by(
            wait(70, (11 * MS, 39 * MS, 39 * MS), WaitObject::Futex, None),
            72,
        )
    };
    let times = |from: u64, to: u64| (from * MS, to * MS, to * MS);
    let of_client = |object| (object == WaitObject::Connection).then_some(2);
    let before = before.map(|it| wait(72, times(5, 38), it, of_client(it)));
    let after = wait(72, times(38, 39), WaitObject::Sleep, None);
    let waits = before.into_iter().chain([after, waiting]);
    let mut rows = make_server_rows(waits);
    rows.connections.push(connection(2, Role::Server, SERVER));
    rows.calls.extend(calls);
    rows.calls.sort_by_key(|row| row.end_ns);
    let requests = rows.with_offsets().requests();
    let own = requests.iter().find(|row| row.id == "1:q0").expect("it");
    parts(own)
}

/// Long polling: the request of another client brings the notice, and no thread had anything before.
#[test]
fn a_notice_of_another_client_is_no_lock() {
    let waits_for = |part| [(RequestPart::Cpu, 2 * MS), (part, 28 * MS)];
    let unknown = waits_for(RequestPart::Unknown);
    assert_eq!(judge_condition(Some(WaitObject::Connection), []), unknown);
    // its thread began with the connection
    assert_eq!(judge_condition(None, []), unknown);
    // it was busy, and may have had what the request waited for
    let sleep = judge_condition(Some(WaitObject::Sleep), []);
    assert_eq!(sleep, waits_for(RequestPart::Lock));
}

#[test]
fn a_lock_held_while_a_request_is_read_is_a_lock() {
    let of_client = |part| [(RequestPart::Cpu, 2 * MS), (part, 28 * MS)];
    let judge = |calls: &[(u64, bool)]| {
        let calls = calls
            .iter()
            .map(|(ms, is_send)| call(2, ms * MS, *is_send, 10, 72));
        judge_condition(Some(WaitObject::Connection), calls.collect::<Vec<_>>())
    };
    // it reads the rest of a body for most of the wait
    assert_eq!(
        judge(&[(3, true), (4, false)]),
        of_client(RequestPart::Lock)
    );
    // it had answered, and waits for the next request
    let answered = judge(&[(3, false), (4, true)]);
    assert_eq!(answered, of_client(RequestPart::Unknown));
}
