//! Decides when windows begin and end. In: at each look, the CPU time that the recorded processes used since the last one, and
//! what hooks cost them. Out: whether to begin or to end a window.
//!
//! It keeps a balance. CPU time raises it, by the budget's share; cost lowers it. A window ends when nothing is left.
//! The next one starts at a random time after a part is there again. What is not spent is kept for a second: so a load
//! that falls leaves nothing that its windows could waste.

use std::collections::VecDeque;

use probe::tcp_stats::Random;

/// So much CPU time of the recorded processes counts for what is kept.
const KEPT_NS: u64 = 1_000_000_000;

/// Of these, at least so much counts: a process that is idle pays nothing, and need not be left unseen for it.
const LEAST_CPU_NS: u64 = KEPT_NS / 100;

/// Mean time from where there is enough to the start of a window.
const MEAN_DELAY_NS: u64 = 200_000_000;

/// The part of what may be kept that is enough for a window.
const ENOUGH: f64 = 0.5;

/// Use and cost since the last look.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spending {
    /// CPU time of the recorded processes, ns.
    pub(super) cpu_ns: u64,
    /// Time of hooks, ns.
    pub(super) cost_ns: u64,
}

/// A change that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowChange {
    Begin,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowState {
    Open,
    /// The next one begins then; `None`: there is not enough yet.
    Closed(Option<u64>),
}

/// Decides; see the head of this file.
#[derive(Debug)]
pub(super) struct Controller {
    share: f64,
    random: Random,
    /// Left to spend, ns; negative: more was spent.
    balance_ns: f64,
    /// Looks of the last [`KEPT_NS`], and the CPU time of each.
    looks: VecDeque<(u64, u64)>,
    /// Sum of these.
    cpu_ns: u64,
    state: WindowState,
}

impl Controller {
    /// Starts with an open window, and what one busy CPU earns in [`KEPT_NS`], so that a short recording is whole.
    pub(super) fn new(share: f64, seed: u64, now_ns: u64) -> Self {
        Self {
            share,
            random: Random::new(seed),
            balance_ns: share * KEPT_NS as f64,
            looks: VecDeque::from([(now_ns, KEPT_NS)]),
            cpu_ns: KEPT_NS,
            state: WindowState::Open,
        }
    }

    /// Checks the cost, and returns the change of the window that is due.
    pub(super) fn look(&mut self, now_ns: u64, spent: Spending) -> Option<WindowChange> {
        self.note(now_ns, spent.cpu_ns);
        let most_ns = self.share * self.cpu_ns.max(LEAST_CPU_NS) as f64;
        let balance_ns = self.balance_ns + self.share * spent.cpu_ns as f64 - spent.cost_ns as f64;
        self.balance_ns = balance_ns.min(most_ns);
        let has_any = self.balance_ns > 0.0;
        match self.state {
            WindowState::Open if !has_any => {
                self.state = WindowState::Closed(None);
                Some(WindowChange::End)
            }
            WindowState::Closed(Some(begins_ns)) if has_any && now_ns >= begins_ns => {
                self.state = WindowState::Open;
                Some(WindowChange::Begin)
            }
            WindowState::Closed(None) if self.balance_ns >= ENOUGH * most_ns => {
                let delay_ns = self.random.interval_ns(MEAN_DELAY_NS);
                self.state = WindowState::Closed(Some(now_ns.saturating_add(delay_ns)));
                None
            }
            _ => None,
        }
    }

    /// Notes that the open window has ended by itself.
    pub(super) fn end(&mut self) {
        self.state = WindowState::Closed(None);
    }

    /// Adds CPU time that hooks cost, and forgets what is older than the budget's interval.
    fn note(&mut self, now_ns: u64, cpu_ns: u64) {
        self.looks.push_back((now_ns, cpu_ns));
        self.cpu_ns = self.cpu_ns.saturating_add(cpu_ns);
        while let Some((at_ns, cpu_ns)) = self.looks.front().copied()
            && at_ns.saturating_add(KEPT_NS) <= now_ns
        {
            self.looks.pop_front();
            self.cpu_ns = self.cpu_ns.saturating_sub(cpu_ns);
        }
    }
}

#[cfg(test)]
mod tests;
