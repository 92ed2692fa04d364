//! The list of faults of requests and programs: one for each rule on them, of the same name.

use super::scene::{
    Claim, ClaimSubject, ConnectionEnd, Fault, Scene, SeededDice, Variant, claim_acceptor,
    claim_client_requests, claim_opener, claim_server_requests,
};
use super::{clients, server};

/// A fault for which the congestion control does not matter.
const fn make_fault(
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
    make_fault(
        "accept_failed",
        "a server has too few descriptors for its connections; its twin has enough",
        "docs/findings/accept_failed.md",
        |_| claim_server_requests("accept_failed"),
        server::accept_failed,
    ),
    make_fault(
        "timer_wait",
        "a server sleeps before it answers; its twin sleeps in another thread",
        "docs/findings/timer_wait.md",
        |_| claim_server_requests("timer_wait"),
        server::timer_wait,
    ),
    make_fault(
        "lock_wait",
        "requests need a lock that another thread holds while it sleeps; its twin's thread has a lock of its own",
        "docs/findings/lock_wait.md",
        |_| claim_server_requests("lock_wait"),
        server::lock_wait,
    ),
    make_fault(
        "computes",
        "a few requests compute much longer than the others; in its twin all compute alike",
        "docs/findings/computes.md",
        |_| claim_server_requests("computes"),
        server::computes,
    ),
    make_fault(
        "disk_wait",
        "a server synchronises a file for each request; its twin does so in another thread",
        "docs/findings/disk_wait.md",
        |_| claim_server_requests("disk_wait"),
        server::disk_wait,
    ),
    make_fault(
        "memory_stall",
        "requests read pages that are not in memory; in the twin another thread does",
        "docs/findings/memory_stall.md",
        |_| claim_server_requests("memory_stall"),
        server::memory_stall,
    ),
    make_fault(
        "process_wait",
        "requests ask another process by a pipe; in the twin another thread does",
        "docs/findings/process_wait.md",
        |_| claim_server_requests("process_wait"),
        server::process_wait,
    ),
    make_fault(
        "busy_workers",
        "more requests come than a few processes have threads, and these wait; in the twin each connection has one",
        "docs/findings/busy_workers.md",
        |_| claim_server_requests("busy_workers"),
        server::busy_workers,
    ),
    make_fault(
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
    make_fault(
        "application_window",
        "a server waits for a message after each part; in the twin after ten times as much",
        "docs/findings/application_window.md",
        |_| claim_client_requests("application_window"),
        clients::application_window,
    ),
    make_fault(
        "path_queue",
        "transfers fill the queue of a slow link that requests go over; its twin has none",
        "docs/findings/path_queue.md",
        |_| claim_client_requests("path_queue"),
        clients::path_queue,
    ),
    make_fault(
        "datagrams_unanswered",
        "the path loses datagrams, and the client asks again after a while; the twin's loses none",
        "docs/findings/datagrams_unanswered.md",
        |_| {
            Some(Claim {
                rule: "datagrams_unanswered",
                end: ConnectionEnd::Client,
                of: ClaimSubject::Datagrams,
            })
        },
        clients::datagrams_unanswered,
    ),
    make_fault(
        "path_mtu",
        "the path loses large packets, and no ICMP message comes; the twin's takes them",
        "docs/findings/path_mtu.md",
        |_| claim_acceptor("path_mtu"),
        clients::path_mtu,
    ),
    make_fault(
        "output_blocked",
        "requests write a log to a pipe with a slow reader; in the twin another thread does",
        "docs/findings/output_blocked.md",
        |_| claim_server_requests("output_blocked"),
        server::output_blocked,
    ),
    make_fault(
        "process_pause",
        "another process stops the server again and again (SIGSTOP); in the twin it stops another one",
        "docs/findings/process_pause.md",
        |_| claim_server_requests("process_pause"),
        server::process_pause,
    ),
    make_fault(
        "cpu_quota",
        "the server's control group has too small a CPU quota; its twin's is never reached",
        "docs/findings/cpu_quota.md",
        |_| claim_server_requests("cpu_quota"),
        server::cpu_quota,
    ),
    make_fault(
        "blocked_event_loop",
        "a script keeps redis-server busy while others ask; in the twin all requests are short and alike",
        "docs/findings/blocked_event_loop.md",
        |_| claim_server_requests("blocked_event_loop"),
        clients::blocked_event_loop,
    ),
    make_fault(
        "uneven_workers",
        "one of four workers has most of the connections; in the twin they are spread evenly",
        "docs/findings/uneven_workers.md",
        |_| claim_server_requests("uneven_workers"),
        clients::uneven_workers,
    ),
    make_fault(
        "pool_wait",
        "threads share too few connections; in the twin each has its own",
        "docs/findings/pool_wait.md",
        |_| claim_client_requests("pool_wait"),
        clients::pool_wait,
    ),
    make_fault(
        "remote_slow",
        "a server that is not recorded is slow now and then; its twin is not",
        "docs/findings/remote_slow.md",
        |_| claim_client_requests("remote_slow"),
        clients::remote_slow,
    ),
    make_fault(
        "serial_round_trips",
        "requests go one after another over a long path; in the twin at the same time",
        "docs/findings/serial_round_trips.md",
        |_| claim_client_requests("serial_round_trips"),
        clients::serial_round_trips,
    ),
    make_fault(
        "slow_start_after_idle",
        "a client pauses between large requests, and its congestion window is small again; the twin's stays",
        "docs/findings/slow_start_after_idle.md",
        |_| claim_client_requests("slow_start_after_idle"),
        clients::slow_start_after_idle,
    ),
    make_fault(
        "connection_churn",
        "a connection for each request over a path; in the twin connections are kept",
        "docs/findings/connection_churn.md",
        |_| claim_client_requests("connection_churn"),
        clients::connection_churn,
    ),
    make_fault(
        "dns_slow",
        "a name server leaves out answers; its twin answers all",
        "docs/findings/dns_slow.md",
        |_| claim_client_requests("dns_slow"),
        clients::dns_slow,
    ),
    make_fault(
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
    make_fault(
        "reset_by_peer",
        "a server closes idle connections as requests come; the twin asks sooner",
        "docs/findings/reset_by_peer.md",
        |_| claim_client_requests("reset_by_peer"),
        clients::reset_by_peer,
    ),
    make_fault(
        "reset_by_us",
        "a server closes connections without reading their requests; its twin reads them",
        "docs/findings/reset_by_us.md",
        |_| claim_acceptor("reset_by_us"),
        clients::reset_by_us,
    ),
    make_fault(
        "small_io",
        "a program writes a few bytes with each call; its twin a buffer",
        "docs/findings/small_io.md",
        |_| claim_opener("small_io"),
        clients::small_io,
    ),
    make_fault(
        "packet_dropped_here",
        "a firewall on the same host drops segments; the twin's has a rule for another protocol",
        "docs/findings/packet_dropped_here.md",
        |_| claim_opener("packet_dropped_here"),
        clients::packet_dropped_here,
    ),
];
