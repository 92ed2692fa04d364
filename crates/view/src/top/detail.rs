//! The screens of one connection and of one finding. In: the
//! state. Out: lines.

use diagnose::live::{HistoryBin, LiveConnection, LiveReport, REACH_NS};
use diagnose::units::{duration, format_bytes, percent};
use ratatui::text::Line;
use table::Role;

use super::cells::{self, StyledPiece};
use super::paint::StyleMapper;
use super::state::{FindingId, TopState, place_of_finding};
use crate::clean::remove_controls;
use crate::layout::{Style, TextLayout, TextOptions};
use crate::text::{bar, findings};

/// Columns of the history of a connection, at most.
pub const MOST_BINS: usize = 120;

/// Width of text, at most.
const TEXT_WIDTH: usize = 80;

/// Columns of a label.
const LABEL: usize = 11;

/// Columns of a number behind a line of history.
const NUMBER: usize = 9;

/// Heights of a line of history.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the number of columns of a history on a screen of this width.
pub fn history_columns(width: usize) -> usize {
    width
        .saturating_sub(LABEL + 2 * (NUMBER + 1))
        .clamp(1, MOST_BINS)
}

/// Returns the screen of a connection.
pub fn connection_lines(
    top: &TopState,
    live: &LiveReport,
    id: u64,
    width: usize,
    paint: StyleMapper,
) -> Vec<Line<'static>> {
    let Some(connection) = top.connection(id) else {
        let text = "this connection closed before the time shown";
        return vec![
            Line::default(),
            paint.line(vec![(Style::Dim, text.to_owned())]),
        ];
    };
    // the answer before the picture: a small screen shows it without scrolling
    let mut lines = identity_lines(connection, width, paint);
    lines.extend(stage_lines(connection, width, paint));
    lines.push(Line::default());
    lines.extend(worst_finding(live, connection, width, paint));
    lines.push(Line::default());
    lines.extend(history_lines(&top.history, paint));
    lines
}

/// Returns process, addresses and age of a connection.
fn identity_lines(
    connection: &LiveConnection,
    width: usize,
    paint: StyleMapper,
) -> Vec<Line<'static>> {
    let role = match connection.role {
        Role::Client => "client",
        Role::Server => "server",
        Role::Unknown => "opened before",
    };
    let ends = format!("  {} → {}", connection.local, connection.remote);
    let mut facts = vec![role.to_owned()];
    facts.extend(connection.congestion.clone());
    facts.extend(
        connection
            .nodelay
            .map(|on| format!("nodelay {}", if on { "on" } else { "off" })),
    );
    facts.extend(connection.cwnd.map(|cwnd| format!("cwnd {cwnd}")));
    facts.extend(
        connection
            .snd_wnd_bytes
            .map(|window| format!("window {}", format_bytes(window.into()))),
    );
    facts.extend(
        connection
            .min_rtt_us
            .map(|us| format!("min RTT {}", duration(u64::from(us) * 1_000))),
    );
    if connection.closed {
        facts.push("closed".to_owned());
    }
    let name = remove_controls(&cells::process(connection.process.as_ref()));
    let mut layout = TextLayout::new(&text_options(width, paint));
    layout.paragraph(0, Style::Dim, &facts.join(" · "));
    let mut lines = vec![paint.line(vec![
        (Style::Cyan, name),
        (Style::Plain, remove_controls(&ends)),
    ])];
    lines.extend(paint.styled_lines(&layout.finish()));
    lines
}

