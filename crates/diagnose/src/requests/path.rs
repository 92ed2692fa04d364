//! The critical path: backward from a time over the waits of a thread and those who ended them. What a thread waited for
//! takes the time of the wait; a wait that another recorded thread ended goes on in that thread.

use std::cell::Cell;

use table::{WaitObject, Waker};

use super::endpoint::{EndpointId, EndpointTable};
use super::history::{
    History, Target, ThreadCall, ThreadEvent, ThreadEventKind, ThreadId, ThreadPreemption,
    ThreadWait,
};
use super::owner::is_of_loop;
use super::part::RequestPart;
use super::service::Side;
use super::trail::{StepSubject, Trail};
use crate::waits::{KernelPurpose, StackPurpose};

/// Events that are read for one stretch of a request, at least: a loop that serves many connections has more than matter.
/// More are read as long as [`HopCredit`] has some.
const HOPS_LEAST: u32 = 1_000;

/// More events that are read for each call of a response, on average: so time stays linear in calls.
const HOPS_PER_CALL: u64 = 64;

/// Events that may be read before any call came.
const HOPS_AT_FIRST: u64 = 1 << 20;

/// Threads that wait for each other are followed so deep.
const DEPTH_MOST: u32 = 6;

/// The request that a path belongs to.
#[derive(Debug, Clone, Copy)]
pub struct PathContext {
    /// Its connection.
    pub own: EndpointId,
    /// The other end of that, if it is recorded.
    pub peer: Option<EndpointId>,
    /// Says which side this end is on.
    pub side: Side,
    /// When the request began.
    pub begin_ns: u64,
    /// The thread that had the request, and since when.
    pub home: (ThreadId, u64),
    /// Of a client, the connection with the request that asked.
    pub served: Option<EndpointId>,
}

impl PathContext {
    /// Whether what a thread did for the request of a connection, it did for this one.
    fn is_own(&self, served: EndpointId) -> bool {
        served == self.own || Some(served) == self.peer || Some(served) == self.served
    }

    /// Whether the time of other requests can be separated from that of this one.
    fn has_others(&self) -> bool {
        self.side == Side::Server || self.served.is_some()
    }
}

/// Events that paths may read beyond [`HOPS_LEAST`].
#[derive(Debug)]
pub struct HopCredit(Cell<u64>);

impl Default for HopCredit {
    fn default() -> Self {
        Self(Cell::new(HOPS_AT_FIRST))
    }
}

impl HopCredit {
    /// Adds the credit of a call.
    pub fn add_call(&self) {
        self.0.set(self.0.get().saturating_add(HOPS_PER_CALL));
    }

    fn take(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }
}

/// Says what a wait means for a request.
enum Cause {
    /// The time goes to this.
    Part(RequestPart, StepSubject),
    /// It waited for its own connection.
    Own,
    /// The thread had nothing to do: the request waited for something that is not seen here.
    Idle,
    /// Another thread had the request until then.
    Handover(ThreadId),
    /// Another thread did something for it meanwhile.
    Helper(ThreadId),
}

/// Finds the path of requests.
#[derive(Debug, Clone, Copy)]
pub struct PathFinder<'a> {
    /// Says what threads did.
    pub history: &'a History,
    /// All connections.
    pub endpoints: &'a EndpointTable,
    /// Whether the recording has waits.
    pub has_waits: bool,
    /// How much may be read.
    pub credit: &'a HopCredit,
}

/// The call that a thread made next after a place on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextCall {
    /// None before a wait of the loop.
    None,
    /// One for this request.
    Own(CallEnd),
    /// One for the request of another connection.
    Other(CallEnd, EndpointId),
}

/// When a call ended, and whether it sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CallEnd {
    end_ns: u64,
    is_send: bool,
}

impl CallEnd {
    fn new(end_ns: u64, is_send: bool) -> Self {
        Self { end_ns, is_send }
    }
}

