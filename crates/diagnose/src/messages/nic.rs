//! When network adapters put messages on the wire: stamps of the adapters' own clocks in, times of
//! `CLOCK_MONOTONIC` out, each with the bound of its error. A packet is sent after it went to the driver, and
//! before it is acknowledged: what the clocks leave open is cut to that.

use std::collections::HashMap;

use serde::Serialize;
use table::Columns;
use table::clock::{ClockMap, Nature};
use table::tables::{ClockPair, ClockPairs, SentMessage};

/// The adapters' clocks.
#[derive(Debug, Default)]
pub(super) struct NicClocks {
    pairs: HashMap<u16, Vec<ClockPair>>,
    maps: HashMap<u16, ClockMap>,
}

/// When an adapter put a message on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WireTime {
    /// `CLOCK_MONOTONIC`, ns.
    pub nic_ns: u64,
    /// The true time is at most this far from it, ns.
    pub error_ns: u64,
}

/// Messages of a group that an adapter stamped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NicStamps {
    /// How many.
    pub count: u64,
    /// Of these, how many have a stamp that cannot be converted, as the clock was set then.
    pub unplaced: u64,
    /// How many are stamped before they went to the driver, or after they were acknowledged, beyond the bound of
    /// the error, which cannot be.
    pub impossible: u64,
    /// The largest bound of the rest, ns.
    pub error_ns: u64,
}

/// Meaning of a stamp.
pub(super) enum StampTime {
    At(WireTime),
    Unplaced,
    Impossible,
}

impl NicClocks {
    /// Makes the maps from all rows of table `clock_pairs`.
    pub(super) fn from_pairs(rows: &ClockPairs) -> Self {
        let mut clocks = Self::default();
        clocks.add(rows);
        clocks
    }

    /// Adds clock pairs of network adapters, in the order of time; ignores other clocks.
    pub(super) fn add(&mut self, rows: &ClockPairs) {
        for row in 0..rows.len() {
            let number = rows.clock[row].strip_prefix("ptp");
            if let Some(number) = number.and_then(|number| number.parse().ok()) {
                self.pairs.entry(number).or_default().push(rows.row(row));
            }
        }
        let map = |pairs: &Vec<ClockPair>| ClockMap::new(Nature::Oscillator, pairs);
        let maps = self.pairs.iter();
        self.maps = maps.map(|(number, pairs)| (*number, map(pairs))).collect();
    }

    /// Returns the time of a row's stamp; `None`: it has none.
    pub(super) fn stamp_time(&self, row: &SentMessage) -> Option<StampTime> {
        let (phc_ns, number) = (row.nic_phc_ns?, row.nic_ptp?);
        let map = self.maps.get(&number);
        if map.and_then(|map| map.convert(phc_ns)).is_none() {
            return Some(StampTime::Unplaced);
        }
        let sent_ns = row.driver_ns.unwrap_or(0)..=row.acked_ns.unwrap_or(u64::MAX);
        let stamp = map.and_then(|map| map.convert_within(phc_ns, sent_ns));
        Some(stamp.map_or(StampTime::Impossible, |stamp| {
            StampTime::At(WireTime {
                nic_ns: stamp.monotonic_ns,
                error_ns: stamp.error_ns,
            })
        }))
    }
}

impl NicStamps {
    /// Counts a stamp by its quality; returns its time on the wire if that is usable.
    pub(super) fn count(&mut self, placed: &StampTime) -> Option<WireTime> {
        self.count += 1;
        match placed {
            StampTime::At(on_wire) => {
                self.error_ns = self.error_ns.max(on_wire.error_ns);
                return Some(*on_wire);
            }
            StampTime::Unplaced => self.unplaced += 1,
            StampTime::Impossible => self.impossible += 1,
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use table::row_of;

    use super::*;

    /// The clock of ptp3 is 1 s ahead, and read at 1 ms and 2 ms, to 100 ns.
    fn clocks() -> NicClocks {
        let mut pairs = ClockPairs::default();
        for ns in [1_000_000, 2_000_000] {
            let pair = json!({
                "monotonic_ns": ns, "clock": "ptp3", "other_ns": 1_000_000_000 + ns, "error_ns": 100,
                "steer_ppb": 0, "slew_ppb": 0,
            });
            pairs.push(row_of(pair).expect("a row"));
        }
        NicClocks::from_pairs(&pairs)
    }

    /// Makes a packet with an adapter's stamp; returns the time on the wire if it is believable.
    fn stamped(driver_ns: u64, acked_ns: u64, ptp: u16) -> (NicStamps, Option<WireTime>) {
        let row = json!({
            "driver_ns": driver_ns, "acked_ns": acked_ns, "nic_phc_ns": 1_001_500_000, "nic_ptp": ptp,
        });
        let row = row_of(row).expect("a row");
        let mut stamped = NicStamps::default();
        let placed = clocks().stamp_time(&row).expect("a stamp");
        let on_wire = stamped.count(&placed);
        (stamped, on_wire)
    }

    #[test]
    fn a_stamp_is_a_time_with_a_bound() {
        let (counts, on_wire) = stamped(1_400_000, 1_600_000, 3);
        let on_wire = on_wire.expect("a time");
        assert!(on_wire.nic_ns.abs_diff(1_500_000) <= 1, "{on_wire:?}");
        // 100 ns, and 100 ppm in half a millisecond
        assert!((150..160).contains(&on_wire.error_ns), "{on_wire:?}");
        assert_eq!((counts.count, counts.error_ns), (1, on_wire.error_ns));
    }

    #[test]
    fn impossible_times_narrow_the_bound() {
        let (_, on_wire) = stamped(1_499_980, 1_500_020, 3);
        let expected = WireTime {
            nic_ns: 1_500_000,
            error_ns: 20,
        };
        assert_eq!(on_wire, Some(expected));
    }

    #[test]
    fn impossible_and_unknown_stamps_are_counted() {
        let (before, _) = stamped(1_500_200, 1_600_000, 3);
        let (after, _) = stamped(1_400_000, 1_499_800, 3);
        let (unknown, on_wire) = stamped(1_400_000, 1_600_000, 4);
        assert_eq!((before.impossible, after.impossible), (1, 1));
        assert_eq!((unknown.unplaced, unknown.count, on_wire), (1, 1, None));
    }
}
