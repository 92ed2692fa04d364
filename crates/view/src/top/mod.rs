//! The screen of `whylat top`. Comes in: a [`diagnose::live::LiveReport`], keys, the size of the terminal. Goes out: a frame
//! ([`draw`]), or the same list as text ([`text`]). Pure: the same state gives the same frame.
//!
//! ```text
//! state    the open screen, and the effect of keys
//! order    which rows a list shows, and in which order
//! cells    columns and their cells
//! lists    connections, processes, findings
//! detail   one connection
//! waits    what the threads of one process wait for
//! totals   the lines above every list
//! paint    pieces of text to a frame, with and without colour
//! ```

mod cells;
mod detail;
mod help;
mod lists;
mod order;
mod paint;
mod services;
mod state;
mod totals;
mod waits;

use diagnose::live::LiveReport;
use diagnose::units::duration;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

pub use detail::{MOST_BINS, history_columns};
pub use order::{ListOrder, SortKey};
pub use state::{KeyAction, ScreenPage, TopState};

use crate::clean::remove_controls;
use crate::layout::Style;
use cells::fit_text;
use paint::StyleMapper;
use totals::{profiler_state, round_to_tenth, total_pieces};

/// Lines above a list or a text: title, totals, the profiler's own cost.
const HEAD: usize = 3;

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, top: &mut TopState, colour: bool) {
    let paint = StyleMapper { colour };
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let body_height = height.saturating_sub(HEAD + 1);
    let mut lines = head_lines(top, width, paint);
    lines.truncate(height.saturating_sub(1));
    lines.extend(body_lines(top, width, body_height, paint));
    lines.resize(height.saturating_sub(1), Line::default());
    lines.push(foot_line(top, width, paint));
    for (line, y) in lines.iter().zip(area.y..area.bottom()) {
        frame.render_widget(line, Rect::new(area.x, y, area.width, 1));
    }
}

/// Draws the head: host, totals, and the titles of pages.
fn head_lines(top: &TopState, width: usize, paint: StyleMapper) -> Vec<Line<'static>> {
    let Some(live) = &top.live else {
        let text = "whylat top · attaching …".to_owned();
        return vec![paint.line(vec![(Style::Bold, text)])];
    };
    let about = &live.about;
    let title = format!(
        "whylat top · {} · detail {} · last {} · every {}",
        remove_controls(&about.host),
        about.detail,
        duration(round_to_tenth(about.window_ns)),
        duration(round_to_tenth(about.interval_ns))
    );
    let state = if top.paused { "PAUSED " } else { "" };
    let right = format!("{state}{}", format_clock(about.realtime_ns));
    let room = width.saturating_sub(right.len() + 1);
    let (own_style, own) = profiler_state(live);
    vec![
        paint.line(vec![
            (Style::Bold, fit_text(&title, room, false)),
            (Style::Plain, " ".to_owned()),
            (
                if top.paused {
                    Style::Yellow
                } else {
                    Style::Dim
                },
                right,
            ),
        ]),
        paint.line(total_pieces(live, width)),
        paint.line(vec![(own_style, fit_text(&own, width, false))]),
    ]
}

/// Draws the page that is open.
fn body_lines(
    top: &mut TopState,
    width: usize,
    height: usize,
    paint: StyleMapper,
) -> Vec<Line<'static>> {
    let Some(live) = top.live.clone() else {
        return Vec::new();
    };
    match top.page().clone() {
        ScreenPage::Connections => lists::connection_list(top, &live, (width, height), paint),
        ScreenPage::Processes => lists::process_list(top, &live, (width, height), paint),
        ScreenPage::Findings => lists::finding_list(top, &live, (width, height), paint),
        ScreenPage::Services => services::lines(top, &live, (width, height), paint),
        ScreenPage::Process(process) => {
            let mut lines = vec![lists::process_title(&live, process.as_ref(), paint)];
            let room = (width, height.saturating_sub(1));
            lines.extend(waits::lines(top, &live, process.as_ref(), room, paint));
            let room = (width, height.saturating_sub(lines.len()));
            lines.extend(lists::connection_list(top, &live, room, paint));
            lines
        }
        ScreenPage::Connection(id) => {
            let lines = detail::connection_lines(top, &live, id, width, paint);
            scroll_lines(top, lines, height)
        }
        ScreenPage::Finding(id) => {
            let lines = detail::finding(top, &live, &id, width, paint);
            scroll_lines(top, lines, height)
        }
        ScreenPage::Help => scroll_lines(top, help::lines(paint), height),
    }
}

