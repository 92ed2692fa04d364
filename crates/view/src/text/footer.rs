//! What the recording covers, what it lost, what it cost: always, also when all is well.

use diagnose::Report;
use diagnose::report::{Closed, Loss};
use diagnose::units::{bytes, count, duration, percent};
use diagnose::waits::WaitReport;
use table::manifest::{Cost, Coverage, ProbeState};

use super::LABEL;
use crate::page::{Page, Style};

/// What every report says of its recording.
pub struct Facts<'a> {
    coverage: &'a [Coverage],
    loss: &'a [Loss],
    cost: Option<&'a Cost>,
    closed: Closed,
    problems: &'a [String],
}

impl<'a> From<&'a Report> for Facts<'a> {
    fn from(report: &'a Report) -> Self {
        Self {
            coverage: &report.coverage,
            loss: &report.loss,
            cost: report.cost.as_ref(),
            closed: report.closed,
            problems: &report.problems,
        }
    }
}

impl<'a> From<&'a WaitReport> for Facts<'a> {
    fn from(report: &'a WaitReport) -> Self {
        Self {
            coverage: &report.coverage,
            loss: &report.loss,
            cost: report.cost.as_ref(),
            closed: report.closed,
            problems: &report.problems,
        }
    }
}

/// Draws the section.
pub fn draw(page: &mut Page, facts: &Facts) {
    page.title(&[(Style::Bold, "recording")]);
    draw_coverage(page, facts.coverage);
    draw_loss(page, facts.loss);
    draw_cost(page, facts.cost);
    let closed = match facts.closed {
        Closed::InOrder => "in order",
        Closed::Recovered => "by `whylat recover`, after a crash: the end may be missing",
        Closed::NotClosed => "never: the end is missing. hint: whylat recover",
    };
    page.labelled(2, "closed", LABEL, closed);
    for problem in facts.problems {
        page.labelled(2, "problem", LABEL, problem);
    }
}

fn draw_coverage(page: &mut Page, all: &[Coverage]) {
    let on: Vec<&str> = all
        .iter()
        .filter(|coverage| coverage.state == ProbeState::On)
        .map(|coverage| coverage.probe.as_str())
        .collect();
    let on = if on.is_empty() {
        "nothing".to_owned()
    } else {
        on.join(", ")
    };
    page.labelled(2, "coverage", LABEL, &format!("on: {on}"));
    for coverage in all {
        let text = match &coverage.state {
            ProbeState::On => continue,
            ProbeState::Fallback { which, why } => {
                format!("{} by other means: {which} ({why})", coverage.probe)
            }
            ProbeState::Off { why, remedy } if remedy.is_empty() => {
                format!("{} off: {why}", coverage.probe)
            }
            ProbeState::Off { why, remedy } => {
                format!("{} off: {why}. hint: {remedy}", coverage.probe)
            }
        };
        page.labelled(2, "", LABEL, &text);
    }
}

fn draw_loss(page: &mut Page, all: &[Loss]) {
    let sum = |of: fn(&Loss) -> u64| all.iter().map(of).sum::<u64>();
    let residual: i64 = all.iter().map(|loss| loss.residual).sum();
    let text = format!(
        "{} of {} records lost, {} unaccounted for",
        count(sum(|loss| loss.lost_total)),
        count(sum(|loss| loss.totals.produced)),
        residual
    );
    page.labelled(2, "loss", LABEL, &text);
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
            "{}: {} lost ({}), {} unaccounted for",
            loss.totals.probe,
            count(loss.lost_total),
            causes.join(", "),
            loss.residual
        );
        page.labelled(2, "", LABEL, &text);
    }
}

fn draw_cost(page: &mut Page, cost: Option<&Cost>) {
    let Some(cost) = cost else {
        page.labelled(2, "cost", LABEL, "not recorded");
        return;
    };
    let cpu = if cost.wall_ns == 0 {
        0.0
    } else {
        cost.cpu_ns as f64 / cost.wall_ns as f64
    };
    let bpf = match cost.bpf_cpu_share {
        Some(share) => {
            format!(
                "{} in BPF, seen for {}",
                percent(share),
                duration(cost.bpf_sampled_ns)
            )
        }
        None => "BPF time not measured".to_owned(),
    };
    let text = format!(
        "recorder {} of one CPU and {}; {bpf}",
        percent(cpu),
        bytes(cost.max_rss_bytes)
    );
    page.labelled(2, "cost", LABEL, &text);
}
