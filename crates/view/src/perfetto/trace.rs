//! A Perfetto trace: tracks, and events on them, packet after packet. Numbers of fields and values are those of
//! `protos/perfetto/trace/` in Perfetto's sources.

use std::collections::HashMap;
use std::io::{self, Write};

use super::wire::WireMessage;
use crate::clean::remove_controls;

/// `Trace` and `TracePacket`.
mod packet {
    pub(super) const PACKET: u32 = 1;
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const TIMESTAMP_CLOCK_ID: u32 = 58;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    /// `SEQ_INCREMENTAL_STATE_CLEARED`: numbers of names start again here.
    pub(super) const STATE_CLEARED: u64 = 1;
    /// `SEQ_NEEDS_INCREMENTAL_STATE`: numbers stand for names that came before.
    pub(super) const NEEDS_STATE: u64 = 2;
}

/// `ClockSnapshot`.
mod snapshot {
    pub(super) const CLOCKS: u32 = 1;
    pub(super) const PRIMARY: u32 = 2;
    pub(super) const CLOCK_ID: u32 = 1;
    pub(super) const CLOCK_NS: u32 = 2;
}

/// `TrackDescriptor`, with `ProcessDescriptor`, `ThreadDescriptor` and `CounterDescriptor`.
mod descriptor {
    pub(super) const UUID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const PROCESS: u32 = 3;
    pub(super) const THREAD: u32 = 4;
    pub(super) const PARENT: u32 = 5;
    pub(super) const COUNTER: u32 = 8;
    pub(super) const CHILD_ORDERING: u32 = 11;
    pub(super) const RANK: u32 = 12;
    /// `ChildTracksOrdering::EXPLICIT`: by rank.
    pub(super) const BY_RANK: u64 = 3;
    pub(super) const PID: u32 = 1;
    pub(super) const TID: u32 = 2;
    pub(super) const THREAD_NAME: u32 = 5;
    pub(super) const PROCESS_NAME: u32 = 6;
    pub(super) const UNIT: u32 = 3;
    pub(super) const UNIT_NAME: u32 = 6;
    /// `Unit::UNIT_TIME_NS`.
    pub(super) const TIME_NS: u64 = 1;
}

/// `TrackEvent`, and `DebugAnnotation` within.
mod event {
    pub(super) const CATEGORY_NUMBER: u32 = 3;
    pub(super) const NOTES: u32 = 4;
    pub(super) const TYPE: u32 = 9;
    pub(super) const NAME_NUMBER: u32 = 10;
    pub(super) const TRACK: u32 = 11;
    pub(super) const NAME: u32 = 23;
    pub(super) const COUNT: u32 = 30;
    /// Of builds before 2022, which do not know the other one; later ones read this if that is absent.
    pub(super) const FLOWS_OLD: u32 = 36;
    pub(super) const COUNT_REAL: u32 = 44;
    pub(super) const FLOWS: u32 = 47;
    pub(super) const NOTE_NAME_NUMBER: u32 = 1;
    pub(super) const NOTE_IS: u32 = 2;
    pub(super) const NOTE_UNSIGNED: u32 = 3;
    pub(super) const NOTE_TEXT: u32 = 6;
    pub(super) const BEGIN: u64 = 1;
    pub(super) const END: u64 = 2;
    pub(super) const INSTANT: u64 = 3;
    pub(super) const COUNTER: u64 = 4;
}

/// `InternedData`, and what it consists of.
mod interned {
    pub(super) const CATEGORIES: u32 = 1;
    pub(super) const NAMES: u32 = 2;
    pub(super) const NOTE_NAMES: u32 = 3;
    pub(super) const NUMBER: u32 = 1;
    pub(super) const TEXT: u32 = 2;
}

/// `BuiltinClock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TraceClock {
    Realtime = 1,
    Monotonic = 3,
    MonotonicRaw = 5,
    Boottime = 6,
}

