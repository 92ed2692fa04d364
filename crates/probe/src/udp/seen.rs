//! A recorded UDP socket as the kernel side describes it (`udp.h`) → a row of table `udp_sockets`.

use table::tables::UdpSocket;
use table::{Columns, TableId};

use crate::interface::features::{Levels, Tracepoint, tracepoint};
use crate::interface::{Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source};
use crate::inventory::seen::address;
use crate::wire::types::{record_kind, udp_seen};
use crate::wire::{Wire, read};

// SAFETY: `udp_seen` is `repr(C)` and made of integers, arrays and structs of them.
unsafe impl Wire for udp_seen {}

/// Counts the datagrams that a socket drops.
static HOOKS: [Tracepoint; 1] = [tracepoint("udp_fail_queue_rcv_skb", "3.0")];

/// The probe of UDP sockets. Their messages go the way of those of TCP.
pub(crate) struct UdpSockets;

impl Probe for UdpSockets {
    fn name(&self) -> &'static str {
        "messages.udp_sockets"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::UdpSocket)
    }

    fn detail(&self) -> Detail {
        Detail::Messages
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.messages
    }

    fn hooks(&self) -> &'static [Tracepoint] {
        &HOOKS
    }

    fn programs(&self) -> &'static [&'static str] {
        &["handle_sock_create", "handle_sock_release", "read_udp"]
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_UDP_SEEN, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        kernel.records(record_kind::RECORD_UDP_SEEN)
    }
}

/// Adds the row of a UDP socket; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    let seen = read(body)?;
    output.rows.udp_sockets.push(make_row(&seen));
    output.add_owner(&seen.owner, seen.time_ns);
    Some(())
}

/// Makes the row of a UDP socket.
fn make_row(seen: &udp_seen) -> UdpSocket {
    let udp_seen {
        cookie,
        time_ns,
        created_ns,
        closed_ns,
        received,
        sent,
        dropped,
        local_addr,
        remote_addr,
        owner,
        netns,
        local_port,
        remote_port,
    } = *seen;
    let nonzero = |ns: u64| (ns != 0).then_some(ns);
    UdpSocket {
        conn: cookie,
        time_ns,
        netns,
        local: address(local_addr, local_port).to_string(),
        remote: (remote_port != 0).then(|| address(remote_addr, remote_port).to_string()),
        pid: (owner.pid != 0).then_some(owner.pid),
        created_ns: nonzero(created_ns),
        closed_ns: nonzero(closed_ns),
        received,
        sent,
        dropped,
    }
}
