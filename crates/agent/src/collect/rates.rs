//! How often each connection is read, so that the agent keeps to its share of a CPU (SNAP, section 7): above
//! it, the connections with the least problems are read more seldom; below, those with the most more often.
//! In: what the agent used, and who had problems. Out: the mean time between walks, and levels of connections.
//!
//! A connection's mean time between readings is the configured one times two to the power of its *exponent*.
//! Those without problems are equally good, and share one. Walks come as often as the most often read
//! connection needs them, and the others are left out of some.

use std::collections::{HashMap, HashSet};

use probe::hooks::WALK_LEVEL_MOST;
use table::fleet::BIN_NS;

/// Time over which problems count (SNAP's T_history), and between two decisions a tenth of it.
const HISTORY_NS: u64 = 60_000_000_000;

/// Time between two decisions.
pub(super) const DECIDE_EVERY_NS: u64 = HISTORY_NS / 10;

/// Connections with problems are read at most four times as often as configured.
const OFTENEST: i8 = -2;

/// The longest time between polls that SNAP measured (figure 8).
const SLOWEST_NS: u64 = 10_000_000_000;

/// Limits of the cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// Configured mean time between two readings.
    pub(super) mean_ns: u64,
    /// Below this share of one CPU there is room.
    pub(super) cpu_low: f64,
    /// Above it there is too much.
    pub(super) cpu_high: f64,
}

/// A change of one connection's level; `None`: the default one.
pub(super) type Change = (u64, Option<u8>);

/// The rates of all connections.
#[derive(Debug)]
pub(super) struct Rates {
    budget: Budget,
    /// The kernel can hold levels of so many connections.
    most_levels: usize,
    /// Exponent of connections without problems.
    healthy: i8,
    /// Exponents of those that had one.
    boosted: HashMap<u64, i8>,
    /// Time with problems in the last minutes.
    recent: HashMap<u64, RecentProblems>,
    /// The levels that the kernel has.
    kernel_levels: HashMap<u64, u8>,
}

#[derive(Debug, Clone, Copy, Default)]
struct RecentProblems {
    problem_ns: u64,
    last_ns: u64,
}

impl Rates {
    /// Begins with the same interval for all connections.
    pub(super) fn new(budget: Budget, most_levels: usize) -> Self {
        Self {
            budget,
            most_levels,
            healthy: 0,
            boosted: HashMap::new(),
            recent: HashMap::new(),
            kernel_levels: HashMap::new(),
        }
    }

    /// Sets another CPU budget, and limits all intervals to it.
    pub(super) fn set_budget(&mut self, budget: Budget) {
        self.budget = budget;
        let slowest = self.slowest_boosted();
        let exponents = self.boosted.values_mut();
        exponents.for_each(|exponent| *exponent = slowest.min(*exponent));
        // after those, which say how often walks come
        self.healthy = self.healthy.min(self.slowest_healthy());
    }

    /// Notes that a connection had a problem for `problem_ns`, until `now_ns`.
    pub(super) fn note(&mut self, cookie: u64, problem_ns: u64, now_ns: u64) {
        let recent = self.recent.entry(cookie).or_default();
        recent.problem_ns += problem_ns;
        recent.last_ns = now_ns;
    }

    /// Forgets connections that have closed.
    pub(super) fn forget(&mut self, cookie: u64) {
        self.recent.remove(&cookie);
        self.boosted.remove(&cookie);
    }

    /// Returns the mean time between two walks.
    pub(super) fn walk_mean_ns(&self) -> u64 {
        scaled_ns(self.budget.mean_ns, self.walk())
    }

    /// Returns the mean time between two readings of a connection without problems.
    #[cfg(test)]
    fn healthy_mean_ns(&self) -> u64 {
        scaled_ns(self.budget.mean_ns, self.healthy)
    }

    /// Returns the level of connections without a separate level.
    pub(super) fn default_level(&self) -> u8 {
        self.level(self.healthy)
    }

    /// Returns whether some connections have levels of their own.
    pub(super) fn has_levels(&self) -> bool {
        !self.kernel_levels.is_empty()
    }

    /// Goes one step up or down, after this share of one CPU was used since the last step. Returns changes of levels
    /// for the kernel.
    pub(super) fn decide(&mut self, cpu_share: f64, now_ns: u64) -> Vec<Change> {
        self.forget_old_problems(now_ns);
        if cpu_share > self.budget.cpu_high {
            self.slow_down();
        } else if cpu_share < self.budget.cpu_low {
            self.speed_up();
        }
        self.changes()
    }

