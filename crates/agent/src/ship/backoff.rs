//! How long to wait after a failure: longer each time, and not for the same time as other agents, which would all come
//! back at once when their common target does.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// Waits between tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// At most.
    pub most: Duration,
}

impl Default for Backoff {
    /// Returns pauses from a second to a minute, so that a file is at most a minute late.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            most: Duration::from_secs(60),
        }
    }
}

impl Backoff {
    /// Returns the pause before the next try after so many failures in a row. It doubles each time, and is then a
    /// random part between half and all.
    pub fn pause_after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        let longest = self.first.saturating_mul(1 << doublings).min(self.most);
        let random = RandomState::new().build_hasher().finish();
        longest.mul_f64(0.5 + random as f64 / u64::MAX as f64 / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_and_varies() {
        let backoff = Backoff::default();
        for (failures, longest_s) in [(1, 1), (2, 2), (6, 32), (7, 60), (1000, 60)] {
            let longest = Duration::from_secs(longest_s);
            for _ in 0..100 {
                let wait = backoff.pause_after(failures);
                assert!(
                    wait >= longest / 2 && wait <= longest,
                    "{failures}: {wait:?}"
                );
            }
        }
        assert_ne!(backoff.pause_after(1), backoff.pause_after(1));
    }
}
