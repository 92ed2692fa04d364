//! `whylat agent`: watches a host for good.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// Watch every connection of this host all the time, and write what a fleet
/// is judged by.
#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// Its configuration (TOML); read again on SIGHUP.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only check the configuration.
    #[arg(long)]
    check: bool,
    /// Write the process id here once everything is watched.
    #[arg(long, value_name = "FILE", hide = true)]
    ready_file: Option<PathBuf>,
}

impl Agent {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        if self.check {
            agent::config::Config::read(&self.config)?;
            eprintln!("{}: sound", self.config.display());
            return Ok(ExitCode::SUCCESS);
        }
        let start = agent::Start {
            config: self.config,
            ready_file: self.ready_file,
        };
        agent::run(&start)?;
        Ok(ExitCode::SUCCESS)
    }
}
