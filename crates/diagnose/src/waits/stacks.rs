//! Call stacks by number: rows of `stacks` and `symbols` in, one number a distinct stack out. The same
//! stack has several numbers in a recording, one for each thread and process; here it is one if its
//! functions and lines are the same.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use table::tables::{StackFrame, StackFrames, Symbol, Symbols};
use table::{Caller, Columns};

use super::glibc::public_name;
use super::keys::FoldedKey;
use super::report::{Frame, LockKind, WaitStack};
use super::sampled::{PYTHON, is_library, is_of_language};

/// Functions between a thread that waits and the hook that saw it: the scheduler's (`__schedule()` and
/// its callers, kernel/sched/core.c).
const SCHEDULER: [&str; 4] = ["__schedule", "schedule", "__schedule_loop", "schedule_idle"];

/// Frames in which the function of a lock is searched: deeper ones wait for something else.
const LOCK_FRAMES: usize = 8;

/// Parts of the names of functions that wait for each: of glibc, musl, and Rust's standard library.
const LOCK_FUNCTIONS: [(&str, LockKind); 9] = [
    ("cond_wait", LockKind::Condition),
    ("cond_timedwait", LockKind::Condition),
    ("cond_clockwait", LockKind::Condition),
    ("condvar", LockKind::Condition),
    ("rwlock", LockKind::ReadWrite),
    ("mutex", LockKind::Mutex),
    ("sem_", LockKind::Semaphore),
    ("barrier_wait", LockKind::Barrier),
    ("join", LockKind::Thread),
];

/// Parts of the names of functions that wait for an answer of a resolver: of glibc and musl.
const RESOLVER_FUNCTIONS: [&str; 4] = ["getaddrinfo", "send_dg", "res_nsend", "gethostby"];

/// Parts of the names of functions in which a connection is set up before its first request. The ends of TLS agree on keys: in
/// OpenSSL, GnuTLS and NSS. A client of a database logs in: libpq's `PQconnectdb` and `PQconnectPoll`, MySQL's and MariaDB's
/// `mysql_real_connect`
/// (<https://www.postgresql.org/docs/current/libpq-connect.html>,
/// <https://dev.mysql.com/doc/c-api/8.4/en/mysql-real-connect.html>).
const HANDSHAKE_FUNCTIONS: [&str; 7] = [
    "SSL_do_handshake",
    "SSL_connect",
    "SSL_accept",
    "do_handshake",
    "PQconnectdb",
    "PQconnectPoll",
    "mysql_real_connect",
];

/// Names of such functions that others contain: of psycopg 3, which waits in Python for the log-in
/// (<https://github.com/psycopg/psycopg/blob/master/psycopg/psycopg/waiting.py>).
const HANDSHAKE_NAMES: [&str; 1] = ["wait_conn"];

/// Functions that wait for the lock of an interpreter, as names of locks do not say: of CPython.
pub const INTERPRETER_FUNCTIONS: [&str; 2] = ["take_gil", "PyEval_RestoreThread"];

/// Functions in which a thread of a runtime has no task to run: of Go.
const SCHEDULER_FUNCTIONS: [&str; 2] = ["runtime.mPark", "runtime.findRunnable"];

/// Functions in which a thread waits for the result of a job that it gave to others: of Python's `concurrent.futures` and
/// `multiprocessing.pool`, and of libstdc++'s `std::future`. Who did it, they do not say.
const RESULT_FUNCTIONS: [&str; 3] = ["Future.result", "ApplyResult.wait", "_M_futex_wait_until"];

/// Functions of languages in which a thread waits for a condition of the program: of Python, of Java and of C++.
const CONDITION_FUNCTIONS: [&str; 3] = [
    "Condition.wait",
    "ConditionObject.await",
    "condition_variable::wait",
];

