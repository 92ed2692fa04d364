//! Recordings as text: rows as JSON lines, and a whole recording as a folder of them, so that
//! a golden test shows what it is about in a diff.
//!
//! The folder holds `header.json`, a `<table>.jsonl` for each table that has rows, and, where
//! they matter, `coverage.json` and `loss.json` (lists), `cost.json` and `close.json`. Null
//! fields may be left out of a row. Files that several recordings share stand in one place, and
//! the others inherit them ([`text_files`]). Answers that are expected of it (`expected.*`) may lie
//! beside them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{FixtureError, RowError};
use crate::inherit::text_files;
use crate::manifest::{Close, Cost, Coverage, Header, Line, Loss};
use crate::write::{WriteOptions, Writer};
use crate::{Columns, Table, for_each_table};

/// Makes a row from the given fields; every other one is null, zero, no, or an ordinary name.
///
/// # Errors
/// When a given field is not the table's, or not of its type.
pub fn row_of<T: Table + DeserializeOwned>(given: Value) -> Result<T, serde_json::Error> {
    let ordinary = |name: &str| match name {
        "local" => "10.0.0.5:41220".into(),
        "remote" => "10.0.0.9:9000".into(),
        "role" => "client".into(),
        "chosen" => "target".into(),
        "kind" => "poll".into(),
        "closed" | "nodelay" | "is_send" | "backlog" | "begin_seen" | "end_seen" => false.into(),
        _ => 0.into(),
    };
    let required = T::FIELDS.iter().filter(|field| field.null.is_empty());
    let mut row: Map<String, Value> = required
        .map(|field| (field.name.to_owned(), ordinary(field.name)))
        .collect();
    if let Value::Object(given) = given {
        row.extend(given);
    }
    serde_json::from_value(Value::Object(row))
}

/// Reads rows, one JSON object a line. Empty lines are skipped.
///
/// # Errors
/// The first line that is not a row.
pub fn rows_from_jsonl<T: Table + DeserializeOwned>(text: &str) -> Result<T::Columns, RowError> {
    let mut columns = T::Columns::default();
    for (index, line) in text.lines().enumerate() {
        if !line.trim().is_empty() {
            columns.push(serde_json::from_str(line).map_err(|source| RowError {
                line: index + 1,
                source,
            })?);
        }
    }
    Ok(columns)
}

/// Writes rows, one JSON object a line.
///
/// # Errors
/// When a row has no form in JSON: a number that is not finite.
pub fn rows_to_jsonl<T: Table + Serialize>(
    columns: &T::Columns,
) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    for index in 0..columns.len() {
        text += &serde_json::to_string(&columns.row(index))?;
        text.push('\n');
    }
    Ok(text)
}

/// Builds the recording `out_dir` from the text files in `text_dir`. Without `close.json` it
/// is closed in order at its last row; with `close.json` holding `null` it is left open.
///
/// # Errors
/// The first file that is missing, misnamed or misshapen, with its line.
pub fn write_fixture(
    text_dir: impl AsRef<Path>,
    out_dir: impl AsRef<Path>,
) -> Result<(), FixtureError> {
    write_tables(text_dir.as_ref(), out_dir.as_ref())
}

/// Builds the recording. It has no type parameter: each crate that calls it would compile the readers of all tables again.
fn write_tables(text_dir: &Path, out_dir: &Path) -> Result<(), FixtureError> {
    let files = text_files(text_dir)?;
    refuse_strangers(&files)?;
    let header: Header = json(&files, "header.json")?.ok_or_else(|| FixtureError::Io {
        path: text_dir.join("header.json"),
        source: io::ErrorKind::NotFound.into(),
    })?;
    let mut writer = Writer::create(out_dir, &header, WriteOptions::default())?;
    let mut last_ns = header.started_ns;
    macro_rules! tables {
        ($($row:ty),+ $(,)?) => {
            $(last_ns = last_ns.max(append_table::<$row>(&files, &mut writer)?);)+
        };
    }
    for_each_table!(tables);
    writer.seal()?;
    for line in lines(&files)? {
        writer.line(&line)?;
    }
    match json::<Option<Close>>(&files, "close.json")? {
        Some(None) => Ok(()),
        Some(Some(close)) if !close.in_order => Ok(writer.line(&Line::Close(close))?),
        close => {
            let ended_ns = close.flatten().map_or(last_ns, |close| close.ended_ns);
            let closed = writer.close(ended_ns)?;
            closed
                .failures
                .into_iter()
                .next()
                .map_or(Ok(()), |error| Err(error.into()))
        }
    }
}

/// Adds the rows of one table; returns their last time, ns.
fn append_table<T: Table + DeserializeOwned>(
    files: &Files,
    writer: &mut Writer,
) -> Result<u64, FixtureError> {
    let Some(path) = files.get(&format!("{}.jsonl", T::NAME)) else {
        return Ok(0);
    };
    let columns = rows_from_jsonl::<T>(&text(path)?).map_err(|RowError { line, source }| {
        FixtureError::Json {
            path: path.clone(),
            line,
            source,
        }
    })?;
    let last_ns = columns.time_range_ns().map_or(0, |(_, last_ns)| last_ns);
    writer.append(columns)?;
    Ok(last_ns)
}

/// The manifest lines of the optional files.
fn lines(files: &Files) -> Result<Vec<Line>, FixtureError> {
    let coverage: Option<Vec<Coverage>> = json(files, "coverage.json")?;
    let loss: Option<Vec<Loss>> = json(files, "loss.json")?;
    let cost: Option<Cost> = json(files, "cost.json")?;
    let coverage = coverage.unwrap_or_default().into_iter().map(Line::Coverage);
    let loss = loss.unwrap_or_default().into_iter().map(Line::Loss);
    Ok(coverage.chain(loss).chain(cost.map(Line::Cost)).collect())
}

/// A misspelt file name would otherwise be a table without rows.
fn refuse_strangers(files: &Files) -> Result<(), FixtureError> {
    for (name, path) in files {
        let known = [
            "header.json",
            "coverage.json",
            "loss.json",
            "cost.json",
            "close.json",
        ];
        if let Some(table) = name.strip_suffix(".jsonl") {
            if is_table(table) {
                continue;
            }
        } else if !name.contains(".json")
            || name.starts_with("expected.")
            || known.contains(&name.as_str())
        {
            continue;
        }
        return Err(FixtureError::Stranger { path: path.clone() });
    }
    Ok(())
}

/// Returns whether a file name is that of a table.
fn is_table(name: &str) -> bool {
    macro_rules! names {
        ($($row:ty),+ $(,)?) => {
            [$(<$row as Table>::NAME),+].contains(&name)
        };
    }
    for_each_table!(names)
}

/// The files of a recording as text, by name.
type Files = BTreeMap<String, PathBuf>;

/// Reads a text file.
fn text(path: &Path) -> Result<String, FixtureError> {
    fs::read_to_string(path).map_err(|source| FixtureError::Io {
        path: path.to_owned(),
        source,
    })
}

/// The value of a JSON file; `None` without the file.
fn json<T: DeserializeOwned>(files: &Files, name: &str) -> Result<Option<T>, FixtureError> {
    let Some(path) = files.get(name) else {
        return Ok(None);
    };
    serde_json::from_str(&text(path)?)
        .map(Some)
        .map_err(|source| FixtureError::Json {
            path: path.clone(),
            line: source.line(),
            source,
        })
}
