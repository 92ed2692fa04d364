//! Tests of turn-taking: control messages, pushes, half-closed connections, and what is judged again.

use super::*;
use crate::requests::resets::{LostRequest, ReadExtent};

/// Returns why connections have no requests.
fn whys(report: &RequestReport) -> Vec<&'static str> {
    let whys = report.not_requests.iter().map(|it| it.why);
    whys.map(|why| why.split(':').next().unwrap_or(why))
        .collect()
}

/// Adds a request of 100 bytes and its response of 1,000; the request arrived `late_ms` before it
/// was read.
fn exchange(rows: &mut Rows, at_ms: u64, late_ms: u64) {
    let at_ns = at_ms * MS;
    rows.calls.push(Call {
        unread_ns: Some(late_ms * MS + 1_000),
        ..call(1, at_ns, false, 100, 70)
    });
    rows.calls.push(call(1, at_ns + 2 * MS, true, 1_000, 70));
}

#[test]
fn a_small_message_that_crosses_is_no_request() {
    let mut rows = Rows::server();
    for turn in 1..=20 {
        let at = turn * 10 * MS;
        rows.calls.push(call(1, at, false, 100, 70));
        rows.calls.push(call(1, at + MS, true, 1_000, 70));
        // a PING in a TLS record came while the server computed
        rows.calls.push(call(1, at + 3 * MS, true, 1_000, 70));
        let ping = Call {
            unread_ns: Some(MS),
            ..call(1, at + 3 * MS + 1, false, 39, 70)
        };
        rows.calls.push(ping);
        rows.calls.push(call(1, at + 4 * MS, true, 1_000, 70));
    }
    let rows = rows.with_offsets().with_end();
    let report = rows.report();
    assert_eq!((report.count(), whys(&report)), (20, vec![]));
}

#[test]
fn small_requests_that_cross_are_detected() {
    let mut rows = Rows::server();
    for turn in 1..=40 {
        let at = turn * 10 * MS;
        // as large as all requests are, and it had arrived before the last response was sent
        let taken = Call {
            unread_ns: Some(5 * MS),
            ..call(1, at, false, 30, 70)
        };
        rows.calls.push(taken);
        rows.calls.push(call(1, at + 8 * MS, true, 10_000, 70));
    }
    let report = rows.with_offsets().report();
    assert_eq!((report.count(), whys(&report)), (0, vec!["interleaved"]));
}

#[test]
fn window_update_between_requests_is_no_request() {
    let mut rows = Rows::server();
    for turn in 1..=20 {
        let at = turn * 10 * MS;
        rows.calls.push(call(1, at, false, 100, 70));
        rows.calls.push(call(1, at + MS, true, 100_000, 70));
        rows.calls.push(call(1, at + 2 * MS, false, 13, 70));
    }
    let rows = rows.with_offsets();
    let report = rows.report();
    assert_eq!((report.count(), report.unanswered), (20, 0));
    let requests = rows.requests();
    assert!(
        requests.iter().all(|row| row.duration_ns == MS),
        "{requests:?}"
    );
}

#[test]
fn a_connection_that_begins_to_pipeline_is_judged_again() {
    let mut rows = Rows::server();
    (0..80).for_each(|turn| exchange(&mut rows, 10 + turn * 10, 0));
    let before = rows.clone();
    (80..160).for_each(|turn| exchange(&mut rows, 10 + turn * 10, 9));
    assert_eq!(before.with_offsets().report().count(), 80);
    let rows = rows.with_offsets();
    assert_eq!(rows.report().count(), 80);
    let last_ns = rows.requests().last().map(|row| row.begin_ns);
    assert!(last_ns < Some(810 * MS));
}

#[test]
fn connection_that_stops_pipelining_has_requests() {
    let mut rows = Rows::server();
    (0..16).for_each(|turn| exchange(&mut rows, 10 + turn * 10, 9));
    (16..160).for_each(|turn| exchange(&mut rows, 10 + turn * 10, 0));
    let report = rows.with_offsets().report();
    assert_eq!((report.count(), whys(&report)), (144, vec![]));
}

