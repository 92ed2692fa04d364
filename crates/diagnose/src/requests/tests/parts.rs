//! Parts of the time of requests.

use super::*;

#[test]
fn a_request_waits_behind_others_of_its_thread() {
    let mut rows = Rows::server();
    rows.connections.push(connection(2, Role::Server, SERVER));
    rows.waits
        .push(wait(70, (0, 10 * MS, 10 * MS), WaitObject::Epoll, Some(2)));
    rows.calls.push(call(2, 10 * MS, false, 10, 70));
    rows.calls.push(call(2, 18 * MS, true, 10, 70));
    let taken = Call {
        unread_ns: Some(6 * MS),
        ..call(1, 19 * MS, false, 10, 70)
    };
    rows.calls.push(taken);
    rows.calls.push(call(1, 20 * MS, true, 10, 70));
    let requests = rows.with_offsets().requests();
    let queued = requests.iter().find(|row| row.id == "1:q0").expect("it");
    check(queued);
    assert_eq!(
        parts(queued),
        [(RequestPart::Queued, 5 * MS), (RequestPart::Cpu, 2 * MS)]
    );
    assert_eq!(queued.path[0].behind, Some(1));
}

#[test]
fn a_lock_takes_the_time_of_its_wait_and_a_handover_does_not() {
    let mut rows = Rows::server();
    // Thread 70 takes the request, and waits for a lock that 71 has.
    rows.waits
        .push(wait(70, (0, 10 * MS, 10 * MS), WaitObject::Epoll, Some(1)));
    rows.waits
        .push(wait(71, (0, MS, MS), WaitObject::Sleep, None));
    rows.calls.push(call(1, 10 * MS, false, 10, 70));
    let lock = wait(70, (11 * MS, 14 * MS, 14 * MS), WaitObject::Futex, None);
    rows.waits.push(woken_by(lock, 71));
    // Then 72, which had nothing to do, gets it from 70, and answers.
    let idle = wait(72, (MS, 15 * MS, 16 * MS), WaitObject::Futex, None);
    rows.waits.push(woken_by(idle, 70));
    rows.calls.push(call(1, 18 * MS, true, 10, 72));
    let requests = rows.with_offsets().requests();
    check(&requests[0]);
    assert_eq!(
        parts(&requests[0]),
        [
            (RequestPart::Cpu, 4 * MS),
            (RequestPart::RunQueue, MS),
            (RequestPart::Lock, 3 * MS)
        ]
    );
}

#[test]
fn preemption_and_quota_are_not_computing() {
    let mut rows = Rows::server();
    rows.waits
        .push(wait(70, (0, 10 * MS, 10 * MS), WaitObject::Epoll, Some(1)));
    rows.calls.push(call(1, 10 * MS, false, 10, 70));
    let one = preemption(70, (11 * MS, 14 * MS), 3 * MS, 1);
    let several = preemption(70, (14 * MS, 16 * MS), MS / 2, 20);
    let quota = Preemption {
        quota_used_up: Some(true),
        ..preemption(70, (17 * MS, 97 * MS), 80 * MS, 1)
    };
    // another thread's, and one that was over before
    let other = preemption(71, (11 * MS, 98 * MS), 87 * MS, 1);
    let before = preemption(70, (1_000, 2_000), 1_000, 1);
    rows.preemptions = vec![before, one, several, quota, other];
    rows.calls.push(call(1, 100 * MS, true, 10, 70));
    let requests = rows.with_offsets().requests();
    check(&requests[0]);
    assert_eq!(
        parts(&requests[0]),
        [
            (RequestPart::Cpu, 6 * MS + MS / 2),
            (RequestPart::Preempted, 3 * MS + MS / 2),
            (RequestPart::CpuQuota, 80 * MS),
        ]
    );
}

#[test]
fn late_preemption_row_is_accounted() {
    let mut history = History::default();
    let thread = history.thread(70, 70);
    let of = |off_cpu_ns| {
        ThreadEventKind::Preemption(ThreadPreemption {
            off_cpu_ns,
            is_quota: false,
        })
    };
    history.begin_serving(thread);
    history.add(thread, 5 * MS, of(5), 0);
    history.begin_serving(thread);
    history.add(thread, 6 * MS, of(6), 0);
    history.add(thread, MS, of(1), 0);
    let thread = history.get(thread);
    let events: Vec<_> = (0..3).map_while(|at| thread.event(at)).collect();
    let ends: Vec<_> = events.iter().map(|it| (it.end_ns, it.served)).collect();
    assert_eq!(ends, [(MS, 1), (5 * MS, 1), (6 * MS, 2)]);
    assert_eq!(thread.event_count_until(2 * MS), 1);
}

