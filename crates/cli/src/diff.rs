//! `whylat diff`: why messages of one recording take longer than those of another.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use diagnose::recording::TailOptions;
use diagnose::tail::report::TailReport;
use diagnose::tail::{LatencyBand, TailQuery};
use table::Recording;
use table::tables::Activity;

use crate::format::AnswerFormat;
use crate::out::{Output, OutputArgs};
use crate::page::{self, PageOptions};
use crate::tail::{self, ExplainArgs};
use crate::{args, exit, load};

/// Compares two recordings.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat diff before.whylat after.whylat
  whylat diff before.whylat after.whylat --band p99
  whylat diff before.whylat after.whylat --format html -o diff.html")]
pub(crate) struct Diff {
    /// Recording to compare with
    before: PathBuf,
    /// Recording with the slower messages
    after: PathBuf,
    /// Messages to compare: from a percentile on (p99.9), or between two (p20-p30) [default: p40-p60]
    #[arg(long, value_name = "BAND")]
    band: Option<LatencyBand>,
    #[command(flatten)]
    explaining: ExplainArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: DiffFormat,
    #[command(flatten)]
    to: OutputArgs,
    /// Show N causes of each application
    #[arg(long, value_name = "N", value_parser = args::positive)]
    limit: Option<usize>,
}

/// Format of a comparison.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum DiffFormat {
    /// Text of at most 80 columns.
    Text,
    /// JSON by the schema whylat.tail/1.
    Json,
    /// Both side by side, in one file for a browser.
    Html,
}

impl Diff {
    pub(crate) fn execute(mut self) -> anyhow::Result<ExitCode> {
        let to = std::mem::take(&mut self.to).check()?;
        let band = self.band.unwrap_or(LatencyBand::BODY);
        let question = TailQuery {
            tail: band,
            body: band,
            settings: self.explaining.settings(),
            ..TailQuery::default()
        };
        let format = match self.format {
            DiffFormat::Text => AnswerFormat::Text,
            DiffFormat::Json => AnswerFormat::Json,
            DiffFormat::Html => return self.page(question, &to),
        };
        let report = self.difference(question)?;
        tail::print(&report, format, self.limit, &to)
    }

    /// Explains why messages of `question` take longer in the second recording.
    fn difference(&self, question: TailQuery) -> anyhow::Result<TailReport> {
        let asked = TailOptions {
            question: Some(question),
            categories: self.explaining.categories()?,
        };
        load::tail(&self.after, Some(&self.before), &asked)
    }

    /// Writes the page of both, with the explanation where both recorded CPU activity.
    fn page(&self, question: TailQuery, to: &Output) -> anyhow::Result<ExitCode> {
        if self.limit.is_some() {
            bail!("the page shows all causes\nhint: leave out --limit, or --format html");
        }
        let knows_cpus = |path: &PathBuf| {
            let rows = Recording::open(path).map(|it| it.rows::<Activity>());
            rows.is_ok_and(|rows| rows > 0)
        };
        let difference = if knows_cpus(&self.before) && knows_cpus(&self.after) {
            Some(self.difference(question)?)
        } else {
            None
        };
        let asked = PageOptions {
            tail: TailOptions {
                question: None,
                categories: self.explaining.categories()?,
            },
            ..PageOptions::default()
        };
        let paths = [self.before.as_path(), self.after.as_path()];
        let (page, is_complete) = page::of_both(paths, &asked, difference.as_ref())?;
        to.exact(&page)?;
        Ok(exit::from_complete(is_complete))
    }
}
