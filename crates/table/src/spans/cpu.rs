//! One CPU: which thread has it, and what lies open on top: system call, functions, interrupts.
//!
//! What a thread has open when it loses the CPU is cut: that part ends unseen, and goes on unseen
//! where the thread next gets a CPU.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::tables::Activities;
use crate::{ActivityKind, ActivitySource};

use super::timeline::{SpanOwner, SpanSubject, SpanTimeline, TimelinePoint};

/// System calls and functions that threads have open while they have no CPU, outermost first.
pub type SuspendedActivities = BTreeMap<u32, Vec<OpenActivity>>;

/// An activity of a CPU that has begun and not ended: its kind, its name, its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenActivity {
    /// The kind of activity.
    pub kind: ActivityKind,
    /// As in the table.
    pub name: Option<Rc<str>>,
    /// The source of the event.
    pub source: ActivitySource,
}

/// Thread that has a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningThread {
    /// Zero for the idle task.
    pub tid: u32,
    /// Its process, where the source has it.
    pub pid: Option<u32>,
    /// Its name, where the source has it.
    pub comm: Option<Rc<str>>,
}

#[derive(Debug)]
struct RunningSpan {
    runner: RunningThread,
    span: usize,
}

/// The spans of one CPU.
#[derive(Debug)]
pub struct CpuTimeline {
    cpu: Option<u16>,
    lane: SpanTimeline,
    running: Option<RunningSpan>,
    open: Vec<(usize, OpenActivity)>,
    /// Since when nothing was lost and no other thread ran.
    whole_since: TimelinePoint,
    error: Option<usize>,
    /// The function that ended last of those that called no other, and when.
    leaf: Option<(usize, u64)>,
    last_ns: u64,
}

impl CpuTimeline {
    /// Makes the timeline of a CPU with its first event at `time_ns`.
    pub fn new(cpu: Option<u16>, time_ns: u64) -> Self {
        let mut lane = SpanTimeline::default();
        let whole_since = lane.moment(time_ns);
        Self {
            cpu,
            lane,
            running: None,
            open: Vec::new(),
            whole_since,
            error: None,
            leaf: None,
            last_ns: time_ns,
        }
    }

    /// Returns the time of the last event.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Moves the time on to an event, and switches to the thread that the event shows.
    pub fn advance(
        &mut self,
        time_ns: u64,
        shown: Option<&RunningThread>,
        source: ActivitySource,
        suspended: &mut SuspendedActivities,
    ) {
        self.end_leaf(time_ns);
        let before_ns = self.last_ns;
        self.last_ns = time_ns;
        if let Some(error) = self.error.take() {
            self.lane.close(error, time_ns, true);
        }
        let Some(shown) = shown else { return };
        match &mut self.running {
            Some(running) if running.runner.tid == shown.tid => {
                running.runner.pid = running.runner.pid.or(shown.pid);
            }
            // The source has no event of the switch: the one before ran until its last event at least.
            _ => {
                self.end_thread(before_ns, false, suspended);
                self.put_on(time_ns, shown.clone(), source, false, suspended);
            }
        }
    }

    /// Gives the CPU to another thread at `time_ns`.
    pub fn switch(
        &mut self,
        time_ns: u64,
        next: RunningThread,
        source: ActivitySource,
        suspended: &mut SuspendedActivities,
    ) {
        self.end_thread(time_ns, true, suspended);
        self.put_on(time_ns, next, source, true, suspended);
    }

    /// Begins an activity.
    pub fn begin(&mut self, time_ns: u64, activity: OpenActivity) {
        let what = self.span_subject(&activity);
        let span = self.lane.open(what, time_ns, true);
        self.open.push((span, activity));
    }

    /// Ends the innermost open activity of this kind, and of this name if it has one. Those within
    /// it without an end of their own end with it, unseen. Without any, it began unseen.
    pub fn end(&mut self, time_ns: u64, activity: &OpenActivity) {
        let is_it = |(_, open): &(usize, OpenActivity)| {
            open.kind == activity.kind && (activity.name.is_none() || open.name == activity.name)
        };
        match self.open.iter().rposition(is_it) {
            Some(place) => {
                self.close_from(place + 1, time_ns);
                if let Some((span, _)) = self.open.pop() {
                    self.lane.close(span, time_ns, true);
                }
            }
            None => {
                self.close_from(0, time_ns);
                let what = self.span_subject(activity);
                let span = self.lane.open_around(self.whole_since, what);
                self.lane.close(span, time_ns, true);
            }
        }
    }

    /// Adds a mark, which takes no time. Its thread need not have the CPU.
    pub fn mark(&mut self, time_ns: u64, what: SpanSubject) {
        let span = self.lane.open(what, time_ns, true);
        self.lane.close(span, time_ns, true);
    }

