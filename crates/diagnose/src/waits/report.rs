//! The contract `whylat.waits/1`: what `whylat report --by …` says, as it is printed as JSON
//! (`docs/waits.schema.json`) and drawn as text. A null means "not measured", never zero.

use serde::Serialize;
use table::{Caller, WaitObject, Waker};

use super::counter_report::CounterReport;
use super::filter::{Grouping, WaitFilter};
use super::join::report::Preceding;
use crate::answer::About;
use crate::answer::Process;
use crate::answer::decimals::nine_decimals;
use crate::histogram::Histogram;

/// Name and version of the contract.
pub const SCHEMA: &str = "whylat.waits/1";

/// Waits in groups.
#[derive(Debug, Clone, Serialize)]
pub struct WaitReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Of what recording.
    #[serde(flatten)]
    pub about: About,
    /// Property that a group shares.
    pub by: Grouping,
    /// Filter of the waits.
    pub filter: WaitFilter,
    /// Largest relative error of a median or other percentile, and of a population's time.
    pub relative_error: f64,
    /// All groups together.
    pub total: WaitTotal,
    /// The groups, most time first.
    pub groups: Vec<WaitGroup>,
    /// Counters of programs, by process and name; absent: there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CounterReport>,
}

/// All waits that pass the filter.
#[derive(Debug, Clone, Serialize)]
pub struct WaitTotal {
    /// Groups, those not listed included.
    pub groups: u64,
    /// Waits.
    pub count: u64,
    /// Waits in the recording that do not pass the filter.
    pub filtered: u64,
    /// Time blocked: from leaving the CPU to being woken, or until running again where the waking was
    /// not seen; ns.
    pub blocked_ns: u64,
    /// Time runnable, waiting for a CPU, ns; `None` when no waking was seen.
    pub runq_ns: Option<u64>,
    /// Waits without a seen waking.
    pub waking_unseen: u64,
    /// Time spent on a CPU with asking what is ready, in calls with a timeout of zero; ns. `None`: not
    /// recorded, or the filter is of durations or the grouping of wakers, which these do not have.
    pub spun_ns: Option<u64>,
}

/// Waits that have something in common.
#[derive(Debug, Clone, Serialize)]
pub struct WaitGroup {
    /// Property that they share.
    #[serde(flatten)]
    pub identity: ObjectIdentity,
    /// Spans of this name, in a grouping by tasks without a filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spans: Option<SpanTimes>,
    /// Waits.
    pub count: u64,
    /// Time blocked, as in [`WaitTotal::blocked_ns`].
    pub blocked_ns: u64,
    /// Share of the time blocked in all groups, 0–1.
    #[serde(serialize_with = "nine_decimals")]
    pub share: f64,
    /// Time runnable, waiting for a CPU, ns; `None` when no waking was seen.
    pub runq_ns: Option<u64>,
    /// Waits without a seen waking.
    pub waking_unseen: u64,
    /// When the first of them, or of the spins, began, ns from the recording's start; 0 if before it.
    pub first_ns: u64,
    /// When the last ended, ns from the recording's start.
    pub last_ns: u64,
    /// How long they were; `None`: there was none.
    pub durations: Option<Durations>,
    /// Threads that asked and did not wait; `None`: none was seen.
    pub spinning: Option<SpinReport>,
    /// Fast and slow waits; `None`: one population, or too few waits to decide.
    pub populations: Option<Populations>,
    /// A few waits that are much longer than the others, and too few for a population; absent: there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub few_slow: Option<FewSlow>,
    /// Calls before slow and fast waits; `None`: none are slow, or not asked.
    pub preceding: Option<Preceding>,
    /// Waits by duration, the empty cells left out.
    pub histogram: Vec<DurationCell>,
    /// The threads that waited most; empty in a grouping by thread.
    pub threads: Vec<GroupPart>,
    /// The objects that were waited for most; empty in a grouping by object.
    pub objects: Vec<GroupPart>,
    /// Wakers of most of the time; empty in a grouping by waker.
    pub wakers: Vec<GroupPart>,
    /// Where in the program most of the time was; empty in a grouping by stack.
    pub stacks: Vec<GroupPart>,
    /// Where in the kernel.
    pub kernel_stacks: Vec<GroupPart>,
    /// Of waits for several connections: those that were ready.
    pub ready: Vec<GroupPart>,
}

/// Identity of an object, thread or waker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ObjectIdentity {
    /// Name, within its process if it has one; `--object` takes it.
    pub name: String,
    /// Kind of object; `None`: no object.
    pub kind: Option<WaitObject>,
    /// Socket cookie of a connection or listener.
    pub conn: Option<u64>,
    /// Inode of a socket, pipe or file, or address of a futex.
    pub object: Option<u64>,
    /// Descriptor of an epoll set.
    pub fd: Option<i32>,
    /// Process; `None`: not of one process, or not known.
    pub process: Option<Process>,
    /// Thread.
    pub tid: Option<u32>,
    /// Kind of waker; `None`: no waker.
    pub waker: Option<Waker>,
    /// Use of a futex, as the functions that wait for it show; `None`: no futex, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockKind>,
    /// Call stack; `None`: none, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<WaitStack>,
}

