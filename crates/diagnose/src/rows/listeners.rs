//! Listening sockets as connections, so that both have names.

use table::Role;
use table::tables::{Connection, Listener};

/// Makes the row of a connection for a listening socket, without another end.
pub fn identity(reading: &Listener) -> Connection {
    Connection {
        time_ns: reading.time_ns,
        netns: reading.netns,
        role: Role::Server,
        opened_ns: reading.listen_ns,
        closed_ns: reading.closed_ns,
        pid: reading.pid,
        ..Connection::with_addresses(reading.conn, reading.local.as_str(), "*")
    }
}
