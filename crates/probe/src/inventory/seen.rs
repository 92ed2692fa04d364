//! A recorded socket as the kernel side describes it (`inventory.bpf.h`) → a row of table
//! `connections`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use table::Chosen;
use table::tables::Connection;

use crate::wire::types::socket_seen;
use crate::wire::{self, Wire};

// SAFETY: `socket_seen` is `repr(C)` and made of integers, arrays and structs of them.
unsafe impl Wire for socket_seen {}

/// `CHOSEN_PEER` of `inventory.h`.
const CHOSEN_PEER: u8 = 2;

/// Returns the address; an IPv4-mapped one as IPv4.
pub(crate) fn address(bytes: [u8; 16], port: u16) -> SocketAddr {
    let ip = Ipv6Addr::from(bytes);
    SocketAddr::new(ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4), port)
}

/// Makes the row of an open socket; `peer_conn` is filled in later.
pub(crate) fn make_row(seen: &socket_seen) -> Connection {
    let socket_seen {
        cookie,
        time_ns,
        connect_ns,
        opened_ns,
        closed_ns,
        local_addr,
        remote_addr,
        owner,
        netns,
        mss_bytes,
        sndbuf_bytes,
        rcvbuf_bytes,
        syn_retries,
        mptcp_token,
        local_port,
        remote_port,
        congestion,
        ulp,
        family: _,
        role,
        chosen,
        nodelay,
        sndbuf_locked,
        rcvbuf_locked,
        error,
        pad: _,
    } = *seen;
    let nonzero = |ns: u64| (ns != 0).then_some(ns);
    Connection {
        conn: cookie,
        time_ns,
        netns,
        local: address(local_addr, local_port).to_string(),
        remote: address(remote_addr, remote_port).to_string(),
        role: wire::role_of(role),
        chosen: if chosen == CHOSEN_PEER {
            Chosen::Peer
        } else {
            Chosen::Target
        },
        connect_ns: nonzero(connect_ns),
        syn_retries: nonzero(connect_ns).map(|_| syn_retries),
        opened_ns: nonzero(opened_ns),
        closed_ns: nonzero(closed_ns),
        pid: (owner.pid != 0).then_some(owner.pid),
        peer_conn: None,
        nodelay: Some(nodelay != 0),
        congestion: Some(wire::text(&congestion)),
        mss_bytes: Some(mss_bytes),
        sndbuf_bytes: Some(sndbuf_bytes),
        sndbuf_locked: Some(sndbuf_locked != 0),
        rcvbuf_bytes: Some(rcvbuf_bytes),
        rcvbuf_locked: Some(rcvbuf_locked != 0),
        ulp: Some(wire::text(&ulp)),
        mptcp_token: (mptcp_token != 0).then_some(mptcp_token),
        errno: (error != 0 && closed_ns != 0).then_some(error.into()),
    }
}
