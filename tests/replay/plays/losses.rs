//! Segments that were retransmitted are counted one by one, by how TCP found out that they were lost.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use lab::wire::PacketRecord;
use lab::{Direction, DirectionConfig, Netns};
use serde_json::json;
use table::TcpEventKind;
use table::tables::TcpEvent;

use crate::paths::start;
use crate::play::{Outcome, Play, under};
use crate::shrink::CONNECTIONS;
use testbed::Site;
use testbed::report::number;

pub fn plays() -> Vec<Play> {
    let play = |name, record, judge| under("cubic", "losses", name, CONNECTIONS, record, judge);
    vec![
        play("every_fast_retransmission", holes, fast_retransmissions),
        play(
            "every_tail_loss_probe_and_timeout",
            tails,
            probes_and_timeouts,
        ),
    ]
}

/// Data segments that the wire saw before, by its own log.
fn sent_again(log: &[PacketRecord]) -> u64 {
    let mut seen = HashSet::new();
    let data = log
        .iter()
        .filter(|row| row.direction == Direction::AToB)
        .filter_map(|row| row.tcp.filter(|tcp| tcp.payload_bytes > 0));
    data.filter(|tcp| !seen.insert(tcp.seq)).count() as u64
}

/// The kernel's own counters of a namespace (`/proc/net/netstat`), which was new.
fn netstat(netns: &Netns) -> BTreeMap<String, u64> {
    let text = netns.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat"));
    let text = text.expect("enter").expect("netstat");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("TcpExt:"))
        .collect();
    let [names, values] = lines[..] else {
        panic!("no TcpExt in {text}");
    };
    let values = values
        .split(' ')
        .skip(1)
        .map(|value| value.parse().unwrap_or(0));
    names
        .split(' ')
        .skip(1)
        .map(str::to_owned)
        .zip(values)
        .collect()
}

/// A transfer that loses chosen data segments.
fn transfer(congctl: &str, chosen: &[Range<u64>], stream: &str) -> Outcome {
    let path = DirectionConfig {
        lose_data: chosen.to_vec(),
        ..DirectionConfig::delay(10_000)
    };
    let wire = start(congctl, path);
    let recorded = Site::over(&wire).record("sink", stream);
    let netstat = netstat(&wire.a);
    let counters = ["TCPFastRetrans", "TCPLossProbes", "TCPTimeouts"];
    let counters = counters.map(|name| (name, netstat[name]));
    Outcome::from(recorded)
        .with("netstat", json!(BTreeMap::from(counters)))
        .with("sent_again", sent_again(&wire.stop().1))
}

/// Three holes of 1, 2 and 2 segments in a transfer that goes on long after.
fn holes(congctl: &str) -> Result<Outcome, String> {
    let chosen = [101..102, 211..213, 307..309];
    let outcome = transfer(congctl, &chosen, "stream --bytes 1000003");
    let again = number(&outcome.truth, "/sent_again");
    let fast = number(&outcome.truth, "/netstat/TCPFastRetrans");
    let why = format!("{again} retransmitted, {fast} of them at once, where five were lost");
    ((again, fast) == (5, 5)).then_some(outcome).ok_or(why)
}

/// Messages that are each alone on their way. The third is lost once, which a tail-loss
/// probe repairs; the fourth is lost three times, which takes a timeout.
fn tails(congctl: &str) -> Result<Outcome, String> {
    let stream = "stream --bytes 5000 --write-size 1000 --pause-us 1300000";
    let outcome = transfer(congctl, &[2..3, 4..7], stream);
    let of = |name: &str| number(&outcome.truth, name);
    let counts = (
        of("/sent_again"),
        of("/netstat/TCPLossProbes"),
        of("/netstat/TCPTimeouts"),
    );
    let why = format!("retransmitted by probes and by timeouts: {counts:?}");
    let is_so = counts.0 == 4 && counts.1 >= 1 && counts.2 >= 1;
    is_so.then_some(outcome).ok_or(why)
}

/// Segments retransmitted by each kind of event: all that the wire saw again.
fn events(outcome: &Outcome) -> BTreeMap<TcpEventKind, u64> {
    outcome.report.assert_whole();
    let (id, again) = (outcome.client_id(), number(&outcome.truth, "/sent_again"));
    let mut events = BTreeMap::new();
    for event in outcome.report.rows::<TcpEvent>() {
        if let (true, Some(segments)) = (event.conn == id, event.segments) {
            *events.entry(event.kind).or_default() += u64::from(segments);
        }
    }
    assert_eq!(events.values().sum::<u64>(), again, "{events:?}");
    let counted = number(outcome.client_end(), "/totals/retransmits");
    assert_eq!(counted, again, "totals.retransmits against the wire's log");
    events
}

fn fast_retransmissions(outcome: &Outcome) {
    let events = events(outcome);
    assert_eq!(events, BTreeMap::from([(TcpEventKind::FastRetransmit, 5)]));
}

fn probes_and_timeouts(outcome: &Outcome) {
    let events = events(outcome);
    let counted = |kind| events.get(&kind).copied().unwrap_or(0);
    let known = |name: &str| number(&outcome.truth, &format!("/netstat/{name}"));
    let (probes, timeouts) = (known("TCPLossProbes"), known("TCPTimeouts"));
    assert_eq!(counted(TcpEventKind::TailLossProbe), probes);
    assert_eq!(counted(TcpEventKind::TimeoutRetransmit), timeouts);
    let totals = &outcome.client_end()["totals"];
    assert_eq!(number(totals, "/timeouts"), timeouts);
    assert_eq!(number(totals, "/tail_loss_probes"), probes);
}