    /// Forgets problems that were seen too long ago.
    fn forget_old_problems(&mut self, now_ns: u64) {
        self.recent
            .retain(|_, recent| now_ns.saturating_sub(recent.last_ns) < HISTORY_NS);
        let recent = &self.recent;
        self.boosted.retain(|cookie, _| recent.contains_key(cookie));
        let slowest = self.slowest_boosted();
        for cookie in self.recent.keys() {
            let from = self.healthy.min(slowest);
            self.boosted.entry(*cookie).or_insert(from);
        }
    }

    /// Reads connections less often: first those without problems, then half of the others.
    fn slow_down(&mut self) {
        let slowest = self.slowest_boosted();
        let faster_than_configured = self.boosted.values().any(|exponent| *exponent < 0);
        if !faster_than_configured && self.healthy < self.slowest_healthy() {
            self.healthy += 1;
            return;
        }
        let slowable = |exponent: i8| exponent < slowest;
        for cookie in self.worst_first(slowable).into_iter().rev().half() {
            self.boosted
                .entry(cookie)
                .and_modify(|exponent| *exponent += 1);
        }
    }

    /// Reads connections more often: first those with the most problems, then the others.
    fn speed_up(&mut self) {
        let worst = self.worst_first(|exponent| exponent > OFTENEST);
        if worst.is_empty() || self.healthy > 0 && self.boosted.values().all(|e| *e <= 0) {
            self.healthy = (self.healthy - 1).max(0);
            return;
        }
        for cookie in worst.into_iter().half() {
            self.boosted
                .entry(cookie)
                .and_modify(|exponent| *exponent -= 1);
        }
    }

    /// Returns connections with a rate of their own, the longest recent problem first.
    fn worst_first(&self, which: impl Fn(i8) -> bool) -> Vec<u64> {
        let of = |cookie: &u64| self.recent.get(cookie).map_or(0, |found| found.problem_ns);
        let chosen = self
            .boosted
            .iter()
            .filter(|(_, exponent)| which(**exponent));
        let mut cookies: Vec<u64> = chosen.map(|(cookie, _)| *cookie).collect();
        cookies.sort_by_cached_key(|cookie| (std::cmp::Reverse(of(cookie)), *cookie));
        cookies
    }

    /// Returns the largest exponent for connections with problems: at most the bin length apart.
    fn slowest_boosted(&self) -> i8 {
        greatest_exponent(self.budget.mean_ns, BIN_NS.cast_unsigned())
    }

    /// Returns the largest exponent for connections without problems.
    fn slowest_healthy(&self) -> i8 {
        let last_level = self.walk() + WALK_LEVEL_MOST.cast_signed();
        greatest_exponent(self.budget.mean_ns, SLOWEST_NS).min(last_level)
    }

    /// Returns the exponent of the time between walks.
    fn walk(&self) -> i8 {
        let boosted = self.boosted.values().copied().min();
        boosted.map_or(self.healthy, |least| least.min(self.healthy))
    }

    /// Returns the kernel's level for an interval of 2^exponent times the mean.
    fn level(&self, exponent: i8) -> u8 {
        (exponent - self.walk())
            .clamp(0, WALK_LEVEL_MOST.cast_signed())
            .cast_unsigned()
    }

    /// Returns the levels of connections with problems; of the worst ones only, if the kernel has no space for all.
    fn wanted_levels(&self) -> HashMap<u64, u8> {
        let others = self.worst_first(|exponent| exponent != self.healthy);
        let others = others.into_iter().take(self.most_levels);
        others
            .filter_map(|cookie| Some((cookie, self.level(*self.boosted.get(&cookie)?))))
            .collect()
    }

    /// Returns changes of levels for the kernel: first those to remove, which makes room.
    fn changes(&mut self) -> Vec<Change> {
        let wanted = self.wanted_levels();
        let gone: HashSet<u64> = self.kernel_levels.keys().copied().collect();
        let gone = gone.into_iter().filter(|c| !wanted.contains_key(c));
        let new = wanted
            .iter()
            .filter(|(c, l)| self.kernel_levels.get(c) != Some(l));
        let new = new.map(|(cookie, level)| (*cookie, Some(*level)));
        let changes = gone.map(|cookie| (cookie, None)).chain(new).collect();
        self.kernel_levels = wanted;
        changes
    }
}

