//! Converts pieces of text to lines of a frame, with and without colour.

use ratatui::style::{Color, Modifier, Style as Look};
use ratatui::text::{Line, Span};

use super::cells::StyledPiece;
use crate::layout::Style;

/// Maps styles to a terminal; without colours, letters alone make the difference.
#[derive(Debug, Clone, Copy)]
pub struct StyleMapper {
    /// Use colours.
    pub colour: bool,
}

impl StyleMapper {
    /// Returns the terminal's look of a style.
    pub fn look(self, style: Style) -> Look {
        let plain = Look::new();
        match style {
            Style::Plain => plain,
            Style::Bold => plain.add_modifier(Modifier::BOLD),
            Style::Dim => plain.add_modifier(Modifier::DIM),
            _ if !self.colour => plain,
            Style::Red => plain.fg(Color::Red),
            Style::Yellow => plain.fg(Color::Yellow),
            Style::Green => plain.fg(Color::Green),
            Style::Cyan => plain.fg(Color::Cyan),
        }
    }

    /// Returns a line of pieces.
    pub fn line(self, pieces: Vec<StyledPiece>) -> Line<'static> {
        let spans = pieces
            .into_iter()
            .map(|(style, text)| Span::styled(text, self.look(style)));
        Line::from_iter(spans)
    }

    /// Returns a highlighted line: headings, the selected row.
    pub fn bar(self, text: String) -> Line<'static> {
        Line::styled(text, Look::new().add_modifier(Modifier::REVERSED))
    }

    /// Returns the lines of a coloured [`crate::layout::TextLayout`].
    pub fn styled_lines(self, text: &str) -> Vec<Line<'static>> {
        text.lines()
            .map(|line| self.line(split_styles(line)))
            .collect()
    }
}

/// Splits text of `TextLayout` into pieces with a style: `ESC [ code m text ESC [ 0 m`. Nothing
/// else in a page begins with ESC.
fn split_styles(line: &str) -> Vec<StyledPiece> {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default();
    let mut pieces = vec![(Style::Plain, first.to_owned())];
    for part in parts {
        let coded = part.strip_prefix('[').and_then(|part| part.split_once('m'));
        let (code, text) = coded.unwrap_or(("0", part));
        pieces.push((Style::from_code(code), text.to_owned()));
    }
    pieces
}
