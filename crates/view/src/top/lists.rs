//! The lists: connections, processes, findings. In: the state and the room. Out: lines, the selected one reversed.

use diagnose::live::LiveReport;
use diagnose::report::{ContainerProcesses, Finding, Process, Severity, UndecidedFinding};
use diagnose::units::{count, duration, quantity};
use ratatui::text::Line;

use super::cells::{self, ColumnWidths, StyledPiece, fit_text};
use super::order::ListOrder;
use super::paint::StyleMapper;
use super::state::TopState;
use crate::clean::remove_controls;
use crate::layout::Style;
use crate::layout::TextOptions;

/// Columns and lines of the screen.
type ScreenSize = (usize, usize);

/// Lines below the list that describe the selected row.
const ABOUT: usize = 1;

/// Draws the list of connections: all, or those of one process.
pub fn connection_list(
    top: &mut TopState,
    live: &LiveReport,
    room: ScreenSize,
    paint: StyleMapper,
) -> Vec<Line<'static>> {
    let columns = cells::connection_widths(room.0);
    top.set_rows(room.1.saturating_sub(1 + ABOUT));
    let rows = |place: usize| match live.connections.get(place) {
        Some(connection) => cells::connection_cells(connection, &columns),
        None => Vec::new(),
    };
    let mut lines = draw_list(top, &columns, rows, room, paint);
    let selected = top
        .shown
        .get(top.cursor().0)
        .and_then(|place| live.connections.get(*place));
    let place = selected.and_then(|it| super::state::place_of_finding(live, it));
    lines.push(footer_line(
        place.map(|place| headline(live, place)),
        room.0,
        paint,
    ));
    lines
}

/// Returns the list of processes.
pub fn process_list(
    top: &mut TopState,
    live: &LiveReport,
    room: ScreenSize,
    paint: StyleMapper,
) -> Vec<Line<'static>> {
    let columns = cells::process_widths(room.0);
    top.set_rows(room.1.saturating_sub(1 + ABOUT));
    let rows = |place: usize| match live.processes.get(place) {
        Some(process) => cells::process_cells(process, &columns),
        None => Vec::new(),
    };
    let mut lines = draw_list(top, &columns, rows, room, paint);
    let selected = top
        .shown
        .get(top.cursor().0)
        .and_then(|place| live.processes.get(*place));
    let text = selected.map(|it| match it.findings {
        0 => (Style::Dim, "no finding on its connections".to_owned()),
        number => {
            let (style, _) = cells::severity_mark(it.severity);
            (
                style,
                format!(
                    "{} on its connections: enter shows them",
                    quantity(number, "finding")
                ),
            )
        }
    });
    lines.push(footer_line(text, room.0, paint));
    lines
}

/// Draws the rows that fit on the screen, around the selected one.
fn draw_list(
    top: &TopState,
    columns: &ColumnWidths,
    row: impl Fn(usize) -> Vec<StyledPiece>,
    (width, height): ScreenSize,
    paint: StyleMapper,
) -> Vec<Line<'static>> {
    let sorted = Some(top.order.sort.column());
    let title = cells::headings(columns, sorted, top.order.reversed);
    let mut lines = vec![paint.bar(fit_text(&title, width, false))];
    let (index, offset) = top.cursor();
    let rows = height.saturating_sub(1 + ABOUT);
    for (number, place) in top.shown.iter().enumerate().skip(offset).take(rows) {
        let pieces = row(*place);
        lines.push(if number == index {
            let text: String = pieces.into_iter().map(|(_, text)| text).collect();
            paint.bar(fit_text(&text, width, false))
        } else {
            paint.line(pieces)
        });
    }
    if top.shown.is_empty() {
        lines.push(paint.line(vec![(Style::Dim, explain_empty(top))]));
    }
    lines.resize(height.saturating_sub(ABOUT), Line::default());
    lines
}

/// Returns why a list is empty.
fn explain_empty(top: &TopState) -> String {
    let filter = remove_controls(&top.order.filter);
    match (filter.is_empty(), top.order.hide_idle) {
        (false, _) => format!("no match for {filter:?}: esc shows all"),
        (true, true) => "all connections are idle: i shows them".to_owned(),
        (true, false) => "no connection yet".to_owned(),
    }
}

/// Returns the line below a list.
fn footer_line(text: Option<StyledPiece>, width: usize, paint: StyleMapper) -> Line<'static> {
    let pieces = text.map(|(style, text)| (style, fit_text(&remove_controls(&text), width, false)));
    paint.line(pieces.into_iter().collect())
}

/// Returns the headline of a finding by its place in the list.
fn headline(live: &LiveReport, place: usize) -> StyledPiece {
    match live.findings.get(place) {
        Some(finding) => (
            severity_style(finding.severity),
            format!("{}: {}", finding.rule, finding.headline),
        ),
        None => {
            let undecided = live.undecided.get(place - live.findings.len());
            let text = undecided.map(|it| format!("undecided: {}", it.headline));
            (Style::Yellow, text.unwrap_or_default())
        }
    }
}

/// Returns the look of a severity.
pub fn severity_style(severity: Severity) -> Style {
    cells::severity_mark(Some(severity)).0
}

