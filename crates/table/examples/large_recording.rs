//! Makes a large recording for benchmarks of what shows it: `large_recording OUTPUT [MESSAGES [SPANS [REQUESTS]]]`, by
//! default 100,000 received messages and a million spans, with waits between them, and no requests. Times are drawn, not
//! measured.

use std::error::Error;
use std::path::Path;

use whylat_table::manifest::{FORMAT, Header};
use whylat_table::tables::{
    Activities, Activity, Call, Calls, Connection, Connections, ReceivedMessage, ReceivedMessages,
    Wait, Waits,
};
use whylat_table::{
    ActivityKind, ActivitySource, Columns, Role, WaitObject, Waker, WriteOptions, Writer,
};

const STARTED_NS: u64 = 1_000_000_000_000;
/// Connections that the messages are of.
const CONNECTIONS: u64 = 97;
/// Threads that take them.
const THREADS: u32 = 8;
/// From one message to the next, ns.
const APART_NS: u64 = 50_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut given = std::env::args().skip(1);
    let output = given
        .next()
        .ok_or("usage: large_recording OUTPUT [MESSAGES [SPANS [REQUESTS]]]")?;
    let messages: u64 = given.next().map_or(Ok(100_000), |it| it.parse())?;
    let spans: u64 = given.next().map_or(Ok(1_000_000), |it| it.parse())?;
    let requests: u64 = given.next().map_or(Ok(0), |it| it.parse())?;
    let mut writer = Writer::create(Path::new(&output), &header(), WriteOptions::default())?;
    let mut dice = Dice(88_172_645_463_325_252);
    writer.append(received(messages, &mut dice))?;
    writer.append(waits(messages, &mut dice))?;
    writer.append(activity(spans, messages, &mut dice))?;
    append_requests(&mut writer, requests, &mut dice)?;
    writer.seal()?;
    let ended_ns = (messages * APART_NS).max(requests * REQUEST_APART_NS);
    writer.close(STARTED_NS + ended_ns)?;
    Ok(())
}

/// Connections that requests are of, and from one request to the next, ns.
const CLIENTS: u64 = 1_000;
const REQUEST_APART_NS: u64 = 10_000;

/// Requests between two writes.
const REQUESTS_AT_ONCE: u64 = 1 << 16;

/// Appends requests of a server with an epoll loop in each thread: a wait, a receive call and a
/// send call each.
fn append_requests(
    writer: &mut Writer,
    requests: u64,
    dice: &mut Dice,
) -> Result<(), Box<dyn Error>> {
    if requests == 0 {
        return Ok(());
    }
    let mut connections = Connections::default();
    (0..CLIENTS).for_each(|client| connections.push(connection(client)));
    writer.append(connections)?;
    for first in (0..requests).step_by(REQUESTS_AT_ONCE as usize) {
        let (mut calls, mut waits) = (Calls::default(), Waits::default());
        for number in first..requests.min(first + REQUESTS_AT_ONCE) {
            let at_ns = STARTED_NS + (number + 2) * REQUEST_APART_NS;
            let conn = CONNECTIONS + 1 + number % CLIENTS;
            waits.push(Wait {
                ready_fd: Some(5),
                ready_conn: Some(conn),
                ..wait(number, at_ns - 2 * REQUEST_APART_NS, at_ns, dice)
            });
            let times = if dice.below(100) == 0 { 50 } else { 1 };
            let took_ns = 2_000 + dice.below(20_000) * times;
            calls.push(call(number, at_ns + 1_000, false));
            calls.push(call(number, at_ns + took_ns, true));
        }
        writer.append(waits)?;
        writer.append(calls)?;
    }
    Ok(())
}

/// Makes the row of a client's connection.
fn connection(client: u64) -> Connection {
    let remote = format!("10.0.0.2:{}", 40_000 + client);
    Connection {
        time_ns: STARTED_NS,
        netns: 1,
        role: Role::Server,
        pid: Some(100),
        ..Connection::with_addresses(CONNECTIONS + 1 + client, "10.0.0.1:80", remote)
    }
}

/// Makes a call of 100 bytes.
fn call(number: u64, end_ns: u64, is_send: bool) -> Call {
    Call {
        conn: CONNECTIONS + 1 + number % CLIENTS,
        end_ns,
        start_ns: None,
        blocked_ns: Some(0),
        runq_ns: Some(0),
        unread_ns: (!is_send).then_some(2_000),
        tcp_ns: is_send.then_some(end_ns.saturating_sub(5_000)),
        is_send,
        asked_bytes: Some(4_096),
        result: 100,
        offset_end: (number / CLIENTS + 1) * 100,
        flags: 0,
        tid: 100 + (number % u64::from(THREADS)) as u32,
        pid: 100,
        cpu: 0,
    }
}

