//! Rounds of an event loop while a request waited in it. A loop that was idle says by the time limits of its waits when its
//! next timer was due. Of a loop that never was, some run one request after the other (asyncio): first the handlers of the
//! requests that it read in the round before, then what it reads in this round, then the timers that were due when the round
//! began. A request that slept is answered two rounds after its timer at the latest.

use super::due::DueRange;
use super::history::{ThreadCall, ThreadEventKind, ThreadHistory, ThreadWait};
use super::owner::is_of_loop;
use super::path_finder::{HOPS_LEAST, PathContext, PathFinder};
use super::position::Position;
use super::service::Side;

/// Reads after which the timer of a request was due at the earliest: those of the round before the last two.
const READS_AFTER_WHICH: usize = 2;

/// Activity of a loop since the last call for a request.
#[derive(Debug, Default)]
pub(super) struct LoopRounds {
    /// When the timer was due that it waited for.
    due: Option<DueRange>,
    /// When it waited last, or could have waited until.
    idle_ns: Option<u64>,
    /// It waited, and for no timer.
    has_no_timer: bool,
    /// Ends of its reads, a round each, the latest first: since it waited.
    reads_ns: Vec<u64>,
    /// How many of them come after an answer to another request.
    passed: usize,
    is_reading: bool,
    /// It runs one request after the other.
    is_serial: bool,
    /// It answered a request that it had read after this one, and does not do so anyway.
    is_overtaken: bool,
    /// The request slept since then at the earliest.
    own_ns: u64,
}

/// Bounds of a sleep that the loop's waits do not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SleepBounds {
    /// When it began.
    since_ns: u64,
    /// Length at least.
    least_ns: u64,
    /// Length at most, if the loop read something in each round.
    likely_ns: u64,
    /// Length at most.
    most_ns: u64,
}

impl SleepBounds {
    /// Returns the possible lengths of the sleep as two ranges, the likelier first, ns.
    pub(super) fn ranges_ns(&self) -> [(u64, u64); 2] {
        [self.likely_ns, self.most_ns].map(|most_ns| (self.least_ns, most_ns))
    }

    /// Returns when the sleep's timer was due, ns; `others_ns`: the mean of similar sleeps, else
    /// the middle is taken.
    pub(super) fn due_ns(&self, others_ns: Option<u64>) -> u64 {
        let middle_ns = self.least_ns.midpoint(self.likely_ns);
        self.since_ns + others_ns.unwrap_or(middle_ns)
    }
}

impl PathFinder<'_> {
    /// Returns what an event loop did before the request's own work, since its last call for the
    /// request.
    pub(super) fn rounds(&self, context: &PathContext, at: &mut Position) -> LoopRounds {
        let thread = self.history.get(at.thread);
        let is_home = at.depth == 0 && at.thread == context.home.0 && context.side == Side::Server;
        let round = at.round.get_or_insert_with(|| self.round(context));
        let mut rounds = LoopRounds {
            own_ns: context.home.1.min(at.own_ns),
            ..LoopRounds::default()
        };
        let before_own = thread.event_count_until(at.own_ns.saturating_sub(1));
        let numbers = (0..before_own).rev().take(HOPS_LEAST as usize);
        for number in numbers {
            let Some(event) = thread.event(number) else {
                break;
            };
            match &event.kind {
                ThreadEventKind::Call(call) if self.is_own_call(context, call) => {
                    rounds.own_ns = event.end_ns;
                    break;
                }
                ThreadEventKind::Wait(wait) if is_of_loop(wait.object) => {
                    let is_for_timer = rounds.wait(wait);
                    if is_for_timer {
                        continue;
                    }
                    rounds.own_ns = rounds.own_ns.max(event.end_ns);
                    break;
                }
                ThreadEventKind::Call(call) if is_home && call.served == Some(call.endpoint) => {
                    rounds.add_call(thread, number, call);
                    rounds.is_overtaken |= call.is_send
                        && round.is_later(call.endpoint)
                        && !thread.work().answers_latest_first();
                }
                _ => {}
            }
        }
        rounds.own_ns = rounds.own_ns.max(round.handler_ns);
        rounds
    }

    /// Returns whether a thread made this call for the request.
    fn is_own_call(&self, context: &PathContext, call: &ThreadCall) -> bool {
        let is_of_own = call.served.is_some_and(|served| context.is_own(served));
        call.endpoint == context.own || is_of_own
    }
}

