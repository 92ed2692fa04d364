//! Reasons of drops that are no problem. The meaning of each is the kernel's (`include/net/dropreason-core.h`).

/// Names of reasons with which the kernel ends packets that have done their work, or that nobody on this host is to have.
const ORDINARY: &[&str] = &[
    // "packet don't belong to current host": a device that takes every packet
    "OTHERHOST",
    // "protocol not implemented or not supported": of frames that nobody listens for
    "UNHANDLED_PROTO",
    // "bulk free": what lay in the queue of a socket that is closed
    "QUEUE_PURGE",
    // "socket closed": the same, one by one
    "SOCKET_CLOSE",
    // "Tcp is in CLOSE state"
    "TCP_CLOSE",
    // the reset itself, which table `drops` has as `reset_received`
    "TCP_RESET",
    // "TCP ACK is old, but in window"
    "TCP_OLD_ACK",
    // "Old SEQ field (duplicate packet)", "TCP data is old": it had arrived before
    "TCP_OLD_SEQUENCE",
    "TCP_OLD_DATA",
    // "Data is already in the ofo queue"
    "TCP_OFOMERGE",
    // what was cut out of a packet is consumed
    "TCP_FASTOPEN",
    "DUP_FRAG",
];

/// The reason of what gives none.
pub(super) const NOT_SPECIFIED: &str = "NOT_SPECIFIED";

/// Functions that end packets without a reason, and not because something is wrong: what lies in the queue of a socket that
/// is closed (`skb_queue_purge()` or its like in them), and multicast that nobody on this host listens for.
const ORDINARY_PLACES: &[&str] = &[
    "inet_sock_destruct",
    "ip6_mc_input",
    "ip_mc_input",
    "ipv6_mc_input",
    "sk_stream_kill_queues",
    "skb_queue_purge",
    "skb_queue_purge_reason",
    "tcp_disconnect",
    "tcp_write_queue_purge",
    "udp_destruct_common",
    "udp_destruct_sock",
    "udpv6_destruct_sock",
];

/// Returns whether a place without a reason is no problem.
pub(super) fn is_ordinary_place(function: &str) -> bool {
    ORDINARY_PLACES.contains(&function)
}

/// Returns whether a reason is no problem.
pub(super) fn is_ordinary(reason: &str) -> bool {
    ORDINARY.contains(&reason)
}
