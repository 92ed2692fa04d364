//! The state of a recording.

use std::collections::BTreeMap;
use std::path::Path;

use table::{Problem, Recording};

use crate::answer::{About, OmittedRows, RecordingState};
use crate::rows::windows::WindowTimes;

/// Returns the state of a recording. To be asked after all is read: damage is found by reading.
pub fn recording_state(recording: &Recording) -> RecordingState {
    let problems = recording.problems();
    RecordingState {
        coverage: recording.coverage().to_vec(),
        loss: recording.loss().to_vec(),
        cost: recording.cost().cloned(),
        closed: recording.closed().cloned(),
        left_out: left_out(&problems),
        problems: problems.iter().map(ToString::to_string).collect(),
        windows: WindowTimes::read(recording).sums(),
    }
}

/// Describes a recording for the head of every report: host, time, losses, completeness.
pub fn describe_recording(recording: &Recording) -> About {
    let latest_ns = recording.time_range_ns().map_or(0, |range| range.1);
    let span = (0, u64::MAX);
    About::new(
        recording.header(),
        recording_state(recording),
        latest_ns,
        span,
    )
}

/// Returns the number of rows, by table, that are left out because of these problems.
fn left_out(problems: &[Problem]) -> Vec<OmittedRows> {
    let mut rows = BTreeMap::<String, u64>::new();
    for problem in problems {
        let table = problem.file.parent().and_then(Path::file_name);
        if let (Some(number), Some(table)) = (problem.rows, table) {
            *rows
                .entry(table.to_string_lossy().into_owned())
                .or_default() += number;
        }
    }
    let rows = rows.into_iter();
    rows.map(|(table, rows)| OmittedRows::new(table, rows))
        .collect()
}
