//! Tracepoints of scheduler, interrupts and system calls → spans of each CPU.

use std::collections::BTreeMap;

use table::tables::Activities;
use table::{ActivityKind, ActivitySource};

use super::event::{EventThread, TraceEvent};
use super::graph::{self, GraphEvent};
use crate::tally::Tally;
use table::spans::{CpuTimeline, OpenActivity, RunningThread, SuspendedActivities};

const NO_CPU: &str = "events without their CPU";
const BACKWARDS: &str = "earlier than the CPU's event before";
const OTHER: &str = "events that are no activity";
const MALFORMED: &str = "events with unknown fields";

/// Interrupt vectors of x86 that have tracepoints of their own (`asm/trace/irq_vectors.h`).
const VECTORS: [&str; 11] = [
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "x86_platform_ipi",
    "error_apic",
    "spurious_apic",
    "threshold_apic",
    "deferred_error_apic",
    "thermal_apic",
];

/// Meaning of a trace event for its CPU.
enum EventAction<'a> {
    Begin(OpenActivity),
    End(OpenActivity),
    Switch(EventThread<'a>),
    Graph(GraphEvent<'a>),
}

/// The spans of all CPUs.
#[derive(Debug, Default)]
pub(crate) struct Tracepoints {
    cores: BTreeMap<Option<u16>, CpuTimeline>,
    suspended: SuspendedActivities,
}

impl Tracepoints {
    /// Returns whether an event of `perf script` is one that is read; its name has the system, too.
    pub(crate) fn knows(event: &str) -> bool {
        let systems = [
            "sched",
            "irq",
            "irq_vectors",
            "raw_syscalls",
            "syscalls",
            "ftrace",
        ];
        event
            .split_once(':')
            .is_some_and(|(system, _)| systems.contains(&system))
    }

    /// Adds an event to the timeline of its CPU.
    pub(crate) fn event(&mut self, event: &TraceEvent<'_>, tally: &mut Tally) {
        if event.cpu.is_none() {
            return tally.ignore(NO_CPU);
        }
        let action = match read_action(event) {
            Ok(action) => action,
            Err(reason) => return tally.ignore(reason),
        };
        let begin = || CpuTimeline::new(event.cpu, event.time_ns);
        let core = self.cores.entry(event.cpu).or_insert_with(begin);
        if event.time_ns < core.last_ns() {
            return tally.ignore(BACKWARDS);
        }
        tally.use_one();
        let source = match action {
            EventAction::Graph(_) => ActivitySource::FunctionGraph,
            _ => ActivitySource::Tracepoints,
        };
        let shown = event.thread.map(|thread| running_thread(&thread));
        core.advance(event.time_ns, shown.as_ref(), source, &mut self.suspended);
        match action {
            EventAction::Begin(activity) => core.begin(event.time_ns, activity),
            EventAction::End(activity) => core.end(event.time_ns, &activity),
            EventAction::Switch(next) => {
                core.switch(
                    event.time_ns,
                    running_thread(&next),
                    source,
                    &mut self.suspended,
                );
            }
            EventAction::Graph(graph) => graph.apply(core, event.time_ns, event.resolution_ns),
        }
    }

    /// Notes that events of a CPU were lost.
    pub(crate) fn lost(&mut self, cpu: u16, message: &str, tally: &mut Tally) {
        let Some(core) = self.cores.get_mut(&Some(cpu)) else {
            return tally.ignore("losses before the CPU's first event");
        };
        tally.use_one();
        let source = ActivitySource::Tracepoints;
        core.mark_loss(message.into(), source, &mut self.suspended);
    }

    /// Ends all open activities.
    pub(crate) fn finish(self, into: &mut Activities) {
        for core in self.cores.into_values() {
            core.finish(into);
        }
    }
}

/// Returns the thread that an event names as running.
fn running_thread(thread: &EventThread<'_>) -> RunningThread {
    RunningThread {
        tid: thread.tid,
        pid: thread.pid,
        comm: Some(thread.comm)
            .filter(|comm| !comm.is_empty())
            .map(Into::into),
    }
}

/// Returns what an event begins or ends; an error if its text is not understood.
fn read_action<'a>(event: &TraceEvent<'a>) -> Result<EventAction<'a>, &'static str> {
    let begin = |kind, name| EventAction::Begin(open_activity(kind, name));
    let end = |kind, name| EventAction::End(open_activity(kind, name));
    let known = match event.name {
        "sched_switch" => next(event.body).map(EventAction::Switch),
        "irq_handler_entry" => {
            value(event.body, "name=").map(|name| begin(ActivityKind::Irq, Some(name)))
        }
        "irq_handler_exit" => Some(end(ActivityKind::Irq, None)),
        "softirq_entry" => {
            parse_vector(event.body).map(|name| begin(ActivityKind::Softirq, Some(name)))
        }
        "softirq_exit" => {
            parse_vector(event.body).map(|name| end(ActivityKind::Softirq, Some(name)))
        }
        "sys_enter" => number(event.body).map(|name| begin(ActivityKind::Syscall, Some(name))),
        "sys_exit" => Some(end(ActivityKind::Syscall, None)),
        "funcgraph_entry" | "funcgraph_exit" => graph::parse(event.body).map(EventAction::Graph),
        "" => return syscall(event.body).ok_or(OTHER),
        name => return parse_named(name).ok_or(OTHER),
    };
    known.ok_or(MALFORMED)
}