/// Draws the lines above the connections of one process.
pub fn process_title(
    live: &LiveReport,
    process: Option<&Process>,
    paint: StyleMapper,
) -> Line<'static> {
    let found = live
        .processes
        .iter()
        .find(|it| it.process.as_ref() == process);
    let name = remove_controls(&cells::process(process));
    let text = found.map_or("all sockets are closed".to_owned(), |it| {
        format!(
            "{} of {} active · out {}, in {} bit/s",
            count(it.sums.active),
            quantity(it.sums.connections, "socket"),
            cells::format_bits(it.sums.out_bytes_per_s),
            cells::format_bits(it.sums.in_bytes_per_s),
        )
    });
    let holds =
        |it: &&ContainerProcesses| process.is_some_and(|process| it.processes.contains(process));
    let container = live.containers.iter().find(holds);
    let place = container.map_or_else(String::new, |it| {
        format!(" in {}", remove_controls(&it.to_string()))
    });
    paint.line(vec![
        (Style::Cyan, name),
        (Style::Plain, format!("{place}  {text}")),
    ])
}

/// Draws the list of findings, undecided ones last.
pub fn finding_list(
    top: &mut TopState,
    live: &LiveReport,
    room: ScreenSize,
    paint: StyleMapper,
) -> Vec<Line<'static>> {
    top.set_rows(room.1.saturating_sub(1 + ABOUT));
    let title = format!(
        "{:9} {:24} {:>5} {:>8}  {}",
        "SEVERITY", "FINDING", "TIME", "LOST", "SUBJECT"
    );
    let mut lines = vec![paint.bar(fit_text(&title, room.0, false))];
    let (index, offset) = top.cursor();
    let rows = room.1.saturating_sub(1 + ABOUT);
    for (number, place) in top.shown.iter().enumerate().skip(offset).take(rows) {
        let pieces = match live.findings.get(*place) {
            Some(finding) => finding_row(finding),
            None => {
                let undecided = live.undecided.get(*place - live.findings.len());
                undecided.map(undecided_row).unwrap_or_default()
            }
        };
        let text: String = pieces.iter().map(|(_, text)| text.as_str()).collect();
        lines.push(if number == index {
            paint.bar(fit_text(&text, room.0, false))
        } else {
            paint.line(pieces)
        });
    }
    if top.shown.is_empty() {
        let text = if top.order.filter.is_empty() {
            "no finding".to_owned()
        } else {
            explain_empty(top)
        };
        lines.push(paint.line(vec![(Style::Green, text)]));
    }
    lines.resize(room.1.saturating_sub(ABOUT), Line::default());
    let selected = top.shown.get(index).map(|place| headline(live, *place));
    lines.push(footer_line(selected, room.0, paint));
    lines
}

/// Returns the row of a finding: rule, harm, subject.
fn finding_row(finding: &Finding) -> Vec<StyledPiece> {
    let subject = &finding.subject;
    let numbers = format!(
        " {:>5} {:>8}  ",
        cells::format_share(finding.share),
        format_time(finding.harm_ns)
    );
    vec![
        (
            severity_style(finding.severity),
            format!("{:9} ", finding.severity.name()),
        ),
        (Style::Plain, fit_text(finding.rule.name(), 24, false)),
        (Style::Plain, numbers),
        (Style::Cyan, subject_text(subject)),
    ]
}

/// Returns the row of what could not be decided.
fn undecided_row(undecided: &UndecidedFinding) -> Vec<StyledPiece> {
    let harm = format!("≤{}", format_time(undecided.possible_harm_ns));
    vec![
        (Style::Yellow, format!("{:9} ", "?")),
        (
            Style::Plain,
            fit_text(&undecided.candidates_title(), 24, false),
        ),
        (
            Style::Plain,
            format!(" {:>5} {harm:>8}  ", cells::format_share(undecided.share)),
        ),
        (Style::Cyan, subject_text(&undecided.subject)),
    ]
}

/// Returns process and remote address.
fn subject_text(subject: &diagnose::report::FindingSubject) -> String {
    let process = cells::process(subject.process.as_ref());
    remove_controls(&match subject.connections {
        0 => process,
        1 => format!("{process} → {}", subject.remote),
        number => format!("{process}, {}", quantity(number, "connection")),
    })
}

/// Returns a duration without a space.
fn format_time(ns: u64) -> String {
    duration(ns).replace(' ', "")
}

/// Returns the first connections as text.
pub fn text(live: &LiveReport, order: &ListOrder, limit: usize, options: &TextOptions) -> String {
    let columns = cells::connection_widths(options.width);
    let places = order.connections(live, None);
    let sums: String = super::totals::total_pieces(live, options.width)
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    let head = [sums, super::totals::profiler_state(live).1, String::new()];
    let mut out = head.join("\n");
    let titles = cells::headings(&columns, Some(order.sort.column()), order.reversed);
    out.push_str(&format!("{}\n", titles.trim_end()));
    let mut layout = crate::layout::TextLayout::new(&TextOptions {
        width: usize::MAX,
        ..*options
    });
    for place in places.iter().take(limit) {
        let row = live
            .connections
            .get(*place)
            .map(|it| cells::connection_cells(it, &columns));
        let row = row.unwrap_or_default();
        let pieces: Vec<(Style, &str)> = row
            .iter()
            .map(|(style, text)| (*style, text.as_str()))
            .collect();
        layout.line(0, &pieces);
    }
    out.push_str(&layout.finish());
    if places.len() > limit {
        let more = count((places.len() - limit) as u64);
        out.push_str(&format!("{more} more: see --limit\n"));
    }
    out
}
