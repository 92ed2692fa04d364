//! Samples (`tcp_info` readings) of one connection: the first and last for what counters say,
//! and running sums for what gauges say. Nothing grows with the number of samples.

use table::SampleKind;
use table::tables::TcpSample;

use super::polls::{PollClass, PollWeights};
use super::rates::RateDigest;
use crate::connections::snap::flags::FlagTimes;

/// Samples of one connection.
#[derive(Debug, Clone, Default)]
pub struct SampleDigest {
    /// Last sample before the judged span.
    pub base: Option<Box<TcpSample>>,
    /// First sample within the span, once there is another: most short connections have one.
    earliest: Option<Box<TcpSample>>,
    /// Last sample within the span.
    pub last: Option<TcpSample>,
    /// Polls within the span.
    pub polls: u64,
    /// Time by what the polls saw.
    pub weights: PollWeights,
    /// SNAP's flags, interval by interval.
    pub flags: FlagTimes,
    /// Delivery rates.
    pub rates: RateDigest,
    /// The peer's window, as polls saw it.
    pub window: WindowSamples,
    /// Time with bytes ready for the reader, and time that the polls stand for, ns.
    pub unread_ns: u64,
    /// Time that the polls stand for, ns.
    pub polled_ns: u64,
    /// Least round-trip time of any sample, µs.
    pub min_rtt_us: Option<u32>,
    /// Least retransmission timeout without backoff, µs: the flow's own first timeout.
    pub first_rto_us: Option<u32>,
    /// Largest send queue, bytes.
    pub max_send_queue_bytes: u32,
    /// The sample before the last growth of the bytes acknowledged, ns: so late the growth began, at the earliest.
    pub acked_since_ns: Option<u64>,
    /// Intervals between samples in which bytes moved, ns; the first began at an unknown time.
    pub moved: Vec<(u64, u64)>,
}

/// The share of a SYN in `bytes_acked`.
pub const SYN_BYTES: u64 = 1;

/// The peer's window in polls that found it full.
#[derive(Debug, Clone, Default)]
pub struct WindowSamples {
    /// Largest window seen in any poll, bytes.
    pub largest_bytes: u32,
    /// Polls that found the window full.
    pub full: u32,
    /// Those of them with less than half of the largest window so far.
    pub shrunk: u32,
    /// The window when it was last twice as large as then, bytes; 0: none yet.
    grown_bytes: u32,
    /// The kernel's clock of the full window at that moment, µs; `None`: there is no clock.
    grown_us: Option<u64>,
    /// Time of that clock in waits for such growth, µs: two round trips at most for each time that the window became twice as
    /// large.
    growth_us: u64,
}

impl WindowSamples {
    /// Notes the window of a sample, after the SYN. A receiver's kernel measures what is read in a round trip, and is one late
    /// (`tcp_rcv_space_adjust()`): a longer wait is for a window that does not grow.
    fn see_growth(&mut self, window_bytes: u32, sample: &TcpSample) {
        self.largest_bytes = self.largest_bytes.max(window_bytes);
        if window_bytes / 2 < self.grown_bytes {
            return;
        }
        let doublings = window_bytes
            .checked_div(self.grown_bytes)
            .and_then(u32::checked_ilog2);
        if let (Some(doublings), Some(before), Some(now)) =
            (doublings, self.grown_us, sample.rwnd_limited_us)
        {
            let most_us = 2 * u64::from(sample.srtt_us) * u64::from(doublings);
            self.growth_us += now.saturating_sub(before).min(most_us);
        }
        self.grown_bytes = window_bytes;
        self.grown_us = sample.rwnd_limited_us;
    }
}

impl SampleDigest {
    /// Adds a sample of the connection; samples come in the order of time, and those outside the
    /// span only serve as its start.
    pub fn add(&mut self, sample: TcpSample, span: (u64, u64)) {
        if sample.time_ns < span.0 {
            self.base = Some(Box::new(sample));
            return;
        }
        let late = self
            .last
            .as_ref()
            .is_some_and(|last| last.time_ns > sample.time_ns);
        if sample.time_ns > span.1 || late {
            return;
        }
        self.see_moved(&sample);
        if let Some(earlier) = self.last.as_ref().or(self.base.as_deref()) {
            let length_ns = sample.time_ns.saturating_sub(earlier.time_ns);
            self.weights.add(PollClass::from_sample(earlier), length_ns);
            self.polled_ns += length_ns;
            if earlier.bytes_acked != sample.bytes_acked {
                self.acked_since_ns = Some(earlier.time_ns);
            }
            if earlier.receive_queue_bytes > 0 {
                self.unread_ns += length_ns;
            }
            self.flags.add(Some(earlier), &sample, length_ns);
            self.rates.add(earlier, &sample);
        }
        self.add_sample(&sample);
        let latest = self.last.replace(sample);
        if self.earliest.is_none() {
            self.earliest = latest.map(Box::new);
        }
    }

