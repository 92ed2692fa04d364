//! A program of a test, recorded by `whylat run`, and what it prints of itself: a line of JSON for each thing that it
//! knows.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{finish, program};
use crate::report::Report;

/// The header of all C programs, which include it as `testbed.h`.
const HEADER: &str = include_str!("testbed.h");

/// Writes a file into a directory; returns its path as text.
pub fn write_source(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).expect("the source");
    path.to_str().expect("text").to_owned()
}

/// Compiles a C program into a directory; returns its path as text. `options` are the compiler's.
pub fn compile_c(directory: &Path, name: &str, source: &str, options: &[&str]) -> String {
    write_source(directory, "testbed.h", HEADER);
    let source = write_source(directory, &format!("{name}.c"), source);
    let binary: PathBuf = directory.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-pthread"]).args(options);
    finish(compiler.arg("-o").arg(&binary).arg(source)).assert_status(0);
    binary.to_str().expect("text").to_owned()
}

/// Records a command with these options, until it ends. Returns the report, and the lines that the command printed.
pub fn record_command(
    scratch: TempDir,
    options: &[&str],
    command: &[&str],
) -> (Report, Vec<Value>) {
    let mut run = Command::new(program());
    run.args(["run", "--as-root"]).args(options).arg("--output");
    run.arg(scratch.path().join("r.whylat"));
    run.args(["--", "sh", "-c", "exec \"$@\" > \"$0\""]);
    finish(run.arg(scratch.path().join("truth")).args(command)).assert_status(0);
    let report = Report::from_scratch(scratch);
    let printed = std::fs::read_to_string(report.file_beside("truth")).expect("its lines");
    let lines = printed.lines().map(serde_json::from_str);
    (report, lines.collect::<Result<_, _>>().expect("JSON"))
}
