//! Does loss make a flow slower than it was before? The flow's own earlier best is the
//! measure, because neither a retransmission nor the state Recovery says so: BBR ran at full
//! rate with 62 % of its time in Recovery.
//!
//! A rate can also be low because the receiver is slow or because others share the path. Loss
//! holds a flow back through its congestion window, so the window itself must be smaller than
//! the best rate needs on the unloaded path; BBR answers through its pacing rate, so there that
//! must be lower than the best. The smaller of both falls counts.

use table::tables::TcpSample;

/// Rates of one connection between consecutive samples.
#[derive(Debug, Clone, Default)]
pub struct RateDigest {
    /// Best rate over an interval so far, bytes/s; 0 before the first.
    best_bytes_per_s: f64,
    /// Best of the kernel's own delivery rates in samples, bytes/s. Each is over a round trip or
    /// so, and too high where segments or ACKs arrived together that were held up on the way.
    best_sampled_bytes_per_s: f64,
    /// Time of all intervals in which the sender was free to send, ns.
    free_ns: u64,
    /// Intervals with loss, whether or not there is an earlier best.
    lossy: Interval,
    /// Intervals with loss that had an earlier best to compare with, ns.
    judged_ns: u64,
    /// Time lost in them against the earlier best, ns.
    deficit_ns: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    length_ns: u64,
    bytes: u64,
    /// Σ of congestion window times length, bytes · ns.
    cwnd_weight: f64,
    /// Σ of pacing rate times length, bytes/s · ns.
    pacing_weight: f64,
    /// Segments sent, and of these sent again.
    segments: u64,
    retransmits: u64,
}

/// Loss beyond which BBR cannot find its rate again: it probes with five quarters of it
/// (bbr_pacing_gain), of which then less than the rate itself arrives.
const BBR_LOSS: f64 = 1.0 - 4.0 / 5.0;

/// Round trips that a rate has to last, as in the kernel's ledger (`track_best_rate()`): polls come
/// at random times, and between two close ones any burst is a rate.
const RATE_RTTS: u64 = 10;

/// What a congestion control turns down when it sees loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brake {
    /// The congestion window (cubic, reno and their like).
    Window,
    /// The pacing rate (BBR: bbr_set_pacing_rate).
    Pacing,
}

/// How far loss made a flow fall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fall {
    /// Rate while segments were lost, bytes/s.
    pub under_loss_bytes_per_s: f64,
    /// The flow's own best rate, bytes/s.
    pub best_bytes_per_s: f64,
    /// Congestion window while segments were lost, bytes.
    pub cwnd_bytes: f64,
    /// Part of the best rate that was missing while segments were lost, as far as the brake
    /// explains it, 0–1.
    pub share: f64,
    /// Part of the time, as far as it was free to send, in which segments were lost, 0–1.
    pub lossy_share: f64,
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
        let app_limited = later.app_limited.unwrap_or(false);
        let timeout = later.total_rto > earlier.total_rto;
        let lossy = later.total_retrans > earlier.total_retrans;
        let free_ns = free_ns(earlier, later).unwrap_or(length_ns).min(length_ns);
        self.free_ns += free_ns;
        if lossy && !app_limited && !timeout && free_ns > 0 {
            self.lossy.length_ns += free_ns;
            self.lossy.bytes += bytes;
            let cwnd_bytes = f64::from(later.cwnd) * f64::from(later.mss_bytes);
            self.lossy.cwnd_weight += cwnd_bytes * free_ns as f64;
            let pacing = later
                .pacing_rate_bytes_per_s
                .map_or(f64::INFINITY, |rate| rate as f64);
            self.lossy.pacing_weight += pacing * free_ns as f64;
            self.lossy.segments += u64::from(later.segs_out.saturating_sub(earlier.segs_out));
            let again = later.total_retrans.saturating_sub(earlier.total_retrans);
            self.lossy.retransmits += u64::from(again);
            let best = self.best_bytes_per_s.max(self.best_sampled_bytes_per_s);
            if best > 0.0 {
                self.judged_ns += free_ns;
                let missing = 1.0 - per_second(bytes, free_ns) / best;
                self.deficit_ns += missing.max(0.0) * free_ns as f64;
            }
        }
        let path_ns = later.min_rtt_us.map_or(0, |us| u64::from(us) * 1_000);
        if length_ns >= RATE_RTTS * path_ns {
            self.best_bytes_per_s = self.best_bytes_per_s.max(per_second(bytes, length_ns));
        }
        self.see(later);
    }

    /// Takes the kernel's own delivery rate of a sample.
    pub fn see(&mut self, sample: &TcpSample) {
        if let Some(rate) = sample.delivery_rate_bytes_per_s {
            self.best_sampled_bytes_per_s = self.best_sampled_bytes_per_s.max(rate as f64);
        }
    }

    /// The fall against `ledger_best_bytes_per_s`, the best rate that lasted, or without it
    /// against the best that came before each interval, on a path of `min_rtt_us`. `None` when there is nothing to compare with.
    pub fn fall(
        &self,
        ledger_best_bytes_per_s: Option<u64>,
        min_rtt_us: Option<u32>,
        brake: Brake,
    ) -> Option<Fall> {
        if self.lossy.length_ns == 0 {
            return None;
        }
        let under_loss_bytes_per_s = per_second(self.lossy.bytes, self.lossy.length_ns);
        let ledger_best = ledger_best_bytes_per_s.filter(|best| *best > 0);
        let (best_bytes_per_s, by_rate) = match ledger_best {
            Some(best) => {
                let best = (best as f64).max(self.best_bytes_per_s);
                (best, (1.0 - under_loss_bytes_per_s / best).max(0.0))
            }
            None if self.judged_ns > 0 => (
                self.best_bytes_per_s.max(self.best_sampled_bytes_per_s),
                self.deficit_ns / self.judged_ns as f64,
            ),
            None => return None,
        };
        let cwnd_bytes = self.lossy.cwnd_weight / self.lossy.length_ns as f64;
        let needed_bytes = best_bytes_per_s * f64::from(min_rtt_us?) / 1e6;
        let by_brake = match brake {
            Brake::Window => 1.0 - cwnd_bytes / needed_bytes,
            Brake::Pacing if self.loss_share() > BBR_LOSS => 1.0,
            Brake::Pacing => {
                1.0 - self.lossy.pacing_weight / self.lossy.length_ns as f64 / best_bytes_per_s
            }
        };
        let share = by_rate.min(by_brake.max(0.0));
        Some(Fall {
            under_loss_bytes_per_s,
            best_bytes_per_s,
            cwnd_bytes,
            share,
            lossy_share: self.lossy.length_ns as f64 / self.free_ns as f64,
        })
    }
}

