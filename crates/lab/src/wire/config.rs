//! Options of a wire, with their units and limits.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// Direction of a packet over a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From namespace `a` to namespace `b`.
    AToB,
    /// From namespace `b` to namespace `a`.
    BToA,
}

impl Direction {
    /// Both directions, in the order in which arrays of two are kept.
    pub const BOTH: [Direction; 2] = [Direction::AToB, Direction::BToA];

    /// Returns the position of the direction in pairs.
    pub(crate) fn index(self) -> usize {
        match self {
            Direction::AToB => 0,
            Direction::BToA => 1,
        }
    }
}

/// A stretch of time in which packets are lost more often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossWindow {
    /// Start, in microseconds after the first packet that the wire saw.
    pub after_us: u64,
    /// Length in microseconds.
    pub for_us: u64,
    /// Repeats every so many microseconds; 0 for a single window.
    pub every_us: u64,
    /// Share of packets lost inside it, in parts per million; 1,000,000 loses them all.
    pub loss_ppm: u32,
}

/// An interval in which the path stalls: what enters then arrives after it, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldWindow {
    /// Start, in microseconds after the first packet that the wire saw.
    pub after_us: u64,
    /// Length in microseconds.
    pub for_us: u64,
    /// Repeats every so many microseconds; 0 for a single window.
    pub every_us: u64,
}

impl HoldWindow {
    /// Returns how long the window still lasts at this age of the wire, µs; 0 outside of it.
    pub(crate) fn rest_us(&self, since_first_us: u64) -> u64 {
        let Some(age_us) = since_first_us.checked_sub(self.after_us) else {
            return 0;
        };
        let phase_us = age_us.checked_rem(self.every_us).unwrap_or(age_us);
        self.for_us.saturating_sub(phase_us)
    }
}

/// Losses in a row: a model of two states; one of them loses everything (Gilbert, 1960).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstLoss {
    /// Chance of each packet to be the first of a burst, in parts per million.
    pub begin_ppm: u32,
    /// Mean length of a burst in packets.
    pub packets: u32,
}

/// Change that a middlebox makes to the window scale option of a SYN segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowScale {
    /// Overwrites the option, so that the receiver believes that the sender has none.
    Remove,
    /// Lowers the shift by this, at most to 0, so that the receiver believes in smaller windows
    /// than are announced.
    Lower(u8),
}

impl FromStr for WindowScale {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match (word, word.parse()) {
            ("remove", _) => Ok(WindowScale::Remove),
            (_, Ok(by)) => Ok(WindowScale::Lower(by)),
            _ => Err("give `remove`, or by how much to lower the shift".to_owned()),
        }
    }
}

/// Delays, losses and changes of the packets of one direction. The default changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectionConfig {
    /// Propagation delay in microseconds.
    pub delay_us: u64,
    /// Extra delay, uniform between 0 and this, in microseconds.
    pub jitter_us: u64,
    /// Lets jitter change the order of packets. Otherwise a packet waits for the one
    /// before it.
    pub jitter_reorders: bool,
    /// Share of packets lost at random, in parts per million. The n-th packet of a
    /// direction meets the n-th number of the seed, whatever the timing.
    pub loss_ppm: u32,
    /// Stretches of time with another loss.
    pub windows: Vec<LossWindow>,
    /// Stretches of time in which nothing arrives, and nothing is lost.
    pub holds: Vec<HoldWindow>,
    /// Losses in a row. The n-th packet of a direction meets the n-th number of the seed.
    pub bursts: Option<BurstLoss>,
    /// Data segments to lose, counted from 0 over the TCP segments with payload that
    /// this direction saw, retransmissions included.
    pub lose_data: Vec<Range<u64>>,
    /// Loses every packet while true.
    pub blackhole: bool,
    /// Loses larger packets, and informs nobody; `None` loses none for their size.
    pub mtu_bytes: Option<u32>,
    /// Rate in bits per second of IP packets; `None` for no limit.
    pub rate_bps: Option<u64>,
    /// Bytes that may wait for the rate limit; a packet that does not fit is dropped.
    pub queue_bytes: u64,
    /// The change of the window scale option of SYN segments; `None` leaves it.
    pub window_scale: Option<WindowScale>,
}

