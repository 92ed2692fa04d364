//! Messages: each a span with the parts of its time, within its connection. What the CPU at the driver's side and
//! the program's thread did for it are spans of their own, connected with it by a flow, from where it came to where
//! it went.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;

use diagnose::messages::breakdown::{BreakdownSource, LatencyBreakdown};
use diagnose::messages::message::{MessageDirection, MessageRow};
use table::tables::{ClockPair, ReceivedMessage, SentMessage};
use table::{Columns, Recording};

use super::lanes::TrackLanes;
use super::trace::{NoteValue, TraceEvent};
use super::tracks::{TraceDrawing, track_rank};

/// Where spans of messages are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum MessageTrack {
    Connection(u64, MessageDirection),
    Cpu(u16, MessageDirection),
    Thread(u32, u32, MessageDirection),
}

/// A span of a message on one track.
type TrackSpan = Option<(MessageTrack, (u64, u64))>;

/// A message, to be drawn.
struct DrawnMessage {
    conn: u64,
    direction: MessageDirection,
    /// Its time in parts, or what is known of its times if these have gaps.
    breakdown: Result<LatencyBreakdown, (u64, u64)>,
    /// Work for it before, and after.
    before: TrackSpan,
    after: TrackSpan,
    bytes: u32,
    tid: u32,
    id: String,
}

/// Writes all messages, with arrows to the threads that handle them.
pub(super) fn draw(drawing: &mut TraceDrawing<'_>, recording: &Recording) -> io::Result<()> {
    let breakdowns = BreakdownSource::new(&recording.read_all::<ClockPair>());
    let mut tracks = HashMap::new();
    for rows in recording.batches::<ReceivedMessage>() {
        for row in 0..rows.len() {
            let row = MessageRow::Received(rows.row(row));
            DrawnMessage::new(&row, &breakdowns).draw(drawing, &mut tracks)?;
        }
    }
    for rows in recording.batches::<SentMessage>() {
        for row in 0..rows.len() {
            let row = MessageRow::Sent(rows.row(row));
            DrawnMessage::new(&row, &breakdowns).draw(drawing, &mut tracks)?;
        }
    }
    Ok(())
}

type Tracks = HashMap<MessageTrack, TrackLanes>;

impl DrawnMessage {
    /// Takes what the trace shows of a message: its times and parts.
    fn new(row: &MessageRow, breakdowns: &BreakdownSource) -> Self {
        let id = row.id();
        let (bytes, pid, tid) = match row {
            MessageRow::Received(row) => (row.bytes, row.pid, row.tid),
            MessageRow::Sent(row) => (row.bytes, row.pid, row.tid),
        };
        let work = breakdowns.host_work(row);
        let on_cpu = |(cpu, times)| (MessageTrack::Cpu(cpu, id.direction), times);
        let in_thread = |times| (MessageTrack::Thread(pid, tid, id.direction), times);
        let (kernel, thread) = (work.kernel.map(on_cpu), work.thread.map(in_thread));
        let (before, after) = match id.direction {
            MessageDirection::Received => (kernel, thread),
            MessageDirection::Sent => (thread, kernel),
        };
        Self {
            conn: id.conn,
            direction: id.direction,
            breakdown: breakdowns.breakdown(row).map_err(|_| row.known_ns()),
            before,
            after,
            bytes,
            tid,
            id: id.to_string(),
        }
    }

    /// Writes the message, with its spans on the threads before and after it.
    fn draw(&self, drawing: &mut TraceDrawing<'_>, tracks: &mut Tracks) -> io::Result<()> {
        let flow = drawing.flow();
        // Of spans that start at one instant, the flow goes from the one that comes first here.
        self.draw_neighbour(drawing, tracks, self.before, flow)?;
        self.draw_span(drawing, tracks, flow)?;
        self.draw_neighbour(drawing, tracks, self.after, flow)
    }

    /// Writes the message's own span, and its parts within.
    fn draw_span(
        &self,
        drawing: &mut TraceDrawing<'_>,
        tracks: &mut Tracks,
        flow: u64,
    ) -> io::Result<()> {
        let mut notes = self.notes();
        notes.push(("tid", NoteValue::Unsigned(self.tid.into())));
        if self.breakdown.is_err() {
            notes.push(("parts", NoteValue::Text("not every time was seen")));
        }
        let times = match &self.breakdown {
            Ok(whole) => (whole.start_ns, whole.start_ns + whole.whole_ns),
            Err(known_ns) => *known_ns,
        };
        let name = self.name();
        let what = TraceEvent::in_flow("message", &name, flow, &notes);
        let parts = self.breakdown.iter().flat_map(LatencyBreakdown::parts);
        let parts = parts.map(|(part, ns)| {
            (
                ns,
                TraceEvent {
                    name: part.name(),
                    category: "part",
                    ..TraceEvent::default()
                },
            )
        });
        let track = MessageTrack::Connection(self.conn, self.direction);
        let lanes = track.lanes(drawing, tracks)?;
        lanes.apart(&mut drawing.trace, times, &what, parts)
    }

    /// Writes a span of the message on another track; an arrow joins both.
    fn draw_neighbour(
        &self,
        drawing: &mut TraceDrawing<'_>,
        tracks: &mut Tracks,
        span: TrackSpan,
        flow: u64,
    ) -> io::Result<()> {
        let Some((track, times)) = span.filter(|(_, (begin_ns, end_ns))| begin_ns <= end_ns) else {
            return Ok(());
        };
        let connection = drawing.names.connection(self.conn).name;
        let mut notes = self.notes();
        notes.push(("connection", NoteValue::Text(&connection)));
        let name = self.name();
        let what = TraceEvent::in_flow("message", &name, flow, &notes);
        let lanes = track.lanes(drawing, tracks)?;
        lanes.apart(&mut drawing.trace, times, &what, std::iter::empty())
    }

    /// Returns the span's name: direction and bytes.
    fn name(&self) -> String {
        format!("{} {} B", self.direction.name(), self.bytes)
    }

    /// Returns what Perfetto shows of the span: id and bytes.
    fn notes(&self) -> Vec<(&'static str, NoteValue<'_>)> {
        vec![
            ("message", NoteValue::Text(&self.id)),
            ("bytes", NoteValue::Unsigned(self.bytes.into())),
        ]
    }
}

impl MessageTrack {
    /// Returns the lanes of this track; makes them once.
    fn lanes<'p>(
        self,
        drawing: &mut TraceDrawing<'_>,
        tracks: &'p mut Tracks,
    ) -> io::Result<&'p mut TrackLanes> {
        Ok(match tracks.entry(self) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(self.new_lanes(drawing)?),
        })
    }

    /// Makes the lanes of a connection, thread or CPU.
    fn new_lanes(self, drawing: &mut TraceDrawing<'_>) -> io::Result<TrackLanes> {
        Ok(match self {
            Self::Connection(conn, direction) => {
                let connection = drawing.connection(conn)?;
                let name = drawing.names.connection(conn).name;
                TrackLanes::new(format!("{name} {}", direction.name()), Some(connection))
            }
            Self::Cpu(cpu, direction) => {
                let cpus = drawing.cpus()?;
                let name = format!("CPU {cpu} {}", direction.name());
                TrackLanes::with_rank(name, cpus, track_rank(cpu, Some(direction)))
            }
            Self::Thread(pid, tid, direction) => {
                let thread = drawing.thread(pid, tid)?;
                TrackLanes::new(direction.name().to_owned(), Some(thread))
            }
        })
    }
}

#[cfg(test)]
mod tests;
