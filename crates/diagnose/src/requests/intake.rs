//! Rows of the tables → rows as far as they matter, put in the order of time.

use table::tables::{Calls, OnCpuSamples, Preemptions, Waits};
use table::{Columns, WaitObject};

use super::file_lock::is_file_lock;
use super::functions::ThreadSample;
use super::history::{Target, ThreadPreemption, ThreadWait};
use super::request_table::{ROWS_KEPT, RequestTable, Row, SOURCES, Source};
use crate::rows::in_order::InOrder;
use crate::waits::{KernelPurpose, StackPurpose};

/// A receive call that takes nothing away (`MSG_PEEK`), or takes what is no data (`MSG_ERRQUEUE`).
const NOT_TAKING: u32 = 0x2 | 0x2000;

/// System calls that write or send, by their numbers on x86-64 and on ARM64: write, pwrite64, writev, sendto, sendmsg, splice,
/// sendmmsg. No number is of another call that waits for a pipe, a terminal or a UNIX socket on the other machine.
const OUTPUT_CALLS: [i32; 13] = [1, 18, 20, 44, 46, 275, 307, 64, 68, 66, 206, 211, 269];

impl RequestTable {
    /// Returns the table with rows that have not come yet; `None`: all have come.
    pub fn missing_source(&self) -> Option<Source> {
        let reached = SOURCES.into_iter().zip(self.reached_ns);
        let behind = reached.filter_map(|(source, ns)| Some((ns?, source)));
        behind.min_by_key(|(ns, _)| *ns).map(|(_, source)| source)
    }

    /// Takes the next rows of table `waits`; `None`: there are no more.
    pub fn add_waits(&mut self, rows: Option<&Waits>) {
        let Some(rows) = rows else {
            return self.advance_source(Source::Waits, None);
        };
        self.has_waits |= !rows.is_empty();
        for row in 0..rows.len() {
            let thread = self.history.thread(rows.pid[row], rows.tid[row]);
            let wait = self.wait(rows, row);
            let tie = break_tie(0, u64::from(rows.tid[row]), rows.start_ns[row]);
            let key = (rows.end_ns[row], tie);
            self.rows.push(key, Row::Wait { thread, wait });
        }
        self.advance_source(Source::Waits, Some(rows.time_range_ns()));
    }

    /// Takes the next rows of table `preemptions`; `None`: there are no more.
    pub fn add_preemptions(&mut self, rows: Option<&Preemptions>) {
        let Some(rows) = rows else {
            return self.advance_source(Source::Preemptions, None);
        };
        for row in 0..rows.len() {
            let thread = self.history.thread(rows.pid[row], rows.tid[row]);
            let preemption = ThreadPreemption {
                off_cpu_ns: rows.off_cpu_ns[row],
                is_quota: rows.quota_used_up[row] == Some(true),
            };
            let tie = break_tie(0, u64::from(rows.tid[row]), rows.start_ns[row]);
            let key = (rows.end_ns[row], tie);
            self.rows.push(key, Row::Preemption { thread, preemption });
        }
        self.advance_source(Source::Preemptions, Some(rows.time_range_ns()));
    }

    /// Takes the next rows of table `on_cpu_samples`; `None`: there are no more.
    pub fn add_on_cpu_samples(&mut self, rows: Option<&OnCpuSamples>) {
        let Some(rows) = rows else {
            return self.advance_source(Source::Samples, None);
        };
        for row in 0..rows.len() {
            let (pid, tid, time_ns) = (rows.pid[row], rows.tid[row], rows.time_ns[row]);
            let thread = self.history.thread(pid, tid);
            let sample = ThreadSample {
                time_ns,
                function: self.functions.of_sample(&self.names, pid, rows.stack[row]),
                in_kernel: rows.in_kernel[row],
            };
            let tie = break_tie(0, u64::from(tid), time_ns);
            self.rows
                .push((time_ns, tie), Row::Sample { thread, sample });
        }
        self.advance_source(Source::Samples, Some(rows.time_range_ns()));
    }

    /// Makes the wait of one row, with its target and its waker's thread.
    fn wait(&mut self, rows: &Waits, row: usize) -> ThreadWait {
        let (start_ns, end_ns) = (rows.start_ns[row].min(rows.end_ns[row]), rows.end_ns[row]);
        let object = rows.kind[row];
        let waker = rows.waker_pid[row].zip(rows.waker_tid[row]);
        let kernel = self.kernel_purpose(rows.kernel_stack[row]);
        ThreadWait {
            start_ns,
            woken_ns: rows.woken_ns[row].map_or(end_ns, |ns| ns.clamp(start_ns, end_ns)),
            object,
            // of another purpose, the registers are those of the call that was interrupted
            target: match kernel.is_beside_call() {
                true => Target::None,
                false => self.wait_target(rows, row),
            },
            waker: rows.waker[row],
            waker_thread: waker.map(|(pid, tid)| self.history.thread(pid, tid)),
            is_ready: rows.ready_fd[row].is_some(),
            uninterruptible: rows.uninterruptible[row],
            purpose: self.wait_purpose(object, rows.stack[row]),
            stack: rows.stack[row],
            kernel,
            is_output: kernel == KernelPurpose::Output || is_output(rows, row),
            is_file_lock: is_file_lock(rows, row),
            futex: rows.object[row].filter(|_| object == WaitObject::Futex),
            until_ns: rows.limit_ns[row].map(|limit_ns| start_ns.saturating_add(limit_ns)),
            is_endless: is_endless(rows, row),
        }
    }

