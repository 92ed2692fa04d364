//! Cost of hooks to whoever passes them: timed once on this machine, then counted by the kernel.

use std::net::UdpSocket;

use probe::clock::thread_cpu_ns;
use probe::hooks::Hooks;
use probe::self_cost::{BpfTimeError, ProgramTimes, RunTime};

/// Calls of a round, and rounds. The cheapest one counts: others may take the CPU, or its caches, in some.
const CALLS: u32 = 4_000;
const ROUNDS: u32 = 5;

/// Least that a closed hook is taken to cost: calls of a process that nobody asked for pay 37 to 48 ns at each
/// (docs/benchmarks.md, "Hooks, one by one").
const LEAST_NS: f64 = 40.0;

/// Times calls that pass one hook: receive calls that find nothing.
#[derive(Debug)]
pub(crate) struct HookTimer {
    socket: Option<UdpSocket>,
    before_ns: f64,
}

impl HookTimer {
    /// Begins before the hooks are attached.
    pub(crate) fn begin() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        let mut timer = Self {
            socket: socket.ok(),
            before_ns: 0.0,
        };
        timer.before_ns = timer.call_ns();
        timer
    }

    /// Returns the time that an attached empty hook adds to each run, ns.
    pub(crate) fn finish(self) -> f64 {
        (self.call_ns() - self.before_ns).max(LEAST_NS)
    }

    /// Returns the CPU time of one system call, in nanoseconds: the shortest of several rounds.
    fn call_ns(&self) -> f64 {
        let rounds = (0..ROUNDS).map(|_| self.round_ns());
        rounds.fold(f64::INFINITY, f64::min)
    }

    /// Returns the mean CPU time of a call in one round, in nanoseconds; 0 without a socket.
    fn round_ns(&self) -> f64 {
        let Some(socket) = &self.socket else {
            return 0.0;
        };
        let since_ns = thread_cpu_ns();
        for _ in 0..CALLS {
            // nothing is ever there
            let _ = socket.recv(&mut [0]);
        }
        thread_cpu_ns().saturating_sub(since_ns) as f64 / f64::from(CALLS)
    }
}

/// Counts what hooks cost: in windows by the kernel's statistics, which are on then. Between them only some are
/// attached. For so much CPU time they run as often as in the last window: some leave at once, others cost as much.
#[derive(Debug)]
pub(super) struct HookMeter {
    of_windows: HookCounter,
    leaving: HookCounter,
    staying: HookCounter,
    /// Cost between windows of as much CPU time as in the present one, or in the latest one, ns.
    between_ns: u64,
    /// CPU time of the recorded processes meanwhile, ns.
    cpu_ns: u64,
}

impl HookMeter {
    /// Begins to measure the cost of hooks; `run_ns`: the least cost of a run.
    ///
    /// # Errors
    /// When there can be no more descriptors.
    pub(super) fn new(hooks: &Hooks<'_>, run_ns: f64) -> Result<Self, BpfTimeError> {
        let times = hooks.hook_times()?;
        Ok(Self {
            of_windows: HookCounter::new(times.of_windows, run_ns),
            leaving: HookCounter::new(times.leaving, run_ns),
            staying: HookCounter::new(times.staying, run_ns),
            between_ns: 0,
            cpu_ns: 0,
        })
    }

    /// Begins a window: switches the statistics on.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub(super) fn begin_window(&mut self) -> Result<(), BpfTimeError> {
        for hooks in [&mut self.of_windows, &mut self.leaving, &mut self.staying] {
            hooks.take_cost()?;
        }
        (self.between_ns, self.cpu_ns) = (0, 0);
        Ok(())
    }

    /// Returns the cost since the last look in a window, ns.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub(super) fn in_window(&mut self, cpu_ns: u64) -> Result<u64, BpfTimeError> {
        let of_windows = self.of_windows.take_cost()?;
        let leaving = self.leaving.take_cost()?;
        let staying = self.staying.take_cost()?;
        self.between_ns += leaving.dispatch_ns + staying.sum_ns();
        self.cpu_ns += cpu_ns;
        Ok(of_windows.sum_ns() + leaving.sum_ns() + staying.sum_ns())
    }

    /// Returns the cost between windows, for so much CPU time, ns.
    pub(super) fn between_windows(&self, cpu_ns: u64) -> u64 {
        (self.between_ns as f64 / self.cpu_ns.max(1) as f64 * cpu_ns as f64) as u64
    }
}

/// Cost of programs.
#[derive(Debug, Clone, Copy)]
struct HookCost {
    /// Getting to them and back, ns.
    dispatch_ns: u64,
    /// Their run time, ns. It has one of the two clock readings of each run.
    run_time_ns: u64,
}

impl HookCost {
    /// Returns the CPU time of hooks: entering them and running them, in nanoseconds.
    fn sum_ns(self) -> u64 {
        self.dispatch_ns + self.run_time_ns
    }
}

/// Programs, and their counters at the last look.
#[derive(Debug)]
struct HookCounter {
    programs: ProgramTimes,
    /// Cost of a run beside its run time, ns.
    run_ns: f64,
    before: RunTime,
}

impl HookCounter {
    /// Begins to count the runs of these programs; `run_ns` is the cost of entering one.
    fn new(programs: ProgramTimes, run_ns: f64) -> Self {
        Self {
            programs,
            run_ns,
            before: RunTime::default(),
        }
    }

    /// Returns the cost since the last time.
    fn take_cost(&mut self) -> Result<HookCost, BpfTimeError> {
        let now = self.programs.read()?;
        let runs = now.runs.saturating_sub(self.before.runs);
        let run_time_ns = now.run_time_ns.saturating_sub(self.before.run_time_ns);
        self.before = now;
        Ok(HookCost {
            dispatch_ns: (runs as f64 * self.run_ns) as u64,
            run_time_ns,
        })
    }
}