/// Names that get a number; those beyond are written out each time, so that memory is bounded.
const NUMBERED_MOST: usize = 1 << 16;

/// A track of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TrackId(u64);

/// Kind of a track.
pub(super) enum TrackKind<'a> {
    /// Only a name.
    Named(&'a str),
    /// A name, with tracks in it, in the order of their ranks.
    Group(&'a str),
    /// A process, by number and name.
    Process(u32, Option<&'a str>),
    /// A thread, by the numbers of its process and its own, and its name.
    Thread(u32, u32, Option<&'a str>),
    /// Values with a unit.
    Counter(&'a str, CounterUnit<'a>),
}

/// Unit of a counter.
#[derive(Debug, Clone, Copy)]
pub(super) enum CounterUnit<'a> {
    Ns,
    Named(&'a str),
    Unknown,
}

/// Value of an annotation.
pub(super) enum NoteValue<'a> {
    Unsigned(u64),
    Is(bool),
    Text(&'a str),
}

/// A span or a moment.
#[derive(Default)]
pub(super) struct TraceEvent<'a> {
    pub(super) name: &'a str,
    pub(super) category: &'static str,
    /// Connects it with others of the same number.
    pub(super) flow: Option<u64>,
    pub(super) notes: &'a [(&'static str, NoteValue<'a>)],
}

impl<'a> TraceEvent<'a> {
    /// Returns an event that is connected with others of the same flow.
    pub(super) fn in_flow(
        category: &'static str,
        name: &'a str,
        flow: u64,
        notes: &'a [(&'static str, NoteValue<'a>)],
    ) -> Self {
        Self {
            name,
            category,
            flow: Some(flow),
            notes,
        }
    }
}

/// A value of a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CounterValue {
    Whole(i64),
    Real(f64),
}

/// A trace that is being written.
pub(super) struct TraceWriter<'a> {
    out: &'a mut dyn Write,
    body: WireMessage,
    packet: WireMessage,
    tracks: u64,
    categories: HashMap<&'static str, u64>,
    names: HashMap<Box<str>, u64>,
    note_names: HashMap<&'static str, u64>,
}

impl<'a> TraceWriter<'a> {
    /// Begins a trace with times of `CLOCK_MONOTONIC`.
    pub(super) fn begin(out: &'a mut dyn Write) -> io::Result<Self> {
        let mut trace = Self {
            out,
            body: WireMessage::default(),
            packet: WireMessage::default(),
            tracks: 0,
            categories: HashMap::new(),
            names: HashMap::new(),
            note_names: HashMap::new(),
        };
        trace.write_packet(packet::STATE_CLEARED, |body| {
            body.message(packet::DEFAULTS, |it| {
                it.put_unsigned(packet::TIMESTAMP_CLOCK_ID, TraceClock::Monotonic as u64);
            });
        })?;
        Ok(trace)
    }

    /// Writes the times of several clocks at one moment.
    pub(super) fn clocks(
        &mut self,
        monotonic_ns: u64,
        others: &[(TraceClock, u64)],
    ) -> io::Result<()> {
        self.write_packet(packet::NEEDS_STATE, |body| {
            body.message(packet::CLOCK_SNAPSHOT, |it| {
                let all = [(TraceClock::Monotonic, monotonic_ns)];
                for (clock, ns) in all.iter().chain(others) {
                    it.message(snapshot::CLOCKS, |it| {
                        it.put_unsigned(snapshot::CLOCK_ID, *clock as u64);
                        it.put_unsigned(snapshot::CLOCK_NS, *ns);
                    });
                }
                it.put_unsigned(snapshot::PRIMARY, TraceClock::Monotonic as u64);
            });
        })
    }

    /// Adds a track. `rank`: its place among those of a group.
    pub(super) fn track(
        &mut self,
        of: TrackKind<'_>,
        within: Option<TrackId>,
        rank: Option<u16>,
    ) -> io::Result<TrackId> {
        self.tracks += 1;
        let track = TrackId(self.tracks);
        self.describe(track, of, within, rank)?;
        Ok(track)
    }

