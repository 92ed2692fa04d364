//! The text of `perf script` → spans: branches of Intel PT, sampled call stacks, and tracepoints of
//! scheduler, interrupts and system calls.
//!
//! perf has decoded the trace; what comes in is a line an event, and sampled stacks below their
//! line, indented by a tab.

mod header;
pub(crate) mod line;
mod samples;

use std::collections::BTreeMap;

use crate::TraceImport;
use crate::ftrace::{self, Tracepoints};
use crate::stack::CallStack;
use crate::tally::Tally;
use table::spans::SpanOwner;

pub(crate) use header::EventHeader;
use line::{NameInterner, TraceError, parse_branch, parse_place};
use samples::{SampledFrame, SampledSpans};

const BLANK: &str = "blank";
const COMMENT: &str = "comments";
const NO_EVENT: &str = "not an event";
const BAD_BRANCH: &str = "not a branch";
const BAD_ERROR: &str = "not an error";
const BAD_FRAME: &str = "not a frame";
const STRAY_FRAME: &str = "frames of no sample";
const BACKWARDS: &str = "earlier than the thread's event before";
const ROLLED_BACK: &str = "of a transaction that was rolled back";
const NO_STACK: &str = "samples without a call stack";
const NO_ACTIVITY: &str = "events that are no activity";

/// Reads the text of `perf script`.
pub(crate) fn read(text: &str) -> TraceImport {
    let mut reader = FtraceReader::default();
    for line in text.lines() {
        reader.line(line);
    }
    reader.finish()
}

/// A sample that still waits for its frames.
struct OpenSample {
    thread: SpanOwner,
    time_ns: u64,
    frames: Vec<SampledFrame>,
}

#[derive(Default)]
struct FtraceReader {
    names: NameInterner,
    traced: BTreeMap<SpanOwner, CallStack>,
    sampled: BTreeMap<SpanOwner, SampledSpans>,
    tracepoints: Tracepoints,
    sample: Option<OpenSample>,
    tally: Tally,
}

impl FtraceReader {
    /// Handles one line: an event, a frame of its stack, or an error of decoding.
    fn line(&mut self, line: &str) {
        if line.starts_with('\t') {
            return self.add_frame(line);
        }
        self.end_sample();
        if line.trim().is_empty() {
            return self.tally.ignore(BLANK);
        }
        if line.starts_with('#') {
            return self.tally.ignore(COMMENT);
        }
        if TraceError::begins(line) {
            return self.error(line);
        }
        match EventHeader::parse(line) {
            Some(header) => self.add_event(&header),
            None => self.tally.ignore(NO_EVENT),
        }
    }

    /// Begins what an event line announces: a branch or a sample.
    fn add_event(&mut self, header: &EventHeader<'_>) {
        match header.event_name() {
            "branches" => self.add_branch(header),
            "psb" | "cbr" | "ptwrite" | "pwre" | "pwrx" | "mwait" | "exstop" | "evt" | "iflag" => {
                self.tally.ignore(NO_ACTIVITY);
            }
            _ if Tracepoints::knows(header.event) => {
                let event = to_trace_event(header);
                self.tracepoints.event(&event, &mut self.tally);
            }
            _ if header.rest.trim().is_empty() => self.begin_sample(header),
            "instructions" | "cycles" | "cpu-clock" | "task-clock" => self.tally.ignore(NO_STACK),
            _ => self.tally.ignore(NO_ACTIVITY),
        }
    }

    /// Applies one branch to the call stack of its thread.
    fn add_branch(&mut self, header: &EventHeader<'_>) {
        let Some(branch) = parse_branch(header.rest, &mut self.names) else {
            return self.tally.ignore(BAD_BRANCH);
        };
        let thread = thread(header);
        let begin = || CallStack::new(thread, header.kernel_only(), header.time_ns);
        let stack = self.traced.entry(thread).or_insert_with(begin);
        if header.time_ns < stack.last_ns() {
            return self.tally.ignore(BACKWARDS);
        }
        self.tally.use_one();
        let undone = stack.branch(header.time_ns, branch);
        self.tally.withdraw(undone, ROLLED_BACK);
    }

    /// Applies an error of decoding to its thread's call stack.
    fn error(&mut self, line: &str) {
        let Some(error) = TraceError::parse(line) else {
            return self.tally.ignore(BAD_ERROR);
        };
        let thread = SpanOwner {
            pid: error.pid,
            tid: error.tid,
            cpu: None,
        };
        let begin = || CallStack::new(thread, false, error.time_ns.unwrap_or_default());
        let stack = self.traced.entry(thread).or_insert_with(begin);
        // An error is never left out: if its time is too early, it is put at the last event.
        let time_ns = error.time_ns.filter(|time_ns| *time_ns >= stack.last_ns());
        self.tally.use_one();
        stack.error(time_ns, self.names.get(error.message));
    }

    /// Begins a sample; the lines of its stack follow.
    fn begin_sample(&mut self, header: &EventHeader<'_>) {
        self.sample = Some(OpenSample {
            thread: thread(header),
            time_ns: header.time_ns,
            frames: Vec::new(),
        });
    }

    /// Adds a frame to the open sample.
    fn add_frame(&mut self, line: &str) {
        let Some(sample) = &mut self.sample else {
            return self.tally.ignore(STRAY_FRAME);
        };
        match parse_place(line, &mut self.names) {
            Some((place, _)) => {
                self.tally.use_one();
                sample.frames.push((place.function, place.address));
            }
            None => self.tally.ignore(BAD_FRAME),
        }
    }

    /// Ends the open sample: its line and frames are used or ignored together.
    fn end_sample(&mut self) {
        let Some(sample) = self.sample.take() else {
            return;
        };
        let begin = || SampledSpans::new(sample.thread);
        let samples = self.sampled.entry(sample.thread).or_insert_with(begin);
        let frames = sample.frames.len() as u64;
        if frames == 0 {
            return self.tally.ignore(NO_STACK);
        }
        if sample.time_ns < samples.last_ns() {
            self.tally.withdraw(frames, BACKWARDS);
            return self.tally.ignore(BACKWARDS);
        }
        self.tally.use_one();
        samples.sample(sample.time_ns, sample.frames);
    }

    /// Ends all threads, and returns their spans.
    fn finish(mut self) -> TraceImport {
        self.end_sample();
        let mut imported = TraceImport::default();
        for stack in self.traced.into_values() {
            stack.finish().store(&mut imported.activities);
        }
        for samples in self.sampled.into_values() {
            samples.finish().store(&mut imported.activities);
        }
        self.tracepoints.finish(&mut imported.activities);
        imported.tally = self.tally;
        imported
    }
}

/// Returns the tracepoint of a line: its body is the same as in ftrace's text.
fn to_trace_event<'a>(header: &EventHeader<'a>) -> ftrace::TraceEvent<'a> {
    let thread = header.tid.map(|tid| ftrace::EventThread {
        comm: header.comm.unwrap_or_default(),
        tid,
        pid: header.pid,
    });
    ftrace::TraceEvent {
        cpu: header.cpu,
        thread,
        time_ns: header.time_ns,
        resolution_ns: 1,
        name: header.event.rsplit(':').next().unwrap_or_default(),
        body: header.rest.trim(),
    }
}

/// Returns the thread that an event line names.
fn thread(header: &EventHeader<'_>) -> SpanOwner {
    SpanOwner {
        pid: header.pid,
        tid: header.tid,
        cpu: None,
    }
}