/// Returns whether the time before a send call belongs to the request that it answers.
fn is_sent_at_once(thread: &ThreadHistory, number: usize) -> bool {
    let end_ns = |number: usize| thread.event(number).map(|event| event.end_ns);
    let before_ns = number.checked_sub(1).and_then(end_ns);
    let took_ns = end_ns(number).zip(before_ns);
    took_ns.is_some_and(|(end_ns, before_ns)| thread.work().is_before_send(end_ns - before_ns))
}

impl LoopRounds {
    /// Takes a wait of the loop. Returns whether it waited for a timer: else the request's began later, if it has one.
    fn wait(&mut self, wait: &ThreadWait) -> bool {
        let Some(due) = wait.until_ns.map(DueRange::of_limit) else {
            self.has_no_timer = self.due.is_none();
            return false;
        };
        let idle_ns = self.idle_ns.unwrap_or(0);
        self.idle_ns = Some(idle_ns.max(wait.start_ns).max(due.least_ns()));
        self.due = Some(self.due.map_or(due, |later| later.and_earlier(due)));
        true
    }

    /// Follows an event loop's rounds: a receive call begins one, a send call ends it.
    fn add_call(&mut self, thread: &ThreadHistory, number: usize, call: &ThreadCall) {
        if call.is_send {
            self.is_serial = self.is_serial || is_sent_at_once(thread, number);
            self.is_reading = false;
            self.passed = self.reads_ns.len();
        } else if !self.is_reading && self.idle_ns.is_none() {
            self.is_reading = true;
            self.reads_ns
                .extend(thread.event(number).map(|event| event.end_ns));
        }
    }

    /// Returns when the timer was due that the loop waited for, if that may be the request's, which was answered then.
    pub(super) fn due_ns(&self, answered_ns: u64) -> Option<u64> {
        let least_ns = self.least_ns();
        let due = self.due.filter(|due| !due.is_over_by(least_ns))?;
        let due_ns = due.end_until(answered_ns)?;
        Some(due_ns.max(least_ns))
    }

    /// Returns how long a sleep lasted that ended then.
    pub(super) fn length_ns(&self, until_ns: u64) -> u64 {
        until_ns.saturating_sub(self.own_ns)
    }

    /// Returns the bounds of a sleep that the loop's waits do not show; `None`: it may not have slept.
    pub(super) fn bounds(&self, answered_ns: u64) -> Option<SleepBounds> {
        let has_passed = self.passed > 0 || self.is_overtaken || self.idle_ns.is_some();
        if !self.is_serial || !has_passed || self.has_no_timer {
            return None;
        }
        let length_ns = |until_ns: u64| self.length_ns(until_ns.min(answered_ns));
        let reads_ns = self.reads_ns.first().filter(|_| self.passed > 0);
        Some(SleepBounds {
            since_ns: self.own_ns,
            least_ns: length_ns(self.least_ns()),
            likely_ns: length_ns(reads_ns.copied().unwrap_or(answered_ns)),
            most_ns: length_ns(answered_ns),
        })
    }

    /// Returns the time after which the timer was due: in a round before, the request would have been answered earlier.
    fn least_ns(&self) -> u64 {
        let reads_ns = self.reads_ns.get(READS_AFTER_WHICH).copied();
        let reads_ns = reads_ns.filter(|_| self.is_serial);
        reads_ns.max(self.idle_ns).unwrap_or(0)
    }
}
