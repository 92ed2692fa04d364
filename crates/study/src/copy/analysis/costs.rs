//! Costs by themselves beside the published study's estimates.

use super::super::doc::{TextBlock, format_bytes, format_digits, table};
use super::super::journal::CopyCost;
use super::super::published;
use super::extras::AnalysisExtras;
use super::shared::{heading, paragraph};

/// Returns the description of a cost.
fn name(cost: &str) -> &str {
    match cost {
        "consolidation" => "consolidation of eight fields",
        "kernel_copy" => "the kernel's copy (write to pages of a file in memory)",
        "pinning" => "get_user_pages and release of a page (vmsplice, splice)",
        "completion" => "reading a notification (recvmsg, MSG_ERRQUEUE)",
        "harness" => "what the study adds to a message",
        other => other,
    }
}

/// Returns median and interval of a cost; a difference may be too small to measure.
pub(super) fn cost_text(cost: &CopyCost) -> String {
    let bounds = cost.ns_lo.zip(cost.ns_hi);
    if bounds.is_some_and(|(low, _)| low <= 0.0) {
        return "less than the variation of the call that measures it".to_owned();
    }
    let bounds = bounds.map_or(String::new(), |(low, high)| {
        format!(" ({} to {})", format_digits(low), format_digits(high))
    });
    format!("{} ns{bounds}", format_digits(cost.ns))
}

/// Returns the table of measured costs beside the published estimates.
pub(super) fn beside_estimates(extras: &AnalysisExtras) -> Vec<TextBlock> {
    if extras.costs.is_empty() {
        return Vec::new();
    }
    let lines = extras.costs.iter().map(|cost| {
        let estimate = published::CYCLES
            .iter()
            .find(|(name, bytes, _)| (*name, *bytes) == (&cost.name, cost.bytes));
        let estimate = estimate.map_or(String::new(), |(_, _, cycles)| {
            format!(
                "{cycles} cycles = {} ns at {} GHz",
                format_digits(cycles / published::GHZ),
                published::GHZ
            )
        });
        [
            format!("{}, {}", name(&cost.name), format_bytes(cost.bytes as f64)),
            cost_text(cost),
            estimate,
        ]
    });
    vec![
        heading("Costs of single steps, and the published estimates (4.2, 6.2)"),
        paragraph(
            "Figures are the median of 31 batches with its 95 % interval, in ns. Not every machine can count \
                   cycles.",
        ),
        table(["cost", "here", "published estimate"], lines.collect()),
    ]
}
