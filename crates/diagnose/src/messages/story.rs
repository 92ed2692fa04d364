//! One message by itself: found by its id, told step by step.

use std::str::FromStr;

use table::tables::ReceivedMessage;

use super::doing::Meanwhile;
use super::marks::Mark;
use super::report::{Event, Row, Step, Took};
use super::way::{Direction, Part, Way};

/// Which message: `CONN:rOFFSET` or `CONN:sOFFSET`. The offset may be of any of its bytes but the first,
/// counted from the connection's first byte; a report names the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageId {
    /// Socket cookie.
    pub conn: u64,
    /// Which way.
    pub direction: Direction,
    /// End of one of its bytes in the stream.
    pub offset_end: u64,
}

impl FromStr for MessageId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("{text} is not a message: a report names them, such as 4711:r1024 or 4711:s512")
        };
        let (conn, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (direction, offset) = match rest.split_at_checked(1) {
            Some(("r", offset)) => (Direction::Received, offset),
            Some(("s", offset)) => (Direction::Sent, offset),
            _ => return Err(wrong()),
        };
        Ok(Self {
            conn: conn.parse().map_err(|_| wrong())?,
            direction,
            offset_end: offset.parse().map_err(|_| wrong())?,
        })
    }
}

impl std::fmt::Display for MessageId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = match self.direction {
            Direction::Received => 'r',
            Direction::Sent => 's',
        };
        write!(out, "{}:{letter}{}", self.conn, self.offset_end)
    }
}

impl MessageId {
    /// Whether a message of this end and length is the one.
    pub(super) fn is(self, conn: u64, offset_end: u64, bytes: u32) -> bool {
        self.conn == conn
            && self.offset_end <= offset_end
            && self.offset_end > offset_end - u64::from(bytes)
    }
}

impl Row {
    /// What it is called.
    pub fn id(&self) -> MessageId {
        match self {
            Self::Received(row) => MessageId {
                conn: row.conn,
                direction: Direction::Received,
                offset_end: row.offset_end,
            },
            Self::Sent(row) => MessageId {
                conn: row.conn,
                direction: Direction::Sent,
                offset_end: row.offset_end,
            },
        }
    }

    /// When what is known first of it happened, and what is known last.
    pub fn known_ns(&self) -> (u64, u64) {
        let meanwhile = self.meanwhile();
        (meanwhile.from_ns, meanwhile.until_ns)
    }

    /// Its time, from what is known first to what is known last, and its CPUs.
    pub(super) fn meanwhile(&self) -> Meanwhile {
        let (tid, cpus) = match self {
            Self::Received(row) => (row.tid, [row.receive_cpu, Some(row.cpu)]),
            Self::Sent(row) => (row.tid, [Some(row.cpu), row.driver_cpu]),
        };
        let marks = self.marks(None).into_iter();
        let marks = marks.filter(|mark| !self.is_same(mark));
        let times: Vec<u64> = marks.filter_map(|mark| mark.ns).collect();
        Meanwhile {
            from_ns: times.iter().copied().min().unwrap_or(0),
            until_ns: times.iter().copied().max().unwrap_or(0),
            cpus: cpus.into_iter().flatten().collect(),
            tid,
        }
    }

    /// What is known to have happened to it, in the order of time. `way`: its own, if it has one.
    pub(super) fn steps(&self, way: Option<&Way>) -> Vec<Step> {
        let on_wire = way.and_then(|way| way.on_wire);
        let marks = self.marks(on_wire).into_iter();
        let seen = marks.filter_map(|mark| Some((mark.ns?, mark)));
        let mut seen: Vec<(u64, Mark)> = seen.filter(|it| !self.is_same(&it.1)).collect();
        seen.sort_by_key(|(ns, _)| *ns);
        let first_ns = seen.first().map_or(0, |(ns, _)| *ns);
        let steps = seen.into_iter().map(|(ns, mark)| Step {
            after_ns: ns - first_ns,
            what: mark.what,
            cpu: mark.cpu,
            tid: mark.tid,
            error_ns: on_wire
                .filter(|_| mark.what == Event::OnWire)
                .map(|it| it.error_ns),
            ends: way.and_then(|way| took(way, &mark)),
        });
        steps.collect()
    }

