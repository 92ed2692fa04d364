//! The time of a message as parts that follow each other without a gap: their sum is the whole. A received one goes from
//! its arrival to the end of the call that took it, a sent one from the start of its call to the ACK. A datagram's call
//! begins, and the copying of a small one, without a hook: a sent one goes from the queue of the device to the driver,
//! and copying counts as the program's.
//!
//! Which times of a row begin and end these parts, and in which order, is written here alone: text, JSON, Perfetto's trace, the
//! page and the analysis of slow messages take it from here.

use table::tables::{ClockPairs, ReceivedMessage, SentMessage};

use super::message::{MessageDirection, MessageRow};
use super::nic::{NicClocks, StampTime, WireTime};
use super::parts::{MessageEvent, MessagePart};

/// Parts of a direction, at most.
pub const PARTS_MOST: usize = 8;

impl MessageDirection {
    /// Returns the parts of a message of this direction, in order.
    pub const fn parts(self) -> &'static [MessagePart] {
        match self {
            Self::Received => &[
                MessagePart::Arriving,
                MessagePart::Softirq,
                MessagePart::Tcp,
                MessagePart::Udp,
                MessagePart::Wakeup,
                MessagePart::RunQueue,
                MessagePart::Program,
                MessagePart::Copy,
            ],
            Self::Sent => &[
                MessagePart::Call,
                MessagePart::Held,
                MessagePart::Output,
                MessagePart::Qdisc,
                MessagePart::Nic,
                MessagePart::Network,
            ],
        }
    }

    /// Returns the index of a part in this direction.
    fn position(self, part: MessagePart) -> usize {
        let position = self.parts().iter().position(|it| *it == part);
        position.expect("marks name parts of their direction")
    }
}

/// Something that happens to a message, and the part of its time that it ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventMark {
    /// The event.
    pub(super) event: MessageEvent,
    /// When; `None`: it was not seen, or did not happen.
    pub(super) ns: Option<u64>,
    /// On which CPU; `None`: not recorded.
    pub(super) cpu: Option<u16>,
    /// In which thread; `None`: in none, or in whichever was interrupted.
    pub(super) tid: Option<u32>,
    role: MarkRole,
}

/// The role of a mark among the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarkRole {
    /// The first part begins with it.
    Begin,
    /// It ends a part, which every such message has.
    End(MessagePart),
    /// It ends a part, where it was seen.
    MayEnd(MessagePart),
    /// It happens beside the parts.
    Beside,
}

impl EventMark {
    /// Makes a mark without CPU and thread; `ns` is None if the event was not seen.
    fn new(event: MessageEvent, ns: Option<u64>, role: MarkRole) -> Self {
        Self {
            event,
            ns,
            cpu: None,
            tid: None,
            role,
        }
    }

    /// Adds the CPU and the thread of the event.
    fn at(self, cpu: Option<u16>, tid: Option<u32>) -> Self {
        Self { cpu, tid, ..self }
    }

    /// Returns the part that ends with this event; `None` for none.
    pub(super) fn ended_part(&self) -> Option<MessagePart> {
        match self.role {
            MarkRole::End(part) | MarkRole::MayEnd(part) => Some(part),
            MarkRole::Begin | MarkRole::Beside => None,
        }
    }

    /// Returns whether the event was not seen although every such message has it.
    fn is_missing(&self) -> bool {
        self.ns.is_none() && matches!(self.role, MarkRole::Begin | MarkRole::End(_))
    }
}

impl MessageRow {
    /// Returns the events of the message in order. `on_wire`: when the adapter sent it, if known.
    pub(super) fn event_marks(&self, on_wire: Option<WireTime>) -> Vec<EventMark> {
        match self {
            Self::Received(row) => with_received(row, <[EventMark]>::to_vec),
            Self::Sent(row) => with_sent(row, on_wire, <[EventMark]>::to_vec),
        }
    }
}

/// Gives `read` the marks of a received message.
fn with_received<T>(row: &ReceivedMessage, read: impl FnOnce(&[EventMark]) -> T) -> T {
    match row.cut_bytes {
        Some(_) => read(&received_datagram(row)),
        None => read(&marks_of_received(row)),
    }
}

