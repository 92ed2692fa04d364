//! One direction of a wire as a pure model: a packet and the time go in, its fate comes
//! out. No clock, no device, so that every rule can be tested without root.
//!
//! A packet first meets loss, then waits for the rate limit in a bounded queue, then
//! travels for the delay plus jitter.

use std::collections::VecDeque;

use super::config::{BurstLoss, DirectionConfig, LossWindow};
use super::stats::Cause;
use crate::random::Random;

const PPM: u64 = 1_000_000;
/// Bytes that may travel at once. Only an unlimited rate with a long delay comes near;
/// it keeps the process from growing without bound.
const TRAVELLING_BYTES: u64 = 256 << 20;

/// Fate of a packet: delivered at a time, or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketFate {
    /// It arrives at this time.
    Deliver { at_ns: u64 },
    /// It is dropped now.
    Drop(Cause),
}

/// The memory of one direction.
#[derive(Debug)]
pub(crate) struct PathModel {
    loss: Random,
    jitter: Random,
    bursts: Random,
    in_burst: bool,
    /// When the link has sent all that is queued.
    link_free_ns: u64,
    /// Packets that the rate limit still holds: when each leaves, and its bytes.
    queue: VecDeque<(u64, u64)>,
    queued_bytes: u64,
    last_arrival_ns: u64,
    data_segments: u64,
}

impl PathModel {
    /// Makes a path; its random losses depend on `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let mut seeds = Random::new(seed);
        PathModel {
            loss: Random::new(seeds.next()),
            jitter: Random::new(seeds.next()),
            bursts: Random::new(seeds.next()),
            in_burst: false,
            link_free_ns: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            last_arrival_ns: 0,
            data_segments: 0,
        }
    }

    /// Decides on a packet that enters at `now_ns`. `since_first_ns` is the age of the
    /// wire's first packet, `travelling_bytes` what this direction holds already.
    pub(crate) fn admit(
        &mut self,
        config: &DirectionConfig,
        packet: PacketSizes,
        now_ns: u64,
        since_first_ns: u64,
        travelling_bytes: u64,
    ) -> PacketFate {
        // Drawn for every packet, dropped or not: the n-th packet always meets the n-th
        // number.
        let loss_draw = self.loss.below(PPM);
        let jitter_ns = self.jitter.below(config.jitter_us * 1000 + 1);
        self.step_burst(config.bursts);
        let data_index = self.data_segments;
        self.data_segments += u64::from(packet.payload_bytes > 0);

        if config.blackhole {
            return PacketFate::Drop(Cause::Blackhole);
        }
        if config
            .mtu_bytes
            .is_some_and(|most| packet.packet_bytes > most)
        {
            return PacketFate::Drop(Cause::TooLarge);
        }
        if packet.payload_bytes > 0 && config.lose_data.iter().any(|r| r.contains(&data_index)) {
            return PacketFate::Drop(Cause::Chosen);
        }
        if self.in_burst {
            return PacketFate::Drop(Cause::Burst);
        }
        if loss_draw < u64::from(config.loss_ppm) {
            return PacketFate::Drop(Cause::Random);
        }
        if loss_draw < u64::from(window_loss_ppm(&config.windows, since_first_ns / 1000)) {
            return PacketFate::Drop(Cause::Window);
        }
        let bytes = u64::from(packet.packet_bytes);
        let Some(leaves_ns) = self.enqueue_packet(config, bytes, now_ns, travelling_bytes) else {
            return PacketFate::Drop(Cause::Queue);
        };
        let held_us = config
            .holds
            .iter()
            .map(|hold| hold.rest_us(since_first_ns / 1000));
        let held_until_ns = now_ns + held_us.max().unwrap_or(0) * 1000;
        let mut at_ns = leaves_ns.max(held_until_ns) + config.delay_us * 1000 + jitter_ns;
        if !config.jitter_reorders {
            at_ns = at_ns.max(self.last_arrival_ns);
        }
        self.last_arrival_ns = at_ns;
        PacketFate::Deliver { at_ns }
    }

    /// Begins, continues or ends a burst of losses with the next packet.
    fn step_burst(&mut self, bursts: Option<BurstLoss>) {
        let draw = self.bursts.below(PPM);
        let Some(bursts) = bursts else {
            self.in_burst = false;
            return;
        };
        self.in_burst = if self.in_burst {
            draw >= PPM / u64::from(bursts.packets.max(1))
        } else {
            draw < u64::from(bursts.begin_ppm)
        };
    }

    /// Returns when the last bit of the packet leaves the link; `None` if the queue is full.
    fn enqueue_packet(
        &mut self,
        config: &DirectionConfig,
        bytes: u64,
        now_ns: u64,
        travelling_bytes: u64,
    ) -> Option<u64> {
        if travelling_bytes + bytes > TRAVELLING_BYTES {
            return None;
        }
        let Some(rate_bps) = config.rate_bps else {
            return Some(now_ns);
        };
        while self
            .queue
            .front()
            .is_some_and(|(leaves_ns, _)| *leaves_ns <= now_ns)
        {
            self.queued_bytes -= self.queue.pop_front().map_or(0, |(_, bytes)| bytes);
        }
        if self.queued_bytes + bytes > config.queue_bytes && !self.queue.is_empty() {
            return None;
        }
        let takes_ns = bytes * 8 * 1_000_000_000 / rate_bps;
        self.link_free_ns = self.link_free_ns.max(now_ns) + takes_ns;
        self.queue.push_back((self.link_free_ns, bytes));
        self.queued_bytes += bytes;
        Some(self.link_free_ns)
    }
}

