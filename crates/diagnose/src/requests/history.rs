//! Keeps what each thread did lately: its waits and its calls, in the order of time. What no open request needs any longer is
//! dropped.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use table::{WaitObject, Waker};

use super::functions::ThreadSample;
use super::id::EndpointId;
pub use super::id::ThreadId;
use super::long_work::{LongWait, LongWorkLog};
use super::owner::{Owner, ThreadWork, TimedCall, is_of_loop};
use super::sleep_counts::SleepCounts;
use super::tasks::TaskRuntime;
pub use super::thread_event::{
    Release, ResponseTimes, Target, ThreadCall, ThreadEventKind, ThreadPreemption, ThreadWait,
};
use super::thread_gap::{ThreadGap, ThreadGapLog};
use crate::rows::hash::CookieHasher;
use crate::waits::StackPurpose;

/// Events that are kept of a thread, however old: a request may turn out to have begun before any that was open.
const KEPT_LEAST: usize = 1_024;

/// The same of a thread that did nothing since the oldest open request began, once there are many events in all.
const KEPT_OF_IDLE: usize = 16;

/// Events of all threads before old ones are searched: 100 MB.
const SWEPT_LEAST: usize = 1 << 20;

/// Events that are kept of a thread at most: 6 MB. What a longer request did before is unknown.
const KEPT_MOST: usize = 1 << 16;

/// Events of a thread that are read from a place for what it did just before or after: one lock, one job or one line of output
/// has a few.
pub const EVENTS_NEAR: usize = 64;

/// Activity of a thread until a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadEvent {
    /// When it ran again, or the call ended.
    pub end_ns: u64,
    /// Its kind.
    pub kind: ThreadEventKind,
    /// Requests that the thread had begun to serve by then.
    pub served: u64,
    /// The request that the thread had to do with until then.
    pub owner: Option<Owner>,
}

/// A thread and what it did.
#[derive(Debug)]
pub struct ThreadHistory {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Whether its waits are recorded.
    pub has_waits: bool,
    /// Requests that it has begun to serve.
    served: u64,
    work: ThreadWork,
    long: LongWorkLog,
    /// When it gave threads the results of their jobs, lately, in the order of time.
    results_ns: VecDeque<u64>,
    gaps: ThreadGapLog,
    /// Another thread of its process ended a wait of its event loop then, the last time; 0: none did.
    helped_ns: u64,
    /// Events until then are not known any more, or were never.
    known_from_ns: u64,
    events: VecDeque<ThreadEvent>,
    /// Samples of what it ran, in the order of time.
    samples: VecDeque<ThreadSample>,
}

impl ThreadHistory {
    /// Returns the number of events that ended until then.
    pub fn event_count_until(&self, ns: u64) -> usize {
        // Nearly always the last ones are meant.
        let late = self.events.iter().rev().take(4);
        let late = late.take_while(|event| event.end_ns > ns).count();
        if late < 4 {
            return self.events.len() - late;
        }
        self.events.partition_point(|event| event.end_ns <= ns)
    }

    /// Returns since when the thread did the job with the result that it gave at a time: since the result before; 0: none.
    pub fn job_since_ns(&self, given_ns: u64) -> u64 {
        let later = self.results_ns.partition_point(|ns| *ns < given_ns);
        let before = later.checked_sub(1).and_then(|at| self.results_ns.get(at));
        before.copied().unwrap_or(0)
    }

    /// Notes that the thread gave a result. Of those before `horizon_ns`, the last one is needed.
    fn add_result(&mut self, given_ns: u64, horizon_ns: u64) {
        let at = self.results_ns.partition_point(|ns| *ns <= given_ns);
        self.results_ns.insert(at, given_ns);
        let old = self.results_ns.partition_point(|ns| *ns < horizon_ns);
        let excess = self.results_ns.len().saturating_sub(KEPT_MOST);
        self.results_ns.drain(..old.saturating_sub(1).max(excess));
    }

    /// Returns the samples after a time and until another.
    pub fn samples(&self, after_ns: u64, until_ns: u64) -> impl Iterator<Item = &ThreadSample> {
        let first = self.samples.partition_point(|it| it.time_ns <= after_ns);
        let samples = self.samples.range(first..);
        samples.take_while(move |it| it.time_ns <= until_ns)
    }

    /// Returns an event by its number.
    pub fn event(&self, number: usize) -> Option<&ThreadEvent> {
        self.events.get(number)
    }

