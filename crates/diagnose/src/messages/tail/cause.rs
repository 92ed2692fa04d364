//! Places → causes: the rule that a deviation belongs to, and what people call it.

use table::{ActivityKind, WaitObject};

use super::spans::{LabelId, LabelTable, SpanLabel};
use super::tree::{CoreRole, PlaceTree, TreeNode, TreePlace};
use crate::causes::{Categories, Cause};

/// Name of the cause that other threads of the application had its CPU.
pub const OWN_THREADS: &str = "its own other threads";

/// Identity of a cause.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CauseKey {
    pub(super) rule: MessageRule,
    pub(super) role: CoreRole,
    pub(super) what: String,
    /// Kind of work, if it is work.
    pub(super) category: Option<Cause>,
}

/// Rules, by their stable names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum MessageRule {
    HeadOfLineBlocking,
    CpuContention,
    SoftirqDelay,
    ReceiveInterference,
    IdleWakeup,
    Migration,
    ProbeOverhead,
    BlockedInCall,
    SlowFunction,
    /// No category knows the function: named, but no explanation.
    UnknownFunction,
    /// Not known what it was: explains nothing.
    Untraced,
}

impl MessageRule {
    /// Returns the rule's name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::HeadOfLineBlocking => "head_of_line_blocking",
            Self::CpuContention => "cpu_contention",
            Self::SoftirqDelay => "softirq_delay",
            Self::ReceiveInterference => "receive_interference",
            Self::IdleWakeup => "idle_wakeup",
            Self::Migration => "migration",
            Self::ProbeOverhead => "probe_overhead",
            Self::BlockedInCall => "blocked_in_call",
            Self::SlowFunction => "slow_function",
            Self::UnknownFunction => "unknown_function",
            Self::Untraced => "untraced",
        }
    }

    /// Returns the rule's meaning in one line.
    const fn summary(self) -> &'static str {
        match self {
            Self::HeadOfLineBlocking => "Other messages of the program went first",
            Self::CpuContention => "Another thread had the CPU while this one wanted it",
            Self::SoftirqDelay => "Interrupts and softirqs took longer, or were kept waiting",
            Self::ReceiveInterference => {
                "The kernel received messages of another program on its CPU meanwhile"
            }
            Self::IdleWakeup => "The thread was woken, and its CPU left the idle state late",
            Self::Migration => "The thread was moved to another CPU while it wanted to run",
            Self::ProbeOverhead => "The profiler itself delayed the message",
            Self::BlockedInCall => "The thread waited for a lock, a file, or a page of memory",
            Self::SlowFunction => {
                "Calls and functions took longer than usual, or the program itself computed"
            }
            Self::UnknownFunction => "A function without a known category took longer",
            Self::Untraced => "The activity of a CPU was not recorded",
        }
    }

    /// Returns whether the cause is known.
    pub(super) const fn is_explained(self) -> bool {
        !matches!(self, Self::UnknownFunction | Self::Untraced)
    }
}

/// Returns the rules by name, each with its sentence. `untraced` is left out: it is never a cause.
pub fn list_rules() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = [
        MessageRule::HeadOfLineBlocking,
        MessageRule::CpuContention,
        MessageRule::SoftirqDelay,
        MessageRule::ReceiveInterference,
        MessageRule::IdleWakeup,
        MessageRule::Migration,
        MessageRule::ProbeOverhead,
        MessageRule::BlockedInCall,
        MessageRule::SlowFunction,
        MessageRule::UnknownFunction,
    ];
    all.into_iter().map(|rule| (rule.name(), rule.summary()))
}

