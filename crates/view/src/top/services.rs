//! The list of services: requests a second, how long they took, and the part with the most of their time.

use diagnose::live::{LiveReport, LiveService};
use diagnose::requests::Side;
use diagnose::units::duration;
use ratatui::text::Line;

use super::cells::fit_text;
use super::paint::StyleMapper;
use super::state::TopState;
use crate::clean::remove_controls;
use crate::layout::Style;

/// Columns of all but the name.
const NUMBERS: usize = 62;

/// Narrowest name.
const NAME_LEAST: usize = 16;

/// Returns the lines of the list.
pub(super) fn lines(
    top: &mut TopState,
    live: &LiveReport,
    (width, height): (usize, usize),
    paint: StyleMapper,
) -> Vec<Line<'static>> {
    let rows = height.saturating_sub(1);
    top.set_rows(rows);
    let name = width.saturating_sub(NUMBERS).max(NAME_LEAST);
    let heads = ["REQUESTS/S", "P50", "P99", "LARGEST PART"];
    let title = join_columns(fit_text("SERVICE", name, false), heads.map(str::to_owned));
    let mut lines = vec![paint.bar(fit_text(&title, width, false))];
    let (index, offset) = top.cursor();
    for (number, place) in top.shown.iter().enumerate().skip(offset).take(rows) {
        let Some(service) = live.services.get(*place) else {
            continue;
        };
        let text = fit_text(&service_row(service, name), width, false);
        lines.push(match number == index {
            true => paint.bar(text),
            false => paint.line(vec![(Style::Plain, text)]),
        });
    }
    if top.shown.is_empty() {
        let text = match live.about.detail.as_str() {
            "stats" => "no requests: --detail calls finds them",
            _ => "no requests in these seconds",
        };
        lines.push(paint.line(vec![(Style::Dim, text.to_owned())]));
    }
    lines
}

/// Joins the columns of a service, with fixed widths.
fn join_columns(name: String, [rate, p50, p99, part]: [String; 4]) -> String {
    format!("{name} {rate:>11} {p50:>9} {p99:>9}  {part}")
}

/// Returns the row of a service: requests a second, p50, p99, main part.
fn service_row(service: &LiveService, width: usize) -> String {
    let arrow = match service.role {
        Side::Server => "at",
        Side::Client => "→",
    };
    let name = remove_controls(&format!("{} {arrow} {}", service.name, service.address));
    let rate = service.requests_per_s.map_or_else(String::new, format_rate);
    let part = service.first_part.zip(service.first_share);
    let part = part.map(|(part, share)| format!("{} {:.0} %", part.text(), share * 100.0));
    let times = [service.p50_ns, service.p99_ns].map(duration);
    let [p50, p99] = times;
    join_columns(
        fit_text(&name, width, false),
        [rate, p50, p99, part.unwrap_or_default()],
    )
}

/// Returns a rate; a small one has a decimal.
fn format_rate(per_s: f64) -> String {
    match per_s < 10.0 {
        true => format!("{per_s:.1}"),
        false => diagnose::units::count(per_s.round() as u64),
    }
}
