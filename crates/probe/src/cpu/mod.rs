//! Who used the CPUs, and who waited for one. In: pids. Out: rows of `process_samples`
//! ([`Threads`]) and of `cpu_samples` ([`Cpus`]). Needs no BPF, and no root for own processes.

mod cpus;
mod threads;

pub use cpus::Cpus;
pub use threads::Threads;

use table::manifest::{Coverage, ProbeState};

/// A file `schedstat` of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Schedstat {
    cpu_ns: u64,
    runq_ns: u64,
    runs: u64,
}

impl Schedstat {
    /// `None` when the thread is gone, or the kernel has no such file (`CONFIG_SCHED_INFO`).
    fn read(path: &str) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(path).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().map(str::parse);
        let mut next = || fields.next()?.ok();
        Some(Self {
            cpu_ns: next()?,
            runq_ns: next()?,
            runs: next()?,
        })
    }
}

/// What of this can be read here.
pub fn coverage() -> Coverage {
    let state = if Schedstat::read("/proc/thread-self/schedstat").is_none() {
        ProbeState::Off {
            why: "the kernel does not tell how long threads wait for a CPU".to_owned(),
            remedy: "use a kernel with CONFIG_SCHED_INFO".to_owned(),
        }
    } else if !Cpus::new().has_ksoftirqd() {
        ProbeState::Fallback {
            which: "no time of ksoftirqd".to_owned(),
            why: "kernel threads are hidden here, as in a container".to_owned(),
        }
    } else {
        ProbeState::On
    };
    Coverage {
        probe: "cpu".to_owned(),
        state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read() {
        let read = Schedstat {
            cpu_ns: 5,
            runq_ns: 70,
            runs: 3,
        };
        assert_eq!(Schedstat::parse("5 70 3\n"), Some(read));
        assert_eq!(Schedstat::parse("5 70\n"), None);
    }
}
