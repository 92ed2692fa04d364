//! Answers of an opened recording: comes in a [`Recording`] and what is wanted, goes out a report. Programs and tests ask
//! here, so that what is tested is what users see.
//!
//! ```text
//! options  what is asked
//! pass     one pass over the tables for all analyses that are wanted
//! about    what the recording says of itself
//! drops    drops and resets
//! requests the tables of requests, side by side
//! ```

mod about;
mod drops;
mod options;
mod pass;
mod requests;

use std::rc::Rc;

use serde::Serialize;
use table::tables::{Activity, ReceivedMessage, SentMessage, Spin, Wait};
use table::{Recording, TableId};

use crate::causes::{Categories, CategoriesError};
use crate::connections::gather::Evidence;
use crate::difference::report::DiffReport;
use crate::difference::{self, ComparedRecording};
use crate::imports;
use crate::messages::MessageTable;
use crate::messages::ends::report::EndsReport;
use crate::messages::ends::{self, EndRecording};
use crate::messages::message::MessageId;
use crate::messages::report::{MessageReport, MessageStory};
use crate::messages::tail::report::TailReport;
use crate::messages::tail::{LatencyBand, TailAnalysis, TailQuery, TailTable};
use crate::report::{RecordingState, Report, SlowMessages};
use crate::requests::digests::DigestSet;
use crate::requests::page::RequestPage;
use crate::waits::counters::{CounterReport, CounterTable};
use crate::waits::{Grouping, NameTable, WaitFilter, WaitReport, WaitTable};
pub use about::{describe_recording, recording_state};
pub use drops::{has_drops, report_drops};
pub use options::{DiagnosisOptions, TailOptions};
use pass::{AnalysisSelection, NAMED, NAMING};
pub use requests::{for_each_request, requests};

/// Messages of a recording that the main report looks at, which takes about 100 MB per million.
const MOST_IN_PASSING: u64 = 2_000_000;

/// Groups of waits or messages that a page names: the worst. More than anyone reads, and little beside the rows.
const MOST_IN_PAGE: usize = 1_000;

/// Objects of waits that a difference sums up by kind.
const MOST_IN_DIFFERENCE: usize = 10_000;

/// Connections that a page lists: about as many bytes as its rows may take.
const MOST_IN_PAGE_CONNECTIONS: usize = 10_000;

/// All reports on a page.
#[derive(Debug, Serialize)]
pub struct RecordingAnswers {
    /// Of its connections.
    pub report: Report,
    /// Of waits by object; `None`: it holds none.
    pub waits: Option<WaitReport>,
    /// Of messages by connection; `None`: it holds none.
    pub messages: Option<MessageReport>,
    /// Why slow ones are slow; `None`: not recorded.
    pub tail: Option<TailReport>,
    /// Requests; `None`: it holds no calls.
    pub requests: Option<RequestPage>,
}

/// Returns the diagnosis, with the causes of slow messages if the recording has them and is short enough.
///
/// # Errors
/// None: [`Categories::built_in`].
pub fn report(recording: &Recording, judging: DiagnosisOptions) -> Result<Report, CategoriesError> {
    let wanted = AnalysisSelection {
        tail: has_causes(recording) && is_short_enough(recording),
        requests: true,
        ..AnalysisSelection::default()
    };
    let filled = pass::read(recording, judging, wanted);
    let recorded = recording_state(recording);
    let (digests, names) = (filled.digests, filled.names);
    let (mut report, _) = judged(recording, filled.connections, (digests, names), false);
    if let Some(tails) = filled.tail.map(TailTable::into_analysis) {
        report.slow_messages = Some(slow_messages(recording, &tails, &recorded)?);
    }
    report.drops = has_drops(recording).then(|| report_drops(recording, 0));
    report.mark_answer();
    Ok(report)
}

/// The diagnosis but for slow messages, which take memory each.
pub fn findings(recording: &Recording, judging: DiagnosisOptions) -> Report {
    let wanted = AnalysisSelection {
        requests: true,
        ..AnalysisSelection::default()
    };
    let filled = pass::read(recording, judging, wanted);
    let (digests, names) = (filled.digests, filled.names);
    let (mut report, _) = judged(recording, filled.connections, (digests, names), false);
    report.mark_answer();
    report
}

