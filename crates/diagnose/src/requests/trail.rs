//! The steps of a request's time, from the last to the first: without gap or overlap, so that their parts add up.

use super::endpoint::EndpointId;
use super::functions::{FunctionCounts, ThreadSample};
use super::history::ThreadId;
use super::holder_times::{HolderTimes, HolderWork};
use super::long_work::LongWait;
use super::loop_pool::LoopPoolWait;
use super::pace::{ClientPace, PaceCounter, PaceEvidence};
use super::part::{PartTimes, RequestPart};
use super::queue_times::QueueTimes;

/// Steps that are kept of a request: more than anyone reads. The sums have all.
pub const STEPS_MOST: usize = 64;

/// Subject of a step, beside its thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepSubject {
    /// Connection that was waited for.
    pub endpoint: Option<EndpointId>,
    /// Requests that it waited behind.
    pub behind: u64,
    /// Thread that ended the wait.
    pub waker: Option<ThreadId>,
    /// Number of the program's stack in it.
    pub stack: Option<u32>,
}

impl StepSubject {
    /// Returns whether two steps have the same subject, apart from the number of requests ahead.
    fn is_same(&self, other: &Self) -> bool {
        let behind = self.behind;
        *self == Self { behind, ..*other }
    }
}

/// Connections with requests that a request waited behind: each counts once, however often the thread turned to it.
#[derive(Debug, Default)]
struct OthersCount {
    /// By number of a connection: the step that counted it last.
    stamps: Vec<u64>,
    /// Steps are numbered through all requests.
    step: u64,
    /// First step of this request.
    first_step: u64,
    /// How many in this request.
    total: u64,
}

impl OthersCount {
    /// Begins a new step, without counted others.
    fn restart(&mut self) {
        self.step += 1;
        self.first_step = self.step;
        self.total = 0;
    }

    /// Counts a connection; returns whether the step did not have it yet.
    fn add(&mut self, other: EndpointId) -> bool {
        if self.stamps.len() <= other.index() {
            self.stamps.resize(other.index() + 1, 0);
        }
        let before = std::mem::replace(&mut self.stamps[other.index()], self.step);
        self.total += u64::from(before < self.first_step);
        before != self.step
    }
}

/// An interval of a request in which one thing took the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestStep {
    /// When it began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Part of the request to which the time belongs.
    pub part: RequestPart,
    /// In which thread; `None`: in none.
    pub thread: Option<ThreadId>,
    /// Subject of the step: connection, waker, stack.
    pub subject: StepSubject,
}

impl RequestStep {
    /// Returns how long it lasted, ns.
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }

    /// Returns how much of it every wake-up takes, ns.
    pub fn wake_ns(&self) -> u64 {
        self.part.wake_ns(self.length_ns())
    }

    /// Returns whether the step has this part, thread and subject.
    fn is_like(&self, part: RequestPart, thread: Option<ThreadId>, subject: &StepSubject) -> bool {
        (self.part, self.thread) == (part, thread) && self.subject.is_same(subject)
    }
}

/// Time of one part of a thread, in steps that are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnkeptTime {
    /// In which thread; `None`: in none.
    pub thread: Option<ThreadId>,
    /// Part of the request to which the time belongs.
    pub part: RequestPart,
    /// Sum of the steps, ns.
    pub ns: u64,
    /// Of these, what every wake-up takes, ns: [`RequestPart::wake_ns`] of each step.
    pub wake_ns: u64,
}

/// Time of steps that are not kept, by thread and part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnkeptTimes(Vec<UnkeptTime>);

impl UnkeptTimes {
    /// Adds a step.
    fn add_step(&mut self, step: &RequestStep) {
        self.add(UnkeptTime {
            thread: step.thread,
            part: step.part,
            ns: step.length_ns(),
            wake_ns: step.wake_ns(),
        });
    }

    /// Adds time to the sum of the same thread and part.
    fn add(&mut self, time: UnkeptTime) {
        let is_same = |it: &&mut UnkeptTime| (it.thread, it.part) == (time.thread, time.part);
        match self.0.iter_mut().find(is_same) {
            Some(sum) => {
                sum.ns += time.ns;
                sum.wake_ns += time.wake_ns;
            }
            None => self.0.push(time),
        }
    }

    /// Returns the sums, one for each thread and part.
    pub fn iter(&self) -> impl Iterator<Item = UnkeptTime> {
        self.0.iter().copied()
    }
}

