//! Recordings as the program reads them.

use std::path::{Path, PathBuf};

use table::tables::TcpStage;

use super::*;

/// Makes a recording from the golden one of this name; `tables`: with its rows.
pub(crate) fn golden(case: &str, tables: bool, scratch: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let fixture = tempfile::tempdir_in(scratch).expect("a directory");
    let files = table::text_files(from.join(case)).expect("listed");
    for (name, path) in files {
        if tables || name.ends_with(".json") {
            std::fs::copy(path, fixture.path().join(name)).expect("copied");
        }
    }
    let path = scratch.join(format!("{tables}.whylat"));
    table::write_fixture(fixture.path(), &path).expect("written");
    path
}

#[test]
fn damaged_recording_answer_starts_with_warning() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = golden("slow_reader/fires", true, scratch.path());
    let sound = diagnose(&path, DiagnosisOptions::default()).expect("read");
    assert_eq!(sound.about.damage_warning("problem"), None);
    let rows = Recording::open(&path).expect("open").rows::<TcpStage>();
    let stages = std::fs::read_dir(path.join("tcp_stages")).expect("there");
    for file in stages.flatten() {
        std::fs::remove_file(file.path()).expect("removed");
    }
    let report = diagnose(&path, DiagnosisOptions::default()).expect("read");
    let damage = format!(
        "This recording is damaged: {rows} rows of tcp_stages are left out. The \
         diagnosis may be wrong (see \"problem\")."
    );
    assert_eq!(report.about.damage_warning("problem"), Some(damage));
    let text = view::text(&report, &view::TextOptions::default());
    let at = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words}: {text}"))
    };
    assert!(at("This recording is damaged") < at("coverage "), "{text}");
    let on = text
        .lines()
        .find(|line| line.contains("on: "))
        .expect("coverage");
    assert!(!on.contains("tcp_stages"), "{text}");
    assert!(
        text.contains(&format!("tcp_stages in part: without {rows} rows")),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&view::json(&report)).expect("JSON");
    assert_eq!(
        json["left_out"],
        serde_json::json!([{"table": "tcp_stages", "probe": "tcp_stages", "rows": rows}])
    );
}

#[test]
fn excess_connections_are_counted() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = golden("incast/fires", true, scratch.path());
    let all = diagnose(&path, DiagnosisOptions::default()).expect("read");
    let number = all.connections.len();
    assert!(number > 1 && all.connections_not_judged == 0, "{number}");
    let one = DiagnosisOptions {
        max_connections: 1,
        ..DiagnosisOptions::default()
    };
    let report = diagnose(&path, one).expect("read");
    let judged = report.connections.len();
    assert_eq!(
        (judged, report.connections_not_judged),
        (1, number as u64 - 1)
    );
    let text = view::text(&report, &view::TextOptions::default());
    let sentence = format!("whylat judged the {judged} longest of {number} connections");
    assert!(text.contains(&sentence), "{text}");
}

/// Golden answers are made by the tests of `view`: what the program prints must be the same.
#[test]
fn program_matches_golden_answers() {
    let scratch = tempfile::tempdir().expect("a directory");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let made = |text: &str| {
        let path = scratch
            .path()
            .join(format!("{}.whylat", text.replace('/', "-")));
        table::write_fixture(root.join(text), &path).expect("written");
        path
    };
    let expected = |file: &str| std::fs::read_to_string(root.join(file)).expect("an answer");
    let options = view::TextOptions::default();
    for case in [
        "slow_reader/fires",
        "incast/fires",
        "nagle_delayed_ack/fires",
        "report/not_closed",
    ] {
        let report = diagnose(
            &made(&format!("golden/{case}")),
            DiagnosisOptions::default(),
        )
        .expect("read");
        assert_eq!(
            view::text(&report, &options),
            expected(&format!("golden/{case}/expected.txt"))
        );
    }
    let path = made("golden_waits/recording");
    let report = waits(&path, Grouping::Object, WaitFilter::default(), 10).expect("read");
    assert_eq!(
        view::waits_text(&report, &options),
        expected("golden_waits/object.txt")
    );
    let path = made("golden_messages/recording");
    let report = messages(&path, 10).expect("read");
    assert_eq!(
        view::messages_text(&report, &options),
        expected("golden_messages/messages.txt")
    );
    let story = message(&path, "1:r50256".parse().expect("an id")).expect("read");
    assert_eq!(
        view::message_text(&story, &options),
        expected("golden_messages/message_received.txt")
    );
}
