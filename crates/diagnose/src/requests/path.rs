//! The critical path: backward from a time over the waits of a thread and those who ended them. What a thread waited for
//! takes the time of the wait; a wait that another recorded thread ended goes on in that thread.

use table::{WaitObject, Waker};

use super::endpoint::{EndpointId, EndpointTable};
use super::history::{
    History, Target, ThreadCall, ThreadEvent, ThreadEventKind, ThreadId, ThreadPreemption,
    ThreadWait,
};
use super::part::RequestPart;
use super::service::Side;
use super::trail::{StepSubject, Trail};
use crate::waits::StackPurpose;

/// Events that are read for one stretch of a request: a loop that serves many connections has more than matter.
const HOPS_MOST: u32 = 1_000;

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
}

/// A place on a path.
struct Position {
    thread: ThreadId,
    /// Events of the thread before it.
    events: usize,
    /// Says what the request waited for later on: while the thread is idle or serves others, it still does.
    later: Option<(RequestPart, StepSubject)>,
    /// The thread served others since.
    has_others: bool,
}

impl PathFinder<'_> {
    /// Accounts the time from where `trail` is back to `until_ns`, beginning in `thread`.
    pub fn walk(&self, context: &PathContext, thread: ThreadId, until_ns: u64, trail: &mut Trail) {
        self.walk_at_depth(context, thread, until_ns, trail, 0);
        trail.add(until_ns, RequestPart::Unknown, None, StepSubject::default());
    }

    fn walk_at_depth(
        &self,
        context: &PathContext,
        thread: ThreadId,
        until_ns: u64,
        trail: &mut Trail,
        depth: u32,
    ) {
        let mut at = self.position(thread, trail.at_ns());
        for _ in 0..HOPS_MOST {
            if trail.at_ns() <= until_ns {
                return;
            }
            let event = at.events.checked_sub(1);
            let event = event.and_then(|number| self.history.get(at.thread).event(number));
            let Some(event) = event.copied() else {
                return self.run(&at, until_ns, trail);
            };
            self.run(&at, event.end_ns.max(until_ns), trail);
            at.events -= 1;
            if trail.at_ns() > until_ns {
                self.pass(context, &event, until_ns, trail, (&mut at, depth));
            }
        }
    }

    fn position(&self, thread: ThreadId, ns: u64) -> Position {
        Position {
            thread,
            events: self.history.get(thread).until(ns),
            later: None,
            has_others: false,
        }
    }

    /// The thread ran since `begin_ns`, as far as that is known.
    fn run(&self, at: &Position, begin_ns: u64, trail: &mut Trail) {
        let thread = self.history.get(at.thread);
        let is_known = self.has_waits && thread.is_known_since(begin_ns);
        let (part, about) = match at.later {
            Some(later) if at.has_others => later,
            _ if is_known => (RequestPart::Cpu, StepSubject::default()),
            _ => (RequestPart::Unknown, StepSubject::default()),
        };
        trail.add(begin_ns, part, Some(at.thread), about);
    }

    /// Goes back over an event.
    fn pass(
        &self,
        context: &PathContext,
        event: &ThreadEvent,
        until_ns: u64,
        trail: &mut Trail,
        (at, depth): (&mut Position, u32),
    ) {
        match &event.kind {
            ThreadEventKind::Call(call) => self.pass_call(context, call, until_ns, trail, at),
            ThreadEventKind::Wait(wait) => {
                self.pass_wait(context, wait, until_ns, trail, (at, depth));
            }
            ThreadEventKind::Preemption(preemption) => {
                let begin_ns = event.end_ns.saturating_sub(preemption.off_cpu_ns);
                self.pass_preemption(preemption, begin_ns.max(until_ns), trail, at);
            }
        }
    }

    /// The thread could run, and did not. A sum of short times is put at the end of the last of them, and not before what
    /// the thread did last.
    fn pass_preemption(
        &self,
        preemption: &ThreadPreemption,
        begin_ns: u64,
        trail: &mut Trail,
        at: &Position,
    ) {
        let before = at.events.checked_sub(1);
        let before = before.and_then(|number| self.history.get(at.thread).event(number));
        let begin_ns = before.map_or(begin_ns, |event| begin_ns.max(event.end_ns));
        let own = match preemption.is_quota {
            true => RequestPart::CpuQuota,
            false => RequestPart::Preempted,
        };
        let (part, about) = match at.later {
            Some(later) if at.has_others => later,
            _ => (own, StepSubject::default()),
        };
        trail.add(begin_ns, part, Some(at.thread), about);
    }

    /// A response that this request had asked for came: it waited for that since it asked.
    fn pass_call(
        &self,
        context: &PathContext,
        call: &ThreadCall,
        until_ns: u64,
        trail: &mut Trail,
        at: &mut Position,
    ) {
        if call.endpoint == context.own {
            at.has_others = false;
            return;
        }
        at.has_others |= call.is_served;
        let is_serving = context.side == Side::Server;
        let asked_ns = call
            .asked_ns
            .filter(|ns| is_serving && *ns >= context.begin_ns);
        if let Some(asked_ns) = asked_ns.filter(|_| Some(call.endpoint) != context.peer) {
            let about = StepSubject {
                endpoint: Some(call.endpoint),
                ..StepSubject::default()
            };
            trail.add(
                asked_ns.max(until_ns),
                RequestPart::Upstream,
                Some(at.thread),
                about,
            );
            *at = self.position(at.thread, trail.at_ns());
        }
    }

    fn pass_wait(
        &self,
        context: &PathContext,
        wait: &ThreadWait,
        until_ns: u64,
        trail: &mut Trail,
        (at, depth): (&mut Position, u32),
    ) {
        let none = StepSubject::default();
        let thread = Some(at.thread);
        trail.add(
            wait.woken_ns.max(until_ns),
            RequestPart::RunQueue,
            thread,
            none,
        );
        let begin_ns = wait.start_ns.max(until_ns);
        match self.cause(context, at.thread, wait) {
            Cause::Part(part, about) => {
                at.later = Some((part, about));
                at.has_others = false;
                trail.add(begin_ns, part, thread, about);
            }
            Cause::Own => self.wait_own(context, begin_ns, wait.waker_thread, trail, depth),
            Cause::Idle => {
                let later = at.later.unwrap_or((RequestPart::Unknown, none));
                trail.add(begin_ns, later.0, thread, later.1);
            }
            Cause::Handover(other) => *at = self.position(other, trail.at_ns()),
            Cause::Helper(other) if depth < DEPTH_MOST => {
                self.walk_at_depth(context, other, begin_ns, trail, depth + 1);
            }
            Cause::Helper(_) => trail.add(begin_ns, RequestPart::Process, thread, none),
        }
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
            self.walk_at_depth(context, other, begin_ns, trail, depth + 1);
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
        let is_blocked_on_it = wait.object == WaitObject::Connection;
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
