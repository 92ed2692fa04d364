//! What all answers share: what they say of their recording, and how they write processes and shares.

mod about;
pub(crate) mod decimals;
mod host;
mod process;

pub use about::{About, LeftOut, Recorded};
pub use host::{Closed, Host, Loss};
pub use process::Process;
