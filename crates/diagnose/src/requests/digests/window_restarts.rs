//! Congestion windows that were small again after a pause, by connection: the kernel's slow start after idle (RFC 2861,
//! `tcp_cwnd_restart()`). A sample in a pause shows the window; if it covers all that is sent until the next pause, and nothing
//! was lost, the window can be the limit only if the kernel made it smaller. No sample shows the smaller window itself.

use std::collections::HashMap;
use std::rc::Rc;

use table::manifest::Header;
use table::tables::{TcpSample, TcpSamples, TcpStage, TcpStages};
use table::{Columns, Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::waits::NameTable;

/// Windows that restarted on one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowRestarts {
    /// Times that data was sent after a sampled pause.
    pub flights: u64,
    /// Those of them that the window before covered, and still it was the limit.
    pub restarts: u64,
    /// Time in which it was, ns.
    pub limited_ns: u64,
    /// The largest window before such a restart, bytes.
    pub window_bytes: u64,
}

/// Data sent between two samples of pauses.
#[derive(Debug, Clone, Copy)]
struct SampledFlight {
    time: (u64, u64),
    window_bytes: u64,
    /// Whether the window before covers all of it, and nothing was lost.
    is_covered: bool,
    limited_ns: u64,
    min_rtt_ns: Option<u64>,
}

/// A sample of a pause: all is sent and acknowledged.
#[derive(Debug, Clone, Copy)]
struct PauseSample {
    time_ns: u64,
    /// The window, segments: the kernel counts it so.
    window: u32,
    window_bytes: u64,
    sent_bytes: u64,
    /// Segments with data sent; `None`: kernels before 4.6 do not count them.
    sent_segments: Option<u32>,
    retransmits: u32,
    min_rtt_ns: Option<u64>,
}

/// Time in which the congestion window was the limit, by what made it small, ns.
#[derive(Debug, Clone, Copy, Default)]
struct LimitedTimes {
    any_ns: u64,
    /// Congestion: marks of the path (ECN), or a full queue of this host.
    cwr_ns: u64,
}

impl PauseSample {
    /// Returns what a row of a pause says.
    fn new(row: &TcpSample) -> Self {
        Self {
            time_ns: row.time_ns,
            window: row.cwnd,
            window_bytes: u64::from(row.cwnd) * u64::from(row.mss_bytes),
            sent_bytes: row.bytes_acked,
            sent_segments: row.data_segs_out,
            retransmits: row.total_retrans,
            min_rtt_ns: row.min_rtt_us.map(|us| u64::from(us) * 1_000),
        }
    }

    /// Returns whether the window covers all that was sent until a later pause, and nothing was lost. Segments need not be full.
    fn covers_until(&self, later: &Self) -> bool {
        let segments = self.sent_segments.zip(later.sent_segments);
        let is_in_window = match segments {
            Some((before, after)) => after.wrapping_sub(before) <= self.window,
            None => later.sent_bytes - self.sent_bytes <= self.window_bytes,
        };
        is_in_window && self.retransmits == later.retransmits
    }
}

impl LimitedTimes {
    /// Returns what a reading of the ledger says.
    fn new(row: &TcpStage) -> Self {
        Self {
            any_ns: row.cwnd_startup_ns + row.cwnd_probing_ns + row.cwnd_loss_ns,
            cwr_ns: row.cwnd_cwr_ns,
        }
    }
}

/// Pauses of one connection, and the data sent between them.
#[derive(Debug, Default)]
struct ConnectionWindows {
    pause: Option<PauseSample>,
    flights: Vec<SampledFlight>,
    /// Time of the last reading of the ledger, and its limited time by cause, ns.
    reading: Option<(u64, LimitedTimes)>,
}

/// Restarts of all connections.
#[derive(Debug, Default)]
pub struct WindowRestartDigest {
    connections: HashMap<u64, ConnectionWindows>,
}

impl RecordingDigest for WindowRestartDigest {
    fn new(_: &Header, _: &Rc<NameTable>) -> Self {
        Self::default()
    }
}

impl TableConsumer for WindowRestartDigest {
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

impl WindowRestartDigest {
    /// Adds samples, in the order of time for each connection.
    fn add_samples(&mut self, rows: &TcpSamples) {
        for index in (0..rows.len()).filter(|index| rows.unacked[*index] == 0) {
            let row = rows.row(index);
            if row.send_queue_bytes == 0 {
                let windows = self.connections.entry(row.conn).or_default();
                windows.add_pause(PauseSample::new(&row));
            }
        }
    }

    /// Adds readings of ledgers, after all samples.
    fn add_readings(&mut self, rows: &TcpStages) {
        for index in 0..rows.len() {
            if let Some(windows) = self.connections.get_mut(&rows.conn[index]) {
                let row = rows.row(index);
                windows.add_reading((row.since_ns, row.time_ns), LimitedTimes::new(&row));
            }
        }
    }

