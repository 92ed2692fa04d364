//! Event loops that wait for a connection of a pool: a request that was read has to ask another server, and all
//! connections to that one are in use.
//!
//! A loop takes a free connection at once, or opens one. If it asks on a connection in the same round in which it read the
//! response to another request there, nobody had to wait for that connection to be free but this request: it waited since the
//! loop last took a free one. Where a process has several loops (haproxy's `nbthread`), the one that reads the response may wake
//! another one for that: its request waited, too. A loop that calls and blocks until the response has come serves nobody else
//! meanwhile: no request waits for a connection there, but for the loop.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

use table::Waker;

use super::history::{History, Release, ThreadEventKind, ThreadId, ThreadWait};
use super::id::{EndpointId, ServiceId};
use super::owner::is_of_loop;
use crate::rows::hash::CookieHasher;
use crate::waits::StackPurpose;

/// Events of a thread that are read from a response to the next request on its connection: a round of a loop has fewer.
const EVENTS_MOST: usize = 256;

/// Wait of a request for a connection of its loop's pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopPoolWait {
    /// How long, ns.
    pub ns: u64,
    /// Of this, the time until another loop of the process gave one away, or with a free connection that nobody saw, ns.
    pub through_ns: u64,
    /// The connection that it got.
    pub endpoint: EndpointId,
}

impl LoopPoolWait {
    /// Joins the waits of one request: their sum, with the connection of the first one.
    pub fn join(first: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (Some(mut sum), Some(more)) = (first, other) else {
            return first.or(other);
        };
        sum.ns += more.ns;
        sum.through_ns += more.through_ns;
        Some(sum)
    }

    /// Returns the wait without what other loops may have ended; `None`: that is all of it.
    fn of_own_loop(self) -> Option<Self> {
        let own = Self {
            ns: self.ns - self.through_ns,
            through_ns: 0,
            ..self
        };
        Some(own).filter(|it| it.ns > 0 || self.through_ns == 0)
    }
}

/// Such waits of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoopPoolDigest {
    /// Sum, ns.
    pub ns: u64,
    /// The longest, ns.
    pub most_ns: u64,
    /// Requests that had to wait.
    pub requests: u64,
    /// The connection of the longest.
    pub endpoint: Option<EndpointId>,
}

impl LoopPoolDigest {
    /// Adds the wait of a request.
    fn add(&mut self, wait: LoopPoolWait) {
        self.ns += wait.ns;
        self.requests += 1;
        if wait.ns >= self.most_ns {
            self.most_ns = wait.ns;
            self.endpoint = Some(wait.endpoint);
        }
    }
}

/// Such waits of a service: that another loop gave a connection away proves less than that the same one did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoopPoolDigests {
    /// Waits that the same loop ended.
    pub of_own_loop: LoopPoolDigest,
    /// All waits.
    pub all: LoopPoolDigest,
}

impl LoopPoolDigests {
    /// Adds the wait of a request.
    pub fn add(&mut self, wait: LoopPoolWait) {
        self.all.add(wait);
        if let Some(own) = wait.of_own_loop() {
            self.of_own_loop.add(own);
        }
    }
}

/// A free connection that a loop took.
#[derive(Debug, Clone, Copy)]
struct TakenConnection {
    ns: u64,
    /// It took no other since then that may have been free, or not.
    is_last: bool,
}

/// When threads last took a connection to a service that was free.
#[derive(Debug, Default)]
pub struct FreeConnections {
    taken: HashMap<(ServiceId, ThreadId), TakenConnection>,
    used: HashMap<ServiceId, UsedConnections, BuildHasherDefault<CookieHasher>>,
}

/// Connections to a service with a request that has no response yet.
#[derive(Debug, Default)]
struct UsedConnections {
    now: HashSet<EndpointId, BuildHasherDefault<CookieHasher>>,
    /// As many as there ever were at once.
    most: u64,
}

impl FreeConnections {
    /// Notes that a connection to a service has a request.
    pub fn begin_use(&mut self, service: ServiceId, endpoint: EndpointId) {
        let used = self.used.entry(service).or_default();
        used.now.insert(endpoint);
        used.most = used.most.max(used.now.len() as u64);
    }

    /// Notes that a connection has the response, or is closed.
    pub fn end_use(&mut self, service: ServiceId, endpoint: EndpointId) {
        if let Some(used) = self.used.get_mut(&service) {
            used.now.remove(&endpoint);
        }
    }

    /// Returns how many connections to a service had a request at once, at most.
    pub fn most_in_use(&self, service: ServiceId) -> u64 {
        self.used.get(&service).map_or(0, |used| used.most)
    }

