//! The results so far, a line of JSON each, written at once: a study that was interrupted is
//! gone on with from here.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::figures::RunFigures;
use super::matrix::RunConfig;
use lab::LabError;

/// Its name in the study's directory.
const NAME: &str = "runs.jsonl";

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum JournalEntry {
    /// The plan and the machine; the first line.
    Study(StudyPlan),
    /// One repetition of a configuration.
    Run {
        #[serde(flatten)]
        config: RunConfig,
        repetition: usize,
        #[serde(flatten)]
        figures: RunFigures,
    },
    /// One of two runs that differ in nothing.
    Noise {
        #[serde(flatten)]
        config: RunConfig,
        repetition: usize,
        /// The first or the second.
        second: bool,
        #[serde(flatten)]
        figures: RunFigures,
    },
    /// Why a configuration is not measured.
    Skipped {
        #[serde(flatten)]
        config: RunConfig,
        why: String,
    },
    /// whylat's diagnosis of a configuration.
    Diagnosis {
        #[serde(flatten)]
        config: RunConfig,
        #[serde(flatten)]
        diagnosis: RunDiagnosis,
    },
    /// The duration of a step by itself.
    Cost(CopyCost),
    /// iperf3 over the same path, in turn with A1.
    Peer {
        size: usize,
        repetition: usize,
        iperf3_gbps: f64,
        gbps: f64,
    },
}

/// Plan of a study: the machine, the path, the configurations and how each is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StudyPlan {
    /// Of the journal.
    pub(super) version: u32,
    pub(super) whylat: String,
    pub(super) kernel: String,
    pub(super) cpu: String,
    pub(super) cpus: usize,
    /// `namespaces`, or the server's address.
    pub(super) path: String,
    pub(super) configs: Vec<RunConfig>,
    pub(super) repeat: usize,
    pub(super) seconds: f64,
    pub(super) warm_up: f64,
    pub(super) window: usize,
    pub(super) check_every: u64,
    pub(super) pin: bool,
    /// Of the order of the runs.
    pub(super) seed: u64,
}

/// The reason of a configuration's figures, as whylat reports it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunDiagnosis {
    /// The stage that took most time of the server's sockets, and its share of their duration.
    pub(super) stage: Option<String>,
    pub(super) stage_share: Option<f64>,
    /// The object that the server's threads waited for longest, and its share of all waiting.
    pub(super) wait: Option<String>,
    pub(super) wait_share: Option<f64>,
    /// The worst finding.
    pub(super) finding: Option<String>,
    /// Why there is no diagnosis.
    pub(super) why_not: Option<String>,
}

/// A cost that was measured by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CopyCost {
    pub(super) name: String,
    /// Bytes that it is about.
    pub(super) bytes: usize,
    /// Median, and 95 % interval.
    pub(super) ns: f64,
    pub(super) ns_lo: Option<f64>,
    pub(super) ns_hi: Option<f64>,
}

/// The journal of a study, and what it holds.
pub(super) struct StudyJournal {
    path: PathBuf,
    file: File,
    pub(super) entries: Vec<JournalEntry>,
}

impl StudyJournal {
    /// Begins a journal in a new directory.
    ///
    /// # Errors
    /// When the directory is there already, or cannot be made.
    pub(super) fn create(directory: &Path, study: StudyPlan) -> Result<Self, LabError> {
        let hint = "choose another directory with -o, or go on with that study: --resume DIR";
        let failed = |why| LabError::os("make", directory.display().to_string(), why, hint);
        std::fs::create_dir(directory).map_err(failed)?;
        let path = directory.join(NAME);
        let file = File::create_new(&path).map_err(failed)?;
        let mut journal = Self {
            path,
            file,
            entries: Vec::new(),
        };
        journal.add(JournalEntry::Study(study))?;
        Ok(journal)
    }

    /// Continues a journal, without an incomplete last line.
    ///
    /// # Errors
    /// When there is none, or a line is none of ours.
    pub(super) fn resume(directory: &Path) -> Result<Self, LabError> {
        let path = directory.join(NAME);
        let hint = "name the directory of a study: the one with runs.jsonl";
        let failed = |why| LabError::os("read", path.display().to_string(), why, hint);
        let (entries, whole) = read(&path).map_err(failed)?;
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.map_err(failed)?;
        file.set_len(whole).map_err(failed)?;
        Ok(Self {
            path,
            file,
            entries,
        })
    }

