//! Simulated loads: the time of every look is given, and no clock is read.

use proptest::prelude::*;

use super::*;

/// Time between two looks, as of a recorder that is late now and then.
const LOOK_NS: u64 = 10_000_000;

/// A program that uses this much of a CPU, and hooks that add a part to that while a window is open, or closed.
#[derive(Debug, Clone, Copy)]
struct Load {
    cpus: f64,
    open: f64,
    closed: f64,
}

/// A controller and the program under it.
struct Simulation {
    controller: Controller,
    now_ns: u64,
    is_open: bool,
    open_ns: u64,
    windows: u64,
}

impl Simulation {
    /// Begins a simulation with this budget, as a share of CPU time.
    fn new(share: f64, seed: u64) -> Self {
        Self {
            controller: Controller::new(share, seed, 0),
            now_ns: 0,
            is_open: true,
            open_ns: 0,
            windows: 1,
        }
    }

    /// Runs looks of the controller until `for_ns` has passed; returns the sums of use and cost.
    fn run(&mut self, load: Load, for_ns: u64, look_ns: u64) -> (f64, f64) {
        let (mut used_ns, mut cost_ns) = (0.0, 0.0);
        let until_ns = self.now_ns + for_ns;
        while self.now_ns < until_ns {
            self.now_ns += look_ns;
            let cpu_ns = load.cpus * look_ns as f64;
            let part = if self.is_open { load.open } else { load.closed };
            self.open_ns += if self.is_open { look_ns } else { 0 };
            let spent = Spending {
                cpu_ns: cpu_ns as u64,
                cost_ns: (cpu_ns * part) as u64,
            };
            used_ns += spent.cpu_ns as f64;
            cost_ns += spent.cost_ns as f64;
            match self.controller.look(self.now_ns, spent) {
                Some(WindowChange::Begin) => {
                    assert!(!self.is_open, "begins once");
                    self.is_open = true;
                    self.windows += 1;
                }
                Some(WindowChange::End) => {
                    assert!(self.is_open, "ends once");
                    self.is_open = false;
                }
                None => {}
            }
        }
        (used_ns, cost_ns)
    }
}

const SECOND_NS: u64 = 1_000_000_000;

proptest! {
    /// Whatever the load does: what was spent is the budget's share, the advance of the first second, and one look too much.
    #[test]
    fn cost_is_within_the_budget_at_every_load(
        share in 0.005_f64..0.2,
        seed in any::<u64>(),
        loads in prop::collection::vec((0.0_f64..8.0, 0.0_f64..0.6, 0_u64..5, 1_u64..6), 1..12),
    ) {
        let mut simulation = Simulation::new(share, seed);
        let (mut used_ns, mut cost_ns, mut worst_look_ns) = (0.0, 0.0, 0.0_f64);
        for (cpus, open, seconds, looks) in loads {
            let load = Load { cpus, open, closed: open.min(share / 4.0) };
            let look_ns = looks * LOOK_NS;
            let (used, cost) = simulation.run(load, seconds * SECOND_NS, look_ns);
            used_ns += used;
            cost_ns += cost;
            worst_look_ns = worst_look_ns.max(open * cpus * look_ns as f64);
        }
        let most_ns = share * (used_ns + SECOND_NS as f64) + worst_look_ns + 1.0;
        prop_assert!(cost_ns <= most_ns, "{cost_ns} of {most_ns}");
    }

    /// A load that grows or falls tenfold: from two seconds later on, each further time of two seconds is within the
    /// budget, but for what a second had left, and one look.
    #[test]
    fn budget_holds_two_seconds_after_the_load_changed_tenfold(
        seed in any::<u64>(),
        share in 0.01_f64..0.1,
        cpus in 0.05_f64..0.8,
        open in 0.1_f64..0.5,
        grows in any::<bool>(),
    ) {
        let load = |cpus| Load { cpus, open, closed: 0.002 };
        let (before, after) = if grows { (cpus, 10.0 * cpus) } else { (10.0 * cpus, cpus) };
        let mut simulation = Simulation::new(share, seed);
        simulation.run(load(before), 10 * SECOND_NS, LOOK_NS);
        simulation.run(load(after), 2 * SECOND_NS, LOOK_NS);
        for _ in 0..5 {
            let (used_ns, cost_ns) = simulation.run(load(after), 2 * SECOND_NS, LOOK_NS);
            let kept_ns = share * after * KEPT_NS as f64;
            let look_ns = open * after * LOOK_NS as f64;
            prop_assert!(cost_ns <= share * used_ns + kept_ns + look_ns + 1.0);
        }
    }

    /// A budget is there to be used: over a minute, a fifth of it is.
    #[test]
    fn budget_is_used(seed in any::<u64>(), share in 0.01_f64..0.1, open in 0.1_f64..0.5) {
        let load = Load { cpus: 1.0, open, closed: 0.0 };
        let mut simulation = Simulation::new(share, seed);
        let (used_ns, cost_ns) = simulation.run(load, 60 * SECOND_NS, LOOK_NS);
        prop_assert!(cost_ns >= 0.2 * share * used_ns, "{cost_ns} of {used_ns}");
    }
}

/// Hooks that cost less than the budget never close.
#[test]
fn cheap_hooks_record_in_one_window() {
    let mut simulation = Simulation::new(0.05, 1);
    for cpus in [0.0, 1.0, 0.001, 4.0, 0.0] {
        let load = Load {
            cpus,
            open: 0.049,
            closed: 0.0,
        };
        simulation.run(load, 5 * SECOND_NS, LOOK_NS);
    }
    assert_eq!(
        (simulation.windows, simulation.open_ns),
        (1, simulation.now_ns)
    );
}

/// Where closed hooks alone cost more, no window opens any more.
#[test]
fn no_further_window_opens_if_attached_hooks_exceed_the_budget() {
    let load = Load {
        cpus: 1.0,
        open: 0.3,
        closed: 0.02,
    };
    let mut simulation = Simulation::new(0.01, 1);
    simulation.run(load, 60 * SECOND_NS, LOOK_NS);
    assert_eq!((simulation.windows, simulation.is_open), (1, false));
}
