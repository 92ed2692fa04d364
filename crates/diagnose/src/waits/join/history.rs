//! The join itself: calls, counter values and waits in, in the order of time; out, for each wait, what
//! went before it on its connection and in its thread.
//!
//! A wait is joined when it ends. The sends before it are those that had ended when it began; a wait
//! within a send call belongs to that call. The row of the call comes after it, so that waits on a connection are
//! held until the next call of their thread has come.

use crate::rows::hash::ConnectionMap;
use crate::rows::sends::{CallBytes, CallHistory, PrecedingCalls};

/// Calls of a connection that are remembered. Only those that other threads make while one waits have to be
/// searched: what went before a wait in which there were more is not known.
pub const CALLS_KEPT: usize = 16;
/// Waits of one call that are held. Of a call with more (a send of some 100 MB) what went before the
/// first ones is not known.
pub const HELD: usize = 4_096;

/// A call, with its connection and thread.
#[derive(Debug, Clone, Copy)]
pub struct CallTimes {
    /// Its connection.
    pub conn: u64,
    /// When it first blocked, ns; `None`: never.
    pub blocked_from_ns: Option<u64>,
    /// Bytes that it moved; `None`: none.
    pub moved: Option<CallBytes>,
}

/// A wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitInterval {
    /// When it began, ns.
    pub start_ns: u64,
    /// The connection waited for, or the ready one of several.
    pub conn: Option<u64>,
    /// Whether it may be within a call on that connection.
    pub may_be_in_call: bool,
    /// Group of the report.
    pub group: u32,
    /// Whether it is one of the slow waits.
    pub is_slow: bool,
}

/// One thread: its counters, and its waits without their call.
#[derive(Debug, Default)]
struct Thread {
    values: Vec<(u16, f64)>,
    held: Vec<(WaitInterval, PrecedingCalls)>,
}

/// All connections and threads.
#[derive(Debug, Default)]
pub struct History {
    conns: ConnectionMap<CallHistory<CALLS_KEPT>>,
    threads: Vec<Thread>,
}

impl History {
    /// Returns the history of a thread by its number; makes those that are missing.
    fn thread(&mut self, thread: u32) -> &mut Thread {
        let place = thread as usize;
        if place >= self.threads.len() {
            self.threads.resize_with(place + 1, Thread::default);
        }
        &mut self.threads[place]
    }

    /// Notes the new value of a thread's counter.
    pub fn value(&mut self, thread: u32, counter: u16, value: f64) {
        let values = &mut self.thread(thread).values;
        match values.iter_mut().find(|(known, _)| *known == counter) {
            Some((_, known)) => *known = value,
            None => values.push((counter, value)),
        }
    }

    /// Returns the counters of a thread with their last values.
    pub fn values(&self, thread: u32) -> &[(u16, f64)] {
        self.threads
            .get(thread as usize)
            .map_or(&[], |thread| &thread.values)
    }

    /// Adds a wait that ended; passes on waits with known sends to `emit`.
    pub fn wait(
        &mut self,
        thread: u32,
        wait: WaitInterval,
        mut emit: impl FnMut(WaitInterval, PrecedingCalls),
    ) {
        let sends = wait.conn.and_then(|conn| self.conns.get(conn));
        let before = sends.map_or(PrecedingCalls::default(), |sends| sends.at(wait.start_ns));
        let held = &mut self.thread(thread).held;
        let same = held.last().is_none_or(|(last, _)| last.conn == wait.conn);
        if !(same && wait.may_be_in_call) {
            held.drain(..).for_each(|(wait, before)| emit(wait, before));
        }
        if !wait.may_be_in_call {
            return emit(wait, before);
        }
        if held.len() == HELD {
            held.drain(..)
                .for_each(|(wait, _)| emit(wait, PrecedingCalls::default()));
        }
        held.push((wait, before));
    }

    /// Adds a call that ended; passes on the waits of its thread to `emit`.
    pub fn call(
        &mut self,
        thread: u32,
        call: CallTimes,
        mut emit: impl FnMut(WaitInterval, PrecedingCalls),
    ) {
        let sent = call.moved.filter(|moved| moved.is_send);
        for (wait, before) in self.thread(thread).held.drain(..) {
            let within = wait.conn == Some(call.conn)
                && call
                    .blocked_from_ns
                    .is_some_and(|from| from <= wait.start_ns);
            match sent.filter(|_| within) {
                Some(send) => emit(wait, before.and_send(&send)),
                None => emit(wait, before),
            }
        }
        if let Some(moved) = &call.moved {
            let place = self.conns.position(call.conn);
            self.conns.at(place).add(moved);
        }
    }

    /// Ends the history: hands on all waits, as no more rows come.
    pub fn finish(&mut self, mut emit: impl FnMut(WaitInterval, PrecedingCalls)) {
        for thread in &mut self.threads {
            thread
                .held
                .drain(..)
                .for_each(|(wait, before)| emit(wait, before));
        }
    }
}
