//! A map keyed by socket cookie. Cookies are small consecutive numbers given by the kernel, so
//! one multiplication spreads them well; SipHash would cost more than the rest of a row.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Map from socket cookie.
pub type CookieMap<V> = HashMap<u64, V, BuildHasherDefault<CookieHasher>>;

/// Multiplies by 2^64 divided by the golden ratio (Knuth, TAOCP 3, 6.4) and folds the
/// product, because the table takes its index from the low and its tag from the high bits.
#[derive(Default)]
pub struct CookieHasher(u64);

impl Hasher for CookieHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }
}
