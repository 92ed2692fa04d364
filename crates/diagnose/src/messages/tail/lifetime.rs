//! A message's lifetime, core by core: all that its cores did from its begin to its end, as times in the [`PlaceTree`].

use table::ActivityKind;

use super::contexts::ContextTimes;
use super::message::HostMessage;
use super::queue::{QueueTable, ThreadQueue};
use super::side::TailSide;
use super::spans::{ActivitySpan, LabelTable, SpanLabel, SpanTable};
use super::tree::{CoreRole, PlaceTime, PlaceTimes, PlaceTree, SpanId, TreeNode, TreePlace};

/// Fills the times of a message, and adds who had its CPUs.
pub(super) fn build_timeline(
    message: &HostMessage,
    queue: ThreadQueue,
    (side, labels): (&TailSide, &LabelTable),
    tree: &mut PlaceTree,
    times: &mut PlaceTimes,
    contexts: &mut ContextTimes,
) {
    times.clear();
    contexts.count();
    let mut builder = TimelineBuilder {
        message,
        queue,
        side,
        spans: &side.spans,
        labels,
        tree,
        times,
        contexts,
        moving: MoveState::Not,
        open: Vec::new(),
    };
    builder.kernel();
    builder.add_thread_part(&side.threads);
}

/// A message on its way into the tree.
struct TimelineBuilder<'a> {
    message: &'a HostMessage,
    queue: ThreadQueue,
    side: &'a TailSide,
    spans: &'a SpanTable,
    labels: &'a LabelTable,
    tree: &'a mut PlaceTree,
    times: &'a mut PlaceTimes,
    contexts: &'a mut ContextTimes,
    /// How the thread is moved from one CPU to another at the time.
    moving: MoveState,
    /// Open spans of the piece at hand: end and place.
    open: Vec<(u64, TreeNode)>,
}

/// How a thread is moved from one CPU to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MoveState {
    Not,
    /// It waited for the one, and is put into the queue of the other.
    Queued,
    /// It had the one, and would have gone on but for the move.
    Stopped,
}

/// Makes one stay at a place, from begin to end.
fn place_time(from_ns: u64, until_ns: u64) -> PlaceTime {
    PlaceTime {
        time_ns: until_ns.saturating_sub(from_ns),
        count: 1,
    }
}

/// A part of the lifetime on one core.
#[derive(Debug, Clone, Copy)]
struct CorePiece {
    cpu: u16,
    from_ns: u64,
    until_ns: u64,
}

