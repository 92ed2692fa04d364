//! Faults of a configuration, with their line and what to write instead.

use std::io;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::apps::RuleError;

/// A configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}\nhint: `whylat agent --config FILE`; packaging/agent.toml is an example", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Intervals have no receiver.
    #[error("{}: names no receiver: [ship] target and [otlp] endpoint are empty, and OTEL_EXPORTER_OTLP_ENDPOINT is not set\n\
             hint: [ship] target = \"/srv/whylat\" for files, or [otlp] endpoint = \"http://127.0.0.1:4318\" for a collector", path.display())]
    NoReceiver {
        /// The file.
        path: PathBuf,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {what}\nhint: {hint}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The key, and the fault in its value.
        what: String,
        /// The text to write instead.
        hint: String,
    },
}

impl ConfigError {
    /// Makes an error of the TOML reader: no TOML, a key that is not known, a value of another type.
    pub(super) fn from_toml(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let line = line_of_byte(text, error.span().map_or(0, |span| span.start));
        Self::Invalid {
            path: path.to_owned(),
            line,
            what: error.message().replace('\n', ", "),
            hint: hint_of(error.message()),
        }
    }
}

/// Names that are further apart are not taken for each other, as Cargo does with its commands (`closest`).
const MOST_EDITS: usize = 3;

/// Returns what to write instead: the most similar of the expected names.
fn hint_of(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown");
    if let (true, Some(given)) = (unknown, names.next()) {
        let near = names.map(|name| (strsim::damerau_levenshtein(given, name), name));
        let nearest = near.filter(|&(edits, _)| edits <= MOST_EDITS).min();
        if let Some((_, nearest)) = nearest {
            return format!("the nearest known name is `{nearest}`");
        }
    }
    "packaging/agent.toml and docs/fleet/agent.md show every key with a value".to_owned()
}

/// A value that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InvalidValue {
    /// Where: names of tables and keys, and the place within a list.
    place: Vec<PathStep>,
    /// The fault in it.
    what: String,
    /// The text to write instead.
    hint: String,
}

/// One step down in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathStep {
    /// Into the value of a key.
    Key(&'static str),
    /// Into an element of a list.
    Element(usize),
}

impl InvalidValue {
    /// Makes a fault of a key of a table.
    pub(super) fn new(table: &'static str, key: &'static str, what: String, hint: &str) -> Self {
        Self {
            place: vec![PathStep::Key(table), PathStep::Key(key)],
            what: format!("[{table}] {key}{what}"),
            hint: hint.to_owned(),
        }
    }

    /// Returns the error with the line of the value in this text.
    pub(super) fn at(self, path: &Path, text: &str) -> ConfigError {
        ConfigError::Invalid {
            path: path.to_owned(),
            line: line_of(text, &self.place),
            what: self.what,
            hint: self.hint,
        }
    }
}

impl From<RuleError> for InvalidValue {
    fn from(error: RuleError) -> Self {
        let RuleError {
            index,
            application,
            key,
            problem,
            hint,
        } = error;
        Self {
            place: vec![
                PathStep::Key("application"),
                PathStep::Element(index),
                PathStep::Key(key),
            ],
            what: format!("[[application]] {application} {problem}"),
            hint: hint.to_owned(),
        }
    }
}

/// Returns the line of a value, or of the nearest table around it.
fn line_of(text: &str, place: &[PathStep]) -> usize {
    let Ok(document) = DeTable::parse(text) else {
        return 1;
    };
    let mut byte = 0;
    let mut value = DeValue::Table(document.into_inner());
    for step in place {
        let next = match (step, value) {
            (PathStep::Key(name), DeValue::Table(table)) => table
                .into_iter()
                .find(|(key, _)| key.get_ref() == name)
                .map(|(key, value)| (key.span().start, value)),
            (PathStep::Element(index), DeValue::Array(list)) => list
                .into_iter()
                .nth(*index)
                .map(|element| (element.span().start, element)),
            _ => None,
        };
        let Some((start, next)) = next else { break };
        byte = start;
        value = next.into_inner();
    }
    line_of_byte(text, byte)
}

/// Returns the number of the line that has this byte.
fn line_of_byte(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|&b| b == b'\n').count()
}
