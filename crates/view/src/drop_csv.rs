//! Drops as CSV: a line of column names, then a line a kind, reason and place.

use std::io::{self, Write};

use diagnose::drops::DropReport;
use diagnose::drops::report::NamedCount;
use table::Value;

use crate::csv::{CsvText, Line};

const COLUMNS: [&str; 10] = [
    "kind", "reason", "place", "ordinary", "count", "selected", "stored", "hooks", "qdiscs",
    "devices",
];

/// Writes the reasons of a report.
///
/// # Errors
/// When `out` cannot be written.
pub fn drop_csv(report: &DropReport, text: CsvText, mut out: impl Write) -> io::Result<()> {
    let mut line = Line::new(text);
    for name in COLUMNS {
        line.add(Value::Text(name));
    }
    line.end(&mut out)?;
    for group in &report.reasons {
        line.add(Value::Text(group.kind.name()));
        for words in [&group.reason, &group.place] {
            line.add(words.as_deref().map_or(Value::Absent, Value::Text));
        }
        line.add(Value::Is(group.ordinary));
        for number in [group.count, group.selected, group.stored] {
            line.add(Value::Unsigned(number));
        }
        for names in [&group.hooks, &group.qdiscs, &group.devices] {
            line.add(Value::Text(&join_names(names)));
        }
        line.end(&mut out)?;
    }
    out.flush()
}

/// Joins names with their counts into one cell.
fn join_names(names: &[NamedCount]) -> String {
    let names = names.iter().map(|it| format!("{}={}", it.name, it.count));
    names.collect::<Vec<_>>().join(" ")
}
