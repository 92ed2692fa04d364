//! Spans that are drawn under one name. Begins and ends on a track must nest, and of those at one instant the order
//! in the file is what counts: what does not fit goes to a further track of the same name, which Perfetto draws
//! with the first. A span that ends before it begins, as only damage can make one, ends where it begins.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;

use super::trace::{TraceEvent, TraceWriter, TrackId, TrackKind};

/// Outermost spans that a lane remembers, to see whether an earlier one fits between them.
const REMEMBERED: usize = 1_024;

/// Tracks of one name.
#[derive(Debug)]
pub(super) struct TrackLanes {
    name: String,
    within: Option<TrackId>,
    rank: Option<u16>,
    lanes: Vec<Lane>,
}

#[derive(Debug)]
struct Lane {
    track: TrackId,
    /// When the open spans end, outermost first.
    open: Vec<u64>,
    /// When the innermost open span began, or the last one ended.
    latest_ns: u64,
    /// When the outermost spans began and ended, as far as they are remembered.
    outermost: BTreeMap<u64, u64>,
    /// Everything before is forgotten.
    forgotten_ns: u64,
}

impl TrackLanes {
    /// Begins lanes of this name, below a track.
    pub(super) fn new(name: String, within: Option<TrackId>) -> Self {
        Self {
            name,
            within,
            rank: None,
            lanes: Vec::new(),
        }
    }

    /// Begins lanes with a rank among the tracks of a group.
    pub(super) fn with_rank(name: String, within: TrackId, rank: u16) -> Self {
        Self {
            rank: Some(rank),
            ..Self::new(name, Some(within))
        }
    }

    /// Adds a span that may lie within the ones before. It must not come before what is around it. `depth`: how many
    /// that are, if known: one without length, at the very end of another, lies within that or behind it.
    pub(super) fn nest(
        &mut self,
        trace: &mut TraceWriter<'_>,
        (begin_ns, end_ns): (u64, u64),
        depth: Option<u16>,
        what: &TraceEvent<'_>,
    ) -> io::Result<()> {
        let end_ns = end_ns.max(begin_ns);
        let kept = depth.filter(|_| begin_ns == end_ns).unwrap_or(0).into();
        let within = |lane: &Lane| lane.has_room_within(begin_ns, end_ns, kept);
        let lane = match self.lanes.iter().position(within) {
            Some(number) => &mut self.lanes[number],
            None => {
                let lane = self.free_lane(trace, begin_ns, end_ns)?;
                lane.close(trace, u64::MAX, 0)?;
                lane.outermost(begin_ns, end_ns);
                lane
            }
        };
        lane.close(trace, begin_ns, kept)?;
        lane.open(trace, begin_ns, end_ns, what)
    }

    /// Adds a span that no other span shares, with its consecutive parts: how long each took, and
    /// its name.
    pub(super) fn apart<'p>(
        &mut self,
        trace: &mut TraceWriter<'_>,
        (begin_ns, end_ns): (u64, u64),
        what: &TraceEvent<'_>,
        parts: impl Iterator<Item = (u64, TraceEvent<'p>)>,
    ) -> io::Result<()> {
        let end_ns = end_ns.max(begin_ns);
        let lane = self.free_lane(trace, begin_ns, end_ns)?;
        lane.outermost(begin_ns, end_ns);
        lane.latest_ns = lane.latest_ns.max(end_ns);
        trace.open(lane.track, begin_ns, what)?;
        let mut at_ns = begin_ns;
        for (length_ns, part) in parts {
            if length_ns > 0 {
                trace.open(lane.track, at_ns, &part)?;
                at_ns += length_ns;
                trace.close(lane.track, at_ns)?;
            }
        }
        trace.close(lane.track, end_ns)
    }

    /// Ends all open spans.
    pub(super) fn finish(mut self, trace: &mut TraceWriter<'_>) -> io::Result<()> {
        let mut lanes = self.lanes.iter_mut();
        lanes.try_for_each(|lane| lane.close(trace, u64::MAX, 0))
    }

    /// Returns the first lane without a span in this interval, or a new one.
    fn free_lane(
        &mut self,
        trace: &mut TraceWriter<'_>,
        begin_ns: u64,
        end_ns: u64,
    ) -> io::Result<&mut Lane> {
        let roomy = |lane: &Lane| lane.has_room(begin_ns, end_ns);
        let number = match self.lanes.iter().position(roomy) {
            Some(number) => number,
            None => self.add(trace)?,
        };
        Ok(&mut self.lanes[number])
    }

    /// Adds a lane; returns its number.
    fn add(&mut self, trace: &mut TraceWriter<'_>) -> io::Result<usize> {
        let track = trace.track(TrackKind::Named(&self.name), self.within, self.rank)?;
        self.lanes.push(Lane {
            track,
            open: Vec::new(),
            latest_ns: 0,
            outermost: BTreeMap::new(),
            forgotten_ns: 0,
        });
        Ok(self.lanes.len() - 1)
    }
}

impl Lane {
    /// Returns whether a span fits into the open ones, after earlier ones ended. The `kept`
    /// outermost stay.
    fn has_room_within(&self, begin_ns: u64, end_ns: u64, kept: usize) -> bool {
        let around = self.open.iter().rfind(|open_ns| **open_ns > begin_ns);
        let kept = kept.checked_sub(1).and_then(|last| self.open.get(last));
        let around = around.or(kept);
        begin_ns >= self.latest_ns && around.is_some_and(|around_ns| *around_ns >= end_ns)
    }

