//! `whylat report --tail`: why the slow messages are slow.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use diagnose::causes::Categories;
use diagnose::recording::TailQuestion;
use diagnose::tail::report::TailReport;
use diagnose::tail::{Band, Only, Question, Settings};

use crate::format::AnswerFormat;
use crate::out::Output;
use crate::{exit, load, out};

/// Causes of each application that text shows; JSON has all.
const SHOWN: usize = 5;

/// Slow messages explained.
#[derive(Debug, Args)]
#[command(next_help_heading = "Slow messages")]
pub(crate) struct TailArgs {
    /// Explain why the slow messages of each application were slow, by what their CPUs did; of recordings with
    /// --keep. BAND: those from a percentile on (p99.9), or between two (p20-p30)
    #[arg(
        long, value_name = "BAND", group = "filtered",
        conflicts_with_all = ["by", "messages", "message"]
    )]
    tail: Option<Band>,

    /// With --tail: the ordinary messages that they are compared with
    #[arg(
        long,
        value_name = "BAND",
        default_value = "p40-p60",
        requires = "tail"
    )]
    body: Band,

    /// With --tail: explain only messages of this connection, and compare them with those of all others;
    /// in the same way, --from and --to choose messages by the time at which they began
    #[arg(long, value_name = "CONN", requires = "tail", conflicts_with_all = ["from", "to"])]
    conn: Option<u64>,

    #[command(flatten)]
    explaining: ExplainArgs,
}

/// How slow messages are explained.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Something is no cause of slow messages if what it is made of explains this share of what it took longer
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_parser = share)]
    explained: f64,

    /// Rules of your own for what functions are, before those of whylat: lines of
    /// PATTERN,CAUSE,KIND (docs/causes.md)
    #[arg(long, value_name = "FILE")]
    categories: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "a share lies between 0 and 1".to_owned())
}

impl ExplainArgs {
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            explained: self.explained,
            ..Question::default().settings
        }
    }

    /// What functions are, if the user has rules for that.
    pub(crate) fn categories(&self) -> anyhow::Result<Option<Categories>> {
        let Some(path) = &self.categories else {
            return Ok(None);
        };
        let csv = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the categories in {}", out::name(path)))?;
        let categories = Categories::built_in()?.with(&csv);
        let categories = categories
            .with_context(|| format!("cannot use the categories in {}", out::name(path)))?;
        Ok(Some(categories))
    }
}

impl TailArgs {
    /// What is asked. `window_ns`: only messages that began then.
    pub(crate) fn question(&self, window_ns: Option<(u64, u64)>) -> anyhow::Result<TailQuestion> {
        let of_conn = self.conn.map(Only::Connection);
        let question = self.tail.map(|tail| Question {
            tail,
            body: self.body,
            only: of_conn.or(window_ns.map(|(from_ns, to_ns)| Only::Time(from_ns, to_ns))),
            settings: self.explaining.settings(),
        });
        Ok(TailQuestion {
            question,
            categories: self.explaining.categories()?,
        })
    }

    /// Prints the causes; `None` when it was not asked for. `window_ns`: only messages that began then.
    pub(crate) fn execute(
        &self,
        path: &Path,
        format: AnswerFormat,
        limit: Option<usize>,
        window_ns: Option<(u64, u64)>,
        to: &Output,
    ) -> anyhow::Result<Option<ExitCode>> {
        if !self.is_asked() {
            return Ok(None);
        }
        let report = load::tail(path, None, &self.question(window_ns)?)?;
        print(&report, format, limit, to).map(Some)
    }

    /// Whether slow messages were asked for instead of a diagnosis.
    pub(crate) fn is_asked(&self) -> bool {
        self.tail.is_some()
    }
}

/// Prints the causes.
pub(crate) fn print(
    report: &TailReport,
    format: AnswerFormat,
    limit: Option<usize>,
    to: &Output,
) -> anyhow::Result<ExitCode> {
    match format {
        AnswerFormat::Text => {
            let limit = limit.unwrap_or(SHOWN);
            to.exact(&view::tail_text(report, limit, &to.text_options()))?;
        }
        AnswerFormat::Json => to.json(report)?,
    }
    Ok(exit::of(report.about.is_complete()))
}
