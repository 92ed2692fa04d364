//! Datagrams that this host dropped, by sender and receiver, and those that sockets took and sent.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use table::manifest::Header;
use table::tables::{Calls, DropCount, PacketDrop, UdpFlow};
use table::{Columns, DropKind, Role, Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::drops::DropCause;
use crate::rows::addresses::{is_at, port};
use crate::waits::NameTable;

/// Rows that are kept with their times; more are counted.
const KEPT_MOST: usize = 1 << 18;

/// Number of UDP above IP.
const UDP: u8 = 17;

/// Reason, function, namespace and device of a count.
type CountKey = (Option<String>, Option<String>, Option<u32>, Option<u32>);

/// Sender, receiver, and the cookie of the socket that was to take it.
type PathKey = (String, String, Option<u64>);

/// A dropped datagram.
#[derive(Debug)]
pub struct DroppedDatagram {
    /// When.
    pub time_ns: u64,
    /// Why.
    pub cause: DropCause,
    /// The count that it is part of.
    count: usize,
}

/// Dropped datagrams between two addresses, in one direction.
#[derive(Debug)]
pub struct DatagramPath {
    /// Address of the sender.
    pub source: String,
    /// Address of the receiver.
    pub destination: String,
    /// Cookie of the socket that was to take them; `None`: not known.
    pub socket: Option<u64>,
    /// The first ones, in the order of their rows.
    pub drops: Vec<DroppedDatagram>,
}

/// A count of the kernel, and how many rows there are of it.
#[derive(Debug, Default)]
struct CountedRows {
    selected: u64,
    rows: u64,
}

/// Datagrams that a flow moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MovedDatagrams {
    /// That its socket took.
    pub received: u64,
    /// That it sent.
    pub sent: u64,
}

/// Datagrams that this host dropped.
#[derive(Debug)]
pub struct UdpDropDigest {
    names: Rc<NameTable>,
    paths: BTreeMap<PathKey, DatagramPath>,
    /// Ports of the sender and the receiver of each path.
    by_ports: HashMap<(u16, u16), Vec<PathKey>>,
    counts: Vec<CountedRows>,
    numbers: HashMap<CountKey, usize>,
    moved: HashMap<u64, MovedDatagrams>,
    kept: usize,
}

impl RecordingDigest for UdpDropDigest {
    fn new(_: &Header, names: &Rc<NameTable>) -> Self {
        Self {
            names: Rc::clone(names),
            paths: BTreeMap::new(),
            by_ports: HashMap::new(),
            counts: Vec::new(),
            numbers: HashMap::new(),
            moved: HashMap::new(),
            kept: 0,
        }
    }
}

impl TableConsumer for UdpDropDigest {
    fn is_reader_of(&self, table: TableId) -> bool {
        matches!(
            table,
            TableId::PacketDrop | TableId::DropCount | TableId::Call
        )
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        match rows {
            Rows::PacketDrop(rows) => (0..rows.len()).for_each(|row| self.add_drop(&rows.row(row))),
            Rows::DropCount(rows) => (0..rows.len()).for_each(|row| self.add_count(rows.row(row))),
            Rows::Call(rows) => self.add_calls(rows),
            _ => {}
        }
    }
}

impl UdpDropDigest {
    /// Returns the index of a count; makes a new one for a new key.
    fn number(&mut self, key: CountKey) -> usize {
        let counts = &mut self.counts;
        *self.numbers.entry(key).or_insert_with(|| {
            counts.push(CountedRows::default());
            counts.len() - 1
        })
    }