    /// Returns whether a span fits between the outermost spans. Before an earlier one it must end
    /// before that starts: at the same instant, that would be in the file first.
    fn has_room(&self, begin_ns: u64, end_ns: u64) -> bool {
        let before = self.outermost.range(..=begin_ns).next_back();
        let after = (Bound::Excluded(begin_ns), Bound::Unbounded);
        let after = self.outermost.range(after).next();
        begin_ns >= self.forgotten_ns
            && before.is_none_or(|(_, before_ns)| *before_ns <= begin_ns)
            && after.is_none_or(|(after_ns, _)| *after_ns > end_ns)
    }

    /// Remembers an outermost span; forgets the oldest of many.
    fn outermost(&mut self, begin_ns: u64, end_ns: u64) {
        self.outermost.insert(begin_ns, end_ns);
        if self.outermost.len() > REMEMBERED
            && let Some((_, end_ns)) = self.outermost.pop_first()
        {
            self.forgotten_ns = end_ns;
        }
    }

    /// Begins a span in the lane.
    fn open(
        &mut self,
        trace: &mut TraceWriter<'_>,
        begin_ns: u64,
        end_ns: u64,
        what: &TraceEvent<'_>,
    ) -> io::Result<()> {
        self.open.push(end_ns);
        self.latest_ns = begin_ns;
        trace.open(self.track, begin_ns, what)
    }

    /// Ends open spans that are over by `by_ns`, innermost first, but for the `kept` outermost.
    fn close(&mut self, trace: &mut TraceWriter<'_>, by_ns: u64, kept: usize) -> io::Result<()> {
        while self.open.len() > kept
            && let Some(end_ns) = self.open.pop_if(|end_ns| *end_ns <= by_ns)
        {
            self.latest_ns = self.latest_ns.max(end_ns);
            trace.close(self.track, end_ns)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::wire::read::{Value, fields, messages};
    use super::*;

    /// A span: begin, end, and a number of its own.
    type Span = (u64, u64, u64);

    /// Returns the spans of a trace as Perfetto understands it: an end closes the span that began
    /// last on its track.
    fn understood(trace: &[u8]) -> Vec<Span> {
        let mut events: BTreeMap<u64, Vec<(u64, Option<u64>)>> = BTreeMap::new();
        for packet in messages(trace, 1) {
            let number = |fields: &[(u32, Value<'_>)], wanted| {
                let field = fields.iter().find(|(number, _)| *number == wanted);
                field.and_then(|(_, value)| match value {
                    Value::Number(number) => Some(*number),
                    Value::Bytes(_) => None,
                })
            };
            let event = packet.iter().find_map(|(number, value)| match value {
                Value::Bytes(bytes) if *number == 11 => Some(fields(bytes)),
                _ => None,
            });
            if let (Some(ns), Some(event)) = (number(&packet, 8), event) {
                let track = number(&event, 11).expect("a track");
                let name = number(&event, 47);
                events.entry(ns).or_default().push((track, name));
            }
        }
        let (mut open, mut spans) = (BTreeMap::<u64, Vec<(u64, u64)>>::new(), Vec::new());
        for (ns, events) in events {
            for (track, name) in events {
                let open = open.entry(track).or_default();
                match name {
                    Some(name) => open.push((ns, name)),
                    None => {
                        let (begin_ns, name) = open.pop().expect("something that began");
                        spans.push((begin_ns, ns, name));
                    }
                }
            }
        }
        assert!(open.values().all(Vec::is_empty), "something never ended");
        spans.sort_unstable();
        spans
    }

    /// Returns the spans that lanes contain after these were drawn.
    fn drawn(spans: &[Span], is_nested: bool) -> Vec<Span> {
        let mut out: Vec<u8> = Vec::new();
        let mut trace = TraceWriter::begin(&mut out).expect("memory");
        let mut lanes = TrackLanes::new("lanes".to_owned(), None);
        for (begin_ns, end_ns, number) in spans {
            let what = TraceEvent {
                name: "span",
                flow: Some(*number),
                ..TraceEvent::default()
            };
            let times = (*begin_ns, *end_ns);
            let added = match is_nested {
                true => lanes.nest(&mut trace, times, None, &what),
                false => lanes.apart(&mut trace, times, &what, std::iter::empty()),
            };
            added.expect("memory");
        }
        lanes.finish(&mut trace).expect("memory");
        trace.finish().expect("memory");
        understood(&out)
    }

    /// Generates short spans at few instants, so that many begin and end together.
    fn spans() -> impl Strategy<Value = Vec<Span>> {
        let span = (0_u64..30, 0_u64..8);
        prop::collection::vec(span, 0..60).prop_map(|spans| {
            let numbered = spans.into_iter().zip(1..);
            let spans = numbered.map(|((begin, length), number)| (begin, begin + length, number));
            spans.collect()
        })
    }

    proptest! {
        #[test]
        fn every_span_keeps_its_begin_and_end(mut spans in spans()) {
            for is_nested in [true, false] {
                let mut expected = spans.clone();
                expected.sort_unstable();
                prop_assert_eq!(&drawn(&spans, is_nested), &expected);
            }
            spans.sort_by_key(|(begin, end, _)| (*begin, std::cmp::Reverse(*end)));
            let mut expected = spans.clone();
            expected.sort_unstable();
            prop_assert_eq!(drawn(&spans, true), expected);
        }
    }
}
