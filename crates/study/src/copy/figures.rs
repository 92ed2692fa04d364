//! The figures of a run, each declared once: name, unit and meaning.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::counters::CounterValues;
use super::protocol::SendTally;
use super::stats::Histogram;

/// A figure of a run.
#[derive(Debug)]
pub(super) struct FigureColumn {
    /// Its column.
    pub(super) name: &'static str,
    /// Unit and meaning.
    pub(super) what: &'static str,
    /// Whether the columns NAME_lo and NAME_hi have its spread over repetitions.
    pub(super) spread: bool,
}

/// Describes a column with one value.
const fn figure_column(name: &'static str, what: &'static str) -> FigureColumn {
    let spread = false;
    FigureColumn { name, what, spread }
}

/// Describes a column that has a spread, too.
const fn spread_column(name: &'static str, what: &'static str) -> FigureColumn {
    let spread = true;
    FigureColumn { name, what, spread }
}

/// All figures: those of the published study's columns first, in its order.
pub(super) const FIGURES: &[FigureColumn] = &[
    spread_column(
        "throughput",
        "Gbit/s of payload, server to client, summed over clients",
    ),
    spread_column("latency", "mean time from request to whole message, µs"),
    spread_column("cycles", "CPU cycles of the server's threads"),
    spread_column(
        "l1_misses",
        "L1 data cache read misses of the server's threads",
    ),
    spread_column(
        "llc_misses",
        "last-level cache read misses of the server's threads",
    ),
    spread_column("cs", "context switches of the server's threads"),
    spread_column("latency_p50", "µs"),
    spread_column("latency_p99", "µs"),
    spread_column("latency_p999", "µs"),
    figure_column("messages", "messages of the measured time, of all clients"),
    figure_column("payload_bytes", "bytes of them, server to client"),
    figure_column("request_bytes", "bytes of their requests, client to server"),
    figure_column("seconds", "measured time of the slowest client, s"),
    figure_column("instructions", "instructions of the server's threads"),
    spread_column("cycles_per_byte", "cycles of the server a payload byte"),
    figure_column("page_faults", "page faults of the server's threads"),
    spread_column(
        "cpu_ns_per_message",
        "CPU time of the server's threads a message, ns",
    ),
    figure_column(
        "user_ns_per_message",
        "the part of it outside the kernel, ns",
    ),
    figure_column("client_cycles", "CPU cycles of the clients' threads"),
    figure_column(
        "client_instructions",
        "instructions of the clients' threads",
    ),
    figure_column(
        "client_l1_misses",
        "L1 data cache read misses of the clients' threads",
    ),
    figure_column(
        "client_llc_misses",
        "last-level cache read misses of the clients' threads",
    ),
    figure_column("client_cs", "context switches of the clients' threads"),
    figure_column("client_page_faults", "page faults of the clients' threads"),
    figure_column(
        "client_cpu_ns_per_message",
        "CPU time of the clients' threads a message, ns",
    ),
    figure_column("zc_sends", "zero-copy sends, warm-up included"),
    figure_column(
        "zc_completions",
        "of them, those that the kernel reported as over",
    ),
    figure_column(
        "zc_copied_share",
        "of those, the part that the kernel copied in spite of it",
    ),
    figure_column("zc_notifications", "notifications that reported them"),
    figure_column("zc_enobufs", "sends refused with ENOBUFS"),
    figure_column("zc_gave_up", "messages sent with a copy because of it"),
];

/// Figures by name; an absent one was not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunFigures {
    pub(super) figures: BTreeMap<String, f64>,
    /// Why counters are missing, by name.
    #[serde(default)]
    pub(super) missing: BTreeMap<String, String>,
}

impl RunFigures {
    /// Of all clients of a run, and of the server's threads.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is one thing that was measured"
    )]
    /// Computes the figures of a run from times, calls and counters.
    pub(super) fn new(
        size: usize,
        messages: u64,
        seconds: f64,
        gbps: f64,
        latency: &Histogram,
        tally: &SendTally,
        server: CounterValues,
        client: CounterValues,
        missing: BTreeMap<String, String>,
    ) -> Self {
        let mut all = BTreeMap::new();
        let mut put = |name: &str, value: Option<f64>| {
            if let Some(value) = value {
                all.insert(name.to_owned(), value);
            }
        };
        let count = messages as f64;
        let payload = count * size as f64;
        put("throughput", Some(gbps));
        put("latency", latency.mean().map(|ns| ns / 1e3));
        let quantile = |share| latency.quantile(share).map(|ns| ns as f64 / 1e3);
        put("latency_p50", quantile(0.5));
        put("latency_p99", quantile(0.99));
        put("latency_p999", quantile(0.999));
        put("messages", Some(count));
        put("payload_bytes", Some(payload));
        put(
            "request_bytes",
            Some(count * super::protocol::REQUEST_BYTES as f64),
        );
        put("seconds", Some(seconds));
        for (counts, prefix) in [(&server, ""), (&client, "client_")] {
            for (name, value) in counts.iter().filter(|(name, _)| !name.ends_with("_ns")) {
                put(&format!("{prefix}{name}"), *value);
            }
            let [user, system] =
                ["user_ns", "system_ns"].map(|name| counts.get(name).copied().flatten());
            let cpu = user.zip(system).map(|(user, system)| user + system);
            let each = |ns: Option<f64>| ns.map(|ns| ns / count).filter(|ns| ns.is_finite());
            put(&format!("{prefix}cpu_ns_per_message"), each(cpu));
            if prefix.is_empty() {
                put("user_ns_per_message", each(user));
            }
        }
        let cycles = server.get("cycles").copied().flatten();
        put("cycles_per_byte", cycles.map(|cycles| cycles / payload));
        if tally.zerocopy_sends + tally.enobufs > 0 {
            put("zc_sends", Some(tally.zerocopy_sends as f64));
            put("zc_completions", Some(tally.completed as f64));
            let share = tally.copied as f64 / tally.completed as f64;
            put(
                "zc_copied_share",
                Some(share).filter(|share| share.is_finite()),
            );
            put("zc_notifications", Some(tally.notifications as f64));
            put("zc_enobufs", Some(tally.enobufs as f64));
            put("zc_gave_up", Some(tally.gave_up as f64));
        }
        Self {
            figures: all,
            missing,
        }
    }

    /// Returns a figure by its name; None if it was not measured.
    pub(super) fn get(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_declared() {
        let mut latency = Histogram::default();
        (0..10_000).for_each(|ns| latency.record(ns));
        let tally = SendTally {
            zerocopy_sends: 4,
            completed: 4,
            copied: 1,
            ..SendTally::default()
        };
        let names = [
            "cycles",
            "instructions",
            "l1_misses",
            "llc_misses",
            "cs",
            "page_faults",
            "user_ns",
            "system_ns",
        ];
        let counts: CounterValues = names.map(|name| (name.to_owned(), Some(2.0))).into();
        let none = BTreeMap::new();
        let made = RunFigures::new(
            64,
            10,
            1.0,
            0.5,
            &latency,
            &tally,
            counts.clone(),
            counts,
            none,
        );
        let mut declared: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        declared.sort_unstable();
        let made_names: Vec<&str> = made.figures.keys().map(String::as_str).collect();
        assert_eq!(made_names, declared);
        assert_eq!(made.get("zc_copied_share"), Some(0.25));
        assert_eq!(made.get("cpu_ns_per_message"), Some(0.4));
        assert!(FIGURES.iter().all(|figure| !figure.what.is_empty()));
    }
}
