//! Delivery rates of one direction: the best that lasted, and what loss left of it.

use table::tables::TcpStage;

use super::sequence::Offset;

/// A rate counts that lasted for so many round trips of the path, as in the recorder's ledger.
const LASTING_TRIPS: u64 = 10;

/// Loss is the limit where less than so much is out of what the best rate needs on the path: CUBIC goes down to that
/// (717 / 1024, `beta` of tcp_cubic.c).
const BELOW_PART: f64 = 717.0 / 1024.0;

const NS_PER_S: u128 = 1_000_000_000;

/// Rates while the network was the limit.
#[derive(Debug, Clone, Default)]
pub struct DeliveryPace {
    /// Since when, and what was acknowledged then.
    since: Option<(u64, Offset)>,
    counted: Offset,
    /// Bytes that were retransmitted since the last time.
    pub again_bytes: u64,
}

impl DeliveryPace {
    /// Ends the measurement of a rate: the network was not the limit.
    pub fn interrupt(&mut self, una: Offset) {
        self.since = None;
        self.counted = una;
        self.again_bytes = 0;
    }

    /// Adds `ns` until now in which the network was the limit. `is_lost`: the congestion window has
    /// not regained its value before a loss. `is_whole`: no byte is missing. While one is, the ACK
    /// says nothing of what arrived after it, and then of all at once (RFC 9293, 3.4): a rate that
    /// begins or ends there would not be right.
    pub fn add(
        &mut self,
        row: &mut TcpStage,
        (now_ns, ns): (u64, u64),
        (una, flight): (Offset, Offset),
        (path_ns, is_lost, is_whole): (u64, bool, bool),
    ) {
        let delivered = (una - self.counted).max(0).unsigned_abs();
        self.counted = una;
        let again = std::mem::take(&mut self.again_bytes);
        if is_whole {
            self.measure_rate(row, (now_ns, ns), una, path_ns);
        }
        let needs = row
            .best_rate_bytes_per_s
            .map(|rate| rate as f64 * path_ns as f64 / 1e9);
        if is_lost && needs.is_some_and(|needs| (flight as f64) < BELOW_PART * needs) {
            row.loss_limited_ns += ns;
            row.loss_limited_bytes += delivered;
            row.loss_limited_retrans_bytes += again;
            row.loss_limited_cwnd_byte_ms += flight.unsigned_abs().saturating_mul(ns / 1_000_000);
        }
    }

    /// Ends the measured rate if it lasted long enough, and begins another.
    fn measure_rate(
        &mut self,
        row: &mut TcpStage,
        (now_ns, ns): (u64, u64),
        una: Offset,
        path_ns: u64,
    ) {
        let (since_ns, first) = *self.since.get_or_insert((now_ns.saturating_sub(ns), una));
        let lasts_ns = now_ns.saturating_sub(since_ns);
        if path_ns == 0 || lasts_ns < LASTING_TRIPS * path_ns {
            return;
        }
        let bytes = (una - first).max(0).unsigned_abs();
        let rate = u128::from(bytes) * NS_PER_S / u128::from(lasts_ns.max(1));
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        row.best_rate_bytes_per_s = Some(row.best_rate_bytes_per_s.map_or(rate, |it| it.max(rate)));
        self.since = Some((now_ns, una));
    }
}

#[cfg(test)]
mod tests {
    use super::super::empty_stages::empty_stages;
    use super::*;

    const MS: u64 = 1_000_000;

    /// 1,000 bytes each 10 ms; then one byte is missing for 200 ms, and what came meanwhile is acknowledged at once.
    #[test]
    fn bytes_that_are_acknowledged_at_once_are_no_rate() {
        let mut pace = DeliveryPace::default();
        let mut row = empty_stages(1, 0);
        let mut add = |at: u64, una, is_whole| {
            let path = (10 * MS, false, is_whole);
            pace.add(&mut row, (at * 10 * MS, 10 * MS), (una, 1_000), path);
        };
        (1..=10).for_each(|at| add(at, at as Offset * 1_000, true));
        (11..=30).for_each(|at| add(at, 10_000, false));
        (31..=60).for_each(|at| add(at, at as Offset * 1_000, true));
        assert_eq!(row.best_rate_bytes_per_s, Some(100_000));
    }
}
