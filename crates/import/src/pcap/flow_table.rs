//! Connections that live, by their addresses, and those that are over by now.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};

use foldhash::fast::RandomState;
use slab::Slab;
use table::RowSet;

use super::Vantage;
use super::capture_import::CaptureImport;
use super::connection::Connection;
use super::due::{DueQueues, QueuedKinds};
use super::segment::Segment;

/// Both ends of a connection, the lesser first: their addresses, ports, and whether they are IPv6's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FlowKey([u128; 2], [u16; 2], bool);

impl FlowKey {
    /// Makes the key of a connection; both directions have the same.
    fn new(one: SocketAddr, other: SocketAddr) -> Self {
        let number = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let (one, other) = if one <= other {
            (one, other)
        } else {
            (other, one)
        };
        Self(
            [number(one.ip()), number(other.ip())],
            [one.port(), other.port()],
            one.is_ipv6(),
        )
    }
}

/// A connection that lives.
struct Flow {
    connection: Connection,
    queued: QueuedKinds,
}

/// Name of a connection: its place in the table, and its number, as another may have its place later.
#[derive(Debug, Clone, Copy)]
struct FlowName {
    place: usize,
    conn: u64,
}

/// Connections that live.
pub struct FlowTable {
    places: HashMap<FlowKey, usize, RandomState>,
    /// Boxed: the table grows without moving them.
    flows: Slab<Box<Flow>>,
    /// Connections to examine.
    due: DueQueues<FlowName>,
    conns: u64,
    vantage: Vantage,
}

impl FlowTable {
    /// Makes an empty table of connections.
    pub fn new(vantage: Vantage) -> Self {
        Self {
            places: HashMap::default(),
            flows: Slab::new(),
            due: DueQueues::default(),
            conns: 0,
            vantage,
        }
    }

    /// Adds a segment to its connection, or begins one.
    pub fn add(&mut self, segment: &Segment, rows: &mut RowSet, import: &mut CaptureImport) {
        let place = self.connection_place(segment, rows, import);
        let flow = &mut self.flows[place];
        let connection = &mut flow.connection;
        match connection.add(segment, self.vantage, rows) {
            true => import.tally.ignore("copies from another interface"),
            false => import.tally.use_one(),
        }
        let name = FlowName {
            place,
            conn: connection.conn,
        };
        let is_waiting = |kind| connection.is_waiting(kind);
        self.due
            .push(segment.time_ns, &mut flow.queued, is_waiting, name);
    }

    /// Returns the place of a segment's connection.
    fn connection_place(
        &mut self,
        segment: &Segment,
        rows: &mut RowSet,
        import: &mut CaptureImport,
    ) -> usize {
        let begin = |conns: &mut u64| {
            *conns += 2;
            Box::new(Flow {
                connection: Connection::new(*conns - 1, segment),
                queued: QueuedKinds::default(),
            })
        };
        let key = FlowKey::new(segment.source, segment.target);
        match self.places.entry(key) {
            Entry::Vacant(entry) => *entry.insert(self.flows.insert(begin(&mut self.conns))),
            Entry::Occupied(entry) => {
                let flow = &mut self.flows[*entry.get()];
                if flow.connection.is_replaced_by(segment) {
                    let old = std::mem::replace(flow, begin(&mut self.conns));
                    import.finish(old.connection, rows);
                }
                *entry.get()
            }
        }
    }

    /// Ends connections that are over by now.
    pub fn pass_time(&mut self, now_ns: u64, rows: &mut RowSet, import: &mut CaptureImport) {
        while let Some((kind, name)) = self.due.pop(now_ns) {
            let flow = self.flows.get_mut(name.place);
            let Some(flow) = flow.filter(|it| it.connection.conn == name.conn) else {
                continue;
            };
            flow.queued.remove(kind);
            if flow.connection.pass_time(now_ns, rows) {
                let [one, other] = flow.connection.ends;
                self.places.remove(&FlowKey::new(one, other));
                import.finish(self.flows.remove(name.place).connection, rows);
                continue;
            }
            let is_waiting = |kind| flow.connection.is_waiting(kind);
            self.due.push(now_ns, &mut flow.queued, is_waiting, name);
        }
    }

    /// Returns the open connections, in the order in which they began.
    pub fn into_open(self) -> impl Iterator<Item = Connection> {
        let mut open: Vec<_> = self.flows.into_iter().map(|(_, flow)| flow).collect();
        open.sort_unstable_by_key(|flow| flow.connection.conn);
        open.into_iter().map(|flow| flow.connection)
    }
}
