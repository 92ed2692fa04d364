//! Stage shares agree, within the bounds that they state, with a truth that does not come from
//! the profiler: the wire's log of packets and the programs' own clocks. And what cannot be
//! told (`unknown`) stays below 2 %.

use lab::wire::{Cause, PacketRecord, Verdict};
use lab::{Capture, Direction, DirectionConfig, Wire};
use serde_json::Value;

use crate::harness::{Recorded, Site};
use crate::report::{number, share, stage_ns};
use crate::verdicts::{hole, link, start, under_cubic_and_bbr, wire};

under_cubic_and_bbr! {
    held_writes_on_loopback
    held_writes_over_the_wire
    a_black_hole
    a_slow_reader
    think_time
    a_late_reader_of_single_segments
    a_tiny_send_buffer
    random_loss
}

/// A stamp of a program's clock is this much off what the kernel does next: a context switch on
/// a busy machine.
const STAMP_NS: u64 = 100_000;
const MSS: u64 = 1448;

/// The client's socket, with `unknown` checked.
fn client_of(recorded: &Recorded, congctl: &str) -> Value {
    for connection in recorded.report.connections() {
        if let Some(unknown) = share(connection, "unknown") {
            assert!(
                unknown <= 0.02,
                "unknown is {unknown}: {}",
                recorded.report.brief()
            );
        }
    }
    let client = recorded.client_end();
    assert_eq!(client["tcp"]["congestion"], congctl);
    client.clone()
}

/// Prints the row, and holds the stages' time against the truth, which itself may be off by
/// `doubt_ns`.
#[track_caller]
fn compare(client: &Value, stages: &[&str], truth_ns: u64, doubt_ns: u64) {
    let life_ns = number(client, "/lifetime_ns");
    let measured_ns: u64 = stages.iter().map(|stage| stage_ns(client, stage)).sum();
    let bound = |stage: &&str| client["stages"][stage]["bound"].as_f64().expect("a bound");
    let bound_ns = stages.iter().map(bound).fold(0.0, f64::max) * life_ns as f64;
    let off_ns = measured_ns as f64 - truth_ns as f64;
    let ms = |ns: f64| ns / 1e6;
    eprintln!(
        "{:<28} {:<6} truth {:>9.3} ms, measured {:>9.3} ms, off {:>8.3} ms, bound {:.3} ms, \
         truth's own doubt {:.3} ms",
        stages.join("+"),
        client["tcp"]["congestion"].as_str().unwrap_or_default(),
        ms(truth_ns as f64),
        ms(measured_ns as f64),
        ms(off_ns),
        ms(bound_ns),
        ms(doubt_ns as f64),
    );
    assert!(
        off_ns.abs() <= bound_ns + doubt_ns as f64,
        "{stages:?} measured {measured_ns} ns, truth {truth_ns} ns, bound {bound_ns} ns"
    );
}

/// What the sender at end `a` had sent and heard at one moment. Offsets are from its first byte.
#[derive(Debug, Clone, Copy, Default)]
struct Moment {
    at_ns: u64,
    /// Data sent.
    nxt: u64,
    /// Data acknowledged.
    una: u64,
    /// Window announced, bytes beyond `una`.
    window: u64,
    /// Whether this is a segment with data, and not an ACK.
    sent: bool,
}

/// The sender's history by the wire's log: a segment counts when it entered the wire, an ACK when
/// it was handed over.
fn history(log: &[PacketRecord]) -> Vec<Moment> {
    let heard = |row: &PacketRecord| match row.direction {
        Direction::AToB => Some(row.time_ns),
        Direction::BToA => row.delivered_ns,
    };
    let mut rows: Vec<(u64, &PacketRecord)> = log
        .iter()
        .filter_map(|row| Some((heard(row)?, row)))
        .collect();
    rows.sort_by_key(|(at_ns, _)| *at_ns);
    let syn = |direction| {
        let mut syns = log.iter().filter(|row| row.direction == direction);
        syns.find_map(|row| row.tcp.filter(|tcp| tcp.flags & 2 != 0))
    };
    let first = syn(Direction::AToB).expect("a SYN").seq.wrapping_add(1);
    let scale = syn(Direction::BToA)
        .and_then(|tcp| tcp.window_scale)
        .unwrap_or(0);
    let mut now = Moment {
        // That of the SYN-ACK, which is not scaled.
        window: syn(Direction::BToA).map_or(0, |tcp| u64::from(tcp.window)),
        ..Moment::default()
    };
    let mut moments = Vec::new();
    for (at_ns, row) in rows {
        let Some(tcp) = row.tcp.filter(|tcp| tcp.flags & 2 == 0) else {
            continue;
        };
        now.at_ns = at_ns;
        now.sent = row.direction == Direction::AToB && tcp.payload_bytes > 0;
        if row.direction == Direction::AToB {
            let end = tcp.seq.wrapping_add(tcp.payload_bytes).wrapping_sub(first);
            now.nxt = now.nxt.max(u64::from(end));
        } else {
            let acked = u64::from(tcp.ack.wrapping_sub(first)).min(now.nxt);
            if acked >= now.una {
                now.una = acked;
                now.window = u64::from(tcp.window) << scale;
            }
        }
        moments.push(now);
    }
    moments
}

