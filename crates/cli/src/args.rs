//! Options that several commands share, and the defaults that they imply.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;

use crate::config::ConfigFile;
use crate::exit;
use crate::out::DirectoryArgs;
use crate::profile::Profile;
use crate::values::{self, BudgetChoice, Detail, FollowScope, ProfileOptions};

/// Mean interval between polls: SNAP's own (section 3.2), long enough to stay below 1 % of a CPU
/// at 10,000 sockets.
pub(crate) const POLL_MEAN: Duration = Duration::from_millis(500);

/// Options of every command that records.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) chosen: ProfileOptions,
    #[command(flatten)]
    to: DirectoryArgs,
    /// Use this profile of the configuration file for options that are not given
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigFile,
    /// Write this file when every probe is attached
    #[arg(long, value_name = "PATH", hide = true)]
    pub(crate) ready_file: Option<PathBuf>,
}

impl RecordArgs {
    /// Returns the options of a recording of `target`, with those of a profile.
    ///
    /// # Errors
    /// Options that contradict each other, or a profile that cannot be read.
    pub(crate) fn options(
        self,
        target: ::record::Target,
        duration: Option<Duration>,
    ) -> anyhow::Result<::record::Options> {
        let named = self.profile.as_deref();
        let profile =
            named.map_or_else(|| Ok(Profile::default()), |it| self.config.read_profile(it))?;
        let ProfileOptions {
            usdt,
            detail,
            follow,
            budget,
            keep,
            trigger,
            nic_stamps,
            recorder_cpus,
            poll_ms,
        } = self.chosen.or_profile(profile.options);
        let detail = detail.unwrap_or(Detail::Waits);
        let has_messages = matches!(detail, Detail::Messages);
        if !has_messages && (keep.is_some() || trigger.is_some()) {
            return Err(exit::wrong_usage(
                "--keep and --trigger need messages, and this detail does not record them\n\
                 hint: add --detail messages",
            ));
        }
        let budget = match budget {
            None | Some(BudgetChoice::None) => None,
            Some(BudgetChoice::Share(budget)) => {
                check_budget(detail, &target)?;
                Some(budget)
            }
        };
        let follow = match (follow, refuse_follow(detail, budget.is_some(), &target)) {
            (Some(FollowScope::Host), Some(text)) => return Err(exit::wrong_usage(text)),
            (Some(FollowScope::Host), None) => true,
            (Some(FollowScope::None), _) => false,
            // who names processes names all that are wanted
            (None, refused) => refused.is_none() && matches!(target, ::record::Target::Command(_)),
        };
        let output = self.to.path()?.map_or_else(
            || default_output(&profile.output_dir.unwrap_or_default()),
            Path::to_owned,
        );
        Ok(::record::Options {
            target,
            detail: detail.into(),
            keep: ::record::RetentionPolicy {
                trigger_ns: trigger,
                ..keep.unwrap_or_default()
            },
            nic_stamps,
            recorder_cpus,
            usdt,
            budget,
            follow,
            force: self.to.force,
            output,
            duration,
            poll_mean: poll_ms.map_or(POLL_MEAN, Duration::from_millis),
            ready_file: self.ready_file,
            arguments: std::env::args_os()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect(),
        })
    }
}

/// Refuses a budget that has nothing to limit: no calls or waits are recorded, or no processes are named.
fn check_budget(detail: Detail, target: &::record::Target) -> anyhow::Result<()> {
    if !matches!(detail, Detail::Calls | Detail::Waits) {
        return Err(exit::wrong_usage(
            "--budget limits the cost of calls and waits, and this detail records neither\nhint: --detail \
                waits, or --budget none",
        ));
    }
    if matches!(target, ::record::Target::All | ::record::Target::Cgroup(_)) {
        return Err(exit::wrong_usage(
            "--budget needs processes: it is a share of their CPU time\n\
             hint: -p, --comm or --port, or --budget none",
        ));
    }
    Ok(())
}

