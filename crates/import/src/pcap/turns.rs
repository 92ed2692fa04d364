//! Bytes of a connection → rows of table `calls`, from which requests are found by turn-taking. A row is a run of bytes in one
//! direction, as the client's end sends or receives them; a capture shows no calls.

use table::tables::Call;

use super::sequence::Offset;

/// Bytes that come so long after those before begin a row of their own, so that a row shows no silence. The writes of a
/// program that sends on are nearer together, and a delayed ACK is longer.
pub const RUN_PAUSE_NS: u64 = 10_000_000;

/// A run of bytes in one direction.
#[derive(Debug, Clone, Copy)]
pub struct ByteRun {
    /// Whether the client sends.
    pub is_request: bool,
    /// When the first byte passed.
    pub first_ns: u64,
    /// When the last byte passed.
    pub last_ns: u64,
    /// Bytes.
    pub bytes: u64,
    /// Offset after the last byte.
    pub end: Offset,
    is_begin: bool,
}

/// The run that goes on, and what became of the ones before.
#[derive(Debug, Clone, Default)]
pub struct TurnRuns {
    open: Option<ByteRun>,
    is_request: Option<bool>,
}

impl TurnRuns {
    /// Adds bytes up to `end`. Returns the run that is over by that.
    pub fn add(
        &mut self,
        is_request: bool,
        now_ns: u64,
        (first, end): (Offset, Offset),
    ) -> Option<ByteRun> {
        let bytes = (end - first).max(0).unsigned_abs();
        if let Some(open) = &mut self.open
            && open.is_request == is_request
            && !open.is_begin
            && now_ns.saturating_sub(open.last_ns) < RUN_PAUSE_NS
        {
            open.last_ns = now_ns;
            open.bytes += bytes;
            open.end = end;
            return None;
        }
        // The first bytes of a turn have a row of their own: when they come is when the other end answers.
        let is_begin = self.is_request.replace(is_request) != Some(is_request);
        self.open.replace(ByteRun {
            is_request,
            first_ns: now_ns,
            last_ns: now_ns,
            bytes,
            end,
            is_begin,
        })
    }

    /// Returns the open run if it began before `until_ns`.
    pub fn take_run(&mut self, until_ns: u64) -> Option<ByteRun> {
        self.open.take_if(|open| open.last_ns <= until_ns)
    }

    /// Returns when the open run may be taken.
    pub fn due_ns(&self) -> Option<u64> {
        self.open
            .map(|open| open.last_ns.saturating_add(RUN_PAUSE_NS))
    }
}

impl ByteRun {
    /// Makes the row of a call at the client's end. `away_ns`: one-way time to the client.
    pub fn row(&self, conn: u64, thread: u32, away_ns: u64) -> Call {
        let moved = |ns: u64| match self.is_request {
            true => ns.saturating_sub(away_ns),
            false => ns + away_ns,
        };
        Call {
            conn,
            end_ns: moved(self.last_ns),
            start_ns: (self.first_ns < self.last_ns).then(|| moved(self.first_ns)),
            blocked_ns: None,
            runq_ns: None,
            unread_ns: None,
            tcp_ns: None,
            is_send: self.is_request,
            asked_bytes: None,
            result: i32::try_from(self.bytes).unwrap_or(i32::MAX),
            offset_end: self.end.max(0).unsigned_abs(),
            flags: 0,
            tid: thread,
            pid: thread,
            cpu: 0,
        }
    }
}