    /// Writes an entry as a line.
    pub(super) fn add(&mut self, entry: JournalEntry) -> Result<(), LabError> {
        let hint = "free space, then go on with: whylat lab copy --resume DIR";
        let failed = |why| LabError::os("write", self.path.display().to_string(), why, hint);
        let mut line = serde_json::to_vec(&entry)
            .map_err(io::Error::from)
            .map_err(failed)?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(failed)?;
        self.entries.push(entry);
        Ok(())
    }

    /// Returns the plan of the study.
    ///
    /// # Errors
    /// When the journal does not begin with it.
    pub(super) fn study(&self) -> Result<&StudyPlan, LabError> {
        match self.entries.first() {
            Some(JournalEntry::Study(study)) => Ok(study),
            _ => Err(LabError::os(
                "read",
                self.path.display().to_string(),
                io::Error::other("it does not begin with what is studied"),
                "begin a new study",
            )),
        }
    }

    /// Returns repetitions of a configuration.
    pub(super) fn runs(&self, of: RunConfig) -> impl Iterator<Item = &RunFigures> {
        self.entries.iter().filter_map(move |entry| match entry {
            JournalEntry::Run {
                config, figures, ..
            } if *config == of => Some(figures),
            _ => None,
        })
    }

    /// Returns why a configuration is not measured.
    pub(super) fn skip_reason(&self, of: RunConfig) -> Option<&str> {
        self.entries.iter().find_map(|entry| match entry {
            JournalEntry::Skipped { config, why } if *config == of => Some(why.as_str()),
            _ => None,
        })
    }

    /// Returns the diagnosis of a configuration.
    pub(super) fn diagnosis(&self, of: RunConfig) -> Option<&RunDiagnosis> {
        self.entries.iter().find_map(|entry| match entry {
            JournalEntry::Diagnosis { config, diagnosis } if *config == of => Some(diagnosis),
            _ => None,
        })
    }
}

/// Returns entries of a journal, and the bytes of its whole lines.
fn read(path: &Path) -> io::Result<(Vec<JournalEntry>, u64)> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut entries, mut whole) = (Vec::new(), 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok((entries, whole));
        }
        entries.push(serde_json::from_slice(&line)?);
        whole += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::matrix::{ALL, configs};
    use super::*;

    /// Makes the plan of a small study.
    fn study() -> StudyPlan {
        StudyPlan {
            version: 1,
            whylat: "0".to_owned(),
            kernel: "6.18".to_owned(),
            cpu: "x".to_owned(),
            cpus: 2,
            path: "namespaces".to_owned(),
            configs: configs(&ALL[..2], &[64], &[1, 2]),
            repeat: 3,
            seconds: 0.5,
            warm_up: 0.1,
            window: 1,
            check_every: 64,
            pin: false,
            seed: 7,
        }
    }

    #[test]
    fn cut_journal_resumes() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("study");
        let config = study().configs[1];
        let run = JournalEntry::Run {
            config,
            repetition: 2,
            figures: RunFigures {
                figures: [("throughput".to_owned(), 1.25)].into(),
                missing: [("cycles".to_owned(), "not supported".to_owned())].into(),
            },
        };
        let mut journal = StudyJournal::create(&directory, study()).unwrap();
        journal.add(run.clone()).unwrap();
        let again = StudyJournal::create(&directory, study())
            .map(|_| ())
            .unwrap_err();
        assert!(again.to_string().contains("hint: "), "{again}");
        let mut file = OpenOptions::new()
            .append(true)
            .open(directory.join(NAME))
            .unwrap();
        file.write_all(b"{\"kind\":\"run\",\"im").unwrap();
        let mut journal = StudyJournal::resume(&directory).unwrap();
        assert_eq!(journal.entries, [JournalEntry::Study(study()), run.clone()]);
        journal.add(run).unwrap();
        let journal = StudyJournal::resume(&directory).unwrap();
        assert_eq!(journal.runs(config).count(), 2);
        assert_eq!(journal.runs(study().configs[0]).count(), 0);
        assert_eq!(journal.study().unwrap(), &study());
    }
}