/// The sizes of a packet that decide its fate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketSizes {
    /// IP packet length.
    pub(crate) packet_bytes: u32,
    /// TCP payload length; 0 for pure ACKs and for what is not TCP.
    pub(crate) payload_bytes: u32,
}

/// Returns the loss at a time, in packets of a million.
fn window_loss_ppm(windows: &[LossWindow], since_first_us: u64) -> u32 {
    let open = |window: &&LossWindow| {
        let Some(age_us) = since_first_us.checked_sub(window.after_us) else {
            return false;
        };
        let phase_us = age_us.checked_rem(window.every_us).unwrap_or(age_us);
        phase_us < window.for_us
    };
    windows
        .iter()
        .filter(open)
        .map(|window| window.loss_ppm)
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::config::HoldWindow;
    use super::*;

    const DATA: PacketSizes = PacketSizes {
        packet_bytes: 1000,
        payload_bytes: 948,
    };

    /// Returns which of 10,007 packets a path with 1 % loss drops.
    fn lost(seed: u64, spacing_ns: u64) -> Vec<u64> {
        let config = DirectionConfig {
            loss_ppm: 10_000,
            ..DirectionConfig::default()
        };
        let mut path = PathModel::new(seed);
        (0..10_007)
            .filter(|n| {
                path.admit(&config, DATA, n * spacing_ns, 0, 0) == PacketFate::Drop(Cause::Random)
            })
            .collect()
    }

    #[test]
    fn loss_depends_on_seed_and_index_only() {
        let first = lost(7, 1_000);
        assert_eq!(first, lost(7, 999_999));
        assert_ne!(first, lost(8, 1_000));
        // 1 % of 10,007; five standard deviations are 50.
        assert!((50..=150).contains(&first.len()), "lost {}", first.len());
    }

    #[test]
    fn bursts_have_the_rate_and_length_of_the_options() {
        let config = DirectionConfig {
            bursts: Some(BurstLoss {
                begin_ppm: 2_000,
                packets: 5,
            }),
            ..DirectionConfig::default()
        };
        let mut path = PathModel::new(7);
        let lost: Vec<bool> = (0..100_003)
            .map(|n| path.admit(&config, DATA, n, 0, 0) == PacketFate::Drop(Cause::Burst))
            .collect();
        let bursts = lost.windows(2).filter(|two| !two[0] && two[1]).count();
        let packets = lost.iter().filter(|lost| **lost).count();
        // 198 of 5 packets; five standard deviations are 70, and a third of the length.
        assert!((128..=268).contains(&bursts), "{bursts} bursts");
        let mean = packets as f64 / bursts as f64;
        assert!((3.4..=6.6).contains(&mean), "mean length {mean}");
    }

    #[test]
    fn rate_spaces_packets_and_bounds_the_queue() {
        let config = DirectionConfig {
            rate_bps: Some(8_000_000),
            queue_bytes: 3_000,
            delay_us: 5,
            ..DirectionConfig::default()
        };
        let mut path = PathModel::new(1);
        let mut admit = |now_ns| path.admit(&config, DATA, now_ns, 0, 0);
        // 1000 bytes at 8 Mbit/s take 1 ms.
        assert_eq!(admit(0), PacketFate::Deliver { at_ns: 1_005_000 });
        assert_eq!(admit(0), PacketFate::Deliver { at_ns: 2_005_000 });
        assert_eq!(admit(0), PacketFate::Deliver { at_ns: 3_005_000 });
        assert_eq!(admit(0), PacketFate::Drop(Cause::Queue));
        assert_eq!(admit(1_000_000), PacketFate::Deliver { at_ns: 4_005_000 });
        assert_eq!(admit(9_000_000), PacketFate::Deliver { at_ns: 10_005_000 });
    }

    #[test]
    fn a_packet_larger_than_the_queue_passes_an_idle_link() {
        let config = DirectionConfig {
            rate_bps: Some(8_000_000),
            queue_bytes: 10,
            ..DirectionConfig::default()
        };
        let mut path = PathModel::new(1);
        assert_eq!(
            path.admit(&config, DATA, 0, 0, 0),
            PacketFate::Deliver { at_ns: 1_000_000 }
        );
        assert_eq!(
            path.admit(&config, DATA, 0, 0, 0),
            PacketFate::Drop(Cause::Queue)
        );
    }

    #[test]
    fn jitter_keeps_order_by_default() {
        let mut config = DirectionConfig {
            delay_us: 100,
            jitter_us: 50,
            ..DirectionConfig::default()
        };
        let arrivals = |config: &DirectionConfig| -> Vec<u64> {
            let mut path = PathModel::new(3);
            let fates = (0..101).map(|n| path.admit(config, DATA, n * 1_000, 0, 0));
            fates
                .filter_map(|fate| match fate {
                    PacketFate::Deliver { at_ns } => Some(at_ns),
                    PacketFate::Drop(_) => None,
                })
                .collect()
        };
        let ordered = arrivals(&config);
        assert_eq!(ordered.len(), 101);
        assert!(ordered.is_sorted());
        config.jitter_reorders = true;
        let free = arrivals(&config);
        assert!(!free.is_sorted());
        for (n, at_ns) in free.iter().enumerate() {
            let sent_ns = n as u64 * 1_000;
            assert!((sent_ns + 100_000..=sent_ns + 150_000).contains(at_ns));
        }
    }

    #[test]
    fn windows_open_and_close_on_schedule() {
        let window = LossWindow {
            after_us: 100,
            for_us: 10,
            every_us: 50,
            loss_ppm: 1_000_000,
        };
        let open = |us| window_loss_ppm(std::slice::from_ref(&window), us) > 0;
        let at: Vec<u64> = [0, 99, 100, 109, 110, 149, 150, 159, 160]
            .into_iter()
            .filter(|us| open(*us))
            .collect();
        assert_eq!(at, [100, 109, 150, 159]);
        let once = LossWindow {
            every_us: 0,
            ..window.clone()
        };
        assert_eq!(window_loss_ppm(std::slice::from_ref(&once), 150), 0);
    }

    #[test]
    fn stalled_path_loses_nothing() {
        let config = DirectionConfig {
            delay_us: 10,
            holds: vec![HoldWindow {
                after_us: 100,
                for_us: 50,
                every_us: 1_000,
            }],
            ..DirectionConfig::default()
        };
        let mut path = PathModel::new(1);
        let mut arrives_us = |us: u64| match path.admit(&config, DATA, us * 1_000, us * 1_000, 0) {
            PacketFate::Deliver { at_ns } => at_ns / 1_000,
            PacketFate::Drop(cause) => panic!("lost by {cause:?}"),
        };
        assert_eq!(arrives_us(99), 109);
        assert_eq!(arrives_us(100), 160);
        assert_eq!(arrives_us(149), 160);
        assert_eq!(arrives_us(151), 161);
        assert_eq!(arrives_us(1_120), 1_160);
    }

    #[test]
    fn chosen_data_segments_are_lost_and_pure_acks_not_counted() {
        let config = DirectionConfig {
            lose_data: vec![1..2, 2..3],
            ..DirectionConfig::default()
        };
        let mut path = PathModel::new(1);
        let ack = PacketSizes {
            packet_bytes: 52,
            payload_bytes: 0,
        };
        let fates: Vec<bool> = [DATA, ack, DATA, ack, DATA, DATA]
            .into_iter()
            .map(|packet| path.admit(&config, packet, 0, 0, 0) == PacketFate::Drop(Cause::Chosen))
            .collect();
        assert_eq!(fates, [false, false, true, false, true, false]);
    }

    #[test]
    fn packets_above_the_mtu_are_lost() {
        let config = DirectionConfig {
            mtu_bytes: Some(DATA.packet_bytes),
            ..DirectionConfig::default()
        };
        let mut path = PathModel::new(1);
        let mut fate = |packet_bytes| {
            let packet = PacketSizes {
                packet_bytes,
                ..DATA
            };
            path.admit(&config, packet, 0, 0, 0)
        };
        assert_eq!(fate(DATA.packet_bytes), PacketFate::Deliver { at_ns: 0 });
        assert_eq!(
            fate(DATA.packet_bytes + 1),
            PacketFate::Drop(Cause::TooLarge)
        );
    }
}
