//! The wire does to packets what its options say, and its account is complete.
//! Needs root: it makes network namespaces.

#[allow(dead_code)]
mod common;

use std::collections::HashMap;
use std::net::Ipv6Addr;

use common::{assert_account, dropped, exchange, may_make_namespaces, received, role, until};
use serde_json::Value;
use whylat_lab::wire::{Cause, LossWindow, PacketRecord, Verdict, WindowScale};
use whylat_lab::{Direction, DirectionConfig, Wire, WireConfig};

const MS: u64 = 1_000_000;

/// Sends `bytes` from a to b over the wire and returns the sender's and sink's truth.
fn transfer(wire: &Wire, bytes: u64) -> (Value, Value) {
    let address = wire.address_b().to_string();
    exchange(
        (&wire.b, &address, "sink"),
        (&wire.a, &format!("stream --bytes {bytes}")),
    )
}

#[test]
fn delay_gives_the_round_trip_and_no_packet_is_early() {
    if !may_make_namespaces() {
        return;
    }
    let wire = Wire::start(WireConfig::both(DirectionConfig::delay(20_000))).unwrap();
    let address = wire.address_b().to_string();
    let (client, server) = exchange(
        (&wire.b, &address, "reply-server"),
        (&wire.a, "request-reply --rounds 53"),
    );
    assert_eq!(server["replies"], 53);
    let min_ns = client["min_ns"].as_u64().unwrap();
    eprintln!(
        "round trip min {min_ns} ns, median {} ns",
        client["median_ns"]
    );
    assert!(
        (40 * MS..=41 * MS).contains(&min_ns),
        "min round trip {min_ns} ns"
    );
    let (stats, log) = wire.stop();
    assert_account(&stats, &log);
    for row in log.iter().filter(|row| row.verdict == Verdict::Delivered) {
        let took_ns = row.delivered_ns.unwrap() - row.time_ns;
        assert!(took_ns >= 20 * MS, "{row:?}");
    }
}

#[test]
fn two_wires_at_once_lose_the_same_packets_for_the_same_seed() {
    if !may_make_namespaces() {
        return;
    }
    let lost = |seed_one: u64, seed_two: u64| {
        let start = |seed, delay_us| {
            let lossy = DirectionConfig {
                loss_ppm: 20_000,
                delay_us,
                ..Default::default()
            };
            Wire::start(WireConfig {
                a_to_b: lossy,
                seed,
                ..WireConfig::default()
            })
            .unwrap()
        };
        let wires = [start(seed_one, 1_000), start(seed_two, 3_000)];
        std::thread::scope(|scope| {
            for wire in &wires {
                scope.spawn(move || assert_eq!(received(&transfer(wire, 1_500_007).1), 1_500_007));
            }
        });
        wires.map(|wire| {
            let (stats, log) = wire.stop();
            assert_account(&stats, &log);
            (
                stats.a_to_b.entered.packets,
                dropped(&log, Direction::AToB, Cause::Random),
            )
        })
    };
    let common = |[(entered_one, one), (entered_two, two)]: [(u64, Vec<u64>); 2]| {
        let shorter = entered_one.min(entered_two);
        let within = |lost: Vec<u64>| {
            lost.into_iter()
                .filter(|n| *n < shorter)
                .collect::<Vec<_>>()
        };
        (within(one), within(two))
    };
    let (one, two) = common(lost(7, 7));
    eprintln!("seed 7 lost packets {one:?}");
    assert_eq!(one, two);
    assert!(!one.is_empty());
    let (one, other) = common(lost(7, 8));
    assert_ne!(one, other);
}

/// The link is never faster than its rate; that it is as fast, a busy machine may prevent, which
/// then runs the wire late.
#[test]
fn rate_and_queue_limit_are_kept() {
    const ATTEMPTS: usize = 5;
    if !may_make_namespaces() {
        return;
    }
    let mut rates_bps = Vec::new();
    while rates_bps.len() < ATTEMPTS {
        let rate_bps = rate_while_packets_wait();
        assert!(rate_bps <= RATE_BPS + RATE_BPS / 20, "{rate_bps} bit/s");
        if rate_bps >= RATE_BPS - RATE_BPS / 20 {
            return;
        }
        rates_bps.push(rate_bps);
    }
    panic!("{rates_bps:?} bit/s");
}

const RATE_BPS: u64 = 50_000_000;

