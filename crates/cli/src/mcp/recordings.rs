//! The tool `recordings`: which recordings are below the root folder.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use diagnose::recording;
use diagnose::report::CloseState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use table::Recording;

use super::pieces::{self, AnswerPiece, ToolAnswer};
use super::root::RootFolder;
use super::tool::AssistantTool;
use crate::{args, out};

/// Folders below the root that are searched, and entries of them: more is no folder of recordings.
const MOST_LEVELS: usize = 6;
const MOST_SEEN: usize = 100_000;
const SHOWN: u64 = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListRecordings {
    /// Recordings to list, at most 1,000 [default: 20]
    limit: Option<u64>,
}

/// Describes a recording, or says why it cannot be read.
#[derive(Debug, Serialize)]
struct ListedRecording {
    path: String,
    #[serde(flatten)]
    state: ListedState,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ListedState {
    Readable(RecordingSummary),
    Unreadable { error: String },
}

/// When, where and how a recording was made.
#[derive(Debug, Serialize)]
struct RecordingSummary {
    /// UTC, ISO 8601.
    started: String,
    span_ns: u64,
    host: String,
    detail: String,
    closed: CloseState,
    is_being_recorded: bool,
    /// Damage that is known without reading its tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    arguments: Vec<String>,
}

impl AssistantTool for ListRecordings {
    const NAME: &'static str = "recordings";
    const DESCRIPTION: &'static str = "Lists the recordings below the root folder as JSON, newest first. Each \
        has path, begin, length, host, detail, and the recording command. Other tools take the path; without \
        one they take the newest *.whylat directly in the root folder.";

    fn answer(&self, _: &RootFolder, cursor: u64) -> anyhow::Result<ToolAnswer> {
        let limit = pieces::list_limit(self.limit, SHOWN)?;
        let (all, is_all) = search();
        let (listed, rest) = pieces::list_part(&all, cursor, limit);
        let listed: Vec<_> = listed.iter().map(|path| describe(path)).collect();
        let words = |left| {
            let counted = diagnose::units::quantity(left, "more recording");
            match is_all {
                true => counted,
                false => format!("at least {counted}"),
            }
        };
        Ok(ToolAnswer::Entries(AnswerPiece {
            text: view::json(&listed),
            warning: None,
            rest: rest.map(|(left, next)| (words(left), next)),
        }))
    }
}

/// Returns the recordings below the current folder, newest first, and whether everything was searched. Links are not
/// followed, hidden folders not entered.
fn search() -> (Vec<PathBuf>, bool) {
    let mut found: Vec<(Reverse<SystemTime>, PathBuf)> = Vec::new();
    let mut folders = vec![(PathBuf::new(), 0)];
    let mut seen = 0;
    while let Some((folder, level)) = folders.pop() {
        let here = if level == 0 { Path::new(".") } else { &folder };
        for entry in fs::read_dir(here).into_iter().flatten().flatten() {
            seen += 1;
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_folder || is_hidden {
                continue;
            }
            let path = folder.join(entry.file_name());
            if let Some(time) = table::recording_time(&path) {
                found.push((Reverse(time), path));
            } else if level < MOST_LEVELS {
                folders.push((path, level + 1));
            }
        }
        if seen > MOST_SEEN {
            break;
        }
    }
    found.sort();
    let paths = found.into_iter().map(|(_, path)| path).collect();
    (paths, seen <= MOST_SEEN)
}

/// Returns what is listed of a recording; an unreadable one has its error.
fn describe(path: &Path) -> ListedRecording {
    let summary = Recording::open(path).map(|recording| {
        let about = recording::describe_recording(&recording);
        RecordingSummary {
            started: args::format_utc(about.host.started_realtime_ns / 1_000_000_000),
            span_ns: about.span_ns,
            host: about.host.name,
            detail: about.host.detail,
            closed: about.closed,
            is_being_recorded: recording.is_live(),
            problems: about.problems,
            arguments: about.host.arguments,
        }
    });
    ListedRecording {
        path: path.to_string_lossy().into_owned(),
        state: summary.map_or_else(
            |why| ListedState::Unreadable {
                error: out::describe(&why.into()),
            },
            ListedState::Readable,
        ),
    }
}