/// Returns the mean interval times 2^exponent, at least 1 ns.
fn scaled_ns(mean_ns: u64, exponent: i8) -> u64 {
    match exponent {
        0.. => mean_ns << exponent,
        _ => (mean_ns >> -exponent).max(1),
    }
}

/// Returns the largest exponent at which the mean is at most this long; 0 if it is always longer.
fn greatest_exponent(mean_ns: u64, longest_ns: u64) -> i8 {
    let times = longest_ns / mean_ns.max(1);
    times.checked_ilog2().map_or(0, |bits| bits as i8)
}

trait Half: ExactSizeIterator + Sized {
    /// Returns the first half, the middle one included.
    fn half(self) -> std::iter::Take<Self> {
        let half = self.len().div_ceil(2);
        self.take(half)
    }
}

impl<I: ExactSizeIterator> Half for I {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEAN_NS: u64 = 500_000_000;

    /// Makes a budget of 0.5 to 1.5 % CPU with this mean interval.
    fn budget(mean_ns: u64) -> Budget {
        Budget {
            mean_ns,
            cpu_low: 0.005,
            cpu_high: 0.015,
        }
    }

    fn rates() -> Rates {
        Rates::new(budget(MEAN_NS), usize::MAX)
    }

    #[test]
    fn rates_stay_within_the_budget() {
        let mut rates = rates();
        for step in 0..10 {
            assert!(rates.decide(0.01, step * DECIDE_EVERY_NS).is_empty());
        }
        assert_eq!(rates.walk_mean_ns(), MEAN_NS);
        assert_eq!(rates.default_level(), 0);
    }

    #[test]
    fn healthy_connections_slow_down_first_and_others_stay_above_one_reading_a_bin() {
        let mut rates = rates();
        rates.note(7, 1_000, 1);
        let changes = rates.decide(0.5, 2);
        assert_eq!(rates.healthy_mean_ns(), 2 * MEAN_NS);
        assert_eq!(rates.walk_mean_ns(), MEAN_NS);
        assert_eq!((changes, rates.default_level()), (vec![(7, Some(0))], 1));
        for step in 0..20 {
            rates.note(7, 1_000, step);
            rates.decide(0.5, step);
        }
        assert_eq!(rates.walk_mean_ns(), BIN_NS.cast_unsigned());
        assert!(rates.healthy_mean_ns() <= SLOWEST_NS);
        assert_eq!(rates.healthy_mean_ns(), 16 * MEAN_NS);
        assert_eq!(rates.default_level(), 2);
    }

    #[test]
    fn worst_connections_speed_up_below_the_budget() {
        let mut rates = rates();
        for cookie in 0..8 {
            rates.note(cookie, cookie * 1_000, 1);
        }
        rates.decide(0.001, 2);
        assert_eq!(rates.walk_mean_ns(), MEAN_NS / 2);
        assert_eq!(rates.healthy_mean_ns(), MEAN_NS);
        assert_eq!(rates.default_level(), 1);
        let fast: Vec<u64> = (0..8)
            .filter(|c| rates.kernel_levels.get(c) == Some(&0))
            .collect();
        assert_eq!(fast, [4, 5, 6, 7]);
        for step in 0..20 {
            rates.decide(0.001, step);
        }
        assert_eq!(rates.walk_mean_ns(), MEAN_NS / 4);
        assert_eq!(rates.healthy_mean_ns(), MEAN_NS);
    }

    #[test]
    fn old_problems_and_their_levels_are_forgotten() {
        let mut rates = rates();
        rates.note(7, 1_000, 1);
        rates.decide(0.001, 2);
        assert!(rates.has_levels());
        let changes = rates.decide(0.01, 2 + HISTORY_NS);
        assert_eq!(changes, [(7, None)]);
        assert!(!rates.has_levels());
        assert_eq!(rates.walk_mean_ns(), MEAN_NS);
    }

    #[test]
    fn mean_above_the_bin_length_is_kept() {
        let mut rates = Rates::new(budget(5_000_000_000), usize::MAX);
        rates.note(1, 1, 1);
        for step in 0..9 {
            rates.decide(0.5, step);
        }
        assert_eq!(rates.walk_mean_ns(), 5_000_000_000);
        assert_eq!(rates.healthy_mean_ns(), 10_000_000_000);
    }