/// Gives `read` the marks of a sent message.
fn with_sent<T>(
    row: &SentMessage,
    on_wire: Option<WireTime>,
    read: impl FnOnce(&[EventMark]) -> T,
) -> T {
    match row.packets {
        Some(_) => read(&sent_datagram(row)),
        None => read(&sent_marks(row, on_wire)),
    }
}

/// Returns the marks of what a TCP connection received.
fn marks_of_received(row: &ReceivedMessage) -> [EventMark; 8] {
    use MarkRole::{Begin, End};
    let first = EventMark::new(MessageEvent::FirstArrived, row.first_arrival_ns, Begin);
    let last_ns = row.last_arrival_ns;
    let last = EventMark::new(
        MessageEvent::LastArrived,
        last_ns,
        End(MessagePart::Arriving),
    );
    let took = EventMark::new(MessageEvent::TcpTook, row.tcp_ns, End(MessagePart::Softirq));
    let ready = EventMark::new(MessageEvent::Ready, row.ready_ns, End(MessagePart::Tcp));
    let [woken, running, copying, done] = marks_of_taken(row);
    let took = took.at(row.receive_cpu, None);
    [first, last, took, ready, woken, running, copying, done]
}

/// Returns the marks of a received datagram, which arrives at once.
fn received_datagram(row: &ReceivedMessage) -> [EventMark; 7] {
    use MarkRole::{Begin, End};
    let arrived = EventMark::new(MessageEvent::LastArrived, row.last_arrival_ns, Begin);
    let took = EventMark::new(
        MessageEvent::StackTook,
        row.tcp_ns,
        End(MessagePart::Softirq),
    );
    let ready = EventMark::new(MessageEvent::Ready, row.ready_ns, End(MessagePart::Udp));
    let [woken, running, copying, done] = marks_of_taken(row);
    let took = took.at(row.receive_cpu, None);
    [arrived, took, ready, woken, running, copying, done]
}

/// Returns the times at which the receiving thread woke up, read and copied a message.
fn marks_of_taken(row: &ReceivedMessage) -> [EventMark; 4] {
    use MarkRole::{End, MayEnd};
    let last = match row.copy_ns {
        Some(_) => MessagePart::Copy,
        None => MessagePart::Program,
    };
    let mark = |event, ns, role| EventMark::new(event, ns, role).at(None, Some(row.tid));
    let done = mark(MessageEvent::CallDone, Some(row.done_ns), End(last));
    [
        mark(
            MessageEvent::Woken,
            row.woken_ns,
            MayEnd(MessagePart::Wakeup),
        ),
        mark(
            MessageEvent::Running,
            row.running_ns,
            MayEnd(MessagePart::RunQueue),
        ),
        mark(
            MessageEvent::Copying,
            row.copy_ns,
            MayEnd(MessagePart::Program),
        ),
        done.at(Some(row.cpu), Some(row.tid)),
    ]
}

/// Returns the events of a message that TCP sent. The call may end before or after TCP begins to
/// send.
fn sent_marks(row: &SentMessage, on_wire: Option<WireTime>) -> [EventMark; 7] {
    use MarkRole::{Begin, Beside, End, MayEnd};
    let is_held = row.tcp_ns.is_some_and(|tcp_ns| row.done_ns < tcp_ns);
    let (call_done, tcp_sends) = match is_held {
        true => (End(MessagePart::Call), End(MessagePart::Held)),
        false => (Beside, End(MessagePart::Call)),
    };
    let mark = EventMark::new;
    let on_wire_ns = on_wire.map(|on_wire| on_wire.nic_ns);
    let driven = mark(MessageEvent::Driven, row.driver_ns, End(MessagePart::Qdisc));
    [
        mark(MessageEvent::CallBegun, row.call_ns, Begin).at(None, Some(row.tid)),
        call_end(row, call_done),
        mark(MessageEvent::TcpSent, row.tcp_ns, tcp_sends),
        mark(MessageEvent::Queued, row.queue_ns, End(MessagePart::Output)),
        driven.at(row.driver_cpu, None),
        mark(MessageEvent::OnWire, on_wire_ns, MayEnd(MessagePart::Nic)),
        mark(
            MessageEvent::Acknowledged,
            row.acked_ns,
            End(MessagePart::Network),
        ),
    ]
}