impl RateDigest {
    /// Part of the segments that were sent again while segments were lost.
    fn loss_share(&self) -> f64 {
        self.lossy.retransmits as f64 / self.lossy.segments.max(1) as f64
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

fn per_second(bytes: u64, length_ns: u64) -> f64 {
    bytes as f64 * 1e9 / length_ns as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::samples::tests::sample;

    const SECOND: u64 = 1_000_000_000;

    /// So long that the window of the samples, ten segments, is next to nothing.
    const LONG_PATH: Option<u32> = Some(u32::MAX);

    fn flow(rates: &[(u64, u32, u16)]) -> RateDigest {
        let mut digest = RateDigest::default();
        let mut earlier = sample(0);
        for (index, (bytes, retransmits, timeouts)) in rates.iter().enumerate() {
            let later = TcpSample {
                bytes_acked: earlier.bytes_acked + bytes,
                busy_us: earlier.busy_us.map(|busy| busy + 1_000_000),
                total_retrans: earlier.total_retrans + retransmits,
                total_rto: Some(earlier.total_rto.unwrap_or(0) + timeouts),
                ..sample((index as u64 + 1) * SECOND)
            };
            digest.add(&earlier, &later);
            earlier = later;
        }
        digest
    }

    #[test]
    fn the_fall_is_against_the_earlier_best() {
        let fall = flow(&[(1_000, 0, 0), (250, 3, 0), (250, 2, 0)])
            .fall(None, LONG_PATH, Brake::Window)
            .expect("a best");
        assert_eq!((fall.share, fall.best_bytes_per_s), (0.75, 1_000.0));
        let steady = flow(&[(1_000, 0, 0), (1_000, 3, 0)])
            .fall(None, LONG_PATH, Brake::Window)
            .expect("a best");
        assert_eq!(steady.share, 0.0);
    }

    #[test]
    fn without_an_earlier_best_only_the_ledger_can_tell() {
        let lossy = flow(&[(250, 3, 0)]);
        assert_eq!(lossy.fall(None, LONG_PATH, Brake::Window), None);
        assert_eq!(
            lossy
                .fall(Some(1_000), LONG_PATH, Brake::Window)
                .map(|fall| fall.share),
            Some(0.75)
        );
    }

    #[test]
    fn time_that_the_receiver_stopped_is_not_the_fall() {
        let mut digest = flow(&[(1_000, 0, 0)]);
        let earlier = TcpSample {
            bytes_acked: 1_000,
            ..sample(SECOND)
        };
        let later = TcpSample {
            bytes_acked: 1_250,
            total_retrans: 3,
            busy_us: Some(1_000_000),
            rwnd_limited_us: Some(750_000),
            ..sample(2 * SECOND)
        };
        digest.add(&earlier, &later);
        assert_eq!(
            digest
                .fall(None, LONG_PATH, Brake::Window)
                .map(|fall| fall.share),
            Some(0.0)
        );
    }

    #[test]
    fn a_window_that_would_carry_the_best_rate_is_no_brake() {
        let slow = flow(&[(100_000, 0, 0), (25_000, 3, 0)]);
        // Ten segments of 1,448 bytes in 72.4 ms are 200 kB/s, in 289.6 ms 50 kB/s.
        let share = |min_rtt_us| {
            slow.fall(None, Some(min_rtt_us), Brake::Window)
                .map(|fall| fall.share)
        };
        assert_eq!(share(72_400), Some(0.0));
        assert_eq!(share(289_600), Some(0.5));
        assert_eq!(slow.fall(None, None, Brake::Window), None);
    }

    #[test]
    fn an_interval_with_a_timeout_is_not_the_fall() {
        assert_eq!(
            flow(&[(1_000, 0, 0), (10, 3, 1)]).fall(None, LONG_PATH, Brake::Window),
            None
        );
    }
}