#[test]
fn a_request_that_a_request_makes_is_upstream() {
    let requests = Rows::asking_server().with_offsets().requests();
    let served = requests.iter().find(|row| row.id == "1:q0").expect("it");
    check(served);
    assert_eq!(
        parts(served),
        [(RequestPart::Cpu, 2 * MS), (RequestPart::Upstream, 10 * MS)]
    );
}

#[test]
fn a_write_that_nobody_reads_is_output_and_a_slow_disk_is_not() {
    let mut rows = Rows::server();
    rows.waits
        .push(wait(70, (0, 9 * MS, 10 * MS), WaitObject::Epoll, Some(1)));
    rows.calls.push(Call {
        unread_ns: Some(MS),
        ..call(1, 10 * MS, false, 10, 70)
    });
    let write = |times, kind, uninterruptible| Wait {
        syscall: Some(1),
        uninterruptible,
        ..woken_by(wait(70, times, kind, None), 90)
    };
    for (at, kind, uninterruptible) in [
        (11, WaitObject::Pipe, false),
        (13, WaitObject::File, false),
        (15, WaitObject::File, true),
    ] {
        let times = (at * MS, (at + 1) * MS, (at + 1) * MS);
        rows.waits.push(write(times, kind, uninterruptible));
    }
    let read = wait(70, (17 * MS, 18 * MS, 18 * MS), WaitObject::Pipe, None);
    rows.waits.push(woken_by(read, 90));
    rows.calls.push(call(1, 19 * MS, true, 10, 70));
    let requests = rows.with_offsets().requests();
    let [row] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    check(row);
    let part = |part| parts(row).iter().find(|it| it.0 == part).map(|it| it.1);
    assert_eq!(part(RequestPart::Output), Some(2 * MS));
    assert_eq!(part(RequestPart::Disk), Some(MS));
    assert_eq!(part(RequestPart::Process), Some(MS));
}

#[test]
fn a_client_shares_the_time_of_a_server_that_is_recorded() {
    let mut rows = Rows::client();
    let mut server = connection(2, Role::Server, SERVER);
    server.peer_conn = Some(1);
    rows.connections[0].peer_conn = Some(2);
    rows.connections.push(server);
    rows.waits
        .push(wait(80, (0, MS, MS), WaitObject::Sleep, None));
    rows.waits
        .push(wait(70, (0, 11 * MS, 12 * MS), WaitObject::Epoll, Some(2)));
    rows.calls.push(call(1, 10 * MS, true, 10, 80));
    rows.calls.push(Call {
        unread_ns: Some(MS),
        ..call(2, 12 * MS, false, 10, 70)
    });
    let disk = wait(70, (13 * MS, 17 * MS, 17 * MS), WaitObject::File, None);
    rows.waits.push(disk);
    rows.calls.push(call(2, 18 * MS, true, 10, 70));
    let woken = wait(
        80,
        (10 * MS, 19 * MS, 19 * MS),
        WaitObject::Connection,
        Some(1),
    );
    rows.waits.push(woken);
    rows.calls.push(Call {
        start_ns: Some(10 * MS),
        ..call(1, 20 * MS, false, 10, 80)
    });
    let requests = rows.with_offsets().requests();
    requests.iter().for_each(check);
    let asked = requests.iter().find(|row| row.id == "1:q0").expect("it");
    assert_eq!(
        parts(asked),
        [
            (RequestPart::Network, 2 * MS),
            (RequestPart::Cpu, 3 * MS),
            (RequestPart::RunQueue, MS),
            (RequestPart::Disk, 4 * MS)
        ]
    );
}

#[test]
fn stages_are_shared_by_those_that_waited() {
    let mut rows = Rows::client();
    for turn in 0..10 {
        let at = (turn + 1) * 10 * MS;
        let took = if turn == 4 { 9 * MS } else { MS };
        rows.calls.push(call(1, at, true, 10, 80));
        let waited = wait(
            80,
            (at, at + took, at + took),
            WaitObject::Connection,
            Some(1),
        );
        rows.waits.push(waited);
        let received = Call {
            start_ns: Some(at),
            ..call(1, at + took, false, 10, 80)
        };
        rows.calls.push(received);
    }
    let mut columns = TcpStages::default();
    columns.push(stage(0, 0));
    columns.push(stage(200 * MS, 8 * MS));
    rows.stages = columns;
    let requests = rows.with_offsets().requests();
    requests.iter().for_each(check);
    let shares: Vec<u64> = requests
        .iter()
        .map(|row| row.parts.get(RequestPart::RetransmitTimeout))
        .collect();
    assert!(shares[4] > 7 * MS, "{shares:?}");
    assert!(shares.iter().sum::<u64>() <= 8 * MS);
}

/// A reading of a ledger with so much time until a retransmission timeout.
fn stage(time_ns: u64, held_ns: u64) -> TcpStage {
    table::row_of(
        serde_json::json!({"conn": 1, "time_ns": time_ns, "retransmit_timeout_ns": held_ns}),
    )
    .expect("a row")
}
