//! Calls before a wait on its connection: calls in, in the order of their ends; out, for any moment
//! not long ago, how large the last send and the last receive were, and how many sends had followed the
//! receive.

/// `MSG_PEEK`: the bytes stay where they are.
const MSG_PEEK: u32 = 2;

/// A call as far as it matters to those after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallBytes {
    /// When it ended, ns.
    pub end_ns: u64,
    /// Send, or receive.
    pub is_send: bool,
    /// Bytes moved; not 0.
    pub bytes: u32,
    /// Whether these are the first bytes of the stream.
    pub is_first: bool,
}

impl CallBytes {
    /// Makes a moving call from a row's fields; `None`: the call moved nothing.
    pub fn new(
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

/// Calls before a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrecedingCalls {
    /// Bytes of the last send; `None`: none was seen.
    pub sent_bytes: Option<u32>,
    /// Bytes of the last receive; `None`: none was seen.
    pub received_bytes: Option<u32>,
    /// Sends since the last receive, or since the connection's first byte; `None`: neither was seen.
    pub sends: Option<u32>,
}

impl PrecedingCalls {
    /// Returns the preceding calls after this send.
    pub fn and_send(self, send: &CallBytes) -> Self {
        let sends = self.sends.or(send.is_first.then_some(0));
        Self {
            sent_bytes: Some(send.bytes),
            sends: sends.map(|sends| sends.saturating_add(1)),
            ..self
        }
    }

    /// Adds one call: a receive call restarts the count of sends.
    fn and(self, call: &CallBytes) -> Self {
        if call.is_send {
            return self.and_send(call);
        }
        Self {
            received_bytes: Some(call.bytes),
            sends: Some(0),
            ..self
        }
    }
}

/// The last `KEPT` calls of one connection, by their ends. More than one matters where other threads make
/// calls while one waits.
#[derive(Debug)]
pub struct CallHistory<const KEPT: usize> {
    calls: [(u64, PrecedingCalls); KEPT],
    /// Calls so far.
    count: u64,
}

impl<const KEPT: usize> Default for CallHistory<KEPT> {
    fn default() -> Self {
        Self {
            calls: [(0, PrecedingCalls::default()); KEPT],
            count: 0,
        }
    }
}

impl<const KEPT: usize> CallHistory<KEPT> {
    /// Adds a call that ended after all others.
    pub fn add(&mut self, call: &CallBytes) {
        let last = self.latest_calls().next();
        let before = last.map_or(PrecedingCalls::default(), |(_, before)| before);
        self.calls[self.count as usize % KEPT] = (call.end_ns, before.and(call));
        self.count += 1;
    }

    /// The calls that are remembered, the last one first.
    fn latest_calls(&self) -> impl Iterator<Item = (u64, PrecedingCalls)> + '_ {
        let first = self.count.saturating_sub(KEPT as u64);
        let places = (first..self.count).rev();
        places.map(|place| self.calls[place as usize % KEPT])
    }

    /// Returns the calls before `at_ns`: calls that ended then, or earlier. Nothing is known of a moment
    /// after which `KEPT` calls or more have ended.
    pub fn at(&self, at_ns: u64) -> PrecedingCalls {
        let known = self.latest_calls().find(|(end_ns, _)| *end_ns <= at_ns);
        known.map_or(PrecedingCalls::default(), |(_, before)| before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a call that moves bytes up to this offset of the stream.
    fn call(end_ns: u64, is_send: bool, bytes: i32, offset_end: u64) -> CallBytes {
        CallBytes::new(end_ns, is_send, bytes, offset_end, 0).expect("it moves bytes")
    }

    /// Returns bytes and number of send calls just before a time.
    fn sizes(sends: &CallHistory<8>, at_ns: u64) -> (Option<u32>, Option<u32>) {
        let before = sends.at(at_ns);
        (before.sent_bytes, before.sends)
    }

    #[test]
    fn sends_are_counted_from_the_last_receive_or_the_first_byte() {
        let mut sends = CallHistory::<8>::default();
        sends.add(&call(10, true, 8, 8));
        sends.add(&call(20, true, 120, 128));
        sends.add(&call(30, false, 64, 64));
        sends.add(&call(40, true, 9, 137));
        assert_eq!(sizes(&sends, 9), (None, None));
        assert_eq!(sizes(&sends, 10), (Some(8), Some(1)));
        assert_eq!(sizes(&sends, 29), (Some(120), Some(2)));
        assert_eq!(sizes(&sends, 30), (Some(120), Some(0)));
        assert_eq!(sizes(&sends, 99), (Some(9), Some(1)));
        let received = [29, 30, 99].map(|at_ns| sends.at(at_ns).received_bytes);
        assert_eq!(received, [None, Some(64), Some(64)]);
    }

    #[test]
    fn sends_of_an_old_connection_count_from_a_receive() {
        let mut sends = CallHistory::<8>::default();
        sends.add(&call(10, true, 8, 1_008));
        assert_eq!(sizes(&sends, 10), (Some(8), None));
        sends.add(&call(20, false, 8, 5_000));
        sends.add(&call(30, true, 8, 1_016));
        assert_eq!(sizes(&sends, 30), (Some(8), Some(1)));
    }

    #[test]
    fn call_without_bytes_is_no_call() {
        assert_eq!(CallBytes::new(1, true, -11, 0, 0), None);
        assert_eq!(CallBytes::new(1, false, 0, 0, 0), None);
        assert_eq!(CallBytes::new(1, false, 8, 8, MSG_PEEK), None);
    }

    #[test]
    fn calls_long_ago_are_unknown() {
        let mut sends = CallHistory::<8>::default();
        for number in 0..=8 {
            sends.add(&call(number, true, 8, 8));
        }
        assert_eq!(sends.at(0), PrecedingCalls::default());
        assert_eq!(sends.at(1).sent_bytes, Some(8));
    }
}
