//! `whylat report --tail`: why the slow messages are slow.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use diagnose::causes::Categories;
use diagnose::recording::TailOptions;
use diagnose::tail::report::TailReport;
use diagnose::tail::{ExplainSettings, LatencyBand, MessageFilter, TailQuery};

use crate::format::AnswerFormat;
use crate::out::Output;
use crate::{exit, load, out};

/// Causes of each application that text shows by default; JSON has all.
const SHOWN: usize = 5;

/// Options that explain slow messages.
#[derive(Debug, Args)]
#[command(next_help_heading = "Slow messages")]
pub(crate) struct TailArgs {
    /// Explain the slow messages of each application by the activity of their CPUs
    ///
    /// BAND: messages from a percentile on (p99.9), or between two (p20-p30). Needs a recording with --keep.
    #[arg(
        long, value_name = "BAND", group = "filtered",
        conflicts_with_all = ["by", "messages", "message"]
    )]
    tail: Option<LatencyBand>,

    /// With --tail: the ordinary messages to compare with
    #[arg(
        long,
        value_name = "BAND",
        default_value = "p40-p60",
        requires = "tail"
    )]
    body: LatencyBand,

    /// With --tail: explain only messages of this connection, compared with all others
    ///
    /// --from and --to select messages by their start in the same way.
    #[arg(long, value_name = "CONN", requires = "tail", conflicts_with_all = ["from", "to"])]
    conn: Option<u64>,

    #[command(flatten)]
    explaining: ExplainArgs,
}

/// Options of the explanation of slow messages.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Blame nested activity instead of its parent if it explains at least this share of the parent's extra time
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_parser = parse_share)]
    explained: f64,

    /// File with your own categories of functions, in lines of PATTERN,CAUSE,KIND (docs/causes.md)
    #[arg(long, value_name = "FILE")]
    categories: Option<PathBuf>,
}

/// Reads a share from 0 to 1.
fn parse_share(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "a share is between 0 and 1".to_owned())
}

impl ExplainArgs {
    /// Returns how nested activities are blamed.
    pub(crate) fn explain_settings(&self) -> ExplainSettings {
        ExplainSettings {
            explained: self.explained,
            ..TailQuery::default().settings
        }
    }

    /// Returns the categories of functions, if the user has any.
    pub(crate) fn categories(&self) -> anyhow::Result<Option<Categories>> {
        let Some(path) = &self.categories else {
            return Ok(None);
        };
        let csv = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the categories in {}", out::name(path)))?;
        let categories = Categories::built_in()?.with_rules(&csv);
        let categories = categories
            .with_context(|| format!("cannot use the categories in {}", out::name(path)))?;
        Ok(Some(categories))
    }
}

impl TailArgs {
    /// Returns the requested comparison. `window_ns`: only messages that began then.
    pub(crate) fn tail_options(
        &self,
        window_ns: Option<(u64, u64)>,
    ) -> anyhow::Result<TailOptions> {
        let of_conn = self.conn.map(MessageFilter::Connection);
        let question = self.tail.map(|tail| TailQuery {
            tail,
            body: self.body,
            only: of_conn.or(window_ns.map(|(from_ns, to_ns)| MessageFilter::Time(from_ns, to_ns))),
            settings: self.explaining.explain_settings(),
        });
        Ok(TailOptions {
            question,
            categories: self.explaining.categories()?,
        })
    }

    /// Refuses categories that nothing uses.
    fn refuse_categories(&self) -> anyhow::Result<()> {
        match self.explaining.categories {
            Some(_) => Err(exit::wrong_usage(
                "--categories needs --tail: only causes of slow messages have categories\n\
                 hint: add --tail p99",
            )),
            None => Ok(()),
        }
    }

    /// Prints the causes of slow messages; `None`: the user did not ask for them. `window_ns`: only
    /// messages that began then.
    pub(crate) fn execute(
        &self,
        path: &Path,
        format: AnswerFormat,
        limit: Option<usize>,
        window_ns: Option<(u64, u64)>,
        to: &Output,
    ) -> anyhow::Result<Option<ExitCode>> {
        if !self.is_asked() {
            self.refuse_categories()?;
            return Ok(None);
        }
        let report = load::explain_tail(path, None, &self.tail_options(window_ns)?)?;
        print(&report, format, limit, to).map(Some)
    }

    /// Returns whether slow messages were requested instead of a diagnosis.
    pub(crate) fn is_asked(&self) -> bool {
        self.tail.is_some()
    }
}

/// Returns the causes as text.
pub(crate) fn text(report: &TailReport, limit: Option<usize>, to: &Output) -> String {
    view::tail_text(report, limit.unwrap_or(SHOWN), &to.text_options())
}

/// Prints the causes of slow messages.
pub(crate) fn print(
    report: &TailReport,
    format: AnswerFormat,
    limit: Option<usize>,
    to: &Output,
) -> anyhow::Result<ExitCode> {
    match format {
        AnswerFormat::Text => to.write_exact(&text(report, limit, to))?,
        AnswerFormat::Json => to.json(report)?,
    }
    Ok(exit::from_complete(report.about.is_complete()))
}
