//! Round trips of connections over time, from the sums that the ledger has of the kernel's samples. A segment without another one
//! behind it may be acknowledged late: the receiver delays the ACK, or sends it with its answer. With many in flight, it
//! acknowledges every second one at once (RFC 5681, 4.2): a long round trip is then time in queues.

use std::collections::HashMap;
use std::rc::Rc;

use table::manifest::Header;
use table::tables::{TcpSamples, TcpStage, TcpStages};
use table::{Columns, Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::kernel::TCP_INIT_CWND;
use crate::waits::NameTable;

/// Round trips of a connection between two readings of its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTripInterval {
    /// From when to when, `CLOCK_MONOTONIC` ns.
    pub time: (u64, u64),
    /// Samples of the kernel.
    pub samples: u64,
    /// Their sum, ns.
    pub sum_ns: u64,
    /// Data segments sent.
    pub segments: u64,
}

impl RoundTripInterval {
    /// Returns the mean round trip, ns.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns / self.samples.max(1)
    }

    /// Returns whether the initial window of the kernel or more was in flight on average (Little's law: rate × round trip).
    pub fn is_bulk(&self) -> bool {
        let length_ns = self.time.1.saturating_sub(self.time.0);
        let in_flight = u128::from(self.segments) * u128::from(self.mean_ns());
        in_flight >= u128::from(TCP_INIT_CWND) * u128::from(length_ns)
    }

    /// Returns whether two intervals have time in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.time.0 < other.time.1 && other.time.0 < self.time.1
    }
}

/// Sums of the last reading of a ledger.
#[derive(Debug, Clone, Copy, Default)]
struct RoundTripReading {
    time_ns: u64,
    sum_us: u64,
    samples: u32,
    segments: u32,
    /// Stalls until a timer: round trips around them say nothing of queues.
    stalls: u32,
}

impl RoundTripReading {
    /// Returns what a row of the ledger says.
    fn new(row: &TcpStage) -> Self {
        Self {
            time_ns: row.time_ns,
            sum_us: row.rtt_sum_us,
            samples: row.rtt_samples,
            segments: row.data_segs_out,
            stalls: row.timeout_stalls + row.tail_loss_stalls + row.spurious_timeouts,
        }
    }

    /// Returns the round trips since an earlier reading; `None`: there are none, or a stall was among them.
    fn since(&self, before: &Self) -> Option<RoundTripInterval> {
        let samples = self.samples.checked_sub(before.samples)?;
        let interval = RoundTripInterval {
            time: (before.time_ns, self.time_ns),
            samples: u64::from(samples),
            sum_ns: self.sum_us.checked_sub(before.sum_us)? * 1_000,
            segments: u64::from(self.segments.checked_sub(before.segments)?),
        };
        (samples > 0 && self.stalls == before.stalls).then_some(interval)
    }
}

/// Path of a connection, by its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledPath {
    /// Smallest round trip, ns.
    pub min_rtt_ns: u64,
    /// Largest segment, bytes.
    pub mss_bytes: u32,
}

/// Round trips of all connections.
#[derive(Debug, Default)]
pub struct RoundTripDigest {
    paths: HashMap<u64, SampledPath>,
    readings: HashMap<u64, RoundTripReading>,
    intervals: HashMap<u64, Vec<RoundTripInterval>>,
}

impl RecordingDigest for RoundTripDigest {
    fn new(_: &Header, _: &Rc<NameTable>) -> Self {
        Self::default()
    }
}

impl TableConsumer for RoundTripDigest {
    fn is_reader_of(&self, table: TableId) -> bool {
        matches!(table, TableId::TcpSample | TableId::TcpStage)
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        match rows {
            Rows::TcpSample(rows) => self.add_samples(rows),
            Rows::TcpStage(rows) => self.add_readings(rows),
            _ => {}
        }
    }
}

