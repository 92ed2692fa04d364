//! The columns of the lists and their cells: short, cleaned, aligned. In: rows of [`diagnose::live::Live`] and the
//! width. Out: pieces of text that fill it exactly.

use diagnose::live::{HoldReason, LiveConnection, LiveProcess, MainHold};
use diagnose::report::{Process, Severity, Stages};
use diagnose::units::{count, duration, format_rate};
use ratatui::text::Span;
use table::Stage;

use crate::clean::remove_controls;
use crate::layout::Style;
use crate::text::bar;

/// Piece of a line with its look.
pub type StyledPiece = (Style, String);

/// Column of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListColumn {
    /// Severity of the worst finding.
    Mark,
    /// Process.
    Process,
    /// Number of connections.
    Connections,
    /// Local address.
    Local,
    /// Remote address.
    Remote,
    /// Longest stage, and its share of time.
    Held,
    /// All stages as a bar.
    Bar,
    /// Sent, bits per second.
    Out,
    /// Received, bits per second.
    In,
    /// Smoothed round-trip time.
    Rtt,
    /// Congestion window, segments.
    Cwnd,
    /// Retransmitted segments.
    Retransmits,
    /// Share of the time that threads were blocked in calls.
    Wait,
}

impl ListColumn {
    /// Returns the column's heading.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Mark => "",
            Self::Process => "PROCESS",
            Self::Connections => "CONNS",
            Self::Local => "LOCAL",
            Self::Remote => "REMOTE",
            Self::Held => "HELD BY",
            Self::Bar => "STAGES",
            Self::Out => "OUT",
            Self::In => "IN",
            Self::Rtt => "RTT",
            Self::Cwnd => "CWND",
            Self::Retransmits => "RETR",
            Self::Wait => "WAIT",
        }
    }

    /// Returns whether the column's cells are right-aligned.
    const fn is_number(self) -> bool {
        matches!(
            self,
            Self::Connections
                | Self::Out
                | Self::In
                | Self::Rtt
                | Self::Cwnd
                | Self::Retransmits
                | Self::Wait
        )
    }
}

/// Columns with their widths.
pub type ColumnWidths = Vec<(ListColumn, usize)>;

/// Narrowest layout; a narrower terminal shows its left part.
const LEAST_WIDTH: usize = 80;

/// Returns the columns of connections that fit; the bar and the addresses get the rest of the width.
pub fn connection_widths(width: usize) -> ColumnWidths {
    let width = width.max(LEAST_WIDTH);
    // an IPv4 address with its port takes 21
    let mut columns = vec![
        (ListColumn::Mark, 1),
        (ListColumn::Process, 14),
        (ListColumn::Remote, 21),
        (ListColumn::Held, 16),
        (ListColumn::Out, 6),
        (ListColumn::Rtt, 6),
        (ListColumn::Retransmits, 5),
        (ListColumn::Wait, 4),
    ];
    add(&mut columns, width, 4, (ListColumn::Bar, 10));
    add(&mut columns, width, 6, (ListColumn::In, 6));
    add(&mut columns, width, 8, (ListColumn::Cwnd, 6));
    add(&mut columns, width, 2, (ListColumn::Local, 21));
    widen_columns(&mut columns, width);
    columns
}

/// Returns the columns of processes that fit.
pub fn process_widths(width: usize) -> ColumnWidths {
    let width = width.max(LEAST_WIDTH);
    let mut columns = vec![
        (ListColumn::Mark, 1),
        (ListColumn::Process, 19),
        (ListColumn::Connections, 7),
        (ListColumn::Held, 18),
        (ListColumn::Out, 6),
        (ListColumn::In, 6),
        (ListColumn::Rtt, 6),
        (ListColumn::Retransmits, 5),
        (ListColumn::Wait, 4),
    ];
    // before the sums, which begin after four columns
    add(&mut columns, width, 4, (ListColumn::Bar, 10));
    widen_columns(&mut columns, width);
    columns
}

/// Returns the width of all columns with spaces between them, in characters.
fn used_width(columns: &ColumnWidths) -> usize {
    columns.iter().map(|(_, width)| width + 1).sum::<usize>() - 1
}

