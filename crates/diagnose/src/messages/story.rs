//! One message by itself, step by step.

use table::tables::ReceivedMessage;

use super::activity::MessageWindow;
use super::breakdown::{BreakdownSource, EventMark, LatencyBreakdown};
use super::message::MessageRow;
use super::parts::{MessageEvent, MessagePart};
use super::report::{MessageStep, PartTime};

impl MessageRow {
    /// Returns the first and the last known time of the message, ns.
    pub fn known_ns(&self) -> (u64, u64) {
        let meanwhile = self.message_window();
        (meanwhile.from_ns, meanwhile.until_ns)
    }

    /// Returns the message's time, from its first to its last known event, and its CPUs.
    pub(super) fn message_window(&self) -> MessageWindow {
        let (tid, cpus) = match self {
            Self::Received(row) => (row.tid, [row.receive_cpu, Some(row.cpu)]),
            Self::Sent(row) => (row.tid, [Some(row.cpu), row.driver_cpu]),
        };
        let marks = self.event_marks(None).into_iter();
        let marks = marks.filter(|mark| !self.is_same(mark));
        let times: Vec<u64> = marks.filter_map(|mark| mark.ns).collect();
        MessageWindow {
            from_ns: times.iter().copied().min().unwrap_or(0),
            until_ns: times.iter().copied().max().unwrap_or(0),
            cpus: cpus.into_iter().flatten().collect(),
            tid,
        }
    }

    /// Returns the message's known events, in the order of time, with the parts of `breakdown`.
    pub(super) fn known_steps(&self, breakdown: Option<&LatencyBreakdown>) -> Vec<MessageStep> {
        let on_wire = breakdown.and_then(|breakdown| breakdown.on_wire);
        let marks = self.event_marks(on_wire).into_iter();
        let seen = marks.filter_map(|mark| Some((mark.ns?, mark)));
        let mut seen: Vec<(u64, EventMark)> = seen.filter(|it| !self.is_same(&it.1)).collect();
        seen.sort_by_key(|(ns, _)| *ns);
        let first_ns = seen.first().map_or(0, |(ns, _)| *ns);
        let steps = seen.into_iter().map(|(ns, mark)| MessageStep {
            after_ns: ns - first_ns,
            what: mark.event,
            cpu: mark.cpu,
            tid: mark.tid,
            error_ns: on_wire
                .filter(|_| mark.event == MessageEvent::OnWire)
                .map(|it| it.error_ns),
            ends: breakdown.and_then(|breakdown| ended_part(breakdown, &mark)),
        });
        steps.collect()
    }

    /// Returns whether the event is the first arrival of a message of one segment: the last arrival
    /// is the same.
    fn is_same(&self, mark: &EventMark) -> bool {
        let is_one = |row: &ReceivedMessage| {
            row.segments <= 1 && row.first_arrival_ns == row.last_arrival_ns
        };
        mark.event == MessageEvent::FirstArrived
            && matches!(self, Self::Received(row) if is_one(row))
    }
}

impl BreakdownSource {
    /// Returns the known events of a message, in the order of time, each with the part that ends with it.
    pub fn message_steps(&self, row: &MessageRow) -> Vec<MessageStep> {
        row.known_steps(self.breakdown(row).ok().as_ref())
    }
}

/// Returns the part that ends with an event; `None` for a second arrival at the same time.
fn ended_part(breakdown: &LatencyBreakdown, mark: &EventMark) -> Option<PartTime> {
    let part = mark.ended_part()?;
    let ns = breakdown.part_ns(part)?;
    (part != MessagePart::Arriving || ns > 0).then_some(PartTime { part, ns })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use table::row_of;

    use super::super::nic::WireTime;
    use super::*;

    #[test]
    fn at_one_instant_each_step_ends_its_own_part() {
        let row = json!({
            "call_ns": 100, "tcp_ns": 110, "queue_ns": 110, "driver_ns": 113, "acked_ns": 130,
            "done_ns": 130, "cpu": 3, "tid": 9,
        });
        let row = row_of(row).expect("a row");
        let on_wire = WireTime {
            nic_ns: 130,
            error_ns: 4,
        };
        let breakdown = LatencyBreakdown::from_sent(&row, Some(on_wire)).expect("a breakdown");
        let steps = MessageRow::Sent(row).known_steps(Some(&breakdown));
        let ends = steps
            .iter()
            .map(|step| (step.what, step.ends.map(|took| (took.part, took.ns))));
        let all = [
            (MessageEvent::CallBegun, None),
            (MessageEvent::TcpSent, Some((MessagePart::Call, 10))),
            (MessageEvent::Queued, Some((MessagePart::Output, 0))),
            (MessageEvent::Driven, Some((MessagePart::Qdisc, 3))),
            (MessageEvent::CallDone, None),
            (MessageEvent::OnWire, Some((MessagePart::Nic, 17))),
            (MessageEvent::Acknowledged, Some((MessagePart::Network, 0))),
        ];
        assert_eq!(ends.collect::<Vec<_>>(), all);
    }

    #[test]
    fn steps_are_in_the_order_of_time() {
        let row = json!({
            "call_ns": 100, "tcp_ns": 110, "queue_ns": 112, "driver_ns": 113, "acked_ns": 130,
            "done_ns": 120, "cpu": 3, "tid": 9,
        });
        let steps = MessageRow::Sent(row_of(row).expect("a row")).known_steps(None);
        let what: Vec<_> = steps
            .iter()
            .map(|step| (step.after_ns, step.what))
            .collect();
        let all = [
            (0, MessageEvent::CallBegun),
            (10, MessageEvent::TcpSent),
            (12, MessageEvent::Queued),
            (13, MessageEvent::Driven),
            (20, MessageEvent::CallDone),
            (30, MessageEvent::Acknowledged),
        ];
        assert_eq!(what, all);
        assert_eq!((steps[4].cpu, steps[4].tid), (Some(3), Some(9)));
    }
}
