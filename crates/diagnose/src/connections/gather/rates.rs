//! Does loss make a flow slower than it was before? The flow's own earlier best is the
//! measure, because neither a retransmission nor the state Recovery says so: BBR ran at full
//! rate with 62 % of its time in Recovery.
//!
//! A rate can also be low because the receiver is slow or because others share the path. Loss
//! holds a flow back through its congestion window, so only time counts in which the window is
//! far smaller than the best rate needs on the unloaded path. The ledger knows that time and what
//! arrived in it (`track_loss_limited()` in `ledger.bpf.h`); without one, what happened between two
//! samples has to do.

use table::tables::{TcpSample, TcpStage};

/// Rates of one connection between consecutive samples.
#[derive(Debug, Clone, Default)]
pub struct RateDigest {
    /// Best rate so far, bytes/s; 0 before the first.
    best_bytes_per_s: f64,
    /// Whether any interval with loss could be compared with an earlier best.
    compared: bool,
    /// Time in which loss kept the flow far below its best.
    limited: RateInterval,
}

#[derive(Debug, Clone, Copy, Default)]
struct RateInterval {
    length_ns: u64,
    bytes: u64,
    retrans_bytes: u64,
    /// Σ of congestion window times length, bytes · ns.
    cwnd_weight: f64,
}

/// Round trips that a rate has to last, as in the kernel's ledger (`track_best_rate()`): polls come
/// at random times, and between two close ones any burst is a rate.
const RATE_RTTS: u64 = 10;

/// A window below this part of what the best rate needs is far below, as in the kernel's ledger
/// (`is_far_below_best()`).
const FAR_BELOW: f64 = 0.7;

/// How far loss made a flow fall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateFall {
    /// Time in which loss kept the flow far below its best, ns.
    pub limited_ns: u64,
    /// Rate in that time, bytes/s.
    pub under_loss_bytes_per_s: f64,
    /// The flow's own best rate, bytes/s.
    pub best_bytes_per_s: f64,
    /// Congestion window in that time, bytes.
    pub cwnd_bytes: f64,
    /// Part of the best rate that was missing in that time, 0–1.
    pub share: f64,
    /// Retransmitted, as part of all that was sent in that time, 0–1.
    pub loss_share: f64,
}

impl RateFall {
    /// Reads the rates from the ledger. `None` without a best rate to compare with.
    pub fn from_ledger(ledger: &TcpStage) -> Option<Self> {
        let limited = RateInterval {
            length_ns: ledger.loss_limited_ns,
            bytes: ledger.loss_limited_bytes,
            retrans_bytes: ledger.loss_limited_retrans_bytes,
            cwnd_weight: ledger.loss_limited_cwnd_byte_ms as f64 * 1e6,
        };
        Some(Self::new(limited, ledger.best_rate_bytes_per_s? as f64))
    }

    /// Compares the rate under loss with the connection's own best rate.
    fn new(limited: RateInterval, best_bytes_per_s: f64) -> Self {
        let length_ns = limited.length_ns.max(1);
        let under_loss_bytes_per_s = per_second(limited.bytes, length_ns);
        RateFall {
            limited_ns: limited.length_ns,
            under_loss_bytes_per_s,
            best_bytes_per_s,
            cwnd_bytes: limited.cwnd_weight / length_ns as f64,
            share: (1.0 - under_loss_bytes_per_s / best_bytes_per_s).max(0.0),
            loss_share: limited.retrans_bytes as f64
                / (limited.bytes + limited.retrans_bytes).max(1) as f64,
        }
    }
}

impl RateDigest {
    /// Adds the interval between two samples of one connection. An interval with a timeout is
    /// left out: its stall has a stage of its own.
    pub fn add(&mut self, earlier: &TcpSample, later: &TcpSample) {
        let length_ns = later.time_ns.saturating_sub(earlier.time_ns);
        if length_ns == 0 {
            return;
        }
        let bytes = later.bytes_acked.saturating_sub(earlier.bytes_acked);
        if later.total_retrans > earlier.total_retrans {
            self.add_lossy(earlier, later, length_ns, bytes);
        }
        let path_ns = later.min_rtt_us.map_or(0, |us| u64::from(us) * 1_000);
        if length_ns >= RATE_RTTS * path_ns {
            self.best_bytes_per_s = self.best_bytes_per_s.max(per_second(bytes, length_ns));
        }
    }

    /// Adds an interval in which losses kept the congestion window far below what the path carries.
    fn add_lossy(&mut self, earlier: &TcpSample, later: &TcpSample, length_ns: u64, bytes: u64) {
        let app_limited = later.app_limited.unwrap_or(false);
        let timeout = later.total_rto > earlier.total_rto;
        let Some(min_rtt_us) = later.min_rtt_us else {
            return;
        };
        if app_limited || timeout || self.best_bytes_per_s == 0.0 {
            return;
        }
        self.compared = true;
        let cwnd_bytes = f64::from(later.cwnd) * f64::from(later.mss_bytes);
        let needed_bytes = self.best_bytes_per_s * f64::from(min_rtt_us) / 1e6;
        if cwnd_bytes >= FAR_BELOW * needed_bytes {
            return;
        }
        let free_ns = free_ns(earlier, later).unwrap_or(length_ns).min(length_ns);
        self.limited.length_ns += free_ns;
        self.limited.bytes += bytes;
        let retrans = u64::from(later.total_retrans - earlier.total_retrans);
        self.limited.retrans_bytes += retrans * u64::from(later.mss_bytes);
        self.limited.cwnd_weight += cwnd_bytes * free_ns as f64;
    }

