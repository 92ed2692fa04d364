//! `whylat report --by …`: waits in groups, with filters.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use diagnose::requests::RequestFilter;
use diagnose::waits::{Grouping, WaitFilter};

use crate::format::AnswerFormat;
use crate::out::Output;
use crate::{args, exit, load, values};

/// Groups that text shows by default; JSON has all.
const SHOWN: usize = 10;

/// Groups waits instead of diagnosing connections. TIME is a number with a unit: 1.5s, 200ms, 30us.
#[derive(Debug, Args)]
#[command(next_help_heading = "Waits")]
pub(crate) struct WaitArgs {
    /// Show the waits of threads, grouped
    #[arg(long, value_enum, groups = ["filtered", "selected"])]
    by: Option<By>,
    /// Only waits or requests that ended at TIME after the start, or later (such as 1.5s)
    #[arg(long, value_name = "TIME", value_parser = values::time_ns, requires = "filtered")]
    from: Option<u64>,
    /// Only waits or requests that ended before TIME after the start
    #[arg(long, value_name = "TIME", value_parser = values::time_ns, requires = "filtered")]
    to: Option<u64>,
    /// Only waits or requests of this process
    #[arg(long, value_name = "PID", requires = "selected", value_parser = args::parse_process_id)]
    pid: Option<u32>,
    /// Only waits or requests of this thread
    #[arg(long, value_name = "TID", requires = "selected", value_parser = args::parse_process_id)]
    thread: Option<u32>,
    /// Only waits for this object, or requests on it: a connection id, an address, or a name as printed
    #[arg(long, value_name = "OBJECT", requires = "selected")]
    object: Option<String>,
    /// Only waits or requests longer than TIME (such as 200us)
    #[arg(long, value_name = "TIME", value_parser = values::time_ns, requires = "selected")]
    longer_than: Option<u64>,
    /// Show N entries of each list [default: the worst as text, all as JSON]
    #[arg(long, value_name = "N", value_parser = args::parse_positive)]
    pub(crate) limit: Option<usize>,
}

/// Property that groups waits.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    /// Object: a connection, a lock, a timer, …
    Object,
    /// Thread that waited
    Thread,
    /// Call stack of the wait
    Stack,
    /// Thread that ended the wait
    Waker,
    /// Task, frame or region that the program reports (ITT, USDT)
    Task,
    /// Pod of Kubernetes that waited
    Pod,
    /// Its workload: Deployment, StatefulSet, …
    Workload,
}

impl WaitArgs {
    /// Returns the start and the end of the window, ns after the start; `None`: no window.
    pub(crate) fn window_ns(&self) -> Option<(u64, u64)> {
        let given = self.from.is_some() || self.to.is_some();
        given.then(|| (self.from.unwrap_or(0), self.to.unwrap_or(u64::MAX)))
    }

    /// Returns whether waits were requested instead of a diagnosis.
    pub(crate) fn is_asked(&self) -> bool {
        self.by.is_some()
    }

    /// Prints the waits of a recording; `None`: they were not requested.
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
            By::Task => Grouping::Task,
            By::Pod => Grouping::Pod,
            By::Workload => Grouping::Workload,
        };
        let limit = self.limit.unwrap_or(match format {
            AnswerFormat::Text => SHOWN,
            AnswerFormat::Json => usize::MAX,
        });
        let report = load::waits(path, grouping, self.into_filter()?, limit)?;
        match format {
            AnswerFormat::Text => to.write_exact(&view::waits_text(&report, &to.text_options()))?,
            AnswerFormat::Json => to.json(&report)?,
        }
        Ok(Some(exit::from_complete(report.about.is_complete())))
    }

    /// Returns the filter of requests.
    ///
    /// # Errors
    /// When there can be none.
    pub(crate) fn requests(&self) -> anyhow::Result<RequestFilter> {
        check_window(self.from, self.to)?;
        Ok(RequestFilter {
            from_ns: self.from,
            to_ns: self.to,
            pid: self.pid,
            tid: self.thread,
            object: self.object.clone(),
            longer_than_ns: self.longer_than,
            id: None,
        })
    }

    /// Returns which waits the user asked for.
    fn into_filter(self) -> anyhow::Result<WaitFilter> {
        check_window(self.from, self.to)?;
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

/// Refuses a window without time.
pub(crate) fn check_window(from: Option<u64>, to: Option<u64>) -> anyhow::Result<()> {
    if let (Some(from), Some(to)) = (from, to)
        && from >= to
    {
        let words = diagnose::units::duration;
        return Err(exit::wrong_usage(format!(
            "no time lies between --from {} and --to {}: both count from the start\n\
             hint: give a --to later than --from",
            words(from),
            words(to)
        )));
    }
    Ok(())
}
