//! Tests of requests on made-up recordings, and properties that hold of any rows.

use std::rc::Rc;

use table::manifest::{Header, Loss};
use table::tables::{
    Call, Calls, Connection, Connections, Preemption, Preemptions, Process, Processes, StackFrame,
    StackFrames, Symbol, Symbols, TcpStage, TcpStages, UdpFlow, UdpFlows, UnixSocket, UnixSockets,
    Wait, Waits,
};
use table::{Caller, Columns, Role, WaitObject, Waker};

use super::history::{History, ThreadEventKind, ThreadPreemption};
use super::report::{RequestReport, RequestRow};
use super::{RequestFilter, RequestPart, RequestTable};
use crate::answer::RecordingState;
use crate::waits::NameTable;

mod any_rows;
mod begins;
mod bounds;
mod continued_waits;
mod contrast;
mod cpu_lacks;
mod holders;
mod loop_jobs;
mod loop_pools;
mod loops;
mod nesting;
mod parts;
mod turns;
mod udp;
mod windows;

const MS: u64 = 1_000_000;
const SERVER: u32 = 70;
const CLIENT: u32 = 80;

/// Rows of a recording.
#[derive(Debug, Clone, Default)]
struct Rows {
    connections: Vec<Connection>,
    calls: Vec<Call>,
    waits: Vec<Wait>,
    preemptions: Vec<Preemption>,
    stages: TcpStages,
    flows: Vec<UdpFlow>,
    sockets: Vec<UnixSocket>,
}

fn connection(conn: u64, role: Role, pid: u32) -> Connection {
    let (local, remote) = match role {
        Role::Client => ("10.0.0.2:50000", "10.0.0.1:80"),
        _ => ("10.0.0.1:80", "10.0.0.2:50000"),
    };
    Connection {
        netns: 1,
        role,
        pid: Some(pid),
        ..Connection::with_addresses(conn, local, remote)
    }
}

fn call(conn: u64, end_ns: u64, is_send: bool, bytes: i32, tid: u32) -> Call {
    Call {
        conn,
        end_ns,
        start_ns: None,
        blocked_ns: Some(0),
        runq_ns: Some(0),
        unread_ns: (!is_send).then_some(0),
        tcp_ns: None,
        is_send,
        asked_bytes: None,
        result: bytes,
        offset_end: 0,
        flags: 0,
        tid,
        pid: tid / 10 * 10,
        cpu: 0,
    }
}

fn wait(tid: u32, times: (u64, u64, u64), kind: WaitObject, conn: Option<u64>) -> Wait {
    let (start_ns, woken_ns, end_ns) = times;
    Wait {
        end_ns,
        start_ns,
        woken_ns: Some(woken_ns),
        tid,
        pid: tid / 10 * 10,
        kind,
        object: None,
        device: None,
        conn: conn.filter(|_| kind == WaitObject::Connection),
        fd: None,
        syscall: None,
        waker: Waker::Interrupt,
        waker_tid: None,
        waker_pid: None,
        ready_fd: conn.filter(|_| kind != WaitObject::Connection).map(|_| 5),
        ready_conn: conn.filter(|_| kind != WaitObject::Connection),
        ready_kind: None,
        uninterruptible: false,
        stack: None,
        kernel_stack: None,
        cpu: 0,
        limit_ns: None,
    }
}

fn woken_by(mut wait: Wait, tid: u32) -> Wait {
    wait.waker = Waker::Thread;
    wait.waker_tid = Some(tid);
    wait.waker_pid = Some(tid / 10 * 10);
    wait
}

/// Makes `count` times off the CPU until `end_ns`.
fn preemption(tid: u32, times: (u64, u64), off_cpu_ns: u64, count: u32) -> Preemption {
    let (start_ns, end_ns) = times;
    Preemption {
        end_ns,
        start_ns,
        off_cpu_ns,
        count,
        yields: 0,
        tid,
        pid: tid / 10 * 10,
        by_tid: None,
        by_pid: None,
        by_comm: None,
        quota_used_up: Some(false),
        cpu: 0,
    }
}

fn header() -> Header {
    serde_json::from_value(serde_json::json!({
        "format": 1, "whylat": "", "host": "", "boot_id": "", "kernel": "", "cpus": 1,
        "clocksource": "", "detail": "", "arguments": [], "started_ns": 0,
        "started_realtime_ns": 0, "jiffy_ns": 4_000_000,
    }))
    .expect("a header")
}

