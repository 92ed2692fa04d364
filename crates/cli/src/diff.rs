//! `whylat diff`: what changed from one recording to another, and why messages of the second take longer.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use diagnose::difference::report::DiffReport;
use diagnose::recording::{self, DiagnosisOptions, TailOptions};
use diagnose::tail::report::TailReport;
use diagnose::tail::{LatencyBand, TailQuery};
use table::Recording;
use table::tables::{Activity, Window};
use view::TextOptions;

use crate::format::AnswerFormat;
use crate::out::{Output, OutputArgs};
use crate::page::{self, PageOptions};
use crate::tail::{self, ExplainArgs};
use crate::{args, exit, load, out};

/// Compares two recordings.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat diff before.whylat after.whylat
  whylat diff before.whylat after.whylat --overall --format json
  whylat diff before.whylat after.whylat --band p99
  whylat diff before.whylat after.whylat --format html -o diff.html")]
pub(crate) struct Diff {
    /// Recording to compare with
    before: PathBuf,
    /// Recording that changed, or has the slower messages
    after: PathBuf,
    /// Compare services, findings, stages and waits only, not messages
    #[arg(long, conflicts_with = "band")]
    overall: bool,
    /// Messages to compare: from a percentile on (p99.9), or between two (p20-p30) [default: p40-p60].
    /// Nothing else is compared then
    #[arg(long, value_name = "BAND")]
    band: Option<LatencyBand>,
    #[command(flatten)]
    explaining: ExplainArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: DiffFormat,
    #[command(flatten)]
    to: OutputArgs,
    /// Show N entries of each list, and causes of each application
    #[arg(long, value_name = "N", value_parser = args::parse_positive)]
    limit: Option<usize>,
}

/// Format of a comparison.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum DiffFormat {
    /// Text of at most 80 columns.
    Text,
    /// JSON by the schema whylat.tail/1 where both recorded CPU activity, else by whylat.diff/1.
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
            settings: self.explaining.explain_settings(),
            ..TailQuery::default()
        };
        let is_of_messages = self.band.is_some();
        let has_messages = is_of_messages || !self.overall && self.knows_cpus();
        let messages = |format| {
            let report = self.explain_difference(question)?;
            tail::print(&report, format, self.limit, &to)
        };
        match self.format {
            DiffFormat::Html => self.page(question, &to),
            DiffFormat::Json if has_messages => messages(AnswerFormat::Json),
            DiffFormat::Json => self.json(&to),
            DiffFormat::Text if is_of_messages => messages(AnswerFormat::Text),
            DiffFormat::Text => self.text(has_messages.then_some(question), &to),
        }
    }

    /// Returns whether both recordings have the CPU activity during messages.
    fn knows_cpus(&self) -> bool {
        [&self.before, &self.after].into_iter().all(|path| {
            let rows = Recording::open(path).map(|it| it.rows::<Activity>());
            rows.is_ok_and(|rows| rows > 0)
        })
    }

    /// Compares all that both recorded.
    fn compare_all(&self) -> anyhow::Result<DiffReport> {
        let (before, after) = (
            Recording::open(&self.before)?,
            Recording::open(&self.after)?,
        );
        for (recording, path) in [(&before, &self.before), (&after, &self.after)] {
            if recording.rows::<Window>() > 0 {
                bail!(
                    "{} was recorded with a budget: its counts are from windows, and cannot be compared\nhint: \
                        record both with --budget none",
                    out::name(path)
                );
            }
        }
        let judging = DiagnosisOptions::default();
        Ok(recording::compare_recordings(&before, &after, judging))
    }

    /// Prints the comparison as JSON.
    fn json(&self, to: &Output) -> anyhow::Result<ExitCode> {
        let report = self.compare_all()?;
        to.json(&report)?;
        Ok(exit::from_complete(report.is_complete()))
    }

    /// Prints what changed, then why messages take longer, if that is known.
    fn text(&self, question: Option<TailQuery>, to: &Output) -> anyhow::Result<ExitCode> {
        let messages = question
            .map(|question| self.explain_difference(question))
            .transpose()?;
        let report = self.compare_all()?;
        let names = [&self.before, &self.after].map(out::name);
        let options = TextOptions {
            limit: self.limit,
            ..to.text_options()
        };
        let mut text = view::diff_text(&report, [&names[0], &names[1]], &options);
        let mut is_complete = report.is_complete();
        if let Some(messages) = &messages {
            text.push_str(&tail::text(messages, self.limit, to));
            is_complete &= messages.about.is_complete();
        }
        to.write_exact(&text)?;
        Ok(exit::from_complete(is_complete))
    }

    /// Explains why messages of `question` take longer in the second recording.
    fn explain_difference(&self, question: TailQuery) -> anyhow::Result<TailReport> {
        let asked = TailOptions {
            question: Some(question),
            categories: self.explaining.categories()?,
        };
        load::explain_tail(&self.after, Some(&self.before), &asked)
    }

    /// Writes the page of both, with the explanation where both recorded CPU activity.
    fn page(&self, question: TailQuery, to: &Output) -> anyhow::Result<ExitCode> {
        if self.limit.is_some() {
            return Err(exit::wrong_usage(
                "the page always shows all causes\nhint: leave out --limit, or --format html",
            ));
        }
        let difference = match self.knows_cpus() {
            true => Some(self.explain_difference(question)?),
            false => None,
        };
        let asked = PageOptions {
            tail: TailOptions {
                question: None,
                categories: self.explaining.categories()?,
            },
            ..PageOptions::default()
        };
        let paths = [self.before.as_path(), self.after.as_path()];
        let (page, is_complete) = page::compare(paths, &asked, difference.as_ref())?;
        to.write_exact(&page)?;
        Ok(exit::from_complete(is_complete))
    }
}