    /// Describes a track; a later description replaces it.
    pub(super) fn describe(
        &mut self,
        track: TrackId,
        of: TrackKind<'_>,
        within: Option<TrackId>,
        rank: Option<u16>,
    ) -> io::Result<()> {
        self.write_packet(packet::NEEDS_STATE, |body| {
            body.message(packet::TRACK_DESCRIPTOR, |it| {
                it.put_unsigned(descriptor::UUID, track.0);
                if let Some(within) = within {
                    it.put_unsigned(descriptor::PARENT, within.0);
                }
                if let Some(rank) = rank {
                    it.put_unsigned(descriptor::RANK, rank.into());
                }
                of.write(it);
            });
        })
    }

    /// Begins a span.
    pub(super) fn open(
        &mut self,
        track: TrackId,
        ns: u64,
        what: &TraceEvent<'_>,
    ) -> io::Result<()> {
        self.write_event(event::BEGIN, track, ns, what)
    }

    /// The innermost open span of the track ends.
    pub(super) fn close(&mut self, track: TrackId, ns: u64) -> io::Result<()> {
        self.write_packet(packet::NEEDS_STATE, |body| {
            body.put_unsigned(packet::TIMESTAMP, ns);
            body.message(packet::TRACK_EVENT, |it| {
                it.put_unsigned(event::TYPE, event::END);
                it.put_unsigned(event::TRACK, track.0);
            });
        })
    }

    /// Writes a moment on a track.
    pub(super) fn instant(
        &mut self,
        track: TrackId,
        ns: u64,
        what: &TraceEvent<'_>,
    ) -> io::Result<()> {
        self.write_event(event::INSTANT, track, ns, what)
    }

    /// Sets the value of a counter from now on.
    pub(super) fn count(&mut self, track: TrackId, ns: u64, count: CounterValue) -> io::Result<()> {
        self.write_packet(packet::NEEDS_STATE, |body| {
            body.put_unsigned(packet::TIMESTAMP, ns);
            body.message(packet::TRACK_EVENT, |it| {
                it.put_unsigned(event::TYPE, event::COUNTER);
                it.put_unsigned(event::TRACK, track.0);
                match count {
                    CounterValue::Whole(value) => it.put_signed(event::COUNT, value),
                    CounterValue::Real(value) => it.double(event::COUNT_REAL, value),
                }
            });
        })
    }