/// Purpose of a wait, where only its stack says that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackPurpose {
    /// The stack does not say.
    Unknown,
    /// Nobody else may be in some code at the same time: a mutex, a read-write lock, the lock of an interpreter.
    Mutex,
    /// The answer of a resolver.
    Resolver,
    /// The other end's part of a TLS handshake, or of a log-in.
    Handshake,
    /// The result of a job that another thread or process does.
    Result,
    /// Work from the scheduler of a language's runtime: none of its tasks can run.
    Scheduler,
    /// A condition of the program: something that is free again, a job, or a notice.
    Condition,
}

/// Purpose of a wait inside of the kernel, as the kernel's stack says, whatever the program had asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelPurpose {
    /// The stack does not say, or there is none.
    Unknown,
    /// SIGSTOP or a debugger stopped the process.
    Stopped,
    /// A freezer stopped its control group, or the host suspends.
    Frozen,
    /// Memory had to be freed first, or its control group was over `memory.high`.
    Reclaim,
    /// A page that had to be read from a file or from swap.
    MajorFault,
    /// Room for output: the reader of a pipe, a terminal or a UNIX socket has not read what is there.
    Output,
    /// Data that has to be on a disk before the call returns: fsync() and its kin.
    Sync,
}

impl KernelPurpose {
    /// Returns whether the kernel's work has nothing to do with the program's system call.
    pub const fn is_beside_call(self) -> bool {
        matches!(
            self,
            Self::Stopped | Self::Frozen | Self::Reclaim | Self::MajorFault
        )
    }
}

/// Functions of the kernel that wait for each, innermost causes first (kernel/signal.c, kernel/freezer.c, mm/memcontrol.c,
/// mm/vmscan.c, mm/memory.c, mm/filemap.c, fs/pipe.c, drivers/tty/n_tty.c, net/unix/af_unix.c, fs/sync.c).
const KERNEL_FUNCTIONS: [(&str, KernelPurpose); 23] = [
    ("do_signal_stop", KernelPurpose::Stopped),
    ("ptrace_stop", KernelPurpose::Stopped),
    ("do_freezer_trap", KernelPurpose::Frozen),
    ("__refrigerator", KernelPurpose::Frozen),
    ("__mem_cgroup_handle_over_high", KernelPurpose::Reclaim),
    ("mem_cgroup_handle_over_high", KernelPurpose::Reclaim),
    ("try_to_free_pages", KernelPurpose::Reclaim),
    ("try_to_free_mem_cgroup_pages", KernelPurpose::Reclaim),
    ("reclaim_throttle", KernelPurpose::Reclaim),
    ("throttle_direct_reclaim", KernelPurpose::Reclaim),
    ("mem_cgroup_oom_synchronize", KernelPurpose::Reclaim),
    ("do_swap_page", KernelPurpose::MajorFault),
    ("filemap_fault", KernelPurpose::MajorFault),
    ("pipe_write", KernelPurpose::Output),
    ("anon_pipe_write", KernelPurpose::Output),
    ("fifo_pipe_write", KernelPurpose::Output),
    ("n_tty_write", KernelPurpose::Output),
    ("unix_stream_sendmsg", KernelPurpose::Output),
    ("unix_dgram_sendmsg", KernelPurpose::Output),
    ("vfs_fsync_range", KernelPurpose::Sync),
    ("do_fsync", KernelPurpose::Sync),
    ("ksys_sync", KernelPurpose::Sync),
    ("sync_file_range", KernelPurpose::Sync),
];

/// Place in code.
type CodePlace = (String, Option<String>, u64);

/// All call stacks, folded.
#[derive(Debug, Default)]
pub struct Stacks {
    frames: HashMap<u32, Vec<StackFrame>>,
    symbols: HashMap<CodePlace, Vec<Symbol>>,
    /// By the number in the recording: that of the distinct stack.
    distinct: HashMap<u32, u32, BuildHasherDefault<FoldedKey>>,
    stacks: Vec<WaitStack>,
}

impl Stacks {
    /// Adds rows of table `stacks`.
    pub fn add_frames(&mut self, rows: &StackFrames) {
        for row in (0..rows.len()).map(|index| rows.row(index)) {
            self.frames.entry(row.stack).or_default().push(row);
        }
    }