impl Rows {
    /// Makes the rows of a server with one connection and the threads 70 to 79.
    fn server() -> Self {
        Self {
            connections: vec![connection(1, Role::Server, SERVER)],
            ..Self::default()
        }
    }

    /// The same of a client: 80 to 89.
    fn client() -> Self {
        Self {
            connections: vec![connection(1, Role::Client, CLIENT)],
            ..Self::default()
        }
    }

    /// Makes the rows of a server that reads a request, asks another server, and answers 12 ms later.
    fn asking_server() -> Self {
        let mut rows = Self::server();
        rows.connections.push(connection(2, Role::Client, SERVER));
        rows.waits
            .push(wait(70, (0, 10 * MS, 10 * MS), WaitObject::Epoll, Some(1)));
        rows.calls.push(call(1, 10 * MS, false, 10, 70));
        rows.calls.push(call(2, 11 * MS, true, 10, 70));
        // meanwhile the thread serves others
        rows.waits.push(wait(
            70,
            (12 * MS, 13 * MS, 13 * MS),
            WaitObject::Epoll,
            None,
        ));
        rows.waits.push(wait(
            70,
            (14 * MS, 20 * MS, 20 * MS),
            WaitObject::Epoll,
            Some(2),
        ));
        rows.calls.push(call(2, 21 * MS, false, 10, 70));
        rows.calls.push(call(1, 22 * MS, true, 10, 70));
        rows
    }

    /// Gives calls that have none the offsets of a stream without gaps.
    fn with_offsets(mut self) -> Self {
        let mut ends = std::collections::HashMap::<(u64, bool), u64>::new();
        self.calls.sort_by_key(|call| call.end_ns);
        for call in &mut self.calls {
            let end = ends.entry((call.conn, call.is_send)).or_default();
            *end += u64::try_from(call.result).unwrap_or(0);
            call.offset_end = *end;
        }
        self
    }

    /// The recording goes on for a second after the last call.
    fn with_end(mut self) -> Self {
        let last_ns = self.calls.iter().map(|call| call.end_ns).max();
        let end_ns = last_ns.unwrap_or(0) + 1_000 * MS;
        let times = (end_ns - 1, end_ns, end_ns);
        self.waits.push(wait(79, times, WaitObject::Sleep, None));
        self
    }

    /// Returns the names of connections, flows and two processes.
    fn names(&self) -> Rc<NameTable> {
        let mut names = NameTable::default().with_stacks();
        let mut columns = Connections::default();
        self.connections
            .iter()
            .for_each(|row| columns.push(row.clone()));
        names.add_connections(&columns);
        let mut flows = UdpFlows::default();
        self.flows.iter().for_each(|row| flows.push(row.clone()));
        names.add_udp_flows(&flows);
        let mut sockets = UnixSockets::default();
        self.sockets
            .iter()
            .for_each(|row| sockets.push(row.clone()));
        names.add_unix_sockets(&sockets);
        let mut processes = Processes::default();
        for (pid, comm) in [(SERVER, "server"), (CLIENT, "client")] {
            processes.push(Process {
                pid,
                time_ns: 0,
                started_ns: Some(0),
                comm: comm.to_owned(),
                exe: None,
                cgroup: None,
                container: None,
                pod: None,
                pod_namespace: None,
                workload: None,
                workload_kind: None,
                workload_source: None,
                uid: None,
            });
        }
        names.add_processes(&processes);
        add_stack(&mut names, HANDSHAKE, "SSL_do_handshake");
        add_stack(&mut names, RESULT, "Future.result");
        add_stack(&mut names, CONDITION, "Condition.wait");
        names.complete()
    }

    /// Returns the report of all rows, added at once.
    fn report(&self) -> RequestReport {
        self.report_in(usize::MAX)
    }

    /// Returns the report of rows that come in batches of this size.
    fn report_in(&self, batch: usize) -> RequestReport {
        self.report_of(batch, &[])
    }

    /// Returns the report if `lost` of 1,000 records of a probe were lost.
    fn report_with_loss(&self, probe: &str, lost: u64) -> RequestReport {
        let loss = Loss {
            probe: probe.to_owned(),
            produced: 1_000,
            stored: 1_000 - lost,
            filtered: 0,
            lost: [("ring".to_owned(), lost)].into(),
        };
        self.report_of(usize::MAX, &[loss])
    }

    /// Returns the report of rows that come in batches of this size, with these losses.
    fn report_of(&self, batch: usize, loss: &[Loss]) -> RequestReport {
        let table = self.fill(self.table(loss), batch);
        table.report(RecordingState::default())
    }

