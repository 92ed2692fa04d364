//! Rows of connections with little known of them.

use crate::tables::Connection;
use crate::{Chosen, Role};

impl Connection {
    /// Makes the row of a connection with only its number and addresses.
    pub fn with_addresses(conn: u64, local: impl Into<String>, remote: impl Into<String>) -> Self {
        Self {
            conn,
            time_ns: 0,
            netns: 0,
            local: local.into(),
            remote: remote.into(),
            role: Role::Unknown,
            chosen: Chosen::Target,
            connect_ns: None,
            syn_retries: None,
            opened_ns: None,
            closed_ns: None,
            pid: None,
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
}
