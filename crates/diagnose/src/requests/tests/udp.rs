//! Tests of servers of datagrams: a request begins when its datagram comes into the socket.

use super::*;

/// Flows of four clients, from this one on.
const FIRST: u64 = 1 << 48;

/// Makes a server with one socket for the flows of four clients.
fn server() -> Rows {
    let flow = |number: u64| UdpFlow {
        conn: FIRST + number,
        time_ns: 0,
        socket: 9,
        inode: None,
        netns: 1,
        local: "10.0.0.1:53".to_owned(),
        remote: Some(format!("10.0.0.2:{}", 50_000 + number)),
        role: Role::Server,
        pid: Some(SERVER),
    };
    let mut rows = Rows {
        flows: (0..4).map(flow).collect(),
        ..Rows::default()
    };
    let times = (0, 10 * MS, 10 * MS);
    let first = wait(70, times, WaitObject::Datagram, Some(FIRST));
    rows.waits.push(first);
    rows
}

impl Rows {
    /// Adds a question that came at 10 ms, is read at `read_ms`, and answered 10 ms later.
    fn serve(&mut self, flow: u64, read_ms: u64) {
        let taken = Call {
            unread_ns: Some((read_ms - 10) * MS),
            ..call(FIRST + flow, read_ms * MS, false, 30, 70)
        };
        self.calls.push(taken);
        let answer = call(FIRST + flow, (read_ms + 10) * MS, true, 30, 70);
        self.calls.push(answer);
    }
}

#[test]
fn requests_of_a_saturated_server_are_queued_behind_others() {
    let mut rows = server();
    (0..4).for_each(|flow| rows.serve(flow, 10 + 11 * flow));
    let requests = rows.with_offsets().requests();
    requests.iter().for_each(check);
    let mut found: Vec<_> = requests.iter().map(parts).collect();
    found.sort();
    let expected = [
        vec![(RequestPart::Queued, 10 * MS), (RequestPart::Cpu, 11 * MS)],
        vec![(RequestPart::Queued, 21 * MS), (RequestPart::Cpu, 11 * MS)],
        vec![(RequestPart::Queued, 32 * MS), (RequestPart::Cpu, 11 * MS)],
        vec![(RequestPart::Cpu, 10 * MS)],
    ];
    assert_eq!(found, expected);
}

#[test]
fn time_of_a_datagram_is_never_known_to_a_jiffy_only() {
    let mut rows = server();
    rows.serve(0, 18);
    let requests = rows.with_offsets().requests();
    assert_eq!(requests[0].duration_ns, 18 * MS);
}

#[test]
fn next_question_of_a_client_is_queued_behind_the_one_before() {
    let mut rows = server();
    rows.serve(0, 10);
    rows.serve(0, 21);
    let requests = rows.with_offsets().requests();
    requests.iter().for_each(check);
    let last = requests.iter().find(|row| row.request.0 == 30);
    let expected = [(RequestPart::Queued, 10 * MS), (RequestPart::Cpu, 11 * MS)];
    assert_eq!(parts(last.expect("it")), expected);
}

#[test]
fn server_that_reads_at_once_has_no_queue() {
    let mut rows = server();
    rows.serve(0, 10);
    let requests = rows.with_offsets().requests();
    assert_eq!(parts(&requests[0]), [(RequestPart::Cpu, 10 * MS)]);
}
