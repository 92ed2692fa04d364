//! The worst connections, each with a bar of its sending stages and its receiving side.

use diagnose::Report;
use diagnose::report::{Connection, Receive};
use diagnose::units::{bytes, count, counted, duration, percent};
use table::Method;

use super::bar;
use super::process;
use crate::layout::{Style, TextLayout};

/// Connections drawn; the rest are counted.
const SHOWN: usize = 5;

/// Cells of a bar.
const CELLS: usize = 60;

/// Draws the section.
pub fn draw(layout: &mut TextLayout, report: &Report) {
    let all = report.connections.len();
    if all == 0 {
        return;
    }
    let shown = all.min(SHOWN);
    let number = format!(
        ", worst first: {} of {}",
        count(shown as u64),
        count(all as u64)
    );
    layout.title(&[(Style::Bold, "connections"), (Style::Dim, &number)]);
    for connection in report.connections.iter().take(shown) {
        draw_connection(layout, connection);
    }
    if all > shown {
        let text = format!(
            "{} more not shown: see --format json.",
            count((all - shown) as u64)
        );
        layout.paragraph(2, Style::Dim, &text);
    }
    layout.blank();
}

fn draw_connection(layout: &mut TextLayout, connection: &Connection) {
    let Connection { local, remote, .. } = connection;
    let name = format!(
        "{} {local} → {remote}",
        process(connection.process.as_ref())
    );
    layout.paragraph(2, Style::Cyan, &name);
    layout.paragraph(4, Style::Dim, &facts(connection));
    draw_sending(layout, connection);
    if let Some(receive) = &connection.receive {
        layout.paragraph(4, Style::Plain, &receiving(receive));
    }
}

fn facts(connection: &Connection) -> String {
    // What was open before has lived for longer than anybody looked.
    let verb = match connection.opened_ns {
        Some(_) => "lived",
        None => "watched",
    };
    let mut facts = vec![format!("{verb} {}", duration(connection.lifetime_ns))];
    let totals = &connection.totals;
    facts.extend(
        totals
            .bytes_sent
            .map(|sent| format!("sent {}", bytes(sent))),
    );
    facts.extend(
        totals
            .bytes_received
            .map(|received| format!("received {}", bytes(received))),
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
            counted(others, "other")
        )
    }));
    let rtt_us = connection.tcp.min_rtt_us.map(u64::from);
    facts.extend(rtt_us.map(|us| format!("least RTT {}", duration(us * 1_000))));
    facts.join(" · ")
}

fn draw_sending(layout: &mut TextLayout, connection: &Connection) {
    if connection.sent_nothing {
        layout.paragraph(4, Style::Plain, "sends nothing");
        return;
    }
    if let Some(why) = &connection.not_judged {
        layout.paragraph(
            4,
            Style::Plain,
            &format!("sending could not be judged: {why}"),
        );
        return;
    }
    let cells = bar::cells(&connection.stages, CELLS.min(layout.width() - 8));
    let drawn: Vec<(Style, String)> = cells
        .iter()
        .map(|(stage, number)| {
            let (letter, style) = bar::mark(*stage);
            (style, letter.to_string().repeat(*number))
        })
        .collect();
    let mut pieces = vec![(Style::Dim, "[")];
    pieces.extend(drawn.iter().map(|(style, cells)| (*style, cells.as_str())));
    pieces.push((Style::Dim, "]"));
    layout.line(4, &pieces);
    layout.paragraph(4, Style::Plain, &bar::legend(&connection.stages));
    layout.paragraph(4, Style::Dim, &exactness(connection));
}

/// How the shares were found, and the widest bound among them.
fn exactness(connection: &Connection) -> String {
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
    ]
    .into_iter()
    .filter(|(method, _)| uses(*method))
    .map(|(_, name)| name)
    .collect();
    format!(
        "sending, by {}; each share within {}",
        means.join(" and "),
        percent(widest)
    )
}

fn receiving(receive: &Receive) -> String {
    let mut text = format!(
        "receiving: waits for the other end {}, reader late {}",
        percent(receive.waiting_for_peer.share),
        percent(receive.reader_slow.share)
    );
    if let Some(closed) = receive.window_closed.filter(|closed| closed.ns > 0) {
        text.push_str(&format!(", window closed {}", percent(closed.share)));
    }
    text
}
