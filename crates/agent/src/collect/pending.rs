//! Rows of the interval that is under way. What is known of it at its end is complete but for one thing: a problem in
//! the bin after it makes readings and bins at its end worth keeping. Those are written with the next interval, with
//! rows of earlier times in its files for that.

use std::collections::HashMap;
use std::sync::Arc;

use table::Columns;
use table::fleet::{
    BIN_NS, FleetConnections, FleetCoverage, FleetDetails, FleetIntervals, FleetProblems,
};

use super::bins::Bins;
use super::connection::{Connection, ContextSample};
use super::live::LiveConnections;
use super::owners::Owners;
use super::rows::{NearProblems, RowContext};
use crate::{ContainerIdentity, Interval};

/// Most connections that are kept of those that close in an interval: each takes some 3 kB of memory until its end.
const CLOSED_MOST: i64 = 12_000;

/// Most readings near problems that are kept of one connection in an interval: those of a bin and its neighbours at two
/// a second.
const DETAILS_OF_ONE: u32 = 12;

/// Most that are kept of all, a minute: where many connections have problems all day, they would be most of the dataset.
const DETAILS_A_MINUTE: i64 = 400;
const MINUTE_NS: i64 = 60_000_000_000;

/// Holds the rows since the last interval ended.
#[derive(Debug)]
pub(super) struct Pending {
    /// How long intervals are to be.
    interval_ns: i64,
    details: FleetDetails,
    /// How many of them are of each connection.
    of_one: HashMap<i64, u32>,
    intervals: FleetIntervals,
    connections: FleetConnections,
    containers: HashMap<i64, Arc<ContainerIdentity>>,
    gone: Vec<ClosedBins>,
    /// Closed connections that are kept whole.
    closed: i64,
    left_out: LeftOut,
}

/// Counts rows that are not kept, as there were too many.
#[derive(Debug, Default)]
struct LeftOut {
    details: i64,
    connections: i64,
}

/// Holds bins of a closed connection that are not written yet.
#[derive(Debug)]
struct ClosedBins {
    conn_id: i64,
    pid: Option<u32>,
    /// When it was there, `CLOCK_REALTIME`.
    lifetime: (i64, i64),
    bins: Bins,
}

impl Pending {
    /// Makes an empty store for intervals of this length.
    pub(super) fn new(interval_ns: i64) -> Self {
        Self {
            interval_ns,
            details: FleetDetails::default(),
            of_one: HashMap::new(),
            intervals: FleetIntervals::default(),
            connections: FleetConnections::default(),
            containers: HashMap::new(),
            gone: Vec::new(),
            closed: 0,
            left_out: LeftOut::default(),
        }
    }

    /// Adds readings near problems.
    pub(super) fn put_near(&mut self, context: &RowContext<'_>, near: Vec<(i64, ContextSample)>) {
        let most = DETAILS_A_MINUTE * self.interval_ns / MINUTE_NS;
        let most = most.max(DETAILS_OF_ONE.into());
        for (conn_id, near) in near {
            let of_one = self.of_one.entry(conn_id).or_default();
            if *of_one < DETAILS_OF_ONE && (self.details.len() as i64) < most {
                *of_one += 1;
                self.details.push(context.detail(conn_id, &near));
            } else {
                self.left_out.details += 1;
            }
        }
    }

    /// Adds a connection that has closed.
    pub(super) fn put_closed(
        &mut self,
        context: &RowContext<'_>,
        mut closed: Connection,
        owners: &Owners,
    ) {
        let until_ns = closed.closed_ns().unwrap_or(closed.last_read_ns());
        let elapsed_ns = context.span.wall_ns(until_ns) - context.span.begin_ns;
        if !self.has_room(elapsed_ns, closed.bins.has_problem()) {
            self.left_out.connections += 1;
            return;
        }
        self.closed += 1;
        if let Some(part) = closed.part.take() {
            let until_ns = context.span.wall_ns(until_ns);
            self.intervals
                .push(context.interval(&closed, &part, until_ns));
        }
        self.put_connection(context, &closed, owners, until_ns);
        if !closed.bins.is_empty() {
            self.gone.push(ClosedBins {
                conn_id: closed.conn_id,
                pid: closed.pid(),
                lifetime: (
                    context.span.wall_ns(closed.first_ns),
                    context.span.wall_ns(until_ns),
                ),
                bins: closed.bins,
            });
        }
    }

    /// Returns whether one more closed connection fits into the interval, this long after its
    /// begin. The room of those without problems grows with time, so that what is kept is not all
    /// of the interval's begin.
    fn has_room(&self, elapsed_ns: i64, has_problem: bool) -> bool {
        // a tenth may come at once
        let passed_ns = elapsed_ns.clamp(0, self.interval_ns) + self.interval_ns / 10;
        let by_now = CLOSED_MOST * passed_ns.min(self.interval_ns) / self.interval_ns;
        self.closed < if has_problem { CLOSED_MOST } else { by_now }
    }

    /// Ends the interval of `coverage`. Bins that may yet be near a problem stay.
    pub(super) fn end(
        &mut self,
        context: &RowContext<'_>,
        watched: &mut LiveConnections,
        coverage: FleetCoverage,
    ) -> Interval {
        let end_ns = coverage.begin_ns + coverage.length_us * 1_000;
        self.put_live(context, watched, end_ns);
        let problems = self.problems(context, watched, end_ns);
        self.gone.retain_mut(|gone| {
            gone.bins.forget_before(end_ns - BIN_NS);
            !gone.bins.is_empty()
        });
        for connection in watched.live.values_mut() {
            connection.bins.forget_before(end_ns - BIN_NS);
        }
        self.of_one.clear();
        self.closed = 0;
        Interval {
            begin_ns: coverage.begin_ns,
            coverage: FleetCoverage {
                details_left_out: Some(std::mem::take(&mut self.left_out.details)),
                connections_left_out: Some(std::mem::take(&mut self.left_out.connections)),
                ..coverage
            },
            problems,
            intervals: std::mem::take(&mut self.intervals),
            connections: std::mem::take(&mut self.connections),
            details: std::mem::take(&mut self.details),
            containers: std::mem::take(&mut self.containers),
        }
    }

