//! Captures of planted faults and of their healthy twins, by tcpdump at either end of a lossy or a slow path, or at a router
//! between: the findings are those that were planted. `crates/import/tests/captures/make` made them; each has what the lab knew.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use diagnose::recording::{DiagnosisOptions, report};
use diagnose::report::{Report, Severity};
use serde_json::Value;
use table::manifest::{CAPTURE, FORMAT, Header};
use table::{Recording, RowSet, WriteOptions, Writer};
use whylat_import::{CaptureReader, ImportError, Vantage};

/// Rules that are right about workloads, whatever fault is planted.
const OF_WORKLOADS: [&str; 2] = ["serial_round_trips", "connection_churn"];

/// A rule, and the address of the end that it speaks of.
type NamedFinding = (String, String);

/// Returns the folder of captures.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures")
}

fn header(started_ns: u64) -> Header {
    Header {
        format: FORMAT,
        whylat: String::new(),
        host: String::new(),
        boot_id: String::new(),
        kernel: String::new(),
        cpus: 0,
        architecture: None,
        clocksource: String::new(),
        detail: CAPTURE.to_owned(),
        arguments: Vec::new(),
        started_ns,
        started_realtime_ns: 0,
        jiffy_ns: None,
    }
}

/// Imports a capture, and diagnoses it.
fn diagnose(file: &Path) -> Report {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("r.whylat");
    let bytes = Box::new(File::open(file).expect("a capture"));
    let reader = CaptureReader::new([("x".to_owned(), bytes as _)]).expect("a capture");
    let (_, started_ns) = reader.started_ns();
    let options = WriteOptions::default();
    let mut writer = Writer::create(&path, &header(started_ns), options).expect("created");
    let read = reader.read(
        Vantage::Estimated,
        |rows: RowSet| -> Result<(), ImportError> {
            writer.append_all(rows).expect("appended");
            Ok(())
        },
    );
    writer
        .close(read.expect("segments").last_ns)
        .expect("closed");
    assert_eq!(table::validate(&path).expect("a recording"), []);
    let recording = Recording::open(&path).expect("a recording");
    report(&recording, DiagnosisOptions::default()).expect("a report")
}

/// Returns the findings above information.
fn found(report: &Report) -> BTreeSet<NamedFinding> {
    let findings = report.findings.iter();
    let findings = findings.filter(|it| it.severity != Severity::Info);
    let named = findings.flat_map(|finding| {
        let of = |id: &u64| report.connections.iter().find(|it| it.id == *id);
        let ends = finding.subject.ids.iter().filter_map(of);
        ends.map(|end| (finding.rule.name().to_owned(), end.local.clone()))
    });
    named
        .filter(|(rule, _)| !OF_WORKLOADS.contains(&rule.as_str()))
        .collect()
}

/// Returns the findings that were planted.
fn planted(file: &Path) -> BTreeSet<NamedFinding> {
    let truth = fs::read(file).expect("what the lab knew");
    let truth: Value = serde_json::from_slice(&truth).expect("JSON");
    let planted = truth.as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    planted
        .map(|it| (text(&it["rule"]), text(&it["local"])))
        .collect()
}

#[test]
fn captures_lead_to_what_was_planted() {
    let mut captures = 0;
    let mut wrong = Vec::new();
    let mut files: Vec<PathBuf> = fs::read_dir(folder())
        .expect("captures")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|it| it == "gz"))
        .collect();
    files.sort();
    for file in files {
        captures += 1;
        assert!(
            fs::metadata(&file).expect("a file").len() <= 60_000,
            "{}",
            file.display()
        );
        let truth = planted(&file.with_extension("").with_extension("json"));
        let found = found(&diagnose(&file));
        if found != truth {
            wrong.push(format!(
                "{}: found {found:?}, planted {truth:?}",
                file.display()
            ));
        }
    }
    assert!(captures >= 8, "{captures}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