impl RoundTripDigest {
    /// Adds samples of connections.
    fn add_samples(&mut self, rows: &TcpSamples) {
        let sampled = rows.min_rtt_us.iter().zip(&rows.mss_bytes);
        for (conn, (min_rtt_us, mss_bytes)) in rows.conn.iter().zip(sampled) {
            let Some(us) = min_rtt_us.filter(|us| *us > 0) else {
                continue;
            };
            let min_rtt_ns = u64::from(us) * 1_000;
            let path = self.paths.entry(*conn).or_insert(SampledPath {
                min_rtt_ns,
                mss_bytes: *mss_bytes,
            });
            path.min_rtt_ns = path.min_rtt_ns.min(min_rtt_ns);
            path.mss_bytes = *mss_bytes;
        }
    }

    /// Returns the path of a connection; `None`: no sample has a round trip.
    pub fn path(&self, conn: u64) -> Option<SampledPath> {
        self.paths.get(&conn).copied()
    }

    /// Adds readings of ledgers, in the order of time for each connection.
    fn add_readings(&mut self, rows: &TcpStages) {
        for index in 0..rows.len() {
            let row = rows.row(index);
            let now = RoundTripReading::new(&row);
            let begin = || RoundTripReading {
                time_ns: row.since_ns,
                ..RoundTripReading::default()
            };
            let before = self.readings.insert(row.conn, now).unwrap_or_else(begin);
            if let Some(interval) = now.since(&before) {
                self.intervals.entry(row.conn).or_default().push(interval);
            }
        }
    }

    /// Returns the round trips of a connection, in the order of time.
    pub fn connection(&self, conn: u64) -> &[RoundTripInterval] {
        self.intervals.get(&conn).map_or(&[], Vec::as_slice)
    }

    /// Returns the connections with many segments in flight in an interval, in the order of their numbers, and the interval of each.
    pub fn bulk_beside(&self, time: &RoundTripInterval) -> Vec<(u64, RoundTripInterval)> {
        let bulk = |all: &Vec<RoundTripInterval>| {
            let within = all.iter();
            let within = within.filter(|it| it.overlaps(time) && it.is_bulk());
            within.copied().max_by_key(RoundTripInterval::mean_ns)
        };
        let found = self.intervals.iter();
        let found = found.filter_map(|(conn, all)| Some((*conn, bulk(all)?)));
        let mut found: Vec<_> = found.collect();
        found.sort_unstable_by_key(|(conn, _)| *conn);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn reading(ms: u64, sum_us: u64, samples: u32, segments: u32, stalls: u32) -> RoundTripReading {
        RoundTripReading {
            time_ns: ms * MS,
            sum_us,
            samples,
            segments,
            stalls,
        }
    }

    #[test]
    fn round_trips_are_those_between_two_readings() {
        let before = reading(1_000, 100_000, 5, 5, 0);
        let now = reading(2_000, 500_000, 7, 8, 0);
        let interval = now.since(&before).expect("samples");
        assert_eq!(interval.mean_ns(), 200 * MS);
        assert!(!interval.is_bulk());
        assert_eq!(before.since(&before), None);
        assert_eq!(before.since(&now), None);
    }

    #[test]
    fn a_stall_says_nothing_of_queues() {
        let before = reading(1_000, 100_000, 5, 5, 0);
        assert_eq!(reading(2_000, 500_000, 7, 8, 1).since(&before), None);
    }

    #[test]
    fn many_segments_in_flight_are_bulk() {
        let before = reading(1_000, 0, 0, 0, 0);
        // 100 segments a second, each in flight for 100 ms: ten
        assert!(
            reading(2_000, 5_000_000, 50, 100, 0)
                .since(&before)
                .is_some_and(|it| it.is_bulk())
        );
        assert!(
            !reading(2_000, 5_000_000, 50, 99, 0)
                .since(&before)
                .is_some_and(|it| it.is_bulk())
        );
    }
}