    /// Returns what the kernel did at this stack; finds it once for each stack.
    fn kernel_purpose(&mut self, stack: Option<u32>) -> KernelPurpose {
        let Some(stack) = stack else {
            return KernelPurpose::Unknown;
        };
        let known = self.kernel_purposes.entry(stack);
        *known.or_insert_with(|| self.names.kernel_purpose(stack))
    }

    /// Returns the socket that a wait was for.
    fn wait_target(&mut self, rows: &Waits, row: usize) -> Target {
        if rows.kind[row] == WaitObject::Unix {
            let inode = rows.object[row];
            let unix = inode.and_then(|inode| self.endpoints.find_unix(inode, &self.names));
            return unix.map_or(Target::None, Target::Connection);
        }
        let inode = rows.object[row].filter(|_| rows.kind[row] == WaitObject::Datagram);
        if let Some(flow) = inode.and_then(|inode| self.endpoints.find_udp(inode)) {
            return Target::Connection(flow);
        }
        let conn = rows.conn[row].or(rows.ready_conn[row]);
        match conn.map(|conn| self.endpoints.find(conn)) {
            Some(Some(endpoint)) => Target::Connection(endpoint),
            Some(None) => Target::Socket,
            None => Target::None,
        }
    }

    /// Returns the purpose of a wait that only its stack shows.
    fn wait_purpose(&mut self, object: WaitObject, stack: Option<u32>) -> StackPurpose {
        let has_purpose = matches!(
            object,
            WaitObject::Futex
                | WaitObject::Datagram
                | WaitObject::Poll
                | WaitObject::Epoll
                | WaitObject::Select
                | WaitObject::Connection
                | WaitObject::Unix
        );
        match stack.filter(|_| has_purpose) {
            None => StackPurpose::Unknown,
            Some(stack) => {
                let known = self.purposes.entry(stack);
                *known.or_insert_with(|| self.names.purpose(stack))
            }
        }
    }

    /// Takes the next rows of table `calls`; `None`: there are no more.
    pub fn add_calls(&mut self, rows: Option<&Calls>) {
        let Some(rows) = rows else {
            return self.advance_source(Source::Calls, None);
        };
        for row in 0..rows.len() {
            let is_send = rows.is_send[row];
            let takes = is_send || rows.flags[row] & NOT_TAKING == 0;
            let Some(endpoint) = self.endpoints.find(rows.conn[row]).filter(|_| takes) else {
                continue;
            };
            let Ok(bytes) = u64::try_from(rows.result[row]) else {
                self.endpoints.note_error(endpoint, -rows.result[row]);
                continue;
            };
            let thread = self.history.thread(rows.pid[row], rows.tid[row]);
            let call = Row::Call {
                endpoint,
                thread,
                is_send,
                start_ns: rows.start_ns[row],
                unread_ns: rows.unread_ns[row],
                tcp_ns: rows.tcp_ns[row],
                bytes,
                offset_end: rows.offset_end[row],
            };
            let place = rows.conn[row] << 1 | u64::from(is_send);
            let key = (rows.end_ns[row], break_tie(1, place, rows.offset_end[row]));
            self.rows.push(key, call);
        }
        self.advance_source(Source::Calls, Some(rows.time_range_ns()));
    }

    /// Notes that rows of a source have come, up to the end of `range`; `None`: all have come.
    fn advance_source(&mut self, source: Source, range: Option<Option<(u64, u64)>>) {
        let reached = &mut self.reached_ns[source as usize];
        let until_ns = reached.unwrap_or(0);
        *reached = range.map(|range| range.map_or(until_ns, |(_, last_ns)| last_ns.max(until_ns)));
        if self.rows.is_full() {
            let least_ns = self.reached_ns.into_iter().flatten().min();
            let mut rows = std::mem::replace(&mut self.rows, InOrder::new(ROWS_KEPT));
            rows.release(least_ns.map(|ns| (ns, 0)))
                .for_each(|(key, row)| self.pass(key.0, row));
            self.rows = rows;
        }
    }
}

/// System calls with a time limit that is no column of `waits`, by their numbers on x86-64 and on ARM64: epoll_pwait2, ppoll.
const UNSEEN_LIMITS: [i32; 3] = [441, 271, 73];

/// Returns whether a wait for descriptors has no time limit.
fn is_endless(rows: &Waits, row: usize) -> bool {
    let is_set = matches!(rows.kind[row], WaitObject::Epoll | WaitObject::Poll);
    let is_seen = rows.syscall[row].is_some_and(|it| !UNSEEN_LIMITS.contains(&it));
    is_set && is_seen && rows.limit_ns[row].is_none()
}

/// Returns whether a thread waited for room for its output, by its system call. A disk makes a
/// thread wait in a way that no signal ends.
fn is_output(rows: &Waits, row: usize) -> bool {
    let has_reader = match rows.kind[row] {
        WaitObject::Pipe | WaitObject::Unix => true,
        WaitObject::File => !rows.uninterruptible[row],
        _ => false,
    };
    let syscall = rows.syscall[row];
    has_reader && syscall.is_some_and(|number| OUTPUT_CALLS.contains(&number))
}

/// Returns a key that orders rows of one time: by kind, then by subject.
fn break_tie(order: u64, of: u64, place: u64) -> u64 {
    let mixed = (of.rotate_left(32) ^ place).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    order << 63 | mixed >> 1
}