    /// Keeps the interval before this sample if bytes moved in it.
    fn see_moved(&mut self, sample: &TcpSample) {
        let bytes = |of: &TcpSample| (of.bytes_received, of.bytes_acked, of.bytes_sent);
        let earlier = self.last.as_ref().or(self.base.as_deref());
        if earlier.is_none_or(|earlier| bytes(earlier) != bytes(sample)) {
            let since_ns = earlier.map_or(0, |earlier| earlier.time_ns);
            self.moved.push((since_ns, sample.time_ns));
        }
    }

    /// Adds a sample to the extremes: RTT, timeout, send queue, window.
    fn add_sample(&mut self, sample: &TcpSample) {
        if sample.kind == SampleKind::Poll {
            self.polls += 1;
        }
        self.min_rtt_us = smaller_of(self.min_rtt_us, sample.min_rtt_us);
        if sample.backoff == 0 && sample.rto_us > 0 {
            self.first_rto_us = smaller_of(self.first_rto_us, Some(sample.rto_us));
        }
        self.max_send_queue_bytes = self.max_send_queue_bytes.max(sample.max_send_queue_bytes);
        if let Some(window_bytes) = sample.snd_wnd_bytes {
            let window = &mut self.window;
            // Until data is acknowledged it is the SYN's, which is never scaled (RFC 7323 2.2).
            if sample.bytes_acked > SYN_BYTES {
                window.see_growth(window_bytes, sample);
            }
            if PollClass::from_sample(sample) == PollClass::WindowFull {
                window.full += 1;
                if u64::from(window_bytes) * 2 < u64::from(window.largest_bytes) {
                    window.shrunk += 1;
                }
            }
        }
    }

    /// Returns the first sample within the span; `None` if there is none.
    pub fn first_sample(&self) -> Option<&TcpSample> {
        self.earliest.as_deref().or(self.last.as_ref())
    }

    /// Returns the counters when the judged time began, and when that was, ns:
    /// nothing when the connection was opened within it, else the first sample.
    pub fn start(&self, opened_ns: Option<u64>) -> Option<(Option<&TcpSample>, u64)> {
        if let Some(base) = &self.base {
            return Some((Some(base), base.time_ns));
        }
        let first = self.first_sample()?;
        match opened_ns {
            Some(opened_ns) if opened_ns <= first.time_ns => Some((None, opened_ns)),
            _ => Some((Some(first), first.time_ns)),
        }
    }

    /// Returns the time of waits for a receiver's window that then grew to twice its size, ns; `None` without the
    /// kernel's clock of the full window, or if the connection was open before: its window may have been larger.
    pub fn window_growth_ns(&self, opened_ns: Option<u64>) -> Option<u64> {
        let (None, _) = self.start(opened_ns)? else {
            return None;
        };
        self.last.as_ref()?.rwnd_limited_us?;
        Some(self.window.growth_us * 1_000)
    }

    /// Delivery rates over the judged time: for a connection opened within it, also those
    /// until the first sample, when all counters were zero.
    pub fn rates_since(&self, opened_ns: Option<u64>) -> RateDigest {
        let mut rates = self.rates.clone();
        if let (Some((None, start_ns)), Some(first)) = (self.start(opened_ns), self.first_sample())
        {
            let zero = TcpSample {
                time_ns: start_ns,
                bytes_acked: 0,
                total_retrans: 0,
                total_rto: first.total_rto.map(|_| 0),
                busy_us: first.busy_us.map(|_| 0),
                rwnd_limited_us: first.rwnd_limited_us.map(|_| 0),
                ..first.clone()
            };
            rates.add(&zero, first);
        }
        rates
    }