/// Adds a column if the screen has room for it.
fn add(columns: &mut ColumnWidths, width: usize, place: usize, column: (ListColumn, usize)) {
    if used_width(columns) + column.1 < width {
        columns.insert(place.min(columns.len()), column);
    }
}

/// Distributes the remaining width of the screen over the columns.
fn widen_columns(columns: &mut ColumnWidths, width: usize) {
    let mut left = width.saturating_sub(used_width(columns));
    for (wanted, most) in [
        (ListColumn::Bar, 24),
        (ListColumn::Process, 24),
        (ListColumn::Held, 24),
    ] {
        for (_, width) in columns.iter_mut().filter(|(column, _)| *column == wanted) {
            let more = left.min(most - (*width).min(most));
            *width += more;
            left -= more;
        }
    }
    // long IPv6 addresses
    let places = [ListColumn::Remote, ListColumn::Local];
    for (_, width) in columns
        .iter_mut()
        .filter(|(column, _)| places.contains(column))
    {
        let more = left.min(47 - (*width).min(47));
        *width += more;
        left -= more;
    }
}

/// Returns the headings, with an arrow at the sort column.
pub fn headings(columns: &ColumnWidths, sorted: Option<ListColumn>, reversed: bool) -> String {
    let cells = columns.iter().map(|(column, width)| {
        let arrow = match (sorted == Some(*column), reversed) {
            (false, _) => "",
            (true, false) => "▾",
            (true, true) => "▴",
        };
        let title = format!("{}{arrow}", column.title());
        fit_text(&title, *width, column.is_number())
    });
    cells.collect::<Vec<_>>().join(" ")
}

/// Returns a row of the list of connections.
pub fn connection_cells(connection: &LiveConnection, columns: &ColumnWidths) -> Vec<StyledPiece> {
    let number = |style, text: Option<String>| (style, text.unwrap_or_else(|| "-".to_owned()));
    row_cells(columns, |column, width| match column {
        ListColumn::Mark => severity_mark(connection.severity),
        ListColumn::Process => {
            let process = connection.process.as_ref();
            (Style::Plain, process_cell(process, width))
        }
        ListColumn::Connections => (Style::Plain, String::new()),
        ListColumn::Local => (Style::Plain, connection.local.clone()),
        ListColumn::Remote => (Style::Plain, connection.remote.clone()),
        ListColumn::Held if connection.closed && connection.held.is_none() => {
            (Style::Dim, "closed".to_owned())
        }
        ListColumn::Held if connection.closed => (Style::Dim, hold_cell(connection.held, width).1),
        ListColumn::Held if connection.idle => (Style::Dim, "idle".to_owned()),
        ListColumn::Held => hold_cell(connection.held, width),
        ListColumn::Bar => (Style::Plain, stage_letters(&connection.stages, width)),
        ListColumn::Out => number(Style::Plain, connection.out_bytes_per_s.map(format_bits)),
        ListColumn::In => number(Style::Plain, connection.in_bytes_per_s.map(format_bits)),
        ListColumn::Rtt => number(Style::Plain, connection.srtt_us.map(format_time)),
        ListColumn::Cwnd => number(Style::Plain, connection.cwnd.map(|cwnd| cwnd.to_string())),
        ListColumn::Retransmits => number(Style::Plain, connection.retransmits.map(count)),
        ListColumn::Wait => number(Style::Plain, connection.blocked_share.map(format_share)),
    })
}

/// Returns a row of the list of processes.
pub fn process_cells(one: &LiveProcess, columns: &ColumnWidths) -> Vec<StyledPiece> {
    let number = |text: Option<String>| (Style::Plain, text.unwrap_or_else(|| "-".to_owned()));
    row_cells(columns, |column, width| match column {
        ListColumn::Mark => severity_mark(one.severity),
        ListColumn::Process => (Style::Plain, process_cell(one.process.as_ref(), width)),
        ListColumn::Connections => number(Some(count(one.sums.connections))),
        ListColumn::Held if one.sums.active == 0 => (Style::Dim, "idle".to_owned()),
        ListColumn::Held => hold_cell(one.held, width),
        ListColumn::Bar => (Style::Plain, stage_letters(&one.stages, width)),
        ListColumn::Out => number(Some(format_bits(one.sums.out_bytes_per_s))),
        ListColumn::In => number(Some(format_bits(one.sums.in_bytes_per_s))),
        ListColumn::Rtt => number(one.srtt_us.map(format_time)),
        ListColumn::Retransmits => number(Some(count(one.sums.retransmits))),
        ListColumn::Wait => number(one.blocked_share.map(format_share)),
        ListColumn::Local | ListColumn::Remote | ListColumn::Cwnd => (Style::Plain, String::new()),
    })
}