/// Reads an event with the name of a system call or vector in its own name.
fn parse_named<'a>(name: &str) -> Option<EventAction<'a>> {
    if let Some(call) = name.strip_prefix("sys_enter_") {
        return Some(EventAction::Begin(open_activity(
            ActivityKind::Syscall,
            Some(call),
        )));
    }
    if name.starts_with("sys_exit_") {
        return Some(EventAction::End(open_activity(ActivityKind::Syscall, None)));
    }
    let vector = |end: &str| name.strip_suffix(end).filter(|name| VECTORS.contains(name));
    if let Some(vector) = vector("_entry") {
        return Some(EventAction::Begin(open_activity(
            ActivityKind::Irq,
            Some(vector),
        )));
    }
    vector("_exit").map(|vector| EventAction::End(open_activity(ActivityKind::Irq, Some(vector))))
}

/// Reads a system call as the trace file prints it: `sys_read(fd: 3, …)` and `sys_read -> 0x1`.
fn syscall<'a>(body: &str) -> Option<EventAction<'a>> {
    let rest = body.strip_prefix("sys_")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (call, rest) = rest.split_at(end);
    if rest.starts_with('(') {
        return Some(EventAction::Begin(open_activity(
            ActivityKind::Syscall,
            Some(call),
        )));
    }
    let ends = rest.starts_with(" -> ");
    ends.then(|| EventAction::End(open_activity(ActivityKind::Syscall, None)))
}

/// Makes an activity that starts; `name` is None if the event has none.
fn open_activity(kind: ActivityKind, name: Option<&str>) -> OpenActivity {
    OpenActivity {
        kind,
        name: name.map(Into::into),
        source: ActivitySource::Tracepoints,
    }
}

/// The thread that gets the CPU: `… ==> next_comm=C next_pid=P …`, or `… ==> C:P [PRIO]`.
fn next(body: &str) -> Option<EventThread<'_>> {
    let (_, next) = body.split_once("==> ")?;
    let (comm, tid) = match next.strip_prefix("next_comm=") {
        Some(next) => {
            let (comm, rest) = next.split_once(" next_pid=")?;
            (comm, rest.split_whitespace().next()?)
        }
        None => next.rsplit_once(" [")?.0.rsplit_once(':')?,
    };
    Some(EventThread {
        comm,
        tid: tid.parse().ok()?,
        pid: None,
    })
}

/// Returns the word after `field`; the last field's value may have spaces.
fn value<'a>(body: &'a str, field: &str) -> Option<&'a str> {
    let (_, value) = body.split_once(field)?;
    Some(value.trim_end()).filter(|value| !value.is_empty())
}

/// Returns the softirq's name of `vec=3 [action=NET_RX]`.
fn parse_vector(body: &str) -> Option<&str> {
    let (_, name) = body.split_once("[action=")?;
    name.split(']').next().filter(|name| !name.is_empty())
}

/// Returns the number of a system call: `NR 0 (3, 7f, 10, …)`.
fn number(body: &str) -> Option<&str> {
    let (number, _) = body.split_once(" (")?;
    number.strip_prefix("NR ")?.parse::<i64>().ok()?;
    Some(number)
}
