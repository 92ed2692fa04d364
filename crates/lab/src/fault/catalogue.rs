//! The list of faults: those of connections, and then those of requests and programs ([`super::causes`]).

use super::causes::CAUSES;
use super::scene::{
    CONGCTLS, Claim, ClaimSubject, ConnectionEnd, Fault, claim_acceptor, claim_opener,
};
use super::{buffers, cpus, losses, messages, programs, startup};

/// Returns the fault with this name.
pub fn find(name: &str) -> Option<&'static Fault> {
    FAULTS.iter().find(|fault| fault.name == name)
}

/// All faults.
pub const FAULTS: &[Fault] = &join_lists::<{ CONNECTIONS.len() + CAUSES.len() }>();

/// Returns all lists, one after the other.
const fn join_lists<const COUNT: usize>() -> [Fault; COUNT] {
    let mut all = [CONNECTIONS[0]; COUNT];
    let mut at = 1;
    while at < COUNT {
        all[at] = match at < CONNECTIONS.len() {
            true => CONNECTIONS[at],
            false => CAUSES[at - CONNECTIONS.len()],
        };
        at += 1;
    }
    all
}

/// Faults of connections.
const CONNECTIONS: &[Fault] = &[
    Fault {
        name: "write_write_read",
        summary: "a request in two small writes waits for the receiver's ACK timer",
        source: "Nagle's algorithm with delayed ACKs; SNAP 6.1",
        claim: |_| claim_opener("nagle_delayed_ack"),
        mendable: true,
        congctls: CONGCTLS,
        scene: messages::write_write_read,
    },
    Fault {
        name: "cork_delay",
        summary: "a client sets a cork and waits for replies; its twin sends at once",
        source: "docs/findings/cork_delay.md",
        claim: |_| claim_opener("cork_delay"),
        mendable: true,
        congctls: CONGCTLS,
        scene: messages::cork_delay,
    },
    Fault {
        name: "tiny_send_buffer",
        summary: "a send buffer far smaller than what the path holds",
        source: "SNAP 4.1 and 6.3",
        claim: |_| claim_opener("send_buffer_limited"),
        mendable: true,
        congctls: CONGCTLS,
        scene: buffers::tiny_send_buffer,
    },
    Fault {
        name: "tiny_receive_buffer",
        summary: "a receive buffer far smaller than what the path holds",
        source: "SNAP 4.1 and 6.3",
        claim: |_| claim_opener("receive_buffer_limited"),
        mendable: true,
        congctls: CONGCTLS,
        scene: buffers::tiny_receive_buffer,
    },
    Fault {
        name: "slow_reader",
        summary: "the receiving program computes between its reads",
        source: "SNAP 6.3",
        claim: |_| claim_opener("slow_reader"),
        mendable: true,
        congctls: CONGCTLS,
        scene: buffers::slow_reader,
    },
    Fault {
        name: "random_loss",
        summary: "one packet in a hundred is lost; BBR does not feel it",
        source: "SNAP 4.1",
        claim: |congctl| claim_opener("fast_retransmits").filter(|_| congctl != "bbr"),
        mendable: true,
        congctls: CONGCTLS,
        scene: losses::random_loss,
    },
    Fault {
        name: "reordering",
        summary: "packets overtake each other: Linux learns it, and nothing is wrong",
        source: "RFC 8985 section 6.2: the reordering window",
        claim: |_| claim_opener("path_limited"),
        mendable: false,
        congctls: CONGCTLS,
        scene: losses::reordering,
    },
    Fault {
        name: "tail_loss",
        summary: "single requests are lost, and only a timer notices",
        source: "SNAP 6.1",
        claim: |_| claim_opener("retransmit_timeouts"),
        mendable: true,
        congctls: CONGCTLS,
        scene: losses::tail_loss,
    },
    Fault {
        name: "black_hole",
        summary: "the path swallows everything for a second",
        source: "SNAP 4.1",
        claim: |_| claim_opener("retransmit_timeouts"),
        mendable: true,
        congctls: CONGCTLS,
        scene: losses::black_hole,
    },
    Fault {
        name: "syn_loss",
        summary: "the first SYNs are lost, and connecting takes seconds",
        source: "RFC 6298 section 2: the first timeout is 1 s",
        claim: |_| {
            Some(Claim {
                rule: "syn_retries",
                end: ConnectionEnd::Client,
                of: ClaimSubject::LateToConnect,
            })
        },
        mendable: true,
        congctls: CONGCTLS,
        scene: losses::syn_loss,
    },
    Fault {
        name: "delay_spikes",
        summary: "the path stalls now and then, and what is late is taken for lost",
        source: "RFC 5682: spurious timeouts",
        claim: |_| claim_opener("spurious_retransmits"),
        mendable: true,
        congctls: CONGCTLS,
        scene: losses::delay_spikes,
    },
    Fault {
        name: "thin_connections",
        summary: "requests over several connections, each too thin to see a loss before a timer does",
        source: "SNAP 6.1",
        claim: |_| {
            Some(Claim {
                rule: "thin_stream_timeouts",
                end: ConnectionEnd::Client,
                of: ClaimSubject::Stalled,
            })
        },
        mendable: true,
        congctls: CONGCTLS,
        scene: losses::thin_connections,
    },
    Fault {
        name: "burst_after_idle",
        summary: "a whole old window at once after a pause overflows a queue; BBR paces it",
        source: "SNAP 6.2",
        claim: |congctl| claim_opener("burst_after_idle").filter(|_| congctl != "bbr"),
        mendable: true,
        congctls: CONGCTLS,
        scene: losses::burst_after_idle,
    },
    Fault {
        name: "delayed_ack_after_timeout",
        summary: "after a timeout the receiver holds back the ACK of the one segment sent",
        source: "SNAP figure 6",
        claim: |_| claim_opener("delayed_ack_after_timeout"),
        mendable: true,
        congctls: CONGCTLS,
        scene: losses::delayed_ack_after_timeout,
    },
    Fault {
        name: "incast",
        summary: "many workers answer at once over a queue that holds but a part of it",
        source: "SNAP 4.1",
        claim: |_| claim_acceptor("incast"),
        mendable: true,
        congctls: CONGCTLS,
        scene: programs::incast,
    },
    Fault {
        name: "listen_overflow",
        summary: "connections come faster than the server accepts them",
        source: "tcp_conn_request(): the accept queue",
        claim: |_| {
            Some(Claim {
                rule: "listen_overflow",
                end: ConnectionEnd::Server,
                of: ClaimSubject::Listener,
            })
        },
        mendable: true,
        congctls: CONGCTLS,
        scene: programs::listen_overflow,
    },
    Fault {
        name: "deferred_accepts",
        summary: "connections say nothing for a while, and the server asked for that: nothing is wrong",
        source: "tcp_check_req(): TCP_DEFER_ACCEPT",
        claim: |_| None,
        mendable: false,
        congctls: CONGCTLS,
        scene: programs::deferred_accepts,
    },
    Fault {
        name: "waiting_proxy",
        summary: "a proxy of one thread waits until the far side has acknowledged",
        source: "SNAP figure 7",
        claim: |_| {
            Some(Claim {
                rule: "proxy_stall",
                end: ConnectionEnd::Proxy,
                of: ClaimSubject::Nth(0),
            })
        },
        mendable: true,
        congctls: CONGCTLS,
        scene: programs::waiting_proxy,
    },
    Fault {
        name: "head_of_line",
        summary: "a server of one thread waits for a slow client, and the others for it",
        source: "SNAP 6.1",
        claim: |_| {
            Some(Claim {
                rule: "proxy_stall",
                end: ConnectionEnd::Server,
                of: ClaimSubject::WithClient(0),
            })
        },
        mendable: true,
        congctls: CONGCTLS,
        scene: programs::head_of_line,
    },
    Fault {
        name: "path_limited",
        summary: "the path gives no more: nothing is wrong with either end",
        source: "SNAP 3.2: the network",
        claim: |_| claim_opener("path_limited"),
        mendable: false,
        congctls: CONGCTLS,
        scene: buffers::path_limited,
    },
    Fault {
        name: "one_among_200",
        summary: "one connection stalls as write_write_read does, among 200 that are healthy",
        source: "SNAP 6",
        claim: |_| claim_opener("nagle_delayed_ack"),
        mendable: true,
        congctls: CONGCTLS,
        scene: messages::one_among_200,
    },
    Fault {
        name: "two_faults",
        summary: "one connection stalls as write_write_read does, another as tiny_receive_buffer",
        source: "SNAP 6",
        claim: |_| claim_opener("nagle_delayed_ack"),
        mendable: true,
        congctls: CONGCTLS,
        scene: messages::two_faults,
    },
    Fault {
        name: "logging_client",
        summary: "short records wait for the ACK timer of a receiver that answers a few of them",
        source: "SNAP 6.2: the logging application",
        claim: |_| claim_opener("nagle_delayed_ack"),
        mendable: true,
        congctls: CONGCTLS,
        scene: messages::logging_client,
    },
    Fault {
        name: "vtune_startup",
        summary: "a client starts slowly: most of its many commands are small, and wait for an ACK timer",
        source: "VTune cookbook: Inefficient TCP/IP Synchronization",
        claim: |_| claim_opener("nagle_delayed_ack"),
        mendable: true,
        congctls: CONGCTLS,
        scene: startup::vtune_startup,
    },
    Fault {
        name: "window_scale_lost",
        summary: "a middlebox changes the window scale: large windows are believed to be small",
        source: "SNAP 6.3: receiver window negotiation",
        claim: |_| claim_opener("receive_buffer_limited"),
        mendable: true,
        congctls: CONGCTLS,
        scene: buffers::window_scale_lost,
    },
    Fault {
        name: "buffer_beyond_window",
        summary: "a send buffer many times the window that the receiver can announce",
        source: "SNAP 5.3",
        claim: |_| claim_opener("send_buffer_exceeds_window"),
        mendable: true,
        congctls: CONGCTLS,
        scene: buffers::buffer_beyond_window,
    },
    Fault {
        name: "odd_segment",
        summary: "a send buffer that one segment fills, and a receiver that delays its ACK",
        source: "SNAP 6.2: the send buffer set to zero",
        claim: |_| claim_opener("delayed_ack"),
        mendable: true,
        congctls: CONGCTLS,
        scene: buffers::odd_segment,
    },
    Fault {
        name: "burst_loss",
        summary: "a few packets in a row are lost; BBR does not feel it",
        source: "Gilbert, 1960; SNAP 4.1",
        claim: |congctl| claim_opener("fast_retransmits").filter(|_| congctl != "bbr"),
        mendable: true,
        congctls: CONGCTLS,
        scene: losses::burst_loss,
    },
    Fault {
        name: "starved_server",
        summary: "busy loops of others share the CPU of a server that computes",
        source: "run-queue delay: Documentation/scheduler/sched-stats.rst",
        claim: |_| claim_acceptor("cpu_contention"),
        mendable: true,
        congctls: CONGCTLS,
        scene: cpus::starved_server,
    },
    Fault {
        name: "starved_reader",
        summary: "busy loops of others share the CPU of a reader, which then is too slow",
        source: "SNAP 6.3; run-queue delay: Documentation/scheduler/sched-stats.rst",
        claim: |_| claim_opener("slow_reader"),
        mendable: true,
        congctls: CONGCTLS,
        scene: cpus::starved_reader,
    },
    Fault {
        name: "softirq_flood",
        summary: "packets for others keep the kernel busy on the CPU of a server that computes",
        source: "MAX_SOFTIRQ_TIME of kernel/softirq.c; Documentation/networking/scaling.rst: RPS",
        claim: |_| claim_acceptor("softirq_delay"),
        mendable: true,
        congctls: CONGCTLS,
        scene: cpus::softirq_flood,
    },
    Fault {
        name: "server_computes",
        summary: "the server computes before it answers",
        source: "SNAP 3.2: the sender's application",
        claim: |_| claim_acceptor("sender_app_limited"),
        mendable: true,
        congctls: CONGCTLS,
        scene: messages::server_computes,
    },
    Fault {
        name: "client_thinks",
        summary: "the client computes between its requests",
        source: "SNAP 3.2: the sender's application",
        claim: |_| claim_opener("sender_app_limited"),
        mendable: true,
        congctls: CONGCTLS,
        scene: messages::client_thinks,
    },
];