    /// Returns since when the thread asked name servers before `until_ns`; `None`: it did not.
    pub fn resolving_since(&self, until_ns: u64, pause_ns: u64) -> Option<u64> {
        let mut since_ns = None;
        for number in (0..self.event_count_until(until_ns)).rev() {
            let event = self.event(number)?;
            let wait = match event.kind {
                ThreadEventKind::Wait(wait) => wait,
                ThreadEventKind::Call(call) if !call.is_udp => break,
                ThreadEventKind::Call(_) | ThreadEventKind::Preemption(_) => continue,
            };
            let at_ns = since_ns.unwrap_or(until_ns);
            if wait.purpose != StackPurpose::Resolver
                || event.end_ns.saturating_add(pause_ns) < at_ns
            {
                break;
            }
            since_ns = Some(wait.start_ns);
        }
        since_ns
    }

    /// Returns whether the thread did nothing for a connection's request since `ns`, and waited for
    /// others or slept.
    pub fn is_idle_since(&self, own: EndpointId, ns: u64) -> bool {
        let later = (self.event_count_until(ns)..self.events.len())
            .rev()
            .take(KEPT_LEAST);
        let mut is_idle = false;
        for event in later.filter_map(|at| self.event(at)) {
            match event.kind {
                ThreadEventKind::Call(call) if call.served == Some(own) => return false,
                ThreadEventKind::Wait(wait) => {
                    let is_sleep = wait.object == WaitObject::Sleep;
                    is_idle |= is_sleep || is_of_loop(wait.object);
                }
                ThreadEventKind::Call(_) | ThreadEventKind::Preemption(_) => {}
            }
        }
        is_idle
    }

    /// Returns whether the history has all events since `ns`.
    pub fn is_known_since(&self, ns: u64) -> bool {
        self.known_from_ns <= ns
    }

    /// Returns since when events are known.
    pub fn known_from_ns(&self) -> u64 {
        self.known_from_ns
    }

    /// Returns whether nothing is known of the thread before `ns`, and none of its events was dropped: it is new.
    pub fn is_new_since(&self, ns: u64) -> bool {
        self.known_from_ns > ns && self.events.len() < KEPT_LEAST
    }

    /// Returns whether another thread of its process may have ended a wait of its event loop after `ns`.
    pub fn may_have_help_since(&self, ns: u64) -> bool {
        self.helped_ns > ns
    }

    /// Returns how many requests of others the thread began to serve between two times, and the
    /// last time of such work. Without `own`, all are others.
    pub fn count_others(
        &self,
        own: Option<EndpointId>,
        from_ns: u64,
        to_ns: u64,
    ) -> Option<(u64, u64)> {
        let (first, last) = (
            self.event_count_until(from_ns),
            self.event_count_until(to_ns),
        );
        let is_other = |event: &ThreadEvent| match event.kind {
            ThreadEventKind::Call(call) => call.served.is_some() && call.served != own,
            ThreadEventKind::Wait(_) | ThreadEventKind::Preemption(_) => false,
        };
        let at = (first..last).rev().take(KEPT_LEAST);
        let last = at.filter_map(|at| self.event(at)).find(|it| is_other(it))?;
        let before = match first.checked_sub(1) {
            Some(at) => self.event(at).map_or(last.served, |event| event.served),
            // What came before is not kept any more, or there was nothing: the first event may have begun one.
            None => self.event(0)?.served.saturating_sub(1),
        };
        Some(((last.served - before).max(1), last.end_ns))
    }

    /// Adds an event in the order of time; sums of short preemptions may come late.
    fn push(&mut self, end_ns: u64, kind: ThreadEventKind) {
        let later = self.events.iter().rev();
        let later = later.take_while(|event| event.end_ns > end_ns).count();
        let at = self.events.len() - later;
        let before = at.checked_sub(1).and_then(|at| self.events.get(at));
        let before_ns = before.map_or(0, |event| event.end_ns);
        let gaps = [
            ThreadGap::waiting(&kind),
            ThreadGap::without_cpu(end_ns, &kind, before_ns),
        ];
        gaps.into_iter()
            .flatten()
            .for_each(|gap| self.gaps.add(gap));
        let (served, owner) = match self.events.get(at) {
            Some(next) => (next.served, next.owner),
            None => (self.served, self.work.owner()),
        };
        let event = ThreadEvent {
            end_ns,
            kind,
            served,
            owner,
        };
        self.events.insert(at, event);
        match kind {
            ThreadEventKind::Call(call) => {
                self.long.call(end_ns, &call, &self.work);
                self.work.call(end_ns, &call);
            }
            ThreadEventKind::Wait(wait) => {
                self.long.wait(end_ns, &wait, self.work.owner());
                self.work.wait(wait.object);
            }
            ThreadEventKind::Preemption(preemption) => self.long.preempt(end_ns, &preemption),
        }
    }

