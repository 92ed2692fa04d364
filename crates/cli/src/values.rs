//! Values of options that profiles may name, too. Uses no other module, as the fuzz target of profiles is built
//! without the rest.

use clap::{Args, ValueEnum};

/// Options of commands that record, which profiles may give, too.
#[derive(Debug, Default, Args)]
pub(crate) struct ProfileOptions {
    /// Record a USDT probe of the program, its libraries, or the file PATH
    ///
    /// ARG names the probe's arguments. NAME `*` means all probes of the provider. The values are in the tables
    /// `counters` and `tasks`. Can be repeated.
    #[arg(
        short = 'u',
        long = "usdt",
        value_name = "[PATH:]PROVIDER:NAME[:ARG,…]"
    )]
    pub(crate) usdt: Vec<::record::UsdtRequest>,
    /// How much to record; each level includes the ones before [default: waits]
    #[arg(long, value_enum)]
    pub(crate) detail: Option<Detail>,
    /// `host`: also record the processes of this host that serve the target's connections [default: host for `run`, none
    /// for `record`]
    ///
    /// Also the processes that serve theirs, and so on: at most 64 at a time. A process is recorded from its first call
    /// for such a connection (TCP, UNIX stream sockets). Its children are not recorded. Recording slows these processes
    /// as much as the target: `none` leaves them alone. Needs `--detail calls` or more, and no `--budget`: else the default
    /// of `run` is `none`, too.
    #[arg(
        long,
        value_enum,
        value_name = "host|none",
        hide_possible_values = true
    )]
    pub(crate) follow: Option<FollowScope>,
    /// Limit what hooks cost to N % of the recorded processes' CPU time [default: none]
    ///
    /// whylat then records calls and waits in windows at random times, and judges connections by polled statistics. The
    /// first window may cost N % of one second of a CPU. Needs `--detail calls` or `waits`.
    #[arg(long, value_name = "N%|none")]
    pub(crate) budget: Option<BudgetChoice>,
    /// Keep the CPU activity around slow messages, and around a sample of all messages
    ///
    /// `p99`: messages slower than 99 % of those of the same process. `sample=1000`: one message of 1,000. `memory=256M`:
    /// memory for the activity of all CPUs, 1M to 4G [default: 4M for each CPU, 64M at most]. Needs `--detail messages`.
    #[arg(long, value_name = "p99,sample=1000")]
    pub(crate) keep: Option<::record::RetentionPolicy>,
    /// Keep the activity of all CPUs when a message takes longer than TIME
    ///
    /// Keeps about the last second, at most once in ten seconds. Example: `latency>1ms`. Needs `--detail messages`.
    #[arg(long, value_name = "latency>TIME", value_parser = latency_ns)]
    pub(crate) trigger: Option<u64>,
    /// Enable NIC transmit timestamps even if a PTP daemon uses them
    ///
    /// On NICs with one timestamp slot the daemon may lose some. Needs `--detail messages`.
    #[arg(long)]
    pub(crate) nic_stamps: bool,
    /// Run whylat's own threads on these CPUs only, such as 0,2-3 [default: all]
    ///
    /// Recorded programs keep the CPUs that they have.
    #[arg(long, value_name = "CPUS")]
    pub(crate) recorder_cpus: Option<::record::CpuList>,
    /// Mean time between polls in ms; polls are at random times [default: 500]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) poll_ms: Option<u64>,
}

impl ProfileOptions {
    /// Takes from `profile` the options that are not given here.
    pub(crate) fn or_profile(self, profile: Self) -> Self {
        let Self {
            usdt,
            detail,
            follow,
            budget,
            keep,
            trigger,
            nic_stamps,
            recorder_cpus,
            poll_ms,
        } = self;
        Self {
            usdt: if usdt.is_empty() { profile.usdt } else { usdt },
            detail: detail.or(profile.detail),
            follow: follow.or(profile.follow),
            budget: budget.or(profile.budget),
            keep: keep.or(profile.keep),
            trigger: trigger.or(profile.trigger),
            nic_stamps: nic_stamps || profile.nic_stamps,
            recorder_cpus: recorder_cpus.or(profile.recorder_cpus),
            poll_ms: poll_ms.or(profile.poll_ms),
        }
    }
}

/// Processes that are recorded beside the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FollowScope {
    /// None.
    None,
    /// The processes of this host to which the target's connections lead.
    Host,
}

/// Choice of a budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum BudgetChoice {
    /// Everything is recorded.
    None,
    /// Hooks may use this share of CPU time.
    Share(::record::Budget),
}

impl std::str::FromStr for BudgetChoice {
    type Err = ::record::BudgetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            share => share.parse().map(Self::Share),
        }
    }
}

/// Detail of a recording.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Detail {
    /// TCP statistics by polls, retransmissions, and the last statistics at close: cheapest.
    Stats,
    /// Every send and receive call, and exact stages.
    Calls,
    /// Every wait of a thread, with its object and stack; values of the ITT API.
    Waits,
    /// Every message, with timestamps from the NIC to the program.
    Messages,
}

impl From<Detail> for ::record::Detail {
    fn from(detail: Detail) -> Self {
        match detail {
            Detail::Stats => Self::Stats,
            Detail::Calls => Self::Calls,
            Detail::Waits => Self::Waits,
            Detail::Messages => Self::Messages,
        }
    }
}

/// Parses a time such as `1.5s` or `200ms` to ns.
pub(crate) fn time_ns(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 7] = [
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("ms", 1e6),
        ("min", 60e9),
        ("s", 1e9),
        ("h", 3_600e9),
    ];
    let text = text.trim();
    let split = |(unit, ns): &(&str, f64)| Some((text.strip_suffix(unit)?.trim_end(), *ns));
    let value = UNITS.iter().find_map(split).and_then(|(number, unit_ns)| {
        let number: f64 = number.parse().ok()?;
        Some(number * unit_ns)
    });
    match value {
        Some(ns) if (0.0..=u64::MAX as f64).contains(&ns) => Ok(ns.round() as u64),
        _ => {
            Err("not a time\nhint: a number with ns, us, ms, s, min or h, such as 1.5s".to_owned())
        }
    }
}

/// Parses the time of `latency>1ms` to ns.
pub(crate) fn latency_ns(text: &str) -> Result<u64, String> {
    let refused = "not a condition\nhint: latency>1ms";
    let time = text.trim().strip_prefix("latency").ok_or(refused)?;
    let time = time.trim_start().strip_prefix('>').ok_or(refused)?;
    time_ns(time)
}

#[cfg(test)]
mod tests {
    use super::time_ns;

    #[test]
    fn times_have_units() {
        let known = [
            ("1.5s", 1_500_000_000),
            ("200ms", 200_000_000),
            ("7 us", 7_000),
        ];
        for (text, ns) in known {
            assert_eq!(time_ns(text), Ok(ns));
        }
        assert_eq!(time_ns("2min"), Ok(120_000_000_000));
        for text in ["", "5", "ms", "-1s", "NaNs", "infs", "1e30h", "1 m"] {
            assert!(time_ns(text).is_err(), "{text}");
        }
    }
}
