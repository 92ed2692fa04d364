//! `whylat validate` and `whylat recover`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::{exit, out};

/// Checks a recording.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat validate r.whylat")]
pub(crate) struct Validate {
    /// The recording
    dir: PathBuf,
}

impl Validate {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let problems = table::validate(&self.dir)?;
        for problem in &problems {
            out::line(&problem.to_string())?;
        }
        if problems.is_empty() {
            out::line(&format!(
                "{}: every digest, row count and account is right",
                self.dir.display()
            ))?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(ExitCode::from(exit::FAILED))
    }
}

/// Closes a recording that a crash left open.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat recover r.whylat")]
pub(crate) struct Recover {
    /// The recording
    dir: PathBuf,
}

impl Recover {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let outcome = table::recover(&self.dir)?;
        out::line(&outcome.to_string())?;
        Ok(ExitCode::SUCCESS)
    }
}
