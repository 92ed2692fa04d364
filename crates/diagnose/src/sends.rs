//! What went before a wait on its connection: calls in, in the order of their ends; out, for any moment
//! not long ago, how large the last send was and how many sends had followed the last receive.

use std::collections::VecDeque;

/// Calls of a connection that are remembered. Only those that other threads make while one waits have
/// to be looked behind: an application seldom has more threads on one connection than one that sends
/// and one that receives.
pub const CALLS_KEPT: usize = 16;

/// `MSG_PEEK`: the bytes stay where they are.
const MSG_PEEK: u32 = 2;

/// A call as far as it matters to those after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// When it ended, ns.
    pub end_ns: u64,
    /// Send, or receive.
    pub is_send: bool,
    /// Bytes moved; not 0.
    pub bytes: u32,
    /// Whether these are the first bytes of the stream.
    pub is_first: bool,
}

impl Moved {
    /// Of a row's fields; `None` if the call moved nothing.
    pub fn of(
        end_ns: u64,
        is_send: bool,
        result: i32,
        offset_end: u64,
        flags: u32,
    ) -> Option<Self> {
        let moves = result > 0 && (is_send || flags & MSG_PEEK == 0);
        moves.then(|| Self {
            end_ns,
            is_send,
            bytes: result.unsigned_abs(),
            is_first: offset_end == u64::from(result.unsigned_abs()),
        })
    }
}

/// What went before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Before {
    /// Bytes of the last send; `None`: none was seen.
    pub bytes: Option<u32>,
    /// Sends since the last receive, or since the connection's first byte; `None`: neither was seen.
    pub sends: Option<u32>,
}

impl Before {
    /// What goes before from this send on.
    pub fn and_send(self, send: &Moved) -> Self {
        let sends = self.sends.or(send.is_first.then_some(0));
        Self {
            bytes: Some(send.bytes),
            sends: sends.map(|sends| sends.saturating_add(1)),
        }
    }

    fn and(self, call: &Moved) -> Self {
        if call.is_send {
            return self.and_send(call);
        }
        Self {
            sends: Some(0),
            ..self
        }
    }
}

/// The last calls of one connection.
#[derive(Debug, Default)]
pub struct Sends(VecDeque<(u64, Before)>);

impl Sends {
    /// Adds a call that ended after all others.
    pub fn add(&mut self, call: &Moved) {
        let before = self.0.back().map_or(Before::default(), |(_, it)| *it);
        if self.0.len() == CALLS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back((call.end_ns, before.and(call)));
    }

    /// What had gone before at `at_ns`: calls that ended then, or earlier. Nothing is known of a moment
    /// after which [`CALLS_KEPT`] calls or more have ended.
    pub fn at(&self, at_ns: u64) -> Before {
        let known = self.0.iter().rev().find(|(end_ns, _)| *end_ns <= at_ns);
        known.map_or(Before::default(), |(_, before)| *before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(end_ns: u64, is_send: bool, bytes: i32, offset_end: u64) -> Moved {
        Moved::of(end_ns, is_send, bytes, offset_end, 0).expect("it moves bytes")
    }

    fn told(sends: &Sends, at_ns: u64) -> (Option<u32>, Option<u32>) {
        let before = sends.at(at_ns);
        (before.bytes, before.sends)
    }

    #[test]
    fn sends_are_counted_from_the_last_receive_or_the_first_byte() {
        let mut sends = Sends::default();
        sends.add(&call(10, true, 8, 8));
        sends.add(&call(20, true, 120, 128));
        sends.add(&call(30, false, 64, 64));
        sends.add(&call(40, true, 9, 137));
        assert_eq!(told(&sends, 9), (None, None));
        assert_eq!(told(&sends, 10), (Some(8), Some(1)));
        assert_eq!(told(&sends, 29), (Some(120), Some(2)));
        assert_eq!(told(&sends, 30), (Some(120), Some(0)));
        assert_eq!(told(&sends, 99), (Some(9), Some(1)));
    }

    #[test]
    fn of_a_connection_that_was_open_before_sends_are_not_counted_until_a_receive() {
        let mut sends = Sends::default();
        sends.add(&call(10, true, 8, 1_008));
        assert_eq!(told(&sends, 10), (Some(8), None));
        sends.add(&call(20, false, 8, 5_000));
        sends.add(&call(30, true, 8, 1_016));
        assert_eq!(told(&sends, 30), (Some(8), Some(1)));
    }

    #[test]
    fn what_moves_nothing_is_no_call() {
        assert_eq!(Moved::of(1, true, -11, 0, 0), None);
        assert_eq!(Moved::of(1, false, 0, 0, 0), None);
        assert_eq!(Moved::of(1, false, 8, 8, MSG_PEEK), None);
    }

    #[test]
    fn long_ago_is_not_known() {
        let mut sends = Sends::default();
        for number in 0..=CALLS_KEPT as u64 {
            sends.add(&call(number, true, 8, 8));
        }
        assert_eq!(sends.at(0), Before::default());
        assert_eq!(sends.at(1).bytes, Some(8));
    }
}