    /// Adds a request of a thread to a service. `before`: the last one on the connection. Returns the release of a connection
    /// if the thread asks in the same round of its loop, or in the round for which the loop that read the response woke it.
    /// `is_of_service`: whether a connection belongs to the service.
    pub fn ask(
        &mut self,
        (history, is_of_service): (&History, &dyn Fn(EndpointId) -> bool),
        (service, thread): (ServiceId, ThreadId),
        begin_ns: u64,
        before: Option<AskedBefore>,
    ) -> Option<Release> {
        let key = (service, thread);
        let known = self.taken.get(&key).copied();
        let known_ns = known.map(|it| it.ns);
        let release = match before.and_then(|it| it.find_round(history, thread)) {
            // else the request that had it may still have it
            Some((has_answered, by)) => {
                let since_ns = known_ns.filter(|_| has_answered || by.is_some())?;
                Some((since_ns, by, None))
            }
            None => {
                let other = find_other_loop(history, (thread, begin_ns), is_of_service);
                match known_ns.zip(other) {
                    Some((since_ns, (other, Some(by)))) => Some((since_ns, Some(by), Some(other))),
                    // it may have woken this loop for anything, and the request may have waited all the same
                    Some((_, (_, None))) => {
                        self.taken.entry(key).and_modify(|it| it.is_last = false);
                        return None;
                    }
                    None => None,
                }
            }
        };
        let Some((since_ns, by, through)) = release else {
            let taken = TakenConnection {
                ns: begin_ns,
                is_last: true,
            };
            self.taken.insert(key, taken);
            return None;
        };
        Some(Release {
            since_ns,
            by,
            through,
            is_sure: through.is_none() && known.is_some_and(|it| it.is_last),
        })
    }
}

/// The last request of a loop on a connection.
#[derive(Debug, Clone, Copy)]
pub struct AskedBefore {
    /// When the loop had sent it.
    pub asked_ns: u64,
    /// When the loop had read the response.
    pub read_ns: u64,
    /// The connection with the request that it was for.
    pub by: Option<EndpointId>,
}

impl AskedBefore {
    /// Returns whether the loop answered a request in the round in which it read the response, and for which request it asked
    /// before; `None`: it is another round.
    fn find_round(
        &self,
        history: &History,
        thread: ThreadId,
    ) -> Option<(bool, Option<EndpointId>)> {
        let of_loop = Some(self).filter(|it| it.has_looped(history, thread))?;
        Some((find_answer(history, thread, of_loop.read_ns)?, of_loop.by))
    }

    /// Returns whether the thread waited in its loop before it had the response; else it blocked in a call.
    fn has_looped(&self, history: &History, thread: ThreadId) -> bool {
        let own = history.get(thread);
        let before = (0..own.event_count_until(self.read_ns)).rev();
        let events = before
            .filter_map(|number| own.event(number))
            .take(EVENTS_MOST);
        let mut since = events.take_while(|event| event.end_ns > self.asked_ns);
        since.any(
            |event| matches!(&event.kind, ThreadEventKind::Wait(wait) if is_of_loop(wait.object)),
        )
    }
}

/// Returns the loop of the same process that read a response of the service and then woke this one for its round, and the
/// connection with the request that the response was for, if that is known.
fn find_other_loop(
    history: &History,
    (thread, begin_ns): (ThreadId, u64),
    is_of_service: &dyn Fn(EndpointId) -> bool,
) -> Option<(ThreadId, Option<EndpointId>)> {
    let woken = last_round(history, thread, begin_ns)?;
    let other = woken.waker_thread.filter(|it| {
        woken.waker == Waker::Thread
            && *it != thread
            && history.get(*it).pid == history.get(thread).pid
    })?;
    let own = history.get(other);
    let before = (0..own.event_count_until(woken.woken_ns)).rev();
    let events = before
        .filter_map(|number| own.event(number))
        .take(EVENTS_MOST);
    for event in events {
        match &event.kind {
            ThreadEventKind::Wait(wait) if may_be_idle(wait) => return None,
            ThreadEventKind::Call(call)
                if call.response.is_some() && is_of_service(call.endpoint) =>
            {
                return Some((other, call.served));
            }
            ThreadEventKind::Call(_)
            | ThreadEventKind::Wait(_)
            | ThreadEventKind::Preemption(_) => {}
        }
    }
    None
}

/// Returns whether a thread may have waited for other work: threads of a runtime wait for that on futexes, too.
fn may_be_idle(wait: &ThreadWait) -> bool {
    wait.purpose != StackPurpose::Mutex && !wait.kernel.is_beside_call()
}

/// Returns the wait after which a round of a loop began.
fn last_round(history: &History, thread: ThreadId, ns: u64) -> Option<ThreadWait> {
    let own = history.get(thread);
    let before = (0..own.event_count_until(ns)).rev().take(EVENTS_MOST);
    let mut events = before.filter_map(|number| own.event(number));
    events.find_map(|event| match event.kind {
        ThreadEventKind::Wait(wait) if is_of_loop(wait.object) => Some(wait),
        _ => None,
    })
}

/// Returns whether the thread answered a request since `read_ns`; `None`: it waited in its loop since then.
fn find_answer(history: &History, thread: ThreadId, read_ns: u64) -> Option<bool> {
    let own = history.get(thread);
    let events = (own.event_count_until(read_ns)..).map_while(|number| own.event(number));
    let mut has_answered = false;
    for (count, event) in events.enumerate() {
        match &event.kind {
            _ if count == EVENTS_MOST => return None,
            ThreadEventKind::Wait(wait) if is_of_loop(wait.object) => return None,
            ThreadEventKind::Call(call) => {
                has_answered |= call.is_send && call.served == Some(call.endpoint);
            }
            ThreadEventKind::Wait(_) | ThreadEventKind::Preemption(_) => {}
        }
    }
    Some(has_answered)
}
