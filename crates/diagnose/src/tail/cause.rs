//! Places → causes: the rule that a deviation belongs to, and what people call it.

use std::collections::BTreeSet;

use table::{ActivityKind, WaitObject};

use super::spans::{Spans, What};
use super::tree::{Node, Place, Role, Tree};

/// What tells causes apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) rule: Rule,
    pub(super) role: Role,
    pub(super) what: String,
}

/// Rules, by their stable names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Rule {
    HeadOfLineBlocking,
    CpuContention,
    SoftirqDelay,
    IdleWakeup,
    ProbeOverhead,
    BlockedInCall,
    SlowFunction,
    /// Not known what it was: explains nothing.
    Untraced,
}

impl Rule {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::HeadOfLineBlocking => "head_of_line_blocking",
            Self::CpuContention => "cpu_contention",
            Self::SoftirqDelay => "softirq_delay",
            Self::IdleWakeup => "idle_wakeup",
            Self::ProbeOverhead => "probe_overhead",
            Self::BlockedInCall => "blocked_in_call",
            Self::SlowFunction => "slow_function",
            Self::Untraced => "untraced",
        }
    }

    pub(super) const fn advice(self) -> &'static str {
        match self {
            Self::HeadOfLineBlocking => {
                "spread the connections over more threads, or let a thread take fewer requests of one connection at a time (memcached: -t, -R)"
            }
            Self::CpuContention => {
                "give the program CPUs of its own (taskset, cpuset), move what ran there elsewhere, or raise its priority"
            }
            Self::SoftirqDelay => {
                "move interrupts and receive processing to other CPUs (IRQ affinity, RSS, RPS), or spread them"
            }
            Self::IdleWakeup => {
                "keep CPUs from sleeping deeply (/dev/cpu_dma_latency, idle states), or poll for a while before waiting (busy_poll)"
            }
            Self::ProbeOverhead => {
                "record fewer processes or less detail, or leave the recorder a CPU of its own"
            }
            Self::BlockedInCall => {
                "keep what waits (locks, files, page faults) out of the thread that serves requests"
            }
            Self::SlowFunction => {
                "`whylat report --message ID` of an example shows where in the program it is"
            }
            Self::Untraced => "record with a narrower selection, so that more is kept",
        }
    }
}

/// The cause that a place is. `own_pids`: the application's processes.
pub(super) fn cause(tree: &Tree, spans: &Spans, node: Node, own_pids: &BTreeSet<u32>) -> Key {
    let role = tree.role(node);
    let (rule, what) = match tree.place(node) {
        Place::OtherMessage => (Rule::HeadOfLineBlocking, "other messages first".to_owned()),
        Place::Blocked(object) => (Rule::BlockedInCall, waits_for(object).to_owned()),
        Place::Own => (Rule::SlowFunction, "the program itself".to_owned()),
        Place::Role(_) => (Rule::Untraced, "not recorded".to_owned()),
        Place::Other(what) => context(spans.what(what), role, own_pids),
        Place::Within(what) => within(spans.what(what)),
    };
    Key { rule, role, what }
}

/// What a place itself is called.
pub(super) fn part(tree: &Tree, spans: &Spans, node: Node) -> String {
    match tree.place(node) {
        Place::OtherMessage => "other messages of the thread".to_owned(),
        Place::Blocked(object) => waits_for(object).to_owned(),
        Place::Own => "outside of system calls".to_owned(),
        Place::Role(_) => "not recorded".to_owned(),
        Place::Other(what) | Place::Within(what) => name(spans.what(what)),
    }
}

/// Another thread, or none.
fn context(what: &What, role: Role, own_pids: &BTreeSet<u32>) -> (Rule, String) {
    match what.kind {
        ActivityKind::Idle if role == Role::Receive => {
            (Rule::SoftirqDelay, "the CPU idle".to_owned())
        }
        ActivityKind::Idle => (Rule::IdleWakeup, "the CPU idle".to_owned()),
        ActivityKind::Untraced | ActivityKind::DecodeError => (Rule::Untraced, name(what)),
        ActivityKind::Irq | ActivityKind::Softirq => within(what),
        _ => {
            let name = name(what);
            let is_own = what.pid.is_some_and(|pid| own_pids.contains(&pid));
            if name.starts_with("whylat") {
                (Rule::ProbeOverhead, name)
            } else if role == Role::Receive || name.starts_with("ksoftirqd") {
                (Rule::SoftirqDelay, name)
            } else if is_own {
                (Rule::CpuContention, "its own other threads".to_owned())
            } else {
                (Rule::CpuContention, name)
            }
        }
    }
}

/// What ran within a context.
fn within(what: &What) -> (Rule, String) {
    let rule = match what.kind {
        ActivityKind::Irq | ActivityKind::Softirq => Rule::SoftirqDelay,
        ActivityKind::Untraced | ActivityKind::DecodeError => Rule::Untraced,
        _ => Rule::SlowFunction,
    };
    (rule, name(what))
}

fn name(what: &What) -> String {
    let name = what.name.as_deref().unwrap_or("?");
    match what.kind {
        ActivityKind::Idle => "idle".to_owned(),
        ActivityKind::Irq => format!("interrupt {name}"),
        ActivityKind::Softirq => format!("softirq {name}"),
        ActivityKind::Syscall | ActivityKind::Function => format!("{name}()"),
        ActivityKind::Task | ActivityKind::Untraced | ActivityKind::DecodeError => name.to_owned(),
    }
}

/// What a thread waits for.
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
