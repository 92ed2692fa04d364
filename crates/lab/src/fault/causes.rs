//! The list of faults of requests and programs: one for each rule on them, of the same name.

use super::scene::{
    Claim, ClaimSubject, ConnectionEnd, Fault, Scene, SeededDice, Variant, answering, asking,
    sending, serving,
};
use super::{clients, server};

/// A fault for which the congestion control does not matter.
const fn cause(
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    claim: fn(&str) -> Option<Claim>,
    scene: fn(Variant, &mut SeededDice) -> Scene,
) -> Fault {
    Fault {
        name,
        summary,
        source,
        claim,
        mendable: false,
        congctls: &["cubic"],
        scene,
    }
}

/// Faults of requests and programs.
pub(super) const CAUSES: &[Fault] = &[
    cause(
        "timer_wait",
        "a server sleeps before it answers; its twin sleeps in another thread",
        "docs/findings/timer_wait.md",
        |_| answering("timer_wait"),
        server::timer_wait,
    ),
    cause(
        "lock_wait",
        "requests need a lock that another thread holds while it sleeps; its twin's thread has a lock of its own",
        "docs/findings/lock_wait.md",
        |_| answering("lock_wait"),
        server::lock_wait,
    ),
    cause(
        "computes",
        "a few requests compute much longer than the others; in its twin all compute alike",
        "docs/findings/computes.md",
        |_| answering("computes"),
        server::computes,
    ),
    cause(
        "disk_wait",
        "a server synchronises a file for each request; its twin does so in another thread",
        "docs/findings/disk_wait.md",
        |_| answering("disk_wait"),
        server::disk_wait,
    ),
    cause(
        "memory_stall",
        "requests read pages that are not in memory; in the twin another thread does",
        "docs/findings/memory_stall.md",
        |_| answering("memory_stall"),
        server::memory_stall,
    ),
    cause(
        "process_wait",
        "requests ask another process by a pipe; in the twin another thread does",
        "docs/findings/process_wait.md",
        |_| answering("process_wait"),
        server::process_wait,
    ),
    cause(
        "busy_workers",
        "more requests come than a few processes have threads, and these wait; in the twin each connection has one",
        "docs/findings/busy_workers.md",
        |_| answering("busy_workers"),
        server::busy_workers,
    ),
    cause(
        "udp_drops",
        "a socket's receive buffer is too small for the datagrams that come at once; the twin's is not",
        "docs/findings/udp_drops.md",
        |_| {
            Some(Claim {
                rule: "udp_drops",
                end: ConnectionEnd::Client,
                of: ClaimSubject::Datagrams,
            })
        },
        server::udp_drops,
    ),
    cause(
        "application_window",
        "a server waits for a message after each part; in the twin after ten times as much",
        "docs/findings/application_window.md",
        |_| asking("application_window"),
        clients::application_window,
    ),
    cause(
        "path_mtu",
        "the path loses large packets, and no ICMP message comes; the twin's takes them",
        "docs/findings/path_mtu.md",
        |_| serving("path_mtu"),
        clients::path_mtu,
    ),
    cause(
        "output_blocked",
        "requests write a log to a pipe with a slow reader; in the twin another thread does",
        "docs/findings/output_blocked.md",
        |_| answering("output_blocked"),
        server::output_blocked,
    ),
    cause(
        "process_pause",
        "another process stops the server again and again (SIGSTOP); in the twin it stops another one",
        "docs/findings/process_pause.md",
        |_| answering("process_pause"),
        server::process_pause,
    ),
    cause(
        "cpu_quota",
        "the server's control group has too small a CPU quota; its twin's is never reached",
        "docs/findings/cpu_quota.md",
        |_| answering("cpu_quota"),
        server::cpu_quota,
    ),
    cause(
        "blocked_event_loop",
        "a script keeps redis-server busy while others ask; in the twin all requests are short and alike",
        "docs/findings/blocked_event_loop.md",
        |_| answering("blocked_event_loop"),
        clients::blocked_event_loop,
    ),
    cause(
        "uneven_workers",
        "one of four workers has most of the connections; in the twin they are spread evenly",
        "docs/findings/uneven_workers.md",
        |_| answering("uneven_workers"),
        clients::uneven_workers,
    ),
    cause(
        "pool_wait",
        "threads share too few connections; in the twin each has its own",
        "docs/findings/pool_wait.md",
        |_| asking("pool_wait"),
        clients::pool_wait,
    ),
    cause(
        "remote_slow",
        "a server that is not recorded is slow now and then; its twin is not",
        "docs/findings/remote_slow.md",
        |_| asking("remote_slow"),
        clients::remote_slow,
    ),
    cause(
        "serial_round_trips",
        "requests go one after another over a long path; in the twin at the same time",
        "docs/findings/serial_round_trips.md",
        |_| asking("serial_round_trips"),
        clients::serial_round_trips,
    ),
    cause(
        "connection_churn",
        "a connection for each request over a path; in the twin connections are kept",
        "docs/findings/connection_churn.md",
        |_| asking("connection_churn"),
        clients::connection_churn,
    ),
    cause(
        "dns_slow",
        "a name server leaves out answers; its twin answers all",
        "docs/findings/dns_slow.md",
        |_| asking("dns_slow"),
        clients::dns_slow,
    ),
    cause(
        "connect_failed",
        "attempts to connect are refused, rejected or dropped; the twin goes on at once",
        "docs/findings/connect_failed.md",
        |_| {
            Some(Claim {
                rule: "connect_failed",
                end: ConnectionEnd::Client,
                of: ClaimSubject::Process,
            })
        },
        clients::connect_failed,
    ),
    cause(
        "reset_by_peer",
        "a server closes idle connections as requests come; the twin asks sooner",
        "docs/findings/reset_by_peer.md",
        |_| asking("reset_by_peer"),
        clients::reset_by_peer,
    ),
    cause(
        "reset_by_us",
        "a server closes connections without reading their requests; its twin reads them",
        "docs/findings/reset_by_us.md",
        |_| serving("reset_by_us"),
        clients::reset_by_us,
    ),
    cause(
        "small_io",
        "a program writes a few bytes with each call; its twin a buffer",
        "docs/findings/small_io.md",
        |_| sending("small_io"),
        clients::small_io,
    ),
    cause(
        "packet_dropped_here",
        "a firewall on the same host drops segments; the twin's has a rule for another protocol",
        "docs/findings/packet_dropped_here.md",
        |_| sending("packet_dropped_here"),
        clients::packet_dropped_here,
    ),
];
