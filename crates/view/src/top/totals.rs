//! The lines above every list: findings and totals, and the profiler's own state.

use diagnose::live::LiveReport;
use diagnose::report::Severity;
use diagnose::units::{count, duration, percent, quantity};

use super::cells::{self, StyledPiece};
use crate::clean::remove_controls;
use crate::layout::Style;

/// Returns the findings and the totals that fit, the most important first.
pub(super) fn total_pieces(live: &LiveReport, width: usize) -> Vec<StyledPiece> {
    let totals = &live.totals;
    let parts = [
        format!(
            "{} of {} active",
            count(totals.active),
            quantity(totals.connections, "socket")
        ),
        format!(
            "out {}, in {} bit/s",
            cells::format_bits(totals.out_bytes_per_s),
            cells::format_bits(totals.in_bytes_per_s)
        ),
        quantity(totals.retransmits, "retransmit"),
    ];
    let mut pieces = vec![findings_piece(live)];
    let mut used = pieces[0].1.chars().count();
    for part in parts {
        let piece = format!(" · {part}");
        used += piece.chars().count();
        if used > width {
            break;
        }
        pieces.push((Style::Plain, piece));
    }
    pieces
}

/// Returns the number of findings, in the colour of the worst.
fn findings_piece(live: &LiveReport) -> StyledPiece {
    let number = |of| live.findings.iter().filter(|it| it.severity == of).count() as u64;
    let (critical, warnings) = (number(Severity::Critical), number(Severity::Warning));
    match (critical, warnings) {
        (0, 0) if live.totals.connections == 0 => (Style::Plain, explain_no_connection(live)),
        (0, 0) => (Style::Green, "no problem found".to_owned()),
        (0, _) => (Style::Yellow, quantity(warnings, "warning")),
        (_, 0) => (Style::Red, format!("{critical} critical")),
        _ => (
            Style::Red,
            format!("{critical} critical, {}", quantity(warnings, "warning")),
        ),
    }
}

/// Returns why there is no connection.
fn explain_no_connection(live: &LiveReport) -> String {
    match &live.about.filter {
        Some(filter) => format!("no socket matches {}", remove_controls(filter)),
        None if live.about.only_own => "you own no TCP socket here; root sees all".to_owned(),
        None => "no TCP socket here".to_owned(),
    }
}

/// Returns the profiler's loss, gaps and cost, the most important first.
pub(super) fn profiler_state(live: &LiveReport) -> StyledPiece {
    let about = &live.about;
    let mut parts = Vec::new();
    if about.lost_total > 0 {
        parts.push(format!("LOST {}", quantity(about.lost_total, "record")));
    }
    if about.only_own {
        parts.push("only your sockets: sudo shows all".to_owned());
    }
    if let Some(share) = about.cpu_share {
        let bpf = about.cost.as_ref().and_then(|cost| cost.bpf_cpu_share);
        let bpf = bpf.map_or(String::new(), |share| format!(" + BPF {}", percent(share)));
        parts.push(format!("cost {} of a CPU{bpf}", percent(share)));
    }
    if about.lost_total == 0 {
        parts.push("lost 0".to_owned());
    }
    parts.push(format!(
        "polls {}",
        duration(round_to_tenth(about.poll_mean_ns))
    ));
    if !about.only_own && about.detail == "stats" {
        parts.push("more: --detail calls".to_owned());
    }
    let style = if about.lost_total > 0 {
        Style::Yellow
    } else {
        Style::Dim
    };
    (style, parts.join(" · "))
}

/// Rounds to a tenth of a second.
pub(super) fn round_to_tenth(ns: u64) -> u64 {
    const TENTH_NS: u64 = 100_000_000;
    if ns < TENTH_NS {
        return ns;
    }
    (ns + TENTH_NS / 2) / TENTH_NS * TENTH_NS
}
