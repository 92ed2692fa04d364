//! Messages about what an agent does: at its start what it watches, where its files go and what it cannot do, and after an
//! interval what its share of a CPU buys. In: the configuration and what was measured. Out: lines for the journal.

use otlp::Signal;
use table::fleet::FleetCoverage;

use crate::config::{Config, ShipConfig, WatchConfig, WatchedNetns};
use crate::notify::LogPriority;

/// Length of a bin, as `whylat-fleet` puts readings into, us.
const BIN_US: i64 = table::fleet::BIN_NS / 1_000;

/// Returns the messages of the start. `detail` is the one that the kernel allows.
pub(crate) fn start(
    config: &Config,
    connections: usize,
    detail: &str,
    has_clock: bool,
) -> Vec<(LogPriority, String)> {
    let WatchConfig {
        netns,
        poll_ms,
        cpu_high,
        interval_s,
        ..
    } = &config.watch;
    let place = match netns {
        WatchedNetns::Host => "all network namespaces",
        WatchedNetns::Own => "its own network namespace",
    };
    let mut lines = vec![
        format!(
            "watches {place} as host {}, detail {detail}: {connections} connections now",
            config.host.name
        ),
        format!(
            "reads each connection every {poll_ms} ms on average; above {} % of a CPU it reads those without \
                problems less often",
            percent(*cpu_high)
        ),
        applications(config),
        files(&config.ship, *interval_s),
    ];
    lines.push(match config.metrics.listen.as_str() {
        "" => "has no page for Prometheus".to_owned(),
        listen => format!("has a page for Prometheus at {listen}"),
    });
    let mut found: Vec<_> = lines
        .into_iter()
        .map(|line| (LogPriority::Info, line))
        .collect();
    if !has_clock {
        found.push((
            LogPriority::Warning,
            "no time daemon keeps the clock: whylat-fleet compares with other machines which connections have a \
                problem, but not when\nhint: run chrony or another time daemon; one host alone needs none"
                .to_owned(),
        ));
    }
    found
}

/// Returns the message of the start about a signal of the export by OTLP.
pub(crate) fn export(signal: Signal, address: &str) -> String {
    let what = match signal {
        Signal::Logs => "findings as logs".to_owned(),
        other => other.to_string(),
    };
    format!("sends {what} of each interval to {address}")
}

/// Returns where the agent writes files, and how often; or why it writes none.
fn files(ship: &ShipConfig, interval_s: u32) -> String {
    if !ship.is_wanted() {
        return "writes no files, because [ship] has no target: only the OpenTelemetry collector gets each interval"
            .to_owned();
    }
    format!(
        "writes files every {interval_s} s to {}; until they are there, they wait in {}, at most {} MB",
        ship.target,
        ship.spool.display(),
        ship.spool_max_bytes / 1_000_000
    )
}

/// Returns which applications the agent can name.
fn applications(config: &Config) -> String {
    let names: Vec<&str> = config
        .applications
        .iter()
        .map(|rule| rule.name.as_str())
        .collect();
    match names.as_slice() {
        [] => "has no [[application]] rule: only hosts, and the workloads of Kubernetes, can be named as culprits"
            .to_owned(),
        names => format!("knows the applications {}", names.join(", ")),
    }
}

/// Returns a share in percent, without zeros at its end.
fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Decides when the agent prints how often it can read connections, and keeps the state for that.
#[derive(Debug, Default)]
pub(crate) struct PaceNews {
    /// Whether connections were read too seldom for bins, in the last message.
    is_slow: Option<bool>,
}

impl PaceNews {
    /// Returns a message for the journal: what a reading costs, and whether connections are read often enough. The
    /// agent's loop calls this after each interval. A message comes after the first whole interval, and when the answer
    /// changes. `None`: nothing is new.
    pub(crate) fn news(
        &mut self,
        watch: &WatchConfig,
        coverage: &FleetCoverage,
    ) -> Option<(LogPriority, String)> {
        let is_whole = coverage.length_us >= i64::from(watch.interval_s) * 1_000_000;
        if !is_whole || coverage.polls == 0 || coverage.connections == 0 {
            return None;
        }
        let is_slow = coverage.poll_interval_us > BIN_US;
        if self.is_slow.replace(is_slow) == Some(is_slow) {
            return None;
        }
        let poll_us = f64::from(watch.poll_ms) * 1_000.0;
        let reading_us = coverage.cpu_us as f64 / coverage.polls as f64;
        let bought = watch.cpu_high * poll_us / reading_us.max(f64::MIN_POSITIVE);
        let cost = format!(
            "a reading costs {reading_us:.1} us, all other costs included: {} % of a CPU is enough for \
                {bought:.0} connections every {} ms, and {} are open",
            percent(watch.cpu_high),
            watch.poll_ms,
            coverage.connections
        );
        if !is_slow {
            return Some((LogPriority::Info, cost));
        }
        let wanted = reading_us * coverage.connections as f64 / poll_us;
        Some((
            LogPriority::Warning,
            format!(
                "{cost}; those without problems are read every {:.1} s, too seldom for coefficients\nhint: \
                    [watch] cpu_high = {wanted:.3} is enough for {} ms",
                coverage.poll_interval_us as f64 / 1e6,
                watch.poll_ms
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// Makes coverage with this many connections, polls and mean interval.
    fn coverage(connections: i64, polls: i64, poll_interval_us: i64) -> FleetCoverage {
        fixture::coverage(serde_json::json!({
            "cpu_us": 900_000, "connections": connections, "polls": polls, "poll_interval_us": poll_interval_us,
        }))
    }

    #[test]
    fn start_messages_have_place_target_and_limits() {
        let mut config = Config::default();
        config.host.name = "web-1".to_owned();
        config.ship.target = "/srv/whylat".to_owned();
        let lines = start(&config, 12, "calls", false);
        let text: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(
            text[0],
            "watches all network namespaces as host web-1, detail calls: 12 connections now"
        );
        assert!(text[1].contains("every 500 ms on average; above 1.5 % of a CPU"));
        assert!(text[2].contains("only hosts, and the workloads"));
        assert!(text[3].contains("every 60 s to /srv/whylat;"));
        assert!(text[5].starts_with("no time daemon keeps the clock"));
        assert_eq!(start(&config, 12, "calls", true).len(), 5);
        config.ship.target.clear();
        let lines = start(&config, 12, "calls", true);
        assert!(lines[3].1.starts_with("writes no files"), "{lines:?}");
    }

    #[test]
    fn pace_message_comes_once_and_when_the_answer_changes() {
        let watch = WatchConfig::default();
        let mut news = PaceNews::default();
        // 7.5 us a reading: 1.5 % of half a second are 7,500 us
        let (priority, text) = news
            .news(&watch, &coverage(1_000, 120_000, 500_000))
            .expect("news");
        assert_eq!(priority, LogPriority::Info);
        assert!(text.contains("1.5 % of a CPU is enough for 1000 connections every 500 ms"));
        assert!(
            news.news(&watch, &coverage(1_000, 120_000, 500_000))
                .is_none()
        );
        let (priority, text) = news
            .news(&watch, &coverage(4_000, 120_000, 3_800_000))
            .expect("news");
        assert_eq!(priority, LogPriority::Warning);
        assert!(text.contains("read every 3.8 s, too seldom for coefficients"));
        assert!(text.ends_with("hint: [watch] cpu_high = 0.060 is enough for 500 ms"));
    }
}
