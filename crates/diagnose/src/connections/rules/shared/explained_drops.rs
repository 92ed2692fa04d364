//! One cause, one finding: which other rule explains packets that this host dropped. Here is the whole list of reasons that
//! another rule names; all others are named by `packet_dropped_here` alone.
//!
//! `udp_drops` has those of UDP sockets, and `packet_dropped_here` speaks of TCP only. `path_mtu` makes it quiet by itself.
//! A full connection tracking table has no rule and no reason of its own.

use crate::connections::case::Case;
use crate::drops::DropCause;
use crate::report::RuleId;
use crate::report::severity::held_up;

/// The accept queue was full (`tcp_v4_syn_recv_sock()`, `cookie_v4_check()`).
const FULL_ACCEPT_QUEUE: [&str; 2] = ["TCP_LISTEN_OVERFLOW", "SYN_COOKIE"];

/// The receive buffer had no room (`tcp_data_queue()`, `tcp_prune_ofo_queue()`, `tcp_add_backlog()`).
const FULL_RECEIVE_BUFFER: [&str; 5] = [
    "PROTO_MEM",
    "TCP_OFO_QUEUE_PRUNE",
    "TCP_OVERWINDOW",
    "TCP_ZEROWINDOW",
    "SOCKET_BACKLOG",
];

/// Rules that name why a receive buffer is full. Both judge before `packet_dropped_here`.
const RECEIVER_RULES: [RuleId; 2] = [RuleId::SlowReader, RuleId::ReceiveBufferLimited];

/// Before Linux 6.14 the kernel gives no reason there, but the function.
const RECEIVE_PLACES: [&str; 2] = ["tcp_v4_rcv", "tcp_v6_rcv"];

/// Returns whether packets may have been dropped because an accept queue was full.
pub fn is_full_accept_queue(cause: &DropCause) -> bool {
    let place = cause.place.as_deref();
    match cause.reason.as_deref() {
        Some("NOT_SPECIFIED") | None => place.is_some_and(|it| RECEIVE_PLACES.contains(&it)),
        Some(reason) => FULL_ACCEPT_QUEUE.contains(&reason),
    }
}

/// Returns the rule with a finding above `info` that explains such drops of segments that this connection sent.
pub fn explaining_rule(case: &Case, cause: &DropCause) -> Option<RuleId> {
    if is_full_accept_queue(cause) {
        let client = case.own.identity()?;
        let dropped = case.own.gathered.drops.interval()?;
        let is_full = case.context.is_listener_full(client, dropped);
        return is_full.then_some(RuleId::ListenOverflow);
    }
    let mut earlier = case.earlier.iter();
    let of_receiver = earlier
        .find(|(rule, harm_ns)| RECEIVER_RULES.contains(rule) && held_up(*harm_ns, case.life_ns()));
    let reason = cause.reason.as_deref()?;
    let (rule, _) = of_receiver.filter(|_| FULL_RECEIVE_BUFFER.contains(&reason))?;
    Some(*rule)
}
