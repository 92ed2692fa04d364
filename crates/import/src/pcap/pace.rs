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
    /// The network was not the limit: a rate that was measured is over.
    pub fn interrupt(&mut self, una: Offset) {
        self.since = None;
        self.counted = una;
        self.again_bytes = 0;
    }

    /// The network was the limit for `ns` until now. `lost`: the congestion window has not regained its value before a loss.
    pub fn add(
        &mut self,
        row: &mut TcpStage,
        (now_ns, ns): (u64, u64),
        (una, flight): (Offset, Offset),
        (path_ns, is_lost): (u64, bool),
    ) {
        let delivered = (una - self.counted).max(0).unsigned_abs();
        self.counted = una;
        let again = std::mem::take(&mut self.again_bytes);
        let (since_ns, first) = *self.since.get_or_insert((now_ns.saturating_sub(ns), una));
        let lasts_ns = now_ns.saturating_sub(since_ns);
        if path_ns > 0 && lasts_ns >= LASTING_TRIPS * path_ns {
            let bytes = (una - first).max(0).unsigned_abs();
            let rate = u128::from(bytes) * NS_PER_S / u128::from(lasts_ns.max(1));
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            row.best_rate_bytes_per_s =
                Some(row.best_rate_bytes_per_s.map_or(rate, |it| it.max(rate)));
            self.since = Some((now_ns, una));
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
}
