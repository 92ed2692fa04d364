//! Run times and runs of programs as the kernel counts them, while its statistics are on.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::libbpf_sys::{bpf_prog_get_info_by_fd, bpf_prog_info};

/// Why run times could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BpfTimeError {
    /// The kernel did not enable its statistics.
    #[error("cannot enable BPF run-time statistics: {0}\nhint: run as root (CAP_SYS_ADMIN)")]
    Enable(io::Error),
    /// A program's descriptor could not be duplicated or read.
    #[error("cannot read BPF program statistics: {0}")]
    Info(io::Error),
}

/// Counters of programs, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunTime {
    /// Time that they ran, ns, clock readings included.
    pub run_time_ns: u64,
    /// How often they ran.
    pub runs: u64,
    /// Runs skipped because the same program was running on that CPU already, since load.
    pub recursion_misses: u64,
}

/// Programs with counters.
#[derive(Debug)]
pub struct ProgramTimes {
    programs: Vec<OwnedFd>,
}

impl ProgramTimes {
    /// Keeps descriptors of these programs, which stay loaded until the drop.
    ///
    /// # Errors
    /// When there can be no more descriptors.
    pub fn new<'fd>(
        programs: impl IntoIterator<Item = BorrowedFd<'fd>>,
    ) -> Result<Self, BpfTimeError> {
        let programs = programs.into_iter().map(|fd| fd.try_clone_to_owned());
        let programs: Result<Vec<_>, _> = programs.collect();
        Ok(Self {
            programs: programs.map_err(BpfTimeError::Info)?,
        })
    }

    /// Returns the counters so far.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn read(&self) -> Result<RunTime, BpfTimeError> {
        let mut sum = RunTime::default();
        for program in &self.programs {
            let info = program_info(program.as_fd()).map_err(BpfTimeError::Info)?;
            sum.run_time_ns += info.run_time_ns;
            sum.runs += info.run_cnt;
            sum.recursion_misses += info.recursion_misses;
        }
        Ok(sum)
    }
}

/// Asks the kernel for the facts of a loaded program.
pub(crate) fn program_info(program: BorrowedFd<'_>) -> io::Result<bpf_prog_info> {
    let mut info = bpf_prog_info::default();
    let mut len = size_of::<bpf_prog_info>() as u32;
    // SAFETY: `info` is zeroed (so the kernel fills in no arrays) and `len` is its length.
    let code = unsafe { bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut len) };
    if code < 0 {
        return Err(io::Error::from_raw_os_error(-code));
    }
    Ok(info)
}
