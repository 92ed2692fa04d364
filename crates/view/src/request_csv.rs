//! Requests as CSV: a line of column names, then a line a request: its name, times and sizes, and each part in ns.

use std::io::{self, Write};

use diagnose::requests::RequestPart;
use diagnose::requests::report::RequestRow;
use table::Value;

use crate::csv::{CsvText, Line};

/// Columns before those of the parts.
const COLUMNS: [&str; 7] = [
    "id",
    "service",
    "begin_ns",
    "duration_ns",
    "request_bytes",
    "response_bytes",
    "calls",
];

/// Writes requests as they come.
pub struct RequestCsv<W> {
    line: Line,
    out: W,
}

impl<W: Write> RequestCsv<W> {
    /// Writes the names of the columns.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn new(text: CsvText, out: W) -> io::Result<Self> {
        let line = Line::new(text);
        let mut csv = Self { line, out };
        for name in COLUMNS {
            csv.line.add(Value::Text(name));
        }
        for part in RequestPart::ALL {
            csv.line.add(Value::Text(&format!("{}_ns", part.name())));
        }
        csv.line.end(&mut csv.out)?;
        Ok(csv)
    }

    /// Writes one request as a line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, row: &RequestRow) -> io::Result<()> {
        let bytes = |range: (u64, u64)| range.1.saturating_sub(range.0);
        self.line.add(Value::Text(&row.id));
        self.line.add(Value::Text(&row.service));
        let numbers = [
            row.begin_ns,
            row.duration_ns,
            bytes(row.request),
            bytes(row.response),
            row.calls,
        ];
        let parts = RequestPart::ALL.iter().map(|part| row.parts.get(*part));
        for number in numbers.into_iter().chain(parts) {
            self.line.add(Value::Unsigned(number));
        }
        self.line.end(&mut self.out)
    }

    /// Writes the rest of the buffer.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}
