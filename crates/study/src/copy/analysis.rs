//! The published study's questions, answered from the results; where these do not suffice, the answer says what is missing.

mod beside;
mod costs;
mod crossings;
mod matrix;
mod path;
mod threads;

use std::collections::BTreeMap;

use super::csv::ResultRow;
use super::doc::{TextBlock, table};
use super::journal::{CopyCost, JournalEntry, StudyJournal, StudyPlan};

/// Holds what is known beside the results themselves; all of it is lacking where only a file of results is read.
#[derive(Debug, Default)]
pub(super) struct AnalysisExtras {
    pub(super) study: Option<StudyPlan>,
    pub(super) costs: Vec<CopyCost>,
    /// By size: throughput of A1 over that of A1 again, of each pair.
    pub(super) noise: BTreeMap<usize, Vec<f64>>,
    /// A1's throughput and iperf3's, Gbit/s.
    pub(super) peers: Vec<(f64, f64)>,
    /// Why counters are missing, by name.
    pub(super) missing: BTreeMap<String, String>,
}

impl AnalysisExtras {
    /// Of a journal.
    pub(super) fn from_journal(journal: &StudyJournal) -> Self {
        let mut extras = Self::default();
        let mut firsts = BTreeMap::new();
        for entry in &journal.entries {
            match entry {
                JournalEntry::Study(study) => extras.study = Some(study.clone()),
                JournalEntry::Cost(cost) => extras.costs.push(cost.clone()),
                JournalEntry::Peer {
                    iperf3_gbps, gbps, ..
                } => extras.peers.push((*gbps, *iperf3_gbps)),
                JournalEntry::Noise {
                    config,
                    repetition,
                    second,
                    figures,
                } => {
                    let Some(gbps) = figures.get("throughput") else {
                        continue;
                    };
                    if *second {
                        let first = firsts.remove(&(config.size, *repetition));
                        let ratio = first.map(|first: f64| first / gbps);
                        extras.noise.entry(config.size).or_default().extend(ratio);
                    } else {
                        firsts.insert((config.size, *repetition), gbps);
                    }
                }
                JournalEntry::Run { figures, .. } => extras.missing.extend(figures.missing.clone()),
                JournalEntry::Skipped { .. } | JournalEntry::Diagnosis { .. } => {}
            }
        }
        extras
    }

    fn cost(&self, name: &str, bytes: usize) -> Option<&CopyCost> {
        let mut costs = self.costs.iter();
        costs.find(|cost| cost.name == name && cost.bytes == bytes)
    }

    /// By what factor two runs of a size that differ in nothing differed at most.
    fn noise_at(&self, size: usize) -> Option<f64> {
        let ratios = self.noise.get(&size)?.iter();
        ratios
            .map(|ratio| ratio.max(1.0 / ratio))
            .max_by(f64::total_cmp)
    }
}

/// Returns all answers.
pub(super) fn answers(rows: &[ResultRow], extras: &AnalysisExtras) -> Vec<TextBlock> {
    let mut all = matrix::setting(rows, extras);
    all.extend(matrix::results(rows));
    all.extend(path::copies(rows, extras));
    all.extend(path::zero_copy(rows));
    all.extend(crossings::why_not_always(rows, extras));
    all.extend(threads::caches(rows, extras));
    all.extend(threads::contention(rows, extras));
    all.extend(crossings::crossovers(rows));
    all.extend(crossings::surprise(rows, extras));
    all.extend(costs::beside_estimates(extras));
    all.extend(matrix::beyond(rows));
    all.extend(beside::beside_published(rows, extras));
    all.extend(matrix::reasons(rows));
    all
}

/// Returns the row of a configuration.
fn row<'a>(
    rows: &'a [ResultRow],
    variant: &str,
    size: usize,
    threads: usize,
) -> Option<&'a ResultRow> {
    let mut all = rows.iter();
    all.find(|row| row.variant == variant && row.size == size && row.threads == threads)
}

/// Returns the values that occur, in order.
fn distinct(values: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

fn sizes(rows: &[ResultRow]) -> Vec<usize> {
    distinct(rows.iter().map(|row| row.size))
}

fn thread_counts(rows: &[ResultRow]) -> Vec<usize> {
    distinct(rows.iter().map(|row| row.threads))
}

/// Returns the variants in the order of the results.
fn variants(rows: &[ResultRow]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.variant.as_str()) {
            names.push(&row.variant);
        }
    }
    names
}

fn heading(text: &str) -> TextBlock {
    TextBlock::Heading(text.to_owned())
}

fn paragraph(text: impl Into<String>) -> TextBlock {
    TextBlock::Paragraph(text.into())
}

fn two_columns(head: [&str; 2], rows: Vec<[String; 2]>) -> TextBlock {
    table(head, rows)
}