    /// Adds the row that describes a connection.
    fn put_connection(
        &mut self,
        context: &RowContext<'_>,
        connection: &Connection,
        owners: &Owners,
        until_ns: u64,
    ) {
        let Some(row) = context.connection(connection, owners, until_ns) else {
            return;
        };
        if let Some(container) = connection.pid().and_then(|pid| owners.container(pid)) {
            self.containers.insert(row.conn_id, Arc::clone(container));
        }
        self.connections.push(row);
    }

    /// Adds rows of open connections that were active or have changed.
    fn put_live(&mut self, context: &RowContext<'_>, watched: &mut LiveConnections, end_ns: i64) {
        for connection in watched.live.values_mut() {
            if let Some(part) = connection.part.take() {
                let row = context.interval(connection, &part, end_ns);
                self.intervals.push(row);
            }
            if std::mem::take(&mut connection.is_changed) {
                let until_ns = context.span.monotonic_ns(end_ns - 1);
                self.put_connection(context, connection, &watched.owners, until_ns);
            }
        }
    }

    /// Returns the rows of bins that start before `end_ns` and are not written yet.
    fn problems(
        &mut self,
        context: &RowContext<'_>,
        watched: &mut LiveConnections,
        end_ns: i64,
    ) -> FleetProblems {
        let mut near = NearProblems::default();
        for connection in watched.live.values() {
            near.note(connection.pid(), &connection.bins, end_ns);
        }
        for gone in &self.gone {
            near.note(gone.pid, &gone.bins, end_ns);
        }
        let mut rows = FleetProblems::default();
        for connection in watched.live.values_mut() {
            let lifetime = (context.span.wall_ns(connection.first_ns), end_ns);
            let (conn_id, pid) = (connection.conn_id, connection.pid());
            for bin in near.take(pid, &mut connection.bins, end_ns) {
                rows.push(context.problem(conn_id, lifetime, &bin));
            }
        }
        for gone in &mut self.gone {
            for bin in near.take(gone.pid, &mut gone.bins, end_ns) {
                rows.push(context.problem(gone.conn_id, gone.lifetime, &bin));
            }
        }
        rows
    }

    /// Drops the pending rows: the clock was set, and what follows is of another time.
    pub(super) fn cut(&mut self, watched: &mut LiveConnections) {
        self.gone.clear();
        for connection in watched.live.values_mut() {
            connection.bins.forget_before(i64::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::timeline::{ClockReading, IntervalSpan};
    use super::*;
    use crate::fixture;

    const CROWD: u64 = 100_000;

    /// Makes what all rows of an interval have in common.
    fn context(span: &IntervalSpan) -> RowContext<'_> {
        RowContext {
            host: "web-1",
            span,
            has_calls: true,
            has_timeouts: true,
        }
    }

    #[test]
    fn many_short_connections_are_sampled_over_the_whole_interval() {
        let span = IntervalSpan::beginning(ClockReading::default(), MINUTE_NS);
        let context = context(&span);
        let mut watched =
            LiveConnections::new(String::new(), Owners::new(Default::default(), None));
        let mut pending = Pending::new(MINUTE_NS);
        for _ in 0..2 {
            for number in 0..CROWD {
                let at_ns = number * MINUTE_NS.cast_unsigned() / CROWD;
                let mut closed = Connection::new(number.cast_signed(), at_ns);
                closed.part = Some(Box::default());
                pending.put_closed(&context, closed, &watched.owners);
            }
            let interval = pending.end(
                &context,
                &mut watched,
                fixture::coverage(serde_json::json!({})),
            );
            let kept = interval.intervals.len() as i64;
            assert!((CLOSED_MOST - 10..=CLOSED_MOST).contains(&kept), "{kept}");
            let left_out = interval.coverage.connections_left_out;
            assert_eq!(left_out, Some(CROWD.cast_signed() - kept));
            let of_second_half = interval
                .intervals
                .begin_ns
                .iter()
                .filter(|begin_ns| **begin_ns > MINUTE_NS / 2);
            assert!(of_second_half.count() as i64 >= CLOSED_MOST * 2 / 5);
        }
    }

    #[test]
    fn readings_near_problems_are_limited_for_each_connection_and_in_total() {
        let span = IntervalSpan::beginning(ClockReading::default(), MINUTE_NS);
        let context = context(&span);
        let mut watched =
            LiveConnections::new(String::new(), Owners::new(Default::default(), None));
        let mut pending = Pending::new(MINUTE_NS);
        let near = |conn_id: i64| (conn_id, ContextSample::default());
        pending.put_near(&context, (0..100).map(|_| near(1)).collect());
        let interval = pending.end(
            &context,
            &mut watched,
            fixture::coverage(serde_json::json!({})),
        );
        assert_eq!(interval.details.len() as u32, DETAILS_OF_ONE);
        assert_eq!(
            interval.coverage.details_left_out,
            Some(100 - i64::from(DETAILS_OF_ONE))
        );
        pending.put_near(&context, (0..1_000).map(near).collect());
        let interval = pending.end(
            &context,
            &mut watched,
            fixture::coverage(serde_json::json!({})),
        );
        assert_eq!(interval.details.len() as i64, DETAILS_A_MINUTE);
        assert_eq!(
            interval.coverage.details_left_out,
            Some(1_000 - DETAILS_A_MINUTE)
        );
    }
}
