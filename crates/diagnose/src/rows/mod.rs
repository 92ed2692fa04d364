//! Rows as several analyses keep them: by connection, in the order of time, by process, with the calls before, and the few that
//! took most time.

pub mod addresses;
pub mod hash;
pub mod in_order;
pub mod listeners;
pub mod processes;
pub mod sends;
pub mod serving;
pub mod top;
pub mod udp_flows;
pub mod unix_sockets;
pub mod windows;
