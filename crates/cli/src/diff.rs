//! `whylat diff`: why messages of one recording take longer than those of another.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use diagnose::tail::{Band, Question};

use crate::page::{self, Asked};
use crate::report::AnyFormat;
use crate::tail::{self, Explaining};
use crate::{args, exit, load};

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
    format: AnyFormat,
    /// With --format html: the file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
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
        let Some(format) = self.format.of_one() else {
            return self.page();
        };
        if self.output.is_some() {
            bail!("-o is for pages\nhint: add --format html, or send the text to a file with `>`");
        }
        let categories = self.explaining.categories()?;
        let report = load::diff(&self.before, &self.after, question, categories)?;
        tail::print(&report, format, self.limit, &args::text_options())
    }

    /// Both side by side, each explained by itself.
    fn page(&self) -> anyhow::Result<ExitCode> {
        let asked = || {
            Ok(Asked {
                categories: self.explaining.categories()?,
                ..Asked::plainly()?
            })
        };
        let paths = [self.before.as_path(), self.after.as_path()];
        let is_complete = page::write_both(paths, asked, self.output.as_deref())?;
        Ok(ExitCode::from(if is_complete {
            0
        } else {
            exit::INCOMPLETE
        }))
    }
}