    /// Adds rows of table `symbols`.
    pub fn add_symbols(&mut self, rows: &Symbols) {
        for row in (0..rows.len()).map(|index| rows.row(index)) {
            let place = (row.object.clone(), row.build_id.clone(), row.offset);
            self.symbols.entry(place).or_default().push(row);
        }
    }

    /// Names all frames, and finds stacks that are the same: to be called after the last row.
    pub(super) fn finish(&mut self) {
        self.symbols
            .values_mut()
            .for_each(|levels| levels.sort_by_key(|it| it.level));
        let mut known: HashMap<WaitStack, u32> = HashMap::new();
        let mut frames: Vec<_> = std::mem::take(&mut self.frames).into_iter().collect();
        frames.sort_by_key(|(number, _)| *number);
        for (number, rows) in frames {
            let stack = self.name_frames(rows);
            let next = self.stacks.len() as u32;
            let distinct = *known.entry(stack).or_insert_with_key(|stack| {
                self.stacks.push(stack.clone());
                next
            });
            self.distinct.insert(number, distinct);
        }
    }

    /// Returns the distinct number of a recorded stack; `None`: no stack, or its frames are
    /// missing.
    pub(super) fn number(&self, of_recording: Option<u32>) -> Option<u32> {
        self.distinct.get(&of_recording?).copied()
    }

    /// The number that no stack has.
    pub(super) fn unknown(&self) -> u32 {
        self.stacks.len() as u32
    }

    /// Returns a stack by its distinct number.
    pub(super) fn stack(&self, number: u32) -> Option<&WaitStack> {
        self.stacks.get(number as usize)
    }

    /// Names the frames of a stack; leaves the scheduler's own frames out.
    fn name_frames(&self, mut rows: Vec<StackFrame>) -> WaitStack {
        rows.sort_by_key(|row| row.depth);
        let of_kernel = rows.first().is_some_and(|row| row.pid.is_none());
        let caller = rows.last().map_or(Caller::Unknown, |row| row.caller);
        let mut frames: Vec<Frame> = rows
            .into_iter()
            .flat_map(|row| self.frames_at(row))
            .collect();
        if of_kernel {
            let is_scheduler = |frame: &Frame| {
                let function = frame.function.as_deref();
                function.is_some_and(|it| SCHEDULER.contains(&it))
            };
            let own = frames.iter().rposition(is_scheduler).map_or(0, |at| at + 1);
            frames.drain(..own);
        }
        WaitStack { frames, caller }
    }

    /// The functions at a place, the innermost first.
    fn frames_at(&self, row: StackFrame) -> Vec<Frame> {
        let (object, build_id, offset) = (row.object, row.build_id, row.offset);
        let place = object
            .clone()
            .zip(offset)
            .map(|(object, offset)| (object, build_id, offset));
        let Some(levels) = place.and_then(|place| self.symbols.get(&place)) else {
            return vec![Frame {
                object,
                offset,
                ..Frame::default()
            }];
        };
        let is_kernel = row.pid.is_none();
        let name = |function: &str| match is_kernel {
            true => function.to_owned(),
            false => public_name(function).to_owned(),
        };
        let frame = |symbol: &Symbol| Frame {
            function: symbol.function.as_deref().map(name),
            object: object.clone(),
            offset: None,
            source: symbol.source.clone(),
            line: symbol.line,
            inlined: symbol.level > 0,
        };
        levels.iter().rev().map(frame).collect()
    }
}

impl Frame {
    /// Returns the function without its parameters, or its place in the file.
    pub fn name(&self) -> String {
        if let Some(function) = &self.function {
            return match self.object.as_deref() {
                Some(PYTHON) => function.clone(),
                _ => shorten_name(function),
            };
        }
        match (self.object.as_deref().map(file_name), self.offset) {
            (Some(file), Some(offset)) => format!("{file}+{offset:#x}"),
            (Some(file), None) => file.to_owned(),
            (None, _) => "?".to_owned(),
        }
    }