#[test]
fn what_a_server_sends_without_being_asked_is_no_response() {
    let mut rows = Rows::server();
    rows.connections.push(connection(2, Role::Server, SERVER));
    rows.calls.push(call(1, MS, false, 100, 70));
    rows.calls.push(call(1, 2 * MS, true, 20, 70));
    for number in 1..=20 {
        let at = number * 10 * MS;
        let idle = wait(70, (at - 5 * MS, at, at), WaitObject::Epoll, Some(2));
        rows.waits.push(idle);
        rows.calls.push(call(2, at + 1, false, 100, 70));
        rows.calls.push(call(1, at + 2 * MS, true, 200, 70));
        rows.calls.push(call(2, at + 3 * MS, true, 10, 70));
    }
    let report = rows.with_offsets().report();
    // those who publish are answered
    assert_eq!((report.count(), whys(&report)), (20, vec!["pushed"]));
}

#[test]
fn a_stream_that_the_recording_cuts_is_unfinished() {
    let mut rows = Rows::client();
    rows.calls.push(call(1, MS, true, 100, 80));
    for number in 1..=50 {
        rows.calls.push(call(1, number * 10 * MS, false, 200, 80));
    }
    assert_eq!(rows.clone().with_offsets().with_end().report().count(), 1);
    let report = rows.clone().with_offsets().report();
    assert_eq!((report.count(), report.unfinished), (0, 0));
    assert_eq!(whys(&report), ["pushed"]);
    // the client had all that it wanted, and closed
    rows.connections[0].closed_ns = Some(500 * MS + 1);
    let report = rows.with_offsets().report();
    assert_eq!((report.count(), report.unfinished), (1, 0));
}

#[test]
fn a_client_that_half_closes_is_answered() {
    for server in [true, false] {
        let mut rows = if server {
            Rows::server()
        } else {
            Rows::client()
        };
        let tid = if server { 70 } else { 80 };
        rows.connections[0].closed_ns = Some(15 * MS);
        rows.calls.push(call(1, MS, !server, 100, tid));
        if server {
            rows.calls.push(call(1, 2 * MS, false, 0, tid));
        }
        // parts of the response, the last one after the socket was closed
        rows.calls.push(call(1, 10 * MS, server, 100, tid));
        rows.calls.push(call(1, 20 * MS, server, 100, tid));
        if !server {
            rows.calls.push(call(1, 21 * MS, false, 0, tid));
        }
        let rows = rows.with_offsets();
        let requests = rows.requests();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].response, (0, 200));
        assert_eq!(rows.report().unanswered, 0);
    }
}

#[test]
fn finished_exchange_may_be_no_request() {
    let mut rows = Rows::server();
    rows.calls.push(call(1, MS, false, 517, 70));
    rows.calls.push(call(1, 2 * MS, true, 1_500, 70));
    // CCS and Finished, then the request at once: records are read in two calls each
    for (at, bytes) in [(30, 5), (31, 1), (32, 5), (33, 69), (34, 5), (35, 200)] {
        rows.calls.push(call(1, at * MS, false, bytes, 70));
    }
    rows.calls.push(call(1, 40 * MS, true, 900, 70));
    let mut names = rows.clone().with_offsets();
    names.waits.push(Wait {
        stack: Some(1),
        ..wait(
            70,
            (2 * MS, 30 * MS, 30 * MS),
            WaitObject::Connection,
            Some(1),
        )
    });
    let requests = names.requests();
    let ranges: Vec<_> = requests.iter().map(|row| row.request).collect();
    assert_eq!(ranges.last(), Some(&(517 + 80, 517 + 80 + 205)));
    requests.iter().for_each(check);
}

#[test]
fn missing_waits_are_not_computing() {
    let mut rows = Rows::server();
    rows.waits
        .push(wait(70, (0, 10 * MS, 10 * MS), WaitObject::Epoll, Some(1)));
    rows.calls.push(call(1, 10 * MS, false, 10, 70));
    rows.calls.push(call(1, 20 * MS, true, 10, 70));
    let rows = rows.with_offsets();
    let parts = |lost: u64| {
        let report = rows.report_with_loss("waits", lost);
        let parts: Vec<_> = report.requests[0].parts.iter().collect();
        parts[0].0
    };
    assert_eq!(parts(0), RequestPart::Cpu);
    assert_eq!(parts(50), RequestPart::Unknown);
}