fn header() -> Header {
    Header {
        format: FORMAT,
        whylat: env!("CARGO_PKG_VERSION").to_owned(),
        host: "drawn".to_owned(),
        boot_id: "00000000-0000-4000-8000-000000000000".to_owned(),
        kernel: "none".to_owned(),
        cpus: 8,
        architecture: None,
        clocksource: "none".to_owned(),
        detail: "messages".to_owned(),
        arguments: vec!["large_recording".to_owned()],
        started_ns: STARTED_NS,
        started_realtime_ns: 1_795_000_000_000_000_000,
        jiffy_ns: Some(4_000_000),
    }
}

/// Numbers that look random (Marsaglia, "Xorshift RNGs", 2003).
struct Dice(u64);

impl Dice {
    /// Returns a random number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Returns a random time with a long tail: one in a hundred is up to a thousand times as long.
    fn latency_ns(&mut self) -> u64 {
        let times = if self.below(100) == 0 {
            1 + self.below(1_000)
        } else {
            1
        };
        (5_000 + self.below(20_000)) * times
    }
}

/// Makes received messages with random durations.
fn received(messages: u64, dice: &mut Dice) -> ReceivedMessages {
    let mut rows = ReceivedMessages::default();
    for number in 0..messages {
        let arrival_ns = STARTED_NS + number * APART_NS + dice.below(APART_NS);
        let tcp_ns = arrival_ns + 300 + dice.below(700);
        let ready_ns = tcp_ns + 200 + dice.below(300);
        let copy_ns = ready_ns + dice.latency_ns();
        rows.push(ReceivedMessage {
            done_ns: copy_ns + 500 + dice.below(1_000),
            conn: 1 + number % CONNECTIONS,
            bytes: 100,
            offset_end: (1 + number / CONNECTIONS) * 100,
            spliced_bytes: 0,
            first_arrival_ns: Some(arrival_ns),
            last_arrival_ns: Some(arrival_ns),
            tcp_ns: Some(tcp_ns),
            ready_ns: Some(ready_ns),
            woken_ns: None,
            running_ns: None,
            copy_ns: Some(copy_ns),
            segments: 1,
            receive_cpu: Some(0),
            cpu: 1,
            tid: 100 + (number % u64::from(THREADS)) as u32,
            pid: 100,
            backlog: false,
            doubt_ns: 0,
            cut_bytes: None,
            nic_phc_ns: None,
        });
    }
    rows
}

/// Makes a wait of each thread between its messages.
fn waits(messages: u64, dice: &mut Dice) -> Waits {
    let mut rows = Waits::default();
    for number in 0..messages {
        let end_ns = STARTED_NS + (number + 1) * APART_NS;
        let start_ns = end_ns - APART_NS / 2 - dice.below(APART_NS / 4);
        rows.push(wait(number, start_ns, end_ns, dice));
    }
    rows
}

/// Makes a wait of a thread, with a random waker.
fn wait(number: u64, start_ns: u64, end_ns: u64, dice: &mut Dice) -> Wait {
    Wait {
        end_ns,
        start_ns,
        woken_ns: Some(end_ns - 1 - dice.below(5_000)),
        tid: 100 + (number % u64::from(THREADS)) as u32,
        pid: 100,
        kind: WaitObject::Epoll,
        object: Some(number % 12),
        device: None,
        conn: None,
        fd: Some(4),
        syscall: Some(232),
        waker: Waker::Interrupt,
        waker_tid: None,
        waker_pid: None,
        ready_fd: None,
        ready_conn: None,
        ready_kind: None,
        uninterruptible: false,
        stack: None,
        kernel_stack: None,
        cpu: 1,
        limit_ns: None,
    }
}

/// Makes spans of eight CPUs, four deep.
fn activity(spans: u64, messages: u64, dice: &mut Dice) -> Activities {
    const NAMES: [&str; 4] = ["worker", "read", "tcp_recvmsg", "skb_copy_datagram_iter"];
    const KINDS: [ActivityKind; 4] = [
        ActivityKind::Task,
        ActivityKind::Syscall,
        ActivityKind::Function,
        ActivityKind::Function,
    ];
    let nest = NAMES.len() as u64;
    let step_ns = (messages * APART_NS * nest / spans.max(1)).max(nest * 8);
    let mut rows = Activities::default();
    for number in 0..spans {
        let (depth, at) = (number % nest, number / nest);
        let begin_ns = STARTED_NS + at * step_ns + depth * 10;
        let length_ns = step_ns
            .saturating_sub(depth * 20 + dice.below(step_ns / 4))
            .max(1);
        rows.push(Activity {
            begin_ns,
            end_ns: begin_ns + length_ns,
            depth: depth as u16,
            kind: KINDS[depth as usize],
            name: Some(NAMES[depth as usize].to_owned()),
            pid: Some(100),
            tid: Some(100 + (at % u64::from(THREADS)) as u32),
            cpu: Some((at % 8) as u16),
            source: ActivitySource::Tracepoints,
            begin_seen: true,
            end_seen: true,
        });
    }
    rows
}
