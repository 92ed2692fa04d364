//! Events of one CPU → nested spans of a window. What began before is found by going back to the last
//! switch between threads; what was overwritten is a row that says so.

use std::collections::HashSet;
use std::rc::Rc;

use activity::{Activity, Core, Runner, Suspended};
use libbpf_rs::MapCore;
use table::tables::{Activities, Activity as Row};
use table::{ActivityKind, ActivitySource, Columns};

use super::memory::{Event, Memory};
use super::names::Names;
use super::skel::types::activity_event_kind as told;

const SOURCE: ActivitySource = ActivitySource::Tracepoints;
/// Why there is nothing of a time.
const OVERWRITTEN: &str = "overwritten before it was kept";
/// Events before a window in which the last switch is looked for.
const MOST_BEFORE: u64 = 16_384;

/// A time on a CPU, `CLOCK_MONOTONIC` ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The CPU.
    pub cpu: u16,
    /// From when.
    pub from_ns: u64,
    /// Until when.
    pub until_ns: u64,
}

/// Appends the spans of a window, cut where they reach beyond it.
pub(super) fn replay(
    memory: &Memory,
    names: &mut Names,
    ended: &impl MapCore,
    window: Window,
    into: &mut Activities,
) {
    let held = memory.held(window.cpu);
    let first = memory.first_from(window.cpu, held.clone(), window.from_ns);
    let last = memory.first_from(window.cpu, held.clone(), window.until_ns);
    let before = last_switch(memory, window.cpu, held.start..first);
    let mut events = memory.copy(window.cpu, before..last);
    // a slot that was being written holds what was there before
    events.retain(|event| event.time_ns < window.until_ns);
    events.sort_by_key(|event| event.time_ns);
    let was_overwritten = held.start > 0 && before == held.start;
    let known_from_ns = events
        .first()
        .map_or(window.until_ns, |event| event.time_ns);
    if was_overwritten && known_from_ns > window.from_ns {
        into.push(overwritten(window, known_from_ns.min(window.until_ns)));
    }
    let rows = spans(window.cpu, &events, names, ended);
    for index in 0..rows.len() {
        if let Some(row) = cut(rows.row(index), window) {
            into.push(row);
        }
    }
}

/// Whether a thread had the CPU at some time of a window.
pub(super) fn had_thread(memory: &Memory, window: Window, tid: u32) -> bool {
    let held = memory.held(window.cpu);
    let first = memory.first_from(window.cpu, held.clone(), window.from_ns);
    let last = memory.first_from(window.cpu, held.clone(), window.until_ns);
    let before = last_switch(memory, window.cpu, held.start..first);
    (before..last).any(|number| memory.event(window.cpu, number).tid == tid)
}

/// Number of the last switch in a range of events, of its begin if there is none near.
fn last_switch(memory: &Memory, cpu: u16, range: std::ops::Range<u64>) -> u64 {
    let least = range.end.saturating_sub(MOST_BEFORE).max(range.start);
    let mut numbers = (least..range.end).rev();
    let is_switch = |number: &u64| memory.event(cpu, *number).kind == told::ACTIVITY_SWITCH;
    numbers.find(is_switch).unwrap_or(least)
}

fn spans(cpu: u16, events: &[Event], names: &mut Names, ended: &impl MapCore) -> Activities {
    let mut rows = Activities::default();
    let Some(first) = events.first() else {
        return rows;
    };
    let mut core = Core::new(Some(cpu), first.time_ns);
    let mut suspended = Suspended::new();
    let mut seen = HashSet::new();
    for event in events {
        let runner = names.thread(event.tid, ended);
        if event.kind == told::ACTIVITY_SWITCH {
            core.advance(event.time_ns, None, SOURCE, &mut suspended);
            // a thread that ran here before has open what it had then
            if !seen.contains(&event.tid) {
                suspended.extend(within_call(event, names));
            }
            core.switch(event.time_ns, runner, SOURCE, &mut suspended);
        } else {
            put(&mut core, event, &runner, names, &mut suspended);
        }
        seen.insert(event.tid);
    }
    core.finish(&mut rows);
    rows
}

/// The system call in which a thread gets a CPU.
fn within_call(event: &Event, names: &mut Names) -> Option<(u32, Vec<Activity>)> {
    let name = names.syscall(event.number)?;
    Some((event.tid, vec![activity(ActivityKind::Syscall, Some(name))]))
}

fn put(
    core: &mut Core,
    event: &Event,
    runner: &Runner,
    names: &mut Names,
    suspended: &mut Suspended,
) {
    use ActivityKind::{Function, Irq, Softirq, Syscall};
    let number = event.number;
    let (begins, activity) = match event.kind {
        told::ACTIVITY_SYSCALL_BEGIN => (true, activity(Syscall, names.syscall(number))),
        told::ACTIVITY_SYSCALL_END => (false, activity(Syscall, None)),
        told::ACTIVITY_IRQ_BEGIN => (true, activity(Irq, names.line(number))),
        told::ACTIVITY_VECTOR_BEGIN => (true, activity(Irq, names.vector(number))),
        told::ACTIVITY_IRQ_END | told::ACTIVITY_VECTOR_END => (false, activity(Irq, None)),
        told::ACTIVITY_SOFTIRQ_BEGIN => (true, activity(Softirq, names.softirq(number))),
        told::ACTIVITY_SOFTIRQ_END => (false, activity(Softirq, names.softirq(number))),
        told::ACTIVITY_FUNCTION_BEGIN => (true, activity(Function, names.function(number))),
        told::ACTIVITY_FUNCTION_END => (false, activity(Function, names.function(number))),
        // a slot that nobody has written yet
        _ => return,
    };
    core.advance(event.time_ns, Some(runner), SOURCE, suspended);
    if begins {
        core.begin(event.time_ns, activity);
    } else {
        core.end(event.time_ns, &activity);
    }
}

fn activity(kind: ActivityKind, name: Option<Rc<str>>) -> Activity {
    Activity {
        kind,
        name,
        source: SOURCE,
    }
}

/// The part of a span that lies in the window.
fn cut(mut row: Row, window: Window) -> Option<Row> {
    if row.begin_ns >= window.until_ns || row.end_ns < window.from_ns {
        return None;
    }
    if row.begin_ns < window.from_ns {
        (row.begin_ns, row.begin_seen) = (window.from_ns, false);
    }
    if row.end_ns > window.until_ns {
        (row.end_ns, row.end_seen) = (window.until_ns, false);
    }
    Some(row)
}

fn overwritten(window: Window, until_ns: u64) -> Row {
    Row {
        begin_ns: window.from_ns,
        end_ns: until_ns,
        depth: 0,
        kind: ActivityKind::Untraced,
        name: Some(OVERWRITTEN.to_owned()),
        pid: None,
        tid: None,
        cpu: Some(window.cpu),
        source: SOURCE,
        begin_seen: false,
        end_seen: false,
    }
}
