//! Whether runs of a program may pass: their counts beside those of a baseline, their findings, and limits. Comes in: the
//! recording and the diagnosis of each run; goes out: a [`CheckReport`].
//!
//! It judges what does not depend on the speed of the machine: what the program decides. Of several runs the median counts.
//!
//! ```text
//! count     what is counted in each run
//! baseline  the file to commit, and the limits that follow from it
//! limit     the user's own limits
//! report    the contract `whylat.check/1`
//! ```

pub mod baseline;
pub mod count;
pub mod limit;
pub mod report;

use std::collections::BTreeMap;

use crate::report::{Finding, RuleId, Severity};
use crate::units;
use baseline::{Baseline, BaselineCount, KnownFinding};
use count::{COUNTS, CheckCount, CheckedRecording, CountValue};
use limit::CheckLimit;
use report::{
    CheckFailure, CheckReport, CountResult, CountState, FailureKind, FindingResult, FindingVerdict,
};

/// Rules with causes outside of the program: how fast the machine is, and what else runs there.
const OF_MACHINE: &[RuleId] = &[
    RuleId::CpuContention,
    RuleId::CpuQuota,
    RuleId::SoftirqDelay,
    RuleId::MemoryStall,
    RuleId::DiskWait,
    RuleId::SlowReader,
    RuleId::Computes,
];

/// The demands on the runs.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// Runs that were right.
    pub baseline: Option<Baseline>,
    /// Rules that may be found.
    pub allowed: Vec<RuleId>,
    /// The user's own limits.
    pub limits: Vec<CheckLimit>,
}

/// Collects runs of a program, one after the other: recordings need not stay open.
#[derive(Debug)]
pub struct Check {
    options: CheckOptions,
    runs: u64,
    /// Of each of [`COUNTS`]: the value of each run that has it.
    counts: Vec<Vec<CountValue>>,
    /// Of each limit, the same.
    limited: Vec<Vec<f64>>,
    findings: BTreeMap<KnownFinding, SeenFinding>,
    could_not_see: Vec<String>,
    is_complete: bool,
}

/// A finding of a rule on a program, in all runs.
#[derive(Debug)]
struct SeenFinding {
    worst: Finding,
    runs: u64,
}

impl Check {
    /// Starts without a run.
    pub fn new(options: CheckOptions) -> Self {
        Self {
            counts: COUNTS.iter().map(|_| Vec::new()).collect(),
            limited: options.limits.iter().map(|_| Vec::new()).collect(),
            options,
            runs: 0,
            findings: BTreeMap::new(),
            could_not_see: Vec::new(),
            is_complete: true,
        }
    }

    /// Adds one recorded run to the check.
    pub fn add(&mut self, run: &CheckedRecording<'_>) {
        self.runs += 1;
        for (count, values) in COUNTS.iter().zip(&mut self.counts) {
            values.extend(count.read_from(run));
        }
        for (limit, values) in self.options.limits.iter().zip(&mut self.limited) {
            values.extend(limit.read_from(run));
        }
        if !run.report.about.is_complete() {
            self.is_complete = false;
            let text = format!(
                "Run {} is not complete: its counts are lower bounds.",
                self.runs
            );
            self.could_not_see.push(text);
        }
        let mut worst = BTreeMap::<KnownFinding, &Finding>::new();
        for finding in &run.report.findings {
            if finding.severity > Severity::Info {
                worst.entry(known_finding(finding)).or_insert(finding);
            }
        }
        for (key, finding) in worst {
            let seen = self.findings.entry(key).or_insert_with(|| SeenFinding {
                worst: finding.clone(),
                runs: 0,
            });
            seen.runs += 1;
            if finding.severity > seen.worst.severity {
                seen.worst = finding.clone();
            }
        }
    }

    /// Returns these runs as a baseline.
    pub fn to_baseline(&self, version: &str) -> Baseline {
        let counts = COUNTS.iter().zip(&self.counts);
        let counts = counts.filter(|(_, values)| !values.is_empty());
        let findings = self.findings.iter();
        let findings =
            findings.filter(|(_, seen)| self.is_in_most(seen.runs) && !is_of_machine(&seen.worst));
        Baseline {
            schema: baseline::SCHEMA.to_owned(),
            whylat: version.to_owned(),
            runs: self.runs,
            counts: counts
                .map(|(count, values)| (count.name.to_owned(), BaselineCount::new(values)))
                .collect(),
            findings: findings.map(|(key, _)| key.clone()).collect(),
        }
    }

    /// Judges the runs of a command.
    pub fn report(&self, command: Vec<String>) -> CheckReport {
        let counts = COUNTS.iter().zip(&self.counts);
        let counts: Vec<_> = counts
            .map(|(count, values)| self.compare(count, values))
            .collect();
        let findings = self.findings.iter();
        let findings: Vec<_> = findings
            .map(|(key, seen)| self.judge_finding(key, seen))
            .collect();
        let failures: Vec<_> = findings
            .iter()
            .filter_map(finding_failure)
            .chain(counts.iter().filter_map(count_failure))
            .chain(self.limit_failures())
            .collect();
        CheckReport {
            schema: report::SCHEMA,
            command,
            runs: self.runs,
            baseline_runs: self.options.baseline.as_ref().map(|it| it.runs),
            is_passed: failures.is_empty(),
            is_complete: self.is_complete,
            failures,
            could_not_see: self.could_not_see(&counts),
            counts,
            findings,
        }
    }

    /// Returns whether `runs` are more than half of all runs.
    fn is_in_most(&self, runs: u64) -> bool {
        2 * runs > self.runs
    }