    /// Returns the growth of a counter over the judged time; `None` if it is unknown.
    pub fn growth(
        &self,
        opened_ns: Option<u64>,
        counter: impl Fn(&TcpSample) -> Option<u64>,
    ) -> Option<u64> {
        let (start, _) = self.start(opened_ns)?;
        let end = counter(self.last.as_ref()?)?;
        let begin = match start {
            None => 0,
            Some(sample) => counter(sample)?,
        };
        Some(end.saturating_sub(begin))
    }
}

/// The smaller of two values; either may be unknown.
fn smaller_of(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// An idle, healthy connection on a path without delay.
    pub fn sample(time_ns: u64) -> TcpSample {
        TcpSample {
            conn: 1,
            time_ns,
            kind: SampleKind::Poll,
            state: 1,
            ca_state: 0,
            backoff: 0,
            app_limited: Some(false),
            send_queue_bytes: 0,
            max_send_queue_bytes: 0,
            receive_queue_bytes: 0,
            notsent_bytes: Some(0),
            unacked: 0,
            sacked: 0,
            lost: 0,
            retrans: 0,
            total_retrans: 0,
            total_rto: Some(0),
            total_rto_recoveries: Some(0),
            total_rto_time_ms: Some(0),
            rto_us: 204_000,
            ato_us: 40_000,
            srtt_us: 60,
            rttvar_us: 20,
            min_rtt_us: Some(30),
            rcv_rtt_us: 0,
            cwnd: 10,
            ssthresh: 0x7fff_ffff,
            mss_bytes: 1_448,
            snd_wnd_bytes: Some(65_536),
            rcv_wnd_bytes: Some(65_536),
            pacing_rate_bytes_per_s: None,
            delivery_rate_bytes_per_s: None,
            bytes_acked: 0,
            bytes_received: 0,
            bytes_sent: Some(0),
            bytes_retrans: Some(0),
            segs_out: 0,
            segs_in: 0,
            data_segs_out: Some(0),
            data_segs_in: Some(0),
            delivered: Some(0),
            delivered_ce: Some(0),
            dsack_dups: Some(0),
            reord_seen: Some(0),
            rcv_ooopack: Some(0),
            busy_us: Some(0),
            rwnd_limited_us: Some(0),
            sndbuf_limited_us: Some(0),
            rcvbuf_bytes: Some(131_072),
            sndbuf_bytes: Some(87_040),
            wmem_queued_bytes: Some(0),
            drops: Some(0),
        }
    }

    #[test]
    fn counters_start_at_zero_only_when_the_connection_opened_in_the_recording() {
        let mut digest = SampleDigest::default();
        for (time_ns, sent) in [(1_000, 100), (2_000, 300)] {
            let reading = TcpSample {
                bytes_sent: Some(sent),
                ..sample(time_ns)
            };
            digest.add(reading, (0, u64::MAX));
        }
        let sent = |opened| digest.growth(opened, |reading| reading.bytes_sent);
        assert_eq!(sent(Some(500)), Some(300));
        assert_eq!(sent(None), Some(200));
        assert_eq!(digest.growth(None, |_| None), None);
    }

    #[test]
    fn each_doubling_of_the_window_is_two_round_trips_at_most() {
        let mut digest = SampleDigest::default();
        for (time_ns, kb, full_us) in [(1_000, 64, 0), (2_000, 96, 5_000), (3_000, 600, 9_000)] {
            let reading = TcpSample {
                srtt_us: 1_000,
                bytes_acked: 100_000,
                snd_wnd_bytes: Some(kb * 1_000),
                rwnd_limited_us: Some(full_us),
                ..sample(time_ns)
            };
            digest.add(reading, (0, u64::MAX));
        }
        // 64 to 600 kB: three times twice as large
        assert_eq!(digest.window_growth_ns(Some(500)), Some(6_000_000));
        assert_eq!(digest.window_growth_ns(None), None);
        let unclocked = TcpSample {
            rwnd_limited_us: None,
            ..sample(4_000)
        };
        digest.add(unclocked, (0, u64::MAX));
        assert_eq!(digest.window_growth_ns(Some(500)), None);
    }

    #[test]
    fn a_reading_before_the_span_is_its_start() {
        let mut digest = SampleDigest::default();
        for time_ns in [1_000, 2_000, 3_000, 4_000] {
            digest.add(sample(time_ns), (2_500, 3_500));
        }
        assert_eq!(digest.start(Some(1)).map(|(_, at)| at), Some(2_000));
        assert_eq!(digest.last.map(|last| last.time_ns), Some(3_000));
    }
}
