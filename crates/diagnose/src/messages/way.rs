//! The way of a message as parts that follow each other without a gap: their sum is the whole. A received
//! one goes from its arrival to the end of the call that took it, a sent one from the begin of its call to
//! the ACK. A datagram's call begins, and the copying of a small one, without a hook: a sent one goes from the
//! queue of the device to the driver, and copying counts as the program's.
//!
//! Text, JSON, Perfetto's trace and the page take the parts of a message from here alone.

use serde::Serialize;
use table::tables::{ClockPairs, ReceivedMessage, SentMessage};

use super::marks::{self, Mark};
use super::nic::{NicClocks, OnWire, Placed};
use super::report::{Row, Step};

/// Which way a message went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the other end to the program.
    Received,
    /// From the program to the other end.
    Sent,
}

/// A part of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// From the first byte's segment to the last one's.
    Arriving,
    /// Until TCP took that, or the stack a datagram: interrupts and softirqs.
    Softirq,
    /// Until it was handed to the socket: earlier bytes were missing, or the thread had the socket.
    Tcp,
    /// The same of a datagram: IP, netfilter and UDP.
    Udp,
    /// Until the thread that waited was woken.
    Wakeup,
    /// Until there was a CPU for it.
    RunQueue,
    /// Until it came to read: it was doing other things.
    Program,
    /// Until the call ended.
    Copy,
    /// From the call's begin until TCP began to send the last byte, or the call ended.
    Call,
    /// From the call's end until TCP began to send the last byte: a window was full, Nagle's algorithm,
    /// pacing.
    Held,
    /// Until that came to the queue of the device: TCP, IP and netfilter.
    Output,
    /// Until it went to the driver.
    Qdisc,
    /// Until the network adapter put it on the wire, where that tells.
    Nic,
    /// Until the other end had acknowledged it: the network, and the other end.
    Network,
}

/// Parts of a direction, at most.
pub const PARTS_MOST: usize = 8;

impl Direction {
    /// Its parts, in the order of the way.
    pub const fn parts(self) -> &'static [Part] {
        match self {
            Self::Received => &[
                Part::Arriving,
                Part::Softirq,
                Part::Tcp,
                Part::Udp,
                Part::Wakeup,
                Part::RunQueue,
                Part::Program,
                Part::Copy,
            ],
            Self::Sent => &[
                Part::Call,
                Part::Held,
                Part::Output,
                Part::Qdisc,
                Part::Nic,
                Part::Network,
            ],
        }
    }

    /// Where a part is among them; of the other direction's parts there are none.
    fn place(self, part: Part) -> usize {
        let place = self.parts().iter().position(|it| *it == part);
        place.expect("marks name parts of their direction")
    }

    /// As people say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Sent => "sent",
        }
    }
}

impl Part {
    /// As people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arriving => "arriving",
            Self::Softirq => "softirq",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Wakeup => "wake-up",
            Self::RunQueue => "run queue",
            Self::Program => "program",
            Self::Copy => "copy",
            Self::Call => "call",
            Self::Held => "held",
            Self::Output => "output",
            Self::Qdisc => "qdisc",
            Self::Nic => "NIC",
            Self::Network => "network",
        }
    }
}

/// The way of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Which way it went.
    pub direction: Direction,
    /// When it began.
    pub start_ns: u64,
    /// From there to the end, ns.
    pub whole_ns: u64,
    /// Its parts, in the order of [`Direction::parts`]; `None`: it had no such part.
    parts_ns: [Option<u64>; PARTS_MOST],
    /// When the network adapter put it on the wire, if that is known.
    pub on_wire: Option<OnWire>,
}

/// Why a message has no way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// A time on it was not seen.
    Unseen,
    /// Its times are not in the order of the way, which cannot be.
    Disorder,
}

impl Way {
    /// Of a received message.
    ///
    /// # Errors
    /// When a time is missing that every message has, or the times are in no order.
    pub fn of_received(row: &ReceivedMessage) -> Result<Self, Lack> {
        match row.cut_bytes {
            Some(_) => Self::through(Direction::Received, &marks::received_datagram(row)),
            None => Self::through(Direction::Received, &marks::received(row)),
        }
    }

