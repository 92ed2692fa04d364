//! `whylat report --tail`: why the slow messages are slow.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use diagnose::causes::Categories;
use diagnose::tail::{Band, Question, Settings};

use crate::report::Format;
use crate::{args, exit, load, out};

/// Causes of each application that text shows; JSON has all.
const SHOWN: usize = 5;

/// Slow messages explained.
#[derive(Debug, Args)]
#[command(next_help_heading = "Slow messages")]
pub(crate) struct TailArgs {
    /// Explain why the slow messages of each application were slow, by what their CPUs did; of recordings with
    /// --keep. BAND: those from a percentile on (p99.9), or between two (p20-p30)
    #[arg(long, value_name = "BAND", conflicts_with_all = ["by", "messages", "message"])]
    tail: Option<Band>,

    /// With --tail: the ordinary messages that they are compared with
    #[arg(
        long,
        value_name = "BAND",
        default_value = "p40-p60",
        requires = "tail"
    )]
    body: Band,

    /// With --tail: something is no cause if what it is made of explains this share of what it took longer
    #[arg(long, value_name = "SHARE", default_value = "0.8", requires = "tail", value_parser = share)]
    explained: f64,

    /// With --tail: rules of your own for what functions are, before those of whylat: lines of
    /// KIND,PATTERN,CAUSE
    #[arg(long, value_name = "FILE", requires = "tail")]
    categories: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "a share lies between 0 and 1".to_owned())
}

impl TailArgs {
    fn categories(&self) -> anyhow::Result<Categories> {
        let built_in = Categories::built_in()?;
        let Some(path) = &self.categories else {
            return Ok(built_in);
        };
        let csv = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the categories in {}", path.display()))?;
        built_in
            .with(&csv)
            .with_context(|| format!("cannot use the categories in {}", path.display()))
    }

    /// Prints the causes; `None` when it was not asked for.
    pub(crate) fn execute(
        &self,
        path: &Path,
        format: Format,
        limit: Option<usize>,
    ) -> anyhow::Result<Option<ExitCode>> {
        let Some(tail) = self.tail else {
            return Ok(None);
        };
        let default = Question::default();
        let question = Question {
            tail,
            body: self.body,
            settings: Settings {
                explained: self.explained,
                ..default.settings
            },
        };
        let report = load::tail(path, question, self.categories()?)?;
        let limit = limit.unwrap_or(SHOWN);
        match format {
            Format::Text => out::print(&view::tail_text(&report, limit, &args::text_options()))?,
            Format::Json => out::line(&view::tail_json(&report))?,
        }
        let complete = report.about.is_complete();
        let code = if complete { 0 } else { exit::INCOMPLETE };
        Ok(Some(ExitCode::from(code)))
    }
}
