//! `--budget`: what hooks cost the recorded processes stays within a share of their CPU time. Calls and waits are recorded in
//! windows; between them each hook leaves after one load.
//!
//! ```text
//! controller  what was used and spent → when windows begin and end
//! cpu_use     CPU time of the recorded processes
//! hook_cost   what a run of a hook costs on this machine, and how many there were
//! keeper      opens and closes windows, and makes the rows of table `windows`
//! ```

mod controller;
mod cpu_use;
mod hook_cost;
mod keeper;

use std::fmt::{self, Display};
use std::str::FromStr;

pub(crate) use hook_cost::HookTimer;
pub(crate) use keeper::WindowKeeper;

/// A share of the CPU time of the recorded processes that hooks may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    percent: f64,
}

impl Budget {
    /// Returns the budget as a share of CPU time, from 0 to 1.
    fn share(self) -> f64 {
        self.percent / 100.0
    }
}

/// Why a text is no budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a share of CPU time\nhint: 5% (0.1% to 100%), or none")]
pub struct BudgetError;

impl FromStr for Budget {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let number = text.trim().strip_suffix('%').ok_or(BudgetError)?;
        let percent: f64 = number.trim_end().parse().map_err(|_| BudgetError)?;
        let is_share = (0.1..=100.0).contains(&percent);
        is_share.then_some(Self { percent }).ok_or(BudgetError)
    }
}

impl Display for Budget {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}%", self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_a_share_in_percent() {
        for (text, percent) in [("5%", 5.0), (" 0.5 % ", 0.5), ("100%", 100.0)] {
            assert_eq!(text.parse(), Ok(Budget { percent }), "{text}");
        }
        for text in ["5", "%", "0%", "101%", "-1%", "NaN%", "inf%", ""] {
            assert_eq!(text.parse::<Budget>(), Err(BudgetError), "{text}");
        }
    }
}
