//! The study's course: costs, noise, every configuration in an order by chance, again and again, and what whylat says
//! of each. What the journal holds already is not measured again.

use std::time::{Duration, Instant};

use super::bed::{RunOutcome, TestBed};
use super::journal::{JournalEntry, StudyJournal};
use super::matrix::{RunConfig, SendVariant, shuffle};
use super::options::RunOptions;
use super::{costs, diagnosis, peer};
use lab::LabError;
use lab::Random;

/// Least number of pairs of equal runs: their differences show the noise.
const NOISE_PAIRS: usize = 3;
/// A recording that is diagnosed is of so many seconds at most.
const RECORDED_S: f64 = 1.0;

/// Runs beside the matrix of configurations that the user asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExtraRuns {
    pub(super) diagnosis: bool,
    pub(super) peer: bool,
}

/// Measures all runs that the journal does not have.
///
/// # Errors
/// When a run fails; what was measured before stays in the journal.
pub(super) fn measure_study(
    journal: &mut StudyJournal,
    bed: &TestBed,
    also: ExtraRuns,
) -> Result<(), LabError> {
    let study = journal.study()?.clone();
    let how = RunOptions {
        seconds: study.seconds,
        warm_up: study.warm_up,
        window: study.window,
        check_every: study.check_every,
        pin: study.pin,
    };
    if !journal
        .entries
        .iter()
        .any(|entry| matches!(entry, JournalEntry::Cost(_)))
    {
        eprintln!("costs by themselves");
        let mut sizes: Vec<usize> = study.configs.iter().map(|config| config.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for cost in costs::measure_costs(&sizes)? {
            journal.add(JournalEntry::Cost(cost))?;
        }
    }
    measure_noise(journal, bed, &how, &study.configs, study.repeat)?;
    if also.peer {
        peer::measure_peer(journal, bed, &how, study.repeat)?;
    }
    let mut left = Vec::new();
    for repetition in 0..study.repeat {
        let mut configs = study.configs.clone();
        shuffle(
            &mut configs,
            &mut Random::new(study.seed.wrapping_add(repetition as u64)),
        );
        left.extend(configs.into_iter().map(|config| (repetition, config)));
    }
    left.retain(|(repetition, config)| !is_done(journal, *config, *repetition));
    let mut progress = StudyProgress::new(left.len(), how.seconds + how.warm_up);
    for (repetition, config) in left {
        progress.next(config);
        if journal.skip_reason(config).is_some() {
            continue;
        }
        journal.add(match bed.run(config, &how)? {
            RunOutcome::Measured(figures) => JournalEntry::Run {
                config,
                repetition,
                figures,
            },
            RunOutcome::Skipped(why) => JournalEntry::Skipped { config, why },
        })?;
    }
    if also.diagnosis {
        diagnose(journal, bed, &how, &study.configs)?;
    }
    Ok(())
}

/// Returns whether an earlier run of the study has this round already.
fn is_done(journal: &StudyJournal, of: RunConfig, which: usize) -> bool {
    journal.entries.iter().any(|entry| match entry {
        JournalEntry::Run {
            config, repetition, ..
        } => *config == of && *repetition == which,
        JournalEntry::Skipped { config, .. } => *config == of,
        _ => false,
    })
}

/// Measures variant A1 twice at each size, in turn, to see the noise.
fn measure_noise(
    journal: &mut StudyJournal,
    bed: &TestBed,
    how: &RunOptions,
    configs: &[RunConfig],
    repeat: usize,
) -> Result<(), LabError> {
    let mut seen: Vec<RunConfig> = Vec::new();
    for config in configs {
        let config = RunConfig {
            variant: SendVariant::Send,
            ..*config
        };
        if !seen.iter().any(|other| other.size == config.size) {
            seen.push(config);
        }
    }
    for repetition in 0..repeat.max(NOISE_PAIRS) {
        for &config in &seen {
            for second in [false, true] {
                let wanted = (config, repetition, second);
                let is_there = journal.entries.iter().any(|entry| match entry {
                    JournalEntry::Noise {
                        config,
                        repetition,
                        second,
                        ..
                    } => (*config, *repetition, *second) == wanted,
                    _ => false,
                });
                if is_there {
                    continue;
                }
                eprintln!("noise: A1 against itself, {} bytes", config.size);
                if let RunOutcome::Measured(figures) = bed.run(config, how)? {
                    journal.add(JournalEntry::Noise {
                        config,
                        repetition,
                        second,
                        figures,
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// Records each measured configuration once more, and diagnoses it.
fn diagnose(
    journal: &mut StudyJournal,
    bed: &TestBed,
    how: &RunOptions,
    configs: &[RunConfig],
) -> Result<(), LabError> {
    let how = RunOptions {
        seconds: how.seconds.min(RECORDED_S),
        ..how.clone()
    };
    for &config in configs {
        if journal.diagnosis(config).is_some() || journal.runs(config).next().is_none() {
            continue;
        }
        eprintln!(
            "recorded: {}, {} bytes, {} threads",
            config.variant.name(),
            config.size,
            config.threads
        );
        let diagnosis = diagnosis::diagnose(bed, config, &how)?;
        journal.add(JournalEntry::Diagnosis { config, diagnosis })?;
    }
    Ok(())
}

/// Progress of a study: runs that are done, and the time that the rest will take.
struct StudyProgress {
    all: usize,
    done: usize,
    begun: Instant,
    each: Duration,
}

impl StudyProgress {
    /// Begins to show progress; `seconds` is what a run may take.
    fn new(all: usize, seconds: f64) -> Self {
        Self {
            all,
            done: 0,
            begun: Instant::now(),
            each: Duration::from_secs_f64(seconds),
        }
    }

    /// Prints which run begins, and how long all may still take.
    fn next(&mut self, config: RunConfig) {
        if let Some(each) = self.begun.elapsed().checked_div(self.done as u32) {
            self.each = each;
        }
        let left = self.each * (self.all - self.done) as u32;
        self.done += 1;
        eprintln!(
            "{} of {}: {}, {} bytes, {} threads; about {} s left",
            self.done,
            self.all,
            config.variant.name(),
            config.size,
            config.threads,
            left.as_secs()
        );
    }
}