/// Times in which the sender sent nothing.
#[derive(Debug, Default)]
struct Pauses {
    total_ns: u64,
    times: u64,
    /// Until it would have sent by its pace: the time between the two sendings before each pause.
    /// What made it wait so long at first, the wire cannot tell.
    paced_ns: u64,
}

/// Pauses within `[from, to)` that are longer than pacing makes this sender wait, `pace_most_ns`,
/// where `is` held after the last segment before the pause.
fn pauses(
    moments: &[Moment],
    span_ns: (u64, u64),
    pace_most_ns: u64,
    is: impl Fn(&Moment) -> bool,
) -> Pauses {
    // Segments that leave at once are this close in the wire's log.
    const AT_ONCE_NS: u64 = 100_000;
    let clamp = |ns: u64| ns.clamp(span_ns.0, span_ns.1);
    let mut found = Pauses::default();
    let mut pace_ns = 0;
    let sent: Vec<&Moment> = moments.iter().filter(|moment| moment.sent).collect();
    for step in sent.windows(2) {
        let (from_ns, to_ns) = (step[0].at_ns, step[1].at_ns);
        let gap_ns = to_ns - from_ns;
        if gap_ns > pace_most_ns && is(step[0]) {
            found.total_ns += clamp(to_ns) - clamp(from_ns);
            found.times += 1;
            found.paced_ns += pace_ns;
            pace_ns = 0;
        } else if gap_ns > AT_ONCE_NS && gap_ns <= pace_most_ns {
            pace_ns = gap_ns;
        }
    }
    found
}

/// What a time made of so many intervals between the wire's stamps may be off by: each end by as
/// much as the wire's thread was late on average.
fn doubt_ns(log: &[PacketRecord], delay_us: u64, times: u64) -> u64 {
    let took = log
        .iter()
        .filter_map(|row| Some(row.delivered_ns? - row.time_ns));
    let late: Vec<u64> = took.map(|ns| ns.saturating_sub(delay_us * 1000)).collect();
    times * 2 * late.iter().sum::<u64>() / (late.len() as u64).max(1)
}

fn ended(wire: Wire) -> Vec<PacketRecord> {
    let (stats, log) = wire.stop();
    assert_eq!((stats.log_missed, stats.failure), (0, None));
    log
}

/// From the return of the second write, by the client's clock, to its segment on the wire.
fn held_writes_over_the_wire(congctl: &str) {
    let wire = wire(congctl, 1_000);
    let recorded = Site::over(&wire).record("reply-server", "write-write-read --rounds 67");
    let log = ended(wire);
    let data = log
        .iter()
        .filter(|row| row.direction == Direction::AToB)
        .filter(|row| row.tcp.is_some_and(|tcp| tcp.payload_bytes > 0));
    compare_holds(&recorded, congctl, data.map(|row| row.time_ns).collect());
}

/// The same, to its segment on the loopback device.
fn held_writes_on_loopback(congctl: &str) {
    let site = Site::loopback(congctl);
    let capture = Capture::start(&site.client).expect("a capture");
    let recorded = site.record("reply-server", "write-write-read --rounds 67");
    let sent = capture.stop().expect("all segments");
    let server_port = recorded.client_end()["remote"].as_str();
    let server_port = server_port.and_then(|remote| remote.rsplit(':').next()?.parse().ok());
    let data = sent.iter().filter(|sent| {
        Some(sent.segment.destination_port) == server_port && sent.segment.payload_bytes > 0
    });
    compare_holds(&recorded, congctl, data.map(|sent| sent.time_ns).collect());
}

