//! SNAP's estimate of how many segments had a delayed ACK (section 4.2), from the sums that polls
//! give: a segment with a delayed ACK has a round trip of the timer's time, any other of the most
//! that path and queues take.
//!
//! `(diff(SumRTT) − diff(SampleRTT) × MaxQueuingDelay) / DelayedACKTimeout`, for each poll interval
//! not less than none and not more than all of its samples.

use super::interval::RttInterval;
use crate::kernel::TCP_DELACK_MIN_NS;

/// Constants that SNAP's operators measure in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapSettings {
    /// MaxQueuingDelay: the most that queues on the path may add, µs.
    pub max_queuing_delay_us: u64,
    /// DelayedACKTimeout: the time of the receiver's timer, µs.
    pub delayed_ack_timeout_us: u64,
}

impl Default for SnapSettings {
    /// Linux holds an ACK back for TCP_DELACK_MIN, and up to TCP_DELACK_MAX only on paths as long as
    /// that. SNAP has 10 ms and 180 ms for a timer of 200 ms: the same proportions; the
    /// second one allows for a timer that is early.
    fn default() -> Self {
        const TCP_DELACK_MIN_US: u64 = TCP_DELACK_MIN_NS / 1_000;
        Self {
            max_queuing_delay_us: TCP_DELACK_MIN_US * 10 / 200,
            delayed_ack_timeout_us: TCP_DELACK_MIN_US * 180 / 200,
        }
    }
}

/// Returns the estimated share of RTT samples with a delayed ACK; `None` without samples.
pub fn estimated_share(
    intervals: &[RttInterval],
    min_rtt_us: Option<u32>,
    settings: SnapSettings,
) -> Option<f64> {
    // SNAP's paths have no round trip to speak of.
    let allowed_us = u64::from(min_rtt_us.unwrap_or(0)) + settings.max_queuing_delay_us;
    let delayed = |interval: &RttInterval| {
        let samples = f64::from(interval.rtt_samples);
        let beyond_us = interval.rtt_sum_us as f64 - samples * allowed_us as f64;
        (beyond_us / settings.delayed_ack_timeout_us.max(1) as f64).clamp(0.0, samples)
    };
    let samples: u64 = intervals.iter().map(|i| u64::from(i.rtt_samples)).sum();
    (samples > 0).then(|| intervals.iter().map(delayed).sum::<f64>() / samples as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an interval of 500 ms with this sum of RTTs, in microseconds.
    fn interval(rtt_sum_us: u64, rtt_samples: u32) -> RttInterval {
        RttInterval {
            length_ns: 500_000_000,
            rtt_sum_us,
            rtt_samples,
        }
    }

    /// Returns the share of delayed ACKs that the rule estimates for a path of 100 µs, with a timer
    /// of 42 ms.
    fn share(delayed: u64, at_once: u64) -> Option<f64> {
        let of_all = interval(
            delayed * 42_000 + at_once * 100,
            u32::try_from(delayed + at_once).expect("a few"),
        );
        estimated_share(&[of_all], Some(100), SnapSettings::default())
    }

    #[test]
    fn the_estimate_is_near_the_share_that_the_sums_were_made_of() {
        assert_eq!(share(0, 100), Some(0.0));
        assert_eq!(share(100, 0), Some(1.0));
        let error = |delayed: u64| {
            let truth = delayed as f64 / 100.0;
            (truth - share(delayed, 100 - delayed).expect("samples")) / truth
        };
        assert!(error(75).abs() < 0.1, "{}", error(75));
        assert!(error(50).abs() < 0.1, "{}", error(50));
    }

    #[test]
    fn each_interval_has_between_none_and_all_of_its_samples() {
        let settings = SnapSettings::default();
        let quiet_and_late = [interval(100, 1), interval(90_000, 1)];
        let share = |intervals: &[RttInterval]| estimated_share(intervals, Some(0), settings);
        assert_eq!(share(&quiet_and_late), Some(0.5));
        assert_eq!(share(&[]), None);
        assert_eq!(share(&[interval(0, 0)]), None);
    }

    #[test]
    fn another_timer_and_another_path_are_another_estimate() {
        let windows = SnapSettings {
            max_queuing_delay_us: 10_000,
            delayed_ack_timeout_us: 180_000,
        };
        let snap = [interval(75 * 200_000, 100)];
        let share = estimated_share(&snap, None, windows).expect("samples");
        assert!((share - 0.777).abs() < 0.001, "{share}");
        let long_path = estimated_share(&snap, Some(150_000), windows);
        assert_eq!(long_path, Some(0.0));
    }
}
