//! Requests that keep their thread for long, from the calls and waits of the thread; and how long other requests waited for
//! that.
//!
//! A thread works for one request until its next call for another, or until it waits in its loop. A request that lay unread
//! meanwhile, or was read and not worked on, waited behind it. Only long work is kept, so that a look at what a request
//! waited behind takes as many steps as long requests fit into its wait, however many short ones were served.

use std::cell::Cell;
use std::collections::VecDeque;

use super::history::{Target, ThreadCall, ThreadPreemption, ThreadWait};
use super::id::EndpointId;
use super::owner::{Owner, ThreadWork, is_of_loop};

/// Work is long from here on: redis calls such commands slow (`slowlog-log-slower-than` in redis.conf). No event loop that
/// says what is slow has a lower limit (asyncio `slow_callback_duration`: 100 ms).
pub const LONG_LEAST_NS: u64 = 10_000_000;

/// Long work that is kept of a thread: the time of ten seconds and more.
const KEPT_MOST: usize = 1_024;

/// Work of a thread for one request, without a break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongWork {
    /// The connection of the request.
    pub served: EndpointId,
    /// First byte of the request; `None`: none of its calls was in that time.
    pub offset: Option<u64>,
    /// When the thread waited meanwhile, but not for a CPU: how long, ns.
    pub waited_ns: u64,
    begin_ns: u64,
    end_ns: u64,
    without_cpu_ns: u64,
    is_found: Cell<bool>,
}

impl LongWork {
    /// Returns how long the request kept its thread, without time in which the thread had no CPU,
    /// ns.
    pub fn kept_ns(&self) -> u64 {
        let length_ns = self.end_ns.saturating_sub(self.begin_ns);
        length_ns.saturating_sub(self.without_cpu_ns)
    }

    /// Returns whether the work kept the thread long enough to delay others.
    fn is_long(&self) -> bool {
        self.kept_ns() >= LONG_LEAST_NS
    }

    /// Returns how much of its time lies between two times, ns: without the time without a CPU, as if that were spread
    /// evenly. That time is another part of those that wait.
    fn ns_within(&self, (from_ns, to_ns): (u64, u64)) -> u64 {
        let from_ns = from_ns.max(self.begin_ns);
        let within_ns = to_ns.min(self.end_ns).saturating_sub(from_ns);
        let kept_share = crate::units::ratio_of(self.kept_ns(), self.end_ns - self.begin_ns);
        (within_ns as f64 * kept_share).round() as u64
    }
}

/// The wait of a request behind long ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LongWait {
    /// How long, ns: beyond what it would wait for each of them if both shared the thread evenly.
    pub ns: u64,
    /// The same with that, ns.
    pub whole_ns: u64,
    /// Those among them that no request before had waited for.
    pub found: Vec<LongWork>,
}

/// Long work of a thread.
#[derive(Debug, Default)]
pub struct LongWorkLog {
    /// End of the last call, or of the last wait that is of no request.
    since_ns: u64,
    without_cpu_ns: u64,
    waited_ns: u64,
    open: Option<LongWork>,
    /// In the order of time.
    long: VecDeque<LongWork>,
}

impl LongWorkLog {
    /// Adds the end of a call; `work` is the thread's work before it.
    pub fn call(&mut self, end_ns: u64, call: &ThreadCall, work: &ThreadWork) {
        let owner = work.owner();
        let is_next = owner.is_some_and(|owner| {
            !owner.is_received && Some(owner.served) == call.served && !call.is_send
        });
        if is_next {
            self.close();
        }
        match worked_for(end_ns, call, work) {
            Some(served) => {
                let offset = call.offset.filter(|_| call.served == Some(served));
                self.extend(served, offset, end_ns);
            }
            None => self.close(),
        }
        self.restart(end_ns);
    }

    /// Adds a wait of the thread until `end_ns`: for its request, for a CPU, or for work.
    pub fn wait(&mut self, end_ns: u64, wait: &ThreadWait, owner: Option<Owner>) {
        let owner = owner.filter(|owner| owner.is_received);
        let is_of_request =
            owner.is_some_and(|owner| wait.target != Target::Connection(owner.served));
        if is_of_request && !is_of_loop(wait.object) {
            self.waited_ns += wait.woken_ns.saturating_sub(wait.start_ns);
            self.without_cpu_ns += end_ns.saturating_sub(wait.woken_ns);
            return;
        }
        if let Some(owner) = owner {
            self.extend(owner.served, None, wait.start_ns);
        }
        self.close();
        self.restart(end_ns);
    }

    /// Adds the time in which the thread could run, and did not until `end_ns`.
    pub fn preempt(&mut self, end_ns: u64, preemption: &ThreadPreemption) {
        if end_ns > self.since_ns {
            self.without_cpu_ns += preemption.off_cpu_ns;
        }
    }

    /// Returns a request's wait behind long requests of other connections; `own_ns`: its own time
    /// on the thread.
    pub fn wait_behind(&self, own: EndpointId, time: (u64, u64), own_ns: u64) -> LongWait {
        let mut wait = LongWait::default();
        let first = self.long.partition_point(|it| it.end_ns <= time.0);
        let open = self.open.iter().filter(|it| it.is_long());
        for work in self.long.range(first..).chain(open) {
            let whole_ns = work.ns_within(time);
            if work.served == own || whole_ns == 0 {
                continue;
            }
            wait.whole_ns += whole_ns;
            wait.ns += whole_ns.saturating_sub(own_ns);
            if !work.is_found.replace(true) {
                wait.found.push(work.clone());
            }
        }
        wait
    }

