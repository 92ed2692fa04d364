//! Planted faults: small real programs, over a real kernel's TCP, with one thing wrong.
//!
//! In: a fault's name, which of its variants, a congestion control, a seed. Out: what happened, and
//! what a diagnosis of it has to say. [`catalogue`] is the list; [`scene`] what a fault is made of;
//! `buffers`, `cpus`, `losses`, `messages`, `programs` and `startup` set the scenes of connections, `causes` lists
//! those of requests and programs; [`run`] plays one; [`score`] compares a diagnosis with what it had to say; [`command`] is
//! `whylat lab fault`, `list` and `score`.

mod buffers;
pub mod catalogue;
mod causes;
mod clients;
pub mod command;
mod cpus;
mod losses;
mod messages;
mod programs;
mod route;
pub mod run;
pub mod scene;
pub mod score;
mod server;
mod startup;

pub use catalogue::{FAULTS, find};
pub use run::FaultRun;
pub use scene::{Claim, ConnectionEnd, Fault, FaultFix, Scene, Variant};
pub use score::Score;
