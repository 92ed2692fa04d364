//! The CPUs of the recorder's own threads, where the user chooses them. Recorded programs keep those that they have.

use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// CPUs by number, as `taskset -c` takes them: `0,2-3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let [first, last] = [first, last].map(|number| number.trim().parse::<usize>());
            let (first, last) = (first.ok()?, last.ok()?);
            (first <= last && last < CpuSet::count()).then_some(first..=last)
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let refused = "not a list of CPUs\nhint: numbers and ranges, such as 0,2-3";
        let cpus = ranges.ok_or(refused)?.into_iter().flatten();
        Ok(Self(cpus.collect()))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

impl CpuList {
    /// Moves all threads of this process to these CPUs.
    pub(crate) fn pin_own_threads(&self) -> io::Result<()> {
        let mut cpus = CpuSet::new();
        for cpu in &self.0 {
            cpus.set(*cpu)?;
        }
        for task in fs::read_dir("/proc/self/task")? {
            let name = task?.file_name();
            let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            match sched_setaffinity(Pid::from_raw(tid), &cpus) {
                // it has ended
                Err(Errno::ESRCH) => {}
                set => set?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_numbers_and_ranges() {
        let list: CpuList = "0, 2-4,7".parse().expect("a list");
        assert_eq!(list.to_string(), "0,2,3,4,7");
        for text in ["", "a", "3-1", "1,", "-1", "99999"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }
}
