//! Bands of messages: a part of the distribution of latencies.

use std::str::FromStr;

/// From one quantile to another, as shares (0–1): `p99.9` is all from there on, `p40-p60` what lies between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyBand {
    /// Share of the messages that are quicker.
    pub from: f64,
    /// Share up to which they belong to it.
    pub until: f64,
}

impl LatencyBand {
    /// The slowest thousandth.
    pub const TAIL: Self = Self {
        from: 0.999,
        until: 1.0,
    };
    /// The fifth around the median.
    pub const BODY: Self = Self {
        from: 0.4,
        until: 0.6,
    };

    /// Returns the slow band of so many messages: the slowest thousandth if that is ten or more, else the slowest 1 %.
    pub fn slow_band(messages: u64) -> Self {
        if messages >= 10_000 {
            Self::TAIL
        } else {
            Self {
                from: 0.99,
                until: 1.0,
            }
        }
    }

    /// Returns the smallest and the largest latency in the band, ns; `None` without messages.
    pub(super) fn bounds_ns(self, sorted_ns: &[u64]) -> Option<(u64, u64)> {
        let last = sorted_ns.len().checked_sub(1)?;
        // nearest rank; at least one message is in any band
        let rank = |share: f64| ((share * sorted_ns.len() as f64) as usize).min(last);
        let from = rank(self.from);
        let until = if self.until >= 1.0 {
            last
        } else {
            rank(self.until).max(from)
        };
        Some((sorted_ns[from], sorted_ns[until]))
    }
}

impl FromStr for LatencyBand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text} is not a band of latencies: p99.9 is the slowest 0.1 %, p40-p60 is the middle 20 %"
            )
        };
        let percent = |word: &str| -> Result<f64, String> {
            let number = word.strip_prefix('p').ok_or_else(wrong)?;
            let percent: f64 = number.parse().map_err(|_| wrong())?;
            (0.0..=100.0)
                .contains(&percent)
                .then_some(percent / 100.0)
                .ok_or_else(wrong)
        };
        let (from, until) = match text.split_once('-') {
            Some((from, until)) => (percent(from)?, percent(until)?),
            None => (percent(text)?, 1.0),
        };
        if from >= until {
            return Err(wrong());
        }
        Ok(Self { from, until })
    }
}

impl std::fmt::Display for LatencyBand {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // as people write it: no more places than it has
        let percent = |share: f64| (share * 1e8).round() / 1e6;
        write!(out, "p{}", percent(self.from))?;
        if self.until < 1.0 {
            write!(out, "-p{}", percent(self.until))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_read_as_they_are_written() {
        for text in ["p99.9", "p40-p60", "p0", "p99-p99.999", "p0-p50"] {
            let band: LatencyBand = text.parse().expect("a band");
            assert_eq!(band.to_string(), text);
        }
        for text in [
            "", "99", "p101", "p60-p40", "p50-p50", "p100", "p", "p-1", "pNaN", "p1-2",
        ] {
            assert!(text.parse::<LatencyBand>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_band_has_at_least_one_message() {
        let latencies: Vec<u64> = (1..=1000).collect();
        assert_eq!(LatencyBand::TAIL.bounds_ns(&latencies), Some((1000, 1000)));
        assert_eq!(LatencyBand::BODY.bounds_ns(&latencies), Some((401, 601)));
        assert_eq!(LatencyBand::BODY.bounds_ns(&[7]), Some((7, 7)));
        assert_eq!(LatencyBand::TAIL.bounds_ns(&[]), None);
    }
}
