//! A recorded UDP socket as the kernel side describes it (`udp.h`) → a row of table `udp_sockets`.

use table::tables::UdpSocket;

use crate::inventory::seen::address;
use crate::wire::Wire;
use crate::wire::types::udp_seen;

// SAFETY: `udp_seen` is `repr(C)` and made of integers, arrays and structs of them.
unsafe impl Wire for udp_seen {}

/// The row of a record.
pub(crate) fn row(seen: &udp_seen) -> UdpSocket {
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
