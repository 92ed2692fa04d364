//! Events of a thread: its waits, its calls, and when it could run and did not.

use table::{WaitObject, Waker};

use super::id::{EndpointId, ThreadId};
use super::part::RequestPart;
use crate::waits::{KernelPurpose, StackPurpose};

/// Object of a thread's wait, as far as requests are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// No socket.
    None,
    /// A recorded connection; of a wait for several descriptors, the one that was ready.
    Connection(EndpointId),
    /// A listening socket, or a socket that is not recorded.
    Socket,
}

/// A wait of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadWait {
    /// When it left the CPU.
    pub start_ns: u64,
    /// When it was runnable again.
    pub woken_ns: u64,
    /// Object of the wait.
    pub object: WaitObject,
    /// The socket among it.
    pub target: Target,
    /// Thread or interrupt that ended the wait.
    pub waker: Waker,
    /// The thread that did, or that ran where the interrupt came.
    pub waker_thread: Option<ThreadId>,
    /// Whether a descriptor was ready.
    pub is_ready: bool,
    /// No signal could end it.
    pub uninterruptible: bool,
    /// Purpose of the wait by the program's stack.
    pub purpose: StackPurpose,
    /// Number of that stack.
    pub stack: Option<u32>,
    /// Purpose of the wait by the kernel's stack.
    pub kernel: KernelPurpose,
    /// It waited for room for what it wrote.
    pub is_output: bool,
    /// It waited for the lock of a file.
    pub is_file_lock: bool,
    /// Address of the futex that it waited for; `None`: another object.
    pub futex: Option<u64>,
    /// Of epoll and poll: when its time limit passes; `None`: none, or not known.
    pub until_ns: Option<u64>,
    /// It has no time limit: only a signal ends it with nothing ready.
    pub is_endless: bool,
}

#[cfg(test)]
impl ThreadWait {
    /// Makes a wait on no socket that an interrupt ended; its other fields are empty.
    pub fn of_interrupt((start_ns, woken_ns): (u64, u64), object: WaitObject) -> Self {
        Self {
            start_ns,
            woken_ns,
            object,
            target: Target::None,
            waker: Waker::Interrupt,
            waker_thread: None,
            is_ready: false,
            uninterruptible: false,
            purpose: StackPurpose::Unknown,
            stack: None,
            kernel: KernelPurpose::Unknown,
            is_output: false,
            is_file_lock: false,
            futex: None,
            until_ns: None,
            is_endless: false,
        }
    }
}

/// Time in which a thread could run and did not, or the sum of several short ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadPreemption {
    /// Time off the CPU, ns.
    pub off_cpu_ns: u64,
    /// Whether the control group had used up its CPU quota.
    pub is_quota: bool,
}

impl ThreadPreemption {
    /// Returns the part of a request that the time belongs to.
    pub fn part(&self) -> RequestPart {
        match self.is_quota {
            true => RequestPart::CpuQuota,
            false => RequestPart::Preempted,
        }
    }
}

/// A call of a thread on a recorded connection that moved bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadCall {
    /// The connection.
    pub endpoint: EndpointId,
    /// Whether it sent.
    pub is_send: bool,
    /// Whether it moved a datagram, as to or from a name server.
    pub is_udp: bool,
    /// The connection that the thread served with this call: the same one, or the one with the request that asked on
    /// this one; `None`: not known, or none.
    pub served: Option<EndpointId>,
    /// First byte of the request, if it is of this connection.
    pub offset: Option<u64>,
    /// Of a call that received a response: when it was asked for, and when it was there.
    pub response: Option<ResponseTimes>,
}

/// When a response that a thread received was asked for, and when it was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseTimes {
    /// Begin of the request.
    pub asked_ns: u64,
    /// Arrival of the first byte that the call took.
    pub arrived_ns: u64,
    /// Of a loop: its connection was in use until then.
    pub release: Option<Release>,
}

/// A connection that another request had until a request took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// When the loop last took a connection that was free.
    pub since_ns: u64,
    /// The connection of the request that had it; `None`: not known.
    pub by: Option<EndpointId>,
    /// Another loop of the process that read the response to that request; `None`: the same loop did.
    pub through: Option<ThreadId>,
    /// The same loop read it, and took no other connection meanwhile that may have been free.
    pub is_sure: bool,
}

/// Kind of a thread's activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadEventKind {
    /// It waited until then.
    Wait(ThreadWait),
    /// It ended a call then.
    Call(ThreadCall),
    /// It ran again then, without having waited.
    Preemption(ThreadPreemption),
}
