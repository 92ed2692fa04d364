//! A table of a recording as CSV (RFC 4180, lines that end with LF): a line of column names, as in
//! `docs/tables.md`, then a line a row. An absent value is an empty field, an empty text `""`.

use std::io::{self, BufWriter, Write};

use table::{Columns, Recording, Table, Value, for_each_table};

use crate::clean::remove_controls;

/// Form of text in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsvText {
    /// Unchanged.
    Exact,
    /// Cleaned for a terminal.
    Clean,
}

/// Writes a table, batch by batch; nothing for a table that the recording does not have or this whylat does not know
/// ([`crate::find_declaration`]).
///
/// # Errors
/// When `out` cannot be written.
pub fn write_csv(
    recording: &Recording,
    table: &str,
    text: CsvText,
    out: &mut dyn Write,
) -> io::Result<()> {
    if !recording.tables().any(|name| name == table) {
        return Ok(());
    }
    macro_rules! dispatch {
        ($($row:ty),+ $(,)?) => {
            match table {
                $(<$row as Table>::NAME => rows::<$row>(recording, text, out),)+
                _ => Ok(()),
            }
        };
    }
    for_each_table!(dispatch)
}

/// Writes all rows of a table, below a line with the names of its columns.
fn rows<T: Table>(recording: &Recording, text: CsvText, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let mut line = Line::new(text);
    for field in T::FIELDS {
        line.add(Value::Text(field.name));
    }
    line.end(&mut out)?;
    for columns in recording.batches::<T>() {
        for row in 0..columns.len() {
            columns.for_each_value(row, |value| line.add(value));
            line.end(&mut out)?;
        }
    }
    out.flush()
}

/// The line that is being written; all lines share its buffer.
pub(crate) struct Line {
    text: CsvText,
    buffer: Vec<u8>,
}

impl Line {
    /// Begins a line.
    pub(crate) fn new(text: CsvText) -> Self {
        let buffer = Vec::new();
        Self { text, buffer }
    }

    /// Adds a cell, in quotes if needed.
    pub(crate) fn add(&mut self, value: Value<'_>) {
        let written = match value {
            Value::Absent => Ok(()),
            Value::Unsigned(number) => write!(self.buffer, "{number}"),
            Value::Signed(number) => write!(self.buffer, "{number}"),
            Value::Real(number) => write!(self.buffer, "{number}"),
            Value::Is(yes) => write!(self.buffer, "{yes}"),
            Value::Text(text) if self.text == CsvText::Clean => {
                write_quoted(&remove_controls(text), &mut self.buffer);
                Ok(())
            }
            Value::Text(text) => {
                write_quoted(text, &mut self.buffer);
                Ok(())
            }
        };
        written.expect("a buffer in memory takes everything");
        self.buffer.push(b',');
    }

    /// Writes the line, and begins a new one.
    pub(crate) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        if let Some(last) = self.buffer.last_mut() {
            *last = b'\n';
        }
        out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Writes a field (RFC 4180, 2.5 to 2.7): quotes a separator, a quote or a line end, and doubles quotes.
fn write_quoted(text: &str, out: &mut Vec<u8>) {
    let is_plain = !text.is_empty() && !text.contains(['"', ',', '\n', '\r']);
    if is_plain {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the line of these values.
    fn line(values: &[Value<'_>], text: CsvText) -> String {
        let (mut line, mut out) = (Line::new(text), Vec::new());
        values.iter().for_each(|value| line.add(*value));
        line.end(&mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn cells_of_every_type_are_written() {
        let values = [
            Value::Unsigned(u64::MAX),
            Value::Absent,
            Value::Signed(-11),
            Value::Real(0.1),
            Value::Is(true),
            Value::Text("redis"),
            Value::Text(""),
        ];
        let expected = "18446744073709551615,,-11,0.1,true,redis,\"\"\n";
        assert_eq!(line(&values, CsvText::Exact), expected);
    }

    #[test]
    fn text_for_a_terminal_is_clean() {
        let hostile = Value::Text("a\u{1b}[31m,\"b\"\u{202e}");
        let exact = "\"a\u{1b}[31m,\"\"b\"\"\u{202e}\"\n";
        assert_eq!(line(&[hostile], CsvText::Exact), exact);
        assert_eq!(line(&[hostile], CsvText::Clean), "\"a,\"\"b\"\"\"\n");
    }
}
