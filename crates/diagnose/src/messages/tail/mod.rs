//! Why the slow messages are slow: rows of the messages' tables, `waits` and `activity` in, one [`TailReport`] out.
//! What the cores of a slow message did is compared with what those of ordinary messages of the same application
//! do, of the same recording or of another (NSight, sections 4.2 and 5.2).
//!
//! ```text
//! band       which messages are slow, which ordinary
//! side       a recording: its messages by application
//! message    one message, as far as the host had it
//! spans      what CPUs did, found by time
//! queue      what else its thread was at
//! receptions other messages that the kernel received meanwhile
//! lifetime   a message → times in the tree of places
//! tree       core role, context, and what ran within
//! contexts   who had the CPUs meanwhile
//! queueing   what it waited behind, by who was at it
//! reference  what is usual at each place
//! explain    which places explain what it took longer
//! cause      places → causes, by rule
//! sets       ordinary messages, and slow ones with their explanations
//! summary    causes of all slow messages together
//! report     the contract `whylat.tail/1`
//! ```

mod band;
mod cause;
mod contexts;
mod explain;
mod lifetime;
mod message;
mod queue;
mod queueing;
mod receptions;
mod reference;
pub mod report;
mod sets;
mod side;
mod spans;
mod summary;
#[cfg(test)]
mod tests;
mod tree;

pub use band::LatencyBand;
pub use cause::{OWN_THREADS, list_rules};
pub use explain::{Anomaly, ExplainSettings};
pub use tree::{CoreRole, SpanId};

use std::rc::Rc;

use table::manifest::Header;
use table::tables::{Activities, ReceivedMessages, SentMessages, Waits};
use table::{Rows, TableConsumer, TableId};

use crate::answer::{About, RecordingState};
use crate::causes::Categories;
use crate::waits::NameTable;
use cause::CauseNamer;
use explain::explain;
use lifetime::build_timeline;
use message::HostMessage;
use queueing::queues_ahead;
use reference::ReferenceSet;
use report::{BandCounts, OtherRecording, SCHEMA, TailGroup, TailReport};
use sets::{ExplainedMessage, ExplainedMessages, OrdinaryMessages};
use side::{GroupKey, TailSide};
use spans::LabelTable;
use tree::{PlaceTimes, PlaceTree};

/// Messages to explain, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TailQuery {
    /// Messages to be explained.
    pub tail: LatencyBand,
    /// Messages that they are compared with.
    pub body: LatencyBand,
    /// Only these are to be explained, and the others compared with; `None`: all are both.
    pub only: Option<MessageFilter>,
    /// How.
    pub settings: ExplainSettings,
}

/// Some of the messages of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageFilter {
    /// Those of a connection.
    Connection(u64),
    /// Those that began from one time to another, ns since the recording did.
    Time(u64, u64),
}

impl Default for TailQuery {
    fn default() -> Self {
        Self {
            tail: LatencyBand::TAIL,
            body: LatencyBand::BODY,
            only: None,
            settings: ExplainSettings {
                // NSight, section 5.2
                explained: 0.8,
                // two readings of the clock, each within a hook of a few dozen ns and as long a way to it
                resolution_ns: 300.0,
            },
        }
    }
}

/// Messages on their way to a report.
#[derive(Debug)]
pub struct TailTable {
    labels: LabelTable,
    /// The recording itself, and the one that it is compared with, if that is another.
    sides: (TailSide, Option<TailSide>),
}

impl TableConsumer for TailTable {
    fn is_reader_of(&self, table: TableId) -> bool {
        use TableId::{Activity, ReceivedMessage, SentMessage, Wait};
        matches!(table, ReceivedMessage | SentMessage | Wait | Activity)
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        match rows {
            Rows::ReceivedMessage(rows) => self.add_received(rows),
            Rows::SentMessage(rows) => self.add_sent(rows),
            Rows::Wait(rows) => self.add_waits(rows),
            Rows::Activity(rows) => self.add_activities(rows),
            _ => {}
        }
    }
}

impl TailTable {
    /// Makes an empty table for slow messages; `names` are complete.
    pub fn new(header: Header, names: Rc<NameTable>) -> Self {
        Self {
            labels: LabelTable::default(),
            sides: (TailSide::new(header, names), None),
        }
    }

    /// Starts a second recording for comparison: rows that follow belong to it.
    pub fn compare_with(&mut self, header: Header, names: Rc<NameTable>) {
        self.sides.1 = Some(TailSide::new(header, names));
    }