/// Returns all reports of a page, as far as the recording has their rows.
///
/// # Errors
/// None: [`Categories::built_in`].
pub fn page(
    recording: &Recording,
    judging: DiagnosisOptions,
    asked: &TailOptions,
) -> Result<RecordingAnswers, CategoriesError> {
    let has_waits = recording.rows::<Wait>() + recording.rows::<Spin>() > 0;
    let wanted = AnalysisSelection {
        waits: has_waits.then_some(MOST_IN_PAGE),
        messages: messages_in(recording) > 0,
        tail: has_causes(recording),
        requests: true,
    };
    let filled = pass::read(recording, judging, wanted);
    let recorded = recording_state(recording);
    let (waits, messages) = (filled.waits, filled.messages);
    let (digests, names) = (filled.digests, filled.names);
    let (report, requests) = judged(recording, filled.connections, (digests, names), true);
    let mut answers = RecordingAnswers {
        report,
        waits: waits.map(|it| it.report(recorded.clone(), MOST_IN_PAGE)),
        messages: messages.map(|it| it.report(recorded.clone(), MOST_IN_PAGE)),
        tail: None,
        requests,
    };
    answers.report.list_connections(MOST_IN_PAGE_CONNECTIONS);
    if let Some(tails) = filled.tail.map(TailTable::into_analysis) {
        answers.add_tail(recording, &tails, asked, &recorded)?;
    }
    answers.report.mark_answer();
    Ok(answers)
}

impl RecordingAnswers {
    /// Explains the messages that were asked for, and in the diagnosis the slowest: once, if these are the same.
    fn add_tail(
        &mut self,
        recording: &Recording,
        tails: &TailAnalysis,
        asked: &TailOptions,
        recorded: &RecordingState,
    ) -> Result<(), CategoriesError> {
        let slowest = slowest_query(recording);
        let question = asked.question.unwrap_or(slowest);
        let tail = match &asked.categories {
            Some(categories) => tails.report(question, categories, recorded.clone()),
            None => tails.report(question, &Categories::built_in()?, recorded.clone()),
        };
        if is_short_enough(recording) {
            let is_same = question == slowest && asked.categories.is_none();
            self.report.slow_messages = Some(match is_same {
                true => SlowMessages::from_report(&tail),
                false => slow_messages(recording, tails, recorded)?,
            });
        }
        self.tail = Some(tail);
        Ok(())
    }
}

/// Returns waits in groups, at most `limit` of them; `None`: no thread waited for the object that the filter names.
pub fn waits(
    recording: &Recording,
    grouping: Grouping,
    filter: WaitFilter,
    limit: usize,
) -> Option<WaitReport> {
    let mut names = NameTable::from_header(recording.header()).with_stacks();
    if grouping == Grouping::Task {
        names = names.with_spans();
    }
    recording.feed(NAMING, &mut [&mut names]);
    let header = recording.header().clone();
    let mut counters = CounterTable::new(&filter, header.started_ns);
    recording.feed(&[TableId::Counter], &mut [&mut counters]);
    let mut waits =
        WaitTable::new(header, names.complete(), grouping, filter).with_counters(counters);
    recording.feed(NAMED, &mut [&mut waits]);
    if waits.object_is_missing() {
        return None;
    }
    pass::join(&mut waits, recording, limit);
    Some(waits.report(recording_state(recording), limit))
}

/// Returns messages by connection, at most `limit` connections.
pub fn messages(recording: &Recording, limit: usize) -> MessageReport {
    let mut messages = MessageTable::new(recording.header().clone(), read_names(recording));
    recording.feed(NAMED, &mut [&mut messages]);
    messages.report(recording_state(recording), limit)
}

/// Reports one message; `None`: there is none with this id.
pub fn message(recording: &Recording, id: MessageId) -> Option<MessageStory> {
    let messages = MessageTable::new(recording.header().clone(), read_names(recording));
    let mut messages = messages.looking_for(id);
    recording.feed(NAMED, &mut [&mut messages]);
    messages.into_story(recording_state(recording))
}

/// Returns why messages of a recording are slow. `before`: they are compared with messages of this other one, not with
/// ordinary ones of their own.
///
/// # Errors
/// None: [`Categories::built_in`].
pub fn explain_tail(
    recording: &Recording,
    before: Option<&Recording>,
    asked: &TailOptions,
) -> Result<TailReport, CategoriesError> {
    let mut table = TailTable::new(recording.header().clone(), read_names(recording));
    recording.feed(NAMED, &mut [&mut table]);
    if let Some(other) = before {
        table.compare_with(other.header().clone(), read_names(other));
        other.feed(NAMED, &mut [&mut table]);
    }
    let question = asked.question.unwrap_or_else(|| slowest_query(recording));
    let tails = table.into_analysis();
    Ok(match &asked.categories {
        Some(categories) => tails.report(question, categories, recording_state(recording)),
        None => tails.report(
            question,
            &Categories::built_in()?,
            recording_state(recording),
        ),
    })
}

