//! Files of a study: results.csv, repetitions.parquet, study.md, study.html and a file a figure; figures and
//! answers are made from results.csv as it was written.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::json;

use super::analysis::{AnalysisExtras, all_answers};
use super::doc::{TextBlock, escape, html, table, write_markdown};
use super::figures::FIGURES;
use super::journal::StudyJournal;
use super::plot::{PlotFigure, make_figures};
use super::{csv, parquet, svg};
use lab::LabError;

const TITLE: &str = "What a copy costs";

/// The page's style, which its policy names by this digest (SHA-256).
const STYLE: &str = concat!(include_str!("page.css"), include_str!("chart.css"));
const STYLE_DIGEST: &str = "2SRTzNa5j6svO3Kc+ejXB6E0FVyeDvDoEeP/h7vwX3o=";

/// Kernel release and CPU model of the machine, for the head of a study's report.
pub(super) struct MachineFacts {
    pub(super) kernel: String,
    pub(super) cpu: String,
}

impl MachineFacts {
    /// Reads the kernel and the CPU of this machine.
    pub(super) fn read() -> Self {
        let unknown = || "unknown".to_owned();
        let kernel =
            nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut models = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let model = models.find(|(key, _)| key.trim() == "model name");
        Self {
            kernel: kernel.unwrap_or_else(|_| unknown()),
            cpu: model.map_or_else(unknown, |(_, name)| name.trim().to_owned()),
        }
    }
}

/// Writes all, and prints the answers.
///
/// # Errors
/// When a file cannot be written.
pub(super) fn write_from_journal(
    journal: &StudyJournal,
    directory: &Path,
    json: bool,
) -> Result<(), LabError> {
    let path = directory.join("results.csv");
    write(&path, &csv::write(journal)?)?;
    parquet::write(journal, &directory.join("repetitions.parquet"))?;
    write_all(
        &path,
        directory,
        &AnalysisExtras::from_journal(journal),
        json,
    )
}

/// Writes plots and answers from a file of results, into a new directory.
///
/// # Errors
/// When the file is no such file, and when the directory is there already.
pub(super) fn write_from_csv(path: &Path, directory: &Path, json: bool) -> Result<(), LabError> {
    // a file that is none is refused before anything is made
    read(path)?;
    let hint = "name another directory with -o";
    fs::create_dir(directory)
        .map_err(|why| LabError::os("make", directory.display().to_string(), why, hint))?;
    write_all(path, directory, &AnalysisExtras::default(), json)
}

/// Reads the rows of an earlier study.
fn read(path: &Path) -> Result<Vec<csv::ResultRow>, LabError> {
    let name = path.display().to_string();
    let hint =
        "name the file of results that a study wrote, or one with the published study's columns";
    let text = fs::read_to_string(path).map_err(|why| LabError::os("read", &name, why, hint))?;
    csv::read(&name, &text)
}

/// Writes analysis, plots and CSV.
fn write_all(
    csv: &Path,
    directory: &Path,
    extras: &AnalysisExtras,
    json: bool,
) -> Result<(), LabError> {
    let rows = read(csv)?;
    let figures = make_figures(&rows);
    for figure in &figures {
        match &figure.chart {
            Ok(chart) => write(
                &directory.join(format!("{}.svg", figure.id)),
                &svg::draw_file(chart),
            )?,
            Err(why) => eprintln!("not drawn: {}: {why}", figure.id),
        }
    }
    let blocks = all_answers(&rows, extras);
    let text = write_markdown(TITLE, &blocks);
    write(&directory.join("study.md"), &text)?;
    write(&directory.join("study.html"), &page(&figures, &blocks))?;
    eprintln!("written: {}", directory.display());
    if json {
        return lab::output::print_json(&as_json(&rows, &figures, &text));
    }
    print(&text)
}

/// Returns rows, figures and text as JSON.
fn as_json(rows: &[csv::ResultRow], figures: &[PlotFigure], text: &str) -> serde_json::Value {
    let figures = figures
        .iter()
        .map(|figure| json!({ "figure": figure.id, "not_drawn": figure.chart.as_ref().err() }));
    json!({
        "schema": "whylat.copy/1",
        "configurations": rows.iter().map(csv::ResultRow::json).collect::<Vec<_>>(),
        "columns": FIGURES.iter().map(|figure| json!({ "name": figure.name, "what": figure.what })).collect::<Vec<_>>(),
        "figures": figures.collect::<Vec<_>>(),
        "answers": text,
    })
}

/// Returns an HTML page with everything in one file.
fn page(figures: &[PlotFigure], blocks: &[TextBlock]) -> String {
    let mut charts = String::new();
    let mut lacking = Vec::new();
    for figure in figures {
        match &figure.chart {
            Ok(chart) => charts += &format!("<figure>{}</figure>\n", svg::draw(chart)),
            Err(why) => lacking.push(format!("<li>{}</li>", escape(why))),
        }
    }
    if !lacking.is_empty() {
        charts += &format!(
            "</div><p class=\"soft\">Not drawn:</p><ul class=\"soft\">{}</ul><div>",
            lacking.concat()
        );
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{STYLE_DIGEST}'; \
         img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{TITLE} · whylat</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{TITLE}</h1>\n\
         <p class=\"soft\">whylat lab copy. RunFigures show medians with their 95 % intervals.</p>\n\
         <div class=\"charts\">\n{charts}</div>\n{}</body>\n</html>\n",
        html(&[blocks, &columns()].concat())
    )
}

/// Describes the columns of results.csv.
fn columns() -> Vec<TextBlock> {
    let lines = FIGURES.iter();
    let lines = lines.map(|figure| [figure.name.to_owned(), figure.what.to_owned()]);
    vec![
        TextBlock::Heading("Columns of results.csv".to_owned()),
        table(
            [
                "column",
                "unit and meaning; NAME_lo and NAME_hi: its 95 % interval",
            ],
            lines.collect(),
        ),
    ]
}

/// Writes a file.
fn write(path: &Path, text: &str) -> Result<(), LabError> {
    let hint = "free space, or name another directory with -o";
    fs::write(path, text)
        .map_err(|why| LabError::os("write", path.display().to_string(), why, hint))
}

/// Prints a text.
fn print(text: &str) -> Result<(), LabError> {
    use io::Write;
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|why| LabError::os("write", "stdout", why, "keep its reader open"))
}