fn compare_holds(recorded: &Recorded, congctl: &str, data_sent_ns: Vec<u64>) {
    let client = client_of(recorded, congctl);
    let rounds = recorded.client["round_times_ns"]
        .as_array()
        .expect("rounds");
    assert_eq!(
        data_sent_ns.len(),
        rounds.len() * 2,
        "a segment was sent again or joined"
    );
    let held = rounds.iter().zip(data_sent_ns.chunks(2));
    let held = held.map(|(round, sent)| sent[1].saturating_sub(number(round, "/1")));
    let doubt_ns = rounds.len() as u64 * STAMP_NS;
    compare(&client, &["nagle", "delayed_ack"], held.sum(), doubt_ns);
}

/// From the first lost segment, plus the path's round trip, to the ACK that passes it. A small
/// window keeps the path free of queues, so that its round trip is one number.
fn a_black_hole(congctl: &str) {
    let wire = wire(congctl, 10_000);
    let site = Site::over(&wire);
    let recorded = site.record_with("", "sink --rcvbuf 65536", "stream --bytes 3000017", || {
        hole(&wire, 1_000_000_000);
    });
    let client = client_of(&recorded, congctl);
    let log = ended(wire);
    let is_data = |row: &&PacketRecord| row.tcp.is_some_and(|tcp| tcp.payload_bytes > 0);
    let swallowed = |row: &&PacketRecord| row.verdict == Verdict::Dropped(Cause::Blackhole);
    let lost = log.iter().filter(is_data).find(swallowed);
    let lost = lost.expect("a lost segment");
    // When the sender heard that all of this segment had arrived.
    let acked_ns = |row: &PacketRecord| {
        let end = row.tcp.map(|tcp| tcp.seq.wrapping_add(tcp.payload_bytes))?;
        let back = log.iter().filter(|row| row.direction == Direction::BToA);
        let passing = back.filter(|row| {
            row.tcp
                .is_some_and(|tcp| tcp.ack.wrapping_sub(end) < 1 << 31)
        });
        passing.filter_map(|row| row.delivered_ns).min()
    };
    let mended_ns = acked_ns(lost).expect("an ACK");
    let before = log
        .iter()
        .filter(is_data)
        .filter(|row| row.index < lost.index);
    let round_trips: Vec<u64> = before
        .filter_map(|row| Some(acked_ns(row)?.saturating_sub(row.time_ns)))
        .collect();
    let recent = &round_trips[round_trips.len() - 50..];
    let (Some(least), Some(most)) = (recent.iter().min(), recent.iter().max()) else {
        panic!("nothing was acknowledged before the hole");
    };
    let truth_ns = mended_ns - lost.time_ns - u64::midpoint(*least, *most);
    // srtt lies somewhere among the round trips.
    let doubt_ns = (most - least) / 2 + 2 * STAMP_NS;
    compare(
        &client,
        &["retransmit_timeout", "tail_loss"],
        truth_ns,
        doubt_ns,
    );
}

/// 32 KiB every 20 ms from a buffer of twice that.
fn a_slow_reader(congctl: &str) {
    let wire = wire(congctl, 5_000);
    let recorded = Site::over(&wire).record(
        "sink --rcvbuf 32768 --read-size 32768 --read-pause-us 20000",
        "stream --bytes 3000017",
    );
    let client = client_of(&recorded, congctl);
    let log = ended(wire);
    let moments = history(&log);
    let times = &recorded.client["transfers"][0];
    let during = (
        number(times, "/first_send_ns"),
        number(times, "/drained_ns"),
    );
    // No room for a segment, or for so few that Linux waits for more room
    // (`tcp_tso_should_defer`: a third of the window).
    let full = |now: &Moment| {
        let room = now.window.saturating_sub(now.nxt - now.una);
        room <= MSS.max(now.window / 3)
    };
    // Two segments, the least that pacing sends at once, at 7.7 Mbit/s.
    const PACE_NS: u64 = 3_000_000;
    let paused = pauses(&moments, during, PACE_NS, full);
    let doubt_ns = doubt_ns(&log, 5_000, paused.times) + paused.paced_ns;
    compare(&client, &["receiver_window"], paused.total_ns, doubt_ns);
}

