//! The account of what was read: every line was used, or ignored for a reason that has a name.

use std::collections::BTreeMap;
use std::fmt;

/// Counts of lines (of a binary file: records) that were read, used, and left out by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// All.
    pub read: u64,
    /// Those that spans were made from.
    pub used: u64,
    /// The others, by reason.
    pub ignored: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Counts a line that is used.
    pub(crate) fn use_one(&mut self) {
        self.read += 1;
        self.used += 1;
    }

    /// Counts a line that is not used, by its reason.
    pub(crate) fn ignore(&mut self, reason: &'static str) {
        self.read += 1;
        *self.ignored.entry(reason).or_default() += 1;
    }

    /// Moves lines from used to not used.
    pub(crate) fn withdraw(&mut self, count: u64, reason: &'static str) {
        if count > 0 {
            self.used -= count;
            *self.ignored.entry(reason).or_default() += count;
        }
    }

    /// Returns the lines that no count explains: always zero.
    pub fn residual(&self) -> i128 {
        let ignored: u64 = self.ignored.values().sum();
        i128::from(self.read) - i128::from(self.used) - i128::from(ignored)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} read, {} used", self.read, self.used)?;
        for (reason, count) in &self.ignored {
            write!(f, "; {count} {reason}")?;
        }
        Ok(())
    }
}
