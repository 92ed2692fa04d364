//! The choice of windows that the flight recorder keeps, as the user gives it.

use std::str::FromStr;

const LEAST_MEMORY_BYTES: u64 = 1 << 20;
const MOST_MEMORY_BYTES: u64 = 4 << 30;

/// Chooses the messages that get windows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RetentionPolicy {
    /// Those slower than this share of the process's other messages of that direction, 0 to 1.
    pub slower_than: Option<f64>,
    /// One of so many of the others, at random.
    pub one_of: Option<u64>,
    /// Any message that took longer has everything kept that is held then, of all CPUs, ns.
    pub trigger_ns: Option<u64>,
    /// Memory that holds what all CPUs did, bytes; `None`: [`probe::activity::USUAL_CPU_BYTES`] for each.
    pub memory_bytes: Option<u64>,
}

/// The part of a request that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} says neither which slow messages, nor how many others, nor how much memory\n\
     hint: p99, sample=1000 (one of 1,000), memory=256M (1M to 4G), or several: p99,sample=1000"
)]
pub struct RetentionError(String);

impl RetentionPolicy {
    /// Returns whether the user asked to keep anything.
    pub fn is_asked(&self) -> bool {
        *self != Self::default()
    }
}

impl FromStr for RetentionPolicy {
    type Err = RetentionError;

    fn from_str(text: &str) -> Result<Self, RetentionError> {
        let mut keep = Self::default();
        for word in text.split(',') {
            let refused = || RetentionError(word.to_owned());
            if let Some(number) = word.strip_prefix("sample=") {
                let one_of = number.parse().ok().filter(|one_of| *one_of > 0);
                keep.one_of = Some(one_of.ok_or_else(refused)?);
            } else if let Some(size) = word.strip_prefix("memory=") {
                keep.memory_bytes = Some(memory_bytes(size).ok_or_else(refused)?);
            } else {
                let percent = word.strip_prefix('p').ok_or_else(refused)?;
                let percent: f64 = percent.parse().map_err(|_| refused())?;
                if !(0.0..100.0).contains(&percent) {
                    return Err(refused());
                }
                keep.slower_than = Some(percent / 100.0);
            }
        }
        Ok(keep)
    }
}

/// Reads a size such as `256M` or `1G`, between the least and the most memory.
fn memory_bytes(size: &str) -> Option<u64> {
    let (number, unit) = size.split_at_checked(size.len().checked_sub(1)?)?;
    let shift = match unit {
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    let bytes = number.checked_mul(1 << shift)?;
    (LEAST_MEMORY_BYTES..=MOST_MEMORY_BYTES)
        .contains(&bytes)
        .then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_understood_or_refused() {
        let keep: RetentionPolicy = "p99.9,sample=1000".parse().unwrap();
        let slower_than = keep.slower_than.unwrap();
        assert!((slower_than - 0.999).abs() < 1e-9 && keep.one_of == Some(1000));
        let keep: RetentionPolicy = "p50".parse().unwrap();
        assert_eq!((keep.slower_than, keep.one_of), (Some(0.5), None));
        let keep: RetentionPolicy = "memory=1G,p99".parse().unwrap();
        assert_eq!(keep.memory_bytes, Some(1 << 30));
        for text in [
            "",
            "p100",
            "p-1",
            "pNaN",
            "sample=0",
            "sample=x",
            "99",
            "p99;p98",
            "memory=",
            "memory=M",
            "memory=0M",
            "memory=5G",
            "memory=256",
            "memory=99999999999G",
            "memory=1é",
        ] {
            let error = RetentionPolicy::from_str(text).unwrap_err();
            assert!(error.to_string().contains("hint: "), "{text}");
        }
    }
}
