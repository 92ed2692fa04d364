//! The path of a recording → an answer: opens it, says what it does not have, and asks.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use diagnose::Report;
use diagnose::messages::ends::report::EndsReport;
use diagnose::messages::message::MessageId;
use diagnose::messages::report::{MessageReport, MessageStory};
use diagnose::recording::{self, DiagnosisOptions, TailOptions};
use diagnose::requests::{RequestFilter, RequestId, RequestReport};
use diagnose::tail::report::TailReport;
use diagnose::waits::{Grouping, WaitFilter, WaitReport};
use table::manifest::ProbeState;
use table::tables::{Activity, Call, ReceivedMessage, SentMessage, Task, Wait, Window};
use table::{Recording, Table};

use crate::out;

/// The newest recording in the current directory.
pub(crate) fn find_newest_recording() -> anyhow::Result<PathBuf> {
    let entries = std::fs::read_dir(".").context("cannot list the current directory")?;
    let is_recording = |path: &Path| path.extension().is_some_and(|ext| ext == "whylat");
    entries
        .flatten()
        .filter(|entry| is_recording(&entry.path()))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .max()
        .map(|(_, path)| path)
        .ok_or_else(|| {
            anyhow!(
                "no recording (*.whylat) in the current directory\n\
                 hint: make one with `whylat run -- COMMAND`, or name its directory"
            )
        })
}

/// Reads a recording and diagnoses it.
pub(crate) fn diagnose(path: &Path, judging: DiagnosisOptions) -> anyhow::Result<Report> {
    Ok(recording::report(&Recording::open(path)?, judging)?)
}

/// Reads the waits of a recording and groups them; at most `limit` groups are named.
pub(crate) fn waits(
    path: &Path,
    grouping: Grouping,
    filter: WaitFilter,
    limit: usize,
) -> anyhow::Result<WaitReport> {
    let recording = Recording::open(path)?;
    require::<Wait>(&recording, "waits")?;
    if grouping == Grouping::Task && recording.rows::<Window>() > 0 {
        bail!(
            "the waits in {} are from windows, and its tasks are from all the time: they cannot be \
                compared\nhint: record with --budget none",
            out::name(path)
        );
    }
    if grouping == Grouping::Task && recording.rows::<Task>() == 0 {
        bail!(
            "no program reported a task in {}\n\
             hint: mark tasks with ITT or USDT (docs/usdt.md), and record again",
            out::name(path)
        );
    }
    let object = filter.object.clone().unwrap_or_default();
    recording::waits(&recording, grouping, filter, limit).ok_or_else(|| {
        anyhow!(
            "no thread in {} waited for {object}\n\
             hint: `whylat report --by object --format json` names every object",
            out::name(path)
        )
    })
}

/// Reads the messages of a recording; at most `limit` groups are named.
pub(crate) fn messages(path: &Path, limit: usize) -> anyhow::Result<MessageReport> {
    let recording = Recording::open(path)?;
    require::<ReceivedMessage>(&recording, "messages")?;
    Ok(recording::messages(&recording, limit))
}

/// Reads the report on one message.
pub(crate) fn message(path: &Path, id: MessageId) -> anyhow::Result<MessageStory> {
    let recording = Recording::open(path)?;
    require::<ReceivedMessage>(&recording, "messages")?;
    recording::message(&recording, id).ok_or_else(|| {
        anyhow!(
            "there is no message {id} in {}\n\
             hint: `whylat report --messages --format json` names the slowest of every connection",
            out::name(path)
        )
    })
}

/// Reads the requests of a recording; at most `limit` are listed.
pub(crate) fn requests(
    path: &Path,
    filter: RequestFilter,
    limit: usize,
) -> anyhow::Result<RequestReport> {
    let recording = Recording::open(path)?;
    require_calls(&recording)?;
    Ok(recording::requests(&recording, filter, limit))
}

/// Reads the report on one request.
pub(crate) fn request(path: &Path, id: RequestId) -> anyhow::Result<RequestReport> {
    let filter = RequestFilter {
        id: Some(id),
        ..RequestFilter::default()
    };
    let report = requests(path, filter, 1)?;
    if report.requests.is_empty() {
        bail!(
            "there is no request {id} in {}\n\
             hint: `whylat report --requests` lists the slowest, with --format csv all",
            out::name(path)
        );
    }
    Ok(report)
}

/// Returns an error if the recording has no calls, with the reason.
pub(crate) fn require_calls(recording: &Recording) -> anyhow::Result<()> {
    require::<Call>(recording, "calls")
}

/// Explains the slow messages of a recording. `before`: the recording to compare with.
pub(crate) fn explain_tail(
    path: &Path,
    before: Option<&Path>,
    asked: &TailOptions,
) -> anyhow::Result<TailReport> {
    let before = before.map(with_activity).transpose()?;
    let recording = with_activity(path)?;
    Ok(recording::explain_tail(&recording, before.as_ref(), asked)?)
}

/// Opens a recording, which must have the CPU activity during messages.
fn with_activity(path: &Path) -> anyhow::Result<Recording> {
    let recording = Recording::open(path)?;
    require::<ReceivedMessage>(&recording, "messages")?;
    if recording.rows::<Activity>() == 0 {
        bail!(
            "{} has no CPU activity of messages\nhint: record with --detail messages --keep p99,sample=100",
            out::name(path)
        );
    }
    Ok(recording)
}

/// Joins the messages that two recordings have, one at each end.
pub(crate) fn join_ends(path: &Path, other: &Path, limit: usize) -> anyhow::Result<EndsReport> {
    let (first, other) = (Recording::open(path)?, Recording::open(other)?);
    require::<SentMessage>(&first, "messages")?;
    require::<SentMessage>(&other, "messages")?;
    Ok(recording::join_ends(&first, &other, limit))
}

/// Returns an error if the recording has no rows of a probe, with the detail that has them.
fn require<T: Table>(recording: &Recording, probe: &str) -> anyhow::Result<()> {
    let path = out::name(recording.path());
    let detail = out::name(&recording.header().detail);
    let covered = recording.coverage().iter().find(|it| it.probe == probe);
    match covered.map(|it| &it.state) {
        _ if recording.rows::<T>() > 0 => Ok(()),
        Some(ProbeState::On | ProbeState::Fallback { .. }) => Ok(()),
        Some(ProbeState::Off { why, remedy }) => {
            let (why, remedy) = (out::name(why), out::name(remedy));
            bail!("{path} holds no {probe}: {why}\nhint: {remedy}")
        }
        None => bail!(
            "{path} holds no {probe}: it was recorded at detail {detail}\n\
             hint: record with --detail {probe}"
        ),
    }
}

#[cfg(test)]
pub(crate) mod tests;
