//! Studies with the test bed of `whylat-lab`: each measures real programs, records them and diagnoses them.
//!
//! * [`copy`]: `whylat lab copy`, what copies cost when a server sends.
//! * [`tail`]: `whylat lab tail`, the slowest answers of a server, before and after the fixes that a diagnosis names.
//!
//! In: namespaces, workloads and errors of `lab`, and the recorder as a program of its own. Out: results, figures,
//! answers.

pub mod copy;
pub mod tail;