    #[test]
    fn worst_connections_get_levels_if_the_map_is_full() {
        let mut rates = Rates::new(budget(MEAN_NS), 5);
        for cookie in 0..8 {
            rates.note(cookie, cookie * 1_000, 1);
        }
        // the others are read more seldom: all of these differ from them
        let changes = rates.decide(0.5, 2);
        let mut kernel_levels: Vec<u64> = changes.iter().map(|(cookie, _)| *cookie).collect();
        kernel_levels.sort_unstable();
        assert_eq!(kernel_levels, [3, 4, 5, 6, 7]);
        assert_eq!(rates.default_level(), 1);
        // a level is removed before that of a worse connection is set
        rates.note(0, 1_000_000, 3);
        assert_eq!(rates.decide(0.01, 4), [(3, None), (0, Some(0))]);
        rates.forget(7);
        assert_eq!(rates.decide(0.01, 5), [(7, None), (3, Some(0))]);
    }

    #[test]
    fn new_mean_keeps_the_bounds_at_once() {
        let mut rates = Rates::new(budget(10_000_000), usize::MAX);
        for step in 0..40 {
            rates.note(7, 1_000, step);
            rates.decide(0.5, step);
        }
        assert!(rates.walk_mean_ns() > 1_000_000_000);
        rates.set_budget(budget(MEAN_NS));
        assert_eq!(rates.walk_mean_ns(), BIN_NS.cast_unsigned());
        assert_eq!(rates.healthy_mean_ns(), 16 * MEAN_NS);
        rates.set_budget(budget(SLOWEST_NS));
        assert_eq!(rates.walk_mean_ns(), SLOWEST_NS);
        assert_eq!(rates.healthy_mean_ns(), SLOWEST_NS);
    }

    #[derive(Debug, Clone, Copy)]
    enum ReadingStep {
        Note(u64, u64),
        Forget(u64),
        Decide(f64),
        Mean(u64),
    }

    /// Generates a reading with random problems.
    fn step() -> impl Strategy<Value = ReadingStep> {
        prop_oneof![
            8 => (0_u64..20, 1_u64..1_000).prop_map(|(cookie, ns)| ReadingStep::Note(cookie, ns)),
            2 => (0_u64..20).prop_map(ReadingStep::Forget),
            6 => proptest::sample::select([0.001, 0.01, 0.5].as_slice()).prop_map(ReadingStep::Decide),
            1 => (10_000_000..=SLOWEST_NS).prop_map(ReadingStep::Mean),
        ]
    }

    /// Applies a change as the kernel's map does: a full map takes no other connection.
    fn follow(levels: &mut HashMap<u64, u8>, most: usize, (cookie, level): Change) {
        match level {
            Some(level) => drop(levels.insert(cookie, level)),
            None => drop(levels.remove(&cookie)),
        }
        assert!(levels.len() <= most);
    }

    proptest! {
        #[test]
        fn levels_fit_in_the_map_and_no_connection_waits_too_long(
            steps in proptest::collection::vec(step(), 1..200),
            most in 0_usize..8,
        ) {
            let mut rates = Rates::new(budget(MEAN_NS), most);
            let mut levels = HashMap::new();
            for (now_ns, step) in (1..).zip(steps) {
                match step {
                    ReadingStep::Note(cookie, problem_ns) => rates.note(cookie, problem_ns, now_ns),
                    ReadingStep::Forget(cookie) => rates.forget(cookie),
                    ReadingStep::Decide(cpu_share) => {
                        let changes = rates.decide(cpu_share, now_ns);
                        changes.into_iter().for_each(|change| follow(&mut levels, most, change));
                        prop_assert_eq!(&levels, &rates.kernel_levels);
                    }
                    ReadingStep::Mean(mean_ns) => rates.set_budget(budget(mean_ns)),
                }
                let mean_ns = rates.budget.mean_ns;
                let longest_ns = |exponents: Option<i8>| exponents.map_or(0, |e| scaled_ns(mean_ns, e));
                let boosted_ns = longest_ns(rates.boosted.values().copied().max());
                prop_assert!(boosted_ns <= mean_ns.max(BIN_NS.cast_unsigned()));
                prop_assert!(rates.healthy_mean_ns() <= mean_ns.max(SLOWEST_NS));
            }
        }
    }
}
