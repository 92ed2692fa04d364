//! `messages`: what each receive call took and each send call gave, and what happened to it on its way.
//! `receive.bpf.h` and `send.bpf.h` match the segments of the stream with the calls and make one record of
//! each; here batches of them become rows of the tables `received_messages` and `sent_messages`.

pub(crate) mod received;
pub(crate) mod sent;

pub(crate) use received::ReceivedProbe;
pub(crate) use sent::SentProbe;

/// `MESSAGE_DATAGRAM` of `messages.h`.
const DATAGRAM: u8 = 2;

/// Returns a time of the kernel's side; 0: not seen.
fn known_time(ns: u64) -> Option<u64> {
    (ns != 0).then_some(ns)
}
