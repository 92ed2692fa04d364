//! SNAP's own classification, kept apart from the stages: flags per interval (its Table 2)
//! its estimate of delayed ACKs (section 4.2), and how many connections have each problem for how long (its Table 4).

pub mod delayed_acks;
pub mod flags;
pub mod interval;
pub mod table4;
