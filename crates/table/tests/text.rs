//! Recordings as text, folding of connections, and the generated reference page.

mod common;

use std::fs;
use std::path::Path;

use common::{Random, header, rows};
use whylat_table::manifest::{Line, Loss};
use whylat_table::tables::{Connection, Connections, TcpEvent};
use whylat_table::{
    Columns, Recording, TcpEventKind, fleet_reference, fold_connections, reference,
    rows_from_jsonl, text_files, validate, write_fixture,
};

#[test]
fn the_reference_pages_are_up_to_date() {
    for (file, expected, arguments) in [
        ("docs/tables.md", reference(), ""),
        ("docs/fleet/tables.md", fleet_reference(), " -- fleet"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(file);
        let page = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == expected,
            "{file} differs from the declarations\nhint: cargo run --release -p whylat-table \
             --example reference{arguments} > {file}"
        );
    }
}

/// A folder of text with a header and two events.
fn folder(dir: &Path) {
    let json = |name: &str, text: String| fs::write(dir.join(name), text).expect("write");
    json(
        "header.json",
        serde_json::to_string(&header()).expect("header"),
    );
    let loss = [Loss {
        probe: "tcp_events".to_owned(),
        produced: 2,
        stored: 2,
        ..Loss::default()
    }];
    json("loss.json", serde_json::to_string(&loss).expect("loss"));
    let coverage = r#"[{"probe":"calls","state":"off","why":"no BTF","remedy":""}]"#;
    json("coverage.json", coverage.to_owned());
    json(
        "tcp_events.jsonl",
        "{\"conn\":1,\"time_ns\":1500,\"kind\":\"state\",\"old\":2,\"new\":1}\n\n\
         {\"conn\":1,\"time_ns\":1700,\"kind\":\"spurious\"}\n"
            .to_owned(),
    );
}

#[test]
fn a_folder_of_text_becomes_a_recording() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let (text, dir) = (
        temporary.path().join("text"),
        temporary.path().join("r.whylat"),
    );
    fs::create_dir(&text).expect("create");
    folder(&text);
    write_fixture(&text, &dir).expect("fixture");
    assert_eq!(validate(&dir).expect("opens"), []);
    let recording = Recording::open(&dir).expect("open");
    let events = recording.read_all::<TcpEvent>();
    assert_eq!(events.kind, [TcpEventKind::State, TcpEventKind::Spurious]);
    assert_eq!(events.new, [Some(1), None]);
    assert_eq!(recording.header(), &header());
    assert_eq!(recording.coverage().len(), 1);
    assert_eq!(
        recording
            .closed()
            .map(|close| (close.ended_ns, close.in_order)),
        Some((1_700, true))
    );

    fs::write(text.join("close.json"), "null").expect("write");
    let open = temporary.path().join("open.whylat");
    write_fixture(&text, &open).expect("fixture");
    let recording = Recording::open(&open).expect("open");
    assert_eq!(recording.closed(), None);
    assert_eq!(recording.rows::<TcpEvent>(), 2);
    assert!(!recording.is_live());
}

#[test]
fn a_misspelt_folder_of_text_is_refused() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let text = temporary.path().join("text");
    fs::create_dir(&text).expect("create");
    let refused = |out: &str| {
        let error = write_fixture(&text, temporary.path().join(out)).expect_err("refused");
        error.to_string()
    };
    assert!(refused("a").contains("header.json"));
    folder(&text);
    fs::write(text.join("call.jsonl"), "").expect("write");
    assert!(refused("b").contains("call.jsonl is no part"));
    fs::remove_file(text.join("call.jsonl")).expect("remove");
    fs::write(text.join("calls.jsonl"), "\n{\"conn\":1,\"typo\":2}\n").expect("write");
    let message = refused("c");
    assert!(
        message.contains("calls.jsonl line 2") && message.contains("typo"),
        "{message}"
    );
}