    /// Notes that the thread worked for a request until `end_ns`, since the last call or wait.
    fn extend(&mut self, served: EndpointId, offset: Option<u64>, end_ns: u64) {
        let is_same = |open: &LongWork| open.served == served && open.end_ns == self.since_ns;
        if !self.open.as_ref().is_some_and(is_same) {
            self.close();
        }
        // before the first call, nothing is known
        let begin_ns = if self.since_ns == 0 {
            end_ns
        } else {
            self.since_ns
        };
        let open = self.open.get_or_insert(LongWork {
            served,
            offset,
            waited_ns: 0,
            begin_ns,
            end_ns,
            without_cpu_ns: 0,
            is_found: Cell::new(false),
        });
        open.end_ns = open.end_ns.max(end_ns);
        open.offset = open.offset.or(offset);
        open.waited_ns += self.waited_ns;
        open.without_cpu_ns += self.without_cpu_ns;
    }

    /// Begins to measure the thread's work again at this time.
    fn restart(&mut self, since_ns: u64) {
        self.since_ns = since_ns;
        self.without_cpu_ns = 0;
        self.waited_ns = 0;
    }

    /// Ends the open work; keeps it if it was long.
    fn close(&mut self) {
        let Some(work) = self.open.take().filter(LongWork::is_long) else {
            return;
        };
        if self.long.len() == KEPT_MOST {
            self.long.pop_front();
        }
        self.long.push_back(work);
    }
}

/// Returns the request that a thread worked for until the end of a call; `None`: for none, as far as known.
fn worked_for(end_ns: u64, call: &ThreadCall, work: &ThreadWork) -> Option<EndpointId> {
    let Some(owner) = work.owner() else {
        return call.served;
    };
    if !owner.is_received {
        return call.served;
    }
    let Some(next) = call.served.filter(|_| call.is_send) else {
        return Some(owner.served);
    };
    let length_ns = end_ns.saturating_sub(owner.since_ns);
    let is_of_send = next == owner.served || work.is_before_send(length_ns);
    Some(if is_of_send { next } else { owner.served })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A thread and what it does: a call for a request after another.
    #[derive(Default)]
    struct BusyThread {
        log: LongWorkLog,
        work: ThreadWork,
    }

    impl BusyThread {
        /// Adds a call of the thread on a connection.
        fn call(&mut self, at_ms: u64, conn: u32, is_send: bool) {
            let served = EndpointId::from_number(conn);
            let call = ThreadCall {
                endpoint: served,
                is_send,
                is_udp: false,
                served: Some(served),
                offset: Some(u64::from(conn)),
                response: None,
            };
            self.log.call(at_ms * MS, &call, &self.work);
            self.work.call(at_ms * MS, &call);
        }

        /// Adds one request: received at begin, answered at end.
        fn serve(&mut self, begin_ms: u64, end_ms: u64, conn: u32) {
            self.call(begin_ms, conn, false);
            self.call(end_ms, conn, true);
        }

        /// Returns how long a request waited behind work for others, in milliseconds.
        fn wait_ms(&self, conn: u32, (from_ms, to_ms): (u64, u64), own_ms: u64) -> u64 {
            let time = (from_ms * MS, to_ms * MS);
            let own = EndpointId::from_number(conn);
            self.log.wait_behind(own, time, own_ms * MS).ns / MS
        }
    }

    #[test]
    fn request_waits_behind_long_work_and_not_behind_short() {
        let mut thread = BusyThread::default();
        thread.serve(100, 105, 1);
        thread.serve(105, 205, 2);
        thread.serve(205, 210, 3);
        thread.call(210, 4, false);
        assert_eq!(thread.wait_ms(4, (100, 210), 1), 99);
        // what came when half of it was over
        assert_eq!(thread.wait_ms(4, (155, 210), 1), 49);
        assert_eq!(thread.wait_ms(2, (100, 210), 1), 0);
    }

    #[test]
    fn requests_that_are_alike_wait_behind_no_long_one() {
        let mut thread = BusyThread::default();
        for conn in 0..5 {
            let begin_ms = 100 + 50 * u64::from(conn);
            thread.serve(begin_ms, begin_ms + 50, conn);
        }
        thread.call(350, 5, false);
        assert_eq!(thread.wait_ms(5, (100, 350), 50), 0);
    }

    #[test]
    fn work_goes_on_over_several_sends_and_ends_with_the_next_request() {
        let mut thread = BusyThread::default();
        thread.serve(100, 106, 1);
        thread.call(112, 1, true);
        // another one of the same connection
        thread.serve(113, 119, 1);
        thread.call(120, 2, false);
        assert_eq!(thread.wait_ms(2, (100, 120), 0), 12);
    }

    #[test]
    fn time_without_a_cpu_is_no_work() {
        let mut thread = BusyThread::default();
        thread.call(100, 1, false);
        let preemption = ThreadPreemption {
            off_cpu_ns: 95 * MS,
            is_quota: false,
        };
        thread.log.preempt(199 * MS, &preemption);
        thread.call(200, 1, true);
        thread.call(201, 2, false);
        assert_eq!(thread.wait_ms(2, (100, 201), 0), 0);
    }

    #[test]
    fn each_long_request_is_found_once() {
        let mut thread = BusyThread::default();
        thread.serve(100, 200, 1);
        thread.call(200, 2, false);
        let found = |conn| {
            let own = EndpointId::from_number(conn);
            thread.log.wait_behind(own, (100 * MS, 200 * MS), 0).found
        };
        let first = found(2);
        assert_eq!((first.len(), first[0].offset), (1, Some(1)));
        assert!(found(3).is_empty());
    }
}
