//! Names of what happens to messages, and of the parts into which that divides their time.

use serde::Serialize;

/// A part of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagePart {
    /// From the first byte's segment to the last one's.
    Arriving,
    /// Until TCP took that, or the stack a datagram: interrupts and softirqs.
    Softirq,
    /// Until it was handed to the socket: earlier bytes were missing, or the thread had the socket.
    Tcp,
    /// A datagram, until it was handed to the socket: IP, netfilter and UDP.
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
    /// Until the network adapter put it on the wire, where it stamps.
    Nic,
    /// Until the other end had acknowledged it: the network, and the other end.
    Network,
}

/// Event in the life of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageEvent {
    /// The driver handed over the first of its segments.
    FirstArrived,
    /// The driver handed over the last of its segments.
    LastArrived,
    /// TCP took that.
    TcpTook,
    /// The stack took the datagram from the driver.
    StackTook,
    /// It was handed to the socket.
    Ready,
    /// The thread that waited was woken.
    Woken,
    /// It ran again.
    Running,
    /// The call began to copy.
    Copying,
    /// The call ended.
    CallDone,
    /// TCP began with the call.
    CallBegun,
    /// TCP began to send the last byte.
    TcpSent,
    /// That came to the queue of the device.
    Queued,
    /// It went to the driver.
    Driven,
    /// The network adapter put it on the wire.
    OnWire,
    /// The other end has acknowledged all.
    Acknowledged,
}

impl MessagePart {
    /// Returns the part's name in reports.
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

impl MessageEvent {
    /// Returns the event's text in reports.
    pub const fn text(self) -> &'static str {
        match self {
            Self::FirstArrived => "first segment arrived",
            Self::LastArrived => "last segment arrived",
            Self::TcpTook => "TCP took the segment",
            Self::StackTook => "the stack took the datagram",
            Self::Ready => "handed to the socket",
            Self::Woken => "thread woken",
            Self::Running => "thread running",
            Self::Copying => "call copies",
            Self::CallDone => "call done",
            Self::CallBegun => "call begun",
            Self::TcpSent => "TCP sends the last byte",
            Self::Queued => "queued at the device",
            Self::Driven => "handed to the driver",
            Self::OnWire => "the adapter sent the last byte",
            Self::Acknowledged => "last byte acknowledged",
        }
    }
}
