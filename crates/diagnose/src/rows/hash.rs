//! Digests by socket cookie: a map to the position in a dense vector, so that the map stays
//! small and growth moves digests only now and then. Cookies are small consecutive numbers given
//! by the kernel, so one multiplication spreads them well; SipHash would cost more than the rest
//! of a row.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// One digest a connection.
#[derive(Debug)]
pub struct ConnectionMap<V> {
    index: HashMap<u64, u32, BuildHasherDefault<CookieHasher>>,
    digests: Vec<V>,
}

impl<V> Default for ConnectionMap<V> {
    fn default() -> Self {
        Self {
            index: HashMap::default(),
            digests: Vec::new(),
        }
    }
}

impl<V: Default> ConnectionMap<V> {
    /// Returns the position of a connection's digest; makes an empty digest for a new one.
    pub fn position(&mut self, conn: u64) -> usize {
        let next = self.digests.len();
        let position = *self.index.entry(conn).or_insert(next as u32) as usize;
        if position == next {
            self.digests.push(V::default());
        }
        position
    }

    /// The digest at a position that [`Self::position`] gave.
    pub fn at(&mut self, position: usize) -> &mut V {
        &mut self.digests[position]
    }

    /// Returns the digest of a connection; `None` without one.
    pub fn get(&self, conn: u64) -> Option<&V> {
        self.digests.get(*self.index.get(&conn)? as usize)
    }

    /// The connections with digests, in any order.
    pub fn conns(&self) -> impl Iterator<Item = u64> + '_ {
        self.index.keys().copied()
    }

    /// Returns whether no connection has a digest.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }
}

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

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let product = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }
}
