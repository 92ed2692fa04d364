//! A digest of what a sample says, to find whether anything changed since the last one. In: a
//! polled socket. Out: 64 bits, equal when no stored field differs.
//!
//! It runs for every selected socket of every poll: eight independent lanes, each a product of
//! halves as in XXH3, which the compiler turns into vector instructions.

use super::info::TcpInfo;
use super::message::SocketView;

/// The part of `tcp_info` that ticks without anything happening: `tcpi_last_data_sent` to
/// `tcpi_last_ack_recv`, milliseconds since.
pub(super) const TICKING: std::ops::Range<usize> = 44..60;

/// Lanes of 8 bytes.
const LANES: usize = 8;
const STRIPE_LEN: usize = LANES * 8;

/// The odd constant of the golden ratio: its multiples spread evenly over 64 bits.
pub(super) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns a digest of all that a row of this socket would hold. Two samples with equal digests are
/// taken as equal: by chance 2⁻⁶⁴ of unequal pairs are.
pub(super) fn digest_sample(view: &SocketView, info: TcpInfo) -> u64 {
    let bytes = info.bytes();
    let mut lanes = [GOLDEN; LANES];
    absorb_bytes(&mut lanes, 1, bytes.get(..TICKING.start).unwrap_or(bytes));
    absorb_bytes(&mut lanes, 2, bytes.get(TICKING.end..).unwrap_or_default());
    let state = join_halves(u32::from(view.state), bytes.len() as u32);
    let mut digest = mix_halves(state, join_halves(view.rqueue, view.wqueue));
    if let Some(memory) = view.memory {
        let word = |value: Option<u32>| value.unwrap_or(0);
        let limits = join_halves(word(memory.rcvbuf_bytes()), word(memory.sndbuf_bytes()));
        let used = join_halves(word(memory.wmem_queued_bytes()), word(memory.drops()));
        digest ^= mix_halves(
            limits ^ GOLDEN.rotate_left(11),
            used ^ GOLDEN.rotate_left(37),
        );
    }
    for (lane, halves) in lanes.chunks_exact(2).enumerate() {
        let salt = GOLDEN.wrapping_mul(lane as u64 + 3);
        digest =
            digest.rotate_left(9) ^ mix_halves(halves[0] ^ salt, halves[1] ^ salt.rotate_left(32));
    }
    mix_halves(digest, GOLDEN)
}

/// Joins two halves of a number.
fn join_halves(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Returns both halves of a 64 × 64 bit product, joined by XOR.
#[inline]
fn mix_halves(first: u64, second: u64) -> u64 {
    let product = u128::from(first ^ GOLDEN) * u128::from(second ^ GOLDEN.rotate_left(32));
    (product >> 64) as u64 ^ product as u64
}

/// Takes `bytes` into the lanes; `part` distinguishes the same bytes at another place.
#[inline]
fn absorb_bytes(lanes: &mut [u64; LANES], part: u64, bytes: &[u8]) {
    let mut key = GOLDEN.wrapping_mul(part << 8);
    let mut stripes = bytes.chunks_exact(STRIPE_LEN);
    for stripe in &mut stripes {
        absorb_stripe(lanes, key, stripe);
        key = key.wrapping_add(GOLDEN);
    }
    let rest = stripes.remainder();
    if !rest.is_empty() {
        let mut stripe = [0; STRIPE_LEN];
        stripe[..rest.len()].copy_from_slice(rest);
        absorb_stripe(lanes, key ^ rest.len() as u64, &stripe);
    }
}

/// Mixes the next bytes into the digest's lanes.
#[inline]
fn absorb_stripe(lanes: &mut [u64; LANES], key: u64, stripe: &[u8]) {
    let mut words = [0; LANES];
    for (word, bytes) in words.iter_mut().zip(stripe.chunks_exact(8)) {
        let mut buffer = [0; 8];
        buffer.copy_from_slice(bytes);
        *word = u64::from_ne_bytes(buffer);
    }
    for lane in 0..LANES {
        let keyed = words[lane] ^ key.wrapping_add(GOLDEN.rotate_left(lane as u32 * 7));
        let product = (keyed & 0xffff_ffff) * (keyed >> 32);
        // The neighbour's word as it is: a product alone is blind where one half is zero.
        lanes[lane] = lanes[lane]
            .wrapping_add(product)
            .wrapping_add(words[lane ^ 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Reply, view_payload};
    use super::*;
    use proptest::prelude::*;

    fn digest_reply(reply: &Reply) -> u64 {
        let bytes = reply.bytes();
        let view = view_payload(&bytes);
        digest_sample(&view, view.info.unwrap())
    }

    #[test]
    fn stored_bytes_change_the_digest_and_timers_do_not() {
        for fill in [0, 7, 0xff] {
            let base = Reply {
                info: vec![fill; 280],
                ..Reply::default()
            };
            for at in 0..280 {
                for change in [1, 0x40, 0xff] {
                    let mut other = base.clone();
                    other.info[at] ^= change;
                    assert_eq!(
                        digest_reply(&other) == digest_reply(&base),
                        TICKING.contains(&at),
                        "byte {at}"
                    );
                }
            }
        }
    }

    #[test]
    fn fields_outside_tcp_info_change_the_digest() {
        let base = Reply::default();
        let memory = |at: usize| {
            let mut memory = base.memory.clone();
            memory[at] = 1;
            Reply {
                memory,
                ..base.clone()
            }
        };
        for other in [
            Reply {
                wqueue: 1,
                ..base.clone()
            },
            Reply {
                rqueue: 1,
                ..base.clone()
            },
            Reply {
                state: 8,
                ..base.clone()
            },
            Reply {
                info: vec![0; 276],
                ..base.clone()
            },
            memory(1),
            memory(3),
            memory(5),
            memory(8),
        ] {
            assert_ne!(digest_reply(&other), digest_reply(&base), "{other:?}");
        }
        // Memory that no row holds.
        assert_eq!(digest_reply(&memory(0)), digest_reply(&base));
    }

    #[test]
    fn order_of_parts_changes_the_digest() {
        // Words moved to another lane, stripe or part of the structure.
        let with = |at: usize| {
            let mut info = vec![0; 280];
            info[at..at + 8].copy_from_slice(&0x0123_4567_89ab_cdef_u64.to_ne_bytes());
            digest_reply(&Reply {
                info,
                ..Reply::default()
            })
        };
        let mut digests: Vec<u64> = [0, 8, 16, 60, 68, 76, 124, 132, 188, 196, 252, 268]
            .map(with)
            .to_vec();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 12);
    }

    proptest! {
        #[test]
        fn random_changes_change_the_digest(
            info in proptest::collection::vec(any::<u8>(), 280),
            changes in proptest::collection::vec((0_usize..280, 1_u8..), 1..6),
        ) {
            let base = Reply { info, ..Reply::default() };
            let mut other = base.clone();
            for (at, change) in changes {
                other.info[at] = other.info[at].wrapping_add(change);
            }
            let same = (0..280).all(|at| TICKING.contains(&at) || base.info[at] == other.info[at]);
            prop_assert_eq!(digest_reply(&other) == digest_reply(&base), same);
        }
    }
}
