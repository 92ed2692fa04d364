//! Tests of event loops with too few connections: a request waits for the one that another request has.

use super::loops::event_loop;
use super::*;
use crate::requests::loop_pool::{LoopPoolDigest, LoopPoolDigests};
use crate::requests::service::Side;

/// A loop with one connection to another server, 11: while client 1 has it, the request of client 2 waits.
fn pool_of_one() -> Rows {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    rows.send(11, 11);
    rows.epoll(11, 20, Some(2));
    rows.read(2, 20, 20);
    rows.epoll(21, 60, Some(11));
    rows.read(11, 60, 60);
    rows.send(1, 61);
    // free again: it is given to client 2
    rows.send(11, 62);
    rows.epoll(62, 112, Some(11));
    rows.read(11, 112, 112);
    rows.send(2, 113);
    rows
}

/// Returns the waits for a connection of all requests that the loop served.
fn loop_pool(rows: &Rows) -> LoopPoolDigest {
    loop_pools(rows).all
}

/// Returns the same, with those that the loop itself ended apart.
fn loop_pools(rows: &Rows) -> LoopPoolDigests {
    let rows = rows.clone().with_offsets();
    let table = rows.fill(rows.table(&[]), usize::MAX);
    let mut ids = table.services.ids();
    let server = ids.find(|id| table.services.key(*id).side == Side::Server);
    table.services.digest(server.expect("a server")).loop_pools
}

#[test]
fn a_request_waits_for_the_connection_that_another_has() {
    let rows = pool_of_one();
    let found = loop_pool(&rows);
    assert_eq!((found.requests, found.ns / MS), (1, 42));
    assert_eq!(
        rows.parts_ms(2),
        [(RequestPart::Cpu, 2), (RequestPart::Upstream, 91)]
    );
}

/// Two loops share one connection at a time: that of thread 71 reads the response, and wakes that of thread 70.
/// `served`: the connection with the request that this response is for. `is_parked`: thread 71 waits for more work in between.
fn make_two_loops(served: Option<u64>, is_parked: bool) -> Rows {
    let mut rows = event_loop();
    let epoll = |tid, (start_ms, end_ms): (u64, u64)| {
        let times = (start_ms * MS, end_ms * MS, end_ms * MS);
        wait(tid, times, WaitObject::Epoll, Some(12))
    };
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    rows.send(11, 11);
    rows.epoll(11, 20, Some(2));
    rows.read(2, 20, 20);
    rows.epoll(21, 40, Some(11));
    rows.read(11, 40, 40);
    rows.send(1, 41);
    rows.waits.push(epoll(71, (0, 41)));
    let read = served.map(|conn| call(conn, 41 * MS, false, 10, 71));
    rows.calls.extend(read);
    rows.calls.push(call(12, 42 * MS, true, 10, 71));
    rows.waits.push(epoll(71, (42, 60)));
    rows.calls.push(call(12, 60 * MS, false, 10, 71));
    if is_parked {
        let times = (60 * MS, 61 * MS, 61 * MS);
        rows.waits.push(wait(71, times, WaitObject::Futex, None));
    }
    rows.waits.push(woken_by(epoll(70, (41, 61)), 71));
    rows.send(11, 62);
    rows.epoll(62, 112, Some(11));
    rows.read(11, 112, 112);
    rows.send(2, 113);
    rows.calls.sort_by_key(|call| call.end_ns);
    rows.waits.sort_by_key(|wait| wait.end_ns);
    rows
}

#[test]
fn a_request_waits_for_what_another_loop_releases() {
    let found = loop_pool(&make_two_loops(Some(3), false));
    assert_eq!((found.requests, found.ns / MS), (1, 42));
}

/// A worker of a runtime wakes another one: what it read before says nothing of that.
#[test]
fn a_request_may_wait_for_another_worker_and_for_no_connection() {
    for (served, is_parked) in [(None, false), (Some(3), true)] {
        assert_eq!(loop_pool(&make_two_loops(served, is_parked)).requests, 0);
    }
}