impl CauseKey {
    /// Returns what helps against the cause.
    pub(super) fn advice(&self) -> &'static str {
        match (self.rule, self.category) {
            (
                MessageRule::SlowFunction | MessageRule::SoftirqDelay | MessageRule::CpuContention,
                Some(category),
            ) => category.remedy(),
            (MessageRule::HeadOfLineBlocking, _) if self.role == CoreRole::Receive => {
                "Let more CPUs receive the connections (RSS, RPS), or let senders send fewer messages at once."
            }
            (MessageRule::HeadOfLineBlocking, _) => {
                "Spread the connections over more threads, or let a thread take fewer requests of one connection at a time (memcached: -t, -R)."
            }
            (MessageRule::CpuContention, _) => {
                "Give the program CPUs of its own (taskset, cpuset), move what ran there elsewhere, or raise its priority."
            }
            (MessageRule::SoftirqDelay, _) => {
                "Move interrupts and receive processing to other CPUs (IRQ affinity, RSS, RPS), or spread them."
            }
            (MessageRule::ReceiveInterference, _) => {
                "Let other CPUs receive the other program's packets (RSS, RPS, flow steering: ethtool -N). Or \
                    run this program on other CPUs."
            }
            (MessageRule::IdleWakeup, _) => {
                "Keep CPUs out of deep idle states (/dev/cpu_dma_latency), or poll for a while before waiting \
                    (busy_poll)."
            }
            (MessageRule::Migration, _) => {
                "Pin the thread to its CPU (taskset, sched_setaffinity), and stop programs that change this."
            }
            (MessageRule::ProbeOverhead, _) => {
                "Record fewer processes or less detail, or give the recorder its own CPU."
            }
            (MessageRule::BlockedInCall, _) => {
                "Keep waits (locks, files, page faults) out of the thread that serves requests."
            }
            (MessageRule::SlowFunction, _) => {
                "`whylat report --message ID` of an example shows the place in the program."
            }
            (MessageRule::UnknownFunction, _) => "Give it a category: --categories FILE.",
            (MessageRule::Untraced, _) => {
                "Give the activity more memory: `--keep p99,memory=256M`."
            }
        }
    }
}

/// Names the cause of a message by its place in the tree of activities.
pub(super) struct CauseNamer<'a> {
    tree: &'a PlaceTree,
    labels: &'a LabelTable,
    /// Of each [`LabelId`].
    categories: Vec<Option<Cause>>,
    application: Option<&'a str>,
}

impl<'a> CauseNamer<'a> {
    /// Makes the namer of causes for the places of this tree.
    pub(super) fn new(
        tree: &'a PlaceTree,
        labels: &'a LabelTable,
        categories: &Categories,
        application: Option<&'a str>,
    ) -> Self {
        let category = |what: &SpanLabel| categories.cause(what.kind, what.name.as_deref());
        Self {
            tree,
            labels,
            categories: labels.all_labels().iter().map(category).collect(),
            application,
        }
    }

    /// The cause that a place is.
    pub(super) fn cause_key(&self, node: TreeNode) -> CauseKey {
        let role = self.tree.role(node);
        let (rule, what, category) = match self.tree.place(node) {
            TreePlace::OtherMessage => (
                MessageRule::HeadOfLineBlocking,
                "other messages first".to_owned(),
                None,
            ),
            TreePlace::Received(what) => (
                MessageRule::ReceiveInterference,
                format!("messages for {}", name(self.labels.get(what))),
                None,
            ),
            TreePlace::Blocked(object) => (
                MessageRule::BlockedInCall,
                waits_for(object).to_owned(),
                None,
            ),
            TreePlace::Moved => (
                MessageRule::Migration,
                "moved to another CPU".to_owned(),
                Some(Cause::Scheduling),
            ),
            TreePlace::Own => (
                MessageRule::SlowFunction,
                "the program itself".to_owned(),
                None,
            ),
            TreePlace::Role(_) => (MessageRule::Untraced, "not recorded".to_owned(), None),
            TreePlace::Other(what) => self.describe_context(what, role),
            TreePlace::Within(what) => self.cause_within(node, what),
        };
        CauseKey {
            rule,
            role,
            what,
            category,
        }
    }

    /// Returns the name of a place itself.
    pub(super) fn place_name(&self, node: TreeNode) -> String {
        match self.tree.place(node) {
            TreePlace::OtherMessage if self.tree.role(node) == CoreRole::Receive => {
                "other messages received first".to_owned()
            }
            TreePlace::OtherMessage => "other messages of the thread".to_owned(),
            TreePlace::Received(what) => {
                format!("receiving for {}", name(self.labels.get(what)))
            }
            TreePlace::Blocked(object) => waits_for(object).to_owned(),
            TreePlace::Moved => "between two CPUs".to_owned(),
            TreePlace::Own => "outside of system calls".to_owned(),
            TreePlace::Role(_) => "not recorded".to_owned(),
            TreePlace::Other(what) | TreePlace::Within(what) => name(self.labels.get(what)),
        }
    }

