//! Stage shares agree, within the bounds that they state, with a truth that does not come from
//! the profiler: segments as the kernel stamped them at the recorded end. And what cannot be known
//! (`unknown`) stays below 2 %.

use lab::wire::{Cause, PacketRecord, Verdict};
use lab::{Capture, CaptureDirection, CapturedSegment, DirectionConfig, Wire};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::paths::{drop_sent_packets, link, start, wire};
use crate::play::{Outcome, Play, under_both};
use crate::shrink::CONNECTIONS;
use crate::truth::{DurationRange, Gap, Moment, Trace, gaps, smoothed_ns};
use testbed::report::{number, share, stage_ns};
use testbed::{RecordedExchange, Site};

pub fn plays() -> Vec<Play> {
    let play = |name, record, judge| under_both("shares", name, CONNECTIONS, record, judge);
    [
        play("held_writes_on_loopback", held_writes_on_loopback, agree),
        play(
            "held_writes_over_the_wire",
            held_writes_over_the_wire,
            agree,
        ),
        play("a_black_hole", a_black_hole, agree),
        play("a_slow_reader", a_slow_reader, agree),
        play("think_time", think_time, thought),
        play(
            "a_late_reader_of_single_segments",
            a_late_reader_of_single_segments,
            read_late,
        ),
        play("a_tiny_send_buffer", a_tiny_send_buffer, waited_for_buffer),
        play("random_loss", random_loss, only_the_path),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const MSS: u64 = 1448;

/// How long stages took together, by the truth.
#[derive(Debug, Serialize, Deserialize)]
struct Stages {
    stages: Vec<String>,
    known: DurationRange,
}

impl Stages {
    fn to_json(stages: &[&str], known: DurationRange) -> Value {
        let stages = stages.iter().map(|stage| (*stage).to_owned()).collect();
        json!(Stages { stages, known })
    }

    fn take(outcome: &Outcome) -> Self {
        serde_json::from_value(outcome.truth["shares"].clone()).expect("stages")
    }
}

/// The client's socket, with `unknown` checked.
fn client_of(outcome: &Outcome) -> &Value {
    for connection in outcome.report.connections() {
        if let Some(unknown) = share(connection, "unknown") {
            let brief = outcome.report.brief();
            assert!(unknown <= 0.02, "unknown is {unknown}: {brief}");
        }
    }
    outcome.client_id();
    outcome.client_end()
}

/// The client's stages are as long as the truth says.
fn agree(outcome: &Outcome) {
    let client = client_of(outcome);
    let truth = Stages::take(outcome);
    compare(client, &truth.stages, truth.known);
}

/// Holds the stages' time against the truth.
#[track_caller]
fn compare(client: &Value, stages: &[impl AsRef<str>], truth: DurationRange) {
    let stages: Vec<&str> = stages.iter().map(AsRef::as_ref).collect();
    let life_ns = number(client, "/lifetime_ns");
    let measured_ns: u64 = stages.iter().map(|stage| stage_ns(client, stage)).sum();
    let bound = |stage: &&str| client["stages"][stage]["bound"].as_f64().expect("a bound");
    let bound_ns = stages.iter().map(bound).fold(0.0, f64::max) * life_ns as f64;
    is_near(client, &stages.join("+"), (measured_ns, bound_ns), truth);
}

/// The same of any time that was measured, with its bound.
#[track_caller]
fn is_near(
    connection: &Value,
    what: &str,
    (measured_ns, bound_ns): (u64, f64),
    truth: DurationRange,
) {
    let off_ns = measured_ns as f64 - truth.middle_ns() as f64;
    assert!(
        off_ns.abs() <= bound_ns + truth.doubt_ns() as f64,
        "{what} measured {measured_ns} ns ± {bound_ns} ns, truth {truth:?}: {:#}",
        connection["stages"]
    );
}

/// Records a server and a client, and captures what passes at the client's end.
fn captured(site: &Site, server: &str, client: &str) -> (RecordedExchange, Vec<CapturedSegment>) {
    captured_with(site, server, client, || ())
}

fn captured_with(
    site: &Site,
    server: &str,
    client: &str,
    meanwhile: impl FnOnce(),
) -> (RecordedExchange, Vec<CapturedSegment>) {
    let capture = Capture::start(&site.client).expect("a capture");
    let recorded = site.record_with("", server, client, meanwhile);
    (recorded, capture.stop().expect("all segments"))
}

/// The segments of the first connection of who took part.
fn trace_of(passed: &[CapturedSegment], truth: &Value) -> Trace {
    Trace::new(passed, &truth["connections"][0])
}

/// Requests and answers, each a segment that left once: on a busy machine some are
/// retransmitted. `counts` are those that leave the trace's end and those that arrive.
fn each_left_once(trace: &Trace, counts: (usize, usize)) -> Result<(), String> {
    let seen = (
        trace.data(CaptureDirection::Out).len(),
        trace.data(CaptureDirection::In).len(),
    );
    let why = format!("retransmitted or joined: {seen:?} segments, not {counts:?}");
    (seen == counts).then_some(()).ok_or(why)
}

fn held_writes_over_the_wire(congctl: &str) -> Result<Outcome, String> {
    held_writes(&Site::over(&wire(congctl, 1_000)))
}

fn held_writes_on_loopback(congctl: &str) -> Result<Outcome, String> {
    held_writes(&Site::loopback(congctl))
}

/// The second write of each round is held when it ends: after the first one's segment has left,
/// and before the program says so. It is released by the ACK before its segment leaves.
fn held_writes(site: &Site) -> Result<Outcome, String> {
    const ROUNDS: usize = 67;
    let client = format!("write-write-read --rounds {ROUNDS}");
    let (recorded, passed) = captured(site, "reply-server", &client);
    let trace = trace_of(&passed, &recorded.client);
    each_left_once(&trace, (2 * ROUNDS, ROUNDS))?;
    let heard: Vec<u64> = trace
        .passed(CaptureDirection::In)
        .map(|passed| passed.time_ns)
        .collect();
    let sent: Vec<u64> = trace
        .data(CaptureDirection::Out)
        .iter()
        .map(|sent| sent.time_ns)
        .collect();
    let rounds = recorded.client["round_times_ns"].as_array();
    let rounds = rounds.expect("rounds");
    let held = rounds.iter().zip(sent.chunks(2)).map(|(round, sent)| {
        let (first_ns, second_ns) = (sent[0], sent[1]);
        let written_ns = number(round, "/1").min(second_ns);
        let between = |at: &&u64| (first_ns..second_ns).contains(*at);
        let released_ns = heard.iter().rfind(between).copied().unwrap_or(second_ns);
        DurationRange::between((first_ns, written_ns), (released_ns, second_ns))
    });
    let shares = Stages::to_json(&["nagle", "delayed_ack"], held.sum());
    Ok(Outcome::from(recorded).with("shares", shares))
}

/// From when the ACK of the first lost segment was due, a smoothed round trip after it left or
/// with the last ACK that still came, to the ACK that passes it. The wire reports which segment it
/// swallowed first.
fn a_black_hole(congctl: &str) -> Result<Outcome, String> {
    let wire = wire(congctl, 10_000);
    let site = Site::over(&wire);
    let (server, client) = ("sink --rcvbuf 65536", "stream --bytes 3000017");
    let (recorded, passed) = captured_with(&site, server, client, || {
        drop_sent_packets(&wire, 1_000_000_000)
    });
    let trace = trace_of(&passed, &recorded.client);
    let lost = trace.offset(first_swallowed(wire));
    let moments = trace.history();
    let sent = moments.iter().find(|now| now.sent && now.nxt > lost);
    let passed_ack = moments.iter().find(|now| now.una > lost);
    let (sent, passed_ack) = sent.zip(passed_ack).expect("a lost segment and its ACK");
    let mut samples = trace.round_trips();
    samples.retain(|(at_ns, _)| *at_ns < passed_ack.at_ns);
    let last_ack_ns = samples.last().map_or(0, |(at_ns, _)| *at_ns);
    let due_ns = (sent.at_ns + smoothed_ns(&samples)).max(last_ack_ns);
    let stalled = DurationRange::exactly(passed_ack.at_ns - due_ns);
    let shares = Stages::to_json(&["retransmit_timeout", "tail_loss"], stalled);
    Ok(Outcome::from(recorded).with("shares", shares))
}

/// The sequence number of the first data that a black hole swallowed.
fn first_swallowed(wire: Wire) -> u32 {
    let (stats, log) = wire.stop();
    assert_eq!((stats.log_missed, stats.failure), (0, None));
    let swallowed = |row: &&PacketRecord| row.verdict == Verdict::Dropped(Cause::Blackhole);
    let mut data = log.iter().filter(swallowed).filter_map(|row| row.tcp);
    let first = data.find(|tcp| tcp.payload_bytes > 0);
    first.expect("a lost segment").seq
}

/// 32 KiB every 20 ms from a buffer of twice that: from each sending that left no room to the ACK
/// that gave some.
fn a_slow_reader(congctl: &str) -> Result<Outcome, String> {
    let wire = wire(congctl, 5_000);
    let (recorded, passed) = captured(
        &Site::over(&wire),
        "sink --rcvbuf 32768 --read-size 32768 --read-pause-us 20000",
        "stream --bytes 3000017",
    );
    let moments = trace_of(&passed, &recorded.client).history();
    let gaps = gaps(&moments);
    let held = gaps
        .iter()
        .filter_map(|gap| without_room(gap, congctl == "bbr"));
    let shares = Stages::to_json(&["receiver_window"], held.sum());
    Ok(Outcome::from(recorded).with("shares", shares))
}

fn room(now: &Moment) -> u64 {
    now.window.saturating_sub(now.nxt - now.una)
}

/// At the rates here TCP sends two segments together, and waits for the room (`tcp_tso_segs()`).
fn window_is_full(now: &Moment) -> bool {
    room(now) < 2 * MSS
}

/// It may wait for more: a third of the window (`tcp_tso_should_defer()`).
fn window_may_be_full(now: &Moment) -> bool {
    room(now) < now.window / 3
}

/// How much of a gap the window made. An ACK must have opened it; TCP takes it and sends a little
/// later, or much later if the socket is in use. Whether its pace stopped a sender when other ACKs
/// came before, or until a timer let the next segment go, segments do not show.
fn without_room(gap: &Gap<'_>, paces: bool) -> Option<DurationRange> {
    if !window_is_full(gap.from) {
        // what paces has other gaps, and far more of them
        let may = !paces && window_may_be_full(gap.from);
        return may.then(|| DurationRange {
            least_ns: 0,
            most_ns: gap.ns(),
        });
    }
    let from = gap.from;
    let by_ack = gap.ended_by_ack();
    let opening = gap.heard.iter().find(|now| !window_is_full(now));
    let opening = opening.or(gap.heard.last().filter(|_| by_ack))?;
    let mut waiting = gap.heard.iter().filter(|now| now.at_ns < opening.at_ns);
    let begin = match (paces, by_ack) {
        (false, _) => from,
        (true, true) => waiting.next_back().unwrap_or(from),
        (true, false) => opening,
    };
    let timer = paces && !by_ack;
    let end_ns = if timer { opening.at_ns } else { gap.until_ns };
    Some(DurationRange::between(
        (from.at_ns, begin.at_ns),
        (opening.at_ns, end_ns),
    ))
}

/// Requests of a client that thinks.
const THOUGHTS: usize = 97;

/// Requests of one segment, with 20 ms of thought between answer and next request. Each is in
/// flight until its answer comes, but at most for TCP's least round trip, which the client reads
/// before and after; the rest is the client's own. So is the FIN at the end, for as long as the
/// recording lasts.
fn think_time(congctl: &str) -> Result<Outcome, String> {
    let wire = wire(congctl, 5_000);
    let client = format!("request-reply --rounds {THOUGHTS} --pause-us 20000 --min-rtts");
    let (recorded, passed) = captured(&Site::over(&wire), "reply-server", &client);
    let trace = trace_of(&passed, &recorded.client);
    each_left_once(&trace, (THOUGHTS, THOUGHTS))?;
    let least_us = recorded.client["min_rtts_us"].as_array();
    let least_us = least_us.expect("round trips").iter();
    let least_ns: Vec<u64> = least_us.map(|us| us.as_u64().expect("us") * 1000).collect();
    assert_eq!(least_ns.len(), THOUGHTS + 1);
    let rounds = trace
        .data(CaptureDirection::Out)
        .into_iter()
        .zip(trace.data(CaptureDirection::In));
    let rounds = rounds
        .zip(least_ns.windows(2))
        .map(|((request, answer), least_ns)| {
            in_flight(request.time_ns, answer.time_ns, (least_ns[0], least_ns[1]))
        });
    let in_flight: DurationRange = rounds.sum();
    let mut sent = trace.passed(CaptureDirection::Out);
    let fin = sent.find(|sent| sent.segment.flags & 1 != 0);
    let fin = fin.map(|fin| json!({ "at_ns": fin.time_ns, "least_ns": least_ns.last() }));
    Ok(Outcome::from(recorded)
        .with("shares", Stages::to_json(&["in_flight"], in_flight))
        .with("fin", fin))
}

fn thought(outcome: &Outcome) {
    let client = client_of(outcome);
    let life_ns = number(client, "/lifetime_ns");
    let end_ns = number(client, "/opened_ns") + life_ns;
    let fin = Some(&outcome.truth["fin"]).filter(|fin| !fin.is_null());
    let fin = fin.map(|fin| {
        let least_ns = number(fin, "/least_ns");
        in_flight(number(fin, "/at_ns"), end_ns, (least_ns, least_ns))
    });
    let rounds = Stages::take(outcome).known;
    let in_flight: DurationRange = [rounds].into_iter().chain(fin).sum();
    compare(client, &["in_flight"], in_flight);
    let idle = in_flight.rest_of(life_ns);
    assert!(
        idle.least_ns >= THOUGHTS as u64 * 20_000_000,
        "the client thought for {idle:?}"
    );
    compare(client, &["sender_app"], idle);
}

/// How long a segment counts as in flight if its ACK passed the device then, by TCP's least round
/// trip before and after. TCP counts from its own stamp to its taking of the ACK, in whole
/// microseconds.
fn in_flight(sent_ns: u64, acked_ns: u64, least_ns: (u64, u64)) -> DurationRange {
    DurationRange {
        least_ns: acked_ns.saturating_sub(sent_ns).min(least_ns.1),
        most_ns: least_ns.0 + 1_000,
    }
}

/// The server sleeps before it reads each request, which is one segment. The request lies unread
/// from its arrival until the server's call has taken it.
fn a_late_reader_of_single_segments(congctl: &str) -> Result<Outcome, String> {
    const ROUNDS: usize = 53;
    let site = Site::loopback(congctl);
    let client = format!("request-reply --rounds {ROUNDS}");
    let (recorded, passed) = captured(&site, "reply-server --read-delay-us 20000", &client);
    let trace = trace_of(&passed, &recorded.server);
    each_left_once(&trace, (ROUNDS, ROUNDS))?;
    let requests = trace.data(CaptureDirection::In);
    let reads = recorded.server["read_times_ns"].as_array().expect("reads");
    let unread = requests.iter().zip(reads).map(|(request, read)| {
        let read_ns = (number(read, "/0"), number(read, "/1"));
        DurationRange::between((request.time_ns, request.time_ns), read_ns)
    });
    let shares = Stages::to_json(&["reader_slow"], unread.sum());
    Ok(Outcome::from(recorded).with("shares", shares))
}

fn read_late(outcome: &Outcome) {
    client_of(outcome);
    let server = outcome.server_end();
    let slow = &server["receive"]["reader_slow"];
    let bound = slow["bound"].as_f64().expect("a bound");
    let bound_ns = bound * number(server, "/lifetime_ns") as f64;
    let measured = (number(slow, "/ns"), bound_ns);
    is_near(server, "reader_slow", measured, Stages::take(outcome).known);
}

/// The wire's, there and back: the length of a wait.
const ROUND_TRIP_NS: u64 = 40_000_000;

/// The sender pauses with data under direction: for its buffer, or at first for the congestion window.
/// Which of the two, its segments do not show, but that it is mostly the buffer, and how long both
/// took together: until an ACK gives room. What the receiver's window stops is another pause. A wait
/// that a stalled path made longer cannot be distinguished from one for the path; and segments
/// may show too little.
fn a_tiny_send_buffer(congctl: &str) -> Result<Outcome, String> {
    let wire = wire(congctl, 20_000);
    let client = "stream --sndbuf 4096 --seconds 2";
    let (recorded, passed) = captured(&Site::over(&wire), "sink", client);
    let trace = trace_of(&passed, &recorded.client);
    if was_held_up(&trace) {
        return Err("the path was stalled".to_owned());
    }
    // When the last write returned; what was in the buffer then leaves later.
    let written_ns = number(&recorded.client, "/transfers/0/last_send_ns");
    let moments = trace.history();
    let gaps = gaps(&moments);
    let for_room = |gap: &Gap<'_>, room_ns: (u64, u64)| {
        let until_ns = (room_ns.0.min(written_ns), room_ns.1.min(written_ns));
        DurationRange::between((gap.from.at_ns, gap.from.at_ns), until_ns)
    };
    let truth: DurationRange = match congctl {
        "cubic" => (0..gaps.len())
            .map(|at| match room_ns(&gaps[at]) {
                Some(room_ns) if is_shown(&gaps, at) => for_room(&gaps[at], room_ns),
                // nothing is heard between segments that go one after the other: the ledger gives that to what the one
                // before waited for
                _ => DurationRange {
                    least_ns: 0,
                    most_ns: gaps[at].ns(),
                },
            })
            .sum(),
        // Two segments, the least that pacing sends at once, at 4.6 Mbit/s.
        _ => gaps
            .iter()
            .filter(|gap| !window_is_full(gap.from) && gap.ns() > 5_000_000)
            .filter_map(|gap| Some(for_room(gap, room_ns(gap)?)))
            .sum(),
    };
    let hidden_ns = truth.most_ns - truth.least_ns;
    if hidden_ns >= ROUND_TRIP_NS {
        return Err(format!("of {hidden_ns} ns segments do not show"));
    }
    // A wait for room that the receiver's ACK timer ended is the receiver's.
    let stages = ["send_buffer", "congestion_window", "delayed_ack"];
    Ok(Outcome::from(recorded).with("shares", Stages::to_json(&stages, truth)))
}

fn waited_for_buffer(outcome: &Outcome) {
    agree(outcome);
    let client = outcome.client_end();
    assert!(stage_ns(client, "send_buffer") > stage_ns(client, "congestion_window"));
}

/// Returns whether segments show that the sender waited for room of its own. Not where the receiver's window was
/// full, too, nor where a part of a segment went next, which Nagle's algorithm may have held: the kernel lets a
/// writer queue more than its buffer holds now and then (by `ss -m` 810 KB, of 8), and then both come about.
fn is_shown(gaps: &[Gap<'_>], at: usize) -> bool {
    let next = gaps.get(at + 1).map(|gap| gap.from.nxt);
    let is_part = next.is_some_and(|end| end - gaps[at].from.nxt < MSS);
    !window_is_full(gaps[at].from) && !is_part
}

/// Returns whether a segment or its ACK took half as long again as the wire's round trip.
fn was_held_up(trace: &Trace) -> bool {
    trace
        .round_trips()
        .iter()
        .any(|(_, ns)| *ns > ROUND_TRIP_NS * 3 / 2)
}

/// When an ACK in this gap gave the writer room: not while more than two segments are under way,
/// which with what the kernel counts beside their data take two thirds of the buffer
/// (`sk_stream_is_writeable()`), and at the latest when nothing is. A writer that is woken late
/// waits no longer for room. An ACK that left more under way gave room in a window.
fn room_ns(gap: &Gap<'_>) -> Option<(u64, u64)> {
    let in_flight = |now: &Moment| now.nxt - now.una;
    let first = gap.heard.iter().find(|now| in_flight(now) <= 2 * MSS);
    let empty = gap.heard.iter().find(|now| in_flight(now) == 0);
    let first = first.or(gap.heard.last())?;
    Some((first.at_ns, empty.map_or(gap.until_ns, |now| now.at_ns)))
}

/// A bulk transfer that only the path holds up.
fn random_loss(congctl: &str) -> Result<Outcome, String> {
    let lossy = DirectionConfig {
        loss_ppm: 10_000,
        ..link(congctl)
    };
    let wire = start(congctl, lossy);
    let site = Site::over(&wire);
    Ok(site.record("sink", "stream --bytes 3000017").into())
}

fn only_the_path(outcome: &Outcome) {
    let client = client_of(outcome);
    for stage in ["nagle", "delayed_ack", "cork", "send_buffer"] {
        let brief = outcome.report.brief();
        assert!(share(client, stage) <= Some(0.02), "{brief}");
    }
}
