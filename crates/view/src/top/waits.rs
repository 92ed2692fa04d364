//! The waits of one process: a few lines above its connections. In: recorded waits, or
//! samples of its threads. Out: lines.

use diagnose::live::{LiveProcess, LiveReport, ObjectWaits, ProcessWaits, WaitSource};
use diagnose::report::Process;
use diagnose::units::{count, duration, quantity};
use ratatui::text::Line;
use table::WaitObject;

use super::cells;
use super::paint::StyleMapper;
use super::state::TopState;
use crate::clean::remove_controls;
use crate::layout::Style;

/// Objects that are shown.
const MOST: usize = 4;
/// Columns of the label, and of an object's name.
const LABEL: usize = 11;
const NAME: usize = 22;
/// Lines above and below the objects.
const FRAME: usize = 2;
/// Lines of the list below: its heading, three rows, the finding.
const LIST: usize = 5;

/// Returns the lines of a process. `height`: room for them and the list.
pub fn lines(
    top: &TopState,
    live: &LiveReport,
    process: Option<&Process>,
    (width, height): (usize, usize),
    paint: StyleMapper,
) -> Vec<Line<'static>> {
    let Some(pid) = process.and_then(|process| process.pid) else {
        return Vec::new();
    };
    let room = height.saturating_sub(LIST + FRAME).min(MOST);
    if room == 0 {
        return Vec::new();
    }
    let line = |label: &str, text: &str| {
        let text = cells::fit_text(&remove_controls(text), width.saturating_sub(LABEL), false);
        let label = (Style::Dim, format!("{label:LABEL$}"));
        paint.line(vec![label, (Style::Plain, text.trim_end().to_owned())])
    };
    if live.about.detail == "waits" {
        let recorded = find_process(live, process).and_then(|it| it.waits.as_ref());
        return match recorded {
            Some(waits) => shown(waits, room, line),
            None => vec![line("waits", "none has ended")],
        };
    }
    let mut lines = match top.waits_of(pid) {
        Some(Ok(waits)) => shown(waits, room, line),
        Some(Err(why)) => vec![line("waits", why)],
        None => vec![line("waits", "sampling its threads …")],
    };
    let next = format!("every wait (costs more): whylat record -p {pid} --detail waits");
    let label = (Style::Plain, " ".repeat(LABEL));
    let next = cells::fit_text(&next, width.saturating_sub(LABEL), false);
    lines.push(paint.line(vec![label, (Style::Dim, next.trim_end().to_owned())]));
    lines
}

/// Returns the live row of a process; None if it is not in the window.
fn find_process<'a>(live: &'a LiveReport, process: Option<&Process>) -> Option<&'a LiveProcess> {
    live.processes
        .iter()
        .find(|it| it.process.as_ref() == process)
}

/// Returns lines of a process's waits, by object; at most `most`.
fn shown(
    waits: &ProcessWaits,
    most: usize,
    line: impl Fn(&str, &str) -> Line<'static>,
) -> Vec<Line<'static>> {
    let time = duration(super::totals::round_to_tenth(waits.time_ns));
    let title = match waits.measured {
        WaitSource::Recorded => {
            format!("all waits that ended in the last {time}; mean number of threads")
        }
        WaitSource::Sampled {
            looks,
            threads,
            running,
        } => format!(
            "{} in {time}: {}, {running:.1} of them running",
            quantity(looks, "sample"),
            quantity(threads, "thread")
        ),
    };
    let objects = waits.objects.iter().take(most);
    let mut lines = vec![line("waits", &title)];
    lines.extend(objects.map(|it| line("", &object(it, waits.measured))));
    lines
}

/// Returns threads, waits and longest wait of an object as text.
fn object(object: &ObjectWaits, measured: WaitSource) -> String {
    let at_least = match measured {
        WaitSource::Recorded => "",
        WaitSource::Sampled { .. } => "≥",
    };
    let longest = object.longest_ns.map(super::totals::round_to_tenth);
    let longest = longest.map_or("longest -".to_owned(), |ns| {
        format!("longest {at_least}{}", duration(ns))
    });
    let waits = object
        .waits
        .map(|number| format!("  {} waits", count(number)));
    format!(
        "{:NAME$} {:>6.2} threads  {longest}{}",
        name(object.object),
        object.threads,
        waits.unwrap_or_default()
    )
}

/// Returns the name of a kind of object.
fn name(object: WaitObject) -> &'static str {
    match object {
        WaitObject::Connection => "TCP connection",
        WaitObject::Listener => "listening socket",
        WaitObject::Datagram => "UDP or raw socket",
        WaitObject::Unix => "UNIX socket",
        WaitObject::Socket => "other socket",
        WaitObject::Epoll => "epoll set",
        WaitObject::Poll => "poll",
        WaitObject::Select => "select",
        WaitObject::Futex => "futex: lock, condition",
        WaitObject::Pipe => "pipe",
        WaitObject::File => "file",
        WaitObject::Event => "event file",
        WaitObject::Sleep => "sleep",
        WaitObject::Child => "child process",
        WaitObject::Signal => "signal",
        WaitObject::IoUring => "io_uring",
        WaitObject::PageFault => "page fault",
        WaitObject::Other => "other",
    }
}