    /// Returns whether something is open.
    pub fn is_open(&self, activity: &OpenActivity) -> bool {
        self.open.iter().any(|(_, open)| open == activity)
    }

    /// Ends an open activity with all within it: no event shows the end.
    pub fn give_up(&mut self, time_ns: u64, activity: &OpenActivity) {
        if let Some(place) = self.open.iter().rposition(|(_, open)| open == activity) {
            self.close_from(place, time_ns);
        }
    }

    /// Adds an activity with its start and its end.
    pub fn whole(&mut self, begin_ns: u64, end_ns: u64, activity: &OpenActivity) {
        let what = self.span_subject(activity);
        let span = self.lane.open(what, begin_ns, true);
        self.lane.close(span, end_ns, true);
        self.leaf = Some((span, end_ns));
    }

    /// Ends a function before the next event, although its rounded duration reaches beyond it.
    fn end_leaf(&mut self, next_ns: u64) {
        let Some((span, end_ns)) = self.leaf.take() else {
            return;
        };
        if end_ns > next_ns {
            self.lane.end_at(span, next_ns);
        }
        self.last_ns = self.last_ns.max(end_ns.min(next_ns));
    }

    /// Ends open spans at the last event, and opens an error span: later events were lost.
    pub fn mark_loss(
        &mut self,
        message: Rc<str>,
        source: ActivitySource,
        suspended: &mut SuspendedActivities,
    ) {
        self.end_leaf(u64::MAX);
        if let Some(error) = self.error.take() {
            self.lane.close(error, self.last_ns, true);
        }
        self.end_thread(self.last_ns, false, suspended);
        suspended.clear();
        let what = self.span_subject(&OpenActivity {
            kind: ActivityKind::DecodeError,
            name: Some(message),
            source,
        });
        self.whole_since = self.lane.moment(self.last_ns);
        self.error = Some(self.lane.open(what, self.last_ns, true));
    }

    /// Ends all at the last event.
    pub fn finish(mut self, into: &mut Activities) {
        self.end_leaf(u64::MAX);
        self.end_thread(self.last_ns, false, &mut SuspendedActivities::new());
        if let Some(error) = self.error.take() {
            self.lane.close(error, self.last_ns, false);
        }
        self.lane.store(into);
    }

    /// Ends the running thread's span; its system calls and functions are suspended.
    fn end_thread(&mut self, time_ns: u64, seen: bool, suspended: &mut SuspendedActivities) {
        let kept = |kind| matches!(kind, ActivityKind::Syscall | ActivityKind::Function);
        let activities = self.open.iter().map(|(_, activity)| activity);
        let still_open: Vec<_> = activities
            .take_while(|activity| kept(activity.kind))
            .cloned()
            .collect();
        self.close_from(0, time_ns);
        if let Some(RunningSpan { runner, span }) = self.running.take() {
            self.lane.close(span, time_ns, seen);
            if runner.tid != 0 && !still_open.is_empty() {
                suspended.insert(runner.tid, still_open);
            }
        }
    }

    /// Begins the span of a thread that runs now, and resumes what was suspended.
    fn put_on(
        &mut self,
        time_ns: u64,
        runner: RunningThread,
        source: ActivitySource,
        seen: bool,
        suspended: &mut SuspendedActivities,
    ) {
        let tid = runner.tid;
        let (kind, name) = match tid {
            0 => (ActivityKind::Idle, None),
            _ => (ActivityKind::Task, runner.comm.clone()),
        };
        self.running = Some(RunningSpan { runner, span: 0 });
        let task = OpenActivity { kind, name, source };
        let what = self.span_subject(&task);
        let span = self.lane.open(what, time_ns, seen);
        if let Some(running) = &mut self.running {
            running.span = span;
        }
        self.whole_since = self.lane.moment(time_ns);
        for activity in suspended.remove(&tid).unwrap_or_default() {
            let what = self.span_subject(&activity);
            let span = self.lane.open(what, time_ns, false);
            self.open.push((span, activity));
        }
    }

    /// Ends the open activities from this depth on.
    fn close_from(&mut self, place: usize, time_ns: u64) {
        while self.open.len() > place {
            if let Some((span, _)) = self.open.pop() {
                self.lane.close(span, time_ns, false);
            }
        }
    }

    /// Returns what a span is about: the activity and the thread that runs.
    fn span_subject(&self, activity: &OpenActivity) -> SpanSubject {
        let runner = self.running.as_ref().map(|running| &running.runner);
        SpanSubject {
            kind: activity.kind,
            name: activity.name.clone(),
            owner: SpanOwner {
                pid: runner.and_then(|runner| runner.pid),
                tid: runner.map(|runner| runner.tid),
                cpu: self.cpu,
            },
            source: activity.source,
        }
    }
}