/// Use of a futex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LockKind {
    /// Mutual exclusion.
    Mutex,
    /// A condition variable.
    Condition,
    /// A lock of one writer or many readers.
    ReadWrite,
    /// A semaphore.
    Semaphore,
    /// A barrier.
    Barrier,
    /// The end of another thread.
    Thread,
}

/// A call stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct WaitStack {
    /// The innermost first.
    pub frames: Vec<Frame>,
    /// Caller of the outermost one.
    pub caller: Caller,
}

/// A function on a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Frame {
    /// Its name; `None`: no symbol is known.
    pub function: Option<String>,
    /// File that the code was mapped from, `[kernel]`, or another name; `None`: not known.
    pub object: Option<String>,
    /// Where in it, if the function is not known.
    pub offset: Option<u64>,
    /// Source file; `None`: no debug information.
    pub source: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
    /// Whether the compiler put it into its caller.
    pub inlined: bool,
}

impl ObjectIdentity {
    /// Returns the object's name with its process, as reports print it.
    pub fn title(&self) -> String {
        match self.lock {
            Some(lock) => format!("{} ({})", self.owned_name(), lock.name()),
            None => self.owned_name(),
        }
    }

    /// Returns the name with its process; a main thread has the process's name alone.
    fn owned_name(&self) -> String {
        let Some(process) = &self.process else {
            return self.name.clone();
        };
        let owner = process.title();
        if self.tid.is_some() && self.tid == process.pid {
            return owner;
        }
        format!("{owner} {}", self.name)
    }
}

/// How long waits were, ns. Least and most are exact, the others within
/// [`WaitReport::relative_error`], by the nearest rank.
#[derive(Debug, Clone, Serialize)]
pub struct Durations {
    /// The shortest.
    pub min_ns: u64,
    /// Half were no longer.
    pub p50_ns: u64,
    /// 90 % were no longer.
    pub p90_ns: u64,
    /// 99 % were no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Durations {
    /// Returns the percentiles of a histogram; `None`: it is empty.
    pub(super) fn from_histogram(histogram: &Histogram) -> Option<Self> {
        let (min_ns, max_ns) = histogram.range_ns()?;
        Some(Self {
            min_ns,
            p50_ns: histogram.quantile_ns(0.5)?,
            p90_ns: histogram.quantile_ns(0.9)?,
            p99_ns: histogram.quantile_ns(0.99)?,
            max_ns,
        })
    }
}

/// Spans that a program reports under one name: tasks, frames, regions, events.
#[derive(Debug, Clone, Serialize)]
pub struct SpanTimes {
    /// Spans with an end.
    pub count: u64,
    /// Their time, nested ones included, ns.
    pub total_ns: u64,
    /// Spans without an end in the recording.
    pub unfinished: u64,
    /// Spans that ended on another thread: their waits are not known to be theirs.
    pub handed_over: u64,
    /// How long they were; `None`: none has an end.
    pub durations: Option<Durations>,
}

/// Threads that kept a CPU busy with asking what is ready: calls of epoll, poll or select that were asked not
/// to wait.
#[derive(Debug, Clone, Serialize)]
pub struct SpinReport {
    /// Samples of a CPU that found one in such a call; about 99 a second and CPU.
    pub looks: u64,
    /// Time that they stand for, ns.
    pub spun_ns: u64,
    /// Threads that asked; empty in a grouping by thread.
    pub threads: Vec<GroupPart>,
    /// Objects that they asked for; empty in a grouping by object.
    pub objects: Vec<GroupPart>,
    /// Where in the program; empty in a grouping by stack.
    pub stacks: Vec<GroupPart>,
}

/// Two populations.
#[derive(Debug, Clone, Serialize)]
pub struct Populations {
    /// Waits this long or longer are slow, ns.
    pub boundary_ns: u64,
    /// Shorter waits.
    pub fast: Population,
    /// The others.
    pub slow: Population,
}

/// At most eleven waits, each at least ten times as long as all others of their group.
#[derive(Debug, Clone, Serialize)]
pub struct FewSlow {
    /// Longest of the others, ns; within [`WaitReport::relative_error`].
    pub others_max_ns: u64,
    /// How long each was, ns, the shortest first; within [`WaitReport::relative_error`].
    pub durations_ns: Vec<u64>,
}

/// One population.
#[derive(Debug, Clone, Serialize)]
pub struct Population {
    /// Waits.
    pub count: u64,
    /// Median, ns; within [`WaitReport::relative_error`].
    pub p50_ns: u64,
    /// Time blocked, ns; within [`WaitReport::relative_error`].
    pub blocked_ns: u64,
}

/// Waits of about one duration: a quarter of a doubling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DurationCell {
    /// Least duration, ns.
    pub from_ns: u64,
    /// First duration beyond, ns.
    pub to_ns: u64,
    /// Waits.
    pub count: u64,
}

/// Something that took part in a group's waits.
#[derive(Debug, Clone, Serialize)]
pub struct GroupPart {
    /// Its kind and name.
    #[serde(flatten)]
    pub identity: ObjectIdentity,
    /// Waits, at least.
    pub count: u64,
    /// Time blocked, at least, ns.
    pub blocked_ns: u64,
    /// Whether count and time are exact; of many, only the worst are followed.
    pub exact: bool,
}
