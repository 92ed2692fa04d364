//! A cache of processes, so that each is described once. Hosts start programs for years: the least recently used
//! are forgotten, and described again when they are seen again.

use std::collections::HashMap;

use probe::processes::{ObservedProcess, USER_TICK_NS};
use table::tables::Process;

/// Processes in a generation. Two are kept: some megabytes.
const GENERATION: usize = 4096;

/// Start, program and names of a process, as its last row has them: only a change makes another row.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedProcess {
    pub(crate) started_ns: Option<u64>,
    /// Number of the program that it was; `None`: only `/proc` showed it, which has the start by the tick, too.
    pub(crate) execs: Option<u32>,
    /// As the last row has them.
    pub(crate) comm: String,
    pub(crate) exe: Option<String>,
}

impl CachedProcess {
    /// Keeps what identifies a process, to notice a change.
    pub(crate) fn from_row(row: &Process, execs: Option<u32>) -> Self {
        Self {
            started_ns: row.started_ns,
            execs,
            comm: row.comm.clone(),
            exe: row.exe.clone(),
        }
    }

    /// Returns whether `seen` is the cached process with the same program.
    pub(crate) fn is(&self, seen: &ObservedProcess) -> bool {
        let is_it = self.started_ns == Some(seen.started_ns);
        is_it && self.execs.is_some_and(|execs| execs >= seen.execs)
    }

    /// Returns whether the row of `later`, of the same pid, has nothing new.
    pub(crate) fn is_unchanged(&self, later: &Self) -> bool {
        let is_same = match (self.started_ns, later.started_ns) {
            (Some(by_tick_ns), Some(at_ns)) if self.execs.is_none() => {
                by_tick_ns.abs_diff(at_ns) <= USER_TICK_NS
            }
            (before, now) => before == now,
        };
        is_same && self.comm == later.comm && self.exe == later.exe
    }
}

/// Processes by pid.
#[derive(Debug, Default)]
pub(crate) struct ProcessCache {
    young: HashMap<u32, CachedProcess>,
    old: HashMap<u32, CachedProcess>,
}

impl ProcessCache {
    /// Returns what is known of a process; None for a new one.
    pub(crate) fn get(&self, pid: u32) -> Option<&CachedProcess> {
        self.young.get(&pid).or_else(|| self.old.get(&pid))
    }

    /// Makes a known process young again.
    pub(crate) fn touch(&mut self, pid: u32) {
        if let Some(known) = self.old.remove(&pid) {
            self.insert(pid, known);
        }
    }

    /// Adds a process; replaces another one that had its pid before.
    pub(crate) fn insert(&mut self, pid: u32, known: CachedProcess) {
        self.forget(pid);
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(pid, known);
    }

    /// Forgets a process that has ended.
    fn forget(&mut self, pid: u32) {
        self.young.remove(&pid);
        self.old.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_are_forgotten() {
        let (mut cache, often, most) = (ProcessCache::default(), 1, 10 * GENERATION as u32);
        cache.insert(often, CachedProcess::default());
        for pid in 2..most {
            assert!(cache.get(pid).is_none());
            cache.insert(pid, CachedProcess::default());
            cache.touch(often);
            assert!(cache.get(often).is_some());
        }
        let known = (0..most).filter(|pid| cache.get(*pid).is_some()).count();
        assert!((GENERATION..=2 * GENERATION).contains(&known), "{known}");
        assert!(cache.get(most - 1).is_some() && cache.get(2).is_none());
        cache.forget(1);
        assert!(cache.get(1).is_none());
    }
}