impl TimelineBuilder<'_> {
    /// Adds the activity of the kernel's core. Whatever runs there in threads delays it, whatever thread that is;
    /// interrupts and softirqs are separate.
    fn kernel(&mut self) {
        let message = self.message;
        let (from_ns, until_ns) = message.kernel_ns();
        let role = self
            .tree
            .child_node(None, TreePlace::Role(CoreRole::Receive));
        self.times.add(role, place_time(from_ns, until_ns));
        let Some(cpu) = message.kernel_cpu.filter(|_| from_ns < until_ns) else {
            return;
        };
        let piece = CorePiece {
            cpu,
            from_ns,
            until_ns,
        };
        let (spans, labels) = (self.spans, self.labels);
        self.contexts.add(cpu, (from_ns, until_ns), spans, labels);
        let mut thread = None;
        self.spans
            .visit_overlapping(cpu, from_ns, until_ns, |span| {
                let observed = piece.overlap_time(span);
                close_before(&mut self.open, span);
                if is_interrupt(self.labels.get(span.what)) || !self.open.is_empty() {
                    let around = self.open.last().map_or(role, |(_, node)| *node);
                    if let Some(thread) = thread.filter(|_| around == role) {
                        self.times.subtract_time(thread, observed.time_ns);
                    }
                    let node = self
                        .tree
                        .child_node(Some(around), TreePlace::Within(span.what));
                    self.times.add_span(node, observed, piece.id(span));
                    self.open.push((span.end_ns, node));
                    self.receive(role, &piece, span);
                } else if span.depth == 0 {
                    let node = self
                        .tree
                        .child_node(Some(role), TreePlace::Other(span.what));
                    self.times.add_span(node, observed, piece.id(span));
                    thread = Some(node);
                }
            });
    }

    /// Adds the thread's part of the lifetime: its waits, and what its CPU does while it wants to
    /// run.
    fn add_thread_part(&mut self, threads: &QueueTable) {
        let message = self.message;
        let (from_ns, until_ns) = message.application_ns();
        let role = self
            .tree
            .child_node(None, TreePlace::Role(CoreRole::Application));
        self.times.add(role, place_time(from_ns, until_ns));
        let mut at_ns = from_ns;
        for blocked in threads.blocked_spans(message.tid, from_ns, until_ns) {
            let start_ns = blocked.start_ns.clamp(at_ns, until_ns);
            self.wants_cpu(role, at_ns, start_ns);
            at_ns = blocked.woken_ns.clamp(start_ns, until_ns);
            let node = self
                .tree
                .child_node(Some(role), TreePlace::Blocked(blocked.object));
            self.times.add(node, place_time(start_ns, at_ns));
        }
        self.wants_cpu(role, at_ns, until_ns);
    }

    /// Adds time in which the thread has a CPU or wants one: the activity of the CPU that it gets
    /// next.
    fn wants_cpu(&mut self, role: TreeNode, from_ns: u64, until_ns: u64) {
        let mut at_ns = from_ns;
        for on in self.spans.thread_intervals(self.message.tid, from_ns) {
            if at_ns >= until_ns {
                return;
            }
            let begin_ns = on.begin_ns.clamp(at_ns, until_ns);
            if let Some(moved) = self.spans.find_move(self.message.tid, at_ns, begin_ns) {
                self.moving = self.move_state(moved.cpu, at_ns);
                self.add_cpu_activity(role, moved.cpu, at_ns, moved.at_ns);
                self.add_cpu_activity(role, on.cpu, moved.at_ns, begin_ns);
                self.moving = MoveState::Not;
                at_ns = begin_ns;
            }
            let to_ns = on.end_ns.clamp(at_ns, until_ns);
            self.add_cpu_activity(role, on.cpu, at_ns, to_ns);
            at_ns = to_ns;
        }
        self.add_cpu_activity(role, self.message.cpu, at_ns, until_ns);
    }

    /// Returns how the scheduler moves a thread that lost its CPU at this time.
    fn move_state(&self, cpu: u16, at_ns: u64) -> MoveState {
        let mut moving = MoveState::Queued;
        self.spans.visit_overlapping(cpu, at_ns, at_ns + 1, |span| {
            if span.depth == 0 && is_stopper(self.labels.get(span.what)) {
                moving = MoveState::Stopped;
            }
        });
        moving
    }

    /// Adds the activity of one CPU: before the thread was at another message, meanwhile, and since it took this one.
    fn add_cpu_activity(&mut self, role: TreeNode, cpu: u16, from_ns: u64, until_ns: u64) {
        let taken_ns = self.message.times.taken_ns;
        let since_ns = self.queue.since_ns.unwrap_or(taken_ns).min(taken_ns);
        let piece = |a: u64, b: u64| CorePiece {
            cpu,
            from_ns: a.clamp(from_ns, until_ns),
            until_ns: b.clamp(from_ns, until_ns),
        };
        self.add_core_piece(role, piece(from_ns, since_ns), TreePlace::Own);
        self.add_core_piece(role, piece(since_ns, taken_ns), TreePlace::OtherMessage);
        self.add_core_piece(role, piece(taken_ns, until_ns), TreePlace::Own);
    }

    /// Adds the activity of the thread's core. `own`: the place of the thread's own time.
    fn add_core_piece(&mut self, role: TreeNode, piece: CorePiece, own: TreePlace) {
        if piece.from_ns >= piece.until_ns {
            return;
        }
        self.open.clear();
        let (from_ns, until_ns) = (piece.from_ns, piece.until_ns);
        let (spans, labels) = (self.spans, self.labels);
        self.contexts
            .add(piece.cpu, (from_ns, until_ns), spans, labels);
        self.spans
            .visit_overlapping(piece.cpu, from_ns, until_ns, |span| {
                let observed = piece.overlap_time(span);
                close_before(&mut self.open, span);
                let around = match self.open[..] {
                    [] => None,
                    // other threads do not do it, nor is a CPU idle meanwhile: a separate place
                    [(_, context), ..] if self.is_apart(context, span) => {
                        self.times.subtract_time(context, observed.time_ns);
                        Some(role)
                    }
                    [.., (_, node)] => Some(node),
                };
                let place = match around {
                    Some(_) => TreePlace::Within(span.what),
                    None if span.tid == self.message.tid => own,
                    None if self.moving.is_it(self.labels.get(span.what)) => TreePlace::Moved,
                    None => TreePlace::Other(span.what),
                };
                let node = self.tree.child_node(Some(around.unwrap_or(role)), place);
                self.times.add_span(node, observed, piece.id(span));
                self.open.push((span.end_ns, node));
                self.receive(role, &piece, span);
            });
    }

    /// Adds the part of the last softirq that was not for this message, but for others that a CPU received
    /// then: of other programs, or on the receive core also of its own, as far as they went first. What a program's own
    /// messages take of its application core is receive processing there, whichever they are.
    fn receive(&mut self, role: TreeNode, piece: &CorePiece, softirq: &ActivitySpan) {
        if self.labels.get(softirq.what).kind != ActivityKind::Softirq {
            return;
        }
        let is_kernel = self.tree.place(role) == TreePlace::Role(CoreRole::Receive);
        let own = self.side.program(self.message);
        let (from_ns, until_ns) = piece.clip_span(softirq);
        let all = self
            .side
            .receptions
            .find_within(piece.cpu, from_ns, until_ns);
        for other in all {
            let place = match Some(other.program) == own {
                false => TreePlace::Received(other.program),
                true if is_kernel && other.end_ns < self.message.times.handed_ns => {
                    TreePlace::OtherMessage
                }
                true => continue,
            };
            let observed = place_time(other.begin_ns, other.end_ns);
            self.take_from_open(observed.time_ns);
            let node = self.tree.child_node(Some(role), place);
            self.times.add_span(node, observed, piece.id(softirq));
        }
    }

    /// Takes this time off the open activities that it interrupts.
    fn take_from_open(&mut self, time_ns: u64) {
        for (_, node) in self.open.iter().rev() {
            match self.tree.place(*node) {
                TreePlace::Other(_) | TreePlace::Moved | TreePlace::Blocked(_) => return,
                _ => self.times.subtract_time(*node, time_ns),
            }
        }
    }

    /// Returns whether a span is an interrupt that has nothing to do with the context which it interrupts: the first
    /// of nested ones, and not of the thread itself.
    fn is_apart(&self, context: TreeNode, span: &ActivitySpan) -> bool {
        let is_first = |node| match self.tree.place(node) {
            TreePlace::Within(what) => !is_interrupt(self.labels.get(what)),
            _ => true,
        };
        is_interrupt(self.labels.get(span.what))
            && matches!(
                self.tree.place(context),
                TreePlace::Other(_) | TreePlace::Moved
            )
            && self.open.iter().all(|(_, node)| is_first(*node))
    }
}

