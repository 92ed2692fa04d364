//! `inventory`: which sockets are recorded and whose they are.

pub(crate) mod kinds;
pub(crate) mod listener;
pub(crate) mod seen;

pub use kinds::KindsByFile;
