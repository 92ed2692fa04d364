//! The worst connections: each with a bar of its sending stages and its receiving side, or in two lines where nothing
//! was found on it.

use diagnose::Report;
use diagnose::report::{Connection, Receive};
use diagnose::units::{count, duration, format_bytes, percent, quantity};
use table::Method;

use super::bar;
use super::parts::{draw_more, process};
use crate::layout::{Style, TextLayout, TextOptions};

/// Connections drawn unless the user asks for more, if one of them has a problem, and if none has.
const SHOWN: usize = 5;
const SHOWN_HEALTHY: usize = 2;

/// Cells of a bar.
const CELLS: usize = 60;

/// Draws the section on connections.
pub fn draw(layout: &mut TextLayout, report: &Report, options: &TextOptions) {
    let all = report.connections.len();
    if all == 0 {
        return;
    }
    let is_healthy = report.connections.iter().all(|it| !has_problem(report, it));
    let usual = if is_healthy { SHOWN_HEALTHY } else { SHOWN };
    let shown = options.limit.unwrap_or(usual).min(all);
    let number = format!(
        ", worst first: {} of {}",
        count(shown as u64),
        count(all as u64)
    );
    layout.title(&[(Style::Bold, "connections"), (Style::Dim, &number)]);
    for connection in report.connections.iter().take(shown) {
        draw_connection(layout, report, connection, options);
    }
    draw_more(layout, shown, all);
    layout.blank();
}

/// Returns whether a warning or an undecided problem that may cost as much is about a connection.
fn has_problem(report: &Report, connection: &Connection) -> bool {
    let warnings = report.findings.iter().filter(|it| !it.is_note());
    let mut undecided = report.undecided.iter().filter(|it| !it.is_minor());
    warnings
        .map(|it| it.rule)
        .any(|rule| connection.findings.contains(&rule))
        || undecided.any(|it| it.subject.ids.contains(&connection.id))
}

/// Writes one connection: its facts, stages and receiving side.
fn draw_connection(
    layout: &mut TextLayout,
    report: &Report,
    connection: &Connection,
    options: &TextOptions,
) {
    let Connection { local, remote, .. } = connection;
    let name = format!(
        "{} {local} → {remote}",
        process(connection.process.as_ref())
    );
    layout.paragraph(2, Style::Cyan, &name);
    layout.paragraph(4, Style::Dim, &describe_facts(connection));
    if !options.is_full && !has_problem(report, connection) {
        draw_short(layout, connection);
        return;
    }
    draw_sending(layout, connection);
    if let Some(receive) = &connection.receive {
        layout.paragraph(4, Style::Plain, &describe_receiving(receive));
    }
}

/// Draws the stages of a healthy connection in one line.
fn draw_short(layout: &mut TextLayout, connection: &Connection) {
    if connection.not_judged.is_some() || connection.sent_nothing {
        draw_sending(layout, connection);
    } else if !connection.stages.is_empty() {
        layout.paragraph(4, Style::Plain, &bar::summary(&connection.stages));
    }
}

/// Returns bytes, duration, RTT and retransmissions in one line.
fn describe_facts(connection: &Connection) -> String {
    // Nobody knows how old a connection is that was open before the recording.
    let verb = match connection.opened_ns {
        Some(_) => "lasted",
        None => "observed for",
    };
    let lifetime = Some(connection.lifetime_ns).filter(|ns| *ns > 0);
    let mut facts = Vec::new();
    facts.extend(lifetime.map(|ns| format!("{verb} {}", duration(ns))));
    let totals = &connection.totals;
    facts.extend(
        totals
            .bytes_sent
            .map(|sent| format!("sent\u{a0}{}", format_bytes(sent))),
    );
    facts.extend(
        totals
            .bytes_received
            .map(|received| format!("received\u{a0}{}", format_bytes(received))),
    );
    facts.extend(connection.tcp.congestion.clone());
    facts.extend(
        connection
            .tcp
            .nodelay
            .map(|nodelay| format!("nodelay {}", if nodelay { "on" } else { "off" })),
    );
    facts.extend(connection.mptcp.as_ref().map(|mptcp| {
        let others = mptcp.subflows.saturating_sub(1);
        format!(
            "subflow of MPTCP connection {}, with {} recorded",
            mptcp.token,
            quantity(others, "other")
        )
    }));
    let rtt_us = connection.tcp.min_rtt_us.map(u64::from);
    facts.extend(rtt_us.map(|us| format!("min\u{a0}RTT\u{a0}{}", duration(us * 1_000))));
    facts.join(" · ")
}

/// Writes the bar and the shares of the sending side's stages.
fn draw_sending(layout: &mut TextLayout, connection: &Connection) {
    if connection.sent_nothing {
        layout.paragraph(4, Style::Plain, "sends nothing");
        return;
    }
    if let Some(why) = &connection.not_judged {
        let text = format!("sending not judged: {why}");
        layout.paragraph(4, Style::Plain, &text);
        return;
    }
    let cells = bar::stage_cells(&connection.stages, CELLS.min(layout.width() - 8));
    let drawn: Vec<(Style, String)> = cells
        .iter()
        .map(|(stage, number)| {
            let (letter, style) = bar::stage_mark(*stage);
            (style, letter.to_string().repeat(*number))
        })
        .collect();
    let mut pieces = vec![(Style::Dim, "[")];
    pieces.extend(drawn.iter().map(|(style, cells)| (*style, cells.as_str())));
    pieces.push((Style::Dim, "]"));
    layout.line(4, &pieces);
    layout.paragraph(4, Style::Plain, &bar::legend(&connection.stages));
    layout.paragraph(4, Style::Dim, &describe_exactness(connection));
}

/// Returns how the shares were measured, and their largest error.
fn describe_exactness(connection: &Connection) -> String {
    let uses = |method| {
        connection
            .stages
            .iter()
            .any(|(_, share)| share.method == method)
    };
    let widest = connection
        .stages
        .iter()
        .map(|(_, share)| share.bound)
        .fold(0.0, f64::max);
    let means: Vec<&str> = [
        (Method::Ledger, "ledger"),
        (Method::Chronograph, "kernel clocks"),
        (Method::Samples, "random polls"),
        (Method::Capture, "packets of a capture"),
    ]
    .into_iter()
    .filter(|(method, _)| uses(*method))
    .map(|(_, name)| name)
    .collect();
    format!(
        "sending, measured by {}; error of each share up to {}",
        means.join(" and "),
        percent(widest)
    )
}

/// Returns the shares of the receiving side's stages in one line.
fn describe_receiving(receive: &Receive) -> String {
    let mut text = format!(
        "receiving: waiting for the sender {}, slow reader {}",
        percent(receive.waiting_for_peer.share),
        percent(receive.reader_slow.share)
    );
    if let Some(closed) = receive.window_closed.filter(|closed| closed.ns > 0) {
        text.push_str(&format!(", window closed {}", percent(closed.share)));
    }
    text
}