/// Returns whether the activity is a hard or soft interrupt.
fn is_interrupt(what: &SpanLabel) -> bool {
    matches!(what.kind, ActivityKind::Irq | ActivityKind::Softirq)
}

/// Returns whether the thread is the kernel's stopper, which moves threads off a CPU.
fn is_stopper(what: &SpanLabel) -> bool {
    let name = what.name.as_deref().unwrap_or_default();
    what.kind == ActivityKind::Task && name.starts_with("migration/")
}

impl MoveState {
    /// Returns whether a moved thread waits for this activity, and not for what has the CPU.
    fn is_it(self, context: &SpanLabel) -> bool {
        match self {
            Self::Not => false,
            Self::Queued => context.kind == ActivityKind::Idle || is_stopper(context),
            Self::Stopped => true,
        }
    }
}

/// Removes activities that ended before a span begins.
fn close_before(open: &mut Vec<(u64, TreeNode)>, span: &ActivitySpan) {
    while open
        .last()
        .is_some_and(|(end_ns, _)| *end_ns <= span.begin_ns)
    {
        open.pop();
    }
}

impl CorePiece {
    /// Returns the part of a span within this piece, as begin and end, ns.
    fn clip_span(&self, span: &ActivitySpan) -> (u64, u64) {
        let begin_ns = span.begin_ns.max(self.from_ns);
        (begin_ns, span.end_ns.min(self.until_ns).max(begin_ns))
    }

    /// Returns the id of a span on its CPU.
    fn id(&self, span: &ActivitySpan) -> SpanId {
        SpanId {
            cpu: self.cpu,
            begin_ns: span.begin_ns,
            depth: span.depth,
        }
    }

    /// Returns the time of a span within this piece.
    fn overlap_time(&self, span: &ActivitySpan) -> PlaceTime {
        let (begin_ns, end_ns) = self.clip_span(span);
        PlaceTime {
            time_ns: end_ns.saturating_sub(begin_ns),
            count: u32::from(span.begin_seen && span.begin_ns >= self.from_ns),
        }
    }
}
