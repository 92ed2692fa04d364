//! Decides which end of a connection serves, and at which address, where the connection was open before the recording.
//!
//! - A listening socket of the same port says it, and so does another connection that was seen to open.
//! - Several connections of one process share the address that serves: their own, or the other end's. An end that asks has a
//!   port of its own for each.
//! - Else the lower port serves: ports of clients are chosen from the upper range (`ip_local_port_range`).

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use table::Role;
use table::tables::Connection;

use super::addresses::port;

/// Connections at one end's address.
#[derive(Debug, Clone, Copy, Default)]
struct AddressUse {
    connections: u32,
    /// Those among them that were seen to open from the other end.
    served: u32,
}

/// Addresses of a recording that serve.
#[derive(Debug, Default)]
pub struct ServedAddresses {
    /// Ports that listen.
    listening: Vec<u16>,
    local: HashMap<(u32, u64), AddressUse>,
    remote: HashMap<(u32, u64), AddressUse>,
}

impl ServedAddresses {
    /// Reads all connections, and the addresses of listening sockets.
    pub fn new<'a>(
        connections: impl Iterator<Item = &'a Connection> + Clone,
        listening: impl Iterator<Item = &'a str>,
    ) -> Self {
        let mut known = Self::default();
        if !connections.clone().any(|row| row.role == Role::Unknown) {
            return known;
        }
        known.listening = listening.filter_map(port).collect();
        for row in connections {
            let ends = [
                (&mut known.local, &row.local, Role::Server),
                (&mut known.remote, &row.remote, Role::Client),
            ];
            for (uses, address, role) in ends {
                let used = uses.entry(key(row, address)).or_default();
                used.connections += 1;
                used.served += u32::from(row.role == role);
            }
        }
        known
    }

    /// Returns whether the recorded end serves.
    pub fn is_server(&self, row: &Connection) -> bool {
        match row.role {
            Role::Server => return true,
            Role::Client => return false,
            Role::Unknown => {}
        }
        let of = |uses: &HashMap<_, AddressUse>, address| {
            uses.get(&key(row, address)).copied().unwrap_or_default()
        };
        let (local, remote) = (of(&self.local, &row.local), of(&self.remote, &row.remote));
        let (own, other) = (port(&row.local), port(&row.remote));
        if own.is_some_and(|own| self.listening.contains(&own)) {
            return true;
        }
        let by_use = |uses: AddressUse| (uses.served, uses.connections);
        match by_use(local).cmp(&by_use(remote)) {
            std::cmp::Ordering::Equal => own < other,
            order => order.is_gt(),
        }
    }

    /// Returns the address of the end that serves.
    pub fn address<'row>(&self, row: &'row Connection) -> &'row str {
        match self.is_server(row) {
            true => &row.local,
            false => &row.remote,
        }
    }
}

/// Returns the key of an address that a process uses: its pid and the address's hash, as addresses
/// are many.
fn key(row: &Connection, address: &str) -> (u32, u64) {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    (row.pid.unwrap_or(0), hasher.hash_one(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(local: &str, remote: &str, role: Role) -> Connection {
        Connection {
            role,
            pid: Some(7),
            ..Connection::with_addresses(1, local, remote)
        }
    }

    fn is_server(rows: &[Connection], listening: &[&str]) -> bool {
        let known = ServedAddresses::new(rows.iter(), listening.iter().copied());
        known.is_server(&rows[0])
    }

    #[test]
    fn lower_port_is_server_without_other_evidence() {
        let alone = connection("10.0.0.1:80", "10.0.0.2:50000", Role::Unknown);
        assert!(is_server(&[alone], &[]));
        let alone = connection("10.0.0.1:50000", "10.0.0.2:80", Role::Unknown);
        assert!(!is_server(&[alone], &[]));
    }

    #[test]
    fn higher_listening_port_is_server() {
        let row = connection("10.0.0.1:50051", "10.0.0.2:40000", Role::Unknown);
        assert!(!is_server(std::slice::from_ref(&row), &[]));
        assert!(is_server(&[row], &["0.0.0.0:50051"]));
    }

    #[test]
    fn address_with_several_connections_is_server() {
        let of = |remote: &str| connection("10.0.0.1:50051", remote, Role::Unknown);
        assert!(is_server(
            &[of("10.0.0.2:40000"), of("10.0.0.2:40001")],
            &[]
        ));
        let of = |local: &str| connection(local, "10.0.0.2:50051", Role::Unknown);
        assert!(!is_server(
            &[of("10.0.0.1:40000"), of("10.0.0.1:40001")],
            &[]
        ));
    }

    #[test]
    fn recorded_open_decides_the_server() {
        let rows = [
            connection("10.0.0.1:50051", "10.0.0.2:40000", Role::Unknown),
            connection("10.0.0.1:50051", "10.0.0.3:41000", Role::Server),
        ];
        assert!(is_server(&rows, &[]));
    }
}
