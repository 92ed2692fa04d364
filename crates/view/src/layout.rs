//! Lines of styled text within a fixed width. All that is printed goes through [`TextLayout`], so
//! that every string is cleaned and no line is too long.

use crate::clean::remove_controls;

/// Longest line.
pub const MOST_COLUMNS: usize = 80;

/// Narrowest text that is laid out; narrower terminals wrap by themselves.
const LEAST_COLUMNS: usize = 40;

/// Options of a text report: colour, width, length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Use ANSI colours: for a terminal, and without NO_COLOR.
    pub colour: bool,
    /// Columns available; lines are never longer than 80.
    pub width: usize,
    /// Entries of each list that are drawn; `None`: as many as a person reads.
    pub limit: Option<usize>,
    /// Whether what is no problem is drawn with its evidence, too.
    pub is_full: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            colour: false,
            width: MOST_COLUMNS,
            limit: None,
            is_full: false,
        }
    }
}

/// Look of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Normal text.
    Plain,
    /// Important.
    Bold,
    /// Secondary text.
    Dim,
    /// Stalls.
    Red,
    /// Limits.
    Yellow,
    /// Good.
    Green,
    /// Names.
    Cyan,
}

impl Style {
    /// Returns the code of Select Graphic Rendition (ECMA-48).
    const fn ansi_code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Yellow => "33",
            Self::Green => "32",
            Self::Cyan => "36",
        }
    }
}

impl Style {
    /// Returns the style with this terminal code.
    pub fn from_code(code: &str) -> Self {
        let all = [
            Self::Bold,
            Self::Dim,
            Self::Red,
            Self::Yellow,
            Self::Green,
            Self::Cyan,
        ];
        let found = all.into_iter().find(|style| style.ansi_code() == code);
        found.unwrap_or(Self::Plain)
    }
}

/// Text that is being laid out.
#[derive(Debug)]
pub struct TextLayout {
    out: String,
    colour: bool,
    width: usize,
}

impl TextLayout {
    /// Makes an empty layout with these options.
    pub fn new(options: &TextOptions) -> Self {
        let width = options.width.clamp(LEAST_COLUMNS, MOST_COLUMNS);
        Self {
            out: String::new(),
            colour: options.colour,
            width,
        }
    }

    /// Returns the columns of a line.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the text of the layout.
    pub fn finish(self) -> String {
        self.out
    }

    /// Adds text in a style; without colour the text alone.
    fn put(&mut self, style: Style, text: &str) {
        if self.colour && style != Style::Plain && !text.trim().is_empty() {
            self.out
                .push_str(&format!("\u{1b}[{}m{text}\u{1b}[0m", style.ansi_code()));
        } else {
            self.out.push_str(text);
        }
    }

    /// Ends the line without spaces at its end.
    fn end_line(&mut self) {
        let kept = self.out.trim_end_matches(' ').len();
        self.out.truncate(kept);
        self.out.push('\n');
    }

    /// Adds an empty line.
    pub fn blank(&mut self) {
        self.out.push('\n');
    }

    /// Adds a title with a rule to the end of the line.
    pub fn title(&mut self, pieces: &[(Style, &str)]) {
        self.put(Style::Dim, "── ");
        let mut used = 3;
        for (style, piece) in pieces {
            let room = self.width.saturating_sub(used);
            let piece: String = remove_controls(piece).chars().take(room).collect();
            used += columns(&piece);
            self.put(*style, &piece);
        }
        let rest = self.width.saturating_sub(used + 1);
        self.put(Style::Dim, &format!(" {}", "─".repeat(rest)));
        self.end_line();
    }

    /// Adds a line of pieces that fit.
    pub fn line(&mut self, indent: usize, pieces: &[(Style, &str)]) {
        self.out.push_str(&" ".repeat(indent));
        for (style, piece) in pieces {
            self.put(*style, &remove_controls(piece));
        }
        self.end_line();
    }

    /// Adds a paragraph: wrapped at spaces, all lines indented alike.
    pub fn paragraph(&mut self, indent: usize, style: Style, text: &str) {
        self.hanging(indent, "", Style::Plain, style, text);
    }

    /// Adds a paragraph after a `label`; its lines begin where the label ends.
    pub fn entry(&mut self, indent: usize, label: &str, label_width: usize, text: &str) {
        let label = format!("{label:label_width$}");
        self.hanging(indent, &label, Style::Dim, Style::Plain, text);
    }

