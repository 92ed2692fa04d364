//! Readings of one connection's in-kernel stage ledger. They are cumulative, so the first
//! and the last suffice; the mean round-trip time between readings is kept for SNAP's
//! delayed-ACK flag and estimate.

use table::Stage;
use table::tables::TcpStage;

use crate::connections::snap::interval::RttInterval;

/// When each stage grew: from the reading before the first growth to the last reading that showed
/// some, ns; in the order of [`Stage::ALL`].
#[derive(Debug, Clone, Default)]
pub struct StageGrowth([Option<(u64, u64)>; Stage::ALL.len()]);

impl StageGrowth {
    /// Extends, for each stage that grew since the earlier reading, the interval of its growth.
    fn add(&mut self, from_ns: u64, earlier: Option<&TcpStage>, reading: &TcpStage) {
        let now = reading.stages_ns();
        let before = earlier.map(TcpStage::stages_ns);
        for (index, (grew, (_, ns))) in self.0.iter_mut().zip(now).enumerate() {
            if ns > before.map_or(0, |before| before[index].1) {
                let (start_ns, _) = grew.unwrap_or((from_ns, 0));
                *grew = Some((start_ns, reading.time_ns));
            }
        }
    }

    /// Returns the time from the first to the last growth of any of these stages.
    pub fn interval(&self, stages: &[Stage]) -> Option<(u64, u64)> {
        let grew = Stage::ALL.iter().zip(&self.0);
        let times = grew.filter(|(stage, _)| stages.contains(stage));
        let times = times.filter_map(|(_, grew)| *grew);
        times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// Readings of one connection's ledger.
#[derive(Debug, Clone, Default)]
pub struct LedgerDigest {
    /// Last reading before the judged span: what it says was spent earlier.
    pub base: Option<Box<TcpStage>>,
    /// Last reading within the span.
    pub last: Option<TcpStage>,
    /// When each stage grew.
    pub growth: StageGrowth,
    /// Round-trip samples between readings.
    pub rtt: Vec<RttInterval>,
    /// Time that bytes had waited for the reader before the ledger began, ns.
    unread_before_ns: u64,
}

impl LedgerDigest {
    /// Adds a reading of the ledger; readings after the span are ignored.
    pub fn add(&mut self, reading: TcpStage, span: (u64, u64)) {
        if reading.time_ns > span.1 {
            return;
        }
        if self.base.is_none() && self.last.is_none() {
            // Bytes wait one after another: what they waited for longer than the ledger is old, they did before it.
            let age_ns = reading.time_ns.saturating_sub(reading.since_ns);
            self.unread_before_ns = reading.reader_slow_ns.saturating_sub(age_ns);
        }
        if reading.time_ns < span.0 {
            self.base = Some(Box::new(reading));
            return;
        }
        let earlier = self.last.as_ref().or(self.base.as_deref());
        if earlier.is_some_and(|earlier| earlier.time_ns > reading.time_ns) {
            return;
        }
        let (since_ns, sum, samples) = match earlier {
            Some(earlier) => (earlier.time_ns, earlier.rtt_sum_us, earlier.rtt_samples),
            None => (reading.since_ns, 0, 0),
        };
        self.growth.add(since_ns, earlier, &reading);
        self.rtt.push(RttInterval {
            length_ns: reading.time_ns.saturating_sub(since_ns),
            rtt_sum_us: reading.rtt_sum_us.saturating_sub(sum),
            rtt_samples: reading.rtt_samples.saturating_sub(samples),
        });
        self.last = Some(reading);
    }

    /// The last reading less what was spent before the span. Gauges and `longest_hold_ns`
    /// stay those of the last reading.
    pub fn within_span(&self) -> Option<TcpStage> {
        let mut last = self.last.clone()?;
        let Some(base) = self
            .base
            .as_ref()
            .filter(|base| base.since_ns == last.since_ns)
        else {
            last.reader_slow_ns = last.reader_slow_ns.saturating_sub(self.unread_before_ns);
            return Some(last);
        };
        last.since_ns = base.time_ns;
        let since = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        last.window_growth_ns = since(last.window_growth_ns, base.window_growth_ns);
        last.send_buffer_growth_ns = since(last.send_buffer_growth_ns, base.send_buffer_growth_ns);
        macro_rules! subtract {
            ($($field:ident),+ $(,)?) => {
                $(last.$field = last.$field.saturating_sub(base.$field);)+
            };
        }
        subtract!(
            retransmit_timeout_ns,
            tail_loss_ns,
            receiver_window_ns,
            fast_retransmit_ns,
            cwnd_startup_ns,
            cwnd_loss_ns,
            cwnd_cwr_ns,
            cwnd_probing_ns,
            pacing_ns,
            local_queue_ns,
            cork_ns,
            nagle_ns,
            delayed_ack_ns,
            send_buffer_ns,
            in_flight_ns,
            sender_app_ns,
            unknown_ns,
            nagle_holds,
            delayed_acks,
            acks_by_timer,
            data_segs_out,
            timeout_stalls,
            tail_loss_stalls,
            rtt_sum_us,
            rtt_samples,
            reader_slow_ns,
            reader_slow_waits,
            reader_slow_by_jiffy,
            window_closed_ns,
            unseen_ns,
            asleep_ns,
            loss_limited_ns,
            loss_limited_bytes,
            loss_limited_retrans_bytes,
            loss_limited_cwnd_byte_ms,
            thin_stalls,
            thin_stall_ns,
            spurious_timeouts,
            spurious_timeout_ns,
            timeout_acks_delayed,
            timeout_ack_delayed_ns,
            bursts_after_idle,
            burst_losses,
            burst_loss_ns,
            loss_episodes,
        );
        Some(last)
    }
}
