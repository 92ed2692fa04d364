//! Random numbers that a seed repeats.

/// SplitMix64 (Steele, Lea, Flood 2014): small, seedable, good enough for loss.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Begins the random numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns the next number of 64 bits.
    // Not an iterator: it never ends.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a uniform number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns an exponential number of mean 1: the pause before the next event of a Poisson
    /// process.
    pub fn exponential(&mut self) -> f64 {
        let uniform = ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -uniform.ln()
    }
}