/// The first request may wait for anything; the second one waits for the same connection, and longer.
#[test]
fn a_request_waits_on_though_one_before_may_wait_for_anything() {
    let mut rows = make_two_loops(None, false);
    rows.read(4, 20, 20);
    rows.send(11, 114);
    rows.epoll(114, 160, Some(11));
    rows.read(11, 160, 160);
    rows.send(4, 161);
    rows.calls.sort_by_key(|call| call.end_ns);
    rows.waits.sort_by_key(|wait| wait.end_ns);
    let found = loop_pools(&rows);
    assert_eq!((found.all.requests, found.all.ns / MS), (1, 94));
    // a connection may have been free meanwhile
    assert_eq!(found.of_own_loop.requests, 0);
}

#[test]
fn a_request_that_takes_a_free_connection_waits_for_none() {
    let mut rows = pool_of_one();
    // the loop waited before it sent: the connection was free, and the request waited for something else
    rows.calls.retain(|call| call.end_ns != 62 * MS);
    rows.waits.retain(|wait| wait.start_ns != 62 * MS);
    rows.epoll(62, 70, None);
    rows.send(11, 71);
    rows.epoll(72, 112, Some(11));
    rows.waits.sort_by_key(|wait| wait.end_ns);
    assert_eq!(loop_pool(&rows).requests, 0);
}

#[test]
fn a_request_waits_for_a_loop_that_blocks_and_for_no_connection() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    rows.read(2, 10, 11);
    for (client, asked_ms) in [(1, 12), (2, 62)] {
        rows.send(11, asked_ms);
        let (asked_ns, read_ns) = (asked_ms * MS, (asked_ms + 40) * MS);
        let times = (asked_ns, read_ns, read_ns);
        let blocked = wait(70, times, WaitObject::Connection, Some(11));
        rows.waits.push(blocked);
        rows.read(11, asked_ms + 40, asked_ms + 40);
        rows.send(client, asked_ms + 45);
    }
    assert_eq!(loop_pool(&rows).requests, 0);
    let parts = rows.parts_ms(2);
    let of = |wanted| parts.iter().find(|(part, _)| *part == wanted);
    assert_eq!(
        of(RequestPart::Upstream),
        Some(&(RequestPart::Upstream, 40))
    );
    assert!(
        of(RequestPart::Queued).is_some_and(|it| it.1 >= 40),
        "{parts:?}"
    );
}

#[test]
fn requests_of_one_request_in_turn_wait_for_no_connection() {
    let mut rows = event_loop();
    for at_ms in [0, 100, 200] {
        rows.epoll(at_ms, at_ms + 10, Some(1));
        rows.read(1, at_ms + 10, at_ms + 10);
        rows.send(11, at_ms + 11);
        rows.epoll(at_ms + 11, at_ms + 30, Some(11));
        rows.read(11, at_ms + 30, at_ms + 30);
        rows.send(11, at_ms + 31);
        rows.epoll(at_ms + 31, at_ms + 60, Some(11));
        rows.read(11, at_ms + 60, at_ms + 60);
        rows.send(1, at_ms + 61);
    }
    assert_eq!(loop_pool(&rows).requests, 0);
}

#[test]
fn a_request_that_is_read_in_the_round_of_the_release_waits_for_none() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    rows.send(11, 11);
    rows.epoll(11, 60, Some(11));
    rows.read(11, 60, 60);
    rows.send(1, 61);
    rows.read(2, 61, 62);
    rows.send(11, 63);
    rows.epoll(63, 112, Some(11));
    rows.read(11, 112, 112);
    rows.send(2, 113);
    assert_eq!(loop_pool(&rows).requests, 0);
}

/// Client 2 sends on the connection before client 1 has its response: they share it.
#[test]
fn requests_that_share_a_connection_wait_for_none() {
    let mut rows = event_loop();
    rows.epoll(0, 10, Some(1));
    rows.read(1, 10, 10);
    rows.send(11, 11);
    rows.epoll(11, 20, Some(2));
    rows.read(2, 20, 20);
    rows.send(11, 21);
    rows.epoll(22, 60, Some(11));
    rows.read(11, 60, 60);
    rows.send(1, 61);
    rows.send(11, 62);
    rows.epoll(62, 112, Some(11));
    rows.read(11, 112, 112);
    rows.send(2, 113);
    assert_eq!(loop_pool(&rows).requests, 0);
}