    /// Returns the host to which rows are added: the other end once it began, else the first.
    fn current_side(&mut self) -> &mut TailSide {
        self.sides.1.as_mut().unwrap_or(&mut self.sides.0)
    }

    /// Adds rows of table `received_messages`, in any order.
    pub fn add_received(&mut self, rows: &ReceivedMessages) {
        self.current_side().add_received(rows);
    }

    /// Adds rows of table `sent_messages`, in any order.
    pub fn add_sent(&mut self, rows: &SentMessages) {
        self.current_side().add_sent(rows);
    }

    /// Adds rows of table `waits`, in any order.
    pub fn add_waits(&mut self, rows: &Waits) {
        self.current_side().add_waits(rows);
    }

    /// Adds rows of table `activity`, in any order.
    pub fn add_activities(&mut self, rows: &Activities) {
        let side = self.sides.1.as_mut().unwrap_or(&mut self.sides.0);
        side.add_activities(rows, &mut self.labels);
    }

    /// Sorts all rows, for queries.
    pub fn into_analysis(mut self) -> TailAnalysis {
        self.sides.0.finish(&mut self.labels);
        if let Some(side) = &mut self.sides.1 {
            side.finish(&mut self.labels);
        }
        TailAnalysis(self)
    }
}

/// All messages of a recording, for any number of queries.
#[derive(Debug)]
pub struct TailAnalysis(TailTable);

impl TailAnalysis {
    /// Finds the causes of the slow messages that the query selects. `categories`: what kinds of
    /// work there are; `recorded`: the state of the recording.
    pub fn report(
        &self,
        question: TailQuery,
        categories: &Categories,
        recorded: RecordingState,
    ) -> TailReport {
        let asked = QueryContext {
            table: &self.0,
            question,
            categories,
        };
        asked.report(recorded)
    }
}

/// A question, and of what it is.
struct QueryContext<'a> {
    table: &'a TailTable,
    question: TailQuery,
    categories: &'a Categories,
}

