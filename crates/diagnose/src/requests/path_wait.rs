//! A wait on the critical path: its run-queue delay, what the thread waited for, and who kept that. Also the time in which a request
//! lay unread, or waited for its own connection.

use super::cause::Cause;
use super::endpoint::EndpointId;
use super::history::{ThreadId, ThreadWait};
use super::holding::HolderFinder;
use super::long_work::LONG_LEAST_NS;
use super::owner::is_of_loop;
use super::part::RequestPart;
use super::path::DEPTH_MOST;
use super::path_finder::{HOPS_LEAST, PathContext, PathFinder};
use super::position::{CallEnd, NextCall, Position, SleepEvidence};
use super::service::Side;
use super::thread_gap::GapReason;
use super::trail::{StepSubject, Trail};

impl PathFinder<'_> {
    /// Adds the steps of one wait: run queue, wait and what caused it.
    pub(super) fn pass_wait(
        &self,
        context: &PathContext,
        wait: &ThreadWait,
        until_ns: u64,
        trail: &mut Trail,
        at: &mut Position,
    ) {
        let none = StepSubject::default();
        let thread = Some(at.thread);
        self.account_work(
            context,
            at,
            (wait.woken_ns.max(until_ns), RequestPart::RunQueue),
            trail,
        );
        let begin_ns = wait.start_ns.max(until_ns);
        let has_worked = matches!(at.next, NextCall::Own(_));
        if is_of_loop(wait.object) {
            at.next = NextCall::None;
        } else if self.other_request(context, at).is_some() {
            // It waited in another request's work.
            return self.account_work(context, at, (begin_ns, RequestPart::Unknown), trail);
        }
        let is_in_pool = is_of_loop(wait.object) && self.is_in_pool(at, wait);
        let cause = match self.wait_cause(context, at.thread, wait) {
            // whatever the loop waited for, the request waited for a connection
            _ if is_in_pool => Cause::Idle,
            // a timer after which it did nothing for the request, which then waited for something else
            Cause::Part(RequestPart::Timer, _)
                if is_of_loop(wait.object)
                    && !has_worked
                    && matches!(at.later, Some((RequestPart::Unknown, _))) =>
            {
                Cause::Idle
            }
            cause => cause,
        };
        match cause {
            Cause::Part(part, about) => {
                let about = match has_holder(part, wait) {
                    true => {
                        self.name_holder(context, (at.thread, wait), begin_ns, (part, about), trail)
                    }
                    false => about,
                };
                let is_sleep = at.later.is_none() && is_of_loop(wait.object);
                if is_sleep && part == RequestPart::Timer {
                    at.sleep = SleepEvidence::Timer;
                }
                at.later = Some((part, about));
                self.count_pace(context, wait, (begin_ns, part), at, trail);
                trail.add(begin_ns, part, thread, about);
            }
            Cause::Own => {
                // a client's threads that wait for a server are not kept from others
                let own = thread.filter(|_| context.side == Side::Server);
                let threads = (own, wait.waker_thread);
                self.wait_own(context, begin_ns, threads, trail, at.depth);
            }
            Cause::Idle => {
                if at.later.is_none() {
                    let part = match self.due_ns(context, at) {
                        Some(_) => RequestPart::Timer,
                        None => {
                            if !context.is_unread_until(at.own_ns) {
                                self.history.count_sleep(at.thread, None);
                            }
                            RequestPart::Unknown
                        }
                    };
                    at.later = Some((part, none));
                }
                let (part, about) = at.later.unwrap_or((RequestPart::Unknown, none));
                self.count_pace(context, wait, (begin_ns, part), at, trail);
                trail.add(begin_ns, part, thread, about);
            }
            Cause::Handover(other) => {
                let next = NextCall::Own(CallEnd::new(trail.at_ns(), true));
                let depth = at.depth;
                *at = self.position(other, trail.at_ns(), depth);
                at.next = next;
            }
            Cause::Helper(other) if at.depth < DEPTH_MOST => {
                let since_ns = match is_of_loop(wait.object) {
                    true => {
                        let given_ns = self.given_ns(context, at).unwrap_or(until_ns);
                        let busy_ns = self.busy_since_ns(other, begin_ns);
                        busy_ns.max(given_ns).max(until_ns).min(begin_ns)
                    }
                    false => begin_ns,
                };
                let job_ns = self.loop_job_ns(context, (at.thread, other), wait, since_ns);
                self.walk_in(context, other, job_ns, trail, at.depth + 1);
                trail.add(since_ns, RequestPart::Queued, thread, none);
                if since_ns < begin_ns {
                    *at = self.position(at.thread, trail.at_ns(), at.depth);
                }
            }
            Cause::Job(other) if at.depth < DEPTH_MOST => {
                let job_ns = self.history.get(other).job_since_ns(wait.woken_ns);
                self.walk_in(context, other, job_ns.max(begin_ns), trail, at.depth + 1);
                trail.add(begin_ns, RequestPart::Queued, thread, none);
            }
            Cause::Helper(_) | Cause::Job(_) => {
                trail.add(begin_ns, RequestPart::Process, thread, none)
            }
        }
    }

    /// Returns the subject of a wait for another process, for a lock, or for the reader of output, with the thread that
    /// it was for; counts what that did meanwhile.
    fn name_holder(
        &self,
        context: &PathContext,
        (thread, wait): (ThreadId, &ThreadWait),
        begin_ns: u64,
        (part, about): (RequestPart, StepSubject),
        trail: &mut Trail,
    ) -> StepSubject {
        let finder = HolderFinder {
            history: self.history,
            endpoints: self.endpoints,
        };
        let Some(waker) = about.waker else {
            return about;
        };
        let holder = finder.find(thread, waker, (begin_ns, wait.woken_ns));
        // threads of the other end are judged there
        if !context.is_of_peer && !self.is_of_peer(context, thread) {
            trail.count_holder(part, &holder.work);
        }
        StepSubject {
            waker: Some(holder.thread),
            ..about
        }
    }

    /// A wait until now is accounted next: counts it if it is the own pace of a client.
    fn count_pace(
        &self,
        context: &PathContext,
        wait: &ThreadWait,
        (begin_ns, part): (u64, RequestPart),
        at: &Position,
        trail: &mut Trail,
    ) {
        let is_own = part == RequestPart::Timer && at.depth == 0;
        let pace = context.turn.pace(at.thread, wait).filter(|_| is_own);
        if let Some(evidence) = pace {
            trail.count_pace(evidence, begin_ns, at.sent_ns);
        }
    }

    /// Returns whether the request waited for a connection during a wait of its loop. If another thread ended the wait of the
    /// round in which it got one, it may have waited for that thread.
    fn is_in_pool(&self, at: &mut Position, wait: &ThreadWait) -> bool {
        let helper = self.followed_thread(at.thread, wait);
        let Some(place) = &mut at.pool else {
            return false;
        };
        let has_helper = helper.is_some() && helper != place.through;
        if has_helper && !place.has_waited {
            (at.pool, at.later) = (None, None);
            return false;
        }
        place.has_waited = true;
        true
    }

    /// Accounts a wait for the request's own connection: the other end's threads if recorded, else
    /// path and other end. `thread`: the one of a server that waits for its client.
    pub fn wait_own(
        &self,
        context: &PathContext,
        begin_ns: u64,
        (thread, waker): (Option<ThreadId>, Option<ThreadId>),
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
            thread,
            about,
        );
        trail.add(begin_ns, RequestPart::Remote, thread, about);
    }

    /// Accounts time in which the request lay unread, while its thread served `behind` other
    /// requests.
    pub fn wait_unread(&self, thread: ThreadId, begin_ns: u64, behind: u64, trail: &mut Trail) {
        let gaps = self.history.get(thread).gaps_before(trail.at_ns());
        let gaps = gaps.take_while(|gap| gap.end_ns > begin_ns).enumerate();
        let is_in_credit = |hops: usize| hops < HOPS_LEAST as usize || self.credit.take();
        for (_, gap) in gaps.take_while(|(hops, _)| is_in_credit(*hops)) {
            let gap_begin_ns = gap.begin_ns.max(begin_ns);
            match gap.reason {
                GapReason::NoCpu(part) => {
                    trail.add_unread(gap.end_ns, thread, behind);
                    trail.add_lack(gap_begin_ns, part, Some(thread));
                }
                GapReason::Connection(client) if self.is_of_client(client) => {
                    trail.add_unread(gap.end_ns, thread, behind);
                    trail.add_held(gap_begin_ns, thread, (client, behind));
                }
                GapReason::Connection(_) => {}
            }
        }
        trail.add_unread(begin_ns, thread, behind);
    }

    /// Returns whether a connection is one that a client opened to this process.
    fn is_of_client(&self, endpoint: EndpointId) -> bool {
        let end = self.endpoints.get(endpoint);
        end.side == Side::Server && !end.is_udp && !end.is_resolver
    }
}

/// Returns whether a wait is for someone with work that counts: a process, the reader of output, or for long a thread
/// with a lock.
fn has_holder(part: RequestPart, wait: &ThreadWait) -> bool {
    match part {
        RequestPart::Process | RequestPart::Output => true,
        RequestPart::Lock => wait.woken_ns.saturating_sub(wait.start_ns) >= LONG_LEAST_NS,
        _ => false,
    }
}
