//! Rows as several analyses keep them: by connection, in the order of time, by process, and with the calls before.

pub mod hash;
pub mod in_order;
pub mod listeners;
pub mod processes;
pub mod sends;
