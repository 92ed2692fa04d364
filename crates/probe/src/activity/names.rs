//! Describes what the numbers in events mean: threads, interrupt lines, vectors, softirqs, system calls, functions.

use std::collections::HashMap;
use std::fs;
use std::rc::Rc;

use libbpf_rs::{MapCore, MapFlags};
use syscalls::Sysno;
use table::spans::RunningThread;

use super::skel::types::{activity_function, activity_thread};
use crate::processes;
use crate::wire::{Wire, read, text};

// SAFETY: `activity_thread` is `repr(C)` and made of integers.
unsafe impl Wire for activity_thread {}

/// `include/linux/interrupt.h`, in the order of their vectors.
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Interrupts of a CPU's own that have tracepoints, and their vectors: `asm/irq_vectors.h` of x86. The
/// local timer's, the reschedule interrupt's and so on.
pub(super) const VECTORS: [(&str, i16); 9] = [
    ("local_timer", 0xec),
    ("reschedule", 0xfd),
    ("call_function", 0xfc),
    ("call_function_single", 0xfb),
    ("irq_work", 0xf6),
    ("x86_platform_ipi", 0xf7),
    ("thermal_apic", 0xfa),
    ("error_apic", 0xfe),
    ("spurious_apic", 0xff),
];

/// Shows threads that have ended.
pub(super) type EndedThreads<'a> = &'a dyn Fn(u32) -> Option<RunningThread>;

/// ActivityNames that were resolved. Threads change theirs, and their numbers are used again: what is known of
/// them is forgotten after each use.
#[derive(Debug, Default)]
pub(super) struct ActivityNames {
    threads: HashMap<u32, RunningThread>,
    lines: HashMap<i16, Rc<str>>,
    known: HashMap<(&'static str, i16), Option<Rc<str>>>,
}

impl ActivityNames {
    /// Forgets the names of all threads.
    pub(super) fn forget_threads(&mut self) {
        self.threads.clear();
    }

    /// Returns who a thread is, or was.
    pub(super) fn thread(&mut self, tid: u32, ended: EndedThreads<'_>) -> RunningThread {
        let find = || running_thread(tid).or_else(|| ended(tid));
        let unknown = || RunningThread {
            tid,
            pid: None,
            comm: None,
        };
        let known = self.threads.entry(tid);
        known
            .or_insert_with(|| find().unwrap_or_else(unknown))
            .clone()
    }

    /// Returns the name of a system call by its number.
    pub(super) fn syscall(&mut self, number: i16) -> Option<Rc<str>> {
        self.name_once("syscall", number, || {
            let number = usize::try_from(number).ok()?;
            Some(Sysno::new(number)?.name().to_owned())
        })
    }

    /// Returns the name of a softirq by its vector.
    pub(super) fn softirq(&mut self, vector: i16) -> Option<Rc<str>> {
        self.name_once("softirq", vector, || {
            let name = SOFTIRQS.get(usize::try_from(vector).ok()?)?;
            Some((*name).to_owned())
        })
    }

    /// Returns the name of a CPU's own interrupt by its vector.
    pub(super) fn vector_name(&mut self, vector: i16) -> Option<Rc<str>> {
        // as the programs had it: 16 bits, with a sign
        self.name_once("vector", vector, || {
            let found = VECTORS.iter().find(|(_, number)| *number == vector)?;
            Some(found.0.to_owned())
        })
    }

    /// Returns the name of a function with hooks by its number.
    pub(super) fn function(&mut self, function: i16) -> Option<Rc<str>> {
        let name = match activity_function(u32::try_from(function).ok()?) {
            activity_function::ACTIVITY_NETIF_RECEIVE_SKB => "netif_receive_skb",
            activity_function::ACTIVITY_HRTIMER => "hrtimer",
            activity_function::ACTIVITY_TIMER => "timer",
            activity_function::ACTIVITY_PAGE_FAULT => "page_fault",
            _ => return None,
        };
        self.name_once("function", function, || Some(name.to_owned()))
    }

    /// Returns the name of an interrupt line: the drivers that handle it.
    pub(super) fn line(&mut self, number: i16) -> Option<Rc<str>> {
        if !self.lines.contains_key(&number) {
            let table = fs::read_to_string("/proc/interrupts").unwrap_or_default();
            self.lines.extend(table.lines().filter_map(line));
        }
        self.lines.get(&number).cloned()
    }

    /// Returns the name of a number of this kind; calls `name` only for a new number.
    fn name_once(
        &mut self,
        what: &'static str,
        number: i16,
        name: impl FnOnce() -> Option<String>,
    ) -> Option<Rc<str>> {
        let known = self.known.entry((what, number));
        known.or_insert_with(|| name().map(Into::into)).clone()
    }
}

/// Returns a thread that still exists; `None` if another thread may have its id.
fn running_thread(tid: u32) -> Option<RunningThread> {
    if !processes::sees_all() {
        return None;
    }
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    Some(RunningThread {
        tid,
        pid: field("Tgid:").and_then(|pid| pid.trim().parse().ok()),
        comm: field("Name:").map(|comm| comm.trim().into()),
    })
}

/// Returns a thread from the map of ended threads.
pub(super) fn find_ended(tid: u32, threads: &impl MapCore) -> Option<RunningThread> {
    let bytes = threads.lookup(&tid.to_ne_bytes(), MapFlags::ANY).ok()??;
    let activity_thread { pid, comm } = read(&bytes)?;
    Some(RunningThread {
        tid,
        pid: Some(pid),
        comm: Some(text(&comm).into()),
    })
}

/// A line of `/proc/interrupts`: `24:  17  0  PCI-MSI 1-edge  virtio0-input.0`. What follows two blanks
/// last are the handlers.
fn line(line: &str) -> Option<(i16, Rc<str>)> {
    let (number, rest) = line.split_once(':')?;
    let number = number.trim().parse().ok()?;
    let handlers = rest.trim_end().rsplit("  ").next()?.trim();
    (!handlers.is_empty()).then(|| (number, handlers.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupt_lines_have_their_handlers_names() {
        let text =
            " 24:          0       1234  PCI-MSIX-0000:00:03.0   1-edge      virtio1-input.0";
        assert_eq!(line(text), Some((24, "virtio1-input.0".into())));
        assert_eq!(line("NMI:   0   0   Non-maskable interrupts"), None);
        assert_eq!(line("           CPU0       CPU1"), None);
    }

    #[test]
    fn event_numbers_have_names() {
        let mut names = ActivityNames::default();
        assert_eq!(names.softirq(3).as_deref(), Some("NET_RX"));
        assert_eq!(names.softirq(77), None);
        assert_eq!(names.vector_name(0xec).as_deref(), Some("local_timer"));
        let read = i16::try_from(libc::SYS_read).unwrap();
        assert_eq!(names.syscall(read).as_deref(), Some("read"));
        assert_eq!(names.syscall(-1), None);
        assert_eq!(names.function(0).as_deref(), Some("netif_receive_skb"));
    }
}
