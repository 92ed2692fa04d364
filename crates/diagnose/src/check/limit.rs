//! `--limit NAME=VALUE`: the most that a run may have of something.

use std::fmt;
use std::str::FromStr;

use table::Stage;

use super::count::{COUNTS, CheckCount, CheckedRecording};
use crate::report::{Finding, RuleId, Severity};
use crate::units::ratio_of;

/// Prefix of the names of stages.
const SHARE: &str = "share.";

/// The subject of a limit.
#[derive(Clone, Copy)]
enum LimitSubject {
    Count(&'static CheckCount),
    /// Findings of a rule above information.
    Rule(RuleId),
    /// Share of the judged time of all connections in a stage, 0–1.
    Share(Stage),
}

/// The most that a run may have of something.
#[derive(Clone)]
pub struct CheckLimit {
    subject: LimitSubject,
    /// Its name as the user gave it.
    pub name: String,
    /// The most.
    pub most: f64,
}

impl fmt::Debug for CheckLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.most)
    }
}

impl FromStr for CheckLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| format!("{text} is not NAME=VALUE, such as connections=10"))?;
        let most: f64 = value
            .parse()
            .map_err(|_| format!("{value} is not a number"))?;
        if !most.is_finite() || most < 0.0 {
            return Err(format!("{value} is not a number of 0 or more"));
        }
        Ok(Self {
            subject: parse_subject(name)?,
            name: name.to_owned(),
            most,
        })
    }
}

/// Reads what a limit is about: the share of a stage, a count, or a rule's share.
fn parse_subject(name: &str) -> Result<LimitSubject, String> {
    if let Some(stage) = name.strip_prefix(SHARE) {
        let mut stages = Stage::ALL.iter();
        let found = stages.find(|it| it.name() == stage);
        return found.map(|it| LimitSubject::Share(*it)).ok_or_else(|| {
            let names: Vec<_> = Stage::ALL.iter().map(|it| it.name()).collect();
            format!("there is no stage {stage}; stages: {}", names.join(", "))
        });
    }
    let rule = RuleId::ALL.iter().find(|it| it.name() == name);
    let count = CheckCount::find(name).map(LimitSubject::Count);
    count
        .or(rule.map(|it| LimitSubject::Rule(*it)))
        .ok_or_else(|| {
            let names: Vec<_> = COUNTS.iter().map(|it| it.name).collect();
            format!(
                "there is no count or rule {name}; counts: {}; rules: docs/findings; shares: share.STAGE",
                names.join(", ")
            )
        })
}

impl CheckLimit {
    /// Returns the value of a run; `None`: its recording does not have it.
    pub fn read_from(&self, run: &CheckedRecording<'_>) -> Option<f64> {
        match self.subject {
            LimitSubject::Count(count) => count.read_from(run).map(|it| it.value()),
            LimitSubject::Rule(rule) => {
                let is_it = |it: &&Finding| it.rule == rule && it.severity > Severity::Info;
                Some(run.report.findings.iter().filter(is_it).count() as f64)
            }
            LimitSubject::Share(stage) => {
                let connections = &run.report.connections;
                let ns = |stage| {
                    connections
                        .iter()
                        .map(|it| it.stages.stage_ns(stage))
                        .sum::<u64>()
                };
                let all_ns = Stage::ALL.iter().map(|it| ns(*it)).sum();
                (all_ns > 0).then(|| ratio_of(ns(stage), all_ns))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_counts_rules_and_stages_are_known() {
        for text in ["connections=3", "serial_round_trips=0", "share.nagle=0.05"] {
            let limit: CheckLimit = text.parse().expect(text);
            assert_eq!(format!("{limit:?}"), text);
        }
        for text in [
            "connections",
            "nothing=1",
            "share.nothing=1",
            "connections=x",
            "connections=-1",
            "calls=NaN",
        ] {
            assert!(text.parse::<CheckLimit>().is_err(), "{text}");
        }
    }
}
