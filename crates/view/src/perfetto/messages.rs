//! Messages: each a span with the parts of its way, within its connection. What the CPU at the driver's side and
//! the program's thread did for it are spans of their own, connected with it by a flow, from where it came to where
//! it went.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;

use diagnose::messages::report::Row;
use diagnose::messages::way::{Direction, Lack, Way, Ways};
use table::tables::{ClockPair, ReceivedMessage, SentMessage};
use table::{Columns, Recording};

use super::lanes::Lanes;
use super::trace::{Event, Note};
use super::tracks::{Drawing, rank};

/// Where spans of messages are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Connection(u64, Direction),
    Cpu(u16, Direction),
    Thread(u32, u32, Direction),
}

/// A span of a message at one place.
type Span = Option<(Place, (u64, u64))>;

/// A message, to be drawn.
struct Message {
    conn: u64,
    direction: Direction,
    /// Its way, or what is known of its times if that has gaps.
    way: Result<Way, (u64, u64)>,
    /// What was done for it before, and after.
    before: Span,
    after: Span,
    bytes: u32,
    tid: u32,
    id: String,
}

pub(super) fn draw(drawing: &mut Drawing<'_>, recording: &Recording) -> io::Result<()> {
    let ways = Ways::new(&recording.read_all::<ClockPair>());
    let mut places = HashMap::new();
    for rows in recording.batches::<ReceivedMessage>() {
        for row in 0..rows.len() {
            received(rows.row(row)).draw(drawing, &mut places)?;
        }
    }
    for rows in recording.batches::<SentMessage>() {
        for row in 0..rows.len() {
            sent(rows.row(row), &ways).draw(drawing, &mut places)?;
        }
    }
    Ok(())
}

fn received(row: ReceivedMessage) -> Message {
    let way = Way::of_received(&row);
    let arrived = row.first_arrival_ns.zip(row.ready_ns);
    let took_ns = row.copy_ns.or(row.running_ns);
    Message {
        before: (row.receive_cpu.zip(arrived))
            .map(|(cpu, times)| (Place::Cpu(cpu, Direction::Received), times)),
        after: took_ns.map(|ns| {
            (
                Place::Thread(row.pid, row.tid, Direction::Received),
                (ns, row.done_ns),
            )
        }),
        ..message(Row::Received(row), way)
    }
}

fn sent(row: SentMessage, ways: &Ways) -> Message {
    let way = ways.of_sent(&row);
    let on_wire_ns = way.ok().and_then(|way| way.on_wire).map(|it| it.nic_ns);
    let left = row.queue_ns.zip(on_wire_ns.or(row.driver_ns));
    let call = row.call_ns.map(|ns| (ns, row.done_ns));
    Message {
        before: call.map(|times| (Place::Thread(row.pid, row.tid, Direction::Sent), times)),
        after: (row.driver_cpu.zip(left))
            .map(|(cpu, times)| (Place::Cpu(cpu, Direction::Sent), times)),
        ..message(Row::Sent(row), way)
    }
}

fn message(row: Row, way: Result<Way, Lack>) -> Message {
    let (id, known_ns) = (row.id(), row.known_ns());
    let (bytes, tid) = match row {
        Row::Received(row) => (row.bytes, row.tid),
        Row::Sent(row) => (row.bytes, row.tid),
    };
    Message {
        conn: id.conn,
        direction: id.direction,
        way: way.map_err(|_| known_ns),
        before: None,
        after: None,
        bytes,
        tid,
        id: id.to_string(),
    }
}

type Places = HashMap<Place, Lanes>;

impl Message {
    fn draw(&self, drawing: &mut Drawing<'_>, places: &mut Places) -> io::Result<()> {
        let flow = drawing.flow();
        // Of spans that begin at one instant, the flow goes from the one that comes first here.
        self.beside(drawing, places, self.before, flow)?;
        self.itself(drawing, places, flow)?;
        self.beside(drawing, places, self.after, flow)
    }

    fn itself(&self, drawing: &mut Drawing<'_>, places: &mut Places, flow: u64) -> io::Result<()> {
        let mut notes = self.notes();
        notes.push(("tid", Note::Unsigned(self.tid.into())));
        if self.way.is_err() {
            notes.push(("parts", Note::Text("not every time was seen")));
        }
        let times = match &self.way {
            Ok(way) => (way.start_ns, way.start_ns + way.whole_ns),
            Err(known_ns) => *known_ns,
        };
        let name = self.name();
        let what = event(&name, flow, &notes);
        let parts = self.way.iter().flat_map(Way::parts);
        let parts = parts.map(|(part, ns)| {
            (
                ns,
                Event {
                    name: part.name(),
                    category: "part",
                    ..Event::default()
                },
            )
        });
        let place = Place::Connection(self.conn, self.direction);
        let lanes = place.lanes(drawing, places)?;
        lanes.apart(&mut drawing.trace, times, &what, parts)
    }

    fn beside(
        &self,
        drawing: &mut Drawing<'_>,
        places: &mut Places,
        span: Span,
        flow: u64,
    ) -> io::Result<()> {
        let Some((place, times)) = span.filter(|(_, (begin_ns, end_ns))| begin_ns <= end_ns) else {
            return Ok(());
        };
        let connection = drawing.names.connection(self.conn).name;
        let mut notes = self.notes();
        notes.push(("connection", Note::Text(&connection)));
        let name = self.name();
        let what = event(&name, flow, &notes);
        let lanes = place.lanes(drawing, places)?;
        lanes.apart(&mut drawing.trace, times, &what, std::iter::empty())
    }

    fn name(&self) -> String {
        format!("{} {} B", self.direction.name(), self.bytes)
    }

    fn notes(&self) -> Vec<(&'static str, Note<'_>)> {
        vec![
            ("message", Note::Text(&self.id)),
            ("bytes", Note::Unsigned(self.bytes.into())),
        ]
    }
}

fn event<'a>(name: &'a str, flow: u64, notes: &'a [(&'static str, Note<'a>)]) -> Event<'a> {
    Event {
        name,
        category: "message",
        flow: Some(flow),
        notes,
    }
}

impl Place {
    fn lanes<'p>(
        self,
        drawing: &mut Drawing<'_>,
        places: &'p mut Places,
    ) -> io::Result<&'p mut Lanes> {
        Ok(match places.entry(self) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(self.new_lanes(drawing)?),
        })
    }

    fn new_lanes(self, drawing: &mut Drawing<'_>) -> io::Result<Lanes> {
        Ok(match self {
            Self::Connection(conn, direction) => {
                let connection = drawing.connection(conn)?;
                let name = drawing.names.connection(conn).name;
                Lanes::new(format!("{name} {}", direction.name()), Some(connection))
            }
            Self::Cpu(cpu, direction) => {
                let cpus = drawing.cpus()?;
                let name = format!("CPU {cpu} {}", direction.name());
                Lanes::ranked(name, cpus, rank(cpu, Some(direction)))
            }
            Self::Thread(pid, tid, direction) => {
                let thread = drawing.thread(pid, tid)?;
                Lanes::new(direction.name().to_owned(), Some(thread))
            }
        })
    }
}

#[cfg(test)]
mod tests;