/// A place on a path.
struct Position {
    thread: ThreadId,
    /// Events of the thread before it.
    events: usize,
    /// Says what the request waited for later on: while the thread is idle or serves others, it still does.
    later: Option<(RequestPart, StepSubject)>,
    next: NextCall,
    /// The thread read another request later on.
    has_read: bool,
    /// The request that this one waited behind, as counted last.
    behind: Option<EndpointId>,
    /// Threads that are followed.
    depth: u32,
}

impl PathFinder<'_> {
    /// Accounts the time from where `trail` is back to `until_ns`, beginning in `thread`.
    pub fn walk(&self, context: &PathContext, thread: ThreadId, until_ns: u64, trail: &mut Trail) {
        let at = self.position(thread, trail.at_ns(), 0);
        self.walk_all(context, at, until_ns, trail);
    }

    /// The same, beginning with a send call for the request.
    pub fn walk_from_send(
        &self,
        context: &PathContext,
        thread: ThreadId,
        until_ns: u64,
        trail: &mut Trail,
    ) {
        let mut at = self.position(thread, trail.at_ns(), 0);
        at.next = NextCall::Own(CallEnd::new(trail.at_ns(), true));
        self.walk_all(context, at, until_ns, trail);
    }

    fn walk_all(&self, context: &PathContext, mut at: Position, until_ns: u64, trail: &mut Trail) {
        self.walk_on(context, &mut at, until_ns, trail);
        trail.add(until_ns, RequestPart::Unknown, None, StepSubject::default());
    }

    /// Goes on as far as events are known.
    fn walk_on(&self, context: &PathContext, at: &mut Position, until_ns: u64, trail: &mut Trail) {
        let mut hops = 0;
        while trail.at_ns() > until_ns && (hops < HOPS_LEAST || self.credit.take()) {
            hops += 1;
            let event = at.events.checked_sub(1);
            let event = event.and_then(|number| self.history.get(at.thread).event(number));
            let Some(event) = event.copied() else {
                return self.run(context, at, until_ns, trail);
            };
            self.run(context, at, event.end_ns.max(until_ns), trail);
            at.events -= 1;
            if trail.at_ns() > until_ns {
                self.pass(context, &event, until_ns, trail, at);
            }
        }
    }

    fn position(&self, thread: ThreadId, ns: u64, depth: u32) -> Position {
        Position {
            thread,
            events: self.history.get(thread).until(ns),
            later: None,
            next: NextCall::None,
            has_read: false,
            behind: None,
            depth,
        }
    }

    /// The thread ran since `begin_ns`, as far as that is known.
    fn run(&self, context: &PathContext, at: &mut Position, begin_ns: u64, trail: &mut Trail) {
        let is_known = self.has_waits && self.history.get(at.thread).is_known_since(begin_ns);
        let part = match is_known {
            true => RequestPart::Cpu,
            false => RequestPart::Unknown,
        };
        self.work(context, at, (begin_ns, part), trail);
    }

    /// The thread worked since `begin_ns`, or was kept from it: for this request, or for another that this one waited
    /// behind, unless it waited for something else anyway.
    fn work(
        &self,
        context: &PathContext,
        at: &mut Position,
        (begin_ns, part): (u64, RequestPart),
        trail: &mut Trail,
    ) {
        let thread = Some(at.thread);
        let Some(other) = self.other(context, at) else {
            if part == RequestPart::Cpu {
                let history = self.history.get(at.thread);
                trail.add_samples(history.samples(begin_ns, trail.at_ns()));
            }
            return trail.add(begin_ns, part, thread, StepSubject::default());
        };
        let (part, about) = at.later.unwrap_or_else(|| {
            let about = StepSubject {
                behind: u64::from(at.behind != Some(other)),
                ..StepSubject::default()
            };
            (RequestPart::Queued, about)
        });
        if part == RequestPart::Queued && begin_ns < trail.at_ns() {
            at.behind = Some(other);
        }
        trail.add(begin_ns, part, thread, about);
    }

    /// Returns the other request that the thread had to do with before a place; `None`: with none, as far as known.
    fn other(&self, context: &PathContext, at: &Position) -> Option<EndpointId> {
        if at.depth > 0 || !context.has_others() {
            return None;
        }
        let thread = self.history.get(at.thread);
        let owner = thread.owner_before(at.events);
        let Some(owner) = owner else {
            return match at.next {
                NextCall::Other(_, other) => Some(other),
                NextCall::None | NextCall::Own(_) => None,
            };
        };
        let length_ns = |next: CallEnd| next.end_ns.saturating_sub(owner.since_ns);
        let is_own = context.is_own(owner.served);
        match at.next {
            NextCall::Own(_) if is_own => None,
            NextCall::Own(next) if owner.is_received && next.is_send => {
                let is_of_read = thread.work().is_after_read(length_ns(next));
                is_of_read.then_some(owner.served)
            }
            NextCall::Own(_) => owner.is_received.then_some(owner.served),
            NextCall::Other(next, other) if is_own && owner.is_received && next.is_send => {
                let is_of_send = thread.work().is_before_send(length_ns(next));
                is_of_send.then_some(other)
            }
            NextCall::Other(..) | NextCall::None => (!is_own).then_some(owner.served),
        }
    }

    /// Goes back over an event.
    fn pass(
        &self,
        context: &PathContext,
        event: &ThreadEvent,
        until_ns: u64,
        trail: &mut Trail,
        at: &mut Position,
    ) {
        match &event.kind {
            ThreadEventKind::Call(call) => {
                self.pass_call(context, (event.end_ns, call), until_ns, trail, at);
            }
            ThreadEventKind::Wait(wait) => self.pass_wait(context, wait, until_ns, trail, at),
            ThreadEventKind::Preemption(preemption) => {
                let begin_ns = event.end_ns.saturating_sub(preemption.off_cpu_ns);
                self.pass_preemption(context, preemption, begin_ns.max(until_ns), trail, at);
            }
        }
    }

    /// The thread could run, and did not. A sum of short times is put at the end of the last of them, and not before what
    /// the thread did last.
    fn pass_preemption(
        &self,
        context: &PathContext,
        preemption: &ThreadPreemption,
        begin_ns: u64,
        trail: &mut Trail,
        at: &mut Position,
    ) {
        let before = at.events.checked_sub(1);
        let before = before.and_then(|number| self.history.get(at.thread).event(number));
        let begin_ns = before.map_or(begin_ns, |event| begin_ns.max(event.end_ns));
        let part = match preemption.is_quota {
            true => RequestPart::CpuQuota,
            false => RequestPart::Preempted,
        };
        self.work(context, at, (begin_ns, part), trail);
    }

    /// Goes back over a call. If a response came that this request had asked for, it waited for that since it asked;
    /// while the response lay unread, the thread had to do with others.
    /// Returns the part that a request to another end is.
    fn part_of_asking(&self, endpoint: EndpointId) -> RequestPart {
        match self.endpoints.get(endpoint).is_resolver {
            true => RequestPart::Dns,
            false => RequestPart::Upstream,
        }
    }

    fn pass_call(
        &self,
        context: &PathContext,
        (end_ns, call): (u64, &ThreadCall),
        until_ns: u64,
        trail: &mut Trail,
        at: &mut Position,
    ) {
        let is_own = match call.served {
            Some(served) => call.endpoint == context.own || context.is_own(served),
            // The thread answered this request next: it had waited for that.
            None => call.endpoint == context.own || matches!(at.next, NextCall::Own(..)),
        };
        let end = CallEnd::new(end_ns, call.is_send);
        if !is_own {
            if let Some(served) = call.served {
                at.next = NextCall::Other(end, served);
                pass_round(call, served, at);
            }
            return;
        }
        at.has_read = false;
        at.next = NextCall::Own(end);
        let is_upstream = context.side == Side::Server && Some(call.endpoint) != context.peer;
        let response = call
            .response
            .filter(|it| is_upstream && it.asked_ns >= context.begin_ns);
        let Some(response) = response else {
            return;
        };
        self.walk_on(context, at, response.arrived_ns.max(until_ns), trail);
        let about = StepSubject {
            endpoint: Some(call.endpoint),
            ..StepSubject::default()
        };
        let asked_ns = response.asked_ns.max(until_ns);
        let part = self.part_of_asking(call.endpoint);
        trail.add(asked_ns, part, Some(at.thread), about);
        *at = self.position(at.thread, trail.at_ns(), at.depth);
    }

    fn pass_wait(
        &self,
        context: &PathContext,
        wait: &ThreadWait,
        until_ns: u64,
        trail: &mut Trail,
        at: &mut Position,
    ) {
        let none = StepSubject::default();
        let thread = Some(at.thread);
        self.work(
            context,
            at,
            (wait.woken_ns.max(until_ns), RequestPart::RunQueue),
            trail,
        );
        let begin_ns = wait.start_ns.max(until_ns);
        if is_of_loop(wait.object) {
            at.next = NextCall::None;
        } else if self.other(context, at).is_some() {
            // It waited in another request's work.
            return self.work(context, at, (begin_ns, RequestPart::Unknown), trail);
        }
        match self.cause(context, at.thread, wait) {
            Cause::Part(part, about) => {
                at.later = Some((part, about));
                trail.add(begin_ns, part, thread, about);
            }
            Cause::Own => self.wait_own(context, begin_ns, wait.waker_thread, trail, at.depth),
            Cause::Idle => {
                let (part, about) = *at.later.get_or_insert((RequestPart::Unknown, none));
                trail.add(begin_ns, part, thread, about);
            }
            Cause::Handover(other) => {
                let next = NextCall::Own(CallEnd::new(trail.at_ns(), true));
                let depth = at.depth;
                *at = self.position(other, trail.at_ns(), depth);
                at.next = next;
            }
            Cause::Helper(other) if at.depth < DEPTH_MOST => {
                self.walk_in(context, other, begin_ns, trail, at.depth + 1);
            }
            Cause::Helper(_) => trail.add(begin_ns, RequestPart::Process, thread, none),
        }
    }

    /// Goes back in a thread that did something for the request meanwhile.
    fn walk_in(
        &self,
        context: &PathContext,
        thread: ThreadId,
        until_ns: u64,
        trail: &mut Trail,
        depth: u32,
    ) {
        let mut at = self.position(thread, trail.at_ns(), depth);
        self.walk_on(context, &mut at, until_ns, trail);
    }

    /// The request waited for its connection until now: the other end's threads if they are recorded, else the path and
    /// the other end.
    pub fn wait_own(
        &self,
        context: &PathContext,
        begin_ns: u64,
        waker: Option<ThreadId>,
        trail: &mut Trail,
        depth: u32,
    ) {
        let about = StepSubject {
            endpoint: Some(context.own),
            ..StepSubject::default()
        };
        let other = waker.filter(|waker| self.is_of_peer(context, *waker));
        if let Some(other) = other.filter(|_| depth < DEPTH_MOST) {
            self.walk_in(context, other, begin_ns, trail, depth + 1);
        }
        let left_ns = trail.at_ns().saturating_sub(begin_ns);
        let path_ns = match other {
            Some(_) => left_ns,
            None => self.endpoints.get(context.own).min_rtt_ns.unwrap_or(0),
        };
        trail.add(
            trail.at_ns() - path_ns.min(left_ns),
            RequestPart::Network,
            None,
            about,
        );
        trail.add(begin_ns, RequestPart::Remote, None, about);
    }

    /// Whether a thread is of the process that has the other end, and its waits are recorded.
    pub fn is_of_peer(&self, context: &PathContext, thread: ThreadId) -> bool {
        let thread = self.history.get(thread);
        let peer = context.peer.map(|peer| self.endpoints.get(peer).pid);
        thread.has_waits && peer == Some(thread.pid)
    }

    fn cause(&self, context: &PathContext, thread: ThreadId, wait: &ThreadWait) -> Cause {
        match wait.kernel {
            KernelPurpose::Stopped | KernelPurpose::Frozen => {
                return Cause::Part(RequestPart::Paused, self.about(wait));
            }
            KernelPurpose::Reclaim | KernelPurpose::MajorFault => {
                return Cause::Part(RequestPart::Memory, self.about(wait));
            }
            KernelPurpose::Output | KernelPurpose::Sync | KernelPurpose::Unknown => {}
        }
        let is_recorded = wait.target != Target::None;
        if wait.is_output && !is_recorded && self.followed(thread, wait).is_none() {
            return Cause::Part(RequestPart::Output, self.about(wait));
        }
        match wait.target {
            Target::Connection(it) => self.cause_of_connection(context, thread, wait, it),
            Target::Socket => self.cause_of_socket(wait),
            Target::None => self.cause_of_object(context, thread, wait),
        }
    }

    fn cause_of_connection(
        &self,
        context: &PathContext,
        thread: ThreadId,
        wait: &ThreadWait,
        endpoint: EndpointId,
    ) -> Cause {
        let about = StepSubject {
            endpoint: Some(endpoint),
            ..StepSubject::default()
        };
        let is_blocked_on_it = matches!(
            wait.object,
            WaitObject::Connection | WaitObject::Unix | WaitObject::Datagram
        );
        let end = self.endpoints.get(endpoint);
        let is_resolver = end.is_resolver || wait.purpose == StackPurpose::Resolver;
        if is_resolver && endpoint != context.own {
            return Cause::Part(RequestPart::Dns, self.about(wait));
        }
        if end.is_udp && end.side == Side::Server && endpoint != context.own {
            return Cause::Idle; // a socket that serves waits for all of its clients
        }
        if endpoint == context.own {
            return Cause::Own;
        }
        if Some(endpoint) == context.peer || self.is_of_peer(context, thread) && !is_blocked_on_it {
            return Cause::Part(RequestPart::Network, about);
        }
        match self.endpoints.get(endpoint).side {
            Side::Client if context.side == Side::Server => {
                Cause::Part(RequestPart::Upstream, about)
            }
            _ if is_blocked_on_it => Cause::Part(RequestPart::Queued, about),
            _ => Cause::Idle,
        }
    }

    fn cause_of_socket(&self, wait: &ThreadWait) -> Cause {
        let part = match (wait.object, wait.purpose) {
            (_, StackPurpose::Resolver) => RequestPart::Dns,
            (WaitObject::Datagram | WaitObject::Connection | WaitObject::Socket, _) => {
                RequestPart::Upstream
            }
            _ => return Cause::Idle,
        };
        Cause::Part(part, self.about(wait))
    }

    fn about(&self, wait: &ThreadWait) -> StepSubject {
        StepSubject {
            waker: wait.waker_thread.filter(|_| wait.waker == Waker::Thread),
            stack: wait.stack,
            ..StepSubject::default()
        }
    }

    fn cause_of_object(&self, context: &PathContext, thread: ThreadId, wait: &ThreadWait) -> Cause {
        let part = match wait.object {
            _ if wait.purpose == StackPurpose::Resolver => RequestPart::Dns,
            WaitObject::Futex => return self.cause_of_futex(context, thread, wait),
            WaitObject::Epoll | WaitObject::Poll | WaitObject::Select | WaitObject::Event => {
                return self.cause_of_set(context, thread, wait);
            }
            WaitObject::Unix | WaitObject::Pipe | WaitObject::Signal => {
                return self.cause_of_process(thread, wait);
            }
            WaitObject::Child => RequestPart::Process,
            WaitObject::Sleep => RequestPart::Timer,
            WaitObject::PageFault => RequestPart::Memory,
            WaitObject::File => RequestPart::Disk,
            WaitObject::Datagram | WaitObject::Socket | WaitObject::Connection => {
                RequestPart::Upstream
            }
            WaitObject::Other if wait.uninterruptible => RequestPart::Disk,
            WaitObject::Listener => return Cause::Idle,
            WaitObject::IoUring | WaitObject::Other => RequestPart::Unknown,
        };
        Cause::Part(part, self.about(wait))
    }

    /// A futex is a lock for a thread that had the request already; for another, it is how it got the request.
    fn cause_of_futex(&self, context: &PathContext, thread: ThreadId, wait: &ThreadWait) -> Cause {
        let (home, since_ns) = context.home;
        let had_it = thread == home && wait.start_ns >= since_ns;
        let other = self.followed(thread, wait);
        match other {
            Some(other) if !had_it && wait.purpose != StackPurpose::Mutex => Cause::Handover(other),
            Some(other) if had_it && self.is_woken_by(other, thread, wait, context.begin_ns) => {
                Cause::Helper(other)
            }
            None if wait.waker == Waker::Interrupt && wait.purpose != StackPurpose::Mutex => {
                Cause::Part(RequestPart::Timer, self.about(wait))
            }
            _ => Cause::Part(RequestPart::Lock, self.about(wait)),
        }
    }

    /// Whether `helper` was woken by `thread` since the request began and shortly before it waited: it was given work.
    fn is_woken_by(
        &self,
        helper: ThreadId,
        thread: ThreadId,
        wait: &ThreadWait,
        begin_ns: u64,
    ) -> bool {
        let history = self.history.get(helper);
        let last = history.until(wait.woken_ns);
        let waits = (0..last).rev().take(16).filter_map(|at| history.event(at));
        let mut waits = waits.filter_map(|event| match event.kind {
            ThreadEventKind::Wait(wait) => Some(wait),
            ThreadEventKind::Call(_) | ThreadEventKind::Preemption(_) => None,
        });
        waits.any(|it| {
            it.woken_ns >= begin_ns && it.waker == Waker::Thread && it.waker_thread == Some(thread)
        })
    }

    /// The recorded thread of the same process that ended a wait.
    fn followed(&self, thread: ThreadId, wait: &ThreadWait) -> Option<ThreadId> {
        let pid = self.history.get(thread).pid;
        let other = wait
            .waker_thread
            .filter(|_| wait.waker == Waker::Thread)
            .filter(|other| *other != thread)?;
        let known = self.history.get(other);
        (known.pid == pid && known.has_waits).then_some(other)
    }

    /// A set of descriptors, or an event file: a thread of the process ended it, its time limit, or something that is
    /// not seen.
    fn cause_of_set(&self, context: &PathContext, thread: ThreadId, wait: &ThreadWait) -> Cause {
        let (home, since_ns) = context.home;
        match self.followed(thread, wait) {
            Some(other) if thread == home && wait.start_ns >= since_ns => Cause::Helper(other),
            Some(other) => Cause::Handover(other),
            None => match wait.waker {
                Waker::Thread => Cause::Part(RequestPart::Process, self.about(wait)),
                Waker::Interrupt if !wait.is_ready => {
                    Cause::Part(RequestPart::Timer, self.about(wait))
                }
                Waker::Interrupt | Waker::Unseen => Cause::Idle,
            },
        }
    }

    fn cause_of_process(&self, thread: ThreadId, wait: &ThreadWait) -> Cause {
        match (self.followed(thread, wait), wait.waker) {
            (Some(other), _) => Cause::Helper(other),
            (None, Waker::Interrupt) => Cause::Part(RequestPart::Timer, self.about(wait)),
            (None, _) => Cause::Part(RequestPart::Process, self.about(wait)),
        }
    }
}

/// Goes back over a call for another request. A loop that answered others and then read more did not have this request to
/// answer meanwhile: it waited for something that is not seen.
fn pass_round(call: &ThreadCall, served: EndpointId, at: &mut Position) {
    let is_of_client = call.endpoint == served;
    if is_of_client && call.is_send && at.has_read {
        at.later
            .get_or_insert((RequestPart::Unknown, StepSubject::default()));
    }
    at.has_read |= is_of_client && !call.is_send;
}