/// Returns the rate between the first dropped packet and the last.
fn rate_while_packets_wait() -> u64 {
    let slow = DirectionConfig {
        rate_bps: Some(RATE_BPS),
        queue_bytes: 64 << 10,
        delay_us: 2_000,
        ..DirectionConfig::default()
    };
    let config = WireConfig {
        a_to_b: slow,
        congctl: Some("cubic".into()),
        ..WireConfig::default()
    };
    let wire = Wire::start(config).unwrap();
    assert_eq!(received(&transfer(&wire, 8_000_009).1), 8_000_009);
    let (stats, log) = wire.stop();
    assert_account(&stats, &log);
    assert!(stats.a_to_b.dropped.queue.packets > 0);
    let drops: Vec<u64> = log
        .iter()
        .filter(|row| row.verdict == Verdict::Dropped(Cause::Queue))
        .map(|row| row.time_ns)
        .collect();
    let (from_ns, to_ns) = (drops[0], drops[drops.len() - 1]);
    let bytes: u64 = log
        .iter()
        .filter(|row| row.direction == Direction::AToB)
        .filter(|row| {
            row.delivered_ns
                .is_some_and(|at| at > from_ns && at <= to_ns)
        })
        .map(|row| u64::from(row.packet_bytes))
        .sum();
    let rate_bps = bytes * 8 * 1_000_000_000 / (to_ns - from_ns);
    eprintln!(
        "{rate_bps} bit/s over {} ms, {} queue drops",
        (to_ns - from_ns) / MS,
        drops.len()
    );
    rate_bps
}

#[test]
fn black_hole_drops_packets_only_while_on() {
    if !may_make_namespaces() {
        return;
    }
    let wire = Wire::start(WireConfig::both(DirectionConfig::delay(1_000))).unwrap();
    let mut sink = role(&wire.b, &format!("sink --listen {}:0", wire.address_b()));
    let to = format!("{}:{}", wire.address_b(), sink.port().unwrap());
    let stream = role(
        &wire.a,
        &format!("stream --bytes 300007 --write-size 1000 --pause-us 500 --connect {to}"),
    );
    until("some data", || wire.stats().a_to_b.delivered.packets > 20);
    let on_ns = wire.blackhole(Direction::AToB, true);
    until("two lost packets", || {
        wire.stats().a_to_b.dropped.blackhole.packets >= 2
    });
    let off_ns = wire.blackhole(Direction::AToB, false);
    stream.finish().unwrap();
    assert_eq!(received(&sink.finish().unwrap()), 300_007);
    let (stats, log) = wire.stop();
    assert_account(&stats, &log);
    for row in log.iter().filter(|row| row.direction == Direction::AToB) {
        let inside = (on_ns..=off_ns).contains(&row.time_ns);
        assert_eq!(
            row.verdict == Verdict::Dropped(Cause::Blackhole),
            inside,
            "{row:?}"
        );
    }
}

#[test]
fn a_scheduled_window_loses_by_the_clock_of_the_first_packet() {
    if !may_make_namespaces() {
        return;
    }
    // the stream pauses for longer than the first; it would take a stall of two seconds to send nothing in the second
    let (after_us, for_us) = (50_000, 2_000_000);
    let window = LossWindow {
        after_us,
        for_us,
        every_us: 0,
        loss_ppm: 1_000_000,
    };
    let holed = DirectionConfig {
        windows: vec![window],
        ..DirectionConfig::delay(1_000)
    };
    let wire = Wire::start(WireConfig {
        a_to_b: holed,
        ..WireConfig::default()
    })
    .unwrap();
    let address = wire.address_b().to_string();
    let (_, sink) = exchange(
        (&wire.b, &address, "sink"),
        (
            &wire.a,
            "stream --bytes 200003 --write-size 1000 --pause-us 500",
        ),
    );
    assert_eq!(received(&sink), 200_003);
    let (stats, log) = wire.stop();
    assert_account(&stats, &log);
    assert!(stats.a_to_b.dropped.window.packets > 0);
    let first_ns = log[0].time_ns;
    for row in log.iter().filter(|row| row.direction == Direction::AToB) {
        let age_us = (row.time_ns - first_ns) / 1000;
        let inside = (after_us..after_us + for_us).contains(&age_us);
        assert_eq!(
            row.verdict == Verdict::Dropped(Cause::Window),
            inside,
            "{row:?}"
        );
    }
}

#[test]
fn chosen_segments_are_lost_and_retransmitted() {
    if !may_make_namespaces() {
        return;
    }
    let picky = DirectionConfig {
        lose_data: vec![3..5, 11..12],
        ..DirectionConfig::delay(5_000)
    };
    let wire = Wire::start(WireConfig {
        a_to_b: picky,
        ..WireConfig::default()
    })
    .unwrap();
    assert_eq!(received(&transfer(&wire, 100_003).1), 100_003);
    let (stats, log) = wire.stop();
    assert_account(&stats, &log);
    assert_eq!(stats.a_to_b.dropped.chosen.packets, 3);
    let mut sent: HashMap<u32, u32> = HashMap::new();
    for tcp in log
        .iter()
        .filter(|row| row.direction == Direction::AToB)
        .filter_map(|row| row.tcp)
    {
        if tcp.payload_bytes > 0 {
            *sent.entry(tcp.seq).or_default() += 1;
        }
    }
    for row in log
        .iter()
        .filter(|row| row.verdict == Verdict::Dropped(Cause::Chosen))
    {
        assert!(
            sent[&row.tcp.unwrap().seq] >= 2,
            "not retransmitted: {row:?}"
        );
    }
}