impl QueryContext<'_> {
    /// Explains the slow messages of each group, and makes the report.
    fn report(&self, recorded: RecordingState) -> TailReport {
        let sides = &self.table.sides;
        let others = sides.1.as_ref().map(TailSide::group_messages);
        let mut groups: Vec<TailGroup> = sides
            .0
            .group_messages()
            .into_iter()
            .map(|(key, messages)| {
                let other = others.as_ref();
                let other = other.map(|it| it.get(&key).map_or(&[][..], Vec::as_slice));
                self.group(key, &messages, other)
            })
            .filter(|group| group.messages > 0)
            .collect();
        let sum_ns = |group: &TailGroup| -> f64 {
            let deviations = group.explained.iter().map(|it| it.deviation_ns);
            deviations.sum()
        };
        // stable: by name where they are alike
        groups.sort_by(|a, b| sum_ns(b).total_cmp(&sum_ns(a)));
        let side = &sides.0;
        TailReport {
            schema: SCHEMA,
            tail: self.question.tail.to_string(),
            body: self.question.body.to_string(),
            other: sides.1.as_ref().map(|it| OtherRecording {
                host: it.header.host.clone(),
                started_realtime_ns: it.header.started_realtime_ns,
            }),
            explained: self.question.settings.explained,
            resolution_ns: self.question.settings.resolution_ns,
            groups,
            about: About::new(&side.header, recorded, side.latest_ns, (0, u64::MAX)),
        }
    }

    /// Makes the report of one group of messages; `other`: the second recording's, if there is one.
    fn group(
        &self,
        key: GroupKey,
        messages: &[HostMessage],
        other: Option<&[HostMessage]>,
    ) -> TailGroup {
        let (judged, rest) = self.split_bands(messages);
        let (side, ordinary) = match (&self.table.sides.1, other) {
            (Some(side), Some(other)) => (side, other),
            _ => (&self.table.sides.0, rest.as_slice()),
        };
        let mut tree = PlaceTree::default();
        let body = self.collect_ordinary(side, ordinary, &mut tree);
        let tail = self.explain_messages(&judged, &mut tree, &body.reference);
        let application = key.0.clone();
        let settings = self.question.settings;
        let labels = &self.table.labels;
        summary::GroupSummary {
            causes: CauseNamer::new(&tree, labels, self.categories, application.as_deref()),
            queueing: body.ahead.compare(&tail.ahead, settings.resolution_ns),
            cores: tail.contexts.compare(&body.contexts, labels),
            body,
            started_ns: self.table.sides.0.header.started_ns,
        }
        .group(key, [&judged, ordinary].map(sorted_ns), &tail)
    }

    /// Splits messages into those to explain and those to compare with.
    fn split_bands(&self, messages: &[HostMessage]) -> (Vec<HostMessage>, Vec<HostMessage>) {
        let started_ns = self.table.sides.0.header.started_ns;
        match self.question.only {
            None => (messages.to_vec(), messages.to_vec()),
            Some(MessageFilter::Connection(conn)) => {
                messages.iter().partition(|message| message.id.conn == conn)
            }
            Some(MessageFilter::Time(from_ns, until_ns)) => messages.iter().partition(|message| {
                let since_ns = message.times.start_ns.saturating_sub(started_ns);
                (from_ns..until_ns).contains(&since_ns)
            }),
        }
    }

    /// Returns the messages of a band with known CPU activity, and how many there are.
    fn in_band<'a>(
        &self,
        side: &TailSide,
        band: LatencyBand,
        messages: &'a [HostMessage],
    ) -> (BandCounts, Vec<&'a HostMessage>) {
        let Some((from_ns, until_ns)) = band.bounds_ns(&sorted_ns(messages)) else {
            return (BandCounts::default(), Vec::new());
        };
        let is_in = |it: &&HostMessage| (from_ns..=until_ns).contains(&it.latency_ns());
        let all = messages.iter().filter(is_in);
        let is_kept = |it: &&HostMessage| side.is_kept(it, &self.table.labels);
        let kept: Vec<_> = all.clone().filter(is_kept).collect();
        let judged = BandCounts {
            messages: all.count() as u64,
            kept: kept.len() as u64,
            from_ns,
            until_ns,
        };
        (judged, kept)
    }

    /// Collects the times of the messages that slow ones are compared with.
    fn collect_ordinary(
        &self,
        side: &TailSide,
        messages: &[HostMessage],
        tree: &mut PlaceTree,
    ) -> OrdinaryMessages {
        let (judged, kept) = self.in_band(side, self.question.body, messages);
        let mut body = OrdinaryMessages {
            judged,
            ..OrdinaryMessages::default()
        };
        let (from, mut times) = ((side, &self.table.labels), PlaceTimes::default());
        for message in kept {
            let queue = side.threads.queue_ahead(message);
            build_timeline(message, queue, from, tree, &mut times, &mut body.contexts);
            body.ahead
                .add(&queues_ahead(message, queue, from, tree, &mut times));
            let latency_ns = message.latency_ns();
            body.reference.add(latency_ns, queue.ahead, &mut times);
        }
        body
    }

    /// Explains each slow message by comparison with the reference.
    fn explain_messages<'a>(
        &self,
        messages: &'a [HostMessage],
        tree: &mut PlaceTree,
        reference: &ReferenceSet,
    ) -> ExplainedMessages<'a> {
        let side = &self.table.sides.0;
        let (judged, kept) = self.in_band(side, self.question.tail, messages);
        let mut tail = ExplainedMessages {
            judged,
            ..ExplainedMessages::default()
        };
        // against nothing, all would be a deviation
        if reference.messages() == 0 {
            return tail;
        }
        let (from, mut times) = ((side, &self.table.labels), PlaceTimes::default());
        let settings = self.question.settings;
        for message in kept {
            let queue = side.threads.queue_ahead(message);
            build_timeline(message, queue, from, tree, &mut times, &mut tail.contexts);
            tail.ahead
                .push(queues_ahead(message, queue, from, tree, &mut times));
            let latency_ns = message.latency_ns();
            let labels = &self.table.labels;
            let explanation = explain(latency_ns, &mut times, tree, labels, reference, settings);
            tail.slow.push(ExplainedMessage {
                message,
                ahead: queue.ahead,
                spans: explanation.spans(&mut times),
                explanation,
            });
        }
        tail
    }
}

/// Returns the durations of messages, the shortest first.
fn sorted_ns(messages: &[HostMessage]) -> Vec<u64> {
    let mut sorted_ns: Vec<u64> = messages.iter().map(HostMessage::latency_ns).collect();
    sorted_ns.sort_unstable();
    sorted_ns
}
