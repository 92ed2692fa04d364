//! The contracts `whylat.report/1`, `whylat.waits/1` and `whylat.messages/1` as text. `docs/*.schema.json`
//! describe them.

use diagnose::Report;
use diagnose::messages::ends::report::EndsReport;
use diagnose::messages::report::{MessageReport, MessageStory};
use diagnose::tail::report::TailReport;
use diagnose::waits::WaitReport;

use crate::clean::is_unsafe;

/// The report as indented JSON without a final newline. Characters that a terminal would act on,
/// or that reorder text, are escaped: they occur only within strings.
pub fn json(report: &Report) -> String {
    escaped(serde_json::to_string_pretty(report))
}

/// The same of the last seconds.
pub fn live_json(live: &diagnose::live::Live) -> String {
    escaped(serde_json::to_string_pretty(live))
}

/// The same of waits.
pub fn waits_json(report: &WaitReport) -> String {
    escaped(serde_json::to_string_pretty(report))
}

/// The same of messages.
pub fn messages_json(report: &MessageReport) -> String {
    escaped(serde_json::to_string_pretty(report))
}

/// The same of messages that are known at both ends.
pub fn ends_json(report: &EndsReport) -> String {
    escaped(serde_json::to_string_pretty(report))
}

/// The same of one message.
pub fn message_json(story: &MessageStory) -> String {
    escaped(serde_json::to_string_pretty(story))
}

/// The same of slow messages.
pub fn tail_json(report: &TailReport) -> String {
    escaped(serde_json::to_string_pretty(report))
}

fn escaped(written: serde_json::Result<String>) -> String {
    let plain =
        written.expect("a report is made of strings, finite numbers and maps with string keys");
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
