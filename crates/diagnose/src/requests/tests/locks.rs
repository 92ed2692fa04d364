//! Waits for those who hold a lock: of a file, of the program, of a database.

use super::*;

/// Rows of a server: its thread 70 has a request from 10 to 40 ms.
fn served(waits: impl IntoIterator<Item = Wait>) -> Rows {
    let mut rows = Rows::server();
    rows.waits
        .push(wait(70, (0, 10 * MS, 10 * MS), WaitObject::Epoll, Some(1)));
    rows.calls.push(call(1, 10 * MS, false, 10, 70));
    rows.waits.extend(waits);
    rows.calls.push(call(1, 40 * MS, true, 10, 70));
    rows.waits.sort_by_key(|row| row.end_ns);
    rows.with_offsets()
}

/// Returns the only request.
fn judged(rows: &Rows) -> RequestRow {
    let mut requests = rows.requests();
    assert_eq!(requests.len(), 1);
    let request = requests.remove(0);
    check(&request);
    request
}

/// Makes a wait of PostgreSQL: for descriptors, without a time limit.
fn endless(tid: u32, (start_ns, end_ns): (u64, u64)) -> Wait {
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
        let request = judged(&served([woken_by(lock, 90)]));
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
    let request = judged(&served([other, woken_by(lock, 71)]));
    let lock = parts(&request)
        .into_iter()
        .find(|it| it.0 != RequestPart::Cpu);
    assert_eq!(lock, Some((RequestPart::Lock, 28 * MS)));
}

#[test]
fn a_signal_does_not_end_a_wait_that_goes_on() {
    let first = endless(70, (11 * MS, 21 * MS));
    let second = woken_by(endless(70, (21 * MS, 39 * MS)), 90);
    let request = judged(&served([first.clone(), second.clone()]));
    assert_eq!(
        parts(&request),
        [(RequestPart::Cpu, 2 * MS), (RequestPart::Process, 28 * MS)]
    );
    // a time limit is a timer, whatever comes next
    let limited = Wait {
        limit_ns: Some(10 * MS),
        ..first
    };
    let request = judged(&served([limited, second]));
    assert_eq!(
        parts(&request),
        [
            (RequestPart::Cpu, 2 * MS),
            (RequestPart::Timer, 10 * MS),
            (RequestPart::Process, 18 * MS)
        ]
    );
}

#[test]
fn a_time_limit_does_not_end_a_wait_for_a_lock_that_goes_on() {
    let other = wait(71, (0, MS, MS), WaitObject::Sleep, None);
    let first = wait(70, (11 * MS, 21 * MS, 21 * MS), WaitObject::Futex, None);
    let second = wait(70, (21 * MS, 39 * MS, 39 * MS), WaitObject::Futex, None);
    let request = judged(&served([
        other.clone(),
        first.clone(),
        woken_by(second.clone(), 71),
    ]));
    assert_eq!(
        parts(&request),
        [(RequestPart::Cpu, 2 * MS), (RequestPart::Lock, 28 * MS)]
    );
    // nobody ended it: a sleep
    let request = judged(&served([other, first, second]));
    assert_eq!(
        parts(&request),
        [(RequestPart::Cpu, 2 * MS), (RequestPart::Timer, 28 * MS)]
    );
}
