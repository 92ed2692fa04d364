//! Does loss make a flow slower than it was before? The flow's own earlier best is the
//! measure, because neither a retransmission nor the state Recovery says so: BBR ran at full
//! rate with 62 % of its time in Recovery.

use table::tables::TcpSample;

/// Rates of one connection between consecutive samples.
#[derive(Debug, Clone, Default)]
pub struct RateDigest {
    /// Best rate so far, bytes/s.
    pub best_bytes_per_s: f64,
    /// Time of intervals with loss that had an earlier best to compare with, ns.
    pub judged_ns: u64,
    /// Bytes delivered in them.
    judged_bytes: u64,
    /// Time lost in them against the earlier best, ns.
    pub deficit_ns: f64,
    /// Time of intervals with loss without an earlier best, ns.
    pub unjudged_ns: u64,
}

impl RateDigest {
    /// Adds the interval between two samples of one connection.
    pub fn add(&mut self, earlier: &TcpSample, later: &TcpSample) {
        let length_ns = later.time_ns.saturating_sub(earlier.time_ns);
        if length_ns == 0 {
            return;
        }
        let delivered_bytes = later.bytes_acked.saturating_sub(earlier.bytes_acked);
        let rate = delivered_bytes as f64 * 1e9 / length_ns as f64;
        let app_limited = later.app_limited.unwrap_or(false);
        if later.total_retrans > earlier.total_retrans && !app_limited {
            self.add_loss(length_ns, delivered_bytes, rate);
        }
        self.best_bytes_per_s = self.best_bytes_per_s.max(rate);
        self.see(later);
    }

    /// Takes the kernel's own delivery rate of a sample into the best.
    pub fn see(&mut self, sample: &TcpSample) {
        if let Some(rate) = sample.delivery_rate_bytes_per_s {
            self.best_bytes_per_s = self.best_bytes_per_s.max(rate as f64);
        }
    }

    fn add_loss(&mut self, length_ns: u64, delivered_bytes: u64, rate: f64) {
        if self.best_bytes_per_s <= 0.0 {
            self.unjudged_ns += length_ns;
            return;
        }
        self.judged_ns += length_ns;
        self.judged_bytes += delivered_bytes;
        let fall = (1.0 - rate / self.best_bytes_per_s).max(0.0);
        self.deficit_ns += fall * length_ns as f64;
    }

    /// Mean rate of the judged intervals with loss, bytes/s; `None` without any.
    pub fn rate_under_loss(&self) -> Option<f64> {
        (self.judged_ns > 0).then(|| self.judged_bytes as f64 * 1e9 / self.judged_ns as f64)
    }
}
