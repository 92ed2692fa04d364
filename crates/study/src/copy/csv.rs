//! The results as CSV: the published study's columns first and in its order, then ours; and such a file read again, the
//! published study's own included.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::figures::FIGURES;
use super::journal::StudyJournal;
use super::stats::{median, median_interval};
use lab::LabError;

/// The published study's columns before its figures.
const KEYS: [&str; 3] = ["Impl", "size", "thread"];
/// How many of [`FIGURES`] the published study has.
const PUBLISHED_FIGURES: usize = 6;
/// Columns of ours that hold words.
const WORDS: [&str; 4] = ["stage", "wait", "finding", "skipped"];

/// Returns one row a configuration, with medians of its repetitions. An empty cell was not
/// measured.
///
/// # Errors
/// When the journal is none.
pub(super) fn write(journal: &StudyJournal) -> Result<String, LabError> {
    let (published, ours) = FIGURES.split_at(PUBLISHED_FIGURES);
    let with_spread: Vec<&str> = FIGURES
        .iter()
        .filter(|figure| figure.spread)
        .map(|figure| figure.name)
        .collect();
    let mut header: Vec<String> = KEYS.map(str::to_owned).into();
    header.extend(published.iter().map(|figure| figure.name.to_owned()));
    header.push("repeats".to_owned());
    header.extend(ours.iter().map(|figure| figure.name.to_owned()));
    header.extend(
        with_spread
            .iter()
            .flat_map(|name| [format!("{name}_lo"), format!("{name}_hi")]),
    );
    header.extend(
        [
            "stage",
            "stage_share",
            "wait",
            "wait_share",
            "finding",
            "skipped",
        ]
        .map(str::to_owned),
    );
    let mut text = header.join(",") + "\n";
    for &config in &journal.study()?.configs {
        let runs: Vec<_> = journal.runs(config).collect();
        let skipped = journal.skip_reason(config);
        if runs.is_empty() && skipped.is_none() {
            continue;
        }
        let values =
            |name: &str| -> Vec<f64> { runs.iter().filter_map(|run| run.get(name)).collect() };
        let of = |name: &str| number(median(&values(name)));
        let mut cells = vec![
            config.variant.name().to_owned(),
            config.size.to_string(),
            config.threads.to_string(),
        ];
        cells.extend(published.iter().map(|figure| of(figure.name)));
        cells.push(runs.len().to_string());
        cells.extend(ours.iter().map(|figure| of(figure.name)));
        for name in &with_spread {
            let bounds = median_interval(&values(name)).unzip();
            cells.extend([number(bounds.0), number(bounds.1)]);
        }
        let diagnosis = journal.diagnosis(config).cloned().unwrap_or_default();
        cells.extend([
            word(diagnosis.stage.as_deref()),
            number(diagnosis.stage_share),
            word(diagnosis.wait.as_deref()),
            number(diagnosis.wait_share),
            word(diagnosis.finding.as_deref()),
            word(skipped),
        ]);
        text += &(cells.join(",") + "\n");
    }
    Ok(text)
}

/// Returns a number as text: counts whole, others with six decimals, as in the published study.
fn number(value: Option<f64>) -> String {
    let mut text = String::new();
    if let Some(value) = value.filter(|value| value.is_finite()) {
        let digits = if value.fract() == 0.0 { 0 } else { 6 };
        // writing to a string cannot fail
        let _ = write!(text, "{value:.digits$}");
    }
    text
}

/// Returns a cell of text, in quotes if needed.
fn word(text: Option<&str>) -> String {
    let text = text.unwrap_or_default();
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\"").replace('\n', " "))
    } else {
        text.to_owned()
    }
}

/// A configuration and its figures, as the file has them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ResultRow {
    pub(super) variant: String,
    pub(super) size: usize,
    pub(super) threads: usize,
    cells: BTreeMap<String, f64>,
    words: BTreeMap<String, String>,
}

impl ResultRow {
    /// Returns a figure of the row; `None`: not measured.
    pub(super) fn get(&self, name: &str) -> Option<f64> {
        self.cells.get(name).copied()
    }

    /// Returns the bounds of a figure's 95 % interval.
    pub(super) fn bounds(&self, name: &str) -> Option<(f64, f64)> {
        let bound = |end| self.get(&format!("{name}_{end}"));
        bound("lo").zip(bound("hi"))
    }

    /// Returns the row as JSON, without unmeasured figures.
    pub(super) fn json(&self) -> Value {
        json!({
            "impl": self.variant, "size": self.size, "thread": self.threads,
            "figures": self.cells, "said": self.words,
        })
    }

    /// Returns the text of a column; None if there is none.
    pub(super) fn word(&self, name: &str) -> Option<&str> {
        self.words.get(name).map(String::as_str)
    }
}

