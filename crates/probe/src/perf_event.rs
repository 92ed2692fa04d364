//! Opening an event of perf.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `PERF_TYPE_SOFTWARE`.
pub(crate) const SOFTWARE: u32 = 1;

/// The beginning of `struct perf_event_attr` (include/uapi/linux/perf_event.h): PERF_ATTR_SIZE_VER3.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Attr {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) sample_freq: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup_events: u32,
    pub(crate) bp_type: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) sample_regs_user: u64,
    pub(crate) sample_stack_user: u32,
    /// Of the times in records, if `flags` say so.
    pub(crate) clockid: i32,
}

/// Opens an event of a process (0: the calling thread, -1: every one) on a CPU (-1: every one).
pub(crate) fn open(attr: &Attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    const PERF_FLAG_FD_CLOEXEC: u64 = 8;
    let no_group = -1;
    let attr = Attr {
        size: size_of::<Attr>() as u32,
        ..*attr
    };
    // SAFETY: `attr` is as large as it says, and lives until the call is over, which only reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            pid,
            cpu,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    let fd = i32::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Starts or stops an event.
pub(crate) fn switch(event: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
    const PERF_EVENT_IOC_DISABLE: libc::c_ulong = 0x2401;
    let request = if on {
        PERF_EVENT_IOC_ENABLE
    } else {
        PERF_EVENT_IOC_DISABLE
    };
    // SAFETY: both requests take a plain number.
    match unsafe { libc::ioctl(event.as_raw_fd(), request, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