    /// Returns the restarts on a connection.
    pub fn connection(&self, conn: u64) -> WindowRestarts {
        let flights = self.connections.get(&conn).map(|it| it.flights.iter());
        let mut sums = WindowRestarts::default();
        for flight in flights.into_iter().flatten() {
            sums.flights += 1;
            if flight.is_restart() {
                sums.restarts += 1;
                sums.limited_ns += flight.limited_ns;
                sums.window_bytes = sums.window_bytes.max(flight.window_bytes);
            }
        }
        sums
    }
}

impl SampledFlight {
    /// Returns whether the window was the limit although it had covered the flight. It has to grow then, and each step takes a
    /// round trip: a wait of less than half of one is nearer to none.
    fn is_restart(&self) -> bool {
        let is_limited = |rtt_ns: u64| self.limited_ns > 0 && 2 * self.limited_ns >= rtt_ns;
        self.is_covered && self.min_rtt_ns.is_some_and(is_limited)
    }
}

impl ConnectionWindows {
    /// Adds a sample of a pause, and what was sent since the one before.
    fn add_pause(&mut self, pause: PauseSample) {
        let before = self.pause.replace(pause);
        let Some(before) = before.filter(|before| before.sent_bytes < pause.sent_bytes) else {
            return;
        };
        self.flights.push(SampledFlight {
            time: (before.time_ns, pause.time_ns),
            window_bytes: before.window_bytes,
            is_covered: before.covers_until(&pause),
            limited_ns: 0,
            min_rtt_ns: pause.min_rtt_ns,
        });
    }

    /// Adds the time in which the congestion window was the limit since the last reading. Congestion makes it smaller, too:
    /// then the flight does not count.
    fn add_reading(&mut self, (since_ns, time_ns): (u64, u64), now: LimitedTimes) {
        let reading = self.reading.replace((time_ns, now));
        let (from_ns, before) = reading.unwrap_or((since_ns, LimitedTimes::default()));
        let middle_ns = from_ns + time_ns.saturating_sub(from_ns) / 2;
        let next = self.flights.partition_point(|it| it.time.1 < middle_ns);
        let flight = self.flights.get_mut(next);
        if let Some(flight) = flight.filter(|it| it.time.0 <= middle_ns) {
            flight.limited_ns += now.any_ns.saturating_sub(before.any_ns);
            flight.is_covered &= now.cwr_ns <= before.cwr_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Makes a sample of a pause with this window, on a path of 50 ms; segments have 1,000 bytes.
    fn pause(ms: u64, window_bytes: u64, sent_bytes: u64, retransmits: u32) -> PauseSample {
        PauseSample {
            time_ns: ms * MS,
            window: (window_bytes / 1_000) as u32,
            window_bytes,
            sent_bytes,
            sent_segments: Some((sent_bytes / 1_000) as u32),
            retransmits,
            min_rtt_ns: Some(50 * MS),
        }
    }

    /// Returns the restarts of a connection with these samples. Its window was the limit for 100 ms before, and for 200 ms of the
    /// second of three readings; congestion was signalled for `cwr_ms`.
    fn restarts_of(pauses: &[PauseSample], cwr_ms: u64) -> WindowRestarts {
        let mut windows = ConnectionWindows::default();
        pauses.iter().for_each(|it| windows.add_pause(*it));
        for (ms, any_ms) in [(1_000, 100), (3_000, 300), (5_000, 300)] {
            let limited = LimitedTimes {
                any_ns: any_ms * MS,
                cwr_ns: if ms > 1_000 { cwr_ms * MS } else { 0 },
            };
            windows.add_reading((0, ms * MS), limited);
        }
        let connections = HashMap::from([(1, windows)]);
        WindowRestartDigest { connections }.connection(1)
    }

    #[test]
    fn window_that_covers_a_flight_and_limits_it_has_restarted() {
        let first = pause(1_000, 300_000, 250_000, 0);
        let second = pause(3_000, 300_000, 500_000, 0);
        let third = pause(5_000, 300_000, 600_000, 0);
        let expected = WindowRestarts {
            flights: 2,
            restarts: 1,
            limited_ns: 200 * MS,
            window_bytes: 300_000,
        };
        assert_eq!(restarts_of(&[first, second, third], 0), expected);
        assert_eq!(restarts_of(&[first, second, third], 5).restarts, 0);
        assert_eq!(restarts_of(&[first], 0).flights, 0);
    }

    #[test]
    fn loss_and_a_window_that_has_to_grow_are_no_restart() {
        let first = |window_bytes| pause(1_000, window_bytes, 250_000, 0);
        let second = |retransmits| pause(3_000, 300_000, 500_000, retransmits);
        assert_eq!(restarts_of(&[first(300_000), second(1)], 0).restarts, 0);
        assert_eq!(restarts_of(&[first(200_000), second(0)], 0).restarts, 0);
    }

    #[test]
    fn small_segments_fill_a_window_sooner() {
        let first = pause(1_000, 300_000, 250_000, 0);
        let second = PauseSample {
            sent_segments: Some(900),
            ..pause(3_000, 300_000, 500_000, 0)
        };
        assert_eq!(restarts_of(&[first, second], 0).restarts, 0);
        let uncounted = PauseSample {
            sent_segments: None,
            ..second
        };
        assert_eq!(restarts_of(&[first, uncounted], 0).restarts, 1);
    }

    #[test]
    fn a_limit_of_less_than_a_round_trip_is_no_restart() {
        let first = pause(1_000, 300_000, 250_000, 0);
        let of_path = |min_rtt_ms: u64| PauseSample {
            min_rtt_ns: Some(min_rtt_ms * MS),
            ..pause(3_000, 300_000, 500_000, 0)
        };
        assert_eq!(restarts_of(&[first, of_path(400)], 0).restarts, 1);
        assert_eq!(restarts_of(&[first, of_path(401)], 0).restarts, 0);
    }
}
