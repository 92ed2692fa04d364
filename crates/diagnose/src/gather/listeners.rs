//! Readings of one listening socket.

use table::tables::{Connection, Listener};
use table::{Chosen, Role};

/// Readings of one listening socket, within the judged span.
#[derive(Debug, Clone, Default)]
pub struct ListenerDigest {
    /// Since when it is judged, ns: the first reading, or listen() itself.
    pub since_ns: u64,
    /// Last reading, ns.
    pub until_ns: u64,
    /// Connection attempts dropped in that time.
    pub drops: u64,
    /// How many may wait to be accepted.
    pub waiting_max: u32,
    /// Most that any reading found waiting.
    pub most_waiting: u32,
    /// Dropped before that time, as far as it is known.
    pub drops_before: u32,
    readings: u64,
}

impl ListenerDigest {
    /// Adds a reading; they come in the order of time. What was dropped before the span, or before
    /// the first reading of a socket that listened already, does not count.
    pub fn add(&mut self, reading: &Listener, span: (u64, u64)) {
        if reading.time_ns > span.1 {
            return;
        }
        let began = reading.listen_ns.filter(|ns| *ns >= span.0);
        if reading.time_ns < span.0 || (self.readings == 0 && began.is_none()) {
            self.drops_before = reading.drops;
            self.since_ns = reading.time_ns.max(span.0);
        } else if self.readings == 0 {
            self.since_ns = began.unwrap_or(reading.time_ns);
        }
        if reading.time_ns < span.0 {
            return;
        }
        self.readings += 1;
        self.until_ns = reading.time_ns;
        self.drops = reading.drops.saturating_sub(self.drops_before).into();
        self.waiting_max = reading.waiting_max;
        self.most_waiting = self.most_waiting.max(reading.waiting);
    }
}

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
    }
}