    /// Returns a request's wait behind long requests of other connections; `own_ns`: its own time
    /// on the thread.
    pub fn wait_behind_long(&self, own: EndpointId, time: (u64, u64), own_ns: u64) -> LongWait {
        self.long.wait_behind(own, time, own_ns)
    }

    /// Returns intervals in which the thread worked for no request, before `ns`, the latest first.
    pub fn gaps_before(&self, ns: u64) -> impl Iterator<Item = &ThreadGap> {
        self.gaps.before(ns)
    }

    /// Returns the request that the thread worked on before an event.
    pub fn owner_before(&self, number: usize) -> Option<Owner> {
        match self.events.get(number) {
            Some(event) => event.owner,
            None => self.work.owner(),
        }
    }

    /// Returns how the thread divides its work among requests.
    pub fn work(&self) -> &ThreadWork {
        &self.work
    }

    /// Drops what is older than `horizon_ns`, but for the last events.
    fn prune(&mut self, horizon_ns: u64, kept_least: usize) {
        let excess = self.events.len().saturating_sub(KEPT_MOST);
        let spare = self.events.len().saturating_sub(kept_least);
        let old = self.events.partition_point(|it| it.end_ns < horizon_ns);
        let gone = old.min(spare).max(excess);
        if let Some(last) = gone.checked_sub(1).and_then(|at| self.events.get(at)) {
            self.known_from_ns = self.known_from_ns.max(last.end_ns);
            self.gaps.prune(self.known_from_ns);
        }
        self.events.drain(..gone);
    }
}

/// All threads, and what they did lately.
#[derive(Debug)]
pub struct History {
    numbers: HashMap<u64, ThreadId, BuildHasherDefault<CookieHasher>>,
    threads: Vec<ThreadHistory>,
    /// Requests that each process has begun to serve.
    served: HashMap<u32, u64>,
    /// Waits of requests within the loops of each process.
    sleeps: RefCell<HashMap<u32, SleepCounts>>,
    /// Runtimes of processes that run tasks in several threads.
    runtimes: HashMap<u32, TaskRuntime>,
    /// The thread of the last look-up.
    latest: Option<(u64, ThreadId)>,
    /// Events of all threads.
    events: usize,
    /// So many may be kept before old ones are searched.
    events_most: usize,
}

impl Default for History {
    fn default() -> Self {
        Self {
            numbers: HashMap::default(),
            threads: Vec::new(),
            served: HashMap::new(),
            sleeps: RefCell::default(),
            runtimes: HashMap::new(),
            latest: None,
            events: 0,
            events_most: SWEPT_LEAST,
        }
    }
}

impl History {
    /// Returns the number of requests that the thread began to serve; if none, those of its
    /// process.
    pub fn count_served(&self, thread: ThreadId) -> u64 {
        let thread = self.get(thread);
        match thread.served {
            0 => self.served.get(&thread.pid).copied().unwrap_or(0),
            served => served,
        }
    }

    /// Counts a wait of a request in its event loop: a timer of this length, or unknown.
    pub fn count_sleep(&self, thread: ThreadId, timer_ns: Option<u64>) {
        self.count(thread, |counts| counts.add(timer_ns));
    }

    /// Counts a wait for a timer by the thread's process, where the timer's length is not known
    /// well.
    pub fn count_due(&self, thread: ThreadId, timer_ns: u64) {
        self.count(thread, |counts| counts.add_due(timer_ns));
    }

    /// Lets `count` change the sleep counts of the thread's process.
    fn count(&self, thread: ThreadId, count: impl FnOnce(&mut SleepCounts)) {
        let mut sleeps = self.sleeps.borrow_mut();
        count(sleeps.entry(self.get(thread).pid).or_default());
    }

    /// Returns whether most waits of requests in the process's event loops were for timers.
    pub fn has_timers(&self, thread: ThreadId) -> bool {
        let sleeps = self.sleeps.borrow();
        sleeps
            .get(&self.get(thread).pid)
            .is_some_and(SleepCounts::are_timers)
    }