/// Makes a client's requests, each answered after 8 ms; in some, a small message follows 5 ms after
/// the request.
fn with_late_messages(first_bytes: i32, late_bytes: i32, is_late: impl Fn(u64) -> bool) -> Rows {
    let mut rows = Rows::client();
    for turn in 1..=20 {
        let at = turn * 10 * MS;
        rows.calls.push(call(1, at, true, first_bytes, 80));
        if is_late(turn) {
            let times = (at, at + 5 * MS - 1, at + 5 * MS - 1);
            rows.waits.push(wait(81, times, WaitObject::Sleep, None));
            rows.calls.push(call(1, at + 5 * MS, true, late_bytes, 81));
        }
        let answered = Call {
            unread_ns: Some(1_000),
            ..call(1, at + 8 * MS, false, 164, 80)
        };
        rows.calls.push(answered);
        let times = (at + 1, at + 8 * MS - 1_000, at + 8 * MS - 1_000);
        let blocked = wait(80, times, WaitObject::Connection, Some(1));
        rows.waits.push(blocked);
    }
    rows.with_offsets()
}

/// Returns how long threads of all requests slept by a timer; checks each request.
fn timer_ns(rows: &Rows) -> u64 {
    let requests = rows.requests();
    requests.iter().for_each(check);
    let timers = requests.iter().map(|row| row.parts.get(RequestPart::Timer));
    timers.sum()
}

#[test]
fn a_ping_while_the_server_works_is_no_part_of_the_request() {
    let rows = with_late_messages(62, 17, |turn| turn % 4 == 2);
    assert_eq!((rows.report().count(), timer_ns(&rows)), (20, 0));
    assert!(
        rows.requests()
            .iter()
            .all(|row| row.request.1 - row.request.0 == 62)
    );
}

#[test]
fn the_late_rest_of_every_request_is_a_part_of_it() {
    let rows = with_late_messages(62, 17, |_| true);
    assert_eq!(timer_ns(&rows), 20 * (5 * MS - 1));
    // what comes late is no protocol's own message
    let rows = with_late_messages(62, 1_500, |turn| turn % 4 == 2);
    assert_eq!(timer_ns(&rows), 5 * (5 * MS - 1));
    // no request of that size was answered without it
    let rows = with_late_messages(62, 17, |turn| turn < 3);
    assert_eq!(timer_ns(&rows), 2 * (5 * MS - 1));
}

/// Returns the only request that a reset answered, if its server had read so many of its 1,000 bytes; the server's turns are over
/// before its client's.
fn lose_request(read_bytes: i32) -> LostRequest {
    let mut rows = Rows::server();
    let mut client = connection(2, Role::Client, CLIENT);
    client.peer_conn = Some(1);
    client.opened_ns = Some(MS);
    client.closed_ns = Some(90 * MS);
    client.errno = Some(104);
    rows.connections[0].peer_conn = Some(2);
    rows.connections[0].closed_ns = Some(90 * MS);
    rows.connections.push(client);
    for (conn, tid, is_client) in [(2, 80, true), (1, 70, false)] {
        rows.calls.push(call(conn, 10 * MS, is_client, 100, tid));
        rows.calls.push(call(conn, 20 * MS, !is_client, 100, tid));
    }
    rows.calls.push(call(2, 30 * MS, true, 1_000, 80));
    rows.calls.push(call(1, 40 * MS, false, read_bytes, 70));
    let rows = rows.with_offsets().with_end();
    let table = rows.fill(rows.table(&[]), usize::MAX);
    let services = table.services.ids();
    let lost = services.flat_map(|id| table.services.digest(id).resets.lost.clone());
    let lost: Vec<_> = lost.collect();
    assert_eq!(lost.len(), 1);
    lost[0]
}

#[test]
fn bytes_that_a_server_read_are_known_after_its_turns() {
    let lost = [0, 400, 1_000].map(lose_request);
    let read = lost.map(|it| it.read);
    assert_eq!(
        read,
        [ReadExtent::None, ReadExtent::Part, ReadExtent::Whole]
    );
    assert_eq!(lost.map(|it| it.responses), [Some(1); 3]);
}
