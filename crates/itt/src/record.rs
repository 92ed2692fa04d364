//! The reader's output: one record a call of the program.

use crate::value::{Value, ValueType};

/// One call of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// When, `CLOCK_MONOTONIC` nanoseconds: of the call, or the timestamp that the program gave
    /// to an `_ex` call if it came from `__itt_get_timestamp`.
    pub time_ns: u64,
    /// Process, as it knows itself: in a container it is not the host's pid.
    pub pid: u32,
    /// Thread, as it knows itself.
    pub tid: u32,
    /// Timestamp that the program gave to an `_ex` call, of a clock that is not known here. Null:
    /// none was given, or `time_ns` is it.
    pub given_ticks: Option<u64>,
    /// The call and its arguments.
    pub body: Body,
}

/// `__itt_id`: names a task, region or frame within its domain. All zeros is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identifier(pub [u64; 3]);

/// A call and its arguments. Numbers named `domain`, `counter`, … are ids of definitions; they are unique in a ring,
/// and a definition is read before what uses it, unless it is missing ([`crate::Losses::missing_definitions`]). Two
/// ids may have the same name: of two processes.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A domain was created.
    Domain {
        /// Its id.
        id: u32,
        /// Its name.
        name: String,
    },
    /// A string handle was created.
    Text {
        /// Its id.
        id: u32,
        /// The string.
        text: String,
    },
    /// A counter was created.
    Counter {
        /// Its id.
        id: u32,
        /// Name of its domain. Null: none.
        domain: Option<String>,
        /// Its name.
        name: String,
        /// Type of its values. Null: one that ITT does not define; such values are not read.
        value_type: Option<ValueType>,
    },
    /// A histogram was created.
    Histogram {
        /// Its id.
        id: u32,
        /// Its domain.
        domain: u32,
        /// Its name.
        name: String,
        /// Type of the x axis. Null: one that ITT does not define.
        x_type: Option<ValueType>,
        /// Type of the y axis. Null: one that ITT does not define.
        y_type: Option<ValueType>,
    },
    /// An event was created.
    Event {
        /// Its id, which is the program's own handle.
        id: u32,
        /// Its name.
        name: String,
    },
    /// The thread named itself.
    ThreadName {
        /// The name.
        name: String,
    },
    /// A synchronisation object was created.
    SyncObject {
        /// Its address in the program.
        address: u64,
        /// `attribute` as given: 1 barrier, 2 mutex.
        attribute: u32,
        /// Its type, in the program's words.
        object_type: String,
        /// Its name.
        name: String,
    },
    /// A synchronisation object was renamed.
    SyncRenamed {
        /// Its address in the program.
        address: u64,
        /// Its new name.
        name: String,
    },
    /// A counter was given context.
    CounterContext {
        /// The counter.
        counter: u32,
        /// `__itt_context_type`: 1 name, 3 device, 5 units, 7 PCI address, 9 thread id, 10
        /// largest value, 11 to 17 flags.
        context_type: u8,
        /// The value.
        context: Context,
    },
    /// A counter was set.
    CounterValue {
        /// The counter.
        counter: u32,
        /// Its new value.
        value: Value,
    },
    /// A counter was changed.
    CounterDelta {
        /// The counter.
        counter: u32,
        /// By how much.
        delta: u64,
        /// Whether it became smaller.
        is_decrement: bool,
    },
    /// A counter that only has a domain and a name was changed.
    NamedDelta {
        /// Its domain.
        domain: u32,
        /// Text of its name.
        name: u32,
        /// By how much.
        delta: u64,
        /// Whether it became smaller.
        is_decrement: bool,
    },
    /// A counter was destroyed.
    CounterDestroyed {
        /// The counter.
        counter: u32,
    },
    /// A task began. One that is not overlapped ends with the next [`Body::TaskEnd`] of its
    /// thread and domain that no later one takes.
    TaskBegin {
        /// Its domain.
        domain: u32,
        /// Text of its name. Null: none given.
        name: Option<u32>,
        /// Its id. Null: none given.
        id: Option<Identifier>,
        /// The id of the task that it is part of. Null: none given.
        parent: Option<Identifier>,
        /// Whether it ends by its id, maybe on another thread.
        is_overlapped: bool,
    },
    /// A task ended.
    TaskEnd {
        /// Its domain.
        domain: u32,
        /// Its id. Null: it is the innermost one of its thread and domain.
        id: Option<Identifier>,
    },
    /// A region began.
    RegionBegin {
        /// Its domain.
        domain: u32,
        /// Text of its name. Null: none given.
        name: Option<u32>,
        /// Its id. Null: none given.
        id: Option<Identifier>,
        /// The id of what it is part of. Null: none given.
        parent: Option<Identifier>,
    },
    /// A region ended.
    RegionEnd {
        /// Its domain.
        domain: u32,
        /// Its id. Null: none given.
        id: Option<Identifier>,
    },
    /// A frame began.
    FrameBegin {
        /// Its domain.
        domain: u32,
        /// Its id. Null: none given; the domain has one frame at a time.
        id: Option<Identifier>,
    },
    /// A frame ended.
    FrameEnd {
        /// Its domain.
        domain: u32,
        /// Its id. Null: none given; the domain has one frame at a time.
        id: Option<Identifier>,
    },
    /// A frame was reported after its end.
    FrameSubmitted {
        /// Its domain.
        domain: u32,
        /// Its id. Null: none given.
        id: Option<Identifier>,
        /// When it began, `CLOCK_MONOTONIC` if it came from `__itt_get_timestamp`.
        begin_ns: u64,
        /// When it ended, likewise.
        end_ns: u64,
    },
    /// Something happened at one moment.
    Marker {
        /// Its domain.
        domain: u32,
        /// Text of its name. Null: none given.
        name: Option<u32>,
        /// Its id. Null: none given.
        id: Option<Identifier>,
        /// Its scope.
        scope: Scope,
    },
    /// An event started.
    EventStart {
        /// The event.
        event: u32,
    },
    /// An event ended.
    EventEnd {
        /// The event.
        event: u32,
    },
    /// Something happened to a synchronisation object.
    Sync {
        /// The action.
        action: SyncAction,
        /// The object's address in the program.
        address: u64,
    },
    /// Numbers were attached to a task, region or frame.
    Metadata {
        /// The domain.
        domain: u32,
        /// Text that says what they are. Null: none given.
        key: Option<u32>,
        /// To what. Null: the current task of the thread.
        id: Option<Identifier>,
        /// The first numbers, at most 256.
        values: Vec<Value>,
        /// How many numbers were given.
        count: u64,
    },
    /// Text was attached to a task, region or frame.
    MetadataText {
        /// The domain.
        domain: u32,
        /// Text that says what it is. Null: none given.
        key: Option<u32>,
        /// To what. Null: the current task of the thread.
        id: Option<Identifier>,
        /// The text, cut after 4,000 bytes.
        text: String,
        /// Bytes of the text in the program.
        length_bytes: u64,
    },
    /// Two tasks, regions or frames belong together.
    Relation {
        /// The domain.
        domain: u32,
        /// One. Null: the current task of the thread.
        head: Option<Identifier>,
        /// `__itt_relation`: 1 dependent on, 2 sibling of, 3 parent of, 4 continuation of, 5 child
        /// of, 6 continued by, 7 predecessor to.
        relation: u8,
        /// The other.
        tail: Option<Identifier>,
    },
    /// Points of a histogram. Many points come in several records.
    HistogramBatch {
        /// The histogram.
        histogram: u32,
        /// Place of the first point among those of the call.
        first: u64,
        /// The y of each point.
        y: Vec<Value>,
        /// The x of each point. Empty: none given.
        x: Vec<Value>,
    },
    /// The process asked that nothing be recorded from here on.
    Paused,
    /// The process asked to be recorded again.
    Resumed,
    /// The process asked never to be recorded again.
    Detached,
    /// The thread asked never to be recorded again.
    ThreadIgnored,
}

/// Value of [`Body::CounterContext`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Context {
    /// A name, a device, units, an address.
    Text(String),
    /// A thread id, a largest value, a flag.
    Number(u64),
}

/// The scope of a marker, `__itt_scope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Not given, or not one that ITT defines.
    Unknown,
    /// The whole system.
    Global,
    /// The process.
    Process,
    /// The thread.
    Thread,
    /// The current task.
    Task,
    /// The marker alone.
    Marker,
}

/// Change of a synchronisation object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SyncAction {
    /// The thread begins to wait for it.
    Prepare = 1,
    /// The thread gave up waiting.
    Cancel = 2,
    /// The thread has it.
    Acquired = 3,
    /// The thread is about to give it away.
    Releasing = 4,
    /// It is no more.
    Destroyed = 5,
}