/// Returns why nobody can be followed: the recording does not show who serves a connection, or records all servers anyway.
fn refuse_follow(
    detail: Detail,
    has_budget: bool,
    target: &::record::Target,
) -> Option<&'static str> {
    if matches!(detail, Detail::Stats) {
        return Some(
            "--follow needs calls, and this detail does not record them\n\
             hint: add --detail waits, or --follow none",
        );
    }
    if has_budget {
        return Some(
            "--follow and --budget exclude each other: the budget is for the target alone\n\
             hint: --budget none, or --follow none",
        );
    }
    let records_servers = matches!(target, ::record::Target::All | ::record::Target::Port(_));
    records_servers.then_some(
        "--follow needs processes: --all and --port record both ends of connections on this host anyway\n\
         hint: -p, --comm, --cgroup, --container or --pod, or --follow none",
    )
}

/// Returns `whylat-20261121T203000Z.whylat` in `dir`, with `-2` and so on if it exists.
pub(crate) fn default_output(dir: &Path) -> PathBuf {
    let time = utc_now();
    let first = dir.join(format!("whylat-{time}.whylat"));
    let further = (2..).map(|number| dir.join(format!("whylat-{time}-{number}.whylat")));
    std::iter::once(first)
        .chain(further)
        .find(|path| !path.exists())
        .unwrap_or_default()
}

/// Returns the current time for file names.
pub(crate) fn utc_now() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    format_utc(since_epoch.unwrap_or_default().as_secs())
}

/// Returns a UTC time in ISO 8601's basic form. Days to date by the civil-from-days algorithm (Howard
/// Hinnant, "chrono-Compatible Low-Level Date Algorithms").
pub(crate) fn format_utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Returns the option that selects a target; `None`: no option does.
pub(crate) fn option_of(target: &::record::Target) -> Option<String> {
    match target {
        ::record::Target::Command(_) | ::record::Target::All => None,
        ::record::Target::Pids(pids) => {
            let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
            Some(format!("--pid {}", pids.join(",")))
        }
        ::record::Target::Comm(name) => Some(format!("--comm {name}")),
        ::record::Target::Port(port) => Some(format!("--port {port}")),
        ::record::Target::Cgroup(path) => Some(format!("--cgroup {path}")),
    }
}

/// Parses a number of seconds such as `1.5`, or a time with its unit such as `500ms`.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.trim().parse().ok();
    let seconds = match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => values::time_ns(text).ok().map(Duration::from_nanos),
    };
    seconds.ok_or_else(|| {
        "not a number of seconds\nhint: such as 10 or 1.5, or a time such as 500ms".to_owned()
    })
}

/// Parses how long to record: a time as above, but not 0.
pub(crate) fn parse_recording_time(text: &str) -> Result<Duration, String> {
    match parse_seconds(text)? {
        Duration::ZERO => Err("nothing is recorded in 0 seconds".to_owned()),
        time => Ok(time),
    }
}

/// Parses the id of a process or thread.
pub(crate) fn parse_process_id(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|id| *id > 0);
    number.ok_or_else(|| "not the number of a process, such as 4711".to_owned())
}

/// Parses the length of a list: a number from 1 on.
pub(crate) fn parse_positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("not a number from 1 on".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{format_utc, parse_process_id, parse_recording_time, parse_seconds};

    #[test]
    fn seconds_are_a_number() {
        assert_eq!(parse_seconds("1.5"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_seconds("0"), Ok(Duration::ZERO));
        assert_eq!(parse_seconds("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_seconds("1s"), Ok(Duration::from_secs(1)));
        for text in ["abc", "", "-1", "-1s", "NaN", "inf", "1x"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn time_of_a_recording_is_not_zero() {
        assert_eq!(parse_recording_time("2"), Ok(Duration::from_secs(2)));
        assert!(parse_recording_time("0").is_err());
        assert!(parse_recording_time("0ms").is_err());
    }

    #[test]
    fn process_ids_are_numbers_from_1_on() {
        assert_eq!(parse_process_id("4711"), Ok(4711));
        for text in ["abc", "0", "-1", "99999999999", ""] {
            assert!(parse_process_id(text).is_err(), "{text}");
        }
    }

    #[test]
    fn utc_of_known_times() {
        assert_eq!(format_utc(0), "19700101T000000Z");
        assert_eq!(format_utc(951_782_399), "20000228T235959Z");
        assert_eq!(format_utc(951_782_400), "20000229T000000Z");
        assert_eq!(format_utc(4_107_542_399), "21000228T235959Z");
        assert_eq!(format_utc(4_107_542_400), "21000301T000000Z");
    }
}
