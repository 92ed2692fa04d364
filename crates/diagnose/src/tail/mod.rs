//! Why the slow messages are slow: rows of the messages' tables, `waits` and `activity` in, one [`TailReport`] out.
//! What the cores of a slow message did is compared with what those of ordinary messages of the same application
//! do (NSight, sections 4.2 and 5.2).
//!
//! ```text
//! band       which messages are slow, which ordinary
//! message    one message, as far as the host had it
//! spans      what CPUs did, found by time
//! queue      what else its thread was at
//! lifetime   a message → times in the tree of places
//! tree       core role, context, and what ran within
//! reference  what is usual at each place
//! explain    which places explain what it took longer
//! cause      places → causes, by rule
//! summary    causes of all slow messages together
//! report     the contract `whylat.tail/1`
//! ```

mod band;
mod cause;
mod explain;
mod lifetime;
mod message;
mod queue;
mod reference;
pub mod report;
mod spans;
mod summary;
#[cfg(test)]
mod tests;
mod tree;

pub use band::Band;
pub use explain::{Anomaly, Settings};
pub use tree::Role;

use std::collections::HashMap;

use table::Columns;
use table::manifest::Header;
use table::tables::{Activities, ReceivedMessages, SentMessages, Waits};

use crate::causes::Categories;
use crate::messages::way::Direction;
use crate::report::{About, Recorded};
use crate::waits::Names;
use cause::Causes;
use explain::{Explanation, explain};
use lifetime::tell;
use message::Message;
use queue::Threads;
use reference::Reference;
use report::{Judged, SCHEMA, TailGroup, TailReport};
use spans::Spans;
use tree::{Times, Tree};

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// Messages to be explained.
    pub tail: Band,
    /// Messages that they are compared with.
    pub body: Band,
    /// How.
    pub settings: Settings,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            tail: Band::TAIL,
            body: Band::BODY,
            settings: Settings {
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
    header: Header,
    names: Names,
    question: Question,
    categories: Categories,
    messages: Vec<Message>,
    spans: Spans,
    threads: Threads,
    latest_ns: u64,
}

/// What an application's messages are told by: its name, and which way they went.
type GroupKey = (Option<String>, Direction);

impl TailTable {
    /// Starts with what the manifest says, names that are complete, and what kinds of work there are.
    pub fn new(
        header: Header,
        mut names: Names,
        question: Question,
        categories: Categories,
    ) -> Self {
        names.finish();
        Self {
            latest_ns: header.started_ns,
            header,
            names,
            question,
            categories,
            messages: Vec::new(),
            spans: Spans::default(),
            threads: Threads::default(),
        }
    }

    /// Adds rows of table `received_messages`, in any order.
    pub fn add_received(&mut self, rows: &ReceivedMessages) {
        self.note_latest(rows.time_range_ns());
        let messages = (0..rows.len()).filter_map(|row| Message::received(rows, row));
        for message in messages {
            self.threads.add(&message);
            self.messages.push(message);
        }
    }

    /// Adds rows of table `sent_messages`, in any order.
    pub fn add_sent(&mut self, rows: &SentMessages) {
        self.note_latest(rows.time_range_ns());
        let messages = (0..rows.len()).filter_map(|row| Message::sent(rows, row));
        self.messages.extend(messages);
    }

    /// Adds rows of table `waits`, in any order.
    pub fn add_waits(&mut self, rows: &Waits) {
        self.threads.add_waits(rows);
    }

    /// Adds rows of table `activity`, in any order.
    pub fn add_activities(&mut self, rows: &Activities) {
        self.spans.add(rows);
    }

    fn note_latest(&mut self, range_ns: Option<(u64, u64)>) {
        let last_ns = range_ns.map_or(0, |(_, last_ns)| last_ns);
        self.latest_ns = self.latest_ns.max(last_ns);
    }

    /// The report of all rows added.
    pub fn report(mut self, recorded: Recorded) -> TailReport {
        self.spans.finish();
        self.threads.finish();
        // the same rows in another order are the same answer
        self.messages
            .sort_by_key(|it| (it.start_ns, it.id.conn, it.id.direction, it.id.offset_end));
        let mut groups: Vec<TailGroup> = self
            .grouped()
            .into_iter()
            .map(|(key, messages)| self.group(key, &messages))
            .collect();
        let sum_ns = |group: &TailGroup| -> f64 {
            let deviations = group.explained.iter().map(|it| it.deviation_ns);
            deviations.sum()
        };
        groups.sort_by(|a, b| {
            let named = |it: &TailGroup| (it.application.clone(), it.direction);
            let by_sum = sum_ns(b).total_cmp(&sum_ns(a));
            by_sum.then_with(|| named(a).cmp(&named(b)))
        });
        TailReport {
            schema: SCHEMA,
            tail: self.question.tail.to_string(),
            body: self.question.body.to_string(),
            explained: self.question.settings.explained,
            resolution_ns: self.question.settings.resolution_ns,
            groups,
            about: About::of(&self.header, recorded, self.latest_ns, (0, u64::MAX)),
        }
    }

