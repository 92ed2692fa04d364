//! The keys, and what the columns mean.

use ratatui::text::Line;

use super::paint::StyleMapper;
use crate::layout::Style;

const KEYS: [(&str, &str); 16] = [
    ("↑ ↓  j k  PgUp PgDn  g G", "select, or scroll"),
    ("enter  →", "open: a connection, a process, a finding"),
    (
        "q  esc  ←",
        "back; q in a list of its own, Ctrl-C anywhere: quit",
    ),
    ("tab  1 2 3", "connections, processes, findings"),
    ("/", "filter by process, address, stage, finding; esc: all"),
    ("< >", "sort by the column to the left, to the right"),
    (
        "H O I T R W P",
        "sort by held, out, in, rtt, retr, wait, process",
    ),
    ("r", "the other way round"),
    ("i", "hide idle connections, or show them again"),
    ("p  space", "pause, go on"),
    ("Ctrl-Z", "to the shell; fg comes back"),
    ("", ""),
    ("HELD BY", "what stopped the next byte for most of the time"),
    (
        "OUT IN",
        "bits per second, of the time that the title names",
    ),
    ("RETR", "segments sent again in that time"),
    ("WAIT", "threads blocked in calls on it (--detail calls)"),
];

const STAGES: [(&str, &str); 8] = [
    ("T L", "timeout (retransmit_timeout), tail loss"),
    ("W", "recv window: the receiver's window is full"),
    ("F C", "fast retransmit, congestion window"),
    ("P Q K", "pacing, local queue, cork"),
    ("N D", "nagle, delayed ack"),
    ("B", "send buffer: the application may not write more"),
    ("~ .", "in flight: one round trip; app: nothing to send"),
    ("?", "unknown: polls cannot tell; --detail calls can"),
];

/// The page.
pub fn lines(paint: StyleMapper) -> Vec<Line<'static>> {
    let table = |rows: &[(&str, &str)], width: usize| -> Vec<Line<'static>> {
        let line = |(key, what): &(&str, &str)| {
            let key = (Style::Bold, format!(" {key:width$}  "));
            paint.line(vec![key, (Style::Plain, (*what).to_owned())])
        };
        rows.iter().map(line).collect()
    };
    let mut lines = table(&KEYS, 25);
    lines.push(Line::default());
    lines.push(paint.line(vec![(Style::Dim, " letters of the bars".to_owned())]));
    lines.extend(table(&STAGES, 25));
    lines
}