#[test]
fn folding_keeps_what_is_known() {
    let base = r#""netns":1,"local":"a","remote":"b","chosen":"target""#;
    let text = format!(
        "{{\"conn\":1,\"time_ns\":10,\"role\":\"unknown\",\"opened_ns\":5,\"mss_bytes\":536,{base}}}\n\
         {{\"conn\":2,\"time_ns\":11,\"role\":\"server\",{base}}}\n\
         {{\"conn\":1,\"time_ns\":30,\"role\":\"client\",\"closed_ns\":29,\"mss_bytes\":1448,{base}}}\n\
         {{\"conn\":1,\"time_ns\":20,\"role\":\"unknown\",\"pid\":77,\"mss_bytes\":1000,{base}}}\n"
    );
    let rows = rows_from_jsonl::<Connection>(&text).expect("rows");
    let folded = fold_connections(rows);
    assert_eq!(folded.conn, [1, 2]);
    let first = folded.row(0);
    assert_eq!(first.role.name(), "client");
    assert_eq!((first.opened_ns, first.closed_ns), (Some(5), Some(29)));
    assert_eq!(
        (first.pid, first.mss_bytes, first.time_ns),
        (Some(77), Some(1_448), 30)
    );
    assert_eq!(fold_connections(folded.clone()), folded);
    assert_eq!(fold_connections(Connections::default()).len(), 0);
}

/// Folding does not depend on how often it is done on the way.
#[test]
fn folding_in_parts_is_folding_at_once() {
    let mut random = Random::new(9);
    let mut all = rows::<Connection>(&mut random, 500);
    all.conn.iter_mut().for_each(|conn| *conn %= 13);
    for (index, time_ns) in all.time_ns.iter_mut().enumerate() {
        *time_ns = index as u64;
    }
    let at_once = fold_connections(all.clone());
    let mut in_parts = Connections::default();
    for index in 0..all.len() {
        in_parts.push(all.row(index));
        if index % 37 == 0 {
            in_parts = fold_connections(in_parts);
        }
    }
    assert_eq!(fold_connections(in_parts), at_once);
}

#[test]
fn a_line_in_the_manifest_is_json_of_its_own() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let (text, dir) = (
        temporary.path().join("text"),
        temporary.path().join("r.whylat"),
    );
    fs::create_dir(&text).expect("create");
    folder(&text);
    write_fixture(&text, &dir).expect("fixture");
    let manifest = fs::read_to_string(dir.join("manifest.jsonl")).expect("read");
    for line in manifest.lines() {
        let mut value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let members = value.as_object_mut().expect("an object");
        assert!(members.remove("check").is_some(), "{line}");
        serde_json::from_value::<Line>(value).expect("a line");
    }
}

#[test]
fn folder_inherits_missing_files() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let folder_of = |name: &str| {
        let path = temporary.path().join(name);
        fs::create_dir(&path).expect("create");
        path
    };
    let (parent, child) = (folder_of("parent"), folder_of("child"));
    folder(&parent);
    let write = |name: &str, text: &str| fs::write(child.join(name), text).expect("write");
    write(
        "inherits.txt",
        "# as its parent, left open\n- cost.json\n../parent\n",
    );
    write("close.json", "null");
    write("expected.json", "{}");
    let files = text_files(&child).expect("files");
    assert_eq!(files["close.json"], child.join("close.json"));
    assert_eq!(files["header.json"], child.join("../parent/header.json"));
    assert!(!files.contains_key("cost.json") && !files.contains_key("inherits.txt"));
    let dir = temporary.path().join("r.whylat");
    write_fixture(&child, &dir).expect("fixture");
    let recording = Recording::open(&dir).expect("open");
    assert_eq!(recording.header(), &header());
    assert_eq!(recording.closed(), None);
    assert_eq!(recording.rows::<TcpEvent>(), 2);

    let refused = |line: &str| {
        write("inherits.txt", line);
        write_fixture(&child, temporary.path().join("no.whylat")).expect_err("refused")
    };
    assert!(
        refused("../nobody/calls.jsonl")
            .to_string()
            .contains("nobody")
    );
    assert!(refused("../child").to_string().contains("inherits itself"));
}
