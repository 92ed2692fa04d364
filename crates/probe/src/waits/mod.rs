//! `waits`: intervals in which threads were blocked. `waits.bpf.h` makes a record when a thread runs
//! again; here batches of them become rows of table `waits`, and the kernel side gets a list of what each
//! system call waits for.

mod sampler;

use std::hash::{BuildHasher, RandomState};

use table::manifest::Coverage;
use table::{Columns, TableId, WaitObject, Waker, tables};

use crate::interface::features::{Levels, SCHED_SWITCH, Tracepoint, tracepoint};
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, REENTERED, Source, Support,
};
use crate::wire::types::{syscall_object, wait_batch, wait_object, wait_record, wait_waker};
use crate::wire::{Wire, read_all};

pub use sampler::{MOST_THREADS, ProcessSnapshot, ThreadSampler, ThreadSnapshot, ThreadState};

// SAFETY: `wait_record` is `repr(C)` and made of integers.
unsafe impl Wire for wait_record {}
// SAFETY: `wait_batch` is `repr(C)` and made of integers and arrays of `Wire` records.
unsafe impl Wire for wait_batch {}

/// Without the second, it is not known who ends a wait.
static HOOKS: [Tracepoint; 2] = [SCHED_SWITCH, tracepoint("sched_waking", "4.3").of_windows()];

/// The probe of waits.
pub(crate) struct Waits;

impl Probe for Waits {
    fn name(&self) -> &'static str {
        "waits"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::Wait)
    }

    fn detail(&self) -> Detail {
        Detail::Waits
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.waits
    }

    fn needs_bpf(&self) -> bool {
        true
    }

    fn hooks(&self) -> &'static [Tracepoint] {
        &HOOKS
    }

    fn maps(&self) -> &'static [&'static str] {
        &["wait_ring", "wait_overflow"]
    }

    fn source(&self) -> Source {
        Source::Batches(|maps| [&maps.wait_ring, &maps.wait_overflow], decode)
    }

    /// Counts the records made and lost. A run that the kernel refused is a switch without a record.
    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        if !kernel.levels.waits {
            return Ok(ProbeCount::default());
        }
        let batches = &kernel.maps().wait_batches;
        let mut count = kernel.batches(batches, |it: &wait_batch| it.batch)?;
        let refused = kernel.refused_runs(&[&kernel.programs().handle_sched_switch])?;
        count.add_unmade(REENTERED, refused);
        Ok(count)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        let features = support.features;
        let wakers = features.unless_on("waits.wakers", &HOOKS[1..]);
        let waits = features.hook_coverage(self.name(), &HOOKS[..1]);
        [waits].into_iter().chain(wakers).collect()
    }
}

/// Adds the rows of a batch of waits; returns how many could not be read.
fn decode(output: &mut ProbeOutput, bytes: &[u8]) -> u64 {
    append(&read_all(bytes), &mut output.rows.waits)
}

/// System calls that can block, and what for. Those that take a descriptor as their first argument wait
/// for its file.
const SYSCALLS: &[(syscall_object, &[libc::c_long])] = &[
    (
        syscall_object::SYSCALL_FILE,
        &[
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_readv,
            libc::SYS_writev,
            libc::SYS_pread64,
            libc::SYS_pwrite64,
            libc::SYS_preadv,
            libc::SYS_pwritev,
            libc::SYS_preadv2,
            libc::SYS_pwritev2,
            libc::SYS_recvfrom,
            libc::SYS_sendto,
            libc::SYS_recvmsg,
            libc::SYS_sendmsg,
            libc::SYS_recvmmsg,
            libc::SYS_sendmmsg,
            libc::SYS_accept,
            libc::SYS_accept4,
            libc::SYS_connect,
            libc::SYS_sendfile,
            libc::SYS_splice,
            libc::SYS_tee,
            libc::SYS_vmsplice,
            libc::SYS_fsync,
            libc::SYS_fdatasync,
            libc::SYS_ftruncate,
            libc::SYS_fallocate,
            libc::SYS_flock,
            libc::SYS_ioctl,
            libc::SYS_fcntl,
            libc::SYS_close,
        ],
    ),
    (
        syscall_object::SYSCALL_EPOLL,
        &[
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2,
        ],
    ),
    (
        syscall_object::SYSCALL_POLL,
        &[
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll,
            libc::SYS_ppoll,
        ],
    ),
    (
        syscall_object::SYSCALL_SELECT,
        &[
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select,
            libc::SYS_pselect6,
        ],
    ),
    (syscall_object::SYSCALL_FUTEX, &[libc::SYS_futex]),
    (
        syscall_object::SYSCALL_SLEEP,
        &[libc::SYS_nanosleep, libc::SYS_clock_nanosleep],
    ),
    (
        syscall_object::SYSCALL_CHILD,
        &[libc::SYS_wait4, libc::SYS_waitid],
    ),
    (
        syscall_object::SYSCALL_SIGNAL,
        &[
            #[cfg(target_arch = "x86_64")]
            libc::SYS_pause,
            libc::SYS_rt_sigsuspend,
            libc::SYS_rt_sigtimedwait,
        ],
    ),
    (
        syscall_object::SYSCALL_IO_URING,
        &[libc::SYS_io_uring_enter],
    ),
];