    /// Makes the analysis, without a row.
    fn table(&self, loss: &[Loss]) -> RequestTable {
        let filter = (RequestFilter::default(), usize::MAX);
        let manifest = (&[][..], loss);
        RequestTable::new(header(), self.names(), manifest, filter)
    }

    /// Adds all rows, in batches of this size.
    fn fill(&self, mut table: RequestTable, batch: usize) -> RequestTable {
        table.add_stages(&self.stages);
        table.begin_rows();
        let batch = batch.clamp(1, self.calls.len().max(self.waits.len()).max(1));
        for rows in self.waits.chunks(batch) {
            let mut columns = Waits::default();
            rows.iter().for_each(|row| columns.push(row.clone()));
            table.add_waits(Some(&columns));
        }
        for rows in self.calls.chunks(batch) {
            let mut columns = Calls::default();
            rows.iter().for_each(|row| columns.push(row.clone()));
            table.add_calls(Some(&columns));
        }
        for rows in self.preemptions.chunks(batch) {
            let mut columns = Preemptions::default();
            rows.iter().for_each(|row| columns.push(row.clone()));
            table.add_preemptions(Some(&columns));
        }
        table.add_waits(None);
        table.add_calls(None);
        table.add_preemptions(None);
        table.finish();
        table
    }

    /// The requests in the order of time.
    fn requests(&self) -> Vec<RequestRow> {
        let mut requests = self.report().requests;
        requests.sort_by_key(|row| row.begin_ns);
        requests
    }
}

/// Number of a stack in a TLS handshake.
const HANDSHAKE: u32 = 1;

/// Number of a stack that waits for the result of a job.
const RESULT: u32 = 2;

/// Number of a stack that waits for a condition.
const CONDITION: u32 = 3;

/// Names a stack of one function.
fn add_stack(names: &mut NameTable, number: u32, function: &str) {
    let mut frames = StackFrames::default();
    frames.push(StackFrame {
        time_ns: 0,
        stack: number,
        depth: 0,
        pid: Some(SERVER),
        object: Some("program".to_owned()),
        build_id: None,
        offset: Some(u64::from(number)),
        caller: Caller::ALL[0],
    });
    names.add_frames(&frames);
    let mut symbols = Symbols::default();
    symbols.push(Symbol {
        time_ns: 0,
        object: "program".to_owned(),
        build_id: None,
        offset: u64::from(number),
        level: 0,
        function: Some(function.to_owned()),
        source: None,
        line: None,
    });
    names.add_symbols(&symbols);
}

fn parts(row: &RequestRow) -> Vec<(RequestPart, u64)> {
    row.parts.iter().collect()
}

/// Checks the invariants of a request.
fn check(row: &RequestRow) {
    assert_eq!(row.parts.total_ns(), row.duration_ns, "{row:?}");
    let mut at_ns = 0;
    for step in &row.path {
        assert!(step.after_ns == at_ns || row.path_is_cut, "{row:?}");
        at_ns = step.after_ns + step.ns;
    }
    assert!(at_ns == row.duration_ns || row.path_is_cut, "{row:?}");
}

#[test]
fn page_counts_all_requests_and_holds_some() {
    const REQUESTS: u64 = 9_000;
    let mut rows = Rows::server();
    for turn in 1..=REQUESTS {
        let (at, took) = (turn * 100 * MS, (turn % 1_000 + 1) * 1_000);
        rows.calls.push(call(1, at, false, 100, 70));
        rows.calls.push(call(1, at + took, true, 10, 70));
    }
    let rows = rows.with_offsets();
    let table = rows.fill(rows.table(&[]).keeping_page(), usize::MAX);
    let (report, page) = table.page(RecordingState::default());
    let page = page.expect("the page was kept");
    let cells = &page.heat.cells;
    assert_eq!(cells.iter().map(|cell| cell.4).sum::<u64>(), REQUESTS);
    assert_eq!(report.count(), REQUESTS);
    assert!(
        cells
            .iter()
            .all(|(service, .., bin, _, _)| *service == 0 && *bin < 240)
    );
    let held: Vec<_> = page.held.iter().map(|it| it.duration_ns).collect();
    assert!(held.is_sorted_by(|a, b| a >= b));
    assert!((4_000..=4_100).contains(&held.len()), "{}", held.len());
    // The slowest hundred are there: nine each of the longest durations.
    let slow = held.iter().filter(|ns| **ns >= 990_000).count();
    assert!(slow >= 99, "{slow}");
    let names: std::collections::HashSet<_> = page.held.iter().map(|it| &it.id).collect();
    assert_eq!(names.len(), held.len());
}

