//! Requests: each a span with its steps on the track of its service, and a span in every thread that had it. A flow leads
//! from the request to the first thread, and from thread to thread.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;

use diagnose::recording::for_each_request;
use diagnose::requests::report::{PathStep, RequestRow};
use diagnose::requests::{RequestFilter, RequestPart};
use table::Recording;
use table::tables::Call;

use super::lanes::TrackLanes;
use super::trace::{NoteValue, TraceEvent, TrackId, TrackKind};
use super::tracks::TraceDrawing;

/// Name of the tracks in threads.
const IN_THREAD: &str = "requests";

/// Tracks of services and threads, as they are needed.
#[derive(Default)]
struct RequestTracks {
    group: Option<TrackId>,
    services: HashMap<String, TrackLanes>,
    threads: HashMap<(u32, u32), TrackLanes>,
}

/// Writes all requests, by service.
pub(super) fn draw(drawing: &mut TraceDrawing<'_>, recording: &Recording) -> io::Result<()> {
    if recording.rows::<Call>() == 0 {
        return Ok(());
    }
    let mut tracks = RequestTracks::default();
    let mut drawn = Ok(());
    for_each_request(recording, RequestFilter::default(), |request| {
        if drawn.is_ok() {
            drawn = tracks.draw(drawing, &request);
        }
    });
    drawn
}

impl RequestTracks {
    /// Writes a request with its path over threads.
    fn draw(&mut self, drawing: &mut TraceDrawing<'_>, request: &RequestRow) -> io::Result<()> {
        let flow = drawing.flow();
        // Of spans that start at one instant, the flow goes from the one that comes first here.
        self.draw_span(drawing, request, flow)?;
        let mut rest = request.path.as_slice();
        while !rest.is_empty() {
            let (stay, after) = rest.split_at(length_of_stay(rest));
            self.in_thread(drawing, request, stay, flow)?;
            rest = after;
        }
        Ok(())
    }

    /// Writes the request's own span.
    fn draw_span(
        &mut self,
        drawing: &mut TraceDrawing<'_>,
        request: &RequestRow,
        flow: u64,
    ) -> io::Result<()> {
        let size = |range: (u64, u64)| NoteValue::Unsigned(range.1.saturating_sub(range.0));
        let notes = [
            ("request", NoteValue::Text(&request.id)),
            ("request_bytes", size(request.request)),
            ("response_bytes", size(request.response)),
            ("calls", NoteValue::Unsigned(request.calls)),
        ];
        let largest = request.parts.largest();
        let first = largest.first().map_or(RequestPart::Unknown, |it| it.0);
        let name = format!("request: {}", first.text());
        let what = TraceEvent::in_flow("request", &name, flow, &notes);
        let times = (request.begin_ns, request.begin_ns + request.duration_ns);
        let steps = step_events(&request.path, 0);
        let lanes = self.service(drawing, &request.service)?;
        lanes.apart(&mut drawing.trace, times, &what, steps.into_iter())
    }

    /// Draws the consecutive steps of a request in one thread.
    fn in_thread(
        &mut self,
        drawing: &mut TraceDrawing<'_>,
        request: &RequestRow,
        stay: &[PathStep],
        flow: u64,
    ) -> io::Result<()> {
        let (Some(first), Some(last)) = (stay.first(), stay.last()) else {
            return Ok(());
        };
        let Some((pid, tid)) = thread(first) else {
            return Ok(());
        };
        let notes = [
            ("request", NoteValue::Text(&request.id)),
            ("service", NoteValue::Text(&request.service)),
        ];
        let what = TraceEvent::in_flow("request", "request", flow, &notes);
        let begin_ns = request.begin_ns + first.after_ns;
        let times = (begin_ns, request.begin_ns + last.after_ns + last.ns);
        let steps = step_events(stay, first.after_ns);
        let lanes = match self.threads.entry((pid, tid)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let within = drawing.thread(pid, tid)?;
                new.insert(TrackLanes::new(IN_THREAD.to_owned(), Some(within)))
            }
        };
        lanes.apart(&mut drawing.trace, times, &what, steps.into_iter())
    }

    /// Returns the lanes of a service; makes them once.
    fn service(
        &mut self,
        drawing: &mut TraceDrawing<'_>,
        title: &str,
    ) -> io::Result<&mut TrackLanes> {
        let group = match self.group {
            Some(group) => group,
            None => {
                let track = drawing
                    .trace
                    .track(TrackKind::Group("Requests"), None, None)?;
                *self.group.insert(track)
            }
        };
        let new = || TrackLanes::new(title.to_owned(), Some(group));
        Ok(self.services.entry(title.to_owned()).or_insert_with(new))
    }
}

/// Returns the number of steps that one thread makes without a gap.
fn length_of_stay(steps: &[PathStep]) -> usize {
    let follows = |pair: &[PathStep]| {
        let is_next = pair[0].after_ns + pair[0].ns == pair[1].after_ns;
        is_next && thread(&pair[0]) == thread(&pair[1])
    };
    1 + steps.windows(2).take_while(|pair| follows(pair)).count()
}

/// Returns the thread of a step, if it has one.
fn thread(step: &PathStep) -> Option<(u32, u32)> {
    Some((step.process.as_ref()?.pid?, step.tid?))
}

/// Returns the request's steps, each with its length in ns, for a span that begins `begin_ns` after
/// the request. A gap between them becomes a part "steps that are not kept".
fn step_events(path: &[PathStep], begin_ns: u64) -> Vec<(u64, TraceEvent<'static>)> {
    let part = |name| TraceEvent {
        name,
        category: "part",
        ..TraceEvent::default()
    };
    let mut at_ns = begin_ns;
    let mut out = Vec::with_capacity(path.len());
    for step in path {
        let missing_ns = step.after_ns.saturating_sub(at_ns);
        if missing_ns > 0 {
            out.push((missing_ns, part("steps that are not kept")));
        }
        out.push((step.ns, part(step.part.text())));
        at_ns = step.after_ns + step.ns;
    }
    out
}
