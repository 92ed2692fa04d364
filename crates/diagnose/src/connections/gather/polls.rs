//! The stage that one poll of `tcp_info` shows, and its doubt.
//!
//! Polls come at random times, so the share of them that finds a socket in a state
//! is the share of time spent there. A poll that finds nothing changed is not stored: the
//! state of the stored one before it lasted until then. So each stored poll counts with the
//! time until the next, which gives the same average and needs no count of the unstored ones.

use table::tables::TcpSample;

use crate::kernel::{TCP_CA_LOSS, TCP_CA_RECOVERY};

/// State of a sending socket as far as one poll shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollClass {
    /// Nothing in the send queue.
    Idle,
    /// Recovery from a retransmission timeout.
    TimeoutRecovery,
    /// Unsent data, and the announced window is full.
    WindowFull,
    /// Unsent data, the congestion window is full, in fast recovery.
    RecoveryFull,
    /// Unsent data, the congestion window is full.
    CwndFull,
    /// Less than a segment unsent, earlier data unacknowledged, both windows open.
    ShortTail,
    /// A segment or more unsent, both windows open: pacing, a queue below TCP, …
    HeldSegments,
    /// All sent, both windows open, and the send buffer has no room for a writer.
    BufferFull,
    /// All sent and not all acknowledged: on its way, or its ACK is delayed.
    AllSent,
}

impl PollClass {
    /// Number of classes.
    pub const COUNT: usize = 9;

    /// Classifies one poll by what stopped the sender at that time.
    pub fn from_sample(sample: &TcpSample) -> Self {
        if sample.send_queue_bytes == 0 {
            return Self::Idle;
        }
        if sample.ca_state == TCP_CA_LOSS || sample.backoff > 0 {
            return Self::TimeoutRecovery;
        }
        // Kernels before 4.6 do not report unsent bytes: then only "not idle" is known.
        let notsent_bytes = sample.notsent_bytes.unwrap_or(0);
        if notsent_bytes > 0 {
            Self::from_unsent(sample, notsent_bytes)
        } else {
            Self::from_sent(sample)
        }
    }

    /// Returns the state of a socket with unsent bytes.
    fn from_unsent(sample: &TcpSample, notsent_bytes: u32) -> Self {
        if window_full(sample) {
            return Self::WindowFull;
        }
        if segments_in_flight(sample) >= sample.cwnd {
            let recovering = sample.ca_state == TCP_CA_RECOVERY;
            return if recovering {
                Self::RecoveryFull
            } else {
                Self::CwndFull
            };
        }
        if notsent_bytes < sample.mss_bytes && sample.unacked > 0 {
            Self::ShortTail
        } else {
            Self::HeldSegments
        }
    }

    /// Classifies a poll of a socket that has sent all its bytes.
    fn from_sent(sample: &TcpSample) -> Self {
        // A writer that ran out of space is woken when two thirds of the buffer or less are
        // in use (sk_stream_is_writeable): above that it may be asleep with nothing unsent.
        let full = match (sample.wmem_queued_bytes, sample.sndbuf_bytes) {
            (Some(queued), Some(limit)) if limit > 0 => {
                u64::from(queued) * 3 > u64::from(limit) * 2
            }
            _ => false,
        };
        let is_path_open = segments_in_flight(sample) < sample.cwnd && !window_full(sample);
        if full && is_path_open {
            Self::BufferFull
        } else {
            Self::AllSent
        }
    }
}

/// Segments in the network, as `tcp_packets_in_flight` counts them.
fn segments_in_flight(sample: &TcpSample) -> u32 {
    (sample.unacked + sample.retrans).saturating_sub(sample.sacked + sample.lost)
}

/// Returns whether the peer's window has no room for another full segment.
fn window_full(sample: &TcpSample) -> bool {
    let Some(window_bytes) = sample.snd_wnd_bytes else {
        return false;
    };
    let sent_bytes = sample
        .send_queue_bytes
        .saturating_sub(sample.notsent_bytes.unwrap_or(0));
    u64::from(sent_bytes) + u64::from(sample.mss_bytes) > u64::from(window_bytes)
}

/// Time that the polls stand for, by class.
#[derive(Debug, Clone, Default)]
pub struct PollWeights {
    weight_ns: [f64; PollClass::COUNT],
    /// Σ of squared weights, for the effective number of polls (Kish).
    squares: [f64; PollClass::COUNT],
}

impl PollWeights {
    /// Adds a poll that represents `length_ns`.
    pub fn add(&mut self, class: PollClass, length_ns: u64) {
        let weight = length_ns as f64;
        self.weight_ns[class as usize] += weight;
        self.squares[class as usize] += weight * weight;
    }

    /// Share of each of `classes` in their own total, and the effective number of polls.
    /// `None` when no poll fell into them.
    pub fn class_shares<const N: usize>(&self, classes: [PollClass; N]) -> Option<([f64; N], f64)> {
        let total: f64 = classes
            .iter()
            .map(|class| self.weight_ns[*class as usize])
            .sum();
        let squares: f64 = classes
            .iter()
            .map(|class| self.squares[*class as usize])
            .sum();
        if total <= 0.0 {
            return None;
        }
        let shares = classes.map(|class| self.weight_ns[class as usize] / total);
        Some((shares, total * total / squares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::gather::samples::tests::sample;

    #[test]
    fn a_poll_names_the_limit_that_it_sees() {
        let base = sample(1_000);
        assert_eq!(PollClass::from_sample(&base), PollClass::Idle);
        let sent = TcpSample {
            send_queue_bytes: 500,
            unacked: 1,
            ..base.clone()
        };
        assert_eq!(PollClass::from_sample(&sent), PollClass::AllSent);
        let tail = TcpSample {
            notsent_bytes: Some(100),
            ..sent.clone()
        };
        assert_eq!(PollClass::from_sample(&tail), PollClass::ShortTail);
        let window = TcpSample {
            snd_wnd_bytes: Some(1_000),
            ..tail.clone()
        };
        assert_eq!(PollClass::from_sample(&window), PollClass::WindowFull);
        let cwnd = TcpSample {
            unacked: 10,
            ..tail.clone()
        };
        assert_eq!(PollClass::from_sample(&cwnd), PollClass::CwndFull);
        let recovery = TcpSample {
            ca_state: TCP_CA_RECOVERY,
            ..cwnd
        };
        assert_eq!(PollClass::from_sample(&recovery), PollClass::RecoveryFull);
        let loss = TcpSample {
            ca_state: TCP_CA_LOSS,
            ..tail.clone()
        };
        assert_eq!(PollClass::from_sample(&loss), PollClass::TimeoutRecovery);
        let full = TcpSample {
            wmem_queued_bytes: Some(4_500),
            sndbuf_bytes: Some(4_608),
            ..sent
        };
        assert_eq!(PollClass::from_sample(&full), PollClass::BufferFull);
        let held = TcpSample {
            notsent_bytes: Some(9_000),
            ..tail
        };
        assert_eq!(PollClass::from_sample(&held), PollClass::HeldSegments);
    }

    #[test]
    fn time_weights_replace_missing_polls() {
        let mut weights = PollWeights::default();
        weights.add(PollClass::AllSent, 100);
        weights.add(PollClass::BufferFull, 300);
        let (shares, polls) = weights
            .class_shares([PollClass::AllSent, PollClass::BufferFull])
            .expect("two polls");
        assert_eq!(shares, [0.25, 0.75]);
        assert!(
            (polls - 1.6).abs() < 1e-12,
            "unequal weights count for less: {polls}"
        );
        assert!(weights.class_shares([PollClass::CwndFull]).is_none());
    }
}