#[test]
fn turns_become_requests() {
    let mut rows = Rows::server();
    for turn in 1..=20 {
        let at = turn * 10 * MS;
        rows.waits.push(wait(
            70,
            (at - 5 * MS, at, at + 1_000),
            WaitObject::Epoll,
            Some(1),
        ));
        let taken = Call {
            unread_ns: Some(1_000),
            ..call(1, at + 2_000, false, 100, 70)
        };
        rows.calls.push(taken);
        // a response of two calls is one turn
        rows.calls.push(call(1, at + 500_000, true, 1_000, 70));
        rows.calls.push(call(1, at + MS, true, 1_000, 70));
    }
    let rows = rows.with_offsets().with_end();
    let report = rows.report();
    let [service] = report.services.as_slice() else {
        panic!("{:?}", report.services)
    };
    assert_eq!(
        (service.requests, service.address.as_str()),
        (20, "10.0.0.1:80")
    );
    assert_eq!(service.name, "server");
    let requests = rows.requests();
    requests.iter().for_each(check);
    let first = &requests[0];
    assert_eq!((first.request, first.response), ((0, 100), (0, 2_000)));
    assert_eq!(first.begin_ns, 10 * MS);
    assert_eq!(
        parts(first),
        [
            (RequestPart::Cpu, MS - 1_000),
            (RequestPart::RunQueue, 1_000)
        ]
    );
}

#[test]
fn bytes_that_cross_are_no_requests() {
    let mut rows = Rows::server();
    for turn in 1..=20 {
        let at = turn * 10 * MS;
        // the next request came 4 ms before the response to the one before was sent
        let taken = Call {
            unread_ns: Some(4 * MS + 1_000),
            ..call(1, at, false, 100, 70)
        };
        rows.calls.push(taken);
        rows.calls.push(call(1, at + 9 * MS, true, 1_000, 70));
    }
    let rows = rows.with_offsets();
    let report = rows.report();
    assert_eq!(report.count(), 0);
    let why: Vec<_> = report.not_requests.iter().map(|it| it.why).collect();
    assert!(
        matches!(why.as_slice(), [why] if why.starts_with("interleaved")),
        "{why:?}"
    );
}

#[test]
fn one_direction_is_no_request() {
    let mut rows = Rows::client();
    for turn in 1..=20 {
        rows.calls.push(call(1, turn * MS, true, 1_000, 80));
    }
    let report = rows.with_offsets().report();
    assert_eq!(report.count(), 0);
    assert!(report.not_requests[0].why.starts_with("one_way"));
}

#[test]
fn a_window_update_does_not_end_a_turn() {
    let mut rows = Rows::server();
    rows.calls.push(call(1, MS, false, 100, 70));
    for chunk in 1..=10 {
        let at = MS + chunk * MS;
        rows.calls.push(call(1, at, true, 32_768, 70));
        // it came while the server still sent
        let update = Call {
            unread_ns: Some(500_000),
            ..call(1, at + 10_000, false, 13, 70)
        };
        rows.calls.push(update);
    }
    let requests = rows.with_offsets().with_end().requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].response, (0, 327_680));
    assert_eq!(requests[0].duration_ns, 10 * MS);
}

#[test]
fn responses_to_requests_from_before_the_recording_are_none() {
    let mut rows = Rows::server();
    rows.calls.push(call(1, MS, true, 500, 70));
    rows.calls.push(call(1, 2 * MS, false, 100, 70));
    rows.calls.push(call(1, 3 * MS, true, 500, 70));
    // and this one is not answered any more
    rows.calls.push(call(1, 4 * MS, false, 100, 70));
    let report = rows.with_offsets().report();
    assert_eq!((report.count(), report.unanswered), (1, 1));
}

#[test]
fn bytes_that_are_known_to_a_jiffy_only_do_not_cross() {
    let mut rows = Rows::server();
    for turn in 1..=20 {
        let at = turn * 10 * MS;
        let taken = Call {
            unread_ns: Some(4 * MS),
            ..call(1, at, false, 100, 70)
        };
        rows.calls.push(taken);
        rows.calls.push(call(1, at + 9 * MS, true, 1_000, 70));
    }
    let rows = rows.with_offsets();
    assert_eq!(rows.report().count(), 20);
    rows.requests().iter().for_each(check);
}