/// Steps that are found backward in time, and their sums.
#[derive(Debug)]
pub struct Trail {
    /// Until where the time is accounted, from its end.
    at_ns: u64,
    parts: PartTimes,
    functions: FunctionCounts,
    /// The last one first.
    steps: Vec<RequestStep>,
    unkept: UnkeptTimes,
    is_cut: bool,
    others: OthersCount,
    /// Requests that were served while it lay unread.
    unread_behind: u64,
    /// Time of its queue in which threads worked for no other.
    queue: QueueTimes,
    pace: PaceCounter,
    /// Work of those that it waited for.
    holders: HolderTimes,
    /// Its wait for a connection to another server.
    loop_pool: Option<LoopPoolWait>,
}

impl Default for Trail {
    fn default() -> Self {
        Self {
            at_ns: 0,
            parts: PartTimes::default(),
            functions: FunctionCounts::default(),
            steps: Vec::with_capacity(STEPS_MOST),
            unkept: UnkeptTimes::default(),
            is_cut: false,
            others: OthersCount::default(),
            unread_behind: 0,
            queue: QueueTimes::default(),
            pace: PaceCounter::default(),
            holders: HolderTimes::default(),
            loop_pool: None,
        }
    }
}

impl Trail {
    /// Starts again, at an end.
    pub fn restart(&mut self, end_ns: u64) {
        self.at_ns = end_ns;
        self.parts = PartTimes::default();
        self.functions = FunctionCounts::default();
        self.steps.clear();
        self.unkept.0.clear();
        self.is_cut = false;
        self.others.restart();
        self.unread_behind = 0;
        self.queue = QueueTimes::default();
        self.pace = PaceCounter::default();
        self.holders = HolderTimes::default();
        self.loop_pool = None;
    }

    /// Returns until where the time is accounted.
    pub fn at_ns(&self) -> u64 {
        self.at_ns
    }

    /// Returns the time of each part so far.
    pub fn parts(&self) -> &PartTimes {
        &self.parts
    }

    /// Returns the time of a part so far, ns.
    pub fn ns(&self, part: RequestPart) -> u64 {
        self.parts.get(part)
    }

    /// Moves time from one part to another, the latest steps first.
    pub fn turn(&mut self, from: RequestPart, to: RequestPart, ns: u64) {
        self.parts.shift(from, to, ns);
        let mut left_ns = ns;
        let mut number = 0;
        while let Some(step) = self.steps.get_mut(number).filter(|_| left_ns > 0) {
            let length_ns = step.length_ns();
            if step.part == from && length_ns > left_ns {
                let later = RequestStep {
                    begin_ns: step.end_ns - left_ns,
                    part: to,
                    ..*step
                };
                step.end_ns = later.begin_ns;
                self.steps.insert(number, later);
                return;
            }
            if step.part == from {
                step.part = to;
                left_ns -= length_ns;
            }
            number += 1;
        }
    }

