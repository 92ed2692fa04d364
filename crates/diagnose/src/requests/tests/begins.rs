//! Tests of when requests begin at the client.

use super::*;

/// Makes a client's send call; TCP transmitted `tcp_before_ns` before its end.
fn sent(end_ns: u64, tcp_before_ns: u64) -> Call {
    Call {
        tcp_ns: Some(end_ns - tcp_before_ns),
        ..call(1, end_ns, true, 10, 80)
    }
}

#[test]
fn request_begins_when_tcp_transmits_it() {
    let mut rows = Rows::client();
    for turn in 1..=20 {
        let at = turn * 10 * MS;
        rows.calls.push(sent(at, 80_000));
        rows.calls.push(call(1, at + MS, false, 10, 80));
    }
    let requests = rows.with_offsets().requests();
    assert_eq!(requests.len(), 20);
    for row in &requests {
        check(row);
        assert_eq!(row.duration_ns, MS + 80_000);
    }
}

#[test]
fn send_call_that_blocked_begins_a_request() {
    let mut rows = Rows::client();
    rows.calls.push(Call {
        start_ns: Some(4 * MS),
        ..call(1, 10 * MS, true, 10, 80)
    });
    rows.calls.push(call(1, 12 * MS, false, 10, 80));
    let requests = rows.with_offsets().requests();
    assert_eq!(requests[0].begin_ns, 4 * MS);
    assert_eq!(requests[0].duration_ns, 8 * MS);
}

/// The server takes the client's CPU within the send call, and answers before that call ends.
#[test]
fn server_works_before_the_send_call_of_its_client_ends() {
    let mut rows = Rows::client();
    let mut server = connection(2, Role::Server, SERVER);
    server.peer_conn = Some(1);
    rows.connections[0].peer_conn = Some(2);
    rows.connections.push(server);
    let sleep = wait(80, (0, MS, MS), WaitObject::Sleep, None);
    let woken = wait(70, (0, 10 * MS, 11 * MS), WaitObject::Connection, Some(2));
    rows.waits.extend([sleep, woken]);
    rows.calls.push(Call {
        start_ns: Some(0),
        ..call(2, 11 * MS, false, 10, 70)
    });
    let disk = wait(70, (12 * MS, 14 * MS, 14 * MS), WaitObject::File, None);
    rows.waits.push(disk);
    rows.calls.push(call(2, 15 * MS, true, 10, 70));
    rows.calls.push(sent(16 * MS, 7 * MS));
    rows.calls.push(Call {
        unread_ns: Some(2 * MS),
        ..call(1, 17 * MS, false, 10, 80)
    });
    let requests = rows.with_offsets().requests();
    requests.iter().for_each(check);
    let asked = requests.iter().find(|row| row.id == "1:q0").expect("it");
    assert_eq!((asked.begin_ns, asked.duration_ns), (9 * MS, 8 * MS));
    assert_eq!(
        parts(asked),
        [
            (RequestPart::Cpu, 5 * MS),
            (RequestPart::RunQueue, MS),
            (RequestPart::Disk, 2 * MS)
        ]
    );
}

/// A server looks up the client's name before it greets, as MySQL does.
#[test]
fn first_request_begins_with_the_connection_if_the_server_greets() {
    let mut rows = Rows::server();
    rows.connections[0].opened_ns = Some(10 * MS);
    let accepted = wait(70, (0, 10 * MS, 10 * MS), WaitObject::Listener, None);
    let looking = wait(70, (11 * MS, 31 * MS, 31 * MS), WaitObject::Sleep, None);
    let login = wait(
        70,
        (32 * MS, 33 * MS, 33 * MS),
        WaitObject::Connection,
        Some(1),
    );
    rows.waits.extend([accepted, looking, login]);
    rows.calls.push(call(1, 32 * MS, true, 80, 70));
    rows.calls.push(call(1, 34 * MS, false, 100, 70));
    rows.calls.push(call(1, 35 * MS, true, 10, 70));
    let requests = rows.clone().with_offsets().requests();
    check(&requests[0]);
    assert_eq!(
        (requests[0].begin_ns, requests[0].duration_ns),
        (10 * MS, 25 * MS)
    );
    let timer = parts(&requests[0])
        .into_iter()
        .find(|it| it.0 == RequestPart::Timer);
    assert_eq!(timer, Some((RequestPart::Timer, 20 * MS)));
    // a login long after the greeting is another matter
    for call in rows.calls.iter_mut().skip(1) {
        call.end_ns += 100 * MS;
    }
    rows.waits.truncate(2);
    let requests = rows.with_offsets().requests();
    assert_eq!(requests[0].begin_ns, 134 * MS);
}

#[test]
fn client_waits_for_the_greeting_with_its_first_request() {
    let mut rows = Rows::client();
    rows.connections[0].connect_ns = Some(MS);
    rows.connections[0].opened_ns = Some(2 * MS);
    let greeting = wait(
        80,
        (3 * MS, 23 * MS, 23 * MS),
        WaitObject::Connection,
        Some(1),
    );
    rows.waits.push(greeting);
    rows.calls.push(call(1, 24 * MS, false, 80, 80));
    rows.calls.push(call(1, 25 * MS, true, 100, 80));
    rows.calls.push(call(1, 26 * MS, false, 10, 80));
    let requests = rows.with_offsets().requests();
    check(&requests[0]);
    assert_eq!(
        (requests[0].begin_ns, requests[0].duration_ns),
        (MS, 25 * MS)
    );
    let remote = parts(&requests[0])
        .into_iter()
        .find(|it| it.0 == RequestPart::Remote);
    assert_eq!(remote.map(|it| it.1 >= 20 * MS), Some(true));
}
