//! TCP statistics by polling, at random times. With BPF the kernel side walks the recorded sockets
//! and nothing else (`tcp_stats.bpf.h`; here only its rows).
//!
//! Without, and so also without privileges for one's own sockets: the kernel's `sock_diag` dumps,
//! one netlink socket per network namespace ([`Poller`]), become rows of `tcp_samples` and
//! `connections`, only for the sockets that were asked for ([`Selection`]) and only when something
//! changed ([`SampleFilter`]).
//!
//! The polls are at random
//! times ([`PollTimes`]), so that the share of polls that find a socket in a state estimates
//! the share of time that it spends there, whatever its own rhythm is.
//!
//! A socket may be missed in one poll although it lives: it has closed only when several polls
//! did not see it, or when the kernel says so.

mod digest;
mod dump;
mod filter;
mod info;
mod message;
mod peers;
mod poll_times;
mod poller;
pub(crate) mod read;
mod rows;
mod selection;
#[cfg(test)]
mod testing;

pub use dump::{DumpCounts, DumpError, Extensions};
pub use filter::{CookieMap, Offer, SampleCounts, SampleFilter};
pub use info::{REQUIRED_LEN_BYTES, TcpInfo};
pub(crate) use message::Batch;
pub use message::{SocketMemory, SocketView, state};
pub use peers::PeerIndex;
pub use poll_times::{PollTimes, Random};
pub use poller::{Listening, PollReport, Poller, PollerError, Refresh, Scope};
pub(crate) use read::TcpStats;
pub use rows::{ConnectionFacts, connection_row, sample_row};
pub use selection::Selection;
