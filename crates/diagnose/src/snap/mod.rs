//! SNAP's own classification, kept apart from the stages: flags per interval (its Table 2)
//! and how many connections have each problem for how long (its Table 4).

pub mod flags;
pub mod table4;
