//! The help screen: keys, columns and letters.

use ratatui::text::Line;

use super::paint::StyleMapper;
use crate::layout::Style;

const KEYS: [(&str, &str); 16] = [
    ("↑ ↓  j k  PgUp PgDn  g G", "select, or scroll"),
    ("enter  →", "open: a connection, a process, a finding"),
    (
        "q  esc  ←",
        "back; in a list q quits; Ctrl-C quits anywhere",
    ),
    ("tab  1 2 3 4", "connections, processes, findings, services"),
    ("/", "filter by process, address, stage, finding; esc: all"),
    ("< >", "sort by the column to the left, to the right"),
    (
        "H O I T R W P",
        "sort by held, out, in, rtt, retr, wait, process",
    ),
    ("r", "reverse the order"),
    ("i", "hide or show idle connections"),
    ("p  space", "pause, resume"),
    ("Ctrl-Z", "suspend; fg resumes"),
    ("", ""),
    ("HELD BY", "the stage that delayed the next byte longest"),
    ("OUT IN", "bits per second, over the time in the title"),
    ("RETR", "retransmitted segments in that time"),
    (
        "WAIT",
        "time with threads blocked in calls (--detail calls)",
    ),
];

const STAGES: [(&str, &str); 8] = [
    ("T L", "timeout (retransmit_timeout), tail loss"),
    ("W", "recv window: the receiver's window is full"),
    ("F C", "fast retransmit, congestion window"),
    ("P Q K", "pacing, local queue, cork"),
    ("N D", "nagle, delayed ack"),
    ("B", "send buffer: it is full, so the application waits"),
    ("~ .", "in flight: one round trip; app: nothing to send"),
    ("?", "unknown to polls; --detail calls measures it"),
];

/// Returns the lines of the screen.
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
