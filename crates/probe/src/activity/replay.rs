//! Events of one CPU → nested spans of a window. What began before is found by going back to the last
//! switch between threads; what was overwritten is a row that says so.

use std::collections::HashSet;
use std::rc::Rc;

use table::spans::{
    CpuTimeline, OpenActivity, RunningThread, SpanOwner, SpanSubject, SuspendedActivities,
};
use table::tables::{Activities, Activity as Row};
use table::{ActivityKind, ActivitySource, Columns};

use super::memory::{Event, Memory};
use super::names::{ActivityNames, EndedThreads};
use super::skel::types::{activity_event_kind as event_kind, activity_function};

const SOURCE: ActivitySource = ActivitySource::Tracepoints;
/// Why there is nothing of a time.
const OVERWRITTEN: &str = "overwritten before it was kept";
/// Number of page faults among the functions.
const PAGE_FAULT: i16 = activity_function::ACTIVITY_PAGE_FAULT.0 as i16;
/// Events before a window in which the last switch is searched for.
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

/// Adds the spans of a window to `into`, cut at the window's ends.
pub(super) fn replay(
    memory: &Memory,
    names: &mut ActivityNames,
    ended: EndedThreads<'_>,
    window: Window,
    into: &mut Activities,
) {
    let held = memory.held_numbers(window.cpu);
    let first = memory.first_from(window.cpu, held.clone(), window.from_ns);
    let last = memory.first_from(window.cpu, held.clone(), window.until_ns);
    let before = last_switch(memory, window.cpu, held.start..first);
    let mut events = memory.copy(window.cpu, before..last);
    // a slot that was being written holds what was there a whole round before, or nothing yet
    let oldest = memory.copy(window.cpu, held.start..held.end.min(held.start + 1));
    let oldest_ns = oldest.first().map_or(0, |event| event.time_ns);
    events.retain(|event| (oldest_ns..window.until_ns).contains(&event.time_ns));
    events.sort_by_key(|event| event.time_ns);
    let was_overwritten = held.start > 0 && before == held.start;
    let known_from_ns = events
        .first()
        .map_or(window.until_ns, |event| event.time_ns);
    if was_overwritten && known_from_ns > window.from_ns {
        into.push(overwritten_row(window, known_from_ns.min(window.until_ns)));
    }
    let rows = spans(window, &events, names, ended);
    for index in 0..rows.len() {
        if let Some(row) = clip_to_window(rows.row(index), window) {
            into.push(row);
        }
    }
}

/// Returns whether a thread had the CPU at some time of a window.
pub(super) fn had_thread(memory: &Memory, window: Window, tid: u32) -> bool {
    let held = memory.held_numbers(window.cpu);
    let first = memory.first_from(window.cpu, held.clone(), window.from_ns);
    let last = memory.first_from(window.cpu, held.clone(), window.until_ns);
    let before = last_switch(memory, window.cpu, held.start..first);
    (before..last).any(|number| memory.event(window.cpu, number).tid == tid)
}

/// Returns the number of the last thread switch in a range of events, else the range's begin.
fn last_switch(memory: &Memory, cpu: u16, range: std::ops::Range<u64>) -> u64 {
    let least = range.end.saturating_sub(MOST_BEFORE).max(range.start);
    let mut numbers = (least..range.end).rev();
    let is_switch = |number: &u64| memory.event(cpu, *number).kind == event_kind::ACTIVITY_SWITCH;
    numbers.find(is_switch).unwrap_or(least)
}

