//! SNAP's Table 2: flags per interval between two readings, from counters alone. Several may
//! hold at once. They never look at the stages, and the stages never look at them.
//!
//! | problem | rule | here |
//! |---|---|---|
//! | send buffer limited | CurAppWQueue ≈ MaxAppWQueue | within one segment of the largest |
//! | fast retransmission | diff(#FastRetrans) > 0 | retransmissions without a timeout |
//! | timeout | diff(#Timeout) > 0 | `total_rto` |
//! | delayed ACK | diff(SumRTT) > diff(SampleRTT) × MaxQueuingDelay | ledger's RTT sum |
//! | receiver window limited | diff(RwinLimitTime) > 0 | `rwnd_limited` |
//! | sender app limited | none of the others | none of the others that were measured |

use table::tables::TcpSample;

use super::interval::RttInterval;
use crate::report;

/// SNAP's MaxQueuingDelay (section 4.2): the most that queues on the path may add. Also on Linux, where the
/// timer takes four times as long; the estimate of shares, a difference of sums, needs a nearer one
/// ([`super::delayed_acks::SnapSettings`]).
const MAX_QUEUING_DELAY_US: u64 = 10_000;

/// The flags of one interval between two readings; `None`: the kernel does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntervalFlags {
    /// Send buffer limited.
    pub send_buffer: bool,
    /// Fast retransmission.
    pub fast_retransmission: Option<bool>,
    /// Timeout.
    pub timeout: Option<bool>,
    /// Receiver window limited.
    pub receiver_window: Option<bool>,
    /// Something was retransmitted, for either cause.
    retransmitted: bool,
}

impl IntervalFlags {
    /// Returns the flags of the interval between two samples; without an earlier one, from zero on.
    pub fn between(earlier: Option<&TcpSample>, later: &TcpSample) -> Self {
        let retransmitted = later.total_retrans > earlier.map_or(0, |e| e.total_retrans);
        let timeout = has_grown(earlier, later, |sample| sample.total_rto.map(u64::from));
        Self {
            send_buffer: send_buffer_limited(later),
            fast_retransmission: timeout.map(|timeout| retransmitted && !timeout),
            timeout,
            receiver_window: has_grown(earlier, later, |sample| sample.rwnd_limited_us),
            retransmitted,
        }
    }

    /// Returns whether there was a fast retransmission or a timeout; `None` if unknown.
    pub fn has_congestion(&self) -> Option<bool> {
        self.timeout.map(|timeout| self.retransmitted || timeout)
    }

    /// Returns whether any flag is raised.
    pub fn is_any_raised(&self) -> bool {
        self.send_buffer
            || self.retransmitted
            || self.timeout == Some(true)
            || self.receiver_window == Some(true)
    }
}

/// The flag "delayed ACK" of an interval. The path's own round-trip time is not a queue.
pub fn delayed_ack(interval: &RttInterval, min_rtt_us: Option<u32>) -> bool {
    let allowed_us = u64::from(min_rtt_us.unwrap_or(0)) + MAX_QUEUING_DELAY_US;
    interval.rtt_sum_us > u64::from(interval.rtt_samples) * allowed_us
}

/// A flag: time observed and, of it, time flagged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlagTime {
    /// Time of the intervals in which the inputs were there, ns.
    pub observed_ns: u64,
    /// Time of those of them with the problem, ns.
    pub flagged_ns: u64,
}

impl FlagTime {
    /// Adds time in which a flag was on or off; None is time in which it was not observed.
    fn add(&mut self, flag: Option<bool>, length_ns: u64) {
        if let Some(flag) = flag {
            self.observed_ns += length_ns;
            self.flagged_ns += if flag { length_ns } else { 0 };
        }
    }

    /// Returns the share of the observed time in which the flag was raised; `None` if it was never
    /// observed.
    pub fn share(&self) -> Option<f64> {
        (self.observed_ns > 0).then(|| self.flagged_ns as f64 / self.observed_ns as f64)
    }
}

/// The flags of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlagTimes {
    /// Send buffer limited.
    pub send_buffer: FlagTime,
    /// Fast retransmission.
    pub fast_retransmission: FlagTime,
    /// Timeout.
    pub timeout: FlagTime,
    /// Fast retransmission or timeout: the row "Congestion" of Table 4.
    pub congestion: FlagTime,
    /// Receiver window limited.
    pub receiver_window: FlagTime,
    /// Delayed ACK.
    pub delayed_ack: FlagTime,
    /// None of the flags that come from samples.
    pub without_flags: FlagTime,
}