    /// Whether it is the arrival of the first of one segment, which is that of the last, too.
    fn is_same(&self, mark: &Mark) -> bool {
        let is_one = |row: &ReceivedMessage| {
            row.segments <= 1 && row.first_arrival_ns == row.last_arrival_ns
        };
        mark.what == Event::FirstArrived && matches!(self, Self::Received(row) if is_one(row))
    }
}

/// The part that ends with a mark; not the time in which all of it arrived at once.
fn took(way: &Way, mark: &Mark) -> Option<Took> {
    let part = mark.ends()?;
    let ns = way.part_ns(part)?;
    (part != Part::Arriving || ns > 0).then_some(Took { part, ns })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use table::row_of;

    use super::super::nic::OnWire;
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for text in ["4711:r1024", "1:s0"] {
            let id: MessageId = text.parse().expect("an id");
            assert_eq!(id.to_string(), text);
        }
        for text in [
            "",
            "4711",
            "4711:1024",
            "4711:x1",
            "x:r1",
            "1:r",
            "1:é",
            "1:r-1",
        ] {
            assert!(text.parse::<MessageId>().is_err(), "{text}");
        }
    }

    #[test]
    fn any_byte_of_a_message_names_it() {
        let id: MessageId = "7:r100".parse().expect("an id");
        assert!(id.is(7, 100, 1) && id.is(7, 149, 50));
        assert!(!id.is(7, 150, 50) && !id.is(7, 99, 50) && !id.is(8, 100, 1));
    }

    #[test]
    fn at_one_instant_each_step_ends_its_own_part() {
        let row = json!({
            "call_ns": 100, "tcp_ns": 110, "queue_ns": 110, "driver_ns": 113, "acked_ns": 130,
            "done_ns": 130, "cpu": 3, "tid": 9,
        });
        let row = row_of(row).expect("a row");
        let on_wire = OnWire {
            nic_ns: 130,
            error_ns: 4,
        };
        let way = Way::of_sent(&row, Some(on_wire)).expect("a way");
        let steps = Row::Sent(row).steps(Some(&way));
        let ends = steps
            .iter()
            .map(|step| (step.what, step.ends.map(|took| (took.part, took.ns))));
        let all = [
            (Event::CallBegun, None),
            (Event::TcpSent, Some((Part::Call, 10))),
            (Event::Queued, Some((Part::Output, 0))),
            (Event::Driven, Some((Part::Qdisc, 3))),
            (Event::CallDone, None),
            (Event::OnWire, Some((Part::Nic, 17))),
            (Event::Acknowledged, Some((Part::Network, 0))),
        ];
        assert_eq!(ends.collect::<Vec<_>>(), all);
    }

    #[test]
    fn steps_are_in_the_order_of_time() {
        let row = json!({
            "call_ns": 100, "tcp_ns": 110, "queue_ns": 112, "driver_ns": 113, "acked_ns": 130,
            "done_ns": 120, "cpu": 3, "tid": 9,
        });
        let steps = Row::Sent(row_of(row).expect("a row")).steps(None);
        let what: Vec<_> = steps
            .iter()
            .map(|step| (step.after_ns, step.what))
            .collect();
        let all = [
            (0, Event::CallBegun),
            (10, Event::TcpSent),
            (12, Event::Queued),
            (13, Event::Driven),
            (20, Event::CallDone),
            (30, Event::Acknowledged),
        ];
        assert_eq!(what, all);
        assert_eq!((steps[4].cpu, steps[4].tid), (Some(3), Some(9)));
    }
}