    /// Returns the mean length of the timers of a process, in the first of these ranges that has any.
    pub fn sleep_ns(&self, thread: ThreadId, ranges_ns: &[(u64, u64)]) -> Option<u64> {
        let sleeps = self.sleeps.borrow();
        sleeps.get(&self.get(thread).pid)?.mean_ns(ranges_ns)
    }

    /// Returns the runtime that runs tasks in this thread and others; `None`: there is none.
    pub fn task_runtime(&self, thread: ThreadId) -> Option<&TaskRuntime> {
        match self.runtimes.is_empty() {
            true => None,
            false => self.runtimes.get(&self.get(thread).pid),
        }
    }

    /// Returns whether a runtime of a process runs tasks in several threads.
    pub fn has_runtime_of(&self, pid: u32) -> bool {
        self.runtimes.contains_key(&pid)
    }

    /// Returns the id of a thread; a new thread gets one.
    pub fn thread(&mut self, pid: u32, tid: u32) -> ThreadId {
        let key = u64::from(pid) << 32 | u64::from(tid);
        if let Some((latest, thread)) = self.latest
            && latest == key
        {
            return thread;
        }
        let next = ThreadId::from_number(self.threads.len() as u32);
        let thread = *self.numbers.entry(key).or_insert(next);
        if thread == next {
            self.threads.push(ThreadHistory {
                pid,
                tid,
                has_waits: false,
                served: 0,
                work: ThreadWork::default(),
                long: LongWorkLog::default(),
                results_ns: VecDeque::new(),
                gaps: ThreadGapLog::default(),
                helped_ns: 0,
                known_from_ns: 0,
                events: VecDeque::new(),
                samples: VecDeque::new(),
            });
        }
        self.latest = Some((key, thread));
        thread
    }

    /// Returns the history of a thread.
    pub fn get(&self, thread: ThreadId) -> &ThreadHistory {
        &self.threads[thread.index()]
    }

    fn get_mut(&mut self, thread: ThreadId) -> &mut ThreadHistory {
        &mut self.threads[thread.index()]
    }

    /// Returns whether waits of a process are recorded.
    pub fn has_waits_of(&self, pid: u32) -> bool {
        let mut threads = self.threads.iter();
        threads.any(|thread| thread.pid == pid && thread.has_waits)
    }

    /// Returns when a thread last ended a wait or a call; 0: nothing is known.
    pub fn last_ns(&self, thread: ThreadId) -> u64 {
        let mut events = self.get(thread).events.iter().rev();
        let is_preemption =
            |event: &ThreadEvent| matches!(event.kind, ThreadEventKind::Preemption(_));
        let last = events.find(|event| !is_preemption(event));
        last.map_or(0, |event| event.end_ns)
    }

    /// Notes that a thread began to serve another request.
    pub fn begin_serving(&mut self, thread: ThreadId) {
        let history = self.get_mut(thread);
        history.served += 1;
        *self.served.entry(self.get(thread).pid).or_default() += 1;
    }

    /// Counts the time of a call for a request, before its time is accounted.
    pub fn count_time(&mut self, thread: ThreadId, call: TimedCall) {
        self.get_mut(thread).work.count_time(call);
    }

    /// Returns the connection with the request that a thread served when it began a request of its own.
    /// `time`: when, and whether another request released its connection in this round of a loop.
    pub fn asking_endpoint(&self, thread: ThreadId, time: (u64, bool)) -> Option<EndpointId> {
        self.get(thread).work.asking_endpoint(time)
    }

    /// Adds a sample of what a thread ran. `horizon_ns`: nothing older is needed.
    pub fn add_sample(&mut self, thread: ThreadId, sample: ThreadSample, horizon_ns: u64) {
        let samples = &mut self.get_mut(thread).samples;
        samples.push_back(sample);
        let spare = samples.len().saturating_sub(KEPT_LEAST);
        if samples.len() >= 2 * KEPT_LEAST {
            let old = samples.partition_point(|it| it.time_ns < horizon_ns);
            let excess = samples.len().saturating_sub(KEPT_MOST);
            samples.drain(..old.min(spare).max(excess));
        }
    }

