//! `udp`: UDP sockets of recorded processes and their messages. `socket.bpf.h` chooses the sockets,
//! `input.bpf.h` knows what each CPU is about to hand over, `arrive.bpf.h` notes datagrams as they arrive,
//! `take.bpf.h` finds which a call took, `receive.bpf.h` and `send.bpf.h` make the records of messages; here a
//! record of a socket becomes a row of table `udp_sockets`. The messages go the way of TCP's.

mod hooks;
mod seen;

pub(crate) use hooks::{attach, coverage, off};
pub(crate) use seen::UdpSockets;
