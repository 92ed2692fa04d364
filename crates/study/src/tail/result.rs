//! Results of the study, as figures.

use serde::Serialize;
use serde_json::{Value, json};

/// Latencies of a step without a recording, one of each round.
#[derive(Debug, Clone)]
pub(super) struct RoundLatencies {
    /// In each round.
    requests: usize,
    rounds: Vec<MeasuredRound>,
}

/// One round.
#[derive(Debug, Clone)]
pub(super) struct MeasuredRound {
    /// The client's latencies, as `open-loop` prints them.
    pub(super) latency: Value,
    /// Rounds before it that do not count, because a CPU was stalled.
    pub(super) repeated: u64,
    /// How often a CPU was stalled in this one nevertheless.
    pub(super) pauses: u64,
}

/// A quantile of several rounds, ns.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct QuantileSpread {
    pub(super) least_ns: u64,
    pub(super) median_ns: u64,
    pub(super) most_ns: u64,
}

/// The quantiles that are printed, and the number of requests from which on one lies beyond.
pub(super) const QUANTILES: [(&str, &str, usize); 6] = [
    ("p50", "p50_ns", 2),
    ("p90", "p90_ns", 10),
    ("p99", "p99_ns", 100),
    ("p99.9", "p999_ns", 1_000),
    ("p99.99", "p9999_ns", 10_000),
    ("p99.999", "p99999_ns", 100_000),
];

/// The cause that is the first of most messages.
#[derive(Debug, Serialize)]
pub(super) struct NamedCause {
    pub(super) rule: String,
    pub(super) what: String,
    /// Messages that have it as the first cause, of those that were explained.
    pub(super) first: u64,
    pub(super) explained: u64,
    pub(super) advice: String,
}

/// A step and what became of it.
#[derive(Debug)]
pub(super) struct StepResult {
    pub(super) name: &'static str,
    /// The main problem, known beforehand, any of these: rule, and the beginning of its subject.
    pub(super) planted: &'static [(&'static str, &'static str)],
    pub(super) measured: RoundLatencies,
    pub(super) cause: Option<NamedCause>,
}

/// The whole study.
#[derive(Debug)]
pub(super) struct StudyResult {
    pub(super) app: &'static str,
    pub(super) rate: u32,
    pub(super) rounds: usize,
    pub(super) requests: usize,
    pub(super) cpus: usize,
    pub(super) steps: Vec<StepResult>,
    pub(super) mistake: Option<StepResult>,
}

impl RoundLatencies {
    /// Makes no round yet.
    pub(super) fn new(requests: usize) -> Self {
        let rounds = Vec::new();
        Self { requests, rounds }
    }

    /// Adds a round.
    pub(super) fn add(&mut self, round: MeasuredRound) {
        self.rounds.push(round);
    }

    /// Returns the number of repeated rounds, and of disturbed ones that count.
    pub(super) fn count_disturbed(&self) -> (u64, usize) {
        let repeated = self.rounds.iter().map(|round| round.repeated).sum();
        (
            repeated,
            self.rounds.iter().filter(|round| round.pauses > 0).count(),
        )
    }

    /// Returns the quantiles of all rounds.
    pub(super) fn quantiles(&self) -> impl Iterator<Item = (&'static str, QuantileSpread)> {
        let known = QUANTILES
            .iter()
            .filter(|(_, _, least)| self.requests >= *least);
        known.filter_map(|(name, key, _)| Some((*name, self.spread(key)?)))
    }

    /// Returns a quantile over all rounds by its key; `None` without rounds.
    pub(super) fn spread(&self, key: &str) -> Option<QuantileSpread> {
        let ns = self
            .rounds
            .iter()
            .filter_map(|round| round.latency[key].as_u64());
        let mut ns: Vec<u64> = ns.collect();
        ns.sort_unstable();
        Some(QuantileSpread {
            least_ns: *ns.first()?,
            median_ns: ns[ns.len() / 2],
            most_ns: *ns.last()?,
        })
    }

    /// The distribution of the round with the median p99.9.
    fn curve(&self) -> Option<&Value> {
        let median_ns = self.spread("p999_ns")?.median_ns;
        let mut latencies = self.rounds.iter().map(|round| &round.latency);
        Some(&latencies.find(|latency| latency["p999_ns"] == median_ns)?["curve_ns"])
    }

    /// Returns latencies as JSON.
    fn json(&self) -> Value {
        let spreads = self.quantiles();
        let spreads = spreads.map(|(name, spread)| json!({ "quantile": name, "ns": spread }));
        let spreads: Vec<Value> = spreads.collect();
        let (repeated, disturbed) = self.count_disturbed();
        json!({
            "quantiles": spreads, "curve_ns": self.curve(),
            "rounds_repeated": repeated, "rounds_disturbed": disturbed,
        })
    }
}

impl NamedCause {
    /// Reads the first cause of a report of slow messages that a server receives; `None` where nothing could be judged.
    pub(super) fn first(report: &Value, application: &str) -> Option<Self> {
        let groups = report["groups"].as_array()?;
        let is_it = |group: &&Value| {
            group["application"] == application && group["direction"] == "received"
        };
        let group = groups.iter().find(is_it)?;
        let causes = group["causes"].as_array()?;
        let cause = causes.iter().max_by_key(|cause| cause["first"].as_u64())?;
        let text = |key: &str| cause[key].as_str().unwrap_or_default().to_owned();
        Some(Self {
            rule: text("rule"),
            what: text("what"),
            first: cause["first"].as_u64()?,
            explained: group["longer"].as_u64()?,
            advice: text("advice"),
        })
    }
}

impl StepResult {
    /// Returns whether the report names the planted cause; `None` without one.
    pub(super) fn is_named(&self) -> Option<bool> {
        let cause = self.cause.as_ref();
        let mut planted = self.planted.iter();
        let is_named = planted.any(|(rule, what)| {
            cause.is_some_and(|cause| cause.rule == *rule && cause.what.starts_with(what))
        });
        (!self.planted.is_empty()).then_some(is_named)
    }

    /// Returns a step as JSON.
    fn json(&self) -> Value {
        let planted = self.planted.iter();
        let planted = planted.map(|(rule, what)| json!({ "rule": rule, "what": what }));
        let planted: Vec<Value> = planted.collect();
        json!({
            "name": self.name,
            "planted": planted,
            "said": self.cause,
            "is_named": self.is_named(),
            "latency": self.measured.json(),
        })
    }
}

impl StudyResult {
    /// Returns the result as JSON.
    pub(super) fn json(&self) -> Value {
        json!({
            "schema": "whylat.study/1",
            "app": self.app,
            "requests_per_s": self.rate,
            "rounds": self.rounds,
            "requests": self.requests,
            "cpus": self.cpus,
            "steps": self.steps.iter().map(StepResult::json).collect::<Vec<_>>(),
            "mistake": self.mistake.as_ref().map(StepResult::json),
        })
    }
}
