//! Shared by the lab's tests: the check for root, starting roles, waiting for conditions.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use whylat_lab::wire::{Cause, PacketRecord, Verdict, WireStats};
use whylat_lab::{Direction, LabProcess, Netns};

/// Returns whether this process may make namespaces; says why not.
pub fn may_make_namespaces() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("skipped: network namespaces need root; run the tests as root");
    }
    root
}

/// The lab's own command.
pub fn program() -> &'static str {
    env!("CARGO_BIN_EXE_whylat-lab")
}

/// Starts a role in a namespace. `arguments` are separated by white space.
pub fn role(netns: &Netns, arguments: &str) -> LabProcess {
    let mut command: Command = netns.command(program());
    command.arg("workload").args(arguments.split_whitespace());
    LabProcess::start(command).unwrap()
}

/// Starts a server, then a client that connects to it; returns what the client and the
/// server printed at the end.
pub fn exchange(server_side: (&Netns, &str, &str), client_side: (&Netns, &str)) -> (Value, Value) {
    let (server_netns, address, arguments) = server_side;
    let host = address.contains(':').then(|| format!("[{address}]"));
    let host = host.unwrap_or_else(|| address.to_owned());
    let mut server = role(server_netns, &format!("{arguments} --listen {host}:0"));
    let port = server.port().unwrap();
    let (client_netns, arguments) = client_side;
    let client = role(
        client_netns,
        &format!("{arguments} --connect {host}:{port}"),
    );
    (client.finish().unwrap(), server.finish().unwrap())
}

/// Waits until `condition` holds; fails after 20 s.
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "never saw: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Bytes that the first connection of a sink received.
pub fn received(sink: &Value) -> u64 {
    sink["connections"][0]["recv"]["bytes"].as_u64().unwrap()
}

/// Returns the numbers of the packets that were dropped for one cause.
pub fn dropped(log: &[PacketRecord], direction: Direction, cause: Cause) -> Vec<u64> {
    log.iter()
        .filter(|row| row.direction == direction && row.verdict == Verdict::Dropped(cause))
        .map(|row| row.index)
        .collect()
}

/// Every packet is in the log once, and the counters are the log's sums.
pub fn assert_account(stats: &WireStats, log: &[PacketRecord]) {
    assert_eq!(stats.failure, None);
    assert_eq!(stats.log_missed, 0);
    for direction in Direction::BOTH {
        let counted = stats.direction(direction);
        assert!(counted.balances(), "{counted:?}");
        assert_eq!(counted.travelling.packets, 0);
        assert_eq!(counted.dropped_before_wire, Some(0));
        let rows: Vec<_> = log
            .iter()
            .filter(|row| row.direction == direction)
            .collect();
        assert_eq!(rows.len() as u64, counted.entered.packets);
        assert!(
            rows.iter()
                .enumerate()
                .all(|(n, row)| row.index == n as u64)
        );
        let bytes: u64 = rows.iter().map(|row| u64::from(row.packet_bytes)).sum();
        assert_eq!(bytes, counted.entered.bytes);
        let delivered = rows
            .iter()
            .filter(|row| row.verdict == Verdict::Delivered)
            .count();
        assert_eq!(delivered as u64, counted.delivered.packets);
        for (cause, count) in [
            (Cause::Random, counted.dropped.random),
            (Cause::Window, counted.dropped.window),
            (Cause::Blackhole, counted.dropped.blackhole),
            (Cause::Chosen, counted.dropped.chosen),
            (Cause::Queue, counted.dropped.queue),
            (Cause::Refused, counted.dropped.refused),
            (Cause::Discarded, counted.dropped.discarded),
        ] {
            assert_eq!(
                dropped(log, direction, cause).len() as u64,
                count.packets,
                "{cause:?}"
            );
        }
    }
}
