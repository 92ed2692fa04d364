//! The cause of a wait on a path: by what the thread waited for, and by who ended that.

use table::{WaitObject, Waker};

use super::endpoint::EndpointId;
use super::history::{Target, ThreadEventKind, ThreadId, ThreadWait};
use super::holder::{held_for, holder_of};
use super::job::{JobDoer, find_doer};
use super::owner::is_of_loop;
use super::part::RequestPart;
use super::path_finder::{PathContext, PathFinder};
use super::service::Side;
use super::trail::StepSubject;
use crate::waits::{KernelPurpose, StackPurpose};

/// Events after a wait in which others that continue it are searched. MariaDB waits for a lock of metadata a second at a time
/// (`MDL_context::acquire_lock()`): a quarter of an hour. Each of these waits searches the others, so there is a bound.
const CONTINUED_MOST: usize = 1 << 10;

/// Meaning of a wait for a request.
pub(super) enum Cause {
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
    /// Another thread did its job, after those of others.
    Job(ThreadId),
}

impl PathFinder<'_> {
    /// Returns the cause of a thread's wait, for a request that the thread serves.
    pub(super) fn wait_cause(
        &self,
        context: &PathContext,
        thread: ThreadId,
        wait: &ThreadWait,
    ) -> Cause {
        match wait.kernel {
            KernelPurpose::Stopped | KernelPurpose::Frozen => {
                return Cause::Part(RequestPart::Paused, self.describe_wait(wait));
            }
            KernelPurpose::Reclaim | KernelPurpose::MajorFault => {
                return Cause::Part(RequestPart::Memory, self.describe_wait(wait));
            }
            KernelPurpose::Output | KernelPurpose::Sync | KernelPurpose::Unknown => {}
        }
        let is_own = match wait.target {
            Target::Connection(it) => it == context.own || Some(it) == context.peer,
            Target::Socket | Target::None => false,
        };
        let is_log = wait.is_output && !is_own && !self.endpoints.has_response(wait.target);
        if is_log && self.followed_thread(thread, wait).is_none() {
            return Cause::Part(RequestPart::Output, self.describe_wait(wait));
        }
        match wait.target {
            Target::Connection(it) if self.is_self_pipe(thread, wait, it) => {
                self.cause_of_set(context, thread, wait)
            }
            Target::Connection(it) => self.cause_of_connection(context, thread, wait, it),
            Target::Socket => self.cause_of_socket(wait),
            Target::None => self.cause_of_object(context, thread, wait),
        }
    }

    /// Returns the cause of a wait for a connection: its peer's thread, or the network.
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
            return Cause::Part(RequestPart::Dns, self.describe_wait(wait));
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

    /// Returns the cause of a wait for a socket that is no known connection.
    fn cause_of_socket(&self, wait: &ThreadWait) -> Cause {
        let part = match (wait.object, wait.purpose) {
            (_, StackPurpose::Resolver) => RequestPart::Dns,
            (WaitObject::Datagram | WaitObject::Connection | WaitObject::Socket, _) => {
                RequestPart::Upstream
            }
            _ => return Cause::Idle,
        };
        Cause::Part(part, self.describe_wait(wait))
    }

    /// Returns whether a thread of the process woke an event loop by a pair of sockets of the process itself: asyncio has one for
    /// that.
    fn is_self_pipe(&self, thread: ThreadId, wait: &ThreadWait, endpoint: EndpointId) -> bool {
        let end = self.endpoints.get(endpoint);
        let peer_pid = end.peer.map(|peer| self.endpoints.get(peer).pid);
        let is_own = peer_pid == Some(end.pid) && !end.has_response;
        is_own && is_of_loop(wait.object) && self.followed_thread(thread, wait).is_some()
    }

    /// Returns stack and waker of a wait, for the step of the path.
    fn describe_wait(&self, wait: &ThreadWait) -> StepSubject {
        StepSubject {
            waker: wait.waker_thread.filter(|_| wait.waker == Waker::Thread),
            stack: wait.stack,
            ..StepSubject::default()
        }
    }

    /// Returns the cause of a wait for a lock, file, timer or other object.
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
            WaitObject::File if wait.is_file_lock => {
                return self.cause_of_file_lock(thread, wait);
            }
            WaitObject::File => RequestPart::Disk,
            WaitObject::Datagram | WaitObject::Socket | WaitObject::Connection => {
                RequestPart::Upstream
            }
            WaitObject::Other if wait.uninterruptible => RequestPart::Disk,
            WaitObject::Listener => return Cause::Idle,
            WaitObject::IoUring | WaitObject::Other => RequestPart::Unknown,
        };
        Cause::Part(part, self.describe_wait(wait))
    }

    /// Returns the cause of a wait for a futex: a lock if the thread had the request before, else
    /// the hand-over of the request.
    fn cause_of_futex(&self, context: &PathContext, thread: ThreadId, wait: &ThreadWait) -> Cause {
        let (home, since_ns) = context.home;
        let wait = &self.last_of_same(thread, wait);
        let had_it = thread == home && wait.start_ns >= since_ns;
        let other = self.followed_thread(thread, wait);
        match other {
            Some(other) if had_it && self.is_notice(context, wait, other) => {
                Cause::Part(RequestPart::Unknown, self.describe_wait(wait))
            }
            // a thread of a runtime had no task: the one that woke it had the task of the request
            Some(other) if wait.purpose == StackPurpose::Scheduler => Cause::Handover(other),
            Some(other) if !had_it && wait.purpose != StackPurpose::Mutex => Cause::Handover(other),
            Some(other) if had_it && wait.purpose == StackPurpose::Result => {
                self.cause_of_result(context, (thread, wait), other)
            }
            Some(other) if had_it && self.is_woken_by(other, thread, wait, context.begin_ns) => {
                Cause::Helper(other)
            }
            None if wait.waker == Waker::Interrupt && wait.purpose != StackPurpose::Mutex => {
                Cause::Part(RequestPart::Timer, self.describe_wait(wait))
            }
            _ => self.cause_of_lock(thread, wait),
        }
    }

    /// Returns the cause of a wait for the result of a job, which `giver` gave: the thread that did it, another process, or
    /// unknown. It is no lock.
    fn cause_of_result(
        &self,
        context: &PathContext,
        (thread, wait): (ThreadId, &ThreadWait),
        giver: ThreadId,
    ) -> Cause {
        let times = (wait.start_ns, wait.woken_ns);
        match find_doer(self.history, giver, times) {
            JobDoer::OtherProcess => Cause::Part(RequestPart::Process, self.describe_wait(wait)),
            _ if self.is_woken_by(giver, thread, wait, context.begin_ns) => Cause::Helper(giver),
            JobDoer::Giver => Cause::Job(giver),
            JobDoer::OtherThread | JobDoer::Unknown => match self.cause_of_lock(thread, wait) {
                Cause::Part(RequestPart::Lock, about) => Cause::Part(RequestPart::Unknown, about),
                cause => cause,
            },
        }
    }

    /// Returns the cause of a wait for a lock: the lock itself, or what its holder waited for.
    fn cause_of_lock(&self, thread: ThreadId, wait: &ThreadWait) -> Cause {
        let about = self.describe_wait(wait);
        let holder = holder_of(self.history, thread, wait);
        let has_response = |target| self.endpoints.has_response(target);
        let held = holder.and_then(|it| held_for(self.history, it, wait, &has_response));
        match held {
            Some(held) => Cause::Part(
                held.part,
                StepSubject {
                    stack: held.stack,
                    waker: held.reader.or(about.waker),
                    ..about
                },
            ),
            None => Cause::Part(RequestPart::Lock, about),
        }
    }

    /// Returns the cause of a wait for the lock of a file: what its holder waited for, or the process that had it.
    fn cause_of_file_lock(&self, thread: ThreadId, wait: &ThreadWait) -> Cause {
        let is_of_other = self.followed_thread(thread, wait).is_none();
        match self.cause_of_lock(thread, wait) {
            Cause::Part(RequestPart::Lock, about) if is_of_other => {
                Cause::Part(RequestPart::Process, about)
            }
            cause => cause,
        }
    }

    /// Returns whether `thread` woke `helper` for this request shortly before it waited. Who gives a mutex back gives no job.
    fn is_woken_by(
        &self,
        helper: ThreadId,
        thread: ThreadId,
        wait: &ThreadWait,
        begin_ns: u64,
    ) -> bool {
        let history = self.history.get(helper);
        let last = history.event_count_until(wait.woken_ns);
        let waits = (0..last).rev().take(16).filter_map(|at| history.event(at));
        let mut waits = waits.filter_map(|event| match event.kind {
            ThreadEventKind::Wait(wait) => Some(wait),
            ThreadEventKind::Call(_) | ThreadEventKind::Preemption(_) => None,
        });
        waits.any(|it| {
            let is_of_thread = it.waker == Waker::Thread && it.waker_thread == Some(thread);
            it.woken_ns >= begin_ns && is_of_thread && it.purpose != StackPurpose::Mutex
        })
    }

    /// The recorded thread of the same process that ended a wait.
    pub(super) fn followed_thread(&self, thread: ThreadId, wait: &ThreadWait) -> Option<ThreadId> {
        let pid = self.history.get(thread).pid;
        let other = wait
            .waker_thread
            .filter(|_| wait.waker == Waker::Thread)
            .filter(|other| *other != thread)?;
        let known = self.history.get(other);
        (known.pid == pid && known.has_waits).then_some(other)
    }

    /// Returns the cause of a wait for descriptors or an event file: a thread of the process, a
    /// time limit, or unknown.
    fn cause_of_set(&self, context: &PathContext, thread: ThreadId, wait: &ThreadWait) -> Cause {
        let (home, since_ns) = context.home;
        let wait = &self.last_of_same(thread, wait);
        match self.followed_thread(thread, wait) {
            Some(other) if thread == home && wait.start_ns >= since_ns => Cause::Helper(other),
            Some(other) => Cause::Handover(other),
            None => match wait.waker {
                Waker::Thread => Cause::Part(RequestPart::Process, self.describe_wait(wait)),
                Waker::Interrupt if !wait.is_ready => {
                    Cause::Part(RequestPart::Timer, self.describe_wait(wait))
                }
                Waker::Interrupt | Waker::Unseen => Cause::Idle,
            },
        }
    }

    /// Returns the wait, or the last of those that continue it: the thread waits on for the same. A signal ends a wait
    /// without a time limit: PostgreSQL looks for deadlocks so, a second after a wait for a lock began. A time limit
    /// ends a wait for a futex: MariaDB does so. Of a futex, only the stack shows that it is the same.
    fn last_of_same(&self, thread: ThreadId, wait: &ThreadWait) -> ThreadWait {
        let own = self.history.get(thread);
        let later = (own.event_count_until(wait.woken_ns)..).map_while(|number| own.event(number));
        let mut last = *wait;
        for event in later.take(CONTINUED_MOST) {
            let may_go_on = last.is_endless || last.object == WaitObject::Futex;
            let is_over = last.waker != Waker::Interrupt || last.is_ready || !may_go_on;
            match event.kind {
                _ if is_over => break,
                ThreadEventKind::Call(_) => break,
                ThreadEventKind::Preemption(_) => {}
                ThreadEventKind::Wait(it) if it.start_ns <= wait.start_ns => {}
                ThreadEventKind::Wait(it) if is_same_wait(&it, wait) => last = it,
                ThreadEventKind::Wait(_) => break,
            }
        }
        let start_ns = wait.start_ns;
        ThreadWait { start_ns, ..last }
    }

    /// Returns the cause of a wait for another process: its thread, a timer, or the process.
    fn cause_of_process(&self, thread: ThreadId, wait: &ThreadWait) -> Cause {
        match (self.followed_thread(thread, wait), wait.waker) {
            (Some(other), _) => Cause::Helper(other),
            (None, Waker::Interrupt) => Cause::Part(RequestPart::Timer, self.describe_wait(wait)),
            (None, _) => Cause::Part(RequestPart::Process, self.describe_wait(wait)),
        }
    }
}

/// Returns whether two waits of a thread are for the same, as far as the recording shows it.
fn is_same_wait(one: &ThreadWait, other: &ThreadWait) -> bool {
    let is_known = one.object != WaitObject::Futex || one.stack.is_some();
    is_known && (one.object, one.stack) == (other.object, other.stack)
}
