//! Branches → spans: the call stack of one thread, completed where the trace does not show all of it.
//!
//! What is completed, and how (the rules are those of magic-trace's trace writer, which has seen more
//! broken traces than anybody):
//! - the function under the program counter is not the stack's top (a tail call, the PLT): the top
//!   returns, and the function was called;
//! - the stack is empty: whatever runs was called before the trace shows it, at the latest when this
//!   stack began;
//! - a system call or interrupt gets a stack of its own, and its end restores the one below;
//! - a broken trace closes everything, and leaves a span that says why and for how long;
//! - several calls at one time share the time until the next time evenly.

use std::rc::Rc;

use table::{ActivityKind, ActivitySource};

use crate::branch::{Branch, BranchKind, CodeLocation, FlowEdge};
use table::spans::{SpanOwner, SpanSubject, SpanTimeline, TimelinePoint};

/// Message of a trace that begins again although it had not ended.
const RESUMED: &str = "the trace begins again before its end";

/// A function that runs, or waits for one that it called.
#[derive(Debug)]
struct CallFrame {
    span: usize,
    function: Option<Rc<str>>,
    /// Means that nothing was traced; ends when the trace begins again.
    untraced: bool,
}

/// The functions that called each other since user code began, or the kernel was entered.
#[derive(Debug)]
struct FrameStack {
    frames: Vec<CallFrame>,
    /// The system call or interrupt that this stack serves.
    entry: Option<usize>,
    began: TimelinePoint,
}

impl FrameStack {
    /// Makes an empty stack that begins here.
    fn new(began: TimelinePoint) -> Self {
        Self {
            frames: Vec::new(),
            entry: None,
            began,
        }
    }
}

/// A start or end that waits for the next time, to share the interval until then.
#[derive(Debug, Clone, Copy)]
enum PendingBranch {
    Call(usize),
    Entry(usize),
    End(usize),
}

/// The spans of one thread.
#[derive(Debug)]
pub(crate) struct CallStack {
    owner: SpanOwner,
    /// Only the kernel is traced: it is entered again whenever the trace begins.
    kernel_only: bool,
    stack: FrameStack,
    interrupted: Vec<FrameStack>,
    /// Since when nothing was lost.
    whole_since: TimelinePoint,
    error: Option<usize>,
    last_error_ns: Option<u64>,
    last_ns: u64,
    /// As `last_ns`, but after the error before.
    now_ns: u64,
    pending: Vec<PendingBranch>,
    pending_ns: u64,
    lane: SpanTimeline,
    /// Functions inferred to have begun with a system call or interrupt, and that: their begin may
    /// still be pending.
    entered_with: Vec<(usize, usize)>,
    /// Branches of a transaction that may yet be rolled back.
    transaction: Vec<(u64, Branch)>,
}

impl CallStack {
    /// Makes the stack of a thread with its first event at `time_ns`.
    pub(crate) fn new(owner: SpanOwner, kernel_only: bool, time_ns: u64) -> Self {
        let mut lane = SpanTimeline::default();
        let begin = lane.moment(time_ns);
        Self {
            owner,
            kernel_only,
            stack: FrameStack::new(begin),
            interrupted: Vec::new(),
            whole_since: begin,
            error: None,
            last_error_ns: None,
            last_ns: time_ns,
            now_ns: time_ns,
            pending: Vec::new(),
            pending_ns: time_ns,
            lane,
            entered_with: Vec::new(),
            transaction: Vec::new(),
        }
    }

    /// Returns the time of the last event.
    pub(crate) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Applies a branch; returns how many earlier branches were rolled back with a transaction.
    pub(crate) fn branch(&mut self, time_ns: u64, branch: Branch) -> u64 {
        self.last_ns = time_ns;
        if branch.kind == BranchKind::TransactionAbort {
            let undone = self.transaction.len() as u64;
            self.transaction.clear();
            self.apply(time_ns, &branch);
            return undone;
        }
        if branch.in_transaction {
            self.transaction.push((time_ns, branch));
            return 0;
        }
        self.commit();
        self.apply(time_ns, &branch);
        0
    }

    /// Applies the branches of a transaction that was completed.
    fn commit(&mut self) {
        for (time_ns, branch) in std::mem::take(&mut self.transaction) {
            self.apply(time_ns, &branch);
        }
    }

    /// Applies an error of the trace, at the last event's time if it has no time.
    pub(crate) fn error(&mut self, time_ns: Option<u64>, message: Rc<str>) {
        self.commit();
        let time_ns = self.at(time_ns.unwrap_or(self.last_ns));
        self.close_error(time_ns);
        self.break_off(time_ns, message);
    }

    /// Ends all at the last event.
    pub(crate) fn finish(mut self) -> SpanTimeline {
        self.commit();
        let end_ns = self.now_ns;
        self.close_all(end_ns);
        if let Some(error) = self.error.take() {
            self.lane.close(error, end_ns, false);
        }
        for (span, entry) in self.entered_with {
            self.lane.begin_with(span, entry);
        }
        self.lane
    }

