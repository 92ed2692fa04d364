//! The text of ftrace's `trace` file and of `trace-cmd report` → spans: tracepoints of scheduler,
//! interrupts and system calls, and the drawings of the tracer `function_graph`.

mod event;
mod graph;
mod tracepoints;

use std::collections::BTreeMap;

pub(crate) use event::{EventThread, TraceEvent};
use event::{resolution_ns, thread};
pub(crate) use tracepoints::Tracepoints;

use crate::TraceImport;
use crate::tally::Tally;
use crate::text::seconds_ns;

const BLANK: &str = "blank";
const COMMENT: &str = "comments and headings";
const NO_EVENT: &str = "not an event";
const NO_TIME: &str = "functions without their time";

/// Reads a text of ftrace or trace-cmd.
pub(crate) fn read(text: &str) -> TraceImport {
    let mut reader = FtraceReader::default();
    for line in text.lines() {
        reader.line(line);
    }
    reader.finish()
}

#[derive(Default)]
struct FtraceReader<'a> {
    tracepoints: Tracepoints,
    /// Threads that lines of `function_graph` name apart from its functions, by CPU.
    drawn: BTreeMap<u16, EventThread<'a>>,
    tally: Tally,
}

impl<'a> FtraceReader<'a> {
    /// Handles one line: a comment, a loss, an event or a part of a function graph.
    fn line(&mut self, line: &'a str) {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return self.tally.ignore(BLANK);
        }
        if trimmed.starts_with('#') || trimmed.starts_with("------") || trimmed.starts_with("cpus=")
        {
            return self.tally.ignore(COMMENT);
        }
        if let Some((cpu, message)) = parse_loss(trimmed) {
            return self.tracepoints.lost(cpu, message, &mut self.tally);
        }
        if let Some(event) = TraceEvent::parse(line) {
            return self.tracepoints.event(&event, &mut self.tally);
        }
        match drawing(trimmed) {
            Some(drawing) => self.drawing(&drawing),
            None => self.tally.ignore(NO_EVENT),
        }
    }

    /// Handles one line of a function graph: begin or end of a call, or a change of thread.
    fn drawing(&mut self, drawing: &GraphLine<'a>) {
        if let Some(next) = next_thread(drawing.text) {
            self.drawn.insert(drawing.cpu, next);
            return self.tally.use_one();
        }
        let (named, body) = thread_column(drawing.text);
        if let Some(named) = named {
            self.drawn.insert(drawing.cpu, named);
        }
        let Some(time) = drawing.time.and_then(seconds_ns) else {
            return self.tally.ignore(NO_TIME);
        };
        let event = TraceEvent {
            cpu: Some(drawing.cpu),
            thread: self.drawn.get(&drawing.cpu).copied(),
            time_ns: time,
            resolution_ns: resolution_ns(drawing.time.unwrap_or_default()),
            name: "funcgraph_entry",
            body,
        };
        self.tracepoints.event(&event, &mut self.tally);
    }

    /// Ends all open spans, and returns them.
    fn finish(self) -> TraceImport {
        let mut imported = TraceImport::default();
        self.tracepoints.finish(&mut imported.activities);
        imported.tally = self.tally;
        imported
    }
}

/// A line of the tracer `function_graph`: `[SECONDS.FRACTION |] CPU) TEXT`.
struct GraphLine<'a> {
    time: Option<&'a str>,
    cpu: u16,
    text: &'a str,
}

/// Splits a line of a function graph into time, CPU and text; None if it is of another form.
fn drawing(line: &str) -> Option<GraphLine<'_>> {
    let (before, text) = line.split_once(')')?;
    let (time, cpu) = match before.split_once('|') {
        Some((time, cpu)) => (Some(time.trim()), cpu),
        None => (None, before),
    };
    let cpu = cpu.trim().parse().ok()?;
    Some(GraphLine { time, cpu, text })
}

/// Returns the thread that gets the CPU, by a line such as `bash-12  =>  <idle>-0`.
fn next_thread(text: &str) -> Option<EventThread<'_>> {
    let (_, next) = text.split_once(" => ")?;
    thread(next)
}

/// Returns the column that the option `funcgraph-proc` adds: `bash-12 | …`.
fn thread_column(text: &str) -> (Option<EventThread<'_>>, &str) {
    match text.split_once('|') {
        Some((first, rest)) => match thread(first) {
            Some(thread) => (Some(thread), rest),
            None => (None, text),
        },
        None => (None, text),
    }
}

/// Returns CPU and text of a loss: `CPU:1 [LOST 12 EVENTS]`, or `CPU 1 [12 EVENTS DROPPED]` of
/// trace-cmd.
fn parse_loss(line: &str) -> Option<(u16, &str)> {
    let rest = line.strip_prefix("CPU")?;
    let (cpu, message) = rest.get(1..)?.split_once('[')?;
    let message = message.strip_suffix(']')?;
    let is_loss = message.contains("LOST") || message.contains("DROPPED");
    Some((cpu.trim_end_matches(':').trim().parse().ok()?, message)).filter(|_| is_loss)
}