impl FlagTimes {
    /// Adds the flags of the interval between two samples, of this length.
    pub fn add(&mut self, earlier: Option<&TcpSample>, later: &TcpSample, length_ns: u64) {
        let flags = IntervalFlags::between(earlier, later);
        self.send_buffer.add(Some(flags.send_buffer), length_ns);
        self.fast_retransmission
            .add(flags.fast_retransmission, length_ns);
        self.timeout.add(flags.timeout, length_ns);
        self.congestion.add(flags.has_congestion(), length_ns);
        self.receiver_window.add(flags.receiver_window, length_ns);
        self.without_flags
            .add(Some(!flags.is_any_raised()), length_ns);
    }

    /// Adds the time of the round-trip ledger's intervals, and which of them had a delayed ACK.
    pub fn add_rtt(&mut self, intervals: &[RttInterval], min_rtt_us: Option<u32>) {
        for interval in intervals {
            let late = delayed_ack(interval, min_rtt_us);
            self.delayed_ack.add(Some(late), interval.length_ns);
        }
    }

    /// Returns the time of SNAP's default class: without any other flag, less all time of delayed ACKs, which come from
    /// other readings. So it is a lower bound. `None`: there was no sample. The second value: every flag was measured.
    pub fn sender_app_time(&self) -> Option<(FlagTime, bool)> {
        if self.without_flags.observed_ns == 0 {
            return None;
        }
        let mut flag = self.without_flags;
        flag.flagged_ns = flag.flagged_ns.saturating_sub(self.delayed_ack.flagged_ns);
        let inputs = [self.timeout, self.receiver_window, self.delayed_ack];
        Some((flag, inputs.iter().all(|input| input.observed_ns > 0)))
    }
}

impl From<&FlagTimes> for report::FlagShares {
    fn from(times: &FlagTimes) -> Self {
        Self {
            sender_app_limited: times.sender_app_time().and_then(|(flag, _)| flag.share()),
            send_buffer_limited: times.send_buffer.share(),
            fast_retransmission: times.fast_retransmission.share(),
            timeout: times.timeout.share(),
            delayed_ack: times.delayed_ack.share(),
            receiver_window_limited: times.receiver_window.share(),
        }
    }
}

/// Returns SNAP's sign (CurAppWQueue ≈ MaxAppWQueue): the queue is less than a segment below its
/// largest size. A queue of less than a segment says nothing.
fn send_buffer_limited(sample: &TcpSample) -> bool {
    let queue = sample.send_queue_bytes;
    queue > sample.mss_bytes && queue.saturating_add(sample.mss_bytes) > sample.max_send_queue_bytes
}

/// Returns whether a counter grew between two samples; None if it is unknown.
fn has_grown(
    earlier: Option<&TcpSample>,
    later: &TcpSample,
    counter: impl Fn(&TcpSample) -> Option<u64>,
) -> Option<bool> {
    let begin = match earlier {
        None => 0,
        Some(sample) => counter(sample)?,
    };
    Some(counter(later)? > begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::gather::samples::tests::sample;

    #[test]
    fn several_problems_may_hold_in_one_interval() {
        let later = TcpSample {
            total_retrans: 3,
            rwnd_limited_us: Some(4_000),
            send_queue_bytes: 60_000,
            max_send_queue_bytes: 60_500,
            ..sample(2_000)
        };
        let mut flags = FlagTimes::default();
        flags.add(Some(&sample(1_000)), &later, 1_000);
        assert_eq!(flags.send_buffer.share(), Some(1.0));
        assert_eq!(flags.fast_retransmission.share(), Some(1.0));
        assert_eq!(flags.timeout.share(), Some(0.0));
        assert_eq!(flags.congestion.share(), Some(1.0));
        assert_eq!(flags.receiver_window.share(), Some(1.0));
        assert_eq!(flags.delayed_ack.share(), None, "not measured is not zero");
        let (app, complete) = flags.sender_app_time().expect("a sample");
        assert_eq!((app.flagged_ns, complete), (0, false));
    }

    #[test]
    fn a_kernel_without_the_counter_gives_no_flag() {
        let old = TcpSample {
            total_rto: None,
            rwnd_limited_us: None,
            ..sample(2_000)
        };
        let mut flags = FlagTimes::default();
        flags.add(None, &old, 1_000);
        assert_eq!(flags.timeout.share(), None);
        assert_eq!(flags.fast_retransmission.share(), None);
        assert_eq!(flags.receiver_window.share(), None);
        assert_eq!(
            flags.sender_app_time().map(|(app, _)| app.flagged_ns),
            Some(1_000)
        );
    }

    #[test]
    fn late_acks_are_judged_against_the_path() {
        let interval = RttInterval {
            length_ns: 500,
            rtt_sum_us: 440_000,
            rtt_samples: 10,
        };
        let mut flags = FlagTimes::default();
        flags.add_rtt(&[interval], Some(50));
        assert_eq!(flags.delayed_ack.share(), Some(1.0));
        let mut long_path = FlagTimes::default();
        long_path.add_rtt(&[interval], Some(40_000));
        assert_eq!(long_path.delayed_ack.share(), Some(0.0));
    }
}
