//! A reader of RFC 4180 reads written CSV back unchanged.

use proptest::prelude::*;
use serde_json::json;
use table::manifest::Header;
use table::tables::{Process, Processes};
use table::{Columns, Recording, Table, WriteOptions, Writer};
use whylat_view::{CsvText, write_csv};

/// A field as it was read: absent ones are those that are empty without quotes.
type Cell = Option<String>;

/// The records of a text by the grammar of RFC 4180, section 2; lines end with LF.
fn records(text: &str) -> Vec<Vec<Cell>> {
    let (mut records, mut record) = (Vec::new(), Vec::new());
    let mut chars = text.chars().peekable();
    while chars.peek().is_some() {
        let mut field = None;
        if chars.next_if_eq(&'"').is_some() {
            let quoted = field.insert(String::new());
            loop {
                match chars.next().expect("a quoted field that ends") {
                    '"' if chars.next_if_eq(&'"').is_none() => break,
                    c => quoted.push(c),
                }
            }
        } else {
            while let Some(c) = chars.next_if(|c| !matches!(c, ',' | '\n')) {
                assert!(c != '"' && c != '\r', "{c:?} must be quoted");
                field.get_or_insert_with(String::new).push(c);
            }
        }
        record.push(field);
        if chars.next().expect("a line that ends") == '\n' {
            records.push(std::mem::take(&mut record));
        }
    }
    records
}

/// Generates a row with texts that need quotes.
fn process() -> impl Strategy<Value = Process> {
    let text = || prop_oneof![any::<String>(), "[a\",\r\n]{0,6}"];
    let numbers = (any::<u32>(), any::<u64>(), any::<Option<u64>>());
    let rest = (text(), proptest::option::of(text()), any::<Option<u32>>());
    (numbers, rest).prop_map(|((pid, time_ns, started_ns), (comm, exe, uid))| Process {
        pid,
        time_ns,
        started_ns,
        comm,
        exe,
        cgroup: None,
        container: None,
        pod: None,
        pod_namespace: None,
        workload: None,
        workload_kind: None,
        workload_source: None,
        uid,
    })
}

/// Returns the cells that the row must give.
fn cells(row: &Process) -> Vec<Cell> {
    vec![
        Some(row.pid.to_string()),
        Some(row.time_ns.to_string()),
        row.started_ns.map(|it| it.to_string()),
        Some(row.comm.clone()),
        row.exe.clone(),
        row.cgroup.clone(),
        row.container.clone(),
        row.pod.clone(),
        row.pod_namespace.clone(),
        row.workload.clone(),
        row.workload_kind.map(|it| it.name().to_owned()),
        row.workload_source.map(|it| it.name().to_owned()),
        row.uid.map(|it| it.to_string()),
    ]
}

/// Writes a recording of these rows.
fn recording(dir: &std::path::Path, rows: &[Process]) -> Recording {
    let header: Header = serde_json::from_value(json!({
        "format": 1, "whylat": "", "host": "", "boot_id": "", "kernel": "", "cpus": 1, "clocksource": "",
        "detail": "", "arguments": [], "started_ns": 0, "started_realtime_ns": 0, "jiffy_ns": null,
    }))
    .expect("a header");
    let mut writer = Writer::create(dir, &header, WriteOptions::default()).expect("create");
    let mut columns = Processes::default();
    rows.iter().for_each(|row| columns.push(row.clone()));
    writer.append(columns).expect("append");
    writer.close(1).expect("close");
    Recording::open(dir).expect("open")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rows_are_read_back_unchanged(rows in prop::collection::vec(process(), 1..20)) {
        let scratch = tempfile::tempdir().expect("a directory");
        let recording = recording(&scratch.path().join("r.whylat"), &rows);
        let mut out = Vec::new();
        write_csv(&recording, "processes", CsvText::Exact, &mut out).expect("memory");
        let read = records(&String::from_utf8(out).expect("text"));
        let names = Process::FIELDS.iter().map(|field| Some(field.name.to_owned()));
        prop_assert_eq!(&read[0], &names.collect::<Vec<_>>());
        let expected: Vec<_> = rows.iter().map(cells).collect();
        prop_assert_eq!(&read[1..], &expected[..]);
    }
}

#[test]
fn missing_table_is_not_written() {
    let scratch = tempfile::tempdir().expect("a directory");
    let recording = recording(&scratch.path().join("r.whylat"), &[]);
    for name in ["waits", "nonsense", ""] {
        let mut out = Vec::new();
        write_csv(&recording, name, CsvText::Exact, &mut out).expect("memory");
        assert_eq!(out, b"");
    }
}
