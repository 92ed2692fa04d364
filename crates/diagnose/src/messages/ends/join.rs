//! Messages that one end sent and the other received, joined by the range of the stream.

/// A sent message: times of the sender's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentTimes {
    pub(super) offset_end: u64,
    pub(super) bytes: u32,
    pub(super) call_ns: Option<u64>,
    pub(super) driver_ns: Option<u64>,
}

/// A received message: times of the receiver's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedTimes {
    pub(super) offset_end: u64,
    pub(super) bytes: u32,
    pub(super) arrived_ns: Option<u64>,
    /// When the thread could read it: it was handed over, and the thread that waited ran.
    pub(super) readable_ns: Option<u64>,
    pub(super) done_ns: u64,
    /// Its arrival is that of each of its bytes.
    pub(super) at_once: bool,
}

/// A message that is known at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crossing {
    pub(super) offset_end: u64,
    pub(super) bytes: u32,
    pub(super) call_ns: u64,
    pub(super) driver_ns: u64,
    pub(super) arrived_ns: u64,
    pub(super) readable_ns: u64,
    pub(super) done_ns: u64,
}

/// The messages that one end sent, by outcome.
#[derive(Debug, Default)]
pub(super) struct JoinResult {
    pub(super) crossings: Vec<Crossing>,
    /// A later part of a receive call came after their last byte: when that arrived is not known.
    pub(super) shared: u64,
    /// No receive call took their last byte, or a time was not seen at one of the ends.
    pub(super) unmatched: u64,
}

/// Joins sent and received messages; both are in order of `offset_end`.
pub(super) fn join(sent: &[SentTimes], received: &[ReceivedTimes]) -> JoinResult {
    let mut joined = JoinResult::default();
    let mut rest = received;
    for message in sent {
        let end = message.offset_end;
        let before = rest.partition_point(|it| it.offset_end < end);
        rest = &rest[before..];
        let first = rest.first();
        let taken = first.filter(|it| it.offset_end - u64::from(it.bytes) < end);
        match taken {
            Some(taken) if taken.offset_end != end && !taken.at_once => joined.shared += 1,
            Some(taken) => match find_crossing(message, taken) {
                Some(crossing) => joined.crossings.push(crossing),
                None => joined.unmatched += 1,
            },
            None => joined.unmatched += 1,
        }
    }
    joined
}

/// Joins a message's times at both ends; None if a needed timestamp is missing.
fn find_crossing(sent: &SentTimes, received: &ReceivedTimes) -> Option<Crossing> {
    Some(Crossing {
        offset_end: sent.offset_end,
        bytes: sent.bytes,
        call_ns: sent.call_ns?,
        driver_ns: sent.driver_ns?,
        arrived_ns: received.arrived_ns?,
        readable_ns: received.readable_ns?,
        done_ns: received.done_ns,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Makes a sent message with all its timestamps.
    fn sent(offset_end: u64, bytes: u32) -> SentTimes {
        SentTimes {
            offset_end,
            bytes,
            call_ns: Some(1),
            driver_ns: Some(2),
        }
    }

    /// Makes a received message with all its timestamps.
    fn received(offset_end: u64, bytes: u32) -> ReceivedTimes {
        ReceivedTimes {
            offset_end,
            bytes,
            arrived_ns: Some(3),
            readable_ns: Some(4),
            done_ns: 5,
            at_once: false,
        }
    }

    #[test]
    fn message_ends_with_the_call_that_took_its_last_byte() {
        let sent = [
            sent(100, 100),
            sent(150, 50),
            sent(400, 250),
            sent(500, 100),
        ];
        let taken = [
            received(60, 60),
            received(100, 40),
            received(300, 200),
            received(400, 100),
        ];
        let joined = join(&sent, &taken);
        let ends: Vec<u64> = joined.crossings.iter().map(|it| it.offset_end).collect();
        assert_eq!(
            (ends, joined.shared, joined.unmatched),
            (vec![100, 400], 1, 1)
        );
    }

    /// Returns end offset and size of consecutive messages of these sizes.
    fn cut(sizes: &[u32]) -> Vec<(u64, u32)> {
        let ends = sizes.iter().scan(0, |end, bytes| {
            *end += u64::from(*bytes);
            Some(*end)
        });
        ends.zip(sizes.iter().copied()).collect()
    }

    proptest! {
        /// Against the plain definition, for every way to cut a stream.
        #[test]
        fn every_message_is_counted_once(
            given in prop::collection::vec(1_u32..50, 0..40),
            taken in prop::collection::vec(1_u32..50, 0..40),
        ) {
            let (given, taken) = (cut(&given), cut(&taken));
            let sent: Vec<SentTimes> = given.iter().map(|it| sent(it.0, it.1)).collect();
            let received: Vec<ReceivedTimes> = taken.iter().map(|it| received(it.0, it.1)).collect();
            let joined = join(&sent, &received);
            let ends = given.iter().filter(|it| taken.iter().any(|other| other.0 == it.0)).count();
            let beyond = taken.last().map_or(0, |it| it.0);
            let unmatched = given.iter().filter(|it| it.0 > beyond).count();
            prop_assert_eq!(joined.crossings.len(), ends);
            prop_assert_eq!(joined.unmatched as usize, unmatched);
            prop_assert_eq!(joined.shared as usize, given.len() - ends - unmatched);
        }
    }
}
