//! `whylat diff`: why messages of one recording take longer than those of another.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use diagnose::tail::{Band, Question};

use crate::report::Format;
use crate::tail::{self, Explaining};
use crate::{args, load};

/// Compares two recordings.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The recording that is compared with
    before: PathBuf,
    /// The recording whose messages are looked at
    after: PathBuf,
    /// Which messages of both: those between two percentiles (p20-p30), or from one on (p99.9)
    #[arg(long, value_name = "BAND", default_value = "p40-p60")]
    band: Band,
    #[command(flatten)]
    explaining: Explaining,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Show so many causes of each application
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,
}

impl Diff {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let question = Question {
            tail: self.band,
            body: self.band,
            settings: self.explaining.settings(),
            ..Question::default()
        };
        let categories = self.explaining.categories()?;
        let report = load::diff(&self.before, &self.after, question, categories)?;
        tail::print(&report, self.format, self.limit, &args::text_options())
    }
}