/// Returns the events of a sent datagram: the call's begin and end.
fn sent_datagram(row: &SentMessage) -> [EventMark; 3] {
    use MarkRole::{Begin, Beside, End};
    let driven = EventMark::new(MessageEvent::Driven, row.driver_ns, End(MessagePart::Qdisc));
    [
        EventMark::new(MessageEvent::Queued, row.queue_ns, Begin),
        call_end(row, Beside),
        driven.at(row.driver_cpu, None),
    ]
}

/// Makes the mark of the send call's end.
fn call_end(row: &SentMessage, role: MarkRole) -> EventMark {
    let done = EventMark::new(MessageEvent::CallDone, Some(row.done_ns), role);
    done.at(Some(row.cpu), Some(row.tid))
}

/// Returns when something happened; `None`: it was not seen, or did not happen.
fn time_of(marks: &[EventMark], event: MessageEvent) -> Option<u64> {
    let mark = marks.iter().find(|mark| mark.event == event);
    mark.and_then(|mark| mark.ns)
}

/// The time of one message, in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyBreakdown {
    /// Direction.
    pub direction: MessageDirection,
    /// When it began.
    pub start_ns: u64,
    /// From there to the end, ns.
    pub whole_ns: u64,
    /// Its parts, in the order of [`MessageDirection::parts`]; `None`: it had no such part.
    parts_ns: [Option<u64>; PARTS_MOST],
    /// When the network adapter put it on the wire, if that is known.
    pub on_wire: Option<WireTime>,
}

/// Why a message has no breakdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakdownError {
    /// A time that it needs was not seen.
    MissingTimestamp,
    /// Its times are not in the order of the parts, which cannot be.
    OutOfOrder,
}

impl LatencyBreakdown {
    /// Splits the latency of a received message into parts.
    ///
    /// # Errors
    /// When a time is missing that every message has, or the times are in no order.
    pub fn from_received(row: &ReceivedMessage) -> Result<Self, BreakdownError> {
        with_received(row, |marks| {
            Self::from_marks(MessageDirection::Received, marks)
        })
    }

    /// Splits the latency of a sent message into parts. `on_wire`: when the network adapter sent
    /// it, if known.
    ///
    /// # Errors
    /// As [`LatencyBreakdown::from_received`].
    pub fn from_sent(row: &SentMessage, on_wire: Option<WireTime>) -> Result<Self, BreakdownError> {
        let on_wire = on_wire.filter(|_| row.packets.is_none());
        let from_marks = |marks: &[_]| Self::from_marks(MessageDirection::Sent, marks);
        let breakdown = with_sent(row, on_wire, from_marks)?;
        Ok(Self {
            on_wire,
            ..breakdown
        })
    }

    /// Splits the time between marks into parts; an error if one is missing or out of order.
    fn from_marks(
        direction: MessageDirection,
        marks: &[EventMark],
    ) -> Result<Self, BreakdownError> {
        if marks.iter().any(EventMark::is_missing) {
            return Err(BreakdownError::MissingTimestamp);
        }
        let start_ns = marks[0].ns.ok_or(BreakdownError::MissingTimestamp)?;
        let mut parts_ns = [None; PARTS_MOST];
        let mut from_ns = start_ns;
        for mark in marks {
            if let Some((part, until_ns)) = mark.ended_part().zip(mark.ns) {
                let part_ns = until_ns.checked_sub(from_ns);
                parts_ns[direction.position(part)] =
                    Some(part_ns.ok_or(BreakdownError::OutOfOrder)?);
                from_ns = until_ns;
            }
        }
        Ok(Self {
            direction,
            start_ns,
            whole_ns: from_ns - start_ns,
            parts_ns,
            on_wire: None,
        })
    }

    /// Returns the duration of each part of [`MessageDirection::parts`], ns; `None`: it had no such part.
    pub(super) fn parts_ns(&self) -> [Option<u64>; PARTS_MOST] {
        self.parts_ns
    }

    /// Returns the duration of a part, ns; `None`: it had none.
    pub(super) fn part_ns(&self, part: MessagePart) -> Option<u64> {
        self.parts_ns[self.direction.position(part)]
    }

    /// Returns the parts of the latency with their lengths in ns, in order.
    pub fn parts(&self) -> impl Iterator<Item = (MessagePart, u64)> + '_ {
        let parts = self.direction.parts().iter().zip(self.parts_ns);
        parts.filter_map(|(part, ns)| Some((*part, ns?)))
    }
}

