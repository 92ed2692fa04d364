//! ACKs between the capture and the sender that they are for.

use std::collections::VecDeque;

use super::ledger::ArrivedAck;
use super::round_trip::{SideTrip, is_after};

/// The round trip to an end is no longer than what its kernel takes to answer: the capture was made there.
const NEAR_NS: u64 = 1_000_000;

/// ACKs on their way to an end: of more, the first arrive early.
const ACKS_MOST: usize = 4_096;

/// An ACK on its way.
#[derive(Debug, Clone, Copy)]
struct PendingAck {
    /// It arrives then, as the least round trip says.
    arrives_ns: u64,
    /// It has arrived by then.
    latest_ns: u64,
    /// Its timestamp.
    stamp: Option<u32>,
    ack: ArrivedAck,
}

/// ACKs on their way to an end, in order.
#[derive(Debug, Clone, Default)]
pub struct PendingAcks(VecDeque<PendingAck>);

impl PendingAcks {
    /// Adds an ACK that passes the capture. `near`: the round trip to its receiver.
    pub fn push(&mut self, now_ns: u64, near: &SideTrip, stamp: Option<u32>, ack: ArrivedAck) {
        let travel_ns = travel_ns(near);
        let arrives_ns = now_ns.saturating_add(travel_ns);
        let before_ns = self.0.back().map_or(0, |it| it.arrives_ns);
        self.0.push_back(PendingAck {
            arrives_ns: arrives_ns.max(before_ns),
            latest_ns: arrives_ns.saturating_add(travel_ns),
            stamp,
            ack,
        });
    }

    /// Takes an ACK that arrived by now, and when. `echo`: the timestamp that the end echoes now, which is the latest that
    /// arrived (RFC 7323, 4.3).
    pub fn pop(&mut self, now_ns: u64, echo: Option<u32>) -> Option<(u64, ArrivedAck)> {
        let is_full = self.0.len() > ACKS_MOST;
        let first = self.0.front().copied()?;
        let has_arrived = match echo.zip(first.stamp) {
            Some((echo, stamp)) if is_after(echo, stamp) => true,
            Some((echo, stamp)) if is_after(stamp, echo) => first.latest_ns <= now_ns,
            _ => first.arrives_ns <= now_ns,
        };
        if !has_arrived && !is_full {
            return None;
        }
        self.0.pop_front();
        Some((first.arrives_ns.min(now_ns), first.ack))
    }
}

/// Returns the time from the capture to an end and back, ns, not above the shortest sample. The
/// least round trip is of a sample, and others may be shorter: an answer must not seem to come
/// before.
fn travel_ns(near: &SideTrip) -> u64 {
    let least_ns = near.least_ns.unwrap_or(0);
    if least_ns < NEAR_NS {
        0
    } else {
        least_ns / 4 * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Makes an ACK up to this byte.
    fn ack(end: i64) -> ArrivedAck {
        ArrivedAck {
            ack: end,
            window_bytes: None,
            has_data: false,
            is_by_timer: false,
            held_after_timeout_ns: None,
            is_duplicate: false,
            shows_arrival: false,
            echo: None,
        }
    }

    /// Makes four ACKs, 1 ms apart, with 8 ms to the sender and back.
    fn acks() -> PendingAcks {
        let mut near = SideTrip::default();
        near.add(8 * MS);
        let mut acks = PendingAcks::default();
        (1..=4u32).for_each(|at| {
            let end = i64::from(at);
            acks.push(u64::from(at) * MS, &near, Some(at), ack(end));
        });
        acks
    }

    /// Returns time in milliseconds and byte of ACKs that had arrived by now.
    fn arrived(acks: &mut PendingAcks, now_ns: u64, echo: Option<u32>) -> Vec<(u64, i64)> {
        std::iter::from_fn(|| acks.pop(now_ns, echo))
            .map(|(at_ns, ack)| (at_ns / MS, ack.ack))
            .collect()
    }

    #[test]
    fn acks_arrive_after_most_of_a_round_trip() {
        assert_eq!(arrived(&mut acks(), 8 * MS, None), [(7, 1), (8, 2)]);
    }

    #[test]
    fn echo_shows_which_ack_was_the_last_to_arrive() {
        assert_eq!(arrived(&mut acks(), 8 * MS, Some(1)), [(7, 1)]);
        let early = [(6, 1), (6, 2), (6, 3)];
        assert_eq!(arrived(&mut acks(), 6 * MS, Some(4)), early);
        // an echo that stays behind is of an end that lost a segment: its ACKs arrive all the same
        assert_eq!(arrived(&mut acks(), 14 * MS, Some(0)), [(7, 1), (8, 2)]);
    }
}