/// Returns the stages of a connection as bar and list.
fn stage_lines(
    connection: &LiveConnection,
    width: usize,
    paint: StyleMapper,
) -> Vec<Line<'static>> {
    let room = width.saturating_sub(LABEL + 2).min(60);
    let cells = bar::stage_cells(&connection.stages, room);
    let letters: String = cells
        .iter()
        .map(|(stage, number)| bar::stage_mark(*stage).0.to_string().repeat(*number))
        .collect();
    let mut layout = TextLayout::new(&text_options(width, paint));
    let mut lines = Vec::new();
    if letters.is_empty() {
        let text = match &connection.not_judged {
            Some(why) => format!("not judged: {why}"),
            None if connection.idle => "idle".to_owned(),
            None => "sends nothing".to_owned(),
        };
        layout.entry(0, "sending", LABEL, &text);
    } else {
        let mut pieces = label_piece("sending");
        pieces.push((Style::Dim, "[".to_owned()));
        pieces.extend(cells::colour_bar(&letters));
        pieces.push((Style::Dim, "]".to_owned()));
        lines.push(paint.line(pieces));
        layout.entry(0, "", LABEL, &bar::legend(&connection.stages));
        layout.entry(0, "", LABEL, &describe_exactness(connection));
    }
    let received = receive_text(connection);
    if !received.is_empty() {
        let label = connection.receive.map_or("calls", |_| "receiving");
        layout.entry(0, label, LABEL, &received);
    }
    lines.extend(paint.styled_lines(&layout.finish()));
    lines
}

/// Returns the receiving side, and the time of threads in calls.
fn receive_text(connection: &LiveConnection) -> String {
    let mut parts = Vec::new();
    if let Some(receive) = &connection.receive {
        parts.push(format!(
            "slow reader {}",
            percent(receive.reader_slow.share)
        ));
        let closed = receive.window_closed.filter(|closed| closed.ns > 0);
        parts.extend(closed.map(|closed| format!("window closed {}", percent(closed.share))));
    }
    let blocked = connection.blocked_share.map(percent);
    parts.extend(blocked.map(|share| format!("threads blocked in calls {share}")));
    parts.join(", ")
}

/// Returns the judged time and the error of the shares.
fn describe_exactness(connection: &LiveConnection) -> String {
    let widest = connection
        .stages
        .iter()
        .map(|(_, share)| share.bound)
        .fold(0.0, f64::max);
    let judged = duration(connection.judged_ns);
    format!(
        "of the last {judged}; error of each share up to {}",
        percent(widest)
    )
}

/// Returns the history: a line each for stage, rates, window, round-trip time, retransmits.
fn history_lines(bins: &[HistoryBin], paint: StyleMapper) -> Vec<Line<'static>> {
    let number = bins.len().max(1);
    let title = format!(
        "{:<number$}",
        format!("the last {} min", REACH_NS / 60_000_000_000)
    );
    let mut head = label_piece("");
    head.push((Style::Dim, title));
    head.push((
        Style::Dim,
        format!(" {:>NUMBER$} {:>NUMBER$}", "max", "now"),
    ));
    let mut lines = vec![paint.line(head)];
    let letters: String = bins
        .iter()
        .map(|bin| bin.stage.map_or(' ', |stage| bar::stage_mark(stage).0))
        .collect();
    let mut pieces = label_piece("stage");
    pieces.extend(cells::colour_bar(&letters));
    lines.push(paint.line(pieces));
    let rate = |value: f64| cells::format_bits(value);
    let time = |value: f64| cells::format_time(value as u32);
    let whole = |value: f64| format!("{value:.0}");
    let float = |value: Option<u32>| value.map(f64::from);
    lines.push(spark_line(
        "out",
        bins,
        |bin| bin.out_bytes_per_s,
        rate,
        paint,
    ));
    lines.push(spark_line(
        "in",
        bins,
        |bin| bin.in_bytes_per_s,
        rate,
        paint,
    ));
    lines.push(spark_line(
        "cwnd",
        bins,
        |bin| float(bin.cwnd),
        whole,
        paint,
    ));
    lines.push(spark_line(
        "rtt",
        bins,
        |bin| float(bin.srtt_us),
        time,
        paint,
    ));
    lines.push(spark_line(
        "retransmits",
        bins,
        |bin| float(bin.retransmits),
        whole,
        paint,
    ));
    lines
}

