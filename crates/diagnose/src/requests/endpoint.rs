//! The connections of a recording, as requests see them: which end serves, which service it belongs to, and which other
//! recorded connection is its other end.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::net::SocketAddr;

use table::Role;
use table::tables::{Connection, TcpSamples, UdpFlow, UnixSocket};

pub use super::id::EndpointId;
use super::id::ThreadId;
use super::service::{ServiceId, ServiceKey, ServiceTable, Side};
use super::thread_event::Target;
pub use crate::rows::addresses::port;
use crate::rows::hash::CookieHasher;
use crate::rows::serving::ServedAddresses;
use crate::rows::{udp_flows, unix_sockets};
use crate::waits::NameTable;

/// A reset closes a connection within the call that it answers: that call has ended so long after, a time slice.
const CALL_LATE_NS: u64 = 10_000_000;

/// Errors of a connection that a RST ended: before the FIN of the other end, and after (`include/uapi/asm-generic/errno.h`).
pub const ECONNRESET: i32 = 104;
pub const EPIPE: i32 = 32;

/// One recorded end of a connection.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Socket cookie.
    pub conn: u64,
    /// Side of the connection on which this end is.
    pub side: Side,
    /// The service that its requests belong to.
    pub service: ServiceId,
    /// The other end, if it is recorded.
    pub peer: Option<EndpointId>,
    /// Process that has it; 0: not known.
    pub pid: u32,
    /// When connect() was called.
    pub connect_ns: Option<u64>,
    /// Whether a SYN of it was retransmitted.
    pub has_syn_retries: bool,
    /// When it was established.
    pub opened_ns: Option<u64>,
    /// When it was closed.
    pub closed_ns: Option<u64>,
    /// Error with which it ended, an errno.
    pub errno: Option<i32>,
    /// Whether a call on it had an error of a reset connection: its program knows of the reset.
    pub has_reset_error: bool,
    /// Whether both ends have one address, or those of loopback: there is no path between.
    pub is_within_host: bool,
    /// A response was moved: a connection to a log has none.
    pub has_response: bool,
    /// Smallest round-trip time of any sample, ns; `None`: no sample has one.
    pub min_rtt_ns: Option<u64>,
    /// Whether the filter means it.
    pub is_wanted: bool,
    /// When a thread last waited for the other end's part of a TLS handshake; 0: never.
    pub handshake_ns: u64,
    /// When a thread was last woken by it, and the thread that ran then.
    pub woken: Option<(u64, Option<ThreadId>)>,
    /// When the last call on it ended; 0: there was none.
    pub called_ns: u64,
    /// Offset after the last byte of requests that it moved, once its turns are over.
    pub request_end: Option<u64>,
    /// Whether nothing says which side this end is on: then the first to send asks.
    pub is_side_open: bool,
    /// Whether `closed_ns` shows its end: of UNIX and UDP sockets no hook does.
    pub has_close: bool,
    /// Whether it is a flow of UDP: each call moves one datagram.
    pub is_udp: bool,
    /// Whether the other end is a name server.
    pub is_resolver: bool,
}

/// Port of name servers (RFC 1035, 4.2).
const DOMAIN_PORT: u16 = 53;

impl Endpoint {
    /// Returns an end without any times.
    fn new((conn, pid): (u64, Option<u32>), side: Side, service: ServiceId) -> Self {
        Self {
            conn,
            side,
            service,
            peer: None,
            pid: pid.unwrap_or(0),
            connect_ns: None,
            has_syn_retries: false,
            opened_ns: None,
            closed_ns: None,
            errno: None,
            has_reset_error: false,
            is_within_host: true,
            has_response: false,
            min_rtt_ns: None,
            is_wanted: true,
            handshake_ns: 0,
            woken: None,
            called_ns: 0,
            request_end: None,
            is_side_open: false,
            has_close: false,
            is_udp: false,
            is_resolver: false,
        }
    }

    /// Makes the endpoint of a TCP connection; finds its service.
    fn from_connection(
        row: &Connection,
        served: &ServedAddresses,
        names: &NameTable,
        services: &mut ServiceTable,
    ) -> Self {
        let side = match served.is_server(row) {
            true => Side::Server,
            false => Side::Client,
        };
        let service = services.number(ServiceKey::new(row, side, names));
        Self {
            connect_ns: row.connect_ns,
            has_syn_retries: row.syn_retries.is_some_and(|retries| retries > 0),
            opened_ns: row.opened_ns,
            closed_ns: row.closed_ns,
            errno: row.errno,
            is_within_host: is_within_host(row),
            has_close: true,
            ..Self::new((row.conn, row.pid), side, service)
        }
    }

