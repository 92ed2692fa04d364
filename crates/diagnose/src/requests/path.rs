//! The critical path: backward from a time over the waits of a thread and those who ended them. What a thread waited for
//! takes the time of the wait; a wait that another recorded thread ended goes on in that thread.

use table::WaitObject;

use super::endpoint::EndpointId;
use super::history::{ThreadCall, ThreadEvent, ThreadEventKind, ThreadId, ThreadPreemption};
use super::owner::is_of_loop;
use super::part::RequestPart;
use super::path_finder::HOPS_LEAST;
pub use super::path_finder::{PathContext, PathFinder};
use super::position::{CallEnd, NextCall, PoolPlace, Position, SleepEvidence};
use super::service::Side;
use super::trail::{StepSubject, Trail};
use crate::waits::StackPurpose;

/// Threads that wait for each other are followed so deep.
pub(super) const DEPTH_MOST: u32 = 6;

impl PathFinder<'_> {
    /// Accounts the time from where `trail` is back to `until_ns`, beginning in `thread`.
    pub fn walk(&self, context: &PathContext, thread: ThreadId, until_ns: u64, trail: &mut Trail) {
        let at = self.position(thread, trail.at_ns(), 0);
        self.walk_all(context, at, until_ns, trail);
    }

    /// Walks the path back from a send call for the request.
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

    /// Walks a thread's past back to `until_ns`, and adds each step to the trail.
    fn walk_all(&self, context: &PathContext, mut at: Position, until_ns: u64, trail: &mut Trail) {
        let before_ns = trail.ns(RequestPart::Timer);
        self.leave_task_sleep(context, &mut at, until_ns, trail);
        self.walk_on(context, &mut at, until_ns, trail);
        count_loop_pool(context, &mut at, trail);
        let slept_ns = trail.ns(RequestPart::Timer) - before_ns;
        match at.sleep {
            SleepEvidence::None => {}
            SleepEvidence::Due(ns) => self.history.count_due(at.thread, ns),
            SleepEvidence::Timer => self.history.count_sleep(at.thread, Some(slept_ns)),
            SleepEvidence::Unseen => {
                let timer_ns = self.history.sleep_ns(at.thread, &[(0, slept_ns)]);
                let timer_ns = timer_ns.unwrap_or(0);
                trail.turn(
                    RequestPart::Timer,
                    RequestPart::Queued,
                    slept_ns - timer_ns.min(slept_ns),
                );
            }
        }
        trail.add(until_ns, RequestPart::Unknown, None, StepSubject::default());
    }

    /// Walks back through a thread's events as far as they are known.
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
            self.leave_sleep(context, at, trail);
            if at.pool.is_some_and(|place| trail.at_ns() <= place.since_ns) {
                count_loop_pool(context, at, trail);
            }
            at.events -= 1;
            if trail.at_ns() > until_ns {
                self.pass_event(context, &event, until_ns, trail, at);
            }
        }
    }

    /// Walks back over the sleep of a request, if a runtime runs its tasks in several threads.
    fn leave_task_sleep(
        &self,
        context: &PathContext,
        at: &mut Position,
        until_ns: u64,
        trail: &mut Trail,
    ) {
        let times = (until_ns, trail.at_ns());
        let Some(sleep) = self.task_sleep(context, (at.thread, at.events), times) else {
            return;
        };
        self.walk_on(context, at, sleep.due_ns, trail);
        let thread = Some(sleep.thread);
        trail.add(
            sleep.since_ns,
            RequestPart::Timer,
            thread,
            StepSubject::default(),
        );
        *at = self.position(sleep.thread, trail.at_ns(), at.depth);
    }

    /// Returns the start of a walk: a thread at a time.
    pub(super) fn position(&self, thread: ThreadId, ns: u64, depth: u32) -> Position {
        Position {
            thread,
            events: self.history.get(thread).event_count_until(ns),
            own_ns: ns,
            sent_ns: ns,
            due_ns: None,
            later: None,
            pool: None,
            round: None,
            next: NextCall::None,
            has_read: false,
            sleep: SleepEvidence::None,
            depth,
        }
    }

    /// Adds a step in which the thread ran from `begin_ns` on; the step has no known part where no
    /// wait could be seen.
    fn run(&self, context: &PathContext, at: &mut Position, begin_ns: u64, trail: &mut Trail) {
        let is_known = self.has_waits && self.history.get(at.thread).is_known_since(begin_ns);
        let part = match is_known {
            true => RequestPart::Cpu,
            false => RequestPart::Unknown,
        };
        self.account_work(context, at, (begin_ns, part), trail);
    }

    /// Adds the thread's work since `begin_ns`, or what kept it from work: for this request, or for
    /// another that this one waited behind, unless it waited for something else anyway. While the
    /// thread had no CPU, this one waited for a CPU, too.
    pub(super) fn account_work(
        &self,
        context: &PathContext,
        at: &mut Position,
        (begin_ns, part): (u64, RequestPart),
        trail: &mut Trail,
    ) {
        let thread = Some(at.thread);
        let Some(other) = self.other_request(context, at) else {
            if part == RequestPart::Cpu {
                let history = self.history.get(at.thread);
                trail.add_samples(history.samples(begin_ns, trail.at_ns()));
            }
            return trail.add(begin_ns, part, thread, StepSubject::default());
        };
        let due_ns = self.due_ns(context, at).filter(|_| at.later.is_none());
        let ready_ns = due_ns.map_or(begin_ns, |due_ns| due_ns.max(begin_ns));
        match at.later {
            Some((part, about)) => trail.add(ready_ns, part, thread, about),
            None if part.is_lack_of_cpu() => {
                trail.add_lack(ready_ns, part, thread);
            }
            None => trail.add_behind(ready_ns, thread, other),
        }
        if begin_ns < ready_ns {
            let timer = (RequestPart::Timer, StepSubject::default());
            let (part, about) = *at.later.insert(timer);
            trail.add(begin_ns, part, thread, about);
        }
    }

    /// Returns the other request that the thread worked for before a place in its history; `None`:
    /// none is known.
    pub(super) fn other_request(&self, context: &PathContext, at: &Position) -> Option<EndpointId> {
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

    /// Walks back over one event of a thread.
    fn pass_event(
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

    /// Adds the time in which the thread could run, and did not. A sum of short times is put at the
    /// end of the last of them, and not before what the thread did last.
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
        self.account_work(context, at, (begin_ns, preemption.part()), trail);
    }

    /// Returns the part of a request that waits for another end: name resolution or an upstream
    /// request.
    fn part_of_asking(&self, endpoint: EndpointId) -> RequestPart {
        match self.endpoints.get(endpoint).is_resolver {
            true => RequestPart::Dns,
            false => RequestPart::Upstream,
        }
    }

    /// Goes back over a call. If a response came that this request had asked for, it waited for that since it asked;
    /// while the response lay unread, the thread had to do with others.
    fn pass_call(
        &self,
        context: &PathContext,
        (end_ns, call): (u64, &ThreadCall),
        until_ns: u64,
        trail: &mut Trail,
        at: &mut Position,
    ) {
        if at.pool.is_some_and(|it| it.is_of_call(call, end_ns)) {
            return;
        }
        let is_own = match call.served {
            Some(served) => call.endpoint == context.own || context.is_own(served),
            // The thread answered this request next: it had waited for that.
            None => call.endpoint == context.own || matches!(at.next, NextCall::Own(..)),
        };
        let end = CallEnd::new(end_ns, call.is_send);
        if call.is_send && call.endpoint == context.own {
            at.sent_ns = end_ns;
        }
        if !is_own {
            if let Some(served) = call.served {
                at.next = NextCall::Other(end, served);
                if self.due_ns(context, at).is_none() {
                    self.pass_round(call, served, at);
                }
            }
            return;
        }
        count_loop_pool(context, at, trail);
        at.has_read = false;
        at.next = NextCall::Own(end);
        (at.own_ns, at.due_ns) = (end_ns, None);
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
        let release = response.release.filter(|it| it.by != Some(context.own));
        if let Some(release) = release.filter(|_| at.thread == context.home.0) {
            let place = PoolPlace {
                since_ns: release.since_ns,
                end_ns: asked_ns,
                endpoint: call.endpoint,
                through: release.through,
                is_sure: release.is_sure,
                has_waited: false,
            };
            at.enter_pool(place, part);
        }
    }

    /// Returns when the loop last worked for the request before a place: by then it can have given it away.
    pub(super) fn given_ns(&self, context: &PathContext, at: &Position) -> Option<u64> {
        let own = self.history.get(at.thread);
        let is_own = |served: EndpointId| context.is_own(served);
        let numbers = (0..=at.events).rev().take(HOPS_LEAST as usize);
        let events = numbers.filter_map(|number| own.event(number));
        let mut times = events.filter_map(|event| match &event.kind {
            ThreadEventKind::Call(call) => call.served.is_some_and(is_own).then_some(event.end_ns),
            ThreadEventKind::Wait(wait) => {
                let owner = event.owner.filter(|owner| is_own(owner.served));
                owner.map(|_| wait.start_ns)
            }
            ThreadEventKind::Preemption(_) => None,
        });
        times.next()
    }

    /// Returns since when a thread of a pool had work, at a time: it did not wait for more. What it did before the work for a
    /// request, that request waited for.
    pub(super) fn busy_since_ns(&self, thread: ThreadId, ns: u64) -> u64 {
        let own = self.history.get(thread);
        let is_idle = |event: &ThreadEvent| match &event.kind {
            ThreadEventKind::Wait(wait) => {
                let is_queue = is_of_loop(wait.object) || wait.object == WaitObject::Futex;
                is_queue && wait.purpose != StackPurpose::Mutex && wait.start_ns < ns
            }
            ThreadEventKind::Call(_) | ThreadEventKind::Preemption(_) => false,
        };
        let count = own.event_count_until(ns);
        if own.event(count).is_some_and(is_idle) {
            return ns;
        }
        let events = (0..count).rev().take(HOPS_LEAST as usize);
        let mut known_ns = ns;
        for event in events.filter_map(|number| own.event(number)) {
            known_ns = event.end_ns;
            if is_idle(event) {
                break;
            }
        }
        known_ns
    }

    /// Walks back in another thread that worked for the request meanwhile.
    pub(super) fn walk_in(
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

    /// Returns whether a thread belongs to the process at the other end, and its waits are
    /// recorded.
    pub fn is_of_peer(&self, context: &PathContext, thread: ThreadId) -> bool {
        let thread = self.history.get(thread);
        let peer = context.peer.map(|peer| self.endpoints.get(peer).pid);
        thread.has_waits && peer == Some(thread.pid)
    }
}

/// Ends the wait of a request for a connection, if it is in one, and counts it.
fn count_loop_pool(context: &PathContext, at: &mut Position, trail: &mut Trail) {
    let wait = at.leave_pool(trail.at_ns());
    trail.count_loop_pool(wait.filter(|_| !context.is_of_peer));
}
