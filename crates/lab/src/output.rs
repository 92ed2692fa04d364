//! Prints lines of JSON, help and usage errors of the lab's commands.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;

use crate::error::LabError;

/// Prints help to stdout or a usage error to stderr: exit 0 or 2.
pub fn print_usage(problem: &clap::Error) -> ExitCode {
    // Nothing more can be reported if stderr itself is closed.
    let _ = problem.print();
    ExitCode::from(u8::try_from(problem.exit_code()).unwrap_or(2))
}

/// Prints a line of JSON to stdout.
///
/// # Errors
/// When stdout is closed.
pub fn print_json(line: &Value) -> Result<(), LabError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|why| LabError::os("write", "stdout", why, "keep its reader open"))
}