/// Returns the part of a text that fits.
fn scroll_lines(
    top: &mut TopState,
    lines: Vec<Line<'static>>,
    height: usize,
) -> Vec<Line<'static>> {
    top.set_lines(lines.len(), height);
    let (_, offset) = top.cursor();
    lines.into_iter().skip(offset).take(height).collect()
}

/// Returns the keys of the open screen.
fn foot_line(top: &TopState, width: usize, paint: StyleMapper) -> Line<'static> {
    if top.typing {
        let text = format!("filter: {}▏", remove_controls(&top.order.filter));
        return paint.line(vec![(Style::Bold, fit_text(&text, width, false))]);
    }
    let keys: &[(&str, &str)] = match top.page() {
        ScreenPage::Connections | ScreenPage::Process(_) | ScreenPage::Processes => &[
            ("↑↓", "select"),
            ("enter", "open"),
            ("/", "filter"),
            ("< >", "sort"),
            ("tab", "lists"),
            ("p", "pause"),
            ("?", "help"),
            (
                "q",
                if top.page() == &ScreenPage::Connections {
                    "quit"
                } else {
                    "back"
                },
            ),
        ],
        ScreenPage::Services => &[
            ("↑↓", "select"),
            ("/", "filter"),
            ("tab", "lists"),
            ("p", "pause"),
            ("?", "help"),
            ("q", "quit"),
        ],
        ScreenPage::Findings => &[
            ("↑↓", "select"),
            ("enter", "open"),
            ("/", "filter"),
            ("tab", "lists"),
            ("p", "pause"),
            ("?", "help"),
            ("q", "quit"),
        ],
        ScreenPage::Connection(_) => &[
            ("enter", "finding"),
            ("↑↓", "scroll"),
            ("p", "pause"),
            ("q", "back"),
        ],
        ScreenPage::Finding(_) | ScreenPage::Help => &[("↑↓", "scroll"), ("q", "back")],
    };
    let mut pieces = Vec::new();
    for (key, what) in keys {
        pieces.push((Style::Bold, (*key).to_owned()));
        pieces.push((Style::Dim, format!(" {what}  ")));
    }
    if !top.order.filter.is_empty() {
        let text = format!("filter: {}", remove_controls(&top.order.filter));
        pieces.insert(
            0,
            (
                Style::Yellow,
                format!("{}  ", fit_text(&text, text.chars().count().min(24), false)),
            ),
        );
    }
    paint.line(pieces)
}

/// Returns the time of day, UTC.
fn format_clock(realtime_ns: u64) -> String {
    let seconds = realtime_ns / 1_000_000_000;
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the first `limit` connections as text, for a pipe or a log.
pub fn text(
    live: &LiveReport,
    order: &ListOrder,
    limit: usize,
    options: &crate::layout::TextOptions,
) -> String {
    lists::text(live, order, limit, options)
}

/// Returns the snapshot with the connections of [`text`] as JSON.
pub fn json(live: LiveReport, order: &ListOrder, limit: usize) -> String {
    let places = order.connections(&live, None);
    let mut rows: Vec<Option<_>> = live.connections.into_iter().map(Some).collect();
    let shown = places.into_iter().take(limit);
    let connections = shown
        .filter_map(|place| rows.get_mut(place)?.take())
        .collect();
    crate::json::json(&LiveReport {
        connections,
        ..live
    })
}