/// Makes the cells of a row, with spaces between.
fn row_cells(
    columns: &ColumnWidths,
    cell: impl Fn(ListColumn, usize) -> StyledPiece,
) -> Vec<StyledPiece> {
    let mut pieces = Vec::new();
    for (index, (column, width)) in columns.iter().enumerate() {
        if index > 0 {
            pieces.push((Style::Plain, " ".to_owned()));
        }
        let (style, text) = cell(*column, *width);
        if *column == ListColumn::Bar {
            pieces.extend(colour_bar(&fit_text(&text, *width, false)));
        } else {
            pieces.push((
                style,
                fit_text(&remove_controls(&text), *width, column.is_number()),
            ));
        }
    }
    pieces
}

/// Returns the letters of a bar.
pub fn colour_bar(letters: &str) -> Vec<StyledPiece> {
    let style = |letter: char| {
        let stages = Stage::ALL.iter().map(|stage| bar::stage_mark(*stage));
        let found = stages
            .filter(|(of, _)| *of == letter)
            .map(|(_, style)| style)
            .next();
        found.unwrap_or(Style::Plain)
    };
    let mut pieces: Vec<StyledPiece> = Vec::new();
    for letter in letters.chars() {
        match pieces.last_mut() {
            Some((of, text)) if *of == style(letter) => text.push(letter),
            _ => pieces.push((style(letter), letter.to_string())),
        }
    }
    pieces
}

/// Returns a bar of letters, one for each part of the time.
fn stage_letters(stages: &Stages, width: usize) -> String {
    let cells = bar::stage_cells(stages, width);
    cells
        .into_iter()
        .map(|(stage, cells)| bar::stage_mark(stage).0.to_string().repeat(cells))
        .collect()
}

/// Returns a sign that reads without colour.
pub fn severity_mark(severity: Option<Severity>) -> StyledPiece {
    match severity {
        Some(Severity::Critical) => (Style::Red, "!".to_owned()),
        Some(Severity::Warning) => (Style::Yellow, "*".to_owned()),
        Some(Severity::Info) => (Style::Dim, "·".to_owned()),
        None => (Style::Plain, " ".to_owned()),
    }
}

/// Returns a process as `comm[pid]`, with `?` for unknown parts.
pub fn process(process: Option<&Process>) -> String {
    process.map_or_else(|| "?".to_owned(), Process::title)
}

/// Returns name and pid for a column; a long name is cut before the pid.
fn process_cell(of: Option<&Process>, width: usize) -> String {
    let title = remove_controls(&process(of));
    let Some(place) = title.rfind('[') else {
        return title;
    };
    let (name, pid) = title.split_at(place);
    let room = width.saturating_sub(pid.len());
    if title.chars().count() <= width || room < LEAST_NAME {
        return title;
    }
    fit_text(name, room, false) + pid
}

/// Columns of a name below which it says nothing.
const LEAST_NAME: usize = 4;

/// Returns the short name of a stage, which fits into a column.
pub const fn label(by: HoldReason) -> &'static str {
    match by {
        HoldReason::Stage(stage) => match stage {
            Stage::RetransmitTimeout => "timeout",
            Stage::TailLoss => "tail loss",
            Stage::ReceiverWindow => "recv window",
            Stage::FastRetransmit => "fast retr",
            Stage::CongestionWindow => "cong window",
            Stage::Pacing => "pacing",
            Stage::LocalQueue => "local queue",
            Stage::Cork => "cork",
            Stage::Nagle => "nagle",
            Stage::DelayedAck => "delayed ack",
            Stage::SendBuffer => "send buffer",
            Stage::InFlight => "in flight",
            Stage::SenderApp => "app",
            Stage::Unknown => "unknown",
        },
        HoldReason::ReaderSlow => "slow reader",
        HoldReason::WaitingForPeer => "peer",
    }
}