    /// Returns the time of an event. One at the very time of the error before it is put 1 ns later: what
    /// follows an error never has its time, or stacks before and after could not be distinguished.
    fn at(&mut self, time_ns: u64) -> u64 {
        self.last_ns = time_ns;
        self.now_ns = match self.last_error_ns {
            Some(error_ns) => time_ns.max(error_ns.saturating_add(1)),
            None => time_ns,
        };
        self.now_ns
    }

    /// Applies a branch: begins or ends a function, or the trace itself.
    fn apply(&mut self, time_ns: u64, branch: &Branch) {
        let previous_ns = self.now_ns;
        let time_ns = self.at(time_ns);
        self.close_error(time_ns);
        match (branch.edge, branch.kind) {
            (FlowEdge::End, kind) => self.trace_ends(time_ns, kind, &branch.to),
            (FlowEdge::Begin, _) => self.trace_begins(time_ns, previous_ns, &branch.to),
            (FlowEdge::Inside, BranchKind::Call) => self.enter_function(time_ns, &branch.to),
            (FlowEdge::Inside, BranchKind::Return) => {
                self.end_top(time_ns, true);
                self.agree_with(time_ns, &branch.to);
            }
            (FlowEdge::Inside, BranchKind::Syscall) => {
                self.enter(time_ns, ActivityKind::Syscall, &branch.to);
            }
            (FlowEdge::Inside, BranchKind::Interrupt) => {
                self.enter(time_ns, ActivityKind::Irq, &branch.to);
            }
            (FlowEdge::Inside, BranchKind::Sysret | BranchKind::Iret) => {
                self.leave_kernel(time_ns, &branch.to);
            }
            (FlowEdge::Inside, BranchKind::Jump | BranchKind::TransactionAbort) => {
                self.agree_with(time_ns, &branch.to);
            }
            (FlowEdge::Inside, BranchKind::Unknown) => {}
        }
    }

    /// Handles the end of the trace: what follows is untraced until it begins again.
    fn trace_ends(&mut self, time_ns: u64, kind: BranchKind, to: &CodeLocation) {
        match kind {
            BranchKind::Call => {
                let function = to.function.clone();
                self.push(time_ns, ActivityKind::Function, function, true);
            }
            BranchKind::Syscall => self.push(time_ns, ActivityKind::Syscall, None, true),
            BranchKind::Return => {
                let name = Some("returned".into());
                self.push(time_ns, ActivityKind::Untraced, name, true);
            }
            BranchKind::Iret | BranchKind::Sysret => {
                self.clear(time_ns, true);
                self.push(time_ns, ActivityKind::Untraced, None, true);
            }
            _ => self.push(time_ns, ActivityKind::Untraced, None, true),
        }
    }

    /// Handles the start of the trace: the untraced part ends, or a new stack begins.
    fn trace_begins(&mut self, time_ns: u64, previous_ns: u64, to: &CodeLocation) {
        match self.stack.frames.last() {
            _ if self.kernel_only => {
                self.clear(time_ns, true);
                self.stack = FrameStack::new(self.begin_point(time_ns, to));
                self.enter_function(time_ns, to);
            }
            None => self.enter_function(time_ns, to),
            // No look at where it goes on: that may lie in a page fault of the call that ended it.
            Some(CallFrame { untraced: true, .. }) => self.end_top(time_ns, true),
            Some(_) => {
                self.break_off(previous_ns, RESUMED.into());
                self.close_error(time_ns);
                self.enter_function(time_ns, to);
            }
        }
    }

    /// Returns when a stack that is found running `place` began: in the kernel now, or nobody knows when.
    fn begin_point(&mut self, time_ns: u64, place: &CodeLocation) -> TimelinePoint {
        if !place.in_kernel() {
            return self.whole_since;
        }
        self.lane.moment(time_ns)
    }

    /// Enters the kernel; the functions that ran are put aside.
    fn enter(&mut self, time_ns: u64, kind: ActivityKind, to: &CodeLocation) {
        let entry = self.open(kind, to.function.clone(), time_ns);
        self.put_off(time_ns, PendingBranch::Entry(entry));
        let mut stack = FrameStack::new(self.lane.moment(time_ns));
        stack.entry = Some(entry);
        self.interrupted
            .push(std::mem::replace(&mut self.stack, stack));
        self.enter_function(time_ns, to);
    }

    /// Leaves the kernel: the function that ran before continues.
    fn leave_kernel(&mut self, time_ns: u64, to: &CodeLocation) {
        self.clear(time_ns, true);
        match self.interrupted.pop() {
            Some(stack) => self.stack = stack,
            None => {
                self.stack = FrameStack::new(self.begin_point(time_ns, to));
                self.agree_with(time_ns, to);
            }
        }
    }

