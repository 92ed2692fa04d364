//! One recording: its messages, what its CPUs did, and what its threads took and waited for.

use std::collections::BTreeMap;

use table::Columns;
use table::manifest::Header;
use table::tables::{Activities, ReceivedMessages, SentMessages, Waits};

use super::message::Message;
use super::queue::Threads;
use super::spans::{Spans, Whats};
use crate::messages::way::Direction;
use crate::waits::Names;

/// What an application's messages are told by: its name, and which way they went.
pub(super) type GroupKey = (Option<String>, Direction);

/// See the module.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) header: Header,
    names: Names,
    messages: Vec<Message>,
    pub(super) spans: Spans,
    pub(super) threads: Threads,
    pub(super) latest_ns: u64,
}

impl Side {
    /// Starts with what the manifest says, and names that are complete.
    pub(super) fn new(header: Header, mut names: Names) -> Self {
        names.finish();
        Self {
            latest_ns: header.started_ns,
            header,
            names,
            messages: Vec::new(),
            spans: Spans::default(),
            threads: Threads::default(),
        }
    }

    pub(super) fn add_received(&mut self, rows: &ReceivedMessages) {
        self.note_latest(rows.time_range_ns());
        let messages = (0..rows.len()).filter_map(|row| Message::received(rows, row));
        for message in messages {
            self.threads.add(&message);
            self.messages.push(message);
        }
    }

    pub(super) fn add_sent(&mut self, rows: &SentMessages) {
        self.note_latest(rows.time_range_ns());
        let messages = (0..rows.len()).filter_map(|row| Message::sent(rows, row));
        self.messages.extend(messages);
    }

    pub(super) fn add_waits(&mut self, rows: &Waits) {
        self.threads.add_waits(rows);
    }

    pub(super) fn add_activities(&mut self, rows: &Activities, whats: &mut Whats) {
        self.spans.add(rows, whats);
    }

    fn note_latest(&mut self, range_ns: Option<(u64, u64)>) {
        let last_ns = range_ns.map_or(0, |(_, last_ns)| last_ns);
        self.latest_ns = self.latest_ns.max(last_ns);
    }

    /// Puts all in order: to be called after the last row. The same rows in another order are the same answer.
    pub(super) fn finish(&mut self) {
        self.spans.finish();
        self.threads.finish();
        self.messages
            .sort_by_key(|it| (it.start_ns, it.id.conn, it.id.direction, it.id.offset_end));
    }

    /// The messages by application and direction, each group in the order of time.
    pub(super) fn grouped(&self) -> BTreeMap<GroupKey, Vec<Message>> {
        let mut groups: BTreeMap<GroupKey, Vec<Message>> = BTreeMap::new();
        let mut applications: BTreeMap<u32, Option<String>> = BTreeMap::new();
        for message in &self.messages {
            let application = applications
                .entry(message.pid)
                .or_insert_with(|| self.names.comm(message.pid).map(str::to_owned));
            let key = (application.clone(), message.id.direction);
            groups.entry(key).or_default().push(*message);
        }
        groups
    }

    /// Whether it is known what the thread's CPU did at a message's begin and its end.
    pub(super) fn is_kept(&self, message: &Message, whats: &Whats) -> bool {
        let last_ns = message.end_ns.max(message.start_ns + 1);
        self.spans.covers(message.cpu, message.start_ns, whats)
            && self.spans.covers(message.cpu, last_ns - 1, whats)
    }
}