/// Returns a number that nobody outside of this process knows, to be mixed into addresses.
pub(crate) fn address_salt() -> u64 {
    RandomState::new().hash_one("address")
}

/// Fills the kernel program's table: what each system call waits for, by number.
pub(crate) fn name_syscalls(waits_for: &mut [u8]) {
    for (what, numbers) in SYSCALLS {
        for number in *numbers {
            let place = usize::try_from(*number).ok();
            if let Some(place) = place.and_then(|at| waits_for.get_mut(at)) {
                *place = what.0 as u8;
            }
        }
    }
}

/// Returns what a system call waits for.
fn waits_for(number: libc::c_long) -> syscall_object {
    let found = SYSCALLS
        .iter()
        .find(|(_, numbers)| numbers.contains(&number));
    found.map_or(syscall_object::SYSCALL_OTHER, |(what, _)| *what)
}

/// Returns the kind of an object; `None` for an unknown number.
pub(crate) fn kind(wire: u8) -> Option<WaitObject> {
    Some(match wait_object(u32::from(wire)) {
        wait_object::WAIT_CONNECTION => WaitObject::Connection,
        wait_object::WAIT_LISTENER => WaitObject::Listener,
        wait_object::WAIT_DATAGRAM => WaitObject::Datagram,
        wait_object::WAIT_UNIX => WaitObject::Unix,
        wait_object::WAIT_SOCKET => WaitObject::Socket,
        wait_object::WAIT_EPOLL => WaitObject::Epoll,
        wait_object::WAIT_POLL => WaitObject::Poll,
        wait_object::WAIT_SELECT => WaitObject::Select,
        wait_object::WAIT_FUTEX => WaitObject::Futex,
        wait_object::WAIT_PIPE => WaitObject::Pipe,
        wait_object::WAIT_FILE => WaitObject::File,
        wait_object::WAIT_EVENT => WaitObject::Event,
        wait_object::WAIT_SLEEP => WaitObject::Sleep,
        wait_object::WAIT_CHILD => WaitObject::Child,
        wait_object::WAIT_SIGNAL => WaitObject::Signal,
        wait_object::WAIT_IO_URING => WaitObject::IoUring,
        wait_object::WAIT_PAGE_FAULT => WaitObject::PageFault,
        wait_object::WAIT_OTHER => WaitObject::Other,
        _ => return None,
    })
}

/// Returns who ended a wait; unseen for an unknown number.
fn decode_waker(wire: u8) -> Waker {
    match wait_waker(u32::from(wire)) {
        wait_waker::WAKER_THREAD => Waker::Thread,
        wait_waker::WAKER_INTERRUPT => Waker::Interrupt,
        _ => Waker::Unseen,
    }
}

/// Room made at once when columns are begun: half a page of an open segment.
const RESERVE_ROWS: usize = 4_096;

/// Appends the rows of a batch, column by column, as those of `calls`; returns how many records could not
/// be decoded.
fn append(records: &[wait_record], rows: &mut tables::Waits) -> u64 {
    let is_known = |record: &&wait_record| kind(record.kind).is_some();
    let known = records.iter().filter(is_known).count();
    if known == records.len() {
        append_rows(records, rows);
    } else {
        let known: Vec<wait_record> = records.iter().filter(is_known).copied().collect();
        append_rows(&known, rows);
    }
    (records.len() - known) as u64
}

const NS_IN_MS: u64 = 1_000_000;

