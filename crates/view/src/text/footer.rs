//! What the recording covers, what it lost, what it cost: always, also when all is well.

use diagnose::report::{About, Closed, LeftOut, Loss};
use diagnose::units::{bytes, count, duration, percent};
use table::manifest::{Cost, Coverage, ProbeState};

use super::LABEL;
use crate::layout::{Style, TextLayout};

/// Draws the section.
pub fn draw(layout: &mut TextLayout, about: &About) {
    layout.title(&[(Style::Bold, "recording")]);
    draw_coverage(layout, about);
    draw_loss(layout, &about.loss);
    draw_cost(layout, about.cost.as_ref());
    let closed = match about.closed {
        Closed::InOrder => "in order",
        Closed::Recovered => "by `whylat recover`, after a crash: the end may be missing",
        Closed::NotClosed => "never: the end is missing. hint: whylat recover",
    };
    layout.labelled(2, "closed", LABEL, closed);
    for problem in &about.problems {
        layout.labelled(2, "problem", LABEL, problem);
    }
}

/// What coverage of clocks begins with: they are told apart from probes.
const CLOCK: &str = "clock.";

fn draw_coverage(layout: &mut TextLayout, about: &About) {
    let all = about.coverage.iter();
    let (clocks, probes): (Vec<&Coverage>, Vec<&Coverage>) =
        all.partition(|coverage| coverage.probe.starts_with(CLOCK));
    draw_probes(layout, &probes, &about.left_out);
    draw_clocks(layout, &clocks);
}

fn draw_probes(layout: &mut TextLayout, all: &[&Coverage], left_out: &[LeftOut]) {
    let of = |coverage: &Coverage| {
        let parts = left_out.iter().filter(|it| it.probe == coverage.probe);
        let words: Vec<String> = parts.map(LeftOut::words).collect();
        (!words.is_empty()).then(|| words.join(" and "))
    };
    let on: Vec<&str> = all
        .iter()
        .filter(|coverage| coverage.state == ProbeState::On && of(coverage).is_none())
        .map(|coverage| coverage.probe.as_str())
        .collect();
    let on = if on.is_empty() {
        "nothing".to_owned()
    } else {
        on.join(", ")
    };
    layout.labelled(2, "coverage", LABEL, &format!("on: {on}"));
    for coverage in all {
        let text = match &coverage.state {
            ProbeState::On => match of(coverage) {
                Some(part) => format!("{} in part: {part} are left out", coverage.probe),
                None => continue,
            },
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
        layout.labelled(2, "", LABEL, &text);
    }
}

fn draw_clocks(layout: &mut TextLayout, all: &[&Coverage]) {
    let names = |is_read: bool| {
        let named = all.iter().filter(|coverage| {
            let is_off = matches!(coverage.state, ProbeState::Off { .. });
            is_off != is_read
        });
        let names = named.map(|coverage| coverage.probe.trim_start_matches(CLOCK));
        names.collect::<Vec<_>>().join(", ")
    };
    let (read, missing) = (names(true), names(false));
    if all.is_empty() {
        return;
    }
    let text = match missing.is_empty() {
        true => read,
        false => format!("{read}; not {missing}: `whylat doctor` says why"),
    };
    layout.labelled(2, "clocks", LABEL, &text);
}

fn draw_loss(layout: &mut TextLayout, all: &[Loss]) {
    let sum = |of: fn(&Loss) -> u64| all.iter().map(of).sum::<u64>();
    let residual: i64 = all.iter().map(|loss| loss.residual).sum();
    let text = format!(
        "{} of {} records lost, {} unaccounted for",
        count(sum(|loss| loss.lost_total)),
        count(sum(|loss| loss.totals.produced)),
        residual
    );
    layout.labelled(2, "loss", LABEL, &text);
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
        layout.labelled(2, "", LABEL, &text);
    }
}

fn draw_cost(layout: &mut TextLayout, cost: Option<&Cost>) {
    let Some(cost) = cost else {
        layout.labelled(2, "cost", LABEL, "not recorded");
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
    layout.labelled(2, "cost", LABEL, &text);
}
