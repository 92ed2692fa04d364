//! From captured records to an agent's answers: the state of connections that live, and rows of the interval that is under
//! way.

use probe::clock::monotonic_ns;
use probe::hooks::{Hooks, HooksError, ProbeOutput};
use record::CaptureSink;
use table::fleet::FleetCoverage;

use super::live::{Changes, ClosedConnection, LiveConnections};
use super::meter::{IntervalCost, Meter};
use super::options::Watch;
use super::pending::Pending;
use super::rates::Rates;
use super::rows::RowContext;
use super::timeline::{ClockReading, End, IntervalSpan};
use crate::Interval;

/// Takes what an agent captures.
pub(super) struct AgentSink {
    pub(super) watch: Watch,
    pub(super) watched: LiveConnections,
    pub(super) rates: Rates,
    pub(super) meter: Meter,
    pub(super) span: IntervalSpan,
    pub(super) pending: Pending,
    pub(super) has_calls: bool,
    pub(super) has_timeouts: bool,
}

impl CaptureSink for AgentSink {
    fn add_output(&mut self, output: ProbeOutput) -> bool {
        self.meter.note_undecoded(output.undecoded.values().sum());
        let Changes {
            near,
            problems,
            longest_ns,
            closed,
        } = self.watched.take(output, &self.span);
        self.meter.reading(longest_ns);
        let context = context(&self.watch, &self.span, self.has_calls, self.has_timeouts);
        self.pending.put_near(&context, near);
        let now_ns = monotonic_ns();
        for (cookie, problem_ns) in problems {
            self.rates.note(cookie, problem_ns, now_ns);
        }
        self.put_closed(closed);
        // walks over watched sockets read those that send their last bytes, too
        false
    }
}

impl AgentSink {
    /// Adds the last rows of closed connections.
    fn put_closed(&mut self, closed: Vec<ClosedConnection>) {
        let context = context(&self.watch, &self.span, self.has_calls, self.has_timeouts);
        for ClosedConnection { cookie, connection } in closed {
            self.rates.forget(cookie);
            self.pending
                .put_closed(&context, connection, &self.watched.owners);
        }
    }

    /// Closes connections that a walk over all, begun at `walk_ns`, did not read.
    pub(super) fn close_unread(&mut self, walk_ns: u64) {
        let unread = self.watched.remove_unread(walk_ns);
        self.put_closed(unread);
    }

    /// Returns the cost of the interval that ends now.
    pub(super) fn cost(
        &mut self,
        hooks: &Hooks<'_>,
        length_ns: i64,
    ) -> Result<IntervalCost, HooksError> {
        self.meter.interval(hooks, length_ns.cast_unsigned())
    }

    /// Returns the rows of the interval that ends now, and begins the next one.
    pub(super) fn end_interval(
        &mut self,
        end: End,
        now: ClockReading,
        coverage: FleetCoverage,
    ) -> Interval {
        if end == End::Cut {
            // perhaps the last of these connections: their totals are then those until now
            let live = self.watched.live.values_mut();
            live.for_each(|connection| connection.is_changed = true);
        }
        let context = context(&self.watch, &self.span, self.has_calls, self.has_timeouts);
        let interval = self.pending.end(&context, &mut self.watched, coverage);
        if end == End::Cut {
            self.pending.cut(&mut self.watched);
        }
        let next = self.span.next(end, now, self.watch.interval_ns);
        if next.begin_hour() != self.span.begin_hour() {
            let live = self.watched.live.values_mut();
            live.for_each(|connection| connection.is_changed = true);
        }
        self.watched.forget_owners();
        self.span = next;
        interval
    }
}

/// Makes what all rows of an interval have in common.
fn context<'a>(
    watch: &'a Watch,
    span: &'a IntervalSpan,
    has_calls: bool,
    has_timeouts: bool,
) -> RowContext<'a> {
    RowContext {
        host: &watch.host,
        span,
        has_calls,
        has_timeouts,
    }
}