/// Returns the look of a stage.
pub fn stage_style(by: HoldReason) -> Style {
    match by {
        HoldReason::Stage(stage) => bar::stage_mark(stage).1,
        HoldReason::ReaderSlow => Style::Red,
        HoldReason::WaitingForPeer => Style::Green,
    }
}

/// Returns what holds a connection most, and its share.
fn hold_cell(held: Option<MainHold>, width: usize) -> StyledPiece {
    let Some(MainHold { by, share: part }) = held else {
        return (Style::Dim, "-".to_owned());
    };
    let (name, part) = (label(by), format_share(part));
    let room = width.saturating_sub(part.len() + 1);
    (
        stage_style(by),
        format!("{} {part}", fit_text(name, room.min(12), false)),
    )
}

/// Returns a share in whole per cent.
pub fn format_share(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Returns a rate in bits per second without its unit: `6.21M`.
pub fn format_bits(bytes_per_s: f64) -> String {
    if bytes_per_s * 8.0 < 0.5 {
        return "0".to_owned();
    }
    format_rate(bytes_per_s)
        .replace("bit/s", "")
        .replace(' ', "")
}

/// Returns a time in µs without a space: `43.8ms`.
pub fn format_time(us: u32) -> String {
    duration(u64::from(us) * 1_000).replace(' ', "")
}

/// Cuts or pads text to a width.
pub fn fit_text(text: &str, width: usize, right: bool) -> String {
    let taken = Span::raw(text).width();
    if taken <= width {
        let pad = " ".repeat(width - taken);
        return if right {
            format!("{pad}{text}")
        } else {
            format!("{text}{pad}")
        };
    }
    let mut out = String::new();
    let mut left = width.saturating_sub(1);
    for c in text.chars() {
        let columns = Span::raw(c.to_string()).width();
        if columns > left {
            break;
        }
        out.push(c);
        left -= columns;
    }
    if width > 0 {
        out.push('…');
    }
    out.push_str(&" ".repeat(left));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fill_the_line_exactly() {
        for width in [80, 81, 90, 100, 120, 160, 200, 300] {
            for columns in [connection_widths(width), process_widths(width)] {
                assert!(used_width(&columns) <= width, "{width}: {columns:?}");
                assert_eq!(
                    Span::raw(headings(&columns, None, false)).width(),
                    used_width(&columns)
                );
            }
        }
        assert_eq!(
            (
                used_width(&connection_widths(80)),
                used_width(&process_widths(80))
            ),
            (80, 80)
        );
        assert_eq!(used_width(&connection_widths(40)), 80);
    }

    #[test]
    fn long_process_name_keeps_its_pid() {
        let process = Process {
            pid: Some(3813),
            comm: Some("redis-benchmark".to_owned()),
        };
        assert_eq!(process_cell(Some(&process), 14), "redis-b…[3813]");
        assert_eq!(process_cell(Some(&process), 40), "redis-benchmark[3813]");
    }

    #[test]
    fn text_is_cut_by_columns_not_bytes() {
        assert_eq!(fit_text("redis", 7, false), "redis  ");
        assert_eq!(fit_text("redis", 7, true), "  redis");
        assert_eq!(fit_text("redis-server", 7, false), "redis-…");
        // wide characters take two columns
        assert_eq!(fit_text("数据库服务", 7, false), "数据库…");
        assert_eq!(fit_text("数据库服务", 6, false), "数据… ");
        assert_eq!(fit_text("x", 0, false), "");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            (format_bits(0.0), format_bits(100.0)),
            ("0".to_owned(), "800".to_owned())
        );
        assert_eq!(
            (format_bits(775_000.0), format_bits(12.5e9)),
            ("6.20M".to_owned(), "100G".to_owned())
        );
        assert_eq!(
            (format_time(43_812), format_time(12)),
            ("43.8ms".to_owned(), "12.0µs".to_owned())
        );
        assert_eq!(format_share(0.976), "98%");
    }
}