/// Compares two recordings and returns the differences.
pub fn compare_recordings(
    before: &Recording,
    after: &Recording,
    judging: DiagnosisOptions,
) -> DiffReport {
    let [before, after] = [before, after].map(|recording| ComparedRecording {
        report: findings(recording, judging),
        waits: (recording.rows::<Wait>() > 0).then(|| waits_alone(recording)),
        counters: report_counters(recording),
    });
    difference::compare(&before, &after)
}

/// Returns the counters that recorded programs reported.
fn report_counters(recording: &Recording) -> Vec<CounterReport> {
    let started_ns = recording.header().started_ns;
    let mut counters = CounterTable::new(&WaitFilter::default(), started_ns);
    recording.feed(&[TableId::Counter], &mut [&mut counters]);
    counters.alone(&read_names(recording))
}

/// Returns the waits by object, without the calls before them.
fn waits_alone(recording: &Recording) -> WaitReport {
    let (header, names) = (recording.header().clone(), read_names(recording));
    let mut waits = WaitTable::new(header, names, Grouping::Object, WaitFilter::default());
    recording.feed(&[TableId::Wait, TableId::Spin], &mut [&mut waits]);
    waits.report(recording_state(recording), MOST_IN_DIFFERENCE)
}

/// Joins the messages that two recordings have, one at each end.
pub fn join_ends(recording: &Recording, other: &Recording, limit: usize) -> EndsReport {
    let sides = (end_recording(recording), end_recording(other));
    ends::report(sides.0, sides.1, recording_state(recording), limit)
}

/// Reads one end's connections and messages, to join them with the other end's.
fn end_recording(recording: &Recording) -> EndRecording {
    let mut side = EndRecording::new(recording.header().clone());
    recording.feed(NAMING, &mut [&mut side]);
    recording.feed(NAMED, &mut [&mut side]);
    side
}

/// Names of all connections, sockets and processes.
pub fn read_names(recording: &Recording) -> Rc<NameTable> {
    let mut names = NameTable::from_header(recording.header());
    recording.feed(NAMING, &mut [&mut names]);
    names.complete()
}

/// Judges connections, and requests with the digests beside them.
/// Returns the diagnosis, and the requests of a page if it is wanted.
fn judged(
    recording: &Recording,
    mut evidence: Evidence,
    (digests, names): (Option<DigestSet>, Rc<NameTable>),
    wants_page: bool,
) -> (Report, Option<RequestPage>) {
    let recorded = recording_state(recording);
    let problems = recorded.problems.iter().cloned();
    problems.for_each(|problem| evidence.add_problem(problem));
    let left_out = recorded.left_out.iter().cloned();
    left_out.for_each(|part| evidence.add_left_out(part));
    let mut report = crate::diagnose(evidence);
    report.imported = imports::find_trace(recording);
    let page = digests.and_then(|digests| {
        requests::add_requests(recording, (names, &digests), &mut report, wants_page)
    });
    (report, page)
}

/// Returns the number of message rows, sent and received.
fn messages_in(recording: &Recording) -> u64 {
    recording.rows::<ReceivedMessage>() + recording.rows::<SentMessage>()
}

/// Returns whether the recording has messages, and the CPU activity during them.
fn has_causes(recording: &Recording) -> bool {
    messages_in(recording) > 0 && recording.rows::<Activity>() > 0
}

/// Returns whether the report analyses messages without being asked: few enough are recorded.
fn is_short_enough(recording: &Recording) -> bool {
    messages_in(recording) <= MOST_IN_PASSING
}

/// The question of the main report.
fn slowest_query(recording: &Recording) -> TailQuery {
    TailQuery {
        tail: LatencyBand::slow_band(recording.rows::<ReceivedMessage>()),
        ..TailQuery::default()
    }
}

/// Returns the slow messages and their first causes, for the report.
fn slow_messages(
    recording: &Recording,
    tails: &TailAnalysis,
    recorded: &RecordingState,
) -> Result<Vec<SlowMessages>, CategoriesError> {
    let categories = Categories::built_in()?;
    let report = tails.report(slowest_query(recording), &categories, recorded.clone());
    Ok(SlowMessages::from_report(&report))
}