    /// Of a sent message. `on_wire`: when the network adapter put it there, if that is known.
    ///
    /// # Errors
    /// As [`Way::of_received`].
    pub fn of_sent(row: &SentMessage, on_wire: Option<OnWire>) -> Result<Self, Lack> {
        if row.packets.is_some() {
            return Self::through(Direction::Sent, &marks::sent_datagram(row));
        }
        let way = Self::through(Direction::Sent, &marks::sent(row, on_wire))?;
        Ok(Self { on_wire, ..way })
    }

    /// `marks`: in the order of the way, the begin first.
    fn through(direction: Direction, marks: &[Mark]) -> Result<Self, Lack> {
        if marks.iter().any(Mark::is_lacking) {
            return Err(Lack::Unseen);
        }
        let start_ns = marks[0].ns.ok_or(Lack::Unseen)?;
        let mut parts_ns = [None; PARTS_MOST];
        let mut from_ns = start_ns;
        for mark in marks {
            if let Some((part, until_ns)) = mark.ends().zip(mark.ns) {
                let part_ns = until_ns.checked_sub(from_ns).ok_or(Lack::Disorder)?;
                parts_ns[direction.place(part)] = Some(part_ns);
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

    /// How long each part of [`Direction::parts`] took; `None`: it had no such part.
    pub(super) fn parts_ns(&self) -> [Option<u64>; PARTS_MOST] {
        self.parts_ns
    }

    /// How long a part took; `None`: it had none.
    pub(super) fn part_ns(&self, part: Part) -> Option<u64> {
        self.parts_ns[self.direction.place(part)]
    }

    /// The parts that it had, with their lengths, in their order.
    pub fn parts(&self) -> impl Iterator<Item = (Part, u64)> + '_ {
        let parts = self.direction.parts().iter().zip(self.parts_ns);
        parts.filter_map(|(part, ns)| Some((*part, ns?)))
    }
}

/// The ways of all messages of a recording, one by one.
#[derive(Debug, Default)]
pub struct Ways {
    nics: NicClocks,
}

impl Ways {
    /// With the clocks of network adapters, by all rows of table `clock_pairs`.
    pub fn new(pairs: &ClockPairs) -> Self {
        Self {
            nics: NicClocks::of(pairs),
        }
    }

    /// Of a sent message, with the time at which an adapter put it on the wire, if that is known.
    ///
    /// # Errors
    /// As [`Way::of_sent`].
    pub fn of_sent(&self, row: &SentMessage) -> Result<Way, Lack> {
        let on_wire = match self.nics.place(row) {
            Some(Placed::At(on_wire)) => Some(on_wire),
            Some(Placed::Unplaced | Placed::Impossible) | None => None,
        };
        Way::of_sent(row, on_wire)
    }

    /// What is known to have happened to a message, in the order of time, each with the part of its way that ends
    /// with it.
    pub fn steps(&self, row: &Row) -> Vec<Step> {
        let way = match row {
            Row::Received(row) => Way::of_received(row),
            Row::Sent(row) => self.of_sent(row),
        };
        row.steps(way.ok().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use table::row_of;

    use super::*;

    fn received(given: Value) -> Result<Way, Lack> {
        Way::of_received(&row_of(given).expect("a row"))
    }

    fn sent(given: Value) -> Result<Way, Lack> {
        Way::of_sent(&row_of(given).expect("a row"), None)
    }

    fn parts(way: &Way) -> Vec<(Part, u64)> {
        way.parts().collect()
    }

    #[test]
    fn the_parts_add_up_to_the_whole() {
        let way = received(json!({
            "first_arrival_ns": 100, "last_arrival_ns": 130, "tcp_ns": 131, "ready_ns": 135,
            "woken_ns": 140, "running_ns": 190, "copy_ns": 200, "done_ns": 207,
        }));
        let way = way.expect("a way");
        assert_eq!((way.start_ns, way.whole_ns), (100, 107));
        let took = Direction::Received.parts().iter().copied();
        let took = took.filter(|part| *part != Part::Udp);
        let took = took.zip([30, 1, 4, 5, 50, 10, 7]).collect::<Vec<_>>();
        assert_eq!(parts(&way), took);
    }

    #[test]
    fn a_thread_that_did_not_wait_was_busy() {
        let way = received(json!({
            "first_arrival_ns": 100, "last_arrival_ns": 100, "tcp_ns": 101, "ready_ns": 102,
            "copy_ns": 200, "done_ns": 210,
        }));
        let took = [
            (Part::Arriving, 0),
            (Part::Softirq, 1),
            (Part::Tcp, 1),
            (Part::Program, 98),
            (Part::Copy, 10),
        ];
        assert_eq!(parts(&way.expect("a way")), took);
    }

    #[test]
    fn what_is_sent_within_the_call_is_not_held() {
        let within = json!({
            "call_ns": 100, "tcp_ns": 110, "queue_ns": 112, "driver_ns": 113, "acked_ns": 130,
            "done_ns": 120,
        });
        let took = [
            (Part::Call, 10),
            (Part::Output, 2),
            (Part::Qdisc, 1),
            (Part::Network, 17),
        ];
        assert_eq!(parts(&sent(within).expect("a way")), took);
        let held = json!({
            "call_ns": 100, "tcp_ns": 150, "queue_ns": 152, "driver_ns": 153, "acked_ns": 170,
            "done_ns": 120,
        });
        let way = sent(held).expect("a way");
        assert_eq!(parts(&way)[..2], [(Part::Call, 20), (Part::Held, 30)]);
        assert_eq!(way.whole_ns, 70);
    }

    #[test]
    fn an_adapter_that_tells_parts_the_driver_from_the_network() {
        let row = json!({
            "call_ns": 100, "tcp_ns": 110, "queue_ns": 112, "driver_ns": 113, "acked_ns": 130, "done_ns": 120,
        });
        let on_wire = OnWire {
            nic_ns: 118,
            error_ns: 4,
        };
        let way = Way::of_sent(&row_of(row).expect("a row"), Some(on_wire)).expect("a way");
        assert_eq!(parts(&way)[3..], [(Part::Nic, 5), (Part::Network, 12)]);
        assert_eq!((way.whole_ns, way.on_wire), (30, Some(on_wire)));
    }

    #[test]
    fn a_datagram_goes_through_udp_and_is_not_acknowledged() {
        let mut given = json!({
            "first_arrival_ns": 100, "last_arrival_ns": 100, "tcp_ns": 101, "ready_ns": 103,
            "woken_ns": 110, "running_ns": 150, "done_ns": 160, "cut_bytes": 0,
        });
        let mut took = vec![
            (Part::Softirq, 1),
            (Part::Udp, 2),
            (Part::Wakeup, 7),
            (Part::RunQueue, 40),
            (Part::Program, 10),
        ];
        assert_eq!(parts(&received(given.clone()).expect("a way")), took);
        given["copy_ns"] = 158.into();
        took[4].1 = 8;
        took.push((Part::Copy, 2));
        assert_eq!(parts(&received(given).expect("a way")), took);
        let given = json!({"queue_ns": 100, "driver_ns": 170, "done_ns": 120, "packets": 1});
        assert_eq!(parts(&sent(given).expect("a way")), [(Part::Qdisc, 70)]);
        let lost = json!({"queue_ns": 100, "done_ns": 120, "packets": 1});
        assert_eq!(sent(lost), Err(Lack::Unseen));
    }

    #[test]
    fn what_was_not_seen_or_cannot_be_is_told_apart() {
        assert_eq!(received(json!({"done_ns": 1})), Err(Lack::Unseen));
        assert_eq!(sent(json!({"done_ns": 1})), Err(Lack::Unseen));
        let backwards = json!({
            "first_arrival_ns": 100, "last_arrival_ns": 100, "tcp_ns": 99, "ready_ns": 102,
            "copy_ns": 200, "done_ns": 210,
        });
        assert_eq!(received(backwards), Err(Lack::Disorder));
    }
}
