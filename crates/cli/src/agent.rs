//! `whylat agent`: watches a host continuously.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::out;

/// Watches a host.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat agent --check --config /etc/whylat/agent.toml
  sudo whylat agent --config /etc/whylat/agent.toml

Variables: OTEL_EXPORTER_OTLP_ENDPOINT and others name the OpenTelemetry
collector to which the agent sends metrics and findings of each interval, as
[otlp] endpoint does. Then [ship] target may be empty: no files are written.
WHYLAT_METRICS_TOKEN is the token that Prometheus must send.")]
pub(crate) struct Agent {
    /// Configuration file (TOML); SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
    /// Write this file when every probe is attached
    #[arg(long, value_name = "FILE", hide = true)]
    ready_file: Option<PathBuf>,
}

impl Agent {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        if self.check {
            let config = agent::config::Config::read(&self.config)?;
            let export = agent::telemetry::PreparedExport::new(&config.otlp)?;
            config.check_receivers(&self.config, export.is_some())?;
            eprintln!("{}: valid", out::name(&self.config));
            if let Some(reservation) = agent::reservation(&config.ship) {
                eprintln!("note: {reservation}");
            }
            return Ok(ExitCode::SUCCESS);
        }
        let start = agent::StartOptions {
            config: self.config,
            ready_file: self.ready_file,
        };
        agent::run(&start)?;
        Ok(ExitCode::SUCCESS)
    }
}
