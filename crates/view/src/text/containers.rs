//! Containers in which recorded processes ran, one line each.

use diagnose::Report;
use diagnose::report::Process;

use super::parts::draw_more;
use crate::layout::{Style, TextLayout, TextOptions};

/// Containers drawn unless the user asks for more.
const SHOWN: usize = 10;
/// Processes drawn of each.
const SHOWN_PROCESSES: usize = 5;

/// Draws the section on containers, if there are any.
pub fn draw(layout: &mut TextLayout, report: &Report, options: &TextOptions) {
    let all = &report.containers;
    if all.is_empty() {
        return;
    }
    layout.title(&[(Style::Bold, "containers")]);
    let shown = match options.is_full {
        true => all.len(),
        false => options.limit.unwrap_or(SHOWN).min(all.len()),
    };
    for container in &all[..shown] {
        let processes = container.processes.iter().take(SHOWN_PROCESSES);
        let mut text = processes.map(Process::title).collect::<Vec<_>>().join(", ");
        let listed = container.processes.len().saturating_sub(SHOWN_PROCESSES) as u64;
        match listed + container.processes_not_listed {
            0 => {}
            left => text += &format!(" and {left} more"),
        }
        layout.bullet(2, (Style::Cyan, &container.to_string()), &text);
    }
    draw_more(layout, shown, all.len());
    layout.blank();
}
