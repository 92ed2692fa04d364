//! CPU time of the recorded processes, by the clock that the kernel keeps of each.

use std::collections::BTreeMap;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use probe::hooks::Hooks;

/// How often it is asked which processes are recorded.
const FOUND_EVERY_NS: u64 = 100_000_000;

/// Clocks of processes, and what they showed. What one used after the last look before its end is not counted.
#[derive(Debug, Default)]
pub(super) struct CpuUse {
    known: BTreeMap<u32, u64>,
    found_ns: Option<u64>,
}

impl CpuUse {
    /// Returns the CPU time that the processes used since the last look, ns.
    pub(super) fn read(&mut self, hooks: &Hooks<'_>, now_ns: u64) -> u64 {
        let mut used_ns = 0;
        let is_due = |found_ns: u64| now_ns >= found_ns.saturating_add(FOUND_EVERY_NS);
        if self.found_ns.is_none_or(is_due) {
            used_ns += self.find(hooks, now_ns);
        }
        self.known.retain(|pid, before_ns| {
            let Some(cpu_ns) = cpu_ns(*pid) else {
                return false;
            };
            used_ns += cpu_ns.saturating_sub(*before_ns);
            *before_ns = cpu_ns;
            true
        });
        used_ns
    }

    /// Finds new recorded processes; returns their CPU time since the last call, ns. The result is
    /// at most the time since then: a process may have existed before.
    fn find(&mut self, hooks: &Hooks<'_>, now_ns: u64) -> u64 {
        let since_ns = self.found_ns.replace(now_ns);
        let most_ns = since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        let mut used_ns = 0;
        for pid in hooks.recorded_processes() {
            if let Some(cpu_ns) = cpu_ns(pid).filter(|_| !self.known.contains_key(&pid)) {
                self.known.insert(pid, cpu_ns);
                used_ns += cpu_ns.min(most_ns);
            }
        }
        used_ns
    }
}

/// Returns the CPU time of a process, ns; `None`: there is none with this id.
fn cpu_ns(pid: u32) -> Option<u64> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid.try_into().ok()?)).ok()?;
    let time = clock_gettime(clock).ok()?;
    let (seconds, ns) = (u64::try_from(time.tv_sec()), u64::try_from(time.tv_nsec()));
    Some(seconds.ok()? * 1_000_000_000 + ns.ok()?)
}

#[cfg(test)]
mod tests {
    use super::cpu_ns;

    #[test]
    fn own_process_has_a_clock() {
        let before_ns = cpu_ns(std::process::id()).expect("a clock");
        let until_ns = before_ns + 1_000_000;
        while cpu_ns(std::process::id()) < Some(until_ns) {}
        assert_eq!(cpu_ns(u32::MAX), None);
    }
}
