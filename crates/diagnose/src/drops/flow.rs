//! A packet's addresses → the connection that it belongs to, and the end of it that sent the packet.

use std::collections::HashMap;

use table::tables::PacketDrop;

use crate::waits::NameTable;

/// A connection as a packet shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FlowKey {
    /// A recorded one, by its cookie.
    Connection(u64),
    /// Another: its sender without the port, and its receiver.
    Addresses(String),
}

/// Finds connections by their addresses.
#[derive(Debug, Default)]
pub(super) struct Flows {
    by_ends: HashMap<(String, String), u64>,
}

impl Flows {
    /// Indexes connections by their two addresses.
    pub(super) fn new(names: &NameTable) -> Self {
        let ends = names.connections().map(|it| {
            let ends = (it.local.clone(), it.remote.clone());
            (ends, it.conn)
        });
        Self {
            by_ends: ends.collect(),
        }
    }

    /// Returns the id of the connection with this local and remote address.
    pub(super) fn find(&self, local: &str, remote: &str) -> Option<u64> {
        let ends = (local.to_owned(), remote.to_owned());
        self.by_ends.get(&ends).copied()
    }

    /// Returns the connection that a packet is of; of two ends on this host, that which sent it.
    pub(super) fn key(&self, row: &PacketDrop) -> FlowKey {
        let ends = row.source.as_deref().zip(row.destination.as_deref());
        let found = ends.and_then(|(source, destination)| {
            let sender = self.find(source, destination);
            sender.or_else(|| self.find(destination, source))
        });
        if let Some(conn) = found {
            return FlowKey::Connection(conn);
        }
        FlowKey::Addresses(addresses(row))
    }
}

/// Returns the addresses of a packet without the sender's port, which differs between datagrams.
fn addresses(row: &PacketDrop) -> String {
    let (Some(source), Some(destination)) = (&row.source, &row.destination) else {
        return "packets without addresses".to_owned();
    };
    let host = source.rsplit_once(':').map_or(source.as_str(), |it| it.0);
    let host = if source.matches(':').count() > 1 && !source.starts_with('[') {
        source
    } else {
        host
    };
    format!("{} {host} → {destination}", protocol_name(row.protocol))
}

/// Returns the name of an IP protocol number; "packets" if the number is unknown.
fn protocol_name(number: Option<u8>) -> String {
    match number {
        Some(1) => "icmp".to_owned(),
        Some(6) => "tcp".to_owned(),
        Some(17) => "udp".to_owned(),
        Some(58) => "icmpv6".to_owned(),
        Some(number) => format!("protocol {number}"),
        None => "packets".to_owned(),
    }
}
