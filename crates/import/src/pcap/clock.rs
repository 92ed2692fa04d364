//! When a segment was sent, by the sender's own clock: its timestamp option (RFC 7323) says it to a tick. What comes late to the
//! place of the capture was sent before, and the sender acted without the answers to it.

/// Tick of timestamps: a millisecond, which RFC 7323 (4.1) allows and which Linux, Windows, macOS and FreeBSD have.
const TICK_NS: i64 = 1_000_000;

/// A clock is compared for so long before it is believed.
const COMPARED_NS: u64 = 200_000_000;

/// It may differ by so much: one part of ten. Other ticks in use differ by four times or more.
const DIFFERENCE: u64 = 10;

/// The least delay counts for so long: two clocks of quartz differ by 100 µs a second at most, so that it stays within a tick.
const PERIOD_NS: u64 = 5_000_000_000;

/// Clock of one end as the place of the capture sees it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SenderClock {
    first: Option<(u32, u64)>,
    is_known: bool,
    /// Begin of a period, and the least difference between capture and clock, of it and of the one before, ns.
    period_ns: u64,
    least_ns: Option<i64>,
    before_ns: Option<i64>,
    /// By so much the segment that passes came later than the quickest, to a tick, ns; `None`: it has no timestamp.
    later_ns: Option<i64>,
    latest_ns: u64,
}

impl SenderClock {
    /// Compares a segment's timestamp with the time of the capture. Every segment of a connection has one, also those without
    /// data (RFC 7323, 3.2).
    pub fn compare(&mut self, now_ns: u64, stamp: Option<u32>) {
        self.later_ns = stamp.and_then(|stamp| self.later_ns(now_ns, stamp));
    }

    /// Returns when the segment that passes left, at the latest, in the time of the capture: as if nothing on the way had
    /// delayed it more than others.
    pub fn sent_ns(&mut self, now_ns: u64) -> u64 {
        let later_ns = self.later_ns.filter(|_| self.is_known);
        // The segment may have left at the end of the tick.
        let beyond_ns = later_ns.unwrap_or(0).saturating_sub(TICK_NS);
        let sent_ns = now_ns.saturating_sub(beyond_ns.max(0).unsigned_abs());
        self.latest_ns = self.latest_ns.max(sent_ns).min(now_ns);
        self.latest_ns
    }

    /// Returns by how much the path delayed the segment that passes more than others, ns: right on average, because segments
    /// leave half a tick after its start on average. Of a single one it may be below 0. It holds only if the clock is known,
    /// now or later.
    pub fn delay_ns(&self) -> i64 {
        self.later_ns
            .map_or(0, |later_ns| later_ns.saturating_sub(TICK_NS / 2))
    }

    /// Returns whether the tick of the sender's timestamps is known.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns how much later than the sender's clock says a segment came; None before the clock is known.
    fn later_ns(&mut self, now_ns: u64, stamp: u32) -> Option<i64> {
        let (first, first_ns) = *self.first.get_or_insert((stamp, now_ns));
        let ran_ns = i64::from(stamp.wrapping_sub(first).cast_signed()) * TICK_NS;
        let passed_ns = now_ns.saturating_sub(first_ns);
        let late_ns = i64::try_from(passed_ns).ok()?.saturating_sub(ran_ns);
        if !self.is_known {
            let differs_ns = late_ns.unsigned_abs();
            self.is_known =
                passed_ns >= COMPARED_NS && differs_ns.saturating_mul(DIFFERENCE) <= passed_ns;
        }
        if now_ns.saturating_sub(self.period_ns) >= PERIOD_NS {
            self.period_ns = now_ns;
            self.before_ns = self.least_ns.take();
        }
        let least_ns = self.least_ns.map_or(late_ns, |it| it.min(late_ns));
        self.least_ns = Some(least_ns);
        let least_ns = self.before_ns.map_or(least_ns, |it| it.min(least_ns));
        Some(late_ns.saturating_sub(least_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns when a segment with this timestamp was sent.
    fn sent_ns(clock: &mut SenderClock, now_ns: u64, stamp: u32) -> u64 {
        clock.compare(now_ns, Some(stamp));
        clock.sent_ns(now_ns)
    }

    #[test]
    fn delay_is_right_on_average() {
        let mut clock = SenderClock::default();
        let mut sum_ns = 0;
        // a segment each 10.1 ms, which the path delays by 2 ms from 1 s on
        for at in 0..400u64 {
            let left_ns = at * 10_100_000;
            let held_ns = if at < 100 { 0 } else { 2 * MS };
            clock.compare(left_ns + held_ns, Some((left_ns / MS) as u32));
            sum_ns += if at < 100 { 0 } else { clock.delay_ns() };
        }
        // they leave at tenths of a tick, from its start on: 0.45 ticks after it on average
        assert_eq!(sum_ns, 300 * (2_000_000 + 450_000 - 500_000));
    }

    #[test]
    fn late_segment_was_sent_when_its_timestamp_says() {
        let mut clock = SenderClock::default();
        for ms in 0..300 {
            assert_eq!(sent_ns(&mut clock, ms * MS, 7 + ms as u32), ms * MS);
        }
        // 500 ms late, to a tick
        assert_eq!(sent_ns(&mut clock, 800 * MS, 7 + 300), 301 * MS);
        assert_eq!(sent_ns(&mut clock, 801 * MS, 7 + 700), 701 * MS);
        assert_eq!(sent_ns(&mut clock, 802 * MS, 7 + 802), 802 * MS);
    }

    #[test]
    fn clock_with_another_tick_is_rejected() {
        for per_s in [100, 250, 1_000_000] {
            let mut clock = SenderClock::default();
            for ms in 0..2_000 {
                let stamp = (ms * per_s / 1_000) as u32;
                assert_eq!(sent_ns(&mut clock, ms * MS, stamp), ms * MS);
            }
        }
    }

    #[test]
    fn clock_that_wraps_is_accepted() {
        let mut clock = SenderClock::default();
        let begin = u32::MAX - 100;
        (0..300u32).for_each(|ms| {
            sent_ns(&mut clock, u64::from(ms) * MS, begin.wrapping_add(ms));
        });
        assert_eq!(
            sent_ns(&mut clock, 900 * MS, begin.wrapping_add(400)),
            401 * MS
        );
    }
}