    /// Writes what is in the buffer.
    pub(super) fn finish(self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes one event of a track: begin, end or moment.
    fn write_event(
        &mut self,
        kind: u64,
        track: TrackId,
        ns: u64,
        what: &TraceEvent<'_>,
    ) -> io::Result<()> {
        let mut new = WireMessage::default();
        let category = number(&mut self.categories, what.category, |number| {
            name(&mut new, interned::CATEGORIES, number, what.category);
        });
        let known = self.names.get(what.name).copied();
        let numbered = known.or_else(|| {
            let number = self.names.len() as u64 + 1;
            (self.names.len() < NUMBERED_MOST).then(|| {
                self.names.insert(what.name.into(), number);
                name(
                    &mut new,
                    interned::NAMES,
                    number,
                    &remove_controls(what.name),
                );
                number
            })
        });
        let note_names = what.notes.iter().map(|(it, _)| {
            number(&mut self.note_names, it, |number| {
                name(&mut new, interned::NOTE_NAMES, number, it);
            })
        });
        let note_names: Vec<u64> = note_names.collect();
        self.write_packet(packet::NEEDS_STATE, |body| {
            body.put_unsigned(packet::TIMESTAMP, ns);
            body.append(packet::INTERNED_DATA, &new);
            body.message(packet::TRACK_EVENT, |it| {
                it.put_unsigned(event::TYPE, kind);
                it.put_unsigned(event::TRACK, track.0);
                it.put_unsigned(event::CATEGORY_NUMBER, category);
                match numbered {
                    Some(number) => it.put_unsigned(event::NAME_NUMBER, number),
                    None => it.text(event::NAME, &remove_controls(what.name)),
                }
                if let Some(flow) = what.flow {
                    it.put_unsigned(event::FLOWS_OLD, flow);
                    it.put_fixed(event::FLOWS, flow);
                }
                for ((_, note), number) in what.notes.iter().zip(note_names) {
                    it.message(event::NOTES, |it| {
                        it.put_unsigned(event::NOTE_NAME_NUMBER, number);
                        note.write(it);
                    });
                }
            });
        })
    }

    /// Writes one packet of the trace.
    fn write_packet(&mut self, flags: u64, write: impl FnOnce(&mut WireMessage)) -> io::Result<()> {
        self.body.clear();
        self.body.put_unsigned(packet::SEQUENCE_ID, 1);
        self.body.put_unsigned(packet::SEQUENCE_FLAGS, flags);
        write(&mut self.body);
        self.packet.clear();
        self.packet.append(packet::PACKET, &self.body);
        self.out.write_all(self.packet.bytes())
    }
}

/// Returns the number of a name; a new name gets one, and `define` is called.
fn number(
    numbers: &mut HashMap<&'static str, u64>,
    name: &'static str,
    define: impl FnOnce(u64),
) -> u64 {
    let next = numbers.len() as u64 + 1;
    let number = *numbers.entry(name).or_insert(next);
    if number == next {
        define(number);
    }
    number
}

/// Writes an interned string: a number that replaces a text from now on.
fn name(new: &mut WireMessage, field: u32, number: u64, text: &str) {
    new.message(field, |it| {
        it.put_unsigned(interned::NUMBER, number);
        it.text(interned::TEXT, text);
    });
}

impl TrackKind<'_> {
    /// Writes what kind of track it is: process, thread, counter or named.
    fn write(&self, it: &mut WireMessage) {
        match self {
            Self::Named(name) => it.text(descriptor::NAME, &remove_controls(name)),
            Self::Group(name) => {
                it.text(descriptor::NAME, name);
                it.put_unsigned(descriptor::CHILD_ORDERING, descriptor::BY_RANK);
            }
            Self::Process(pid, name) => it.message(descriptor::PROCESS, |it| {
                it.put_unsigned(descriptor::PID, (*pid).into());
                if let Some(name) = name {
                    it.text(descriptor::PROCESS_NAME, &remove_controls(name));
                }
            }),
            Self::Thread(pid, tid, name) => it.message(descriptor::THREAD, |it| {
                it.put_unsigned(descriptor::PID, (*pid).into());
                it.put_unsigned(descriptor::TID, (*tid).into());
                if let Some(name) = name {
                    it.text(descriptor::THREAD_NAME, &remove_controls(name));
                }
            }),
            Self::Counter(name, unit) => {
                it.text(descriptor::NAME, &remove_controls(name));
                it.message(descriptor::COUNTER, |it| match unit {
                    CounterUnit::Ns => it.put_unsigned(descriptor::UNIT, descriptor::TIME_NS),
                    CounterUnit::Named(name) => {
                        it.text(descriptor::UNIT_NAME, &remove_controls(name))
                    }
                    CounterUnit::Unknown => {}
                });
            }
        }
    }
}

impl NoteValue<'_> {
    /// Writes the value of a note.
    fn write(&self, it: &mut WireMessage) {
        match self {
            Self::Unsigned(value) => it.put_unsigned(event::NOTE_UNSIGNED, *value),
            Self::Is(value) => it.put_unsigned(event::NOTE_IS, (*value).into()),
            Self::Text(value) => it.text(event::NOTE_TEXT, &remove_controls(value)),
        }
    }
}