    /// Adds samples of a thread that ran.
    pub fn add_samples<'a>(&mut self, samples: impl Iterator<Item = &'a ThreadSample>) {
        samples.for_each(|sample| self.functions.add(sample));
    }

    /// Counts a sleep of a client by its own pace, before it is accounted; `next_ns`: the next part was sent by then.
    pub(super) fn count_pace(&mut self, evidence: PaceEvidence, begin_ns: u64, next_ns: u64) {
        self.pace
            .add(evidence, self.at_ns.saturating_sub(begin_ns), next_ns);
    }

    /// Takes the sleeps of a client by its own pace.
    pub(super) fn take_pace(&mut self) -> ClientPace {
        self.pace.take()
    }

    /// Counts what the process did that a wait was for.
    pub(super) fn count_holder(&mut self, part: RequestPart, work: &HolderWork) {
        self.holders.add_work(part, work);
    }

    /// Takes what processes did that the request waited for.
    pub(super) fn take_holders(&mut self) -> HolderTimes {
        std::mem::take(&mut self.holders)
    }

    /// Counts a wait for a connection to another server; of several, the last one is named.
    pub(super) fn count_loop_pool(&mut self, wait: Option<LoopPoolWait>) {
        self.loop_pool = LoopPoolWait::join(self.loop_pool, wait);
    }

    /// Takes the wait for a connection to another server.
    pub(super) fn take_loop_pool(&mut self) -> Option<LoopPoolWait> {
        self.loop_pool.take()
    }

    /// Accounts the time back to `begin_ns`; nothing if it is accounted already.
    pub fn add(
        &mut self,
        begin_ns: u64,
        part: RequestPart,
        thread: Option<ThreadId>,
        about: StepSubject,
    ) {
        if begin_ns >= self.at_ns {
            return;
        }
        let end_ns = std::mem::replace(&mut self.at_ns, begin_ns);
        self.parts.add(part, end_ns - begin_ns);
        if part == RequestPart::Queued && about.endpoint.is_some() {
            self.queue.held_ns += end_ns - begin_ns;
        }
        // once some are not kept, a later one does not follow the last that is
        if let Some(last) = self.steps.last_mut().filter(|_| !self.is_cut)
            && last.is_like(part, thread, &about)
        {
            last.begin_ns = begin_ns;
            last.subject.behind = last.subject.behind.max(about.behind);
            return;
        }
        let step = RequestStep {
            begin_ns,
            end_ns,
            part,
            thread,
            subject: about,
        };
        // `turn` may have divided one
        if self.steps.len() >= STEPS_MOST {
            self.is_cut = true;
            self.unkept.add_step(&step);
            return;
        }
        self.steps.push(step);
    }

    /// Adds time that a thread spent for the request of another connection.
    pub fn add_behind(&mut self, begin_ns: u64, thread: Option<ThreadId>, other: EndpointId) {
        if begin_ns >= self.at_ns {
            return;
        }
        let part = RequestPart::Queued;
        let none = StepSubject::default();
        let last = self.steps.last().filter(|_| !self.is_cut);
        let last = last.filter(|last| last.is_like(part, thread, &none));
        if last.is_none() {
            self.others.step += 1;
        }
        let behind = last.map_or(0, |last| last.subject.behind);
        let behind = behind + u64::from(self.others.add(other));
        self.add(begin_ns, part, thread, StepSubject { behind, ..none });
    }

    /// Adds a step in which the request lay unread, while the thread served `behind` other
    /// requests.
    pub fn add_unread(&mut self, begin_ns: u64, thread: ThreadId, behind: u64) {
        if begin_ns >= self.at_ns {
            return;
        }
        self.unread_behind = self.unread_behind.max(behind);
        let about = StepSubject {
            behind,
            ..StepSubject::default()
        };
        self.add(begin_ns, RequestPart::Queued, Some(thread), about);
    }

    /// Adds a step in which the request waited for a thread that could run and had no CPU.
    pub fn add_lack(&mut self, begin_ns: u64, part: RequestPart, thread: Option<ThreadId>) {
        self.queue
            .add_lack(part, self.at_ns.saturating_sub(begin_ns));
        self.add(begin_ns, part, thread, StepSubject::default());
    }

    /// Adds a step in which the request waited for a thread that waited for bytes of another client; `behind`: it served so
    /// many other requests.
    pub fn add_held(
        &mut self,
        begin_ns: u64,
        thread: ThreadId,
        (endpoint, behind): (EndpointId, u64),
    ) {
        if begin_ns >= self.at_ns {
            return;
        }
        self.unread_behind = self.unread_behind.max(behind);
        let about = StepSubject {
            endpoint: Some(endpoint),
            behind,
            ..StepSubject::default()
        };
        self.add(begin_ns, RequestPart::Queued, Some(thread), about);
    }

    /// Returns the number of requests that the request waited behind. A loop may read all requests
    /// first, and then answer all: then the same ones are served while it lies unread, and answered
    /// after it is read. So the larger number counts.
    fn queue_most(&self) -> u64 {
        self.others.total.max(self.unread_behind)
    }

    /// Adds the steps of the trail to a request's breakdown.
    pub fn append_to(&self, breakdown: &mut RequestBreakdown) {
        breakdown.parts.add_all(&self.parts);
        breakdown.functions.add_all(&self.functions);
        breakdown.queue_most = breakdown.queue_most.max(self.queue_most());
        breakdown.queue.add(&self.queue);
        let room = STEPS_MOST - breakdown.steps.len();
        breakdown.is_cut |= self.is_cut || self.steps.len() > room;
        for step in self.steps.iter().rev().take(room) {
            breakdown.push(*step);
        }
        for step in self.steps.iter().rev().skip(room) {
            breakdown.unkept.add_step(step);
        }
        for time in self.unkept.iter() {
            breakdown.unkept.add(time);
        }
    }
}

