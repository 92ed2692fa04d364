//! The stage that limits each TCP connection, and why.
//!
//! Comes in: rows, batch by batch ([`Evidence`]), and what the manifest says. Goes out: one [`Report`](crate::Report).
//!
//! ```text
//! gather/   rows → one small digest a connection (nothing else is kept)
//! stages/   digest → share of time in each stage, with method and bound
//! snap/     digest → SNAP's flags and Table 4, independent of the stages
//! subject   a connection with its digest and stages; context, cpu, neighbours: what is around it
//! case      all of that, as a rule sees it
//! rules/    one file a rule: fires, quiet, or inconclusive
//! group     findings of many connections of one program → one finding; program_time: the base of short stalls
//! assemble  all of these in order → the report
//! verdict   the one stage that held a connection, of those that have a fix
//! ```

mod assemble;
mod case;
mod coincidence;
mod context;
mod cpu;
mod exclusion;
pub(crate) mod gather;
mod group;
mod neighbours;
mod outage;
mod program_time;
pub mod rules;
pub(crate) mod snap;
pub(crate) mod stages;
mod subject;
pub mod verdict;

pub use assemble::diagnose;
pub use gather::Evidence;
