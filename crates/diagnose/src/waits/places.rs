//! Pods and workloads of processes, as small numbers for groups. In: the names of each process, once. Out: a number, and its
//! name.

use std::collections::HashMap;

/// Places by number. Processes in none share one.
#[derive(Debug, Default)]
pub(super) struct PlaceNumbers {
    by_pid: HashMap<u32, u32>,
    numbers: HashMap<Option<String>, u32>,
    names: Vec<Option<String>>,
}

impl PlaceNumbers {
    /// Returns the number of the place of a process; `read` finds the name.
    pub(super) fn number(&mut self, pid: u32, read: impl FnOnce() -> Option<String>) -> u32 {
        if let Some(known) = self.by_pid.get(&pid) {
            return *known;
        }
        let name = read();
        let next = self.names.len() as u32;
        let number = *self.numbers.entry(name.clone()).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        self.by_pid.insert(pid, number);
        number
    }

    /// Returns the name of a place; `None`: of processes in none.
    pub(super) fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize)?.as_deref()
    }
}
