//! A recording directory → a diagnosis.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use diagnose::causes::Categories;
use diagnose::messages::MessageTable;
use diagnose::messages::ends::report::EndsReport;
use diagnose::messages::ends::{self, Side};
use diagnose::messages::report::{MessageReport, MessageStory};
use diagnose::messages::story::MessageId;
use diagnose::report::{About, LeftOut, Recorded, SlowMessages};
use diagnose::tail::report::TailReport;
use diagnose::tail::{Band, Question, TailTable};
use diagnose::waits::join::{Join, Source};
use diagnose::waits::{Grouping, Names, WaitFilter, WaitReport, WaitTable};
use diagnose::{Evidence, Lives, Report, SnapSettings};
use table::manifest::ProbeState;
use table::tables::{
    Activity, Call, ClockPair, ClockPairs, Connection, Connections, Counter, CpuSample, Listener,
    Process, ProcessSample, ReceivedMessage, SentMessage, Spin, StackFrame, Symbol, TcpEvent,
    TcpSample, TcpStage, UdpSocket, Wait,
};
use table::{Columns, Problem, Recording, Table};
use view::html::Answers;

use crate::out;
use crate::page::Asked;

/// Messages of a recording that the main report looks at, which takes about 100 MB per million.
const MOST_IN_PASSING: u64 = 2_000_000;

/// Groups of waits or messages that a page names: the worst. More than anyone reads, and little beside the rows.
const MOST_IN_PAGE: usize = 1_000;

/// Connections that a page lists: about as many bytes as its rows may take.
const MOST_IN_PAGE_CONNECTIONS: usize = 10_000;

/// How a recording is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judging {
    /// How shares of delayed ACKs are estimated.
    pub(crate) snap: SnapSettings,
    /// Connections that are judged: the longest.
    pub(crate) max_connections: usize,
}

impl Default for Judging {
    fn default() -> Self {
        Self {
            snap: SnapSettings::default(),
            max_connections: 200_000,
        }
    }
}