    /// Returns whether the name may be that of another function with the same code: Rust's methods of TCP, UDP and UNIX
    /// sockets call the same functions of C, and the compiler keeps one of them (LLVM's MergeFunctions).
    pub fn may_be_folded(&self) -> bool {
        const SOCKETS: [&str; 2] = ["std::net::", "std::os::unix::net::"];
        let function = self.function.as_deref().unwrap_or_default();
        let path = function.trim_start_matches('<');
        SOCKETS.iter().any(|sockets| path.starts_with(sockets))
    }

    /// Returns file and line, such as `file.c:12`, if known.
    pub fn line(&self) -> Option<String> {
        let source = file_name(self.source.as_deref()?);
        Some(match self.line {
            Some(line) => format!("{source}:{line}"),
            None => source.to_owned(),
        })
    }
}

impl LockKind {
    /// Returns the kind of lock that a function waits for; None if it is none.
    fn from_function(function: &str) -> Option<Self> {
        let known = LOCK_FUNCTIONS
            .iter()
            .find(|(part, _)| function.contains(part));
        known.map(|(_, lock)| *lock)
    }

    /// Returns the lock's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Condition => "condition variable",
            Self::ReadWrite => "read-write lock",
            Self::Semaphore => "semaphore",
            Self::Barrier => "barrier",
            Self::Thread => "end of a thread",
        }
    }
}

impl WaitStack {
    /// The frames without the insides of the library in which the thread waits: from the function on that
    /// the program called.
    pub fn outline(&self) -> &[Frame] {
        &self.frames[self.inner_frame_count().saturating_sub(1)..]
    }

    /// Returns the outline without the insides of an interpreter, between a library and the functions that it runs.
    fn own_outline(&self) -> Vec<&Frame> {
        let outline = self.outline();
        let inner = outline.iter().position(is_of_language).unwrap_or(0);
        let library = outline.iter().take(inner.min(1));
        library.chain(&outline[inner..]).collect()
    }

    /// Returns the number of innermost frames of one library; 0 if all frames are of one file, or if the program itself
    /// makes the system call.
    fn inner_frame_count(&self) -> usize {
        let innermost = self.frames.first().and_then(|it| it.object.as_deref());
        let library = innermost.filter(|object| is_library(object));
        let is_inside = |frame: &&Frame| library.is_some() && frame.object.as_deref() == library;
        let inside = self.frames.iter().take_while(is_inside).count();
        if inside == self.frames.len() {
            0
        } else {
            inside
        }
    }

    /// Returns the use of a futex that a thread waits for here, as the names of functions show.
    pub(super) fn lock(&self) -> Option<LockKind> {
        let names = self
            .frames
            .iter()
            .filter_map(|frame| frame.function.as_deref());
        names.take(LOCK_FRAMES).find_map(LockKind::from_function)
    }

    /// Returns whether the stack is within a function with one of these texts in its name.
    pub(super) fn is_in(&self, functions: &[&str]) -> bool {
        let names = self.frames.iter().filter_map(|it| it.function.as_deref());
        let mut inner = names.take(LOCK_FRAMES);
        inner.any(|name| functions.iter().any(|part| name.contains(part)))
    }

    /// Returns the innermost function with one of these texts in its name, without its parameters.
    pub(super) fn find_function(&self, parts: &[&str]) -> Option<String> {
        let has_part = |name: &str| parts.iter().any(|part| name.contains(part));
        let mut frames = self.frames.iter();
        let found = frames.find(|it| it.function.as_deref().is_some_and(has_part));
        found.map(Frame::name)
    }

