//! The study's course: costs, noise, every configuration in an order by chance, again and again, and what whylat says
//! of each. What the journal holds already is not measured again.

use std::time::{Duration, Instant};

use super::bed::{Bed, Outcome};
use super::journal::{Entry, Journal};
use super::matrix::{Config, Variant, shuffle};
use super::options::How;
use super::{costs, diagnosis, peer};
use lab::LabError;
use lab::Random;

/// Runs of a pair whose difference is to show the noise, at least.
const NOISE_PAIRS: usize = 3;
/// A recording that is diagnosed is of so many seconds at most.
const RECORDED_S: f64 = 1.0;

/// What else is wanted besides the runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Also {
    pub(super) diagnosis: bool,
    pub(super) peer: bool,
}

/// Measures what the journal lacks.
///
/// # Errors
/// When a run fails; what was measured before stays in the journal.
pub(super) fn measure(journal: &mut Journal, bed: &Bed, also: Also) -> Result<(), LabError> {
    let study = journal.study()?.clone();
    let how = How {
        seconds: study.seconds,
        warm_up: study.warm_up,
        window: study.window,
        check_every: study.check_every,
        pin: study.pin,
    };
    if !journal
        .entries
        .iter()
        .any(|entry| matches!(entry, Entry::Cost(_)))
    {
        eprintln!("costs by themselves");
        let mut sizes: Vec<usize> = study.configs.iter().map(|config| config.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for cost in costs::measure(&sizes)? {
            journal.add(Entry::Cost(cost))?;
        }
    }
    noise(journal, bed, &how, &study.configs, study.repeat)?;
    if also.peer {
        peer::measure(journal, bed, &how, study.repeat)?;
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
    let mut progress = Progress::new(left.len(), how.seconds + how.warm_up);
    for (repetition, config) in left {
        progress.next(config);
        if journal.skipped(config).is_some() {
            continue;
        }
        journal.add(match bed.run(config, &how)? {
            Outcome::Measured(figures) => Entry::Run {
                config,
                repetition,
                figures,
            },
            Outcome::Skipped(why) => Entry::Skipped { config, why },
        })?;
    }
    if also.diagnosis {
        diagnose(journal, bed, &how, &study.configs)?;
    }
    Ok(())
}

fn is_done(journal: &Journal, of: Config, which: usize) -> bool {
    journal.entries.iter().any(|entry| match entry {
        Entry::Run {
            config, repetition, ..
        } => *config == of && *repetition == which,
        Entry::Skipped { config, .. } => *config == of,
        _ => false,
    })
}

/// A1 and A1 again, of each size, in turn.
fn noise(
    journal: &mut Journal,
    bed: &Bed,
    how: &How,
    configs: &[Config],
    repeat: usize,
) -> Result<(), LabError> {
    let mut seen: Vec<Config> = Vec::new();
    for config in configs {
        let config = Config {
            variant: Variant::Send,
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
                    Entry::Noise {
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
                if let Outcome::Measured(figures) = bed.run(config, how)? {
                    journal.add(Entry::Noise {
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

/// What whylat says of each configuration that was measured, of a run of its own.
fn diagnose(
    journal: &mut Journal,
    bed: &Bed,
    how: &How,
    configs: &[Config],
) -> Result<(), LabError> {
    let how = How {
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
        let diagnosis = diagnosis::of(bed, config, &how)?;
        journal.add(Entry::Diagnosis { config, diagnosis })?;
    }
    Ok(())
}

/// Says what is measured, and how long it will still take.
struct Progress {
    all: usize,
    done: usize,
    begun: Instant,
    each: Duration,
}

impl Progress {
    fn new(all: usize, seconds: f64) -> Self {
        Self {
            all,
            done: 0,
            begun: Instant::now(),
            each: Duration::from_secs_f64(seconds),
        }
    }

    fn next(&mut self, config: Config) {
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
