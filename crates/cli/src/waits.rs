//! `whylat report --by …`: waits in groups, with filters.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use diagnose::waits::{Grouping, WaitFilter};

use crate::format::AnswerFormat;
use crate::out::Output;
use crate::{exit, load, values};

/// Groups that text shows; JSON has all.
const SHOWN: usize = 10;

/// Groups waits instead of diagnosing connections. Times are such as 1.5s, 200ms or 30us.
#[derive(Debug, Args)]
#[command(next_help_heading = "Waits")]
pub(crate) struct WaitArgs {
    /// Show what threads waited for, by what the waits have in common
    #[arg(long, value_enum, group = "filtered")]
    by: Option<By>,
    /// Only waits that ended this long after the recording's start, or later
    #[arg(long, value_name = "TIME", value_parser = values::time_ns, requires = "filtered")]
    from: Option<u64>,
    /// Only waits that ended earlier than this after the recording's start
    #[arg(long, value_name = "TIME", value_parser = values::time_ns, requires = "filtered")]
    to: Option<u64>,
    /// Only waits of this process
    #[arg(long, value_name = "PID", requires = "by")]
    pid: Option<u32>,
    /// Only waits of this thread
    #[arg(long, value_name = "TID", requires = "by")]
    thread: Option<u32>,
    /// Only waits for this: a connection's id, one of its addresses, or a name as printed
    #[arg(long, value_name = "OBJECT", requires = "by")]
    object: Option<String>,
    /// Only waits that were blocked longer than this
    #[arg(long, value_name = "TIME", value_parser = values::time_ns, requires = "by")]
    longer_than: Option<u64>,
    /// Show so many groups, or connections [default: as text the worst, as JSON all]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) limit: Option<usize>,
}

/// What waits have in common.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    /// What was waited for: a connection, a lock, time, …
    Object,
    /// Who waited
    Thread,
    /// Where in the program
    Stack,
    /// Who ended the wait
    Waker,
}

impl WaitArgs {
    /// From when to when, ns since the recording began; `None`: always.
    pub(crate) fn window_ns(&self) -> Option<(u64, u64)> {
        let given = self.from.is_some() || self.to.is_some();
        given.then(|| (self.from.unwrap_or(0), self.to.unwrap_or(u64::MAX)))
    }

    /// Whether waits were asked for instead of a diagnosis.
    pub(crate) fn is_asked(&self) -> bool {
        self.by.is_some()
    }

    /// Prints the waits of a recording; `None` when it was not asked for.
    pub(crate) fn execute(
        self,
        path: &Path,
        format: AnswerFormat,
        to: &Output,
    ) -> anyhow::Result<Option<ExitCode>> {
        let Some(by) = self.by else {
            return Ok(None);
        };
        let grouping = match by {
            By::Object => Grouping::Object,
            By::Thread => Grouping::Thread,
            By::Waker => Grouping::Waker,
            By::Stack => Grouping::Stack,
        };
        let limit = self.limit.unwrap_or(match format {
            AnswerFormat::Text => SHOWN,
            AnswerFormat::Json => usize::MAX,
        });
        let report = load::waits(path, grouping, self.filter()?, limit)?;
        match format {
            AnswerFormat::Text => to.exact(&view::waits_text(&report, &to.text_options()))?,
            AnswerFormat::Json => to.json(&report)?,
        }
        Ok(Some(exit::of(report.about.is_complete())))
    }

    fn filter(self) -> anyhow::Result<WaitFilter> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
        {
            let words = diagnose::units::duration;
            bail!(
                "nothing lies between --from {} and --to {}: both count from the recording's start\n\
                 hint: --to must be later than --from",
                words(from),
                words(to)
            );
        }
        Ok(WaitFilter {
            from_ns: self.from,
            to_ns: self.to,
            pid: self.pid,
            tid: self.thread,
            object: self.object,
            longer_than_ns: self.longer_than,
        })
    }
}
