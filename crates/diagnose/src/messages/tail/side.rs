//! One recording: its messages, what its CPUs did, and what its threads took and waited for.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use table::Columns;
use table::manifest::Header;
use table::tables::{Activities, ReceivedMessages, SentMessages, Waits};

use super::message::HostMessage;
use super::queue::QueueTable;
use super::receptions::ReceptionTable;
use super::spans::{LabelId, LabelTable, SpanTable};
use crate::messages::message::MessageDirection;
use crate::waits::NameTable;

/// Identity of a group of messages: application and direction.
pub(super) type GroupKey = (Option<String>, MessageDirection);

/// One recording: its messages, spans and waits.
#[derive(Debug)]
pub(super) struct TailSide {
    pub(super) header: Header,
    names: Rc<NameTable>,
    messages: Vec<HostMessage>,
    pub(super) spans: SpanTable,
    pub(super) threads: QueueTable,
    /// When the kernel was done with messages, by its CPU and their direction.
    handed: HashMap<(u16, MessageDirection), Vec<u64>>,
    /// When the kernel was done with received messages, with the program of each.
    pub(super) receptions: ReceptionTable,
    /// Programs by process.
    programs: HashMap<u32, LabelId>,
    pub(super) latest_ns: u64,
}

impl TailSide {
    /// Makes the empty data of one recording; `names` are complete.
    pub(super) fn new(header: Header, names: Rc<NameTable>) -> Self {
        Self {
            latest_ns: header.started_ns,
            header,
            names,
            messages: Vec::new(),
            spans: SpanTable::default(),
            threads: QueueTable::default(),
            handed: HashMap::new(),
            receptions: ReceptionTable::default(),
            programs: HashMap::new(),
        }
    }

    pub(super) fn add_received(&mut self, rows: &ReceivedMessages) {
        self.note_latest(rows.time_range_ns());
        let messages = (0..rows.len()).filter_map(|row| HostMessage::from_received(rows, row));
        for message in messages {
            self.threads.add(&message);
            self.messages.push(message);
        }
    }

    pub(super) fn add_sent(&mut self, rows: &SentMessages) {
        self.note_latest(rows.time_range_ns());
        let messages = (0..rows.len()).filter_map(|row| HostMessage::from_sent(rows, row));
        self.messages.extend(messages);
    }

    pub(super) fn add_waits(&mut self, rows: &Waits) {
        self.threads.add_waits(rows);
    }

    pub(super) fn add_activities(&mut self, rows: &Activities, labels: &mut LabelTable) {
        self.spans.add(rows, labels, &self.names);
    }

    /// Moves the end of the recording to the last time of these rows.
    fn note_latest(&mut self, range_ns: Option<(u64, u64)>) {
        let last_ns = range_ns.map_or(0, |(_, last_ns)| last_ns);
        self.latest_ns = self.latest_ns.max(last_ns);
    }

    /// Sorts all rows, so that their order does not change the answer; call it after the last one.
    pub(super) fn finish(&mut self, labels: &mut LabelTable) {
        self.spans.finish();
        self.threads.finish();
        self.messages.sort_by_key(|it| {
            (
                it.times.start_ns,
                it.id.conn,
                it.id.direction,
                it.id.offset_end,
            )
        });
        for message in &self.messages {
            let of_program = || labels.program_label(self.names.comm(message.pid));
            let program = *self.programs.entry(message.pid).or_insert_with(of_program);
            self.receptions.add(message, program);
            let Some(cpu) = message.kernel_cpu else {
                continue;
            };
            let handed = self.handed.entry((cpu, message.id.direction)).or_default();
            handed.push(message.kernel_done_ns());
        }
        self.handed.values_mut().for_each(|it| it.sort_unstable());
        self.receptions.finish();
    }

    /// Returns the program of a message.
    pub(super) fn program(&self, message: &HostMessage) -> Option<LabelId> {
        self.programs.get(&message.pid).copied()
    }

    /// Returns how many messages of its direction the kernel's CPU finished meanwhile.
    pub(super) fn handed_meanwhile(&self, message: &HostMessage) -> u32 {
        let key = |cpu| (cpu, message.id.direction);
        let handed = message
            .kernel_cpu
            .and_then(|cpu| self.handed.get(&key(cpu)));
        let Some(handed) = handed else {
            return 0;
        };
        let first = handed.partition_point(|at| *at <= message.times.start_ns);
        let last = handed.partition_point(|at| *at < message.kernel_done_ns());
        u32::try_from(last.saturating_sub(first)).unwrap_or(u32::MAX)
    }

    /// The messages by application and direction, each group in the order of time.
    pub(super) fn group_messages(&self) -> BTreeMap<GroupKey, Vec<HostMessage>> {
        let mut groups: BTreeMap<GroupKey, Vec<HostMessage>> = BTreeMap::new();
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

    /// Returns whether CPU activity is recorded for a message: the thread's CPU at begin and end,
    /// and the kernel's.
    pub(super) fn is_kept(&self, message: &HostMessage, labels: &LabelTable) -> bool {
        let covers = |cpu, (from_ns, until_ns): (u64, u64)| {
            self.spans.is_covered(cpu, from_ns, labels)
                && self
                    .spans
                    .is_covered(cpu, until_ns.max(from_ns + 1) - 1, labels)
        };
        let kernel_ns = message.kernel_ns();
        let kernel_cpu = message.kernel_cpu.filter(|_| kernel_ns.0 < kernel_ns.1);
        covers(message.cpu, (message.times.start_ns, message.times.end_ns))
            && kernel_cpu.is_none_or(|cpu| covers(cpu, kernel_ns))
    }
}