/// Requests of one segment, with 20 ms of thought between answer and next request. Each is under
/// way for the path's round trip: at least the wire's 10 ms, at most the client's shortest round.
/// The rest is the client's own.
fn think_time(congctl: &str) {
    const ROUNDS: u64 = 97;
    let wire = wire(congctl, 5_000);
    let client = format!("request-reply --rounds {ROUNDS} --pause-us 20000");
    let recorded = Site::over(&wire).record("reply-server", &client);
    let client = client_of(&recorded, congctl);
    let (least_ns, most_ns) = (10_000_000, number(&recorded.client, "/min_ns"));
    let under_way_ns = ROUNDS * u64::midpoint(least_ns, most_ns);
    // The FIN at the end, too, is under way for 10 ms, or until the recording ends.
    let doubt_ns = ROUNDS * ((most_ns - least_ns) / 2 + STAMP_NS) + least_ns;
    compare(&client, &["in_flight"], under_way_ns, doubt_ns);
    let idle_ns = number(&client, "/lifetime_ns") - under_way_ns;
    assert!(
        idle_ns >= ROUNDS * 20_000_000,
        "the client thought for {idle_ns} ns"
    );
    compare(&client, &["sender_app"], idle_ns, doubt_ns);
}

/// The server sleeps before it reads each request, which is one segment. From the client's last
/// write to the answer, the request lies unread but for the ways there and back.
fn a_late_reader_of_single_segments(congctl: &str) {
    const ROUNDS: u64 = 53;
    let site = Site::loopback(congctl);
    let client = format!("request-reply --rounds {ROUNDS}");
    let recorded = site.record("reply-server --read-delay-us 20000", &client);
    client_of(&recorded, congctl);
    let rounds = recorded.client["round_times_ns"].as_array();
    let waits = rounds.expect("rounds").iter();
    let waited_ns: u64 = waits
        .map(|round| number(round, "/2") - number(round, "/1"))
        .sum();
    let server = recorded.server_end();
    let life_ns = number(server, "/lifetime_ns");
    let slow = &server["receive"]["reader_slow"];
    let measured_ns = number(slow, "/ns");
    let bound_ns = slow["bound"].as_f64().expect("a bound") * life_ns as f64;
    eprintln!("waited {waited_ns} ns, reader slow {measured_ns} ns, bound {bound_ns} ns");
    let doubt_ns = (ROUNDS * 3 * STAMP_NS) as f64;
    assert!(measured_ns.abs_diff(waited_ns) as f64 <= bound_ns + doubt_ns);
}

/// The sender pauses with data under way: for its buffer, or at first for the congestion window.
/// Which of the two the wire cannot tell, but that it is mostly the buffer, and how long both
/// took together. What BBR paces out is no pause.
fn a_tiny_send_buffer(congctl: &str) {
    let wire = wire(congctl, 20_000);
    let recorded = Site::over(&wire).record("sink", "stream --sndbuf 4096 --seconds 2");
    let client = client_of(&recorded, congctl);
    let log = ended(wire);
    let moments = history(&log);
    let times = &recorded.client["transfers"][0];
    let writing = (
        number(times, "/first_send_ns"),
        number(times, "/last_send_ns"),
    );
    // Two segments, the least that pacing sends at once, at 4.6 Mbit/s.
    const PACE_NS: u64 = 5_000_000;
    let paused = pauses(&moments, writing, PACE_NS, |now| now.nxt > now.una);
    let doubt_ns = doubt_ns(&log, 20_000, paused.times) + paused.paced_ns;
    assert!(stage_ns(&client, "send_buffer") > stage_ns(&client, "congestion_window"));
    let stages = ["send_buffer", "congestion_window"];
    compare(&client, &stages, paused.total_ns, doubt_ns);
}

/// A bulk transfer that only the path holds up.
fn random_loss(congctl: &str) {
    let lossy = DirectionConfig {
        loss_ppm: 10_000,
        ..link(congctl)
    };
    let wire = start(congctl, lossy);
    let recorded = Site::over(&wire).record("sink", "stream --bytes 3000017");
    let client = client_of(&recorded, congctl);
    for stage in ["nagle", "delayed_ack", "cork", "send_buffer"] {
        assert!(
            share(&client, stage) <= Some(0.02),
            "{}",
            recorded.report.brief()
        );
    }
}
