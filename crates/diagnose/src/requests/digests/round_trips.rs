//! Round trips of connections over time, from the sums that the ledger has of the kernel's samples. A segment without another one
//! behind it may be acknowledged late: the receiver delays the ACK, or sends it with its answer. With many in flight, it
//! acknowledges every second one at once (RFC 5681, 4.2): a long round trip is then time in queues.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use table::manifest::Header;
use table::tables::{TcpSamples, TcpStage};
use table::{Columns, Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::kernel::TCP_INIT_CWND;
use crate::waits::NameTable;

/// CoDel's target (RFC 8289, 4.2): a queue of this length keeps the link busy, and is none to complain of, ns.
pub const CODEL_TARGET_NS: u64 = 5_000_000;

/// Intervals that are kept of one connection. Beyond, two of them become one: the report keeps its bound of memory.
const INTERVALS_MOST: usize = 64;

/// Transfers that are kept of one second: those with the most segments fill a queue.
const TRANSFERS_MOST: usize = 64;

/// Seconds of an interval that are searched for transfers, the last ones.
const SECONDS_MOST: u64 = 64;

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
        let in_flight = u128::from(self.segments) * u128::from(self.mean_ns());
        in_flight >= u128::from(TCP_INIT_CWND) * u128::from(self.length_ns())
    }

    /// Returns whether two intervals have time in common.
    fn overlaps(&self, other: &Self) -> bool {
        self.time.0 < other.time.1 && other.time.0 < self.time.1
    }

    /// Returns its length, ns.
    pub fn length_ns(&self) -> u64 {
        self.time.1.saturating_sub(self.time.0)
    }

    /// Returns the seconds that it touches, the last ones.
    fn seconds(&self) -> std::ops::RangeInclusive<u64> {
        let [begin, end] = [self.time.0, self.time.1].map(|ns| ns / 1_000_000_000);
        begin.max(end.saturating_sub(SECONDS_MOST - 1))..=end
    }

    /// Returns this interval and the next as one.
    fn join(&self, next: &Self) -> Self {
        Self {
            time: (self.time.0, next.time.1),
            samples: self.samples + next.samples,
            sum_ns: self.sum_ns.saturating_add(next.sum_ns),
            segments: self.segments + next.segments,
        }
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
    stalls: u64,
}

impl RoundTripReading {
    /// Returns what a row of the ledger says.
    fn new(row: &TcpStage) -> Self {
        Self {
            time_ns: row.time_ns,
            sum_us: row.rtt_sum_us,
            samples: row.rtt_samples,
            segments: row.data_segs_out,
            stalls: [
                row.timeout_stalls,
                row.tail_loss_stalls,
                row.spurious_timeouts,
            ]
            .map(u64::from)
            .iter()
            .sum(),
        }
    }