    /// Compares the values of one count with its limits.
    fn compare(&self, count: &CheckCount, values: &[CountValue]) -> CountResult {
        let numbers: Vec<f64> = values.iter().map(|it| it.value()).collect();
        let median = median(&numbers);
        let kept = self.options.baseline.as_ref();
        let kept = kept.and_then(|it| it.counts.get(count.name));
        let range = kept.and_then(|it| baseline::value_range(&it.values()));
        let limit = kept.and_then(|it| it.value_limit(count));
        let state = match (median, range, limit) {
            (None, _, _) => CountState::Absent,
            (Some(median), Some((least, largest)), Some(limit)) => match () {
                () if median > limit => CountState::Worse,
                () if median < least - (largest - least) => CountState::Better,
                () => CountState::Within,
            },
            _ => CountState::New,
        };
        CountResult {
            name: count.name,
            title: count.title,
            values: numbers,
            median,
            baseline: range,
            limit,
            state,
        }
    }

    /// Decides whether a finding fails the check: not if it is allowed, known, of the machine, or
    /// rare.
    fn judge_finding(&self, key: &KnownFinding, seen: &SeenFinding) -> FindingResult {
        let worst = &seen.worst;
        let baseline = self.options.baseline.as_ref();
        let state = if self.options.allowed.contains(&worst.rule) {
            FindingVerdict::Allowed
        } else if baseline.is_some_and(|it| it.findings.contains(key)) {
            FindingVerdict::InBaseline
        } else if is_of_machine(worst) {
            FindingVerdict::DependsOnMachine
        } else if !self.is_in_most(seen.runs) {
            FindingVerdict::InFewRuns
        } else {
            FindingVerdict::Fails
        };
        FindingResult {
            rule: worst.rule,
            process: key.process.clone(),
            severity: worst.severity,
            headline: worst.headline.clone(),
            runs: seen.runs,
            advice: worst.advice.first().map(|it| it.0.to_string()),
            state,
        }
    }

    /// Returns a failure for each limit that a value exceeds.
    fn limit_failures(&self) -> impl Iterator<Item = CheckFailure> {
        let limits = self.options.limits.iter().zip(&self.limited);
        limits.filter_map(|(limit, values)| {
            let median = median(values)?;
            (median > limit.most).then(|| CheckFailure {
                kind: FailureKind::Limit,
                name: limit.name.clone(),
                text: format!(
                    "{} is {}, the limit is {}",
                    limit.name,
                    number(median),
                    number(limit.most)
                ),
                hint: format!(
                    "keep the recording and examine it, or raise --limit {}",
                    limit.name
                ),
            })
        })
    }

    /// Returns the counts that were not judged, and why.
    fn could_not_see(&self, counts: &[CountResult]) -> Vec<String> {
        let mut texts = self.could_not_see.clone();
        let kept = self.options.baseline.as_ref();
        let absent = counts.iter().filter(|it| it.state == CountState::Absent);
        let missed = absent.filter(|it| kept.is_none_or(|kept| kept.counts.contains_key(it.name)));
        let names: Vec<_> = missed.map(|it| it.name).collect();
        if !names.is_empty() {
            texts.push(format!(
                "The recordings do not have {}: without root calls are not recorded, and a program without \
                 requests has no ratio.",
                names.join(", ")
            ));
        }
        for (limit, values) in self.options.limits.iter().zip(&self.limited) {
            if values.is_empty() {
                texts.push(format!("The recordings do not have {}.", limit.name));
            }
        }
        texts
    }
}

fn known_finding(finding: &Finding) -> KnownFinding {
    KnownFinding {
        rule: finding.rule.name().to_owned(),
        process: finding
            .subject
            .process
            .as_ref()
            .and_then(|it| it.comm.clone()),
    }
}

/// Returns whether the finding depends on the machine, not on the program.
fn is_of_machine(finding: &Finding) -> bool {
    OF_MACHINE.contains(&finding.rule)
}

/// Returns the median, the lower of two; `None`: there is no value.
fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// Returns the failure that a finding is; None if it is allowed.
fn finding_failure(finding: &FindingResult) -> Option<CheckFailure> {
    (finding.state == FindingVerdict::Fails).then(|| CheckFailure {
        kind: FailureKind::Finding,
        name: finding.rule.name().to_owned(),
        text: finding.headline.clone(),
        hint: {
            let advice = finding.advice.as_deref();
            let advice = advice.unwrap_or("See its page in docs/findings");
            let advice = advice.trim_end_matches('.');
            format!("{advice}. Or let it pass: --allow {}", finding.rule)
        },
    })
}

/// Returns the failure that a count is; None if it is within its limit.
fn count_failure(count: &CountResult) -> Option<CheckFailure> {
    let (median, (least, largest), limit) = (count.median?, count.baseline?, count.limit?);
    (count.state == CountState::Worse).then(|| CheckFailure {
        kind: FailureKind::Count,
        name: count.name.to_owned(),
        text: format!(
            "{}: {}, the baseline has {}",
            count.title,
            number(median),
            interval(least, largest)
        ),
        hint: format!(
            "up to {} passes; --write-baseline after a wanted change",
            number(limit)
        ),
    })
}

/// Returns a number as text; whole numbers have no decimals.
pub fn number(value: f64) -> String {
    match value.fract() == 0.0 && value < 1e15 {
        true => units::count(value as u64),
        false if value < 100.0 => format!("{value:.2}"),
        false => units::count(value.round() as u64),
    }
}

/// Returns an interval as text, or one number if both ends are equal.
pub fn interval(least: f64, most: f64) -> String {
    match least < most {
        true => format!("{} to {}", number(least), number(most)),
        false => number(most),
    }
}