    fn grouped(&self) -> HashMap<GroupKey, Vec<Message>> {
        let mut groups: HashMap<GroupKey, Vec<Message>> = HashMap::new();
        let mut applications: HashMap<u32, Option<String>> = HashMap::new();
        for message in &self.messages {
            let application = applications
                .entry(message.pid)
                .or_insert_with(|| self.names.comm(message.pid).map(str::to_owned));
            let key = (application.clone(), message.id.direction);
            groups.entry(key).or_default().push(*message);
        }
        groups
    }

    fn group(&self, (application, direction): GroupKey, messages: &[Message]) -> TailGroup {
        let mut sorted_ns: Vec<u64> = messages.iter().map(Message::latency_ns).collect();
        sorted_ns.sort_unstable();
        let mut tree = Tree::default();
        let (body, reference) = self.reference(messages, &sorted_ns, &mut tree);
        let (tail, told) = self.explain_all(messages, &sorted_ns, &mut tree, &reference);
        let own_pids = messages.iter().map(|it| it.pid).collect();
        summary::Summary {
            causes: Causes::new(&tree, &self.spans, &self.categories, own_pids),
            reference: &reference,
            started_ns: self.header.started_ns,
        }
        .group(application, direction, &sorted_ns, (tail, body), told)
    }

    /// The messages of a band of which it is known what their CPUs did, and how many there are.
    fn in_band<'a>(
        &'a self,
        band: Band,
        messages: &'a [Message],
        sorted_ns: &[u64],
    ) -> (Judged, Vec<&'a Message>) {
        let Some((from_ns, until_ns)) = band.bounds_ns(sorted_ns) else {
            return (Judged::default(), Vec::new());
        };
        let is_in = |it: &&Message| (from_ns..=until_ns).contains(&it.latency_ns());
        let all = messages.iter().filter(is_in);
        let kept: Vec<_> = all.clone().filter(|it| self.is_kept(it)).collect();
        let judged = Judged {
            messages: all.count() as u64,
            kept: kept.len() as u64,
            from_ns,
            until_ns,
        };
        (judged, kept)
    }

    /// Whether it is known what the thread's CPU did at its begin and its end.
    fn is_kept(&self, message: &Message) -> bool {
        let last_ns = message.end_ns.max(message.start_ns + 1);
        self.spans.covers(message.cpu, message.start_ns)
            && self.spans.covers(message.cpu, last_ns - 1)
    }

    fn reference(
        &self,
        messages: &[Message],
        sorted_ns: &[u64],
        tree: &mut Tree,
    ) -> (Judged, Reference) {
        let (judged, kept) = self.in_band(self.question.body, messages, sorted_ns);
        let (mut reference, mut times) = <(Reference, Times)>::default();
        for message in kept {
            let queue = self.threads.ahead(message);
            tell(message, queue, &self.spans, &self.threads, tree, &mut times);
            reference.add(message.latency_ns(), queue.ahead, &mut times);
        }
        (judged, reference)
    }

    fn explain_all<'a>(
        &'a self,
        messages: &'a [Message],
        sorted_ns: &[u64],
        tree: &mut Tree,
        reference: &Reference,
    ) -> (Judged, Vec<Told<'a>>) {
        let (judged, kept) = self.in_band(self.question.tail, messages, sorted_ns);
        // against nothing, all would be a deviation
        if reference.messages() == 0 {
            return (judged, Vec::new());
        }
        let mut times = Times::default();
        let told = kept.into_iter().map(|message| {
            let queue = self.threads.ahead(message);
            tell(message, queue, &self.spans, &self.threads, tree, &mut times);
            let settings = self.question.settings;
            let latency_ns = message.latency_ns();
            let explanation = explain(
                latency_ns,
                &mut times,
                tree,
                &self.spans,
                reference,
                settings,
            );
            Told {
                message,
                ahead: queue.ahead,
                explanation,
            }
        });
        (judged, told.collect())
    }
}

/// A message that was explained.
struct Told<'a> {
    message: &'a Message,
    ahead: u32,
    explanation: Explanation,
}