    /// Makes the endpoint of a UDP flow; finds its service.
    fn from_udp(row: &UdpFlow, names: &NameTable, services: &mut ServiceTable) -> Self {
        let side = match row.role {
            Role::Client => Side::Client,
            Role::Server | Role::Unknown => Side::Server,
        };
        let address = udp_flows::address(row);
        let service = services.number(ServiceKey::at(row.pid, side, address, names));
        Self {
            is_udp: true,
            is_resolver: side == Side::Client
                && row.remote.as_deref().and_then(port) == Some(DOMAIN_PORT),
            ..Self::new((row.conn, row.pid), side, service)
        }
    }

    /// Makes the endpoint of a Unix socket; finds its service.
    fn from_unix(row: &UnixSocket, names: &NameTable, services: &mut ServiceTable) -> Self {
        let side = match row.role {
            Role::Client => Side::Client,
            Role::Server | Role::Unknown => Side::Server,
        };
        let address = unix_sockets::address(row);
        let service = services.number(ServiceKey::at(row.pid, side, address, names));
        Self {
            is_side_open: row.role == Role::Unknown,
            ..Self::new((row.conn, row.pid), side, service)
        }
    }
}

/// All connections, UNIX sockets and UDP flows.
#[derive(Debug, Default)]
pub struct EndpointTable {
    numbers: HashMap<u64, EndpointId, BuildHasherDefault<CookieHasher>>,
    endpoints: Vec<Endpoint>,
    /// UDP sockets by their inodes, and the flow of each that was used last; the sockets of flows.
    udp_inodes: HashMap<u64, u64>,
    by_socket: HashMap<u64, EndpointId>,
    socket_of: HashMap<EndpointId, u64>,
    /// The connection of the last look-up.
    latest: Option<(u64, Option<EndpointId>)>,
}

impl EndpointTable {
    /// Makes the table of all connections that have names. `wanted`: what the user calls those that matter.
    pub fn new(names: &NameTable, wanted: Option<&str>, services: &mut ServiceTable) -> Self {
        let mut rows: Vec<&Connection> = names.connections().collect();
        rows.sort_unstable_by_key(|row| row.conn);
        let served = ServedAddresses::new(rows.iter().copied(), names.listening());
        let ends = rows.into_iter().map(|row| {
            let end = Endpoint::from_connection(row, &served, names, services);
            (end, row.peer_conn)
        });
        let mut ends: Vec<_> = ends.collect();
        let unix = names.unix_sockets();
        ends.extend(unix.all().map(|row| {
            let peer = unix.peer(row).map(|peer| peer.conn);
            (Endpoint::from_unix(row, names, services), peer)
        }));
        let udp = names.udp_flows();
        let mut sockets = Vec::new();
        ends.extend(udp.all().map(|row| {
            sockets.push((row.conn, row.socket, row.inode));
            let peer = udp.peer(row).map(|peer| peer.conn);
            (Endpoint::from_udp(row, names, services), peer)
        }));
        ends.sort_unstable_by_key(|(end, _)| end.conn);
        let mut table = Self::default();
        for (number, (end, _)) in (0..).zip(&ends) {
            table
                .numbers
                .insert(end.conn, EndpointId::from_number(number));
        }
        sockets.sort_unstable();
        for (conn, socket, inode) in sockets {
            let Some(id) = table.numbers.get(&conn).copied() else {
                continue;
            };
            table.by_socket.insert(socket, id);
            table.socket_of.insert(id, socket);
            table.udp_inodes.extend(inode.map(|inode| (inode, socket)));
        }
        for (mut end, peer) in ends {
            end.peer = peer.and_then(|peer| table.numbers.get(&peer)).copied();
            end.is_wanted = wanted.is_none_or(|wanted| names.is_connection(wanted, end.conn));
            table.endpoints.push(end);
        }
        table
    }

    /// Adds rows of table `tcp_samples`.
    pub fn add_samples(&mut self, rows: &TcpSamples) {
        for (conn, min_rtt_us) in rows.conn.iter().zip(&rows.min_rtt_us) {
            if let (Some(us), Some(id)) = (min_rtt_us.filter(|us| *us > 0), self.find(*conn)) {
                let known = &mut self.get_mut(id).min_rtt_ns;
                let ns = u64::from(us) * 1_000;
                *known = Some(known.map_or(ns, |known| known.min(ns)));
            }
        }
    }

