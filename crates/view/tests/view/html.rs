//! The page of a recording holds its reports and its rows, and says what it leaves out.

use std::fs;
use std::path::{Path, PathBuf};

use diagnose::recording::{DiagnosisOptions, TailOptions};
use serde_json::json;
use table::tables::{Activity, Wait, Waits};
use table::{Columns, Recording, row_of};
use tempfile::TempDir;
use whylat_view::html::{PageSide, RecordingAnswers, html};

use crate::fixture::data::Data;
use crate::fixture::{Outcome, recording, write_rows};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

/// Makes the recording of the golden waits.
fn waits() -> Outcome<(TempDir, Recording)> {
    recording(&root().join("golden_waits/recording"))
}

/// Returns all analyses that the page shows.
fn answers(recording: &Recording) -> Outcome<RecordingAnswers> {
    let (judging, asked) = (DiagnosisOptions::default(), TailOptions::default());
    Ok(diagnose::recording::page(recording, judging, &asked)?)
}

#[test]
fn damaged_recording_page_starts_with_warning() -> Outcome {
    let (_scratch, recording) = waits()?;
    let mut answers = answers(&recording)?;
    answers.report.about.problems = vec!["r.whylat/calls/000002.parquet: missing".to_owned()];
    let side = PageSide {
        name: "r".to_owned(),
        recording: &recording,
        answers,
    };
    let data = Data::from_page(&html(&[side], None)?)?;
    let answer = data.header["sides"][0]["answer"]
        .as_str()
        .unwrap_or_default();
    let warning = "This recording is damaged. The diagnosis may be wrong (see \"Damaged\"). ";
    assert!(answer.starts_with(warning), "{answer}");
    Ok(())
}

#[test]
fn a_page_holds_reports_and_rows() -> Outcome {
    let (_scratch, recording) = waits()?;
    let answers = answers(&recording)?;
    let waits = answers.waits.as_ref().ok_or("no waits")?;
    let titles: Vec<String> = waits.groups.iter().map(|it| it.identity.title()).collect();
    let name = "</script><b>".to_owned();
    let page = html(
        &[PageSide {
            name: name.clone(),
            recording: &recording,
            answers,
        }],
        None,
    )?;
    assert!(!page.contains(&name));
    let data = Data::from_page(&page)?;
    let side = &data.header["sides"][0];
    assert_eq!(side["name"], name.as_str());
    assert_eq!(side["waits"]["schema"], "whylat.waits/1");
    let table = data.table("waits")?;
    let rows = (&table.head["rows"], &table.head["all_rows"]);
    assert_eq!(rows, (&117.into(), &117.into()));
    let starts = table.whole("start_ns")?;
    let rows = recording.read_all::<Wait>();
    let since = |ns: &u64| Some(ns.wrapping_sub(recording.header().started_ns) as i64);
    assert_eq!(starts, rows.start_ns.iter().map(since).collect::<Vec<_>>());

    // Waits have the names of the report, but for what a futex is used for.
    for word in table.words("object_name")?.into_iter().flatten() {
        assert!(
            titles.iter().any(|title| title.starts_with(&word)),
            "{word}"
        );
    }
    Ok(())
}

/// A recording of a case, with the waits, messages and spans of others.
fn joined(case: &str, waits: &str) -> Outcome<(TempDir, Recording)> {
    let text = tempfile::tempdir()?;
    let root = root().canonicalize()?;
    let inherited = [
        case,
        "golden_messages/recording",
        "golden_waits/spins",
        waits,
    ];
    let lines = inherited.map(|folder| format!("{}\n", root.join(folder).display()));
    fs::write(text.path().join("inherits.txt"), lines.concat())?;
    if waits.is_empty() {
        let mut rows = Waits::default();
        rows.push(row_of(json!({
            "start_ns": 5_000_100_000_000_u64, "woken_ns": 5_000_200_000_000_u64,
            "end_ns": 5_000_200_000_000_u64, "tid": 7, "pid": 7, "kind": "sleep",
            "waker": "interrupt", "uninterruptible": false,
        }))?);
        write_rows::<Wait>(text.path(), &rows)?;
    }
    recording(text.path())
}

/// Tables that are read once more: listening sockets, which have names and readings; the others side by side, for requests.
const OF_REQUESTS: [&str; 7] = [
    "calls",
    "listeners",
    "on_cpu_samples",
    "preemptions",
    "tcp_samples",
    "tcp_stages",
    "waits",
];

#[test]
fn page_answers_read_tables_once() -> Outcome {
    let (_scratch, recording) = joined("golden/cpu_contention/fires", "")?;
    let answers = answers(&recording)?;
    let tail = answers.tail.as_ref().ok_or("no causes")?;
    assert!(answers.waits.is_some() && answers.messages.is_some());
    assert_eq!(tail.groups.is_empty(), recording.rows::<Activity>() == 0);
    let slow = answers.report.slow_messages.as_ref();
    assert!(slow.is_some(), "the main report has slow messages");
    let reads = recording.reads();
    let is_once = |table: &str, times: u64| times == 1 + u64::from(OF_REQUESTS.contains(&table));
    let more: Vec<_> = reads
        .iter()
        .filter(|(it, times)| !is_once(it, **times))
        .collect();
    assert!(more.is_empty(), "{more:?}");
    let has_its_own = |table: &&str| reads.contains_key(table);
    let unread: Vec<_> = recording.tables().filter(|it| !has_its_own(it)).collect();
    assert_eq!(unread, Vec::<&str>::new());
    Ok(())
}

/// Tables that are read twice: see `diagnose/src/recording/pass.rs`.
#[test]
fn calls_and_waits_are_read_twice_on_demand() -> Outcome {
    let case = "golden/nagle_delayed_ack/fires";
    let (_scratch, recording) = joined(case, "golden_waits/associated")?;
    answers(&recording)?;
    let reads = recording.reads();
    let again: Vec<_> = reads.iter().filter(|(_, times)| **times > 1).collect();
    // the calls: of all, of those with delayed ACKs, beside the waits, and for requests
    let for_requests = [
        "listeners",
        "on_cpu_samples",
        "preemptions",
        "tcp_samples",
        "tcp_stages",
    ];
    let for_requests: Vec<_> = for_requests.iter().map(|table| (table, &2)).collect();
    assert_eq!(
        again,
        [&[(&"calls", &4)], &for_requests[..], &[(&"waits", &3)]].concat()
    );
    Ok(())
}
