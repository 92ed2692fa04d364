//! Rows of the interval that is under way. What is known of it at its end is complete but for one thing: a problem in
//! the bin after it makes readings and bins at its end worth keeping. Those are written with the next interval, whose
//! files hold rows of earlier times for that.

use table::Columns;
use table::fleet::{
    BIN_NS, FleetConnections, FleetCoverage, FleetDetails, FleetIntervals, FleetProblems,
};

use super::bins::Bins;
use super::connection::{Connection, Near};
use super::owners::Owners;
use super::rows::{NearProblems, Told};
use super::watched::Watched;
use crate::Interval;

/// What has come together since the last interval ended.
#[derive(Debug, Default)]
pub(super) struct Pending {
    details: FleetDetails,
    intervals: FleetIntervals,
    connections: FleetConnections,
    gone: Vec<Gone>,
}

/// What is still to be told of a connection that has closed.
#[derive(Debug)]
struct Gone {
    conn_id: i64,
    pid: Option<u32>,
    /// When it was there, `CLOCK_REALTIME`.
    lived: (i64, i64),
    bins: Bins,
}

impl Pending {
    /// Readings near problems.
    pub(super) fn put_near(&mut self, told: &Told<'_>, near: Vec<(i64, Near)>) {
        for (conn_id, near) in near {
            self.details.push(told.detail(conn_id, &near));
        }
    }

    /// The last of a connection.
    pub(super) fn put_closed(&mut self, told: &Told<'_>, mut closed: Connection, owners: &Owners) {
        let until_ns = closed.closed_ns().unwrap_or(closed.last_read_ns());
        if let Some(part) = closed.part.take() {
            let until_ns = told.span.wall_ns(until_ns);
            self.intervals.push(told.interval(&closed, &part, until_ns));
        }
        let row = told.connection(&closed, owners, until_ns);
        row.into_iter().for_each(|row| self.connections.push(row));
        if !closed.bins.is_empty() {
            self.gone.push(Gone {
                conn_id: closed.conn_id,
                pid: closed.pid(),
                lived: (
                    told.span.wall_ns(closed.first_ns),
                    told.span.wall_ns(until_ns),
                ),
                bins: closed.bins,
            });
        }
    }

    /// The interval that `coverage` tells of has ended. Bins that may yet be near a problem stay.
    pub(super) fn end(
        &mut self,
        told: &Told<'_>,
        watched: &mut Watched,
        coverage: FleetCoverage,
    ) -> Interval {
        let end_ns = coverage.begin_ns + coverage.length_us * 1_000;
        self.put_live(told, watched, end_ns);
        let problems = self.problems(told, watched, end_ns);
        self.gone.retain_mut(|gone| {
            gone.bins.forget_before(end_ns - BIN_NS);
            !gone.bins.is_empty()
        });
        for connection in watched.live.values_mut() {
            connection.bins.forget_before(end_ns - BIN_NS);
        }
        Interval {
            begin_ns: coverage.begin_ns,
            coverage,
            problems,
            intervals: std::mem::take(&mut self.intervals),
            connections: std::mem::take(&mut self.connections),
            details: std::mem::take(&mut self.details),
        }
    }

    fn put_live(&mut self, told: &Told<'_>, watched: &mut Watched, end_ns: i64) {
        for connection in watched.live.values_mut() {
            if let Some(part) = connection.part.take() {
                let row = told.interval(connection, &part, end_ns);
                self.intervals.push(row);
            }
            if std::mem::take(&mut connection.is_changed) {
                let until_ns = told.span.monotonic_ns(end_ns - 1);
                let row = told.connection(connection, &watched.owners, until_ns);
                row.into_iter().for_each(|row| self.connections.push(row));
            }
        }
    }

    /// Rows of bins that begin before `end_ns` and are not written yet.
    fn problems(&mut self, told: &Told<'_>, watched: &mut Watched, end_ns: i64) -> FleetProblems {
        let mut near = NearProblems::default();
        for connection in watched.live.values() {
            near.note(connection.pid(), &connection.bins, end_ns);
        }
        for gone in &self.gone {
            near.note(gone.pid, &gone.bins, end_ns);
        }
        let mut rows = FleetProblems::default();
        for connection in watched.live.values_mut() {
            let lived = (told.span.wall_ns(connection.first_ns), end_ns);
            let (conn_id, pid) = (connection.conn_id, connection.pid());
            for bin in near.take(pid, &mut connection.bins, end_ns) {
                rows.push(told.problem(conn_id, lived, &bin));
            }
        }
        for gone in &mut self.gone {
            for bin in near.take(gone.pid, &mut gone.bins, end_ns) {
                rows.push(told.problem(gone.conn_id, gone.lived, &bin));
            }
        }
        rows
    }

    /// The clock was set: what comes now is of another time.
    pub(super) fn cut(&mut self, watched: &mut Watched) {
        self.gone.clear();
        for connection in watched.live.values_mut() {
            connection.bins.forget_before(i64::MAX);
        }
    }
}
