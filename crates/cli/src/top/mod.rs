//! `whylat top`: live connections, on a screen or once as text or JSON.

mod collect;
mod screen;
mod threads;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::builder::NonEmptyStringValueParser;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use diagnose::live::LiveReport;
use record::{Target, WatchOptions};
use view::TextOptions;
use view::top::{ListOrder, SortKey};

use crate::out::{Output, OutputArgs};
use crate::{args, container, exit, out};

/// Rows of `--once` as text by default: a screen.
const ROWS: usize = 20;

/// Shortest and longest interval, seconds: below, drawing would be most of the cost; above, nothing is live.
const INTERVALS_S: std::ops::RangeInclusive<f64> = 0.1..=60.0;

/// Watches connections live.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat top                          # your sockets; with sudo all
  sudo whylat top --port 6379         # one local or remote port
  sudo whylat top --detail calls      # exact stages, blocked calls
  whylat top --once                   # the worst connections as text
  whylat top --once --json --limit 5  # for scripts: docs/top.schema.json")]
#[command(mut_arg("output", |it| it.requires("once")))]
pub(crate) struct TopArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// How much to collect; each level includes the ones before
    #[arg(long, value_enum, default_value = "stats")]
    detail: Detail,
    /// Seconds between updates
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = interval)]
    interval: f64,
    /// Column that sorts the connections
    #[arg(long, value_name = "COLUMN", default_value = "held", value_parser = sort_keys())]
    sort: String,
    /// With --once: show N connections [default: 20 as text, all as JSON]
    #[arg(long, value_name = "N", value_parser = args::parse_positive, requires = "once")]
    limit: Option<usize>,
    /// Watch for one interval, print the connections, and exit
    #[arg(long)]
    once: bool,
    /// With --once: print JSON (`whylat.top/1`)
    #[arg(long, requires = "once")]
    json: bool,
    #[command(flatten)]
    to: OutputArgs,
}

/// Detail of the view.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Detail {
    /// TCP statistics by polls, and retransmissions: cheapest.
    Stats,
    /// Every send and receive call, and exact stages.
    Calls,
    /// Every wait of a thread: `epoll_wait` and others.
    Waits,
}

/// The selected processes or connections; at most one option.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct TargetArgs {
    /// Processes, their descendants, and processes that share a listening socket with them
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = args::parse_process_id)]
    pid: Vec<u32>,
    /// Processes with this command name, present and future
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    comm: Option<String>,
    /// Connections with this local or remote port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Processes in this control group (v2) and below, present and future
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// Processes of a container of docker, podman, containerd or CRI-O
    #[arg(long, value_name = "NAME|ID")]
    container: Option<String>,
    /// Processes of all containers of a pod on this node, present and future
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pod: Option<String>,
}

impl TargetArgs {
    /// Returns what to watch: processes, ports or all.
    fn into_target(self) -> anyhow::Result<Target> {
        if !self.pid.is_empty() {
            return Ok(Target::Pids(self.pid));
        }
        if let Some(wanted) = self.container {
            return container::target(&wanted);
        }
        if let Some(wanted) = self.pod {
            return container::pod_target(&wanted);
        }
        let comm = self.comm.map(Target::Comm);
        let port = self.port.map(Target::Port);
        let cgroup = self.cgroup.map(Target::Cgroup);
        Ok(comm.or(port).or(cgroup).unwrap_or(Target::All))
    }
}

/// Returns the columns by which lists can be sorted.
fn sort_keys() -> PossibleValuesParser {
    PossibleValuesParser::new(SortKey::ALL.map(SortKey::name))
}

/// Reads an interval in seconds.
fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    let (least, most) = (INTERVALS_S.start(), INTERVALS_S.end());
    let refused = || format!("not between {least} and {most} seconds");
    INTERVALS_S
        .contains(&seconds)
        .then_some(seconds)
        .ok_or_else(refused)
}

impl TopArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let sort = SortKey::ALL
            .into_iter()
            .find(|sort| sort.name() == self.sort);
        let order = ListOrder {
            sort: sort.unwrap_or(SortKey::Held),
            ..ListOrder::default()
        };
        let options = WatchOptions {
            target: self.target.into_target()?,
            detail: match self.detail {
                Detail::Stats => record::Detail::Stats,
                Detail::Calls => record::Detail::Calls,
                Detail::Waits => record::Detail::Waits,
            },
            interval: Duration::from_secs_f64(self.interval),
            poll_mean: args::POLL_MEAN,
            arguments: std::env::args_os()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect(),
        };
        if self.once {
            let to = self.to.check()?;
            let live = collect::collect_once(&options)?;
            let complete = exit::from_complete(live.about.lost_total == 0);
            print(live, &order, self.limit, self.json, &to)?;
            return Ok(complete);
        }
        if !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal()) {
            bail!(
                "stdin or stdout is no terminal\nhint: whylat top --once, or whylat top --once --json"
            );
        }
        screen::run(&options, order, out::text_options().colour)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints one report without a screen.
fn print(
    live: LiveReport,
    order: &ListOrder,
    limit: Option<usize>,
    json: bool,
    to: &Output,
) -> anyhow::Result<()> {
    if json {
        let json = view::top::json(live, order, limit.unwrap_or(usize::MAX));
        return to.print(&format!("{json}\n"));
    }
    let width = match to.is_terminal() {
        true => ratatui::crossterm::terminal::size()
            .ok()
            .map(|(columns, _)| columns.into()),
        false => None,
    };
    let defaults = to.text_options();
    let options = TextOptions {
        width: width.unwrap_or(defaults.width),
        ..defaults
    };
    to.write_exact(&view::top::text(
        &live,
        order,
        limit.unwrap_or(ROWS),
        &options,
    ))
}