#[test]
fn packets_in_flight_at_end_are_discarded() {
    if !may_make_namespaces() {
        return;
    }
    let wire = Wire::start(WireConfig::both(DirectionConfig::delay(5_000_000))).unwrap();
    let address = wire.address_b();
    let client = role(&wire.a, &format!("receive-only --connect {address}:9"));
    until("a SYN", || wire.stats().a_to_b.travelling.packets > 0);
    assert!(wire.stats().a_to_b.balances());
    drop(client);
    let (stats, log) = wire.stop();
    assert_account(&stats, &log);
    assert!(stats.a_to_b.dropped.discarded.packets > 0);
    assert_eq!(stats.a_to_b.delivered.packets, 0);
}

#[test]
fn a_device_that_is_down_refuses_packets_and_the_wire_goes_on() {
    if !may_make_namespaces() {
        return;
    }
    let wire = Wire::start(WireConfig::both(DirectionConfig::delay(1_000))).unwrap();
    let mut sink = role(&wire.b, &format!("sink --listen {}:0", wire.address_b()));
    let to = format!("{}:{}", wire.address_b(), sink.port().unwrap());
    let stream = format!("stream --bytes 300007 --write-size 1000 --pause-us 500 --connect {to}");
    let stream = role(&wire.a, &stream);
    until("some data", || wire.stats().a_to_b.delivered.packets > 20);
    wire.b.run_ip("link set wire0 down").unwrap();
    until("refused packets", || {
        wire.stats().a_to_b.dropped.refused.packets >= 2
    });
    wire.b.run_ip("link set wire0 up").unwrap();
    stream.finish().unwrap();
    assert_eq!(received(&sink.finish().unwrap()), 300_007);
    let (mut stats, log) = wire.stop();
    // ACKs that were on their way into the device when it went down are the device's.
    assert!(stats.b_to_a.dropped_before_wire.is_some());
    stats.b_to_a.dropped_before_wire = Some(0);
    assert_account(&stats, &log);
}

#[test]
fn a_wire_carries_ipv6() {
    if !may_make_namespaces() {
        return;
    }
    let address6 = "fd77::1".parse::<Ipv6Addr>().unwrap();
    let config = WireConfig {
        address6_a: Some(address6),
        congctl: Some("reno".into()),
        ..WireConfig::default()
    };
    let wire = Wire::start(config).unwrap();
    let (_, b) = wire.addresses6().unwrap();
    let (_, sink) = exchange(
        (&wire.b, &b.to_string(), "sink"),
        (&wire.a, "stream --bytes 50021"),
    );
    assert_eq!(received(&sink), 50_021);
    let (stats, log) = wire.stop();
    assert_account(&stats, &log);
    let payload: u32 = log
        .iter()
        .filter(|row| row.direction == Direction::AToB)
        .filter_map(|row| row.tcp.map(|tcp| tcp.payload_bytes))
        .sum();
    assert!(payload >= 50_021);
}

#[test]
fn options_out_of_range_are_refused_with_a_hint() {
    let too_lossy = DirectionConfig {
        loss_ppm: 1_000_001,
        ..DirectionConfig::default()
    };
    let too_slow = DirectionConfig {
        rate_bps: Some(999),
        ..DirectionConfig::default()
    };
    let too_long = DirectionConfig::delay(10_000_001);
    for (config, option) in [
        (too_lossy, "loss_ppm"),
        (too_slow, "rate_bps"),
        (too_long, "delay_us"),
    ] {
        let message = Wire::start(WireConfig::both(config))
            .unwrap_err()
            .to_string();
        assert!(
            message.contains(option) && message.contains("hint:"),
            "{message}"
        );
    }
}

#[test]
fn a_changed_window_scale_makes_windows_small_and_the_data_still_arrives() {
    if !may_make_namespaces() {
        return;
    }
    let rtt = DirectionConfig::delay(5_000);
    let wire = Wire::start(WireConfig {
        a_to_b: rtt.clone(),
        b_to_a: DirectionConfig {
            window_scale: Some(WindowScale::Lower(4)),
            ..rtt
        },
        ..WireConfig::default()
    })
    .unwrap();
    assert_eq!(received(&transfer(&wire, 100_003).1), 100_003);
    let (stats, log) = wire.stop();
    assert_account(&stats, &log);
    assert_eq!(stats.a_to_b.window_scales_changed, 0);
    assert_eq!(stats.b_to_a.window_scales_changed, 1);
    let back = |row: &&PacketRecord| row.direction == Direction::BToA;
    let mut back = log.iter().filter(back).filter_map(|row| row.tcp);
    let shift = back.find_map(|tcp| tcp.window_scale).unwrap();
    let believed = back.map(|tcp| u32::from(tcp.window) << (shift - 4)).max();
    let forward = |row: &&PacketRecord| row.direction == Direction::AToB;
    let data = log.iter().filter(forward).filter_map(|row| row.tcp);
    // Before the first ACK the SYN-ACK's window holds, which has no scale: ten segments.
    let late = data.filter(|tcp| tcp.payload_bytes > 0).skip(10);
    let largest = late.map(|tcp| tcp.payload_bytes).max();
    // What the client believes the server's windows to be.
    assert!(largest <= believed, "{largest:?} B, window {believed:?} B");
}
