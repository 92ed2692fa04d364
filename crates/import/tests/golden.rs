//! Spans of Intel PT branch traces, against those that magic-trace's own tests demand.

mod common;
mod data;

use std::collections::BTreeMap;

use common::{check, rows};
use data::sample;
use table::ActivityKind;
use table::tables::Activity;

/// A span as the expected text has it: name, begin, and end where the text shows it.
type Golden = (String, u64, Option<u64>);

/// Reads `-> 21ns BEGIN name` and `-> 21ns END name` lines, the first event at 0. Times have at
/// most three digits after the point: all of them below 10 µs.
fn golden(text: &str) -> Vec<Golden> {
    let mut open: Vec<(String, u64)> = Vec::new();
    let mut spans = Vec::new();
    for line in text.lines() {
        let line = line.trim_end_matches("|}]").trim();
        let Some(rest) = line.strip_prefix("->") else {
            continue;
        };
        if let Some((time, name)) = rest.split_once(" BEGIN ") {
            open.push((name.to_owned(), ns(time.trim()).expect("a time")));
        } else if let Some((time, name)) = rest.split_once(" END ") {
            let name = name.trim();
            let is_it = |(open, _): &(String, u64)| open.split(INFERRED).next() == Some(name);
            let at = open.iter().rposition(is_it).expect("a begin");
            let (name, begin_ns) = open.remove(at);
            spans.push((name, begin_ns, ns(time.trim())));
        }
    }
    assert!(open.is_empty(), "{open:?}");
    spans.sort();
    spans
}

const INFERRED: &str = " [inferred start time]";

/// Returns a text such as `1.5us` in nanoseconds.
fn ns(time: &str) -> Option<u64> {
    let (number, unit) = match time.strip_suffix("us") {
        Some(number) => (number, 1e3),
        None => (time.strip_suffix("ns")?, 1.0),
    };
    let number: f64 = number.parse().ok()?;
    Some((number * unit).round() as u64)
}

/// Returns our rows in the form of the expected text.
fn ours(rows: &[Activity], first_ns: u64) -> Vec<Golden> {
    let mut spans: Vec<Golden> = rows
        .iter()
        .map(|row| {
            let name = row.name.clone().unwrap_or_else(|| "[unknown]".to_owned());
            let (name, end_ns) = match row.kind {
                ActivityKind::DecodeError => (format!("[decode error: {name}]"), None),
                _ if row.begin_seen => (name, Some(row.end_ns - first_ns)),
                _ => (format!("{name}{INFERRED}"), Some(row.end_ns - first_ns)),
            };
            (name, row.begin_ns - first_ns, end_ns)
        })
        .collect();
    spans.sort();
    spans
}

/// Returns the spans of a golden file; None if a line is not understood.
fn spans_of(file: &str) -> Option<Vec<Golden>> {
    let imported = whylat_import::read_perf(&sample(file)?).expect("a branch trace");
    check(&imported);
    let rows = rows(&imported);
    let first_ns = rows.iter().map(|row| row.begin_ns).min().expect("rows");
    Some(ours(&rows, first_ns))
}

/// Returns spans that only one list has, with their number.
fn difference(ours: &[Golden], golden: &[Golden]) -> BTreeMap<Golden, i32> {
    let mut counts = BTreeMap::new();
    for (spans, sign) in [(ours, 1), (golden, -1)] {
        for span in spans {
            *counts.entry(span.clone()).or_insert(0) += sign;
        }
    }
    counts.retain(|_, count| *count != 0);
    counts
}

#[test]
fn kernel_page_fault_matches_magic_trace() {
    let Some(expected) = sample("magic-trace/page_fault.expected-spans.txt") else {
        return;
    };
    let expected = golden(std::str::from_utf8(&expected).expect("text"));
    let Some(ours) = spans_of("magic-trace/page_fault.perf") else {
        return;
    };
    assert_eq!(difference(&ours, &expected), BTreeMap::new());
}

#[test]
fn decode_errors_match_magic_trace() {
    let Some(expected) = sample("magic-trace/decode_errors.expected-spans.txt") else {
        return;
    };
    let text = String::from_utf8(expected).expect("text");
    // The text of the first trace ends where its test does.
    let (memmove, btree) = text.split_once("|}]").expect("two traces");
    for (file, expected) in [
        ("magic-trace/memmove_decode_error.perf", golden(memmove)),
        (
            "magic-trace/btree_rebalance_decode_error.perf",
            golden(btree),
        ),
    ] {
        let Some(ours) = spans_of(file) else { return };
        assert_eq!(difference(&ours, &expected), BTreeMap::new(), "{file}");
    }
}

#[test]
fn every_line_of_every_text_is_accounted_for() {
    for name in [
        "btree_rebalance_decode_error",
        "c_demo_sampling",
        "demo_with_branch_misses",
        "hello_world_userspace",
        "memmove_decode_error",
        "ocaml_demo_sampling",
        "ocaml_exceptions_poptrap_corner_case",
        "page_fault",
    ] {
        let Some(bytes) = sample(&format!("magic-trace/{name}.perf")) else {
            return;
        };
        let lines = bytes.split(|byte| *byte == b'\n');
        let lines = lines.count() - usize::from(bytes.ends_with(b"\n"));
        let imported = whylat_import::read_perf(&bytes).expect("events");
        check(&imported);
        println!("{name}: {}; {} rows", imported.tally, rows(&imported).len());
        assert_eq!(imported.tally.read, lines as u64, "{name}");
    }
}