    /// Begins the function at an address.
    fn enter_function(&mut self, time_ns: u64, to: &CodeLocation) {
        let function = to.function.clone();
        self.push(time_ns, ActivityKind::Function, function, false);
    }

    /// Begins a frame; `untraced` if the trace does not see inside.
    fn push(&mut self, time_ns: u64, kind: ActivityKind, name: Option<Rc<str>>, untraced: bool) {
        let span = self.open(kind, name.clone(), time_ns);
        self.put_off(time_ns, PendingBranch::Call(span));
        self.stack.frames.push(CallFrame {
            span,
            function: name,
            untraced,
        });
    }

    /// Ends the top frame; if the stack is empty, ends a caller around all that it held.
    fn end_top(&mut self, time_ns: u64, seen: bool) {
        let span = match self.stack.frames.pop() {
            Some(frame) => frame.span,
            None => self.infer_caller(None),
        };
        self.end(span, time_ns, seen);
    }

    /// Makes the stack's top the function that runs.
    fn agree_with(&mut self, time_ns: u64, place: &CodeLocation) {
        match self.stack.frames.last() {
            Some(top) if top.function == place.function => {}
            Some(_) => {
                self.end_top(time_ns, true);
                self.enter_function(time_ns, place);
            }
            None => {
                let span = self.infer_caller(place.function.clone());
                self.stack.frames.push(CallFrame {
                    span,
                    function: place.function.clone(),
                    untraced: false,
                });
            }
        }
    }

    /// Begins a function that was called before the trace shows it; returns its span.
    fn infer_caller(&mut self, function: Option<Rc<str>>) -> usize {
        let what = self.span_subject(ActivityKind::Function, function);
        let span = self.lane.open_around(self.stack.began, what);
        if let Some(entry) = self.stack.entry {
            self.entered_with.push((span, entry));
        }
        span
    }

    /// Ends all frames.
    fn clear(&mut self, time_ns: u64, seen: bool) {
        while !self.stack.frames.is_empty() {
            self.end_top(time_ns, seen);
        }
        if let Some(entry) = self.stack.entry.take() {
            self.end(entry, time_ns, seen);
        }
    }

    /// Closes everything, ends unseen.
    fn close_all(&mut self, time_ns: u64) {
        self.clear(time_ns, false);
        while let Some(stack) = self.interrupted.pop() {
            self.stack = stack;
            self.clear(time_ns, false);
        }
        self.settle_times(self.pending_ns);
    }

    /// Ends all spans: the trace is broken until its next event.
    fn break_off(&mut self, time_ns: u64, message: Rc<str>) {
        self.close_all(time_ns);
        self.whole_since = self.lane.moment(time_ns);
        self.stack = FrameStack::new(self.whole_since);
        let error = self.open(ActivityKind::DecodeError, Some(message), time_ns);
        self.error = Some(error);
        self.last_error_ns = Some(time_ns);
    }

    /// Ends the span of an error of decoding, if one is open.
    fn close_error(&mut self, time_ns: u64) {
        if let Some(error) = self.error.take() {
            self.lane.close(error, time_ns, true);
        }
    }

    /// Begins a span; returns its number.
    fn open(&mut self, kind: ActivityKind, name: Option<Rc<str>>, time_ns: u64) -> usize {
        let what = self.span_subject(kind, name);
        self.lane.open(what, time_ns, true)
    }

    /// Returns what a span is about: the activity and its thread.
    fn span_subject(&self, kind: ActivityKind, name: Option<Rc<str>>) -> SpanSubject {
        SpanSubject {
            kind,
            name,
            owner: self.owner,
            source: ActivitySource::IntelPt,
        }
    }

    /// Ends a span; its time is settled later, when the next time is known.
    fn end(&mut self, span: usize, time_ns: u64, seen: bool) {
        self.put_off(time_ns, PendingBranch::End(span));
        self.lane.close(span, time_ns, seen);
    }

    /// Keeps what happened at this time until the next time is known.
    fn put_off(&mut self, time_ns: u64, what: PendingBranch) {
        if time_ns != self.pending_ns {
            self.settle_times(time_ns);
        }
        self.pending.push(what);
    }

    /// Gives the pending begins and ends their times: the calls share what passed until `to_ns`
    /// evenly; ends take no time.
    fn settle_times(&mut self, to_ns: u64) {
        let is_call = |pending: &&PendingBranch| matches!(pending, PendingBranch::Call(_));
        let mut calls = self.pending.iter().filter(is_call).count() as u64;
        let mut now_ns = self.pending_ns;
        for pending in self.pending.drain(..) {
            match pending {
                PendingBranch::Call(span) => {
                    self.lane.begin_at(span, now_ns);
                    now_ns += to_ns.saturating_sub(now_ns) / calls;
                    calls -= 1;
                }
                PendingBranch::Entry(span) => self.lane.begin_at(span, now_ns),
                PendingBranch::End(span) => self.lane.end_at(span, now_ns),
            }
        }
        self.pending_ns = to_ns;
    }
}