    /// Names the cause of time in which another thread, or none, had the CPU.
    fn describe_context(
        &self,
        id: LabelId,
        role: CoreRole,
    ) -> (MessageRule, String, Option<Cause>) {
        let what = self.labels.get(id);
        let name = name(what);
        let category = self.categories[id.index()];
        match what.kind {
            ActivityKind::Idle if role == CoreRole::Receive => (
                MessageRule::SoftirqDelay,
                "the CPU idle".to_owned(),
                category,
            ),
            ActivityKind::Idle => (MessageRule::IdleWakeup, "the CPU idle".to_owned(), category),
            ActivityKind::Task if category == Some(Cause::Profiling) => {
                (MessageRule::ProbeOverhead, name, category)
            }
            ActivityKind::Task
                if role == CoreRole::Receive || category == Some(Cause::Softirqs) =>
            {
                (MessageRule::SoftirqDelay, name, category)
            }
            ActivityKind::Task
                if what.application.is_some()
                    && what.application.as_deref() == self.application =>
            {
                (MessageRule::CpuContention, OWN_THREADS.to_owned(), None)
            }
            ActivityKind::Task => (MessageRule::CpuContention, name, category),
            _ => self.cause_by_name(id),
        }
    }

    /// Returns the cause within a context: functions of general use belong to the one around them.
    fn cause_within(&self, node: TreeNode, id: LabelId) -> (MessageRule, String, Option<Cause>) {
        let around = self.tree.parent_node(node);
        match (
            self.categories[id.index()],
            around.map(|it| (it, self.tree.place(it))),
        ) {
            (Some(Cause::Helpers), Some((around, TreePlace::Within(what)))) => {
                self.cause_within(around, what)
            }
            _ => self.cause_by_name(id),
        }
    }

    /// Returns rule, name and category of an activity, by its kind and name.
    fn cause_by_name(&self, id: LabelId) -> (MessageRule, String, Option<Cause>) {
        let what = self.labels.get(id);
        let Some(category) = self.categories[id.index()] else {
            let rule = match what.kind {
                ActivityKind::Untraced | ActivityKind::DecodeError => MessageRule::Untraced,
                _ => MessageRule::UnknownFunction,
            };
            return (rule, name(what), None);
        };
        let rule = match (what.kind, category) {
            (_, Cause::Profiling) => MessageRule::ProbeOverhead,
            (ActivityKind::Irq | ActivityKind::Softirq, _) => MessageRule::SoftirqDelay,
            _ => MessageRule::SlowFunction,
        };
        // what a call without a cause of its own does, its name shows best
        let category = Some(category).filter(|it| *it != Cause::SystemCalls);
        let called = category.map(|it| it.name().replace('_', " "));
        (rule, called.unwrap_or_else(|| name(what)), category)
    }
}

/// Returns the activity's name in reports: its own, or that of its kind.
fn name(what: &SpanLabel) -> String {
    let name = what.name.as_deref().unwrap_or("?");
    match what.kind {
        ActivityKind::Idle => "idle".to_owned(),
        ActivityKind::Irq => format!("interrupt {name}"),
        ActivityKind::Softirq => format!("softirq {name}"),
        ActivityKind::Syscall | ActivityKind::Function => format!("{name}()"),
        ActivityKind::Task
        | ActivityKind::Migration
        | ActivityKind::Untraced
        | ActivityKind::DecodeError => name.to_owned(),
    }
}

/// Returns the name of a wait's object.
fn waits_for(object: WaitObject) -> &'static str {
    match object {
        WaitObject::Futex => "a lock or another thread (futex)",
        WaitObject::File => "a file",
        WaitObject::PageFault => "a page of memory",
        WaitObject::Sleep => "time (sleep)",
        WaitObject::Pipe => "a pipe",
        WaitObject::Child => "a child process",
        WaitObject::Epoll | WaitObject::Poll | WaitObject::Select => "its next event",
        WaitObject::Connection
        | WaitObject::Listener
        | WaitObject::Datagram
        | WaitObject::Unix
        | WaitObject::Socket => "a socket",
        _ => "something else",
    }
}
