//! What happens to a message: which of its times are begin and ends of the parts of its way, in their order. Nothing
//! else says so.

use table::tables::{ReceivedMessage, SentMessage};

use super::nic::OnWire;
use super::report::{Event, Row};
use super::way::Part;

/// Something that happens to a message, and the part of its way that it ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    /// What.
    pub(super) what: Event,
    /// When; `None`: it was not seen, or did not happen.
    pub(super) ns: Option<u64>,
    /// On which CPU; `None`: not recorded.
    pub(super) cpu: Option<u16>,
    /// In which thread; `None`: in none, or in whichever was interrupted.
    pub(super) tid: Option<u32>,
    /// What it is to the way.
    pub(super) is: Is,
}

/// What a mark is to the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Is {
    /// The way begins with it.
    Begin,
    /// It ends a part, which every such message has.
    End(Part),
    /// It ends a part, where it was seen.
    MayEnd(Part),
    /// It happens beside the way.
    Beside,
}

impl Mark {
    fn new(what: Event, ns: Option<u64>, is: Is) -> Self {
        Self {
            what,
            ns,
            cpu: None,
            tid: None,
            is,
        }
    }

    fn at(self, cpu: Option<u16>, tid: Option<u32>) -> Self {
        Self { cpu, tid, ..self }
    }

    /// Part that it ends.
    pub(super) fn ends(&self) -> Option<Part> {
        match self.is {
            Is::End(part) | Is::MayEnd(part) => Some(part),
            Is::Begin | Is::Beside => None,
        }
    }

    /// Whether a way lacks it.
    pub(super) fn is_lacking(&self) -> bool {
        self.ns.is_none() && matches!(self.is, Is::Begin | Is::End(_))
    }
}

impl Row {
    /// What happens to such a message, in the order of its way. `on_wire`: when the network adapter put it there,
    /// if that is known.
    pub(super) fn marks(&self, on_wire: Option<OnWire>) -> Vec<Mark> {
        match self {
            Self::Received(row) if row.cut_bytes.is_some() => received_datagram(row).to_vec(),
            Self::Received(row) => received(row).to_vec(),
            Self::Sent(row) if row.packets.is_some() => sent_datagram(row).to_vec(),
            Self::Sent(row) => sent(row, on_wire).to_vec(),
        }
    }
}

/// Of a TCP connection.
pub(super) fn received(row: &ReceivedMessage) -> [Mark; 8] {
    let [first, last] = [
        Mark::new(Event::FirstArrived, row.first_arrival_ns, Is::Begin),
        Mark::new(
            Event::LastArrived,
            row.last_arrival_ns,
            Is::End(Part::Arriving),
        ),
    ];
    let took = Mark::new(Event::TcpTook, row.tcp_ns, Is::End(Part::Softirq));
    let ready = Mark::new(Event::Ready, row.ready_ns, Is::End(Part::Tcp));
    let [woken, running, copying, done] = taken(row);
    let took = took.at(row.receive_cpu, None);
    [first, last, took, ready, woken, running, copying, done]
}

/// A datagram arrives at once.
pub(super) fn received_datagram(row: &ReceivedMessage) -> [Mark; 7] {
    let arrived = Mark::new(Event::LastArrived, row.last_arrival_ns, Is::Begin);
    let took = Mark::new(Event::StackTook, row.tcp_ns, Is::End(Part::Softirq));
    let ready = Mark::new(Event::Ready, row.ready_ns, Is::End(Part::Udp));
    let [woken, running, copying, done] = taken(row);
    let took = took.at(row.receive_cpu, None);
    [arrived, took, ready, woken, running, copying, done]
}

/// What its thread does.
fn taken(row: &ReceivedMessage) -> [Mark; 4] {
    let last = match row.copy_ns {
        Some(_) => Part::Copy,
        None => Part::Program,
    };
    let tid = Some(row.tid);
    [
        Mark::new(Event::Woken, row.woken_ns, Is::MayEnd(Part::Wakeup)).at(None, tid),
        Mark::new(Event::Running, row.running_ns, Is::MayEnd(Part::RunQueue)).at(None, tid),
        Mark::new(Event::Copying, row.copy_ns, Is::MayEnd(Part::Program)).at(None, tid),
        Mark::new(Event::CallDone, Some(row.done_ns), Is::End(last)).at(Some(row.cpu), tid),
    ]
}

/// The call may end before TCP begins to send, which holds the message from then on, or after.
pub(super) fn sent(row: &SentMessage, on_wire: Option<OnWire>) -> [Mark; 7] {
    let is_held = row.tcp_ns.is_some_and(|tcp_ns| row.done_ns < tcp_ns);
    let (call_done, tcp_sends) = match is_held {
        true => (Is::End(Part::Call), Is::End(Part::Held)),
        false => (Is::Beside, Is::End(Part::Call)),
    };
    let on_wire_ns = on_wire.map(|on_wire| on_wire.nic_ns);
    [
        Mark::new(Event::CallBegun, row.call_ns, Is::Begin).at(None, Some(row.tid)),
        Mark::new(Event::CallDone, Some(row.done_ns), call_done).at(Some(row.cpu), Some(row.tid)),
        Mark::new(Event::TcpSent, row.tcp_ns, tcp_sends),
        Mark::new(Event::Queued, row.queue_ns, Is::End(Part::Output)),
        Mark::new(Event::Driven, row.driver_ns, Is::End(Part::Qdisc)).at(row.driver_cpu, None),
        Mark::new(Event::OnWire, on_wire_ns, Is::MayEnd(Part::Nic)),
        Mark::new(Event::Acknowledged, row.acked_ns, Is::End(Part::Network)),
    ]
}

/// A datagram's call begins, and its way ends, without a hook.
pub(super) fn sent_datagram(row: &SentMessage) -> [Mark; 3] {
    let done = Mark::new(Event::CallDone, Some(row.done_ns), Is::Beside);
    [
        Mark::new(Event::Queued, row.queue_ns, Is::Begin),
        done.at(Some(row.cpu), Some(row.tid)),
        Mark::new(Event::Driven, row.driver_ns, Is::End(Part::Qdisc)).at(row.driver_cpu, None),
    ]
}