    /// Returns the round trips since an earlier reading; `None`: there are none, or a stall was among them.
    fn since(&self, before: &Self) -> Option<RoundTripInterval> {
        let samples = self.samples.checked_sub(before.samples)?;
        let interval = RoundTripInterval {
            time: (before.time_ns, self.time_ns),
            samples: u64::from(samples),
            sum_ns: self
                .sum_us
                .checked_sub(before.sum_us)?
                .saturating_mul(1_000),
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

/// Round trips of one connection.
#[derive(Debug, Default)]
pub struct ConnectionRoundTrips {
    /// Samples of all intervals.
    pub samples: u64,
    /// Intervals with round trips above [`CODEL_TARGET_NS`], in the order of time.
    pub long: Vec<RoundTripInterval>,
}

impl ConnectionRoundTrips {
    /// Adds an interval.
    fn add(&mut self, interval: RoundTripInterval) {
        self.samples += interval.samples;
        if interval.mean_ns() < CODEL_TARGET_NS {
            return;
        }
        if self.long.len() == INTERVALS_MOST {
            let pairs = self.long.chunks(2);
            let joined = pairs.map(|pair| match pair {
                [one, next] => one.join(next),
                _ => pair[0],
            });
            self.long = joined.collect();
        }
        self.long.push(interval);
    }
}

/// Round trips of all connections.
#[derive(Debug, Default)]
pub struct RoundTripDigest {
    paths: HashMap<u64, SampledPath>,
    readings: HashMap<u64, RoundTripReading>,
    connections: HashMap<u64, ConnectionRoundTrips>,
    /// Connections with many segments in flight, by second.
    transfers: HashMap<u64, Vec<(u64, RoundTripInterval)>>,
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
            Rows::TcpStage(rows) => {
                (0..rows.len()).for_each(|row| self.add_reading(&rows.row(row)))
            }
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

    /// Adds a reading of a ledger, in the order of time for each connection.
    fn add_reading(&mut self, row: &TcpStage) {
        let now = RoundTripReading::new(row);
        let begin = || RoundTripReading {
            time_ns: row.since_ns,
            ..RoundTripReading::default()
        };
        let before = self.readings.insert(row.conn, now).unwrap_or_else(begin);
        let Some(interval) = now.since(&before) else {
            return;
        };
        self.connections.entry(row.conn).or_default().add(interval);
        if interval.is_bulk() && interval.mean_ns() >= CODEL_TARGET_NS {
            self.add_transfer(row.conn, interval);
        }
    }

    /// Adds an interval of a connection with many segments in flight.
    fn add_transfer(&mut self, conn: u64, interval: RoundTripInterval) {
        for second in interval.seconds() {
            let transfers = self.transfers.entry(second).or_default();
            transfers.push((conn, interval));
            if transfers.len() > TRANSFERS_MOST {
                let others = transfers.iter().enumerate();
                let least = others.min_by_key(|(_, (_, it))| it.segments);
                if let Some((at, _)) = least {
                    transfers.swap_remove(at);
                }
            }
        }
    }

    /// Returns the round trips of a connection; `None`: it has none.
    pub fn connection(&self, conn: u64) -> Option<&ConnectionRoundTrips> {
        self.connections.get(&conn)
    }

    /// Returns the connections with many segments in flight in an interval, in the order of their cookies, and the
    /// interval of each with the longest round trips.
    pub fn transfers_beside(&self, time: &RoundTripInterval) -> BTreeMap<u64, RoundTripInterval> {
        let mut found = BTreeMap::<u64, RoundTripInterval>::new();
        let seconds = time.seconds();
        let all = seconds.filter_map(|second| self.transfers.get(&second));
        for (conn, interval) in all.flatten().filter(|(_, it)| it.overlaps(time)) {
            let known = found.entry(*conn).or_insert(*interval);
            if interval.mean_ns() > known.mean_ns() {
                *known = *interval;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn reading(ms: u64, sum_us: u64, samples: u32, segments: u32, stalls: u64) -> RoundTripReading {
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

    /// Makes the reading of connection 7 at a second, with a sample of 20 ms and some segments in each second.
    fn row(second: u64, segments: u64) -> TcpStage {
        table::row_of(serde_json::json!({
            "conn": 7,
            "time_ns": second * 1_000 * MS,
            "rtt_sum_us": second * 20_000,
            "rtt_samples": second,
            "data_segs_out": second * segments,
        }))
        .expect("a row")
    }

    #[test]
    fn many_intervals_of_a_connection_become_fewer_without_a_loss_of_samples() {
        let mut digest = RoundTripDigest::default();
        let rows: Vec<TcpStage> = (1..=1_000).map(|second| row(second, 10)).collect();
        rows.iter().for_each(|row| digest.add_reading(row));
        let found = digest.connection(7).expect("round trips");
        assert!(found.long.len() <= INTERVALS_MOST, "{}", found.long.len());
        let sums = found.long.iter().fold((0, 0, 0), |sums, it| {
            (
                sums.0 + it.samples,
                sums.1 + it.sum_ns,
                sums.2 + it.segments,
            )
        });
        assert_eq!(
            (found.samples, sums),
            (1_000, (1_000, 1_000 * 20 * MS, 10_000))
        );
        let in_order = found
            .long
            .windows(2)
            .all(|pair| pair[0].time.1 == pair[1].time.0);
        assert!(in_order, "{:?}", found.long);
    }

    #[test]
    fn transfers_are_found_beside_an_interval_and_the_largest_are_kept() {
        let mut digest = RoundTripDigest::default();
        for conn in 0..100 {
            // 1,000 and more segments a second, each in flight for 20 ms
            let reading = TcpStage {
                conn,
                ..row(2, 1_000 + conn)
            };
            digest.add_reading(&TcpStage {
                time_ns: 1_000 * MS,
                data_segs_out: 0,
                rtt_samples: 0,
                rtt_sum_us: 0,
                ..reading.clone()
            });
            digest.add_reading(&reading);
        }
        let time = |begin_ms: u64, end_ms: u64| RoundTripInterval {
            time: (begin_ms * MS, end_ms * MS),
            samples: 1,
            sum_ns: 20 * MS,
            segments: 1,
        };
        let found: Vec<u64> = digest
            .transfers_beside(&time(1_500, 1_600))
            .into_keys()
            .collect();
        assert_eq!(found, (36..100).collect::<Vec<_>>());
        assert!(digest.transfers_beside(&time(3_500, 3_600)).is_empty());
    }
}
