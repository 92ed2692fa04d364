//! Workloads and a wire that cause known TCP problems, so that a diagnosis can be
//! checked against what really happened.
//!
//! In: what to impair and which program to run. Out: the kernel's own TCP, slowed in
//! a known way, and an account of it that does not come from the profiler.
//!
//! * [`netns`]: anonymous network namespaces. They have no name and no pin: when the
//!   process that made them dies, however it dies, the kernel removes them.
//! * [`wire`]: a user-space path between two namespaces, with delay, loss, rate and
//!   queue, its own counters and a log of every packet.
//! * [`capture`]: segments as they leave and reach the TCP of a namespace.
//! * [`tcpdump`]: the same as files, as users make them.
//! * [`workload`]: small programs, one process each, that print at the end exactly
//!   what they did; [`process`] starts them and reads what they say, [`site`] does so at the
//!   two ends of a wire.
//! * [`fault`]: workloads and paths with one thing wrong, and what a diagnosis has to say.
//!
//! Nothing here changes the host's own network namespace.

pub mod capture;
mod clock;
pub mod error;
pub mod fault;
pub mod netns;
pub mod output;
pub mod process;
mod random;
pub mod site;
pub mod tcpdump;
pub mod wire;
pub mod workload;

pub use capture::{Capture, CaptureDirection, CapturedSegment};
pub use clock::now_ns;
pub use error::LabError;
pub use netns::{Netns, tie_to_parent};
pub use process::LabProcess;
pub use random::Random;
pub use site::Site;
pub use wire::{Direction, DirectionConfig, PacketRecord, Wire, WireConfig};
