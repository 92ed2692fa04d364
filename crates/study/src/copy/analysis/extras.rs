//! Facts beside the results.

use std::collections::BTreeMap;

use super::super::journal::{CopyCost, JournalEntry, StudyJournal, StudyPlan};

/// Plan, costs and checks of a study, beside its results. All are missing where only a file of results is read.
#[derive(Debug, Default)]
pub(in crate::copy) struct AnalysisExtras {
    pub(in crate::copy) study: Option<StudyPlan>,
    pub(in crate::copy) costs: Vec<CopyCost>,
    /// By size: throughput of A1 over that of A1 again, of each pair.
    pub(in crate::copy) noise: BTreeMap<usize, Vec<f64>>,
    /// A1's throughput and iperf3's, Gbit/s.
    pub(in crate::copy) peers: Vec<(f64, f64)>,
    /// Why counters are missing, by name.
    pub(in crate::copy) missing: BTreeMap<String, String>,
}

impl AnalysisExtras {
    /// Reads the extra measurements from a journal.
    pub(in crate::copy) fn from_journal(journal: &StudyJournal) -> Self {
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

    /// Returns the measured cost of copying so many bytes; None if it was not measured.
    pub(super) fn cost(&self, name: &str, bytes: usize) -> Option<&CopyCost> {
        let mut costs = self.costs.iter();
        costs.find(|cost| cost.name == name && cost.bytes == bytes)
    }

    /// Returns the largest factor between two equal runs of a size.
    pub(super) fn noise_at(&self, size: usize) -> Option<f64> {
        let ratios = self.noise.get(&size)?.iter();
        ratios
            .map(|ratio| ratio.max(1.0 / ratio))
            .max_by(f64::total_cmp)
    }
}