    /// The fall against the best that came before. `None` if nothing could be compared.
    pub fn rate_fall(&self) -> Option<RateFall> {
        self.compared
            .then(|| RateFall::new(self.limited, self.best_bytes_per_s))
    }
}

/// Time between two samples in which there was data to send and room in the receiver's window:
/// only then is a low rate the network's. `None` where the kernel does not report it.
fn free_ns(earlier: &TcpSample, later: &TcpSample) -> Option<u64> {
    let busy_us = later.busy_us?.saturating_sub(earlier.busy_us?);
    let window_us = later
        .rwnd_limited_us?
        .saturating_sub(earlier.rwnd_limited_us?);
    Some(busy_us.saturating_sub(window_us) * 1_000)
}

/// Returns bytes a second from bytes and nanoseconds.
fn per_second(bytes: u64, length_ns: u64) -> f64 {
    bytes as f64 * 1e9 / length_ns as f64
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use table::row_of;

    use super::*;
    use crate::connections::gather::samples::tests::sample;

    const SECOND: u64 = 1_000_000_000;

    /// Makes rates of intervals of one second: bytes, retransmitted segments, timeouts.
    fn flow(min_rtt_us: u32, rates: &[(u64, u32, u16)]) -> RateDigest {
        let mut digest = RateDigest::default();
        let mut earlier = sample(0);
        for (index, (bytes, retransmits, timeouts)) in rates.iter().enumerate() {
            let later = TcpSample {
                bytes_acked: earlier.bytes_acked + bytes,
                busy_us: earlier.busy_us.map(|busy| busy + 1_000_000),
                total_retrans: earlier.total_retrans + retransmits,
                total_rto: Some(earlier.total_rto.unwrap_or(0) + timeouts),
                min_rtt_us: Some(min_rtt_us),
                ..sample((index as u64 + 1) * SECOND)
            };
            digest.add(&earlier, &later);
            earlier = later;
        }
        digest
    }

    /// The window of the samples, ten segments, carries 144,800 bytes/s over 100 ms.
    const PATH_US: u32 = 100_000;

    #[test]
    fn rate_fall_is_relative_to_earlier_best() {
        let digest = flow(
            PATH_US,
            &[(400_000, 0, 0), (100_000, 3, 0), (100_000, 2, 0)],
        );
        let fall = digest.rate_fall().expect("a best");
        assert_eq!((fall.share, fall.best_bytes_per_s), (0.75, 400_000.0));
        assert_eq!((fall.limited_ns, fall.cwnd_bytes), (2 * SECOND, 14_480.0));
    }

    #[test]
    fn window_near_best_rate_is_no_limit() {
        let limited_ns = |best: u64| {
            let fall = flow(PATH_US, &[(best, 0, 0), (50_000, 3, 0)]).rate_fall();
            fall.map(|fall| fall.limited_ns)
        };
        assert_eq!(limited_ns(200_000), Some(0));
        assert_eq!(limited_ns(210_000), Some(SECOND));
    }

    #[test]
    fn samples_without_an_earlier_best_show_no_fall() {
        assert_eq!(flow(PATH_US, &[(100_000, 3, 0)]).rate_fall(), None);
        // shorter than ten round trips: no rate
        let bursts = [(400_000, 0, 0), (100_000, 3, 0)];
        assert_eq!(flow(100_001, &bursts).rate_fall(), None);
    }

    #[test]
    fn interval_with_timeout_is_no_rate_fall() {
        let stalled = [(400_000, 0, 0), (100_000, 3, 1)];
        assert_eq!(flow(PATH_US, &stalled).rate_fall(), None);
    }

    #[test]
    fn zero_window_time_is_no_rate_fall() {
        let mut digest = flow(PATH_US, &[(400_000, 0, 0)]);
        let earlier = TcpSample {
            bytes_acked: 400_000,
            ..sample(SECOND)
        };
        let later = TcpSample {
            bytes_acked: 500_000,
            total_retrans: 3,
            busy_us: Some(1_000_000),
            rwnd_limited_us: Some(750_000),
            min_rtt_us: Some(PATH_US),
            ..sample(2 * SECOND)
        };
        digest.add(&earlier, &later);
        let fall = digest.rate_fall().expect("a best");
        assert_eq!((fall.share, fall.limited_ns), (0.0, SECOND / 4));
    }

    #[test]
    fn ledger_shows_rate_fall() {
        let fall = |best: Option<u64>, limited_ns: u64| {
            let ledger = row_of(json!({
                "loss_limited_ns": limited_ns, "loss_limited_bytes": 4_000_000, "loss_limited_retrans_bytes": 1_000_000,
                "loss_limited_cwnd_byte_ms": 30_000 * 2_000, "best_rate_bytes_per_s": best,
            }));
            RateFall::from_ledger(&ledger.expect("a ledger"))
        };
        let fell = fall(Some(5_000_000), 2 * SECOND).expect("a best");
        assert_eq!((fell.share, fell.cwnd_bytes), (0.6, 30_000.0));
        assert_eq!(fell.loss_share, 0.2);
        assert_eq!(fall(None, 2 * SECOND), None);
        assert_eq!(
            fall(Some(5_000_000), 0).map(|fall| fall.limited_ns),
            Some(0)
        );
    }
}
