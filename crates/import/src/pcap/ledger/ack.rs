//! An ACK as it arrives at the sender.

use super::super::sequence::Offset;

/// An ACK as it arrives at the sender.
#[derive(Debug, Clone, Copy)]
pub struct ArrivedAck {
    /// All bytes before this offset are acknowledged.
    pub ack: Offset,
    /// Window, scaled, bytes; `None`: its scale is not known.
    pub window_bytes: Option<i64>,
    /// It carries data: the application may answer.
    pub has_data: bool,
    /// The receiver's delayed-ACK timer sent it.
    pub is_by_timer: bool,
    /// So long the timer held it back, though it is of what a timeout had retransmitted, ns.
    pub held_after_timeout_ns: Option<u64>,
    /// It acknowledges nothing, and shows that a segment arrived: the sender may send another (RFC 3042 and 6675).
    pub shows_arrival: bool,
    /// It reports that bytes came twice (DSACK, RFC 2883).
    pub is_duplicate: bool,
    /// The timestamp that it echoes.
    pub echo: Option<u32>,
}
