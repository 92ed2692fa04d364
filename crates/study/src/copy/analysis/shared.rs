//! Results by configuration, and blocks of text.

use super::super::csv::ResultRow;
use super::super::doc::{TextBlock, table};

/// Returns the row of a configuration.
pub(super) fn find_row<'a>(
    rows: &'a [ResultRow],
    variant: &str,
    size: usize,
    threads: usize,
) -> Option<&'a ResultRow> {
    let mut all = rows.iter();
    all.find(|row| row.variant == variant && row.size == size && row.threads == threads)
}

/// Returns the values that occur, in order.
fn distinct_values(values: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Returns the sizes of messages that were measured.
pub(super) fn sizes(rows: &[ResultRow]) -> Vec<usize> {
    distinct_values(rows.iter().map(|row| row.size))
}

/// Returns the numbers of threads that were measured.
pub(super) fn thread_counts(rows: &[ResultRow]) -> Vec<usize> {
    distinct_values(rows.iter().map(|row| row.threads))
}

/// Returns the variants in the order of the results.
pub(super) fn variants(rows: &[ResultRow]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.variant.as_str()) {
            names.push(&row.variant);
        }
    }
    names
}

pub(super) fn heading(text: &str) -> TextBlock {
    TextBlock::Heading(text.to_owned())
}

pub(super) fn paragraph(text: impl Into<String>) -> TextBlock {
    TextBlock::Paragraph(text.into())
}

/// Makes a table of two columns.
pub(super) fn two_columns(head: [&str; 2], rows: Vec<[String; 2]>) -> TextBlock {
    table(head, rows)
}