/// Turns the events of one CPU into spans.
fn spans(
    window: Window,
    events: &[Event],
    names: &mut ActivityNames,
    ended: EndedThreads<'_>,
) -> Activities {
    let mut rows = Activities::default();
    let Some(first) = events.first() else {
        return rows;
    };
    let mut core = CpuTimeline::new(Some(window.cpu), first.time_ns);
    let mut suspended = SuspendedActivities::new();
    let mut seen = HashSet::new();
    for event in events {
        let runner = names.thread(event.tid, ended);
        if event.kind == event_kind::ACTIVITY_MIGRATE {
            // what it has open when it comes back is reported then
            suspended.remove(&event.tid);
            seen.remove(&event.tid);
            core.advance(event.time_ns, None, SOURCE, &mut suspended);
            core.mark(event.time_ns, moved_subject(window.cpu, &runner));
            continue;
        }
        if event.kind == event_kind::ACTIVITY_SWITCH {
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
    // nothing else happened until then
    core.advance(window.until_ns, None, SOURCE, &mut suspended);
    core.finish(&mut rows);
    rows
}

/// Makes the subject of a moment: a thread was moved to this CPU.
fn moved_subject(cpu: u16, thread: &RunningThread) -> SpanSubject {
    SpanSubject {
        kind: ActivityKind::Migration,
        name: thread.comm.clone(),
        owner: SpanOwner {
            pid: thread.pid,
            tid: Some(thread.tid),
            cpu: Some(cpu),
        },
        source: SOURCE,
    }
}

/// The system call in which a thread gets a CPU.
fn within_call(event: &Event, names: &mut ActivityNames) -> Option<(u32, Vec<OpenActivity>)> {
    let name = names.syscall(event.number)?;
    Some((
        event.tid,
        vec![open_activity(ActivityKind::Syscall, Some(name))],
    ))
}

/// Applies one event to the timeline: begins or ends an activity of the running thread.
fn put(
    core: &mut CpuTimeline,
    event: &Event,
    runner: &RunningThread,
    names: &mut ActivityNames,
    suspended: &mut SuspendedActivities,
) {
    use ActivityKind::{Function, Irq, Softirq, Syscall};
    let number = event.number;
    let (begins, activity) = match event.kind {
        event_kind::ACTIVITY_SYSCALL_BEGIN => (true, open_activity(Syscall, names.syscall(number))),
        event_kind::ACTIVITY_SYSCALL_END => (false, open_activity(Syscall, None)),
        event_kind::ACTIVITY_IRQ_BEGIN => (true, open_activity(Irq, names.line(number))),
        event_kind::ACTIVITY_VECTOR_BEGIN => (true, open_activity(Irq, names.vector_name(number))),
        event_kind::ACTIVITY_IRQ_END | event_kind::ACTIVITY_VECTOR_END => {
            (false, open_activity(Irq, None))
        }
        event_kind::ACTIVITY_SOFTIRQ_BEGIN => (true, open_activity(Softirq, names.softirq(number))),
        event_kind::ACTIVITY_SOFTIRQ_END => (false, open_activity(Softirq, names.softirq(number))),
        event_kind::ACTIVITY_FUNCTION_BEGIN => {
            (true, open_activity(Function, names.function(number)))
        }
        event_kind::ACTIVITY_FUNCTION_END => {
            (false, open_activity(Function, names.function(number)))
        }
        // a slot that nobody has written yet
        _ => return,
    };
    core.advance(event.time_ns, Some(runner), SOURCE, suspended);
    // a page fault that was answered by a signal has no end, but is over
    let fault = self::open_activity(Function, names.function(PAGE_FAULT));
    if begins && (activity.kind == Syscall || activity == fault) {
        core.give_up(event.time_ns, &fault);
    }
    if begins {
        core.begin(event.time_ns, activity);
    } else if activity != fault || core.is_open(&fault) {
        core.end(event.time_ns, &activity);
    }
}

/// Makes an activity that starts; `name` is None if the event has none.
fn open_activity(kind: ActivityKind, name: Option<Rc<str>>) -> OpenActivity {
    OpenActivity {
        kind,
        name,
        source: SOURCE,
    }
}

/// The part of a span that lies in the window.
fn clip_to_window(mut row: Row, window: Window) -> Option<Row> {
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

/// Returns the row of the time that newer events have overwritten.
fn overwritten_row(window: Window, until_ns: u64) -> Row {
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

#[cfg(test)]
mod tests {
    use super::super::memory::testing::Written;
    use super::*;

    /// No thread has this number: the kernel gives none above 4,194,304.
    const TID: u32 = 5_000_000;

    /// Makes an event of a thread.
    fn event(time_ns: u64, kind: event_kind, tid: u32, number: i64) -> Event {
        Event {
            time_ns,
            tid,
            number: number as i16,
            kind,
        }
    }

    /// Returns the rows of the events in this window.
    fn replayed(written: &Written, from_ns: u64, until_ns: u64) -> Vec<Row> {
        let window = Window {
            cpu: 0,
            from_ns,
            until_ns,
        };
        let mut rows = Activities::default();
        let mut names = ActivityNames::default();
        replay(&written.memory, &mut names, &|_| None, window, &mut rows);
        (0..rows.len()).map(|row| rows.row(row)).collect()
    }

    /// Returns begin, end, depth, kind, name, and whether begin and end were seen.
    fn columns_of(row: &Row) -> (u64, u64, u16, ActivityKind, Option<&str>, bool, bool) {
        let name = row.name.as_deref();
        let (begin_seen, end_seen) = (row.begin_seen, row.end_seen);
        (
            row.begin_ns,
            row.end_ns,
            row.depth,
            row.kind,
            name,
            begin_seen,
            end_seen,
        )
    }

    /// Writes events: a thread blocks in read(), returns, and is interrupted in its next call.
    fn scene(slots: u64) -> Written {
        let mut written = Written::new(slots);
        let read = libc::SYS_read;
        for event in [
            event(100, event_kind::ACTIVITY_SWITCH, 0, -1),
            event(200, event_kind::ACTIVITY_SWITCH, TID, read),
            event(210, event_kind::ACTIVITY_SYSCALL_END, TID, -1),
            event(220, event_kind::ACTIVITY_SYSCALL_BEGIN, TID, read),
            event(230, event_kind::ACTIVITY_SOFTIRQ_BEGIN, TID, 3),
            event(250, event_kind::ACTIVITY_SOFTIRQ_END, TID, 3),
            event(260, event_kind::ACTIVITY_SWITCH, 0, -1),
            event(300, event_kind::ACTIVITY_SWITCH, TID, read),
            event(310, event_kind::ACTIVITY_SYSCALL_END, TID, -1),
        ] {
            written.write(event);
        }
        written
    }

    #[test]
    fn activity_open_before_the_window_is_open_in_it() {
        use ActivityKind::{Idle, Softirq, Syscall, Task};
        let rows = replayed(&scene(1 << 10), 205, 305);
        let expected = [
            (205, 260, 0, Task, None, false, true),
            (205, 210, 1, Syscall, Some("read"), false, true),
            (220, 260, 1, Syscall, Some("read"), true, false),
            (230, 250, 2, Softirq, Some("NET_RX"), true, true),
            (260, 300, 0, Idle, None, true, true),
            (300, 305, 0, Task, None, true, false),
            (300, 305, 1, Syscall, Some("read"), false, false),
        ];
        let rows: Vec<_> = rows.iter().map(columns_of).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn overwritten_events_are_reported() {
        let mut written = scene(1 << 7);
        for number in 0..200 {
            let time_ns = 1_000 + 10 * number;
            written.write(event(
                time_ns,
                event_kind::ACTIVITY_SWITCH,
                TID * (number as u32 % 2),
                -1,
            ));
        }
        let rows = replayed(&written, 150, 2_500);
        assert_eq!(rows[0].kind, ActivityKind::Untraced);
        assert_eq!(rows[0].name.as_deref(), Some(OVERWRITTEN));
        assert_eq!((rows[0].begin_ns, rows[0].end_ns), (150, rows[1].begin_ns));
        assert!(
            rows[1..]
                .iter()
                .all(|row| row.kind != ActivityKind::Untraced)
        );
        // all of a window that is gone
        let rows = replayed(&written, 150, 200);
        let [gone] = &rows[..] else {
            panic!("{rows:?}");
        };
        assert_eq!(
            (gone.begin_ns, gone.end_ns, gone.kind),
            (150, 200, ActivityKind::Untraced)
        );
    }

    /// A round before there was an event of another thread, or none.
    #[test]
    fn slot_that_is_being_written_is_left_out() {
        let kinds_of = |written: &Written| {
            let rows = replayed(written, 0, 9_000);
            rows.iter()
                .map(|row| (row.kind, row.tid))
                .collect::<Vec<_>>()
        };
        let own = event(5_000, event_kind::ACTIVITY_SWITCH, TID, -1);
        let mut written = Written::new(1 << 7);
        written.write(own);
        written.take_slot();
        assert_eq!(kinds_of(&written), [(ActivityKind::Task, Some(TID))]);
        let mut written = Written::new(1 << 7);
        let begin = event_kind::ACTIVITY_SYSCALL_BEGIN;
        for number in 0..128 {
            written.write(event(1_000 + number, begin, TID + 1, libc::SYS_read));
        }
        for number in 0..100 {
            written.write(event(5_000 + number, event_kind::ACTIVITY_SWITCH, TID, -1));
        }
        written.take_slot();
        let mut others = kinds_of(&written);
        others.retain(|(kind, tid)| *kind != ActivityKind::Untraced && *tid != Some(TID));
        assert_eq!(others, []);
    }

    /// The second fault of a thread is answered by a signal; the last end is of one that began on another CPU.
    #[test]
    fn page_fault_ends_at_its_end_or_at_a_signal() {
        use ActivityKind::{Function, Syscall, Task};
        let mut written = Written::new(1 << 10);
        let fault = i64::from(PAGE_FAULT);
        for event in [
            event(100, event_kind::ACTIVITY_SWITCH, TID, -1),
            event(110, event_kind::ACTIVITY_FUNCTION_BEGIN, TID, fault),
            event(120, event_kind::ACTIVITY_FUNCTION_END, TID, fault),
            event(130, event_kind::ACTIVITY_FUNCTION_BEGIN, TID, fault),
            event(150, event_kind::ACTIVITY_SYSCALL_BEGIN, TID, libc::SYS_read),
            event(160, event_kind::ACTIVITY_FUNCTION_BEGIN, TID, fault),
            event(170, event_kind::ACTIVITY_FUNCTION_END, TID, fault),
            event(175, event_kind::ACTIVITY_FUNCTION_END, TID, fault),
            event(180, event_kind::ACTIVITY_SYSCALL_END, TID, -1),
        ] {
            written.write(event);
        }
        let rows = replayed(&written, 100, 190);
        let expected = [
            (100, 190, 0, Task, None, true, false),
            (110, 120, 1, Function, Some("page_fault"), true, true),
            (130, 150, 1, Function, Some("page_fault"), true, false),
            (150, 180, 1, Syscall, Some("read"), true, true),
            (160, 170, 2, Function, Some("page_fault"), true, true),
        ];
        let rows: Vec<_> = rows.iter().map(columns_of).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_migration_is_reported_on_the_old_cpu() {
        use ActivityKind::{Migration, Task};
        let mut written = Written::new(1 << 10);
        for event in [
            event(100, event_kind::ACTIVITY_SWITCH, TID, libc::SYS_read),
            event(110, event_kind::ACTIVITY_SWITCH, TID + 1, -1),
            event(120, event_kind::ACTIVITY_MIGRATE, TID, 3),
            event(130, event_kind::ACTIVITY_SWITCH, TID, -1),
        ] {
            written.write(event);
        }
        let rows = replayed(&written, 105, 140);
        let times = rows
            .iter()
            .map(|row| (row.begin_ns, row.end_ns, row.kind, row.tid));
        let times: Vec<_> = times.collect();
        let call = (105, 110, ActivityKind::Syscall, Some(TID));
        // it has left its call meanwhile
        let expected = [
            (105, 110, Task, Some(TID)),
            call,
            (110, 130, Task, Some(TID + 1)),
            (120, 120, Migration, Some(TID)),
            (130, 140, Task, Some(TID)),
        ];
        assert_eq!(times, expected);
    }

    #[test]
    fn thread_before_the_window_is_known() {
        let written = scene(1 << 10);
        let ran = |from_ns, until_ns| {
            let window = Window {
                cpu: 0,
                from_ns,
                until_ns,
            };
            had_thread(&written.memory, window, TID)
        };
        assert!(ran(205, 206), "it had got the CPU before");
        assert!(ran(150, 250) && !ran(110, 190) && !ran(270, 290));
    }
}