/// Adds the rows of records with known kinds.
fn append_rows(records: &[wait_record], rows: &mut tables::Waits) {
    if rows.is_empty() {
        rows.reserve(RESERVE_ROWS);
    }
    let tables::Waits {
        end_ns,
        start_ns,
        woken_ns,
        tid,
        pid,
        kind: kinds,
        object,
        device,
        conn,
        fd,
        syscall,
        waker: wakers,
        waker_tid,
        waker_pid,
        ready_fd,
        ready_conn,
        ready_kind,
        uninterruptible,
        stack,
        kernel_stack,
        cpu,
        limit_ns: limits_ns,
    } = rows;
    let seen = |r: &wait_record| decode_waker(r.waker) != Waker::Unseen;
    end_ns.extend(records.iter().map(|r| r.end_ns));
    start_ns.extend(records.iter().map(|r| r.start_ns));
    woken_ns.extend(records.iter().map(|r| seen(r).then_some(r.woken_ns)));
    tid.extend(records.iter().map(|r| r.tid));
    pid.extend(records.iter().map(|r| r.pid));
    kinds.extend(records.iter().filter_map(|r| kind(r.kind)));
    object.extend(records.iter().map(|r| (r.object != 0).then_some(r.object)));
    let is_file = |r: &wait_record| kind(r.kind) == Some(WaitObject::File);
    let known = |cookie: u64| (cookie != 0).then_some(cookie);
    conn.extend(
        records
            .iter()
            .map(|r| known(r.cookie).filter(|_| !is_file(r))),
    );
    let device_of = |r: &wait_record| known(r.cookie).filter(|_| is_file(r))?.try_into().ok();
    device.extend(records.iter().map(device_of));
    fd.extend(records.iter().map(|r| (r.fd >= 0).then_some(r.fd)));
    syscall.extend(
        records
            .iter()
            .map(|r| (r.syscall >= 0).then_some(r.syscall)),
    );
    wakers.extend(records.iter().map(|r| decode_waker(r.waker)));
    waker_tid.extend(records.iter().map(|r| seen(r).then_some(r.waker_tid)));
    waker_pid.extend(records.iter().map(|r| seen(r).then_some(r.waker_pid)));
    ready_fd.extend(
        records
            .iter()
            .map(|r| (r.ready_fd >= 0).then_some(r.ready_fd)),
    );
    ready_conn.extend(
        records
            .iter()
            .map(|r| (r.ready_cookie != 0).then_some(r.ready_cookie)),
    );
    ready_kind.extend(
        records
            .iter()
            .map(|r| kind(r.ready_kind).filter(|kind| *kind != WaitObject::Other)),
    );
    uninterruptible.extend(records.iter().map(|r| r.uninterruptible != 0));
    stack.extend(records.iter().map(|r| (r.stack != 0).then_some(r.stack)));
    kernel_stack.extend(
        records
            .iter()
            .map(|r| (r.kernel_stack != 0).then_some(r.kernel_stack)),
    );
    cpu.extend(records.iter().map(|r| r.cpu));
    let limit_ns = |r: &wait_record| Some(u64::try_from(r.limit_ms).ok()? * NS_IN_MS);
    limits_ns.extend(records.iter().map(limit_ns));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_object_has_a_wire_kind() {
        let mut known: Vec<WaitObject> = (0..=u8::MAX).filter_map(kind).collect();
        known.sort_unstable();
        assert_eq!(known, WaitObject::ALL);
    }

    #[test]
    fn unknown_records_are_counted_and_absent_is_not_zero() {
        let unseen = wait_record {
            fd: -1,
            ready_fd: -1,
            syscall: -1,
            limit_ms: -1,
            kind: wait_object::WAIT_PAGE_FAULT.0 as u8,
            ..Default::default()
        };
        let seen = wait_record {
            waker: wait_waker::WAKER_THREAD.0 as u8,
            kind: wait_object::WAIT_PIPE.0 as u8,
            object: 7,
            limit_ms: 2,
            ..unseen
        };
        let unknown = wait_record {
            kind: u8::MAX,
            ..seen
        };
        let mut rows = tables::Waits::default();
        assert_eq!(append(&[unseen, unknown, seen], &mut rows), 1);
        let [unseen, seen] = [0, 1].map(|index| rows.row(index));
        assert_eq!(
            (unseen.woken_ns, unseen.waker_tid, unseen.object),
            (None, None, None)
        );
        assert_eq!(
            (unseen.fd, unseen.syscall, unseen.stack),
            (None, None, None)
        );
        assert_eq!(
            (seen.woken_ns, seen.waker_tid, seen.object),
            (Some(0), Some(0), Some(7))
        );
        assert_eq!((seen.kind, rows.len()), (WaitObject::Pipe, 2));
        assert_eq!((unseen.limit_ns, seen.limit_ns), (None, Some(2_000_000)));
    }

    #[test]
    fn every_system_call_has_a_place_in_the_table() {
        let mut table = [0; 512];
        name_syscalls(&mut table);
        let named: usize = SYSCALLS.iter().map(|(_, numbers)| numbers.len()).sum();
        assert_eq!(table.iter().filter(|what| **what != 0).count(), named);
    }
}
