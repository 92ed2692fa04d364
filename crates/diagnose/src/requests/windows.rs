//! Windows of a recording under a budget: to requests, each is a recording of its own. What is open at its end is over, and what
//! threads did before it is not known.

use super::endpoint::EndpointId;
use super::request_table::RequestTable;
use crate::rows::windows::WindowTimes;

impl RequestTable {
    /// Takes rows of these windows only.
    #[must_use]
    pub fn with_windows(mut self, windows: WindowTimes) -> Self {
        self.windows = windows;
        self
    }

    /// Returns whether rows are of windows only.
    pub(super) fn has_windows(&self) -> bool {
        self.windows.sums().is_some()
    }

    /// Returns when the present window began, ns; 0 without windows.
    pub(super) fn window_begin_ns(&self) -> u64 {
        let present = self.windows_begun.checked_sub(1);
        let present = present.and_then(|number| self.windows.get(number));
        present.map_or(0, |(begin_ns, _)| begin_ns)
    }

    /// Ends the windows before `now_ns`, the time of the next row, and begins those that have begun
    /// by then.
    pub(super) fn begin_windows(&mut self, now_ns: u64) {
        while let Some((begin_ns, _)) = self.windows.get(self.windows_begun)
            && begin_ns <= now_ns
        {
            let before = self.windows_begun.checked_sub(1);
            if let Some((_, end_ns)) = before.and_then(|number| self.windows.get(number)) {
                self.end_window(end_ns);
            }
            self.windows_begun += 1;
        }
    }

    /// Cuts all connections at the end of a recorded window, and forgets the threads' past.
    fn end_window(&mut self, end_ns: u64) {
        for id in self.endpoints.ids() {
            self.cut_connection(id, end_ns);
        }
        self.waiting.clear();
        self.history.forget_all();
        self.runs.values_mut().for_each(|run| run.cut());
    }

    /// Ends a connection's open request at the end of a window: the connection went on, or closed
    /// before.
    fn cut_connection(&mut self, id: EndpointId, end_ns: u64) {
        let closed_ns = self.endpoints.get(id).closed_ns;
        if closed_ns.is_some_and(|ns| ns <= end_ns) {
            return self.finish_connection(id);
        }
        let Some(mut turns) = self.turns[id.index()].take() else {
            return;
        };
        let before = turns.tracker.take_before();
        let is_open = turns.tracker.open().is_some();
        let last = turns.tracker.cut(end_ns);
        self.unfinished += u64::from(is_open && last.is_none());
        for exchange in before.into_iter().chain(last) {
            self.hold_exchange(id, &mut turns, *exchange);
        }
        turns.judge();
        self.release_exchanges(id, &mut turns);
        turns.answered_ns = None;
        turns.series.cut();
        self.turns[id.index()] = Some(turns);
    }
}