/// The newest recording in the current directory.
pub(crate) fn newest() -> anyhow::Result<PathBuf> {
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
pub(crate) fn diagnose(path: &Path, judging: Judging) -> anyhow::Result<Report> {
    report(&Recording::open(path)?, judging)
}

fn report(recording: &Recording, judging: Judging) -> anyhow::Result<Report> {
    let mut report = findings(recording, judging);
    report.slow_messages = slow_messages(recording)?;
    Ok(report)
}

/// The diagnosis but for slow messages, which take memory each.
pub(crate) fn findings(recording: &Recording, judging: Judging) -> Report {
    let mut evidence = Evidence::new(
        recording.header().clone(),
        recording.coverage().to_vec(),
        recording.loss().to_vec(),
        recording.cost().cloned(),
        recording.closed().cloned(),
        Vec::new(),
    )
    .with_snap(judging.snap);
    // A connection has a row at least, but for what was lost.
    if recording.rows::<Connection>() > judging.max_connections as u64 {
        let mut lives = Lives::default();
        recording.scan::<Connection>(|rows| lives.add_connections(&rows));
        recording.scan::<TcpSample>(|rows| lives.add_samples(&rows));
        recording.scan::<TcpStage>(|rows| lives.add_stages(&rows));
        evidence = evidence.of_longest(&lives, judging.max_connections);
    }
    recording.scan::<Connection>(|rows| evidence.add_connections(&rows));
    recording.scan::<Listener>(|rows| evidence.add_listeners(&rows));
    recording.scan::<Process>(|rows| evidence.add_processes(&rows));
    recording.scan::<ProcessSample>(|rows| evidence.add_process_samples(&rows));
    recording.scan::<CpuSample>(|rows| evidence.add_cpu_samples(&rows));
    recording.scan::<TcpSample>(|rows| evidence.add_samples(&rows));
    recording.scan::<TcpStage>(|rows| evidence.add_stages(&rows));
    recording.scan::<TcpEvent>(|rows| evidence.add_events(&rows));
    recording.scan::<Call>(|rows| evidence.add_calls(&rows));
    if evidence.wants_calls_again() {
        recording.scan::<Call>(|rows| evidence.add_calls_again(&rows));
    }
    for problem in recording.problems() {
        evidence.add_problem(problem.to_string());
    }
    for part in left_out(&recording.problems()) {
        evidence.add_left_out(part);
    }
    diagnose::diagnose(evidence)
}

/// All that a page tells of a recording, as far as that holds it.
pub(crate) fn answers(recording: &Recording, asked: Asked) -> anyhow::Result<Answers> {
    let Asked {
        judging,
        question,
        categories,
    } = asked;
    let messages = recording.rows::<ReceivedMessage>() + recording.rows::<SentMessage>();
    let has_waits = recording.rows::<Wait>() + recording.rows::<Spin>() > 0;
    let is_told = messages > 0 && recording.rows::<Activity>() > 0;
    let question = question.unwrap_or_else(|| Question {
        tail: Band::slowest(recording.rows::<ReceivedMessage>()),
        ..Question::default()
    });
    let filter = WaitFilter::default();
    let mut report = report(recording, judging)?;
    report.list(MOST_IN_PAGE_CONNECTIONS);
    Ok(Answers {
        report,
        waits: has_waits
            .then(|| waits_of(recording, Grouping::Object, filter, MOST_IN_PAGE))
            .transpose()?,
        messages: (messages > 0)
            .then(|| messages_of(recording, MOST_IN_PAGE))
            .transpose()?,
        tail: is_told.then(|| tail_of(recording, question, categories)),
    })
}

/// Why the slow messages of a recording are slow, if it tells that and is not too long to look at in passing.
fn slow_messages(recording: &Recording) -> anyhow::Result<Option<Vec<SlowMessages>>> {
    let messages = recording.rows::<ReceivedMessage>() + recording.rows::<SentMessage>();
    let is_told = messages > 0 && recording.rows::<Activity>() > 0;
    if !is_told || messages > MOST_IN_PASSING {
        return Ok(None);
    }
    let question = Question {
        tail: Band::slowest(recording.rows::<ReceivedMessage>()),
        ..Question::default()
    };
    let report = tail_of(recording, question, Categories::built_in()?);
    Ok(Some(SlowMessages::of(report)))
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
    waits_of(&recording, grouping, filter, limit)
}

fn waits_of(
    recording: &Recording,
    grouping: Grouping,
    filter: WaitFilter,
    limit: usize,
) -> anyhow::Result<WaitReport> {
    let mut names = Names::default();
    recording.scan::<Connection>(|rows| names.add_connections(rows));
    recording.scan::<Listener>(|rows| names.add_listeners(&rows));
    recording.scan::<Process>(|rows| names.add_processes(&rows));
    recording.scan::<StackFrame>(|rows| names.add_frames(&rows));
    recording.scan::<Symbol>(|rows| names.add_symbols(&rows));
    let object = filter.object.clone().unwrap_or_default();
    let mut waits = WaitTable::new(recording.header().clone(), names, grouping, filter);
    recording.scan::<Wait>(|rows| waits.add(&rows));
    recording.scan::<Spin>(|rows| waits.add_spins(&rows));
    if waits.object_is_missing() {
        bail!(
            "no thread in {} waited for {object}\n\
             hint: `whylat report --by object --format json` names every object",
            out::name(recording.path())
        );
    }
    if let Some(join) = waits.join(limit) {
        join_rows(recording, join);
    }
    Ok(waits.report(recorded(recording), limit))
}

/// Reads the messages of a recording; at most `limit` groups are named.
pub(crate) fn messages(path: &Path, limit: usize) -> anyhow::Result<MessageReport> {
    messages_of(&Recording::open(path)?, limit)
}

fn messages_of(recording: &Recording, limit: usize) -> anyhow::Result<MessageReport> {
    let messages = message_rows(recording, |table| table)?;
    Ok(messages.report(recorded(recording), limit))
}

/// Finds one message.
pub(crate) fn message(path: &Path, id: MessageId) -> anyhow::Result<MessageStory> {
    let recording = Recording::open(path)?;
    let mut messages = message_rows(&recording, |table| table.looking_for(id))?;
    recording.scan::<Activity>(|rows| messages.add_activities(&rows));
    let Some(story) = messages.story(recorded(&recording)) else {
        bail!(
            "there is no message {id} in {}\n\
             hint: `whylat report --messages --format json` names the slowest of every connection",
            out::name(path)
        );
    };
    Ok(story)
}

/// Explains the slow messages of a recording.
pub(crate) fn tail(
    path: &Path,
    question: Question,
    categories: Categories,
) -> anyhow::Result<TailReport> {
    Ok(tail_of(&with_activity(path)?, question, categories))
}

fn tail_of(recording: &Recording, question: Question, categories: Categories) -> TailReport {
    let (header, names) = (recording.header().clone(), message_names(recording));
    let mut table = TailTable::new(header, names, question, categories);
    tail_rows(recording, &mut table);
    table.report(recorded(recording))
}

/// Explains what messages of a recording took longer than those of another.
pub(crate) fn diff(
    before: &Path,
    after: &Path,
    question: Question,
    categories: Categories,
) -> anyhow::Result<TailReport> {
    let (other, recording) = (with_activity(before)?, with_activity(after)?);
    let (header, names) = (recording.header().clone(), message_names(&recording));
    let mut table = TailTable::new(header, names, question, categories);
    tail_rows(&recording, &mut table);
    table.compare_with(other.header().clone(), message_names(&other));
    tail_rows(&other, &mut table);
    Ok(table.report(recorded(&recording)))
}

/// A recording that holds what CPUs did while messages were under way.
fn with_activity(path: &Path) -> anyhow::Result<Recording> {
    let recording = Recording::open(path)?;
    require::<ReceivedMessage>(&recording, "messages")?;
    if recording.rows::<Activity>() == 0 {
        bail!(
            "{} does not hold what CPUs did while messages were under way\n\
             hint: record with --detail messages --keep p99,sample=100",
            out::name(path)
        );
    }
    Ok(recording)
}

fn message_names(recording: &Recording) -> Names {
    let mut names = Names::default();
    recording.scan::<Connection>(|rows| names.add_connections(rows));
    recording.scan::<Process>(|rows| names.add_processes(&rows));
    names
}

fn tail_rows(recording: &Recording, table: &mut TailTable) {
    recording.scan::<ReceivedMessage>(|rows| table.add_received(&rows));
    recording.scan::<SentMessage>(|rows| table.add_sent(&rows));
    recording.scan::<Wait>(|rows| table.add_waits(&rows));
    recording.scan::<Activity>(|rows| table.add_activities(&rows));
}

/// Messages of a recording that are known at the other end, too, by its own recording.
pub(crate) fn ends(path: &Path, other: &Path, limit: usize) -> anyhow::Result<EndsReport> {
    let (first, other) = (Recording::open(path)?, Recording::open(other)?);
    let sides = (side(&first)?, side(&other)?);
    Ok(ends::report(sides.0, sides.1, recorded(&first), limit))
}

fn side(recording: &Recording) -> anyhow::Result<Side> {
    require::<SentMessage>(recording, "messages")?;
    let (mut names, mut connections) = (Names::default(), Connections::default());
    recording.scan::<Connection>(|rows| {
        connections.append(rows.clone());
        names.add_connections(rows);
    });
    recording.scan::<Process>(|rows| names.add_processes(&rows));
    let mut side = Side::new(recording.header().clone(), connections, names);
    recording.scan::<SentMessage>(|rows| side.add_sent(&rows));
    recording.scan::<ReceivedMessage>(|rows| side.add_received(&rows));
    Ok(side)
}

fn message_rows(
    recording: &Recording,
    ready: impl FnOnce(MessageTable) -> MessageTable,
) -> anyhow::Result<MessageTable> {
    require::<ReceivedMessage>(recording, "messages")?;
    let mut names = Names::default();
    recording.scan::<Connection>(|rows| names.add_connections(rows));
    recording.scan::<Process>(|rows| names.add_processes(&rows));
    recording.scan::<UdpSocket>(|rows| names.add_udp_sockets(&rows));
    let mut pairs = ClockPairs::default();
    recording.scan::<ClockPair>(|rows| pairs.append(rows));
    let messages = MessageTable::new(recording.header().clone(), names).with_clocks(&pairs);
    let mut messages = ready(messages);
    recording.scan::<ReceivedMessage>(|rows| messages.add_received(&rows));
    recording.scan::<SentMessage>(|rows| messages.add_sent(&rows));
    Ok(messages)
}

/// What the recording says of itself.
pub(crate) fn recorded(recording: &Recording) -> Recorded {
    let problems = recording.problems();
    Recorded {
        coverage: recording.coverage().to_vec(),
        loss: recording.loss().to_vec(),
        cost: recording.cost().cloned(),
        closed: recording.closed().cloned(),
        left_out: left_out(&problems),
        problems: problems.iter().map(ToString::to_string).collect(),
    }
}

/// What every answer says of the recording; whether it is complete is what exit codes tell.
pub(crate) fn about(recording: &Recording) -> About {
    let latest_ns = recording.time_range_ns().map_or(0, |range| range.1);
    let span = (0, u64::MAX);
    About::of(recording.header(), recorded(recording), latest_ns, span)
}

/// Rows that are left out for these problems, by table: its files lie in a directory of its name.
fn left_out(problems: &[Problem]) -> Vec<LeftOut> {
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
    rows.map(|(table, rows)| LeftOut::new(table, rows))
        .collect()
}

/// Reads once more, and beside the waits, what went before them.
fn join_rows(recording: &Recording, mut join: Join) {
    let mut counters = recording.batches::<Counter>();
    let mut waits = recording.batches::<Wait>();
    let mut calls = recording.batches::<Call>();
    while let Some(source) = join.lacks() {
        match source {
            Source::Counters => join.add_counters(counters.next().as_ref()),
            Source::Waits => join.add_waits(waits.next().as_ref()),
            Source::Calls => join.add_calls(calls.next().as_ref()),
        }
    }
    join.finish();
}

/// Says why a recording holds no rows of a probe with its own detail, if it holds none.
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

/// A recording made of the golden one of this name; `tables`: with its rows.
#[cfg(test)]
pub(crate) fn golden(case: &str, tables: bool, scratch: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let fixture = tempfile::tempdir_in(scratch).expect("a directory");
    let files = std::fs::read_dir(from.join(case))
        .expect("listed")
        .flatten();
    for file in files {
        let name = file.file_name().to_string_lossy().into_owned();
        let is_manifest = name.ends_with(".json") && name != "expected.json";
        if is_manifest || tables && name.ends_with(".jsonl") {
            std::fs::copy(file.path(), fixture.path().join(name)).expect("copied");
        }
    }
    let path = scratch.join(format!("{tables}.whylat"));
    table::write_fixture(fixture.path(), &path).expect("written");
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_recording_says_so_before_its_answer() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = golden("slow_reader/fires", true, scratch.path());
        let sound = diagnose(&path, Judging::default()).expect("read");
        assert_eq!(sound.about.damage("problem"), None);
        let rows = Recording::open(&path).expect("open").rows::<TcpStage>();
        let stages = std::fs::read_dir(path.join("tcp_stages")).expect("there");
        for file in stages.flatten() {
            std::fs::remove_file(file.path()).expect("removed");
        }
        let report = diagnose(&path, Judging::default()).expect("read");
        let damage = format!(
            "This recording is damaged: {rows} rows of tcp_stages are left out, so that the \
             diagnosis may be wrong (see \"problem\")."
        );
        assert_eq!(report.about.damage("problem"), Some(damage));
        let text = view::text(&report, &view::TextOptions::default());
        let at = |words: &str| {
            text.find(words)
                .unwrap_or_else(|| panic!("{words}: {text}"))
        };
        assert!(at("This recording is damaged") < at("coverage "), "{text}");
        let on = text
            .lines()
            .find(|line| line.contains("on: "))
            .expect("coverage");
        assert!(!on.contains("tcp_stages"), "{text}");
        assert!(
            text.contains(&format!("tcp_stages in part: {rows} rows")),
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_str(&view::json(&report)).expect("JSON");
        assert_eq!(
            json["left_out"],
            serde_json::json!([{"table": "tcp_stages", "probe": "tcp_stages", "rows": rows}])
        );
    }

    #[test]
    fn connections_that_are_too_many_are_left_out_and_counted() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = golden("incast/fires", true, scratch.path());
        let all = diagnose(&path, Judging::default()).expect("read");
        let number = all.connections.len();
        assert!(number > 1 && all.connections_not_judged == 0, "{number}");
        let one = Judging {
            max_connections: 1,
            ..Judging::default()
        };
        let report = diagnose(&path, one).expect("read");
        let judged = report.connections.len();
        assert_eq!(
            (judged, report.connections_not_judged),
            (1, number as u64 - 1)
        );
        let text = view::text(&report, &view::TextOptions::default());
        let said = format!("Of {number} connections the {judged} seen for longest");
        assert!(text.contains(&said), "{text}");
    }
}
