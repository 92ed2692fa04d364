//! Classes of connections: whether their ends take turns. It is judged again and again, each time over some exchanges, as a
//! connection may begin to pipeline, or stop.

use super::exchange::Exchange;

/// Crossings within this are no crossings: the end of a call is noted after the other end has its bytes.
pub const CALL_END_NS: u64 = 50_000;

/// Crossings that are certain: one turn of so many.
const CERTAIN_OF: u64 = 50;

/// Crossings that a late noted end of a call may explain: one turn of so many.
const POSSIBLE_OF: u64 = 3;

/// Exchanges that are judged together.
pub const JUDGED_TOGETHER: u64 = 8;

/// Whether the ends of a connection take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionClass {
    /// One asks, the other answers.
    TurnTaking,
    /// Only one sends.
    OneSided,
    /// Both send at once: pipelined or multiplexed requests, or two streams.
    Interleaved,
    /// One end sends most of its data without being asked.
    Pushed,
    /// It ended, or the recording did, before an answer.
    Unanswered,
}

/// Counts of the exchanges that are judged together.
#[derive(Debug, Clone, Copy, Default)]
struct TurnWindow {
    exchanges: u64,
    /// Bytes crossed without doubt.
    certain: u64,
    /// Bytes crossed, if the end of a call was not noted late.
    possible: u64,
}

impl TurnWindow {
    /// Returns the window from the earlier begin to the later end.
    fn join_window(self, other: Self) -> Self {
        Self {
            exchanges: self.exchanges + other.exchanges,
            certain: self.certain + other.certain,
            possible: self.possible + other.possible,
        }
    }

    /// Returns whether both ends often sent at the same time.
    fn is_crossed(self) -> bool {
        let is_often = |crossings: u64, of: u64| crossings >= 2 && crossings * of > self.exchanges;
        is_often(self.certain, CERTAIN_OF) || is_often(self.possible, POSSIBLE_OF)
    }
}

/// Counts of exchanges and calls of one connection, by which [`TurnCounts::class`] decides whether it has requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct TurnCounts {
    /// Exchanges with a response.
    pub exchanges: u64,
    /// Calls with bytes from the client.
    pub request_calls: u64,
    /// Calls with bytes from the server.
    pub response_calls: u64,
    /// Exchanges that have gaps.
    pub broken: u64,
    /// Requests without a response.
    pub unanswered: u64,
    /// Requests with a response that may go on after the recording.
    pub unfinished: u64,
    /// Times that the server sent without being asked.
    pub pushes: u64,
    window: TurnWindow,
    before: TurnWindow,
    /// Windows in which the ends took turns, and in which bytes crossed.
    kept: u64,
    crossed: u64,
}

impl TurnCounts {
    /// Returns the class, after the last exchange was judged.
    pub fn class(&self) -> ConnectionClass {
        if self.crossed > 0 && self.crossed >= self.kept {
            ConnectionClass::Interleaved
        } else if self.request_calls == 0 || self.response_calls == 0 {
            ConnectionClass::OneSided
        } else if self.is_pushed() || self.exchanges == 0 && self.unfinished > 0 {
            ConnectionClass::Pushed
        } else if self.exchanges == 0 {
            ConnectionClass::Unanswered
        } else {
            ConnectionClass::TurnTaking
        }
    }

    /// Returns whether there are enough exchanges to judge the connection.
    pub fn is_due(&self) -> bool {
        self.window.exchanges >= JUDGED_TOGETHER
    }

    /// Returns whether the server sent without a request more often than with one.
    pub fn is_pushed(&self) -> bool {
        self.pushes >= JUDGED_TOGETHER && self.pushes > self.exchanges
    }

    /// Judges the exchanges since the last time, and returns whether the ends took turns. The last ones, if they are few,
    /// are judged with those before.
    pub fn judge_exchanges(&mut self) -> bool {
        let window = std::mem::take(&mut self.window);
        let judged = match window.exchanges < JUDGED_TOGETHER {
            true => window.join_window(self.before),
            false => window,
        };
        self.before = window;
        let is_crossed = judged.is_crossed();
        self.crossed += u64::from(is_crossed);
        self.kept += u64::from(!is_crossed && window.exchanges > 0);
        !is_crossed && !self.is_pushed()
    }

    /// Counts bytes that arrived before the other end's call ended, if they did.
    pub fn count_crossing(&mut self, arrived_ns: u64, ended_ns: u64, began_after_ns: u64) {
        if is_crossing(arrived_ns, ended_ns) {
            self.window.certain += u64::from(arrived_ns < began_after_ns);
            self.window.possible += 1;
        }
    }

    /// Counts a crossing without doubt: of datagrams.
    pub fn cross_surely(&mut self) {
        self.window.certain += 1;
    }

    /// Counts an exchange that is over.
    pub fn end_exchange(&mut self, exchange: &Exchange) {
        match exchange.response {
            None => self.unanswered += u64::from(!exchange.may_be_control),
            Some(_) if exchange.has_gap => self.broken += 1,
            Some(_) => {
                self.exchanges += 1;
                self.window.exchanges += 1;
            }
        }
    }
}

/// Returns whether bytes arrived while the other end's call went on.
pub const fn is_crossing(arrived_ns: u64, ended_ns: u64) -> bool {
    arrived_ns.saturating_add(CALL_END_NS) < ended_ns
}
