//! The coverage, the losses and the cost of the recording: always, also when nothing is missing.

use diagnose::report::{About, CloseState, ProbeLoss};
use diagnose::units::{count, duration, format_bytes, percent, quantity, ratio_of};
use diagnose::windows::RULES_NOT_ASKED;
use table::manifest::Cost;

use super::coverage;
use super::parts::LABEL;
use crate::layout::{Style, TextLayout};

/// Draws the section on coverage, losses and cost.
pub fn draw(layout: &mut TextLayout, about: &About) {
    layout.title(&[(Style::Bold, "recording")]);
    coverage::draw(layout, about);
    draw_windows(layout, about);
    draw_loss(layout, &about.loss);
    draw_cost(layout, about.cost.as_ref());
    match about.closed {
        CloseState::InOrder => {}
        CloseState::Recovered => {
            let text = "by `whylat recover` after a crash; the end may be missing";
            layout.entry(2, "closed", LABEL, text);
        }
        CloseState::NotClosed => {
            let text = "never: the end is missing. hint: whylat recover";
            layout.entry(2, "closed", LABEL, text);
        }
    }
    for problem in &about.problems {
        layout.entry(2, "problem", LABEL, problem);
    }
}

/// Draws how much of the time calls, waits and requests are of, if not of all.
fn draw_windows(layout: &mut TextLayout, about: &About) {
    let Some(sums) = about.windows else {
        return;
    };
    let text = format!(
        "{}, {} of {} ({}). Calls, waits and requests are from these windows. Requests that a window's edge \
            cuts are left out. Not judged: {}",
        quantity(sums.windows, "window"),
        duration(sums.window_ns),
        duration(about.span_ns),
        percent(ratio_of(sums.window_ns, about.span_ns)),
        RULES_NOT_ASKED.join(", ")
    );
    layout.entry(2, "windows", LABEL, &text);
}

/// Writes how many records each probe lost, and why.
fn draw_loss(layout: &mut TextLayout, all: &[ProbeLoss]) {
    let sum = |of: fn(&ProbeLoss) -> u64| all.iter().map(of).sum::<u64>();
    let text = format!(
        "{} of {} records{}",
        count(sum(|loss| loss.lost_total)),
        count(sum(|loss| loss.totals.produced)),
        unaccounted_text(all.iter().map(|loss| loss.residual).sum())
    );
    layout.entry(2, "lost", LABEL, &text);
    for loss in all
        .iter()
        .filter(|loss| loss.lost_total > 0 || loss.residual != 0)
    {
        let causes: Vec<String> = loss
            .totals
            .lost
            .iter()
            .filter(|(_, lost)| **lost > 0)
            .map(|(cause, lost)| format!("{} {cause}", count(*lost)))
            .collect();
        let text = format!(
            "{}: {} ({}){}",
            loss.totals.probe,
            count(loss.lost_total),
            causes.join(", "),
            unaccounted_text(loss.residual)
        );
        layout.entry(2, "", LABEL, &text);
    }
}

/// Returns the text on records that the accounts do not explain.
fn unaccounted_text(residual: i64) -> String {
    match residual {
        0 => String::new(),
        number => format!("; {number} not accounted for"),
    }
}

/// Writes CPU time and memory of the recorder.
fn draw_cost(layout: &mut TextLayout, cost: Option<&Cost>) {
    let Some(cost) = cost else {
        layout.entry(2, "overhead", LABEL, "not recorded");
        return;
    };
    let cpu = if cost.wall_ns == 0 {
        0.0
    } else {
        cost.cpu_ns as f64 / cost.wall_ns as f64
    };
    let bpf = match cost.bpf_cpu_share {
        Some(share) => format!(
            "BPF programs {} (measured for {})",
            percent(share),
            duration(cost.bpf_sampled_ns)
        ),
        None => "BPF programs not measured".to_owned(),
    };
    let text = format!(
        "recorder {} of one CPU, {}; {bpf}",
        percent(cpu),
        format_bytes(cost.max_rss_bytes)
    );
    layout.entry(2, "overhead", LABEL, &text);
}