/// When the host had a message: a received one from the moment all of it had arrived to the end of the call that took it,
/// a sent one from the start of its call to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostTimes {
    /// From when on.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
    /// When it went from the one core to the other: a received one to its socket, a sent one to the driver.
    pub handed_ns: u64,
    /// When the thread that had waited for it had a CPU again; `None`: it did not wait.
    pub running_ns: Option<u64>,
    /// When the thread began with it.
    pub taken_ns: u64,
}

impl HostTimes {
    /// Returns when a received message was on this host; `None`: it has no breakdown.
    pub fn from_received(row: &ReceivedMessage) -> Option<Self> {
        with_received(row, |marks| {
            LatencyBreakdown::from_marks(MessageDirection::Received, marks).ok()?;
            let end_ns = time_of(marks, MessageEvent::CallDone)?;
            Some(Self {
                start_ns: time_of(marks, MessageEvent::LastArrived)?,
                end_ns,
                handed_ns: time_of(marks, MessageEvent::Ready)?,
                running_ns: time_of(marks, MessageEvent::Running),
                taken_ns: time_of(marks, MessageEvent::Copying).unwrap_or(end_ns),
            })
        })
    }

    /// Returns when a sent message was on this host; `None`: it has no breakdown.
    pub fn from_sent(row: &SentMessage) -> Option<Self> {
        with_sent(row, None, |marks| {
            LatencyBreakdown::from_marks(MessageDirection::Sent, marks).ok()?;
            let begun_ns = time_of(marks, MessageEvent::CallBegun);
            let start_ns = begun_ns.or(time_of(marks, MessageEvent::Queued))?;
            let end_ns = time_of(marks, MessageEvent::Driven)?;
            Some(Self {
                start_ns,
                end_ns,
                handed_ns: row.done_ns.clamp(start_ns, end_ns),
                running_ns: None,
                taken_ns: start_ns,
            })
        })
    }
}

/// Work for a message beside its own times: begin and end of each, `None` where one was not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostWork {
    /// On the CPU of the receiving softirq, or of the driver.
    pub kernel: Option<(u16, (u64, u64))>,
    /// In its thread.
    pub thread: Option<(u64, u64)>,
}

/// Divides the time of all messages of a recording, one by one.
#[derive(Debug, Default)]
pub struct BreakdownSource {
    nics: NicClocks,
}

impl BreakdownSource {
    /// Starts with the clocks of network adapters: all rows of table `clock_pairs`.
    pub fn new(pairs: &ClockPairs) -> Self {
        Self {
            nics: NicClocks::from_pairs(pairs),
        }
    }

    /// Splits the latency of a message into parts.
    ///
    /// # Errors
    /// As [`LatencyBreakdown::from_received`].
    pub fn breakdown(&self, row: &MessageRow) -> Result<LatencyBreakdown, BreakdownError> {
        match row {
            MessageRow::Received(row) => LatencyBreakdown::from_received(row),
            MessageRow::Sent(row) => LatencyBreakdown::from_sent(row, self.on_wire(row)),
        }
    }

    /// Returns the work of the CPU at the driver's side and of the thread for a message.
    pub fn host_work(&self, row: &MessageRow) -> HostWork {
        match row {
            MessageRow::Received(row) => with_received(row, |marks| {
                let at = |event| time_of(marks, event);
                let took_ns = at(MessageEvent::Copying).or(at(MessageEvent::Running));
                let received = row.first_arrival_ns.zip(at(MessageEvent::Ready));
                HostWork {
                    kernel: row.receive_cpu.zip(received),
                    thread: took_ns.zip(at(MessageEvent::CallDone)),
                }
            }),
            MessageRow::Sent(row) => with_sent(row, self.on_wire(row), |marks| {
                let at = |event| time_of(marks, event);
                let left_ns = at(MessageEvent::OnWire).or(at(MessageEvent::Driven));
                HostWork {
                    kernel: row.driver_cpu.zip(at(MessageEvent::Queued).zip(left_ns)),
                    thread: at(MessageEvent::CallBegun).zip(Some(row.done_ns)),
                }
            }),
        }
    }

    /// Returns when an adapter put a message on the wire, if that is known.
    fn on_wire(&self, row: &SentMessage) -> Option<WireTime> {
        match self.nics.stamp_time(row)? {
            StampTime::At(on_wire) => Some(on_wire),
            StampTime::Unplaced | StampTime::Impossible => None,
        }
    }
}

#[cfg(test)]
mod tests;
