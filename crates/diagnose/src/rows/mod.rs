//! Shows what several analyses keep of rows: by connection, in the order of time, by process, and what went before a row.

pub mod hash;
pub mod in_order;
pub mod listeners;
pub mod processes;
pub mod sends;