    /// Adds a dropped UDP packet to the path of its addresses; of many only the first are kept.
    fn add_drop(&mut self, row: &PacketDrop) {
        let is_wanted = row.kind == DropKind::Packet && !row.ordinary && row.protocol == Some(UDP);
        let ends = row.source.as_ref().zip(row.destination.as_ref());
        let Some((source, destination)) = ends.filter(|_| is_wanted) else {
            return;
        };
        let (reason, place) = (row.reason.clone(), row.place.clone());
        let count = self.number((reason, place, row.netns, row.ifindex));
        self.counts[count].rows += 1;
        if self.kept == KEPT_MOST {
            return;
        }
        self.kept += 1;
        let key = (source.clone(), destination.clone(), row.conn);
        let by_ports = &mut self.by_ports;
        let path = self.paths.entry(key).or_insert_with_key(|key| {
            if let Some(ports) = port(source).zip(port(destination)) {
                by_ports.entry(ports).or_default().push(key.clone());
            }
            DatagramPath {
                source: source.clone(),
                destination: destination.clone(),
                socket: row.conn,
                drops: Vec::new(),
            }
        });
        path.drops.push(DroppedDatagram {
            time_ns: row.time_ns,
            cause: DropCause::from_row(row),
            count,
        });
    }

    /// Adds a reading of the kernel's count of drops; later readings replace earlier ones.
    fn add_count(&mut self, row: DropCount) {
        if row.kind == DropKind::Packet && !row.ordinary {
            let number = self.number((row.reason, row.place, row.netns, row.ifindex));
            self.counts[number].selected = row.selected;
        }
    }

    /// Counts the datagrams that calls sent and received, by flow.
    fn add_calls(&mut self, rows: &Calls) {
        for row in 0..rows.len() {
            if self.names.udp_flows().get(rows.conn[row]).is_none() {
                continue;
            }
            let moved = self.moved.entry(rows.conn[row]).or_default();
            match rows.is_send[row] {
                true => moved.sent += 1,
                false => moved.received += 1,
            }
        }
    }

    /// Returns all paths with dropped datagrams.
    pub fn paths(&self) -> impl Iterator<Item = &DatagramPath> {
        self.paths.values()
    }

    /// Returns the paths of a flow, in both directions.
    pub fn paths_of<'a>(&'a self, flow: &'a UdpFlow) -> impl Iterator<Item = &'a DatagramPath> {
        let remote = flow.remote.as_deref();
        let ports = port(&flow.local).zip(remote.and_then(port));
        let both = ports.map(|(local, remote)| [(local, remote), (remote, local)]);
        let keys = both.into_iter().flatten();
        let keys = keys.filter_map(|ports| self.by_ports.get(&ports)).flatten();
        let paths = keys.filter_map(|key| self.paths.get(key));
        paths.filter(move |path| {
            let is_own = |local: &str, other: &str| {
                is_at(local, &flow.local) && remote.is_some_and(|remote| remote == other)
            };
            is_own(&path.source, &path.destination) || is_own(&path.destination, &path.source)
        })
    }

    /// Returns how many dropped datagrams one row means: the kernel counts some without a row.
    pub fn weight(&self, dropped: &DroppedDatagram) -> f64 {
        let count = &self.counts[dropped.count];
        match count.selected > count.rows {
            true => count.selected as f64 / count.rows as f64,
            false => 1.0,
        }
    }

    /// Returns the datagrams and bytes of a flow.
    pub fn flow_totals(&self, flow: u64) -> MovedDatagrams {
        self.moved.get(&flow).copied().unwrap_or_default()
    }

    /// Returns the flow of the process that was to take the datagrams of a path.
    pub fn receiver(&self, path: &DatagramPath) -> Option<&UdpFlow> {
        let flows = || self.names.udp_flows().all();
        let by_cookie = path.socket.and_then(|socket| {
            let own = flows().filter(|it| it.socket == socket);
            own.min_by_key(|it| it.conn)
        });
        let at_address = flows().filter(|it| is_at(&path.destination, &it.local));
        by_cookie.or_else(|| at_address.min_by_key(|it| it.conn))
    }

    /// Returns the flow of the client that sent the datagrams of a path.
    pub fn sender(&self, path: &DatagramPath) -> Option<&UdpFlow> {
        let is_sender = |it: &&UdpFlow| {
            it.role == Role::Client
                && is_at(&path.source, &it.local)
                && it.remote.as_deref() == Some(path.destination.as_str())
        };
        let all = self.names.udp_flows().all().filter(is_sender);
        all.min_by_key(|it| it.conn)
    }
}
