//! The contract `whylat.report/1` as text. `docs/report.schema.json` describes it.

use diagnose::Report;

use crate::clean::is_unsafe;

/// The report as indented JSON without a final newline. Characters that a terminal would act on,
/// or that reorder text, are escaped: they occur only within strings.
pub fn json(report: &Report) -> String {
    let plain = serde_json::to_string_pretty(report)
        .expect("a report is made of strings, finite numbers and maps with string keys");
    let mut out = String::with_capacity(plain.len());
    for c in plain.chars() {
        if is_unsafe(c) && c != '\n' {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}
