//! A summary for the page of a job, or a comment: Markdown with tables.

use diagnose::check::report::CheckReport;
use diagnose::check::{interval, number};

use super::headline::headline;
use crate::clean::remove_controls;

/// Writes the check as a summary in Markdown.
pub fn write_markdown(report: &CheckReport) -> String {
    let mut out = format!("### whylat check\n\n{}\n", escape_cell(&headline(report)));
    if !report.failures.is_empty() {
        out.push_str("\n| failed | what | hint |\n|---|---|---|\n");
    }
    for it in &report.failures {
        out += &format!(
            "| `{}` | {} | {} |\n",
            escape_cell(&it.name),
            escape_cell(&it.text),
            escape_cell(&it.hint)
        );
    }
    let known: Vec<_> = report
        .counts
        .iter()
        .filter_map(|it| Some((it, it.median?)))
        .collect();
    if !known.is_empty() {
        out.push_str("\n| count | now | baseline | limit |\n|---|---:|---:|---:|\n");
    }
    for (count, median) in known {
        let baseline = count
            .baseline
            .map_or("–".to_owned(), |(least, most)| interval(least, most));
        let limit = count.limit.map_or("–".to_owned(), number);
        out += &format!(
            "| {} | {} | {baseline} | {limit} |\n",
            count.title,
            number(median)
        );
    }
    for text in &report.could_not_see {
        out += &format!("\n{}\n", escape_cell(text));
    }
    out
}

/// Escapes the text of a table's cell: no line end, HTML or link.
fn escape_cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in remove_controls(text).chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '|' | '[' | ']' | '*' | '\\' => out.extend(['\\', letter]),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn cells_hold_any_text() {
        let text = write_markdown(&fixture::failed_report());
        let row = "| `serial_round_trips` | A &lt;b> sent \"300\": one, by one | do 100 % of it, &amp; well |";
        assert!(text.lines().any(|line| line == row), "{text}");
        assert!(
            text.contains("| connections opened | 40 | 1 | 1 |"),
            "{text}"
        );
        assert!(text.ends_with("do not have \\| bytes.\n"), "{text}");
    }
}
