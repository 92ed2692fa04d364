//! A lab program under way: starts it, waits for its ready line, reads its truth.
//!
//! In: a command that prints one JSON object a line (a workload, a wire). Out: those
//! objects. No one has to sleep until a server is up, and nothing outlives the caller.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::error::LabError;
use crate::netns::tie_to_parent;

const HINT_STDERR: &str = "read what it printed on stderr";

/// A program that says nothing to us, and ends with its handle.
#[derive(Debug)]
pub struct ChildGuard(pub Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // both fail only for a process that has ended
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that is running. Dropping it kills it.
#[derive(Debug)]
pub struct LabProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    name: String,
}

impl LabProcess {
    /// Starts `command` with its stdin and stdout connected to this handle. It is killed
    /// when the calling **thread** ends, so call from one that lives long enough.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(mut command: Command) -> Result<LabProcess, LabError> {
        let name = format!("{command:?}");
        let hint = "check that the program exists and may be run";
        tie_to_parent(&mut command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|why| LabError::os("start", &name, why, hint))?;
        let stdin = child.stdin.take();
        let Some(stdout) = child.stdout.take() else {
            let why = std::io::Error::other("it has no stdout");
            return Err(LabError::os("read from", name, why, hint));
        };
        Ok(LabProcess {
            child,
            stdin,
            lines: BufReader::new(stdout).lines(),
            name,
        })
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line and reads it as JSON.
    ///
    /// # Errors
    /// When the program ends first, or says something that is not JSON.
    pub fn line(&mut self) -> Result<Value, LabError> {
        let line = self
            .lines
            .next()
            .unwrap_or_else(|| Err(std::io::ErrorKind::UnexpectedEof.into()));
        line.and_then(|line| Ok(serde_json::from_str(&line)?))
            .map_err(|why| LabError::os("read a line from", &self.name, why, HINT_STDERR))
    }

    /// Waits for the ready line and returns the port in it.
    ///
    /// # Errors
    /// As [`LabProcess::line`]; also when the line is another one.
    pub fn port(&mut self) -> Result<u16, LabError> {
        let line = self.line()?;
        let port = line["ready"]
            .as_u64()
            .and_then(|port| u16::try_from(port).ok());
        port.ok_or_else(|| {
            let why = std::io::Error::other(format!("it printed {line}"));
            LabError::os("read the ready line of", &self.name, why, HINT_STDERR)
        })
    }

    /// Lets a program go on that was started with `--start-on-stdin`.
    ///
    /// # Errors
    /// When it has ended.
    pub fn go(&mut self) -> Result<(), LabError> {
        let Some(stdin) = &mut self.stdin else {
            return Ok(());
        };
        stdin
            .write_all(b"\n")
            .map_err(|why| LabError::os("write to", &self.name, why, HINT_STDERR))
    }

    /// Closes its stdin, waits for its end and returns its last line.
    ///
    /// # Errors
    /// When it fails or ends without a line.
    pub fn finish(mut self) -> Result<Value, LabError> {
        drop(self.stdin.take());
        let mut last = self.line()?;
        // a recorder around it adds lines for people
        while let Some(Ok(line)) = self.lines.next() {
            if let Ok(object @ Value::Object(_)) = serde_json::from_str(&line) {
                last = object;
            }
        }
        let status = self.child.wait();
        match status {
            Ok(status) if status.success() => Ok(last),
            Ok(status) => Err(self.exit_error(status)),
            Err(why) => Err(LabError::os("wait for", &self.name, why, HINT_STDERR)),
        }
    }

    /// Makes the error of a process that failed.
    fn exit_error(&self, status: ExitStatus) -> LabError {
        LabError::Command {
            command: self.name.clone(),
            detail: status.to_string(),
            hint: HINT_STDERR,
        }
    }
}

impl Drop for LabProcess {
    fn drop(&mut self) {
        // Both fail only for a process that has ended and been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