/// Returns a line of blocks, scaled to the maximum; a missing value is blank.
fn spark_line(
    label: &str,
    bins: &[HistoryBin],
    value: impl Fn(&HistoryBin) -> Option<f64>,
    show: impl Fn(f64) -> String,
    paint: StyleMapper,
) -> Line<'static> {
    let values: Vec<Option<f64>> = bins.iter().map(value).collect();
    let most = values.iter().flatten().copied().reduce(f64::max);
    let block = |value: &Option<f64>| match (value, most) {
        (Some(value), Some(most)) if *value > 0.0 => {
            let level = value / most * LEVELS.len() as f64;
            LEVELS[(level.ceil() as usize).clamp(1, LEVELS.len()) - 1]
        }
        _ => ' ',
    };
    let blocks: String = values.iter().map(block).collect();
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), &show);
    let now = values.last().copied().flatten();
    let mut pieces = label_piece(label);
    pieces.push((Style::Cyan, blocks));
    pieces.push((Style::Dim, format!(" {:>NUMBER$}", shown(most))));
    pieces.push((Style::Plain, format!(" {:>NUMBER$}", shown(now))));
    paint.line(pieces)
}

/// Returns a label, padded to the width of all labels.
fn label_piece(label: &str) -> Vec<StyledPiece> {
    vec![(Style::Dim, format!("{label:LABEL$}"))]
}

/// Returns the worst finding in short.
fn worst_finding(
    live: &LiveReport,
    connection: &LiveConnection,
    width: usize,
    paint: StyleMapper,
) -> Vec<Line<'static>> {
    let mut layout = TextLayout::new(&text_options(width, paint));
    let Some(place) = place_of_finding(live, connection) else {
        layout.entry(0, "finding", LABEL, "none: the lost time is too small");
        return paint.styled_lines(&layout.finish());
    };
    match live.findings.get(place) {
        Some(finding) => {
            let title = format!("{} · {}", finding.severity.name(), finding.rule);
            let mut pieces = label_piece("finding");
            pieces.push((super::lists::severity_style(finding.severity), title));
            let mut lines = vec![paint.line(pieces)];
            layout.entry(0, "", LABEL, &finding.headline);
            let advice = finding.advice.first().map(|advice| advice.0.as_ref());
            let room = width.min(TEXT_WIDTH).saturating_sub(LABEL);
            let advice = cells::fit_text(advice.unwrap_or("none"), room, false);
            layout.entry(0, "fix", LABEL, advice.trim_end());
            layout.entry(0, "", LABEL, "enter: the evidence and every fix");
            lines.extend(paint.styled_lines(&layout.finish()));
            lines
        }
        None => {
            let undecided = live.undecided.get(place - live.findings.len());
            let (headline, why) =
                undecided.map_or(("", ""), |it| (it.headline.as_str(), it.why.as_str()));
            layout.entry(0, "finding", LABEL, &format!("undecided: {headline}"));
            layout.entry(0, "why", LABEL, why);
            paint.styled_lines(&layout.finish())
        }
    }
}

/// Returns a finding in full, as in a report.
pub fn finding(
    top: &TopState,
    live: &LiveReport,
    id: &FindingId,
    width: usize,
    paint: StyleMapper,
) -> Vec<Line<'static>> {
    let mut layout = TextLayout::new(&text_options(width, paint));
    match top.finding(id) {
        Some(place) => match live.findings.get(place) {
            Some(finding) => findings::draw_whole_finding(&mut layout, finding),
            None => {
                let undecided = live.undecided.get(place - live.findings.len());
                undecided
                    .into_iter()
                    .for_each(|it| findings::draw_one_undecided(&mut layout, it));
            }
        },
        None => layout.paragraph(
            0,
            Style::Green,
            "this finding has ended: the last seconds do not show it",
        ),
    }
    paint.styled_lines(&layout.finish())
}

/// Returns the options for text of reports on this screen.
fn text_options(width: usize, paint: StyleMapper) -> TextOptions {
    TextOptions {
        colour: paint.colour,
        width: width.min(TEXT_WIDTH),
        ..TextOptions::default()
    }
}