    /// Returns the purpose of a wait at this place, by the names of functions.
    pub(super) fn purpose(&self) -> StackPurpose {
        let names = || self.frames.iter().filter_map(|it| it.function.as_deref());
        let is_any = |name: &str, of: &[&str]| of.iter().any(|part| name.contains(part));
        if names().any(|name| is_any(name, &RESOLVER_FUNCTIONS)) {
            return StackPurpose::Resolver;
        }
        let is_handshake =
            |name: &str| is_any(name, &HANDSHAKE_FUNCTIONS) || HANDSHAKE_NAMES.contains(&name);
        if names().any(is_handshake) {
            return StackPurpose::Handshake;
        }
        if self.is_in(&INTERPRETER_FUNCTIONS) {
            return StackPurpose::Mutex;
        }
        if self.is_in(&RESULT_FUNCTIONS) {
            return StackPurpose::Result;
        }
        if self.is_in(&CONDITION_FUNCTIONS) {
            return StackPurpose::Condition;
        }
        let mut inner = names().take(LOCK_FRAMES);
        if inner.any(|name| SCHEDULER_FUNCTIONS.contains(&name)) {
            return StackPurpose::Scheduler;
        }
        match self.lock() {
            Some(LockKind::Mutex | LockKind::ReadWrite) => StackPurpose::Mutex,
            _ => StackPurpose::Unknown,
        }
    }

    /// Returns the purpose of a wait inside the kernel, by a kernel stack.
    pub(super) fn kernel_purpose(&self) -> KernelPurpose {
        // parts of a function that the compiler made: `name.constprop.0`
        let names = self.frames.iter().filter_map(|it| it.function.as_deref());
        let mut names = names.map(|name| name.split('.').next().unwrap_or(name));
        let purpose = names.find_map(|name| {
            let known = KERNEL_FUNCTIONS.iter().find(|(it, _)| *it == name);
            known.map(|(_, purpose)| *purpose)
        });
        purpose.unwrap_or(KernelPurpose::Unknown)
    }

    /// Returns the innermost functions in one line, and where the program's own code waits.
    pub fn title(&self, most: usize) -> String {
        let outline = self.own_outline();
        let own = usize::from(self.inner_frame_count() > 0);
        let word = |(at, frame): (usize, &Frame)| match frame.line() {
            Some(line) if at == own => format!("{} ({line})", frame.name()),
            _ => frame.name(),
        };
        let mut words: Vec<String> = outline
            .iter()
            .copied()
            .take(most)
            .enumerate()
            .map(word)
            .collect();
        if outline.len() > most || self.caller != Caller::None {
            words.push("…".to_owned());
        }
        words.join(" ← ")
    }
}

/// Parts of a path of modules and types that are kept of a name.
const PATH_PARTS: usize = 2;

/// Returns the name of a function of C++ or Rust without its types (parameters, template arguments, result). Of its
/// path only the part stays that distinguishes functions.
fn shorten_name(function: &str) -> String {
    if function.contains("operator") {
        return function.to_owned();
    }
    let name = without_types(&shorten_rust_type(function));
    let parts: Vec<&str> = name.split("::").filter(|part| !part.is_empty()).collect();
    match parts.get(parts.len().saturating_sub(PATH_PARTS)..) {
        Some(kept) if !kept.is_empty() => kept.join("::"),
        _ => function.to_owned(),
    }
}

/// Shortens `<a::Type as Trait>::method` and `<a::Type>::method` to `a::Type::method`.
fn shorten_rust_type(function: &str) -> String {
    let mut depth = 0;
    let end = function.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '<') - i32::from(*c == '>');
        depth == 0
    });
    match (function.strip_prefix('<'), end) {
        (Some(_), Some((end, '>'))) => {
            let of = &function[1..end];
            let of = of.split(" as ").next().unwrap_or(of);
            format!("{of}{}", &function[end + 1..])
        }
        _ => function.to_owned(),
    }
}

/// Returns a function's name without its type parameters and arguments.
fn without_types(function: &str) -> String {
    let mut out = String::new();
    let mut depth = 0_u32;
    let mut before = ' ';
    for (at, c) in function.char_indices() {
        let rest = &function[at..];
        match c {
            '<' if rest.starts_with("<lambda") && depth == 0 => {
                out.push_str("lambda");
                depth += 1;
            }
            '{' if rest.starts_with("{closure") && depth == 0 => {
                out.push_str("closure");
                depth += 1;
            }
            '<' | '(' | '{' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
        before = c;
    }
    let name = out.trim().trim_end_matches(" const");
    name.rsplit(' ').next().unwrap_or(name).to_owned()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
