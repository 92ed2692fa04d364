//! Counts of a program's runs in a file to commit: the contract `whylat.baseline/1`. Later runs are compared with it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::count::{CheckCount, CountSource, CountValue};

/// Name and version of the contract.
pub const SCHEMA: &str = "whylat.baseline/1";

/// Standard deviations that chance may add to a count that the machine moves: one run of 3.5 million is beyond.
const DEVIATIONS: f64 = 5.0;

/// Counts and findings of runs that were right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of whylat that wrote it.
    pub whylat: String,
    /// How many runs.
    pub runs: u64,
    /// The counts of each run, by name.
    pub counts: BTreeMap<String, BaselineCount>,
    /// Findings above information that most runs had.
    pub findings: Vec<KnownFinding>,
}

/// A count of all runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaselineCount {
    /// How many, for each run.
    pub events: Vec<u64>,
    /// The divisor of each. Absent: they are no ratio.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per: Vec<u64>,
}

/// A finding that is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KnownFinding {
    /// Name of the rule.
    pub rule: String,
    /// Command name of the process; `None`: not known.
    pub process: Option<String>,
}

impl BaselineCount {
    /// Keeps the values of a count in all runs.
    pub fn new(values: &[CountValue]) -> Self {
        let is_ratio = values.iter().any(|it| it.per != 1);
        Self {
            events: values.iter().map(|it| it.events).collect(),
            per: match is_ratio {
                true => values.iter().map(|it| it.per).collect(),
                false => Vec::new(),
            },
        }
    }

    /// Returns the values of the count, one for each run with a value.
    pub fn values(&self) -> Vec<CountValue> {
        let per = self.per.iter().copied().chain(std::iter::repeat(1));
        let values = self.events.iter().zip(per);
        let values = values.map(|(&events, per)| CountValue { events, per });
        values.filter(|it| it.per > 0).collect()
    }

    /// Returns the largest value that is no regression: the largest of the baseline and its spread more; of a count that
    /// the machine moves, at least what chance gives. `None`: it has no run.
    pub fn value_limit(&self, count: &CheckCount) -> Option<f64> {
        let values = self.values();
        let (least, largest) = value_range(&values)?;
        let limit = largest + (largest - least);
        Some(match count.source {
            CountSource::Program => limit,
            CountSource::Machine => limit.max(by_chance(&values)),
        })
    }
}

/// Returns the least and the largest value; `None`: there is none.
pub fn value_range(values: &[CountValue]) -> Option<(f64, f64)> {
    let numbers = values.iter().map(|it| it.value());
    numbers.fold(None, |range, it| match range {
        None => Some((it, it)),
        Some((least, largest)) => Some((f64::min(least, it), f64::max(largest, it))),
    })
}

/// Returns the upper bound of the mean of a Poisson process that gave the events of all runs: N. Gehrels, "Confidence
/// limits for small numbers of events", Astrophysical Journal 303 (1986), equation 9.
fn by_chance(values: &[CountValue]) -> f64 {
    let events: f64 = values.iter().map(|it| it.events as f64).sum();
    let per: f64 = values.iter().map(|it| it.per as f64).sum();
    let upper =
        events + DEVIATIONS * (events + 0.75).sqrt() + (DEVIATIONS * DEVIATIONS + 3.0) / 4.0;
    upper / per
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the limit that these runs set for a count.
    fn limit(name: &str, events: &[u64]) -> f64 {
        let baseline = BaselineCount {
            events: events.to_vec(),
            per: Vec::new(),
        };
        let count = CheckCount::find(name).expect("a count");
        baseline.value_limit(count).expect("runs")
    }

    #[test]
    fn limit_of_program_count_ignores_chance() {
        assert_eq!(limit("connections", &[1]), 1.0);
        assert_eq!(limit("connections", &[4, 4, 6]), 8.0);
    }

    #[test]
    fn limit_of_machine_count_includes_chance() {
        let (one, five) = (limit("retransmits", &[0]), limit("retransmits", &[0; 5]));
        assert!((one - 11.33).abs() < 0.01, "{one}");
        assert!((five - one / 5.0).abs() < 1e-9, "{five}");
        assert_eq!(limit("retransmits", &[0, 100]), 200.0);
    }

    #[test]
    fn ratio_is_stored_with_both_numbers() {
        let values = [
            CountValue { events: 7, per: 2 },
            CountValue { events: 4, per: 0 },
        ];
        let kept = BaselineCount::new(&values);
        assert_eq!(kept.per, [2, 0]);
        assert_eq!(kept.values(), values[..1]);
        assert_eq!(
            BaselineCount::default().value_limit(&super::super::COUNTS[0]),
            None
        );
    }
}
