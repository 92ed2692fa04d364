//! CPU activity: one track a CPU, and for sources without a CPU, one within each thread.

use std::collections::HashMap;
use std::io;

use table::tables::{Activities, Activity};
use table::{ActivityKind, Columns, Recording};

use super::lanes::TrackLanes;
use super::trace::{NoteValue, TraceEvent};
use super::tracks::{TraceDrawing, track_rank};
use crate::span_name;

/// Where spans are nested.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Cpu(u16),
    Thread(u32, u32),
    Unknown,
}

/// Writes the activities of all CPUs.
pub(super) fn draw(drawing: &mut TraceDrawing<'_>, recording: &Recording) -> io::Result<()> {
    let mut places: HashMap<Place, TrackLanes> = HashMap::new();
    for rows in recording.batches::<Activity>() {
        for row in 0..rows.len() {
            let place = Place::from_row(&rows, row);
            let lanes = match places.get_mut(&place) {
                Some(lanes) => lanes,
                None => places.entry(place).or_insert(place.lanes(drawing)?),
            };
            span(drawing, lanes, &rows, row)?;
        }
    }
    let mut lanes = places.into_values();
    lanes.try_for_each(|lanes| lanes.finish(&mut drawing.trace))
}

/// Writes one activity into a lane of its CPU or thread.
fn span(
    drawing: &mut TraceDrawing<'_>,
    lanes: &mut TrackLanes,
    rows: &Activities,
    row: usize,
) -> io::Result<()> {
    let kind = rows.kind[row];
    let name = span_name::activity_name(kind, rows.name[row].as_deref(), rows.tid[row]);
    let unseen = [
        ("begin_seen", rows.begin_seen[row]),
        ("end_seen", rows.end_seen[row]),
    ];
    let unseen = unseen.iter().filter(|(_, seen)| !seen);
    let mut notes: Vec<_> = unseen
        .map(|(name, _)| (*name, NoteValue::Is(false)))
        .collect();
    if kind == ActivityKind::Task {
        let pid = rows.pid[row].map(|pid| ("pid", NoteValue::Unsigned(pid.into())));
        notes.extend(pid);
    }
    let what = TraceEvent {
        name: &name,
        category: kind.name(),
        flow: None,
        notes: &notes,
    };
    let times = (rows.begin_ns[row], rows.end_ns[row]);
    lanes.nest(&mut drawing.trace, times, Some(rows.depth[row]), &what)
}

impl Place {
    /// Returns where an activity is drawn: its CPU, or its thread.
    fn from_row(rows: &Activities, row: usize) -> Self {
        match (rows.cpu[row], rows.pid[row], rows.tid[row]) {
            (Some(cpu), ..) => Self::Cpu(cpu),
            (None, pid, Some(tid)) => Self::Thread(pid.unwrap_or(tid), tid),
            (None, _, None) => Self::Unknown,
        }
    }

    /// Makes the lanes of a CPU or thread.
    fn lanes(self, drawing: &mut TraceDrawing<'_>) -> io::Result<TrackLanes> {
        Ok(match self {
            Self::Cpu(cpu) => {
                let cpus = drawing.cpus()?;
                TrackLanes::with_rank(format!("CPU {cpu}"), cpus, track_rank(cpu, None))
            }
            Self::Thread(pid, tid) => {
                let thread = drawing.thread(pid, tid)?;
                TrackLanes::new("activity".to_owned(), Some(thread))
            }
            Self::Unknown => TrackLanes::new("activity of unknown threads".to_owned(), None),
        })
    }
}
