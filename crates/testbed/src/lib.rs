//! Shared by the tests of several crates. Nothing of it is in the program.
//!
//! * `process`: the program under test, processes that end with the test, and waiting for a condition;
//! * `recorder` and `site`: `whylat record`, and roles of the lab that it records;
//! * [`report`]: what `whylat report` says of a recording;
//! * [`agents`]: an agent and its dataset;
//! * [`assistant`]: an assistant that asks `whylat mcp`;
//! * [`receiver`] and [`collector`]: receivers of OTLP, one with chosen answers and the real one;
//! * [`instrumented`] and [`sources`]: a program with Intel's ittnotify in it;
//! * [`programs`]: programs that were not written for tests; `recorded_program`: those that were, recorded.

pub mod agents;
pub mod assistant;
pub mod collector;
pub mod instrumented;
mod process;
pub mod programs;
pub mod receiver;
mod recorded_program;
mod recorder;
pub mod report;
mod site;
pub mod sources;

pub use process::{
    ChildGuard, CommandOutput, LONGEST, finish, program, root, signal_process, until, wait, whylat,
};
pub use recorded_program::{compile_c, record_command, write_source};
pub use recorder::Recorder;
pub use site::{RecordedExchange, Site, role, role_as};