    /// Adds a paragraph that starts with a name; its later lines are indented further.
    pub fn bullet(&mut self, indent: usize, (style, name): (Style, &str), text: &str) {
        const FURTHER: usize = 2;
        let name = format!("{} ·", remove_controls(name));
        let first = columns(&name) + 1;
        let room = self.width.saturating_sub(indent + FURTHER).max(1);
        // The name takes the place of as many letters of the first line.
        let marked = format!(
            "{} {}",
            "\u{a0}".repeat(first.saturating_sub(1 + FURTHER)),
            remove_controls(text)
        );
        for (index, line) in wrap(&glue_units(&marked), room).iter().enumerate() {
            let line = line.trim_start_matches('\u{a0}').replace('\u{a0}', " ");
            if index == 0 {
                self.out.push_str(&" ".repeat(indent));
                self.put(style, &name);
            } else {
                self.out.push_str(&" ".repeat(indent + FURTHER));
            }
            self.put(Style::Plain, &line);
            self.end_line();
        }
    }

    /// Writes text behind a label, wrapped, with all lines below the first word.
    fn hanging(
        &mut self,
        indent: usize,
        label: &str,
        label_style: Style,
        style: Style,
        text: &str,
    ) {
        let label = remove_controls(label);
        let left = indent + columns(&label);
        let room = self.width.saturating_sub(left).max(1);
        for (index, line) in wrap(&glue_units(&remove_controls(text)), room)
            .iter()
            .enumerate()
        {
            if index == 0 {
                self.out.push_str(&" ".repeat(indent));
                self.put(label_style, &label);
            } else {
                self.out.push_str(&" ".repeat(left));
            }
            // A no-break space has kept its words together; it has done its work.
            self.put(style, &line.replace('\u{a0}', " "));
            self.end_line();
        }
    }
}

/// Pads a text with spaces at its end to `width` columns.
pub fn pad_end(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// Pads a text with spaces before it to `width` columns.
pub fn pad_begin(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(columns(text))))
}

/// Returns the columns of a cleaned string. Names are short and nearly always Latin.
pub fn columns(text: &str) -> usize {
    text.chars().count()
}

/// Units that stay with their number.
const UNITS: [&str; 20] = [
    "%",
    "ns",
    "µs",
    "ms",
    "s",
    "min",
    "h",
    "B",
    "kB",
    "MB",
    "GB",
    "TB",
    "bit/s",
    "kbit/s",
    "Mbit/s",
    "Gbit/s",
    "segments",
    "records",
    "times",
    "connections",
];

/// Joins a number and its unit with a no-break space, so that a line does not end between.
fn glue_units(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut number = false;
    for word in text.split(' ') {
        let unit = word.trim_end_matches([',', '.', ';', ':', ')', '(']);
        if !out.is_empty() {
            out.push(if number && UNITS.contains(&unit) {
                '\u{a0}'
            } else {
                ' '
            });
        }
        out.push_str(word);
        number = word.ends_with(|c: char| c.is_ascii_digit());
    }
    out
}

/// Breaks text at spaces into lines of `room` columns at most; a longer word is cut.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut rest: Vec<char> = word.chars().collect();
        let line = lines.last_mut().map_or(0, |line| columns(line));
        let gap = usize::from(line > 0);
        if line > 0 && line + gap + rest.len() > room {
            lines.push(String::new());
        } else if gap > 0
            && let Some(line) = lines.last_mut()
        {
            line.push(' ');
        }
        while rest.len() > room {
            let tail = rest.split_off(room);
            if let Some(line) = lines.last_mut() {
                line.extend(rest);
            }
            lines.push(String::new());
            rest = tail;
        }
        if let Some(line) = lines.last_mut() {
            line.extend(rest);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_and_long_words_are_cut() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij kl", 4), ["abcd", "efgh", "ij", "kl"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn a_number_keeps_its_unit() {
        assert_eq!(
            glue_units("20.1 s of 43.8 ms (97.6 %)."),
            "20.1\u{a0}s of 43.8\u{a0}ms (97.6\u{a0}%)."
        );
        assert_eq!(wrap(&glue_units("abc 1.00 s"), 9), ["abc", "1.00\u{a0}s"]);
    }

    #[test]
    fn colour_codes_only_with_colour_option() {
        let draw = |colour| {
            let mut layout = TextLayout::new(&TextOptions {
                colour,
                ..TextOptions::default()
            });
            layout.line(2, &[(Style::Red, "stall"), (Style::Plain, " ok")]);
            layout.finish()
        };
        assert_eq!(draw(false), "  stall ok\n");
        assert_eq!(draw(true), "  \u{1b}[31mstall\u{1b}[0m ok\n");
    }
}
