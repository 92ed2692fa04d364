//! UDP flows: rows of `udp_flows` in, each flow by its number or its socket, and its other end out.

use std::collections::HashMap;

use table::Role;
use table::tables::UdpFlow;

use super::addresses::port;

/// UDP flows.
#[derive(Debug, Default)]
pub struct UdpFlowTable {
    flows: HashMap<u64, UdpFlow>,
    /// By ports, the client's first, and the side.
    by_ports: HashMap<(u16, u16, bool), Vec<u64>>,
}

impl UdpFlowTable {
    /// Adds a row.
    pub fn add(&mut self, row: UdpFlow) {
        if let Some(ports) = client_server_ports(&row) {
            let key = (ports.0, ports.1, row.role == Role::Server);
            self.by_ports.entry(key).or_default().push(row.conn);
        }
        self.flows.insert(row.conn, row);
    }

    /// Returns the flow with this number.
    pub fn get(&self, conn: u64) -> Option<&UdpFlow> {
        self.flows.get(&conn)
    }

    /// Returns all of them, in no order.
    pub fn all(&self) -> impl Iterator<Item = &UdpFlow> {
        self.flows.values()
    }

    /// Returns the other end of a flow, if it is recorded: of the same ports and, where they are known, addresses. `None`
    /// also if several fit.
    pub fn peer(&self, flow: &UdpFlow) -> Option<&UdpFlow> {
        let ports = client_server_ports(flow)?;
        let key = (ports.0, ports.1, flow.role != Role::Server);
        let others = self.by_ports.get(&key)?.iter();
        let others = others.filter_map(|conn| self.get(*conn));
        let mut fitting = others.filter(|it| it.netns == flow.netns && may_meet(it, flow));
        let first = fitting.next()?;
        fitting.next().is_none().then_some(first)
    }
}

/// Returns the port of the client and that of the server.
fn client_server_ports(flow: &UdpFlow) -> Option<(u16, u16)> {
    let (local, remote) = (port(&flow.local)?, port(flow.remote.as_deref()?)?);
    Some(match flow.role {
        Role::Client => (local, remote),
        _ => (remote, local),
    })
}

/// Returns whether two flows may be the ends of one: each one's remote address fits the other.
fn may_meet(one: &UdpFlow, other: &UdpFlow) -> bool {
    let fits = |local: &str, remote: Option<&str>| {
        let is_any = local.starts_with("0.0.0.0:") || local.starts_with("[::]:");
        is_any || remote == Some(local)
    };
    fits(&one.local, other.remote.as_deref()) && fits(&other.local, one.remote.as_deref())
}

/// Returns the address of a flow's service.
pub fn address(flow: &UdpFlow) -> String {
    let address = match flow.role {
        Role::Client => flow.remote.as_deref().unwrap_or("unknown addresses"),
        _ => &flow.local,
    };
    format!("udp:{address}")
}

/// Returns the name of one flow.
pub fn name(flow: &UdpFlow) -> String {
    match &flow.remote {
        Some(remote) => format!("UDP {} → {remote}", flow.local),
        None => format!("UDP {}", flow.local),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(conn: u64, role: Role, local: &str, remote: &str) -> UdpFlow {
        UdpFlow {
            conn,
            time_ns: conn,
            socket: conn,
            inode: Some(conn),
            netns: 1,
            local: local.to_owned(),
            remote: Some(remote.to_owned()),
            role,
            pid: Some(1),
        }
    }

    #[test]
    fn both_ends_are_matched_by_address() {
        let mut table = UdpFlowTable::default();
        table.add(flow(1, Role::Client, "127.0.0.1:4000", "127.0.0.1:53"));
        table.add(flow(2, Role::Server, "0.0.0.0:53", "127.0.0.1:4000"));
        table.add(flow(3, Role::Server, "0.0.0.0:53", "127.0.0.2:4000"));
        let peer = |conn| {
            table
                .peer(table.get(conn).expect("known"))
                .map(|it| it.conn)
        };
        assert_eq!((peer(1), peer(2), peer(3)), (Some(2), Some(1), None));
        assert_eq!(address(table.get(1).expect("known")), "udp:127.0.0.1:53");
    }
}
