//! Listening sockets as connections, so that both have names.

use table::tables::{Connection, Listener};
use table::{Chosen, Role};

/// A listening socket in the form of a connection: it has no other end.
pub fn identity(reading: &Listener) -> Connection {
    Connection {
        conn: reading.conn,
        time_ns: reading.time_ns,
        netns: reading.netns,
        local: reading.local.clone(),
        remote: "*".to_owned(),
        role: Role::Server,
        chosen: Chosen::Target,
        connect_ns: None,
        syn_retries: None,
        opened_ns: reading.listen_ns,
        closed_ns: reading.closed_ns,
        pid: reading.pid,
        peer_conn: None,
        nodelay: None,
        congestion: None,
        mss_bytes: None,
        sndbuf_bytes: None,
        sndbuf_locked: None,
        rcvbuf_bytes: None,
        rcvbuf_locked: None,
        ulp: None,
        mptcp_token: None,
        errno: None,
    }
}
