//! Run time of our BPF programs, sampled. In: the programs' descriptors and the time. Out: the
//! share of one CPU that they take.
//!
//! The kernel measures program run time only while someone holds its statistics open
//! (`BPF_ENABLE_STATS`), and then takes two clock readings for every run of every program on
//! the host. So the statistics are on only in short windows at random times, about 1 % of the
//! time. The descriptor that holds them open is closed at the end of a window, or by the kernel
//! when this process dies.

use std::os::fd::{BorrowedFd, OwnedFd};

use super::run_time::{BpfTimeError, ProgramTimes, RunTime};
use super::statistics::{Statistics, enable_statistics};
use crate::tcp_stats::Random;

/// Length of a window.
const WINDOW_NS: u64 = 50_000_000;
/// Mean time between windows: with 50 ms windows, statistics are on 1 % of the time.
const MEAN_GAP_NS: u64 = 4_950_000_000;
/// The first window comes soon, so that short recordings have one.
const MEAN_FIRST_GAP_NS: u64 = 200_000_000;

/// Cost of the programs, as the windows showed so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BpfCost {
    /// Time of all windows together, nanoseconds.
    pub sampled_ns: u64,
    /// Run time of our programs in the windows, nanoseconds, clock readings included.
    pub run_time_ns: u64,
    /// Runs of our programs in the windows.
    pub runs: u64,
    /// Runs skipped because the same program was running on that CPU already, since load.
    pub recursion_misses: u64,
}

impl BpfCost {
    /// Returns the share of one CPU that the programs used; `None` without a window.
    pub fn cpu_share(&self) -> Option<f64> {
        (self.sampled_ns > 0).then(|| self.run_time_ns as f64 / self.sampled_ns as f64)
    }
}

#[derive(Debug)]
enum Window {
    Closed {
        opens_ns: u64,
    },
    Open {
        _statistics: OwnedFd,
        since_ns: u64,
        base: RunTime,
    },
}

/// Opens windows and sums up what they show.
#[derive(Debug)]
pub struct BpfTimeSampler {
    programs: ProgramTimes,
    statistics: Option<Statistics>,
    random: Random,
    window: Window,
    cost: BpfCost,
}

