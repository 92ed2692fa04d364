//! The study's text, as blocks: written as Markdown, and as part of a page.

use std::fmt::Write;

/// A part of a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TextBlock {
    Heading(String),
    Paragraph(String),
    List(Vec<String>),
    Table {
        head: Vec<String>,
        rows: Vec<Vec<String>>,
    },
    /// Text that is not wrapped.
    Verbatim(String),
}

/// Returns a table of these.
pub(super) fn table<const N: usize>(head: [&str; N], rows: Vec<[String; N]>) -> TextBlock {
    TextBlock::Table {
        head: head.map(str::to_owned).into(),
        rows: rows.into_iter().map(Vec::from).collect(),
    }
}

/// Writes the document as Markdown.
pub(super) fn write_markdown(title: &str, blocks: &[TextBlock]) -> String {
    let mut text = format!("# {title}\n");
    for block in blocks {
        text.push('\n');
        match block {
            TextBlock::Heading(heading) => text += &format!("## {heading}\n"),
            TextBlock::Paragraph(words) => text += &wrap_words(words, ""),
            TextBlock::List(items) => items
                .iter()
                .for_each(|item| text += &wrap_words(item, "* ")),
            TextBlock::Verbatim(lines) => text += &format!("```\n{}\n```\n", lines.trim_end()),
            TextBlock::Table { head, rows } => text += &align_table(head, rows),
        }
    }
    text
}

/// Wraps words to lines of 110 letters; later lines are indented by the length of `mark`.
fn wrap_words(words: &str, mark: &str) -> String {
    const WIDTH: usize = 110;
    let (mut text, mut line) = (String::new(), mark.to_owned());
    let mut is_new = true;
    for word in words.split_whitespace() {
        if !is_new && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text += &(line + "\n");
            line = " ".repeat(mark.len());
            is_new = true;
        }
        if !is_new {
            line.push(' ');
        }
        line += word;
        is_new = false;
    }
    text + &line + "\n"
}

/// Makes a table of Markdown with aligned columns.
fn align_table(head: &[String], rows: &[Vec<String>]) -> String {
    let widths = (0..head.len()).map(|column| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let cells = cells.chain([&head[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    });
    let widths: Vec<usize> = widths.collect();
    let line = |cells: &[String]| {
        let mut text = String::from("|");
        for (cell, width) in cells.iter().zip(&widths) {
            // writing to a string cannot fail
            let _ = write!(text, " {cell:<width$} |");
        }
        text + "\n"
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    line(head) + &line(&rule) + &rows
}

/// Writes the document as elements of a page.
pub(super) fn html(blocks: &[TextBlock]) -> String {
    let mut text = String::new();
    for block in blocks {
        match block {
            TextBlock::Heading(heading) => text += &format!("<h2>{}</h2>\n", escape(heading)),
            TextBlock::Paragraph(words) => text += &format!("<p>{}</p>\n", escape(words)),
            TextBlock::Verbatim(lines) => text += &format!("<pre>{}</pre>\n", escape(lines)),
            TextBlock::List(items) => {
                let items: String = items
                    .iter()
                    .map(|item| format!("<li>{}</li>", escape(item)))
                    .collect();
                text += &format!("<ul>{items}</ul>\n");
            }
            TextBlock::Table { head, rows } => {
                let cells = |cells: &[String], name: &str| -> String {
                    let cells = cells.iter();
                    cells
                        .map(|cell| format!("<{name}>{}</{name}>", escape(cell)))
                        .collect()
                };
                let body: String = rows
                    .iter()
                    .map(|row| format!("<tr>{}</tr>", cells(row, "td")))
                    .collect();
                let head = cells(head, "th");
                text += &format!(
                    "<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>\n"
                );
            }
        }
    }
    text
}

/// Escapes text for an element or an attribute.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Returns three digits that count.
pub(super) fn format_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let before = value.abs().log10().floor() as i32 + 1;
    let after = usize::try_from(3 - before).unwrap_or(0);
    format!("{value:.after$}")
}

/// Returns bytes as 64 B, 4 KB, 1 MB (powers of 1024, as the published study).
pub(super) fn format_bytes(count: f64) -> String {
    const UNITS: [(&str, f64); 3] = [("MB", 1_048_576.0), ("KB", 1024.0), ("B", 1.0)];
    let (unit, factor) = UNITS
        .into_iter()
        .find(|(_, factor)| count >= *factor)
        .unwrap_or(("B", 1.0));
    let value = count / factor;
    if value.fract() == 0.0 {
        format!("{value} {unit}")
    } else {
        format!("{} {unit}", format_digits(value))
    }
}

/// Returns a factor as +12.3 % or −4.0 %.
pub(super) fn format_change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let sign = if percent < 0.0 { '−' } else { '+' };
    format!("{sign}{:.1} %", percent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0123456, "0.0123"),
            (1.0, "1.00"),
            (12345.6, "12346"),
            (0.0, "0"),
        ] {
            assert_eq!(format_digits(value), text);
        }
        for (count, text) in [
            (64.0, "64 B"),
            (4096.0, "4 KB"),
            (3000.0, "2.93 KB"),
            (1_048_576.0, "1 MB"),
        ] {
            assert_eq!(format_bytes(count), text);
        }
        assert_eq!(
            (format_change(1.02), format_change(0.9)),
            ("+2.0 %".into(), "−10.0 %".into())
        );
    }

    #[test]
    fn blocks_become_markdown_and_html() {
        let blocks = [
            TextBlock::Heading("A & B".into()),
            TextBlock::List(vec!["one".into()]),
            table(["x", "y"], vec![["1".into(), "<2>".into()]]),
        ];
        let text = write_markdown("T", &blocks);
        assert_eq!(
            text,
            "# T\n\n## A & B\n\n* one\n\n| x | y   |\n| - | --- |\n| 1 | <2> |\n"
        );
        let page = html(&blocks);
        assert!(
            page.contains("A &amp; B") && page.contains("<td>&lt;2&gt;</td>"),
            "{page}"
        );
    }
}