    /// Adds what a thread did. `horizon_ns`: nothing older is needed.
    pub fn add(&mut self, thread: ThreadId, end_ns: u64, kind: ThreadEventKind, horizon_ns: u64) {
        self.add_to_runtime(thread, end_ns, &kind, horizon_ns);
        self.note_result(&kind, horizon_ns);
        let is_helped = self.is_helped_loop(thread, &kind);
        let history = self.get_mut(thread);
        if is_helped {
            history.helped_ns = history.helped_ns.max(end_ns);
        }
        if history.events.is_empty() && history.known_from_ns == 0 {
            history.known_from_ns = match kind {
                ThreadEventKind::Wait(wait) => wait.start_ns,
                ThreadEventKind::Call(_) | ThreadEventKind::Preemption(_) => end_ns,
            };
        }
        history.has_waits |= matches!(kind, ThreadEventKind::Wait(_));
        history.push(end_ns, kind);
        let most = history.events.capacity().max(2 * KEPT_LEAST);
        let before = history.events.len();
        if before == most || before > KEPT_MOST + KEPT_LEAST {
            history.prune(horizon_ns, KEPT_LEAST);
        }
        let gone = before - history.events.len();
        self.events = (self.events + 1).saturating_sub(gone);
        if self.events > self.events_most {
            self.sweep_threads(horizon_ns);
        }
    }

    /// Notes that a thread gave another the result of a job.
    fn note_result(&mut self, kind: &ThreadEventKind, horizon_ns: u64) {
        let ThreadEventKind::Wait(wait) = kind else {
            return;
        };
        let is_result = wait.purpose == StackPurpose::Result && wait.waker == Waker::Thread;
        if let Some(giver) = wait.waker_thread.filter(|_| is_result) {
            self.get_mut(giver).add_result(wait.woken_ns, horizon_ns);
        }
    }

    /// Returns whether another thread of the process ended this wait of an event loop.
    fn is_helped_loop(&self, thread: ThreadId, kind: &ThreadEventKind) -> bool {
        let ThreadEventKind::Wait(wait) = kind else {
            return false;
        };
        let other = wait.waker_thread.filter(|other| *other != thread);
        is_of_loop(wait.object)
            && other.is_some_and(|other| self.get(other).pid == self.get(thread).pid)
    }

    /// Adds an event to the task runtime of the process; a scheduler's wait shows that there is
    /// one.
    fn add_to_runtime(
        &mut self,
        thread: ThreadId,
        end_ns: u64,
        kind: &ThreadEventKind,
        horizon_ns: u64,
    ) {
        let pid = self.get(thread).pid;
        if let ThreadEventKind::Wait(wait) = kind
            && wait.purpose == StackPurpose::Scheduler
        {
            self.runtimes.entry(pid).or_default();
        } else if !self.runtimes.is_empty()
            && let Some(runtime) = self.runtimes.get_mut(&pid)
        {
            runtime.add(thread, end_ns, kind, horizon_ns);
        }
    }

    /// Removes events of threads that are idle since `horizon_ns`.
    fn sweep_threads(&mut self, horizon_ns: u64) {
        for thread in &mut self.threads {
            let last_ns = thread.events.back().map_or(0, |event| event.end_ns);
            if last_ns < horizon_ns {
                thread.prune(horizon_ns, KEPT_OF_IDLE);
                thread.events.shrink_to_fit();
            }
        }
        self.events = self.threads.iter().map(|it| it.events.len()).sum();
        self.events_most = SWEPT_LEAST.max(2 * self.events);
    }

    /// Returns the number of events of all threads.
    #[cfg(test)]
    pub fn event_count(&self) -> usize {
        self.events
    }

    /// Removes all events: what follows is of a later window.
    pub fn forget_all(&mut self) {
        for thread in &mut self.threads {
            thread.events.clear();
            thread.samples.clear();
            thread.work = ThreadWork::default();
            thread.long = LongWorkLog::default();
            thread.results_ns.clear();
            thread.helped_ns = 0;
            thread.gaps = ThreadGapLog::default();
            thread.known_from_ns = 0;
        }
        self.events = 0;
    }

    /// Notes that a pid belongs to a new process since `since_ns`, with other threads.
    pub fn replace_process(&mut self, pid: u32, since_ns: u64) {
        self.runtimes.remove(&pid);
        let same = self.threads.iter_mut().filter(|it| it.pid == pid);
        for thread in same {
            self.events -= thread.events.len().min(self.events);
            thread.events = VecDeque::new();
            thread.work = ThreadWork::default();
            thread.long = LongWorkLog::default();
            thread.results_ns.clear();
            thread.helped_ns = 0;
            thread.gaps = ThreadGapLog::default();
            thread.known_from_ns = thread.known_from_ns.max(since_ns);
        }
    }
}
