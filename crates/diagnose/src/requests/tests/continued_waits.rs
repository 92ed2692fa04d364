//! Waits that a time limit ended, and those that go on with them.

use super::*;

/// Returns the parts of the only request of a server: its thread 70 has it from 10 to 40 ms and waits for a futex from
/// 11 to 21 ms, at this stack, until a time limit; then until thread 71 wakes it, at the other stack.
fn parts_of_waits(first: Option<u32>, second: Option<u32>) -> Vec<(RequestPart, u64)> {
    let futex_at = |stack, times| Wait {
        stack,
        ..wait(70, times, WaitObject::Futex, None)
    };
    let mut rows = Rows::server();
    rows.waits = vec![
        wait(71, (0, MS, MS), WaitObject::Sleep, None),
        wait(70, (0, 10 * MS, 10 * MS), WaitObject::Epoll, Some(1)),
        futex_at(first, (11 * MS, 21 * MS, 21 * MS)),
        woken_by(futex_at(second, (22 * MS, 39 * MS, 39 * MS)), 71),
    ];
    rows.calls = vec![
        call(1, 10 * MS, false, 10, 70),
        call(1, 40 * MS, true, 10, 70),
    ];
    let requests = rows.with_offsets().requests();
    assert_eq!(requests.len(), 1);
    check(&requests[0]);
    parts(&requests[0])
}

#[test]
fn a_wait_goes_on_at_the_same_stack() {
    let expected = [(RequestPart::Cpu, 3 * MS), (RequestPart::Lock, 27 * MS)];
    assert_eq!(parts_of_waits(Some(5), Some(5)), expected);
}

#[test]
fn waits_at_other_or_unknown_stacks_are_waits_of_their_own() {
    let expected = [
        (RequestPart::Cpu, 3 * MS),
        (RequestPart::Lock, 17 * MS),
        (RequestPart::Timer, 10 * MS),
    ];
    for (first, second) in [(Some(5), Some(6)), (None, None), (Some(5), None)] {
        assert_eq!(
            parts_of_waits(first, second),
            expected,
            "{first:?} {second:?}"
        );
    }
}