    /// Returns the connection with this cookie; `None`: it has no row.
    pub fn find(&mut self, conn: u64) -> Option<EndpointId> {
        if let Some((latest, id)) = self.latest
            && latest == conn
        {
            return id;
        }
        let by_socket = || self.by_socket.get(&conn).copied();
        let id = self.numbers.get(&conn).copied();
        if id.is_none() && !self.by_socket.is_empty() {
            // A UDP socket: its flow changes from call to call.
            return by_socket();
        }
        self.latest = Some((conn, id));
        id
    }

    /// Returns the UNIX socket with this inode; `None`: it is not recorded.
    pub fn find_unix(&mut self, inode: u64, names: &NameTable) -> Option<EndpointId> {
        let socket = names.unix_sockets().by_inode(inode)?;
        self.find(socket.conn)
    }

    /// Returns the flow that the UDP socket with this inode was last used for; `None`: it is not recorded.
    pub fn find_udp(&self, inode: u64) -> Option<EndpointId> {
        self.by_socket.get(self.udp_inodes.get(&inode)?).copied()
    }

    /// Notes that a call on an end is over.
    pub fn note_call(&mut self, id: EndpointId, end_ns: u64) {
        self.get_mut(id).called_ns = end_ns;
        if let Some(socket) = self.socket_of.get(&id) {
            self.by_socket.insert(*socket, id);
        }
    }

    /// Notes that a call on an end had this error, an errno.
    pub fn note_error(&mut self, id: EndpointId, errno: i32) {
        self.get_mut(id).has_reset_error |= matches!(errno, ECONNRESET | EPIPE);
    }

    /// Decides which sides the ends of a pair are on: the first that sends asks.
    pub fn decide_side(&mut self, id: EndpointId, side: Side, services: &mut ServiceTable) {
        let end = self.get_mut(id);
        end.is_side_open = false;
        end.side = side;
        end.service = services.on_side(end.service, side);
        if let Some(peer) = end.peer.filter(|peer| self.get(*peer).is_side_open) {
            self.decide_side(peer, side.other(), services);
        }
    }

    /// Returns an endpoint by its id.
    pub fn get(&self, id: EndpointId) -> &Endpoint {
        &self.endpoints[id.index()]
    }

    /// Returns an endpoint by its id, to change it.
    pub fn get_mut(&mut self, id: EndpointId) -> &mut Endpoint {
        &mut self.endpoints[id.index()]
    }

    /// Returns the connection at a position.
    pub fn at(&self, index: usize) -> &Endpoint {
        &self.endpoints[index]
    }

    /// Returns whether a wait was for a connection with responses: no log.
    pub fn has_response(&self, target: Target) -> bool {
        match target {
            Target::Connection(it) => self.get(it).has_response,
            Target::Socket | Target::None => false,
        }
    }

    /// Returns the connections of a service.
    pub fn of_service(&self, service: ServiceId) -> impl Iterator<Item = &Endpoint> {
        let all = self.endpoints.iter();
        all.filter(move |it| it.service == service)
    }

    /// Returns the numbers of all connections.
    pub fn ids(&self) -> impl Iterator<Item = EndpointId> + use<> {
        (0..self.endpoints.len() as u32).map(EndpointId::from_number)
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.endpoints.len()
    }

    /// Returns the connections that were closed, in the order of time.
    pub fn closed_endpoints(&self) -> Vec<(u64, EndpointId)> {
        let all = (0..).map(EndpointId::from_number).zip(&self.endpoints);
        let mut closed: Vec<_> = all
            .filter_map(|(id, endpoint)| {
                let late_ns = endpoint.errno.map_or(0, |_| CALL_LATE_NS);
                Some((endpoint.closed_ns? + late_ns, id))
            })
            .collect();
        closed.sort_unstable();
        closed
    }
}

/// Returns whether both ends have one address, or loopback addresses.
fn is_within_host(row: &Connection) -> bool {
    let ip = |address: &str| address.parse::<SocketAddr>().ok().map(|it| it.ip());
    match ip(&row.local).zip(ip(&row.remote)) {
        Some((local, remote)) => local == remote || remote.is_loopback(),
        None => false,
    }
}
