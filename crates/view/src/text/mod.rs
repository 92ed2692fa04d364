//! The report for people: the answer first, then each warning with its evidence and its fix, then what is only good to
//! know, one line each, then the connections. The end is what the recording covers, lost and cost.

mod answer;
pub mod bar;
mod connections;
mod containers;
mod contrast;
mod coverage;
mod diff;
mod drops;
mod ends;
pub mod findings;
mod footer;
mod functions;
mod imports;
mod meanwhile;
mod messages;
mod notes;
mod parts;
mod preceding;
mod requests;
mod slow;
mod spread;
mod tail;
mod waits;

use diagnose::Report;

use crate::layout::{Style, TextLayout, TextOptions};

pub use answer::answer_sentence;
pub use diff::text as diff;
pub use drops::text as drops;
pub use ends::text as ends;
pub use messages::{story_text as message, text as messages};
pub use requests::{headline as requests_headline, request_text as request, text as requests};
pub use tail::text as tail;
pub use waits::text as waits;

/// Returns the whole report.
pub fn text(report: &Report, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    parts::draw_head(&mut layout, &report.about);
    if let Some(text) = report.unjudged_text() {
        layout.paragraph(0, Style::Bold, &text);
        layout.blank();
    }
    answer::draw(&mut layout, report);
    if let Some(trace) = &report.imported {
        imports::draw(&mut layout, trace, options);
        footer::draw(&mut layout, &report.about);
        return layout.finish();
    }
    if let Some(requests) = &report.requests {
        requests::draw_section(&mut layout, requests, &answer::answer_sentence(report));
    }
    if let Some(drops) = &report.drops {
        drops::draw_section(&mut layout, drops);
    }
    findings::draw(&mut layout, report, options);
    slow::draw(&mut layout, report);
    notes::draw(&mut layout, report, options);
    connections::draw(&mut layout, report, options);
    containers::draw(&mut layout, report, options);
    footer::draw(&mut layout, &report.about);
    layout.finish()
}