/// Holds the duration of a request, divided by part, function and step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestBreakdown {
    /// Time of each part.
    pub parts: PartTimes,
    /// Samples of the functions that ran in the time that counts as `cpu`.
    pub functions: FunctionCounts,
    /// The steps in the order of time.
    pub steps: Vec<RequestStep>,
    /// Time of the others.
    pub unkept: UnkeptTimes,
    /// Steps are missing, because there were too many.
    pub is_cut: bool,
    /// Most requests that it waited behind at a time.
    pub queue_most: u64,
    /// Time of its queue in which threads worked for no other.
    pub queue: QueueTimes,
    /// Its wait behind long requests.
    pub behind_long: LongWait,
}

impl RequestBreakdown {
    /// Adds all time of another breakdown as one part, and the time after it until `end_ns`.
    pub fn take_over(
        &mut self,
        other: Self,
        part: RequestPart,
        (gap_begin_ns, end_ns): (u64, u64),
    ) {
        self.parts
            .add(part, other.parts.total_ns() + end_ns - gap_begin_ns);
        self.is_cut |= other.is_cut;
        for time in other.unkept.iter() {
            self.unkept.add(UnkeptTime {
                part,
                wake_ns: 0,
                ..time
            });
        }
        let gap = RequestStep {
            begin_ns: gap_begin_ns,
            end_ns,
            part,
            thread: None,
            subject: StepSubject::default(),
        };
        let steps = other
            .steps
            .into_iter()
            .map(|step| RequestStep { part, ..step });
        let steps = steps.chain((gap_begin_ns < end_ns).then_some(gap));
        for step in steps.take(STEPS_MOST) {
            self.push(step);
        }
    }

    /// Adds a step; joins it with the last one if they are alike.
    fn push(&mut self, step: RequestStep) {
        if let Some(last) = self.steps.last_mut()
            && last.part == step.part
            && last.thread == step.thread
            && last.subject == step.subject
            && last.end_ns == step.begin_ns
        {
            last.end_ns = step.end_ns;
            return;
        }
        self.steps.push(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_beyond_the_kept_steps_counts() {
        const PARTS: [RequestPart; 2] = [RequestPart::Disk, RequestPart::Cpu];
        let mut breakdown = RequestBreakdown::default();
        for _ in 0..2 {
            let mut trail = Trail::default();
            trail.restart(100);
            for begin_ns in (0..100).rev() {
                let part = PARTS[begin_ns as usize % 2];
                trail.add(begin_ns, part, None, StepSubject::default());
            }
            trail.append_to(&mut breakdown);
        }
        let kept_ns: u64 = breakdown.steps.iter().map(RequestStep::length_ns).sum();
        let unkept_ns: u64 = breakdown.unkept.iter().map(|it| it.ns).sum();
        assert_eq!(
            (breakdown.steps.len(), breakdown.parts.total_ns()),
            (64, 200)
        );
        assert_eq!((kept_ns, unkept_ns), (64, 200 - 64));
        assert!(breakdown.is_cut);
    }

    /// A read that a thread was woken for, 200 times in one request.
    #[test]
    fn wakes_beyond_the_kept_steps_count() {
        const STEP_NS: u64 = 80_000;
        let mut trail = Trail::default();
        trail.restart(400 * STEP_NS);
        for step in (0..400).rev() {
            let part = [RequestPart::Cpu, RequestPart::RunQueue][step % 2];
            trail.add(step as u64 * STEP_NS, part, None, StepSubject::default());
        }
        let mut breakdown = RequestBreakdown::default();
        trail.append_to(&mut breakdown);
        let kept_ns: u64 = breakdown.steps.iter().map(RequestStep::wake_ns).sum();
        let unkept_ns: u64 = breakdown.unkept.iter().map(|it| it.wake_ns).sum();
        assert_eq!(kept_ns + unkept_ns, 200 * crate::kernel::WAKE_NS);
    }

    #[test]
    fn a_step_that_is_divided_leaves_no_room_without_bound() {
        let mut trail = Trail::default();
        trail.restart(1_000);
        for begin_ns in (0..900).rev().step_by(10) {
            let part = [RequestPart::Remote, RequestPart::Cpu][begin_ns / 10 % 2];
            trail.add(begin_ns as u64, part, None, StepSubject::default());
            if trail.steps.len() == STEPS_MOST && !trail.is_cut {
                trail.turn(RequestPart::Remote, RequestPart::Network, 3);
            }
        }
        assert_eq!(trail.steps.len(), STEPS_MOST + 1);
    }
}