impl Default for DirectionConfig {
    fn default() -> Self {
        DirectionConfig {
            delay_us: 0,
            jitter_us: 0,
            jitter_reorders: false,
            loss_ppm: 0,
            windows: Vec::new(),
            holds: Vec::new(),
            bursts: None,
            lose_data: Vec::new(),
            blackhole: false,
            mtu_bytes: None,
            rate_bps: None,
            queue_bytes: 1 << 20,
            window_scale: None,
        }
    }
}

impl DirectionConfig {
    /// Returns a direction that only delays.
    pub fn delay(delay_us: u64) -> Self {
        DirectionConfig {
            delay_us,
            ..Self::default()
        }
    }

    /// Refuses values that the wire cannot have.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        const LONGEST_US: u64 = 10_000_000;
        let refuse = |option, value: u64, why, hint| {
            Err(LabError::Option {
                option,
                value: value.to_string(),
                why,
                hint,
            })
        };
        if self.delay_us.saturating_add(self.jitter_us) > LONGEST_US {
            let sum = self.delay_us.saturating_add(self.jitter_us);
            return refuse("delay_us + jitter_us", sum, "over 10 s", "use microseconds");
        }
        let ppm = self
            .windows
            .iter()
            .map(|window| window.loss_ppm)
            .chain(self.bursts.map(|bursts| bursts.begin_ppm))
            .chain([self.loss_ppm]);
        if let Some(ppm) = ppm.max().filter(|ppm| *ppm > 1_000_000) {
            return refuse("loss_ppm", ppm.into(), "over 1,000,000", "1 % is 10,000");
        }
        if self.rate_bps.is_some_and(|rate| rate < 1_000) {
            let rate = self.rate_bps.unwrap_or(0);
            return refuse("rate_bps", rate, "under 1,000", "give bits per second");
        }
        Ok(())
    }
}

/// A wire between two namespaces.
#[derive(Debug, Clone)]
pub struct WireConfig {
    /// Impairments of packets from `a` to `b`.
    pub a_to_b: DirectionConfig,
    /// Impairments of packets from `b` to `a`.
    pub b_to_a: DirectionConfig,
    /// Seed of loss and jitter; the directions draw from separate sequences of it.
    pub seed: u64,
    /// MTU of both devices in bytes.
    pub mtu: u32,
    /// Name of the TUN device in both namespaces.
    pub device: String,
    /// Address of `a`; `b` has the next one. The two share a /30.
    pub address_a: Ipv4Addr,
    /// IPv6 address of `a`; `b` has the next one. `None` switches IPv6 off on the
    /// devices, so that only the programs' own packets are seen.
    pub address6_a: Option<Ipv6Addr>,
    /// Congestion control of all routes in both namespaces; `None` keeps the kernel's.
    pub congctl: Option<String>,
    /// Packets that the log may hold; 0 keeps no log. Those beyond are counted.
    pub log_packets: usize,
}

impl Default for WireConfig {
    fn default() -> Self {
        WireConfig {
            a_to_b: DirectionConfig::default(),
            b_to_a: DirectionConfig::default(),
            seed: 1,
            mtu: 1500,
            device: "wire0".into(),
            address_a: Ipv4Addr::new(10, 77, 0, 1),
            address6_a: None,
            congctl: None,
            log_packets: 1 << 20,
        }
    }
}

impl WireConfig {
    /// Makes a wire with the same delay, rate and losses in both directions.
    pub fn both(direction: DirectionConfig) -> Self {
        WireConfig {
            a_to_b: direction.clone(),
            b_to_a: direction,
            ..Self::default()
        }
    }

    /// Returns the address of `b`.
    pub fn address_b(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.address_a).wrapping_add(1))
    }

    /// Returns the IPv6 address of `b`, if the wire carries IPv6.
    pub fn address6_b(&self) -> Option<Ipv6Addr> {
        self.address6_a
            .map(|address| Ipv6Addr::from(u128::from(address).wrapping_add(1)))
    }

    /// Refuses values that the wire cannot have.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        self.a_to_b.check()?;
        self.b_to_a.check()?;
        if !(576..=65_535).contains(&self.mtu) {
            return Err(LabError::Option {
                option: "mtu",
                value: self.mtu.to_string(),
                why: "outside 576 to 65535",
                hint: "1500 is Ethernet's",
            });
        }
        Ok(())
    }
}
