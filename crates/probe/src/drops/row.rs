//! A record of a drop → a row of table `drops`.

use table::DropKind;
use table::tables::PacketDrop;

use super::names::KernelNames;
use super::ordinary;
use super::qdisc::fill_qdisc;
use crate::inventory::seen::address;
use crate::wire::text;
use crate::wire::types::{drop_key, drop_kind, drop_packet, drop_seen};

/// As `DROP_NO_REASON` in `drops.h`.
const NO_REASON: u32 = u32::MAX;

/// Functions of a tracepoint and of what frees packets: before the place in a stack.
const TRACING: [&str; 5] = ["bpf_", "__bpf_", "__traceiter_", "bpf_trace_run", "trace_"];

/// Returns the row of a record; `None` for a kind that this build does not know.
pub(super) fn make_row(seen: &drop_seen, names: &KernelNames) -> Option<PacketDrop> {
    let drop_seen {
        key,
        packet,
        time_ns,
        cookie,
        stack,
        frames,
        qdisc,
        device,
    } = *seen;
    let kind = kind(key.kind)?;
    let callers = caller_names(stack.get(..frames as usize)?, key.location, names);
    let has_addresses = packet.family != 0;
    let is_segment = packet.has_seq != 0;
    let mut row = PacketDrop {
        time_ns,
        kind,
        reason: reason_name(&key, names),
        place: place_name(&key, names),
        ordinary: is_ordinary(&key, names),
        stack: (!callers.is_empty()).then(|| callers.join(" < ")),
        conn: (cookie != 0).then_some(cookie),
        netns: nonzero(key.netns),
        device: Some(text(&device)).filter(|name| !name.is_empty()),
        ifindex: nonzero(key.ifindex),
        protocol: has_addresses.then_some(packet.protocol),
        source: has_addresses.then(|| format_endpoint(&packet, packet.source, packet.source_port)),
        destination: has_addresses
            .then(|| format_endpoint(&packet, packet.destination, packet.destination_port)),
        tcp_flags: is_segment.then_some(packet.tcp_flags),
        seq: is_segment.then_some(packet.seq),
        end_seq: is_segment.then_some(packet.end_seq),
        bytes: nonzero(packet.bytes),
        qdisc: None,
        qdisc_child: None,
        qdisc_candidates: None,
        qdisc_limit: None,
        qdisc_packets: None,
        qdisc_bytes: None,
        qdisc_full: None,
    };
    fill_qdisc(&mut row, &qdisc);
    Some(row)
}

/// Returns the number; None if it is 0, which means unknown.
pub(super) fn nonzero(number: u32) -> Option<u32> {
    (number != 0).then_some(number)
}

/// Returns the kind of drop; None for a number of a newer program.
pub(super) fn kind(wire: u8) -> Option<DropKind> {
    Some(match drop_kind(u32::from(wire)) {
        drop_kind::DROP_PACKET => DropKind::Packet,
        drop_kind::DROP_RESET_SENT => DropKind::ResetSent,
        drop_kind::DROP_RESET_RECEIVED => DropKind::ResetReceived,
        drop_kind::DROP_QUEUE_FULL => DropKind::QueueFull,
        drop_kind::DROP_UDP_QUEUE_FULL => DropKind::UdpQueueFull,
        drop_kind::DROP_ICMP_SENT => DropKind::IcmpSent,
        _ => return None,
    })
}

/// Returns the reason in the kernel's words. A number that its BTF does not list is that of a subsystem.
pub(super) fn reason_name(key: &drop_key, names: &KernelNames) -> Option<String> {
    let number = key.reason;
    if number == NO_REASON {
        return None;
    }
    let name = match drop_kind(u32::from(key.kind)) {
        drop_kind::DROP_PACKET => names.reason(number),
        drop_kind::DROP_RESET_SENT => names.reset_reason(number),
        drop_kind::DROP_ICMP_SENT => {
            let (kind, code) = (number >> 8, number & 255);
            return Some(format!("type {kind} code {code}"));
        }
        _ => return None,
    };
    Some(name.map_or_else(|| format!("{number:#x}"), str::to_owned))
}

/// Returns whether drops with this reason, or at this place, are no problem.
pub(super) fn is_ordinary(key: &drop_key, names: &KernelNames) -> bool {
    if drop_kind(u32::from(key.kind)) != drop_kind::DROP_PACKET {
        return false;
    }
    match names.reason(key.reason) {
        Some(reason) if reason != ordinary::NOT_SPECIFIED => ordinary::is_ordinary(reason),
        _ => names
            .function(key.location)
            .is_some_and(ordinary::is_ordinary_place),
    }
}

/// Returns the function that dropped the packet.
pub(super) fn place_name(key: &drop_key, names: &KernelNames) -> Option<String> {
    let location = (key.location != 0).then_some(key.location)?;
    names.function(location).map(str::to_owned)
}

/// Formats an address with its port, or alone if the packet has no ports.
fn format_endpoint(packet: &drop_packet, bytes: [u8; 16], port: u16) -> String {
    let address = address(bytes, port);
    match packet.has_ports {
        0 => address.ip().to_string(),
        _ => address.to_string(),
    }
}

/// The names of what called each other, from the place on; without a place, from the first that is none of tracing.
fn caller_names<'a>(stack: &[u64], location: u64, names: &'a KernelNames) -> Vec<&'a str> {
    let first = stack.iter().position(|address| *address == location);
    let named = stack[first.unwrap_or(0)..]
        .iter()
        .filter_map(|address| names.function(*address));
    let is_tracing = |name: &&str| TRACING.iter().any(|begin| name.starts_with(begin));
    named.skip_while(is_tracing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes names of reasons and functions for tests.
    fn names() -> KernelNames {
        KernelNames::from_parts(
            &[(12, "NETFILTER_DROP")],
            "1000 T bpf_trace_run4\n2000 T sk_skb_reason_drop\n3000 T nf_hook_slow\n4000 T ip_local_deliver\n",
        )
    }

    #[test]
    fn every_declared_kind_has_a_wire_kind() {
        let known: Vec<DropKind> = (0..=u8::MAX).filter_map(kind).collect();
        assert_eq!(known, DropKind::ALL);
    }

    #[test]
    fn stack_begins_at_the_place() {
        let stack = [0x1001, 0x2001, 0x3001, 0x4001];
        assert_eq!(
            caller_names(&stack, 0x3001, &names()),
            ["nf_hook_slow", "ip_local_deliver"]
        );
        // no place: tracing is left out
        assert_eq!(caller_names(&stack, 0, &names())[0], "sk_skb_reason_drop");
    }

    #[test]
    fn reasons_are_those_of_the_kernel() {
        // SAFETY: `Wire` says that any bytes are a value.
        let mut key: drop_key = unsafe { std::mem::zeroed() };
        key.reason = 12;
        assert_eq!(
            reason_name(&key, &names()).as_deref(),
            Some("NETFILTER_DROP")
        );
        key.reason = 0x2_0001;
        assert_eq!(reason_name(&key, &names()).as_deref(), Some("0x20001"));
        key.reason = NO_REASON;
        assert_eq!(reason_name(&key, &names()), None);
        key.kind = drop_kind::DROP_ICMP_SENT.0 as u8;
        key.reason = 3 << 8 | 13;
        assert_eq!(
            reason_name(&key, &names()).as_deref(),
            Some("type 3 code 13")
        );
    }
}