/// Reads results, with commas or tabs between them.
///
/// # Errors
/// When the published study's first three columns are not there, or a cell is no number where one belongs: with its line.
pub(super) fn read(name: &str, text: &str) -> Result<Vec<ResultRow>, LabError> {
    let wrong = |line: usize, why: String| {
        let hint = "its first line has to be Impl,size,thread,throughput,latency,cycles,l1_misses,llc_misses,cs, \
                    and more if you like";
        let why = std::io::Error::other(why);
        LabError::os("read", format!("line {} of {name}", line + 1), why, hint)
    };
    let mut lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let (_, first) = lines
        .next()
        .ok_or_else(|| wrong(0, "the file is empty".to_owned()))?;
    let separator = if first.contains('\t') { '\t' } else { ',' };
    let header = split(first, separator);
    if header.len() < KEYS.len() || header.iter().zip(KEYS).any(|(own, key)| own != key) {
        return Err(wrong(0, format!("it begins with {:?}", header.join(","))));
    }
    let mut rows = Vec::new();
    for (line, text) in lines {
        let cells = split(text, separator);
        if cells.len() != header.len() {
            let why = format!("{} cells under {} columns", cells.len(), header.len());
            return Err(wrong(line, why));
        }
        let whole = |place: usize| -> Result<usize, LabError> {
            let cell = &cells[place];
            let parsed = cell.parse();
            parsed.map_err(|_| wrong(line, format!("{} is {cell:?}", KEYS[place])))
        };
        let mut row = ResultRow {
            variant: cells[0].clone(),
            size: whole(1)?,
            threads: whole(2)?,
            cells: BTreeMap::new(),
            words: BTreeMap::new(),
        };
        let others = header.iter().zip(&cells).skip(KEYS.len());
        for (column, cell) in others.filter(|(_, cell)| !cell.is_empty()) {
            if WORDS.contains(&column.as_str()) {
                row.words.insert(column.clone(), cell.clone());
                continue;
            }
            let value: Option<f64> = cell.parse().ok().filter(|value: &f64| value.is_finite());
            let value = value.ok_or_else(|| wrong(line, format!("{column} is {cell:?}")))?;
            row.cells.insert(column.clone(), value);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Splits a line at separators outside quotes.
fn split(line: &str, separator: char) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.trim_end_matches('\r').chars().peekable();
    while let Some(letter) = letters.next() {
        let Some(cell) = cells.last_mut() else { break };
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            letter if letter == separator && !quoted => cells.push(String::new()),
            letter => cell.push(letter),
        }
    }
    for cell in &mut cells {
        *cell = cell.trim().to_owned();
    }
    cells
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The published study's section 8.3, as it is there.
    pub(crate) const PUBLISHED: &str = "\
Impl\tsize\tthread\tthroughput\tlatency\tcycles\tl1_misses\tllc_misses\tcs
A1\t64\t1\t0.075719\t6.736870\t9225906310\t120104932\t121588\t739413
A1\t64\t2\t0.076514\t6.666992\t9219667292\t114919992\t131334\t747174
A1\t64\t4\t0.074825\t6.817650\t9164441459\t125253751\t119804\t730688
A1\t64\t8\t0.071705\t7.114873\t9423479536\t129841773\t128776\t700226
A1\t512\t1\t0.584929\t6.977514\t9122796173\t139747364\t108843\t714019
";

    #[test]
    fn the_published_results_are_read() {
        let rows = read("published", PUBLISHED).unwrap();
        assert_eq!(rows.len(), 5);
        assert_eq!((rows[4].size, rows[3].threads), (512, 8));
        assert_eq!(rows[0].get("cycles"), Some(9_225_906_310.0));
        assert_eq!(rows[0].get("page_faults"), None);
        assert_eq!(
            read("published", &PUBLISHED.replace('\t', ",")).unwrap(),
            rows
        );
        assert_eq!(
            FIGURES[..PUBLISHED_FIGURES]
                .iter()
                .map(|f| f.name)
                .collect::<Vec<_>>()
                .join("\t"),
            PUBLISHED.lines().next().unwrap()[17..]
        );
    }

    #[test]
    fn csv_errors_name_the_line() {
        for (text, line, what) in [
            ("", 1, "empty"),
            ("a,b\n", 1, "begins with"),
            ("Impl,size,thread,latency\nA1,64,1\n", 2, "3 cells"),
            (
                "Impl,size,thread,latency\n\nA1,64,x,3\n",
                3,
                "thread is \"x\"",
            ),
            (
                "Impl,size,thread,latency\nA1,64,1,fast\n",
                2,
                "latency is \"fast\"",
            ),
            (
                "Impl,size,thread,latency\nA1,64,1,NaN\n",
                2,
                "latency is \"NaN\"",
            ),
        ] {
            let why = read("f", text).unwrap_err().to_string();
            assert!(
                why.contains(&format!("line {line} of f")) && why.contains(what),
                "{why}"
            );
        }
    }

    #[test]
    fn quoted_text_may_contain_commas() {
        assert_eq!(word(Some("a, \"b\"")), "\"a, \"\"b\"\"\"");
        let rows = read("f", "Impl,size,thread,skipped\nA3,64,1,\"a, \"\"b\"\"\"\n").unwrap();
        assert_eq!(rows[0].word("skipped"), Some("a, \"b\""));
    }
}