impl BpfTimeSampler {
    /// Makes a sampler of `programs`; its descriptors keep them loaded.
    pub fn new<'fd>(
        programs: impl IntoIterator<Item = BorrowedFd<'fd>>,
        seed: u64,
        now_ns: u64,
    ) -> Result<Self, BpfTimeError> {
        let programs = ProgramTimes::new(programs)?;
        let mut random = Random::new(seed);
        let opens_ns = now_ns.saturating_add(random.interval_ns(MEAN_FIRST_GAP_NS));
        Ok(Self {
            programs,
            statistics: None,
            random,
            window: Window::Closed { opens_ns },
            cost: BpfCost::default(),
        })
    }

    /// Lets another process enable the kernel's statistics, in place of this one.
    pub fn with_statistics(self, statistics: Option<Statistics>) -> Self {
        Self { statistics, ..self }
    }

    /// Returns when [`Self::tick`] has something to do next, `CLOCK_MONOTONIC` nanoseconds.
    pub fn next_ns(&self) -> u64 {
        match &self.window {
            Window::Closed { opens_ns } => *opens_ns,
            Window::Open { since_ns, .. } => since_ns.saturating_add(WINDOW_NS),
        }
    }

    /// Opens or closes a window if it is time. A late call makes the window longer, which is
    /// accounted for. An error leaves the window closed until its next turn.
    pub fn tick(&mut self, now_ns: u64) -> Result<(), BpfTimeError> {
        if now_ns < self.next_ns() {
            return Ok(());
        }
        let opens_ns = now_ns.saturating_add(self.random.interval_ns(MEAN_GAP_NS));
        let window = std::mem::replace(&mut self.window, Window::Closed { opens_ns });
        match window {
            Window::Closed { .. } => self.window = self.open(now_ns)?,
            Window::Open {
                _statistics,
                since_ns,
                base,
            } => self.close(now_ns, since_ns, base)?,
        }
        Ok(())
    }

    /// Begins to measure: enables the kernel's statistics of BPF run time.
    fn open(&self, now_ns: u64) -> Result<Window, BpfTimeError> {
        let statistics = match &self.statistics {
            Some(statistics) => statistics.enable(),
            None => enable_statistics(),
        };
        let statistics = statistics.map_err(BpfTimeError::Enable)?;
        Ok(Window::Open {
            _statistics: statistics,
            since_ns: now_ns,
            base: self.read()?,
        })
    }

    /// Ends a measurement, and adds what the programs ran since its start.
    fn close(&mut self, now_ns: u64, since_ns: u64, base: RunTime) -> Result<(), BpfTimeError> {
        let end = self.read()?;
        self.cost.sampled_ns += now_ns.saturating_sub(since_ns);
        self.cost.run_time_ns += end.run_time_ns.saturating_sub(base.run_time_ns);
        self.cost.runs += end.runs.saturating_sub(base.runs);
        self.cost.recursion_misses = end.recursion_misses;
        Ok(())
    }

    /// Returns the sums of all windows so far.
    pub fn cost(&self) -> BpfCost {
        self.cost
    }

    /// Returns run time and number of runs of all programs.
    fn read(&self) -> Result<RunTime, BpfTimeError> {
        self.programs.read()
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::UdpSocket;
    use std::os::fd::{AsFd, AsRawFd, FromRawFd};

    use libbpf_rs::libbpf_sys::{BPF_PROG_TYPE_SOCKET_FILTER, bpf_insn, bpf_prog_load};

    use super::*;

    /// Datagrams a window: a prime.
    const DATAGRAMS: u64 = 101;

    /// A socket filter that keeps every datagram: `r0 = -1; exit`.
    fn filter() -> OwnedFd {
        let mut keep = bpf_insn {
            code: 0xb7,
            imm: -1,
            ..Default::default()
        };
        keep.set_dst_reg(0);
        let code = [
            keep,
            bpf_insn {
                code: 0x95,
                ..Default::default()
            },
        ];
        // SAFETY: name and licence are C strings, `code` holds the two instructions counted,
        // and no options are passed.
        let fd = unsafe {
            bpf_prog_load(
                BPF_PROG_TYPE_SOCKET_FILTER,
                c"keep".as_ptr(),
                c"GPL".as_ptr(),
                code.as_ptr(),
                code.len() as _,
                std::ptr::null_mut(),
            )
        };
        assert!(fd >= 0, "{}", io::Error::from_raw_os_error(-fd));
        // SAFETY: the kernel has just given this descriptor to us.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }

    /// Attaches a socket filter to a socket.
    fn attach(socket: &UdpSocket, program: &OwnedFd) {
        let fd = program.as_raw_fd();
        // SAFETY: the option's value is a descriptor, read as an int.
        let code = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_BPF,
                (&raw const fd).cast(),
                size_of_val(&fd) as libc::socklen_t,
            )
        };
        assert_eq!(code, 0, "{}", io::Error::last_os_error());
    }

    #[test]
    fn runs_within_windows_are_counted_exactly() {
        let program = filter();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        attach(&receiver, &program);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let send = || {
            for _ in 0..DATAGRAMS {
                sender
                    .send_to(&[1], receiver.local_addr().unwrap())
                    .unwrap();
                receiver.recv(&mut [0; 1]).unwrap();
            }
        };
        let mut sampler = BpfTimeSampler::new([program.as_fd()], 1, 0).unwrap();
        assert_eq!(sampler.cost().cpu_share(), None);
        for windows in 1..=2 {
            sampler.tick(sampler.next_ns()).unwrap();
            send();
            sampler.tick(sampler.next_ns() - 1).unwrap();
            sampler.tick(sampler.next_ns()).unwrap();
            // Between windows: not counted.
            send();
            let cost = sampler.cost();
            assert_eq!(
                (cost.sampled_ns, cost.runs),
                (windows * WINDOW_NS, windows * DATAGRAMS)
            );
            assert!(
                cost.run_time_ns > 0 && cost.cpu_share().unwrap() < 1.0,
                "{cost:?}"
            );
            assert_eq!(cost.recursion_misses, 0);
        }
    }

    #[test]
    fn windows_are_on_one_percent_of_the_time() {
        let mut sampler = BpfTimeSampler::new([], 3, 0).unwrap();
        let (mut now_ns, turns) = (0, 600);
        for _ in 0..turns {
            now_ns = sampler.next_ns();
            sampler.tick(now_ns).unwrap();
        }
        let share = sampler.cost().sampled_ns as f64 / now_ns as f64;
        assert!((0.008..0.0125).contains(&share), "on {share} of the time");
    }
}
