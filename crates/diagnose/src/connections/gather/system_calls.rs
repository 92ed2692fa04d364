//! CPU time of processes in the kernel's code for sockets: rows of `on_cpu_samples` in, with the kernel's stacks that say
//! what the system call was for; out, how much of a process's CPU time its send and receive calls took. A call that a stack
//! does not show counts as none: the result is a lower bound, but for the error of sampling.

use std::collections::HashMap;

use table::Columns;
use table::tables::{Calls, OnCpuSamples, StackFrames, Symbols};

/// The file of the kernel's frames.
const KERNEL: &str = "[kernel]";

/// Functions of system calls that send on a socket (net/socket.c, net/ipv4/tcp.c).
const SEND_FUNCTIONS: [&str; 6] = [
    "sock_write_iter",
    "__sys_sendto",
    "____sys_sendmsg",
    "__sys_sendmmsg",
    "sock_sendmsg",
    "tcp_sendmsg",
];

/// The same of those that receive.
const RECEIVE_FUNCTIONS: [&str; 6] = [
    "sock_read_iter",
    "__sys_recvfrom",
    "____sys_recvmsg",
    "__sys_recvmmsg",
    "sock_recvmsg",
    "tcp_recvmsg",
];

/// Functions that run programs of a tracer, such as the recorder's own hooks.
const TRACER_FUNCTION: &str = "bpf_trace_run";

/// Purpose of a kernel stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KernelWork {
    Send,
    Receive,
    Tracer,
}

/// CPU time of a process, as samples show it, and its socket calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemCallTime {
    /// All of its CPU time, ns.
    pub cpu_ns: u64,
    /// In send calls on sockets, ns.
    pub send_ns: u64,
    /// In receive calls on sockets, ns.
    pub receive_ns: u64,
    /// Samples in either.
    pub samples: u64,
    /// Send calls on recorded connections that moved bytes.
    pub sends: u64,
    /// Receive calls on recorded connections that moved bytes.
    pub receives: u64,
}

/// All processes.
#[derive(Debug, Default)]
pub struct SystemCallTable {
    /// Kernel frames, by place: the stacks with it.
    stacks_of: HashMap<u64, Vec<u32>>,
    work: HashMap<u32, KernelWork>,
    processes: HashMap<u32, SystemCallTime>,
}

impl SystemCallTable {
    /// Adds frames of kernel stacks (table `stacks`); call it before `add_symbols`.
    pub fn add_frames(&mut self, rows: &StackFrames) {
        for row in 0..rows.len() {
            let is_kernel = rows.object[row].as_deref() == Some(KERNEL);
            if let Some(offset) = rows.offset[row].filter(|_| is_kernel) {
                self.stacks_of
                    .entry(offset)
                    .or_default()
                    .push(rows.stack[row]);
            }
        }
    }

    /// Adds names of functions (table `symbols`); call it before samples are added.
    pub fn add_symbols(&mut self, rows: &Symbols) {
        for row in 0..rows.len() {
            let function = rows.function[row]
                .as_deref()
                .filter(|_| rows.object[row] == KERNEL);
            let Some(work) = function.and_then(kernel_work) else {
                continue;
            };
            for stack in self.stacks_of.get(&rows.offset[row]).into_iter().flatten() {
                let known = self.work.entry(*stack).or_insert(work);
                // a tracer runs within the call that it looks at
                if work == KernelWork::Tracer {
                    *known = work;
                }
            }
        }
    }

    /// Adds samples that were taken within `span`.
    pub fn add_samples(&mut self, rows: &OnCpuSamples, span: (u64, u64)) {
        for row in 0..rows.len() {
            if !(span.0..=span.1).contains(&rows.time_ns[row]) {
                continue;
            }
            let length_ns = rows.length_ns[row];
            let process = self.processes.entry(rows.pid[row]).or_default();
            process.cpu_ns += length_ns;
            let stack = rows.kernel_stack[row].filter(|_| rows.syscall[row].is_some());
            match stack.and_then(|stack| self.work.get(&stack)) {
                Some(KernelWork::Send) => process.send_ns += length_ns,
                Some(KernelWork::Receive) => process.receive_ns += length_ns,
                Some(KernelWork::Tracer) | None => continue,
            }
            process.samples += 1;
        }
    }

    /// Adds calls that ended within `span`.
    pub fn add_calls(&mut self, rows: &Calls, span: (u64, u64)) {
        let mut at = 0;
        while at < rows.len() {
            let pid = rows.pid[at];
            let same = rows.pid[at..].iter().take_while(|it| **it == pid).count();
            let process = self.processes.entry(pid).or_default();
            for row in at..at + same {
                let is_within = (span.0..=span.1).contains(&rows.end_ns[row]);
                let moved = u64::from(is_within && rows.result[row] > 0);
                match rows.is_send[row] {
                    true => process.sends += moved,
                    false => process.receives += moved,
                }
            }
            at += same;
        }
    }

    /// Returns the time of a process in socket calls; `None`: no sample shows it in one.
    pub fn get(&self, pid: u32) -> Option<SystemCallTime> {
        let known = self.processes.get(&pid).copied();
        known.filter(|it| it.samples > 0)
    }
}

/// Returns what a function of the kernel works on; None if it shows nothing.
fn kernel_work(function: &str) -> Option<KernelWork> {
    // parts of a function that the compiler made: `name.constprop.0`
    let name = function.split('.').next().unwrap_or(function);
    if SEND_FUNCTIONS.contains(&name) {
        return Some(KernelWork::Send);
    }
    if RECEIVE_FUNCTIONS.contains(&name) {
        return Some(KernelWork::Receive);
    }
    name.starts_with(TRACER_FUNCTION)
        .then_some(KernelWork::Tracer)
}

#[cfg(test)]
mod tests {
    use table::Caller;
    use table::tables::{OnCpuSample, StackFrame, Symbol};

    use super::*;

    fn frame(stack: u32, depth: u16, offset: u64, is_kernel: bool) -> StackFrame {
        StackFrame {
            time_ns: 0,
            stack,
            depth,
            pid: (!is_kernel).then_some(7),
            object: Some(if is_kernel { KERNEL } else { "prog" }.to_owned()),
            build_id: None,
            offset: Some(offset),
            caller: Caller::Known,
        }
    }

    fn symbol(offset: u64, function: &str) -> Symbol {
        Symbol {
            time_ns: 0,
            object: KERNEL.to_owned(),
            build_id: None,
            offset,
            level: 0,
            function: Some(function.to_owned()),
            source: None,
            line: None,
        }
    }

    fn sample(kernel_stack: Option<u32>, syscall: Option<i32>) -> OnCpuSample {
        OnCpuSample {
            time_ns: 5,
            length_ns: 10,
            tid: 7,
            pid: 7,
            in_kernel: kernel_stack.is_some(),
            syscall,
            stack: None,
            kernel_stack,
            cpu: 0,
        }
    }

    #[test]
    fn only_stacks_with_a_socket_function_count() {
        let mut table = SystemCallTable::default();
        let mut frames = StackFrames::default();
        // 1: a send; 2: a write to a file; 3: the recorder within a send; 4: of the program, at the place of a send
        for (stack, depth, offset) in [(1, 0, 9), (1, 1, 10), (2, 0, 11), (3, 0, 12), (3, 1, 10)] {
            frames.push(frame(stack, depth, offset, true));
        }
        frames.push(frame(4, 0, 10, false));
        table.add_frames(&frames);
        let mut symbols = Symbols::default();
        for (offset, function) in [
            (12, "bpf_trace_run3"),
            (10, "sock_write_iter"),
            (11, "ext4_file_write_iter"),
            (9, "tcp_sendmsg_locked.isra.0"),
        ] {
            symbols.push(symbol(offset, function));
        }
        table.add_symbols(&symbols);
        let mut samples = OnCpuSamples::default();
        for (stack, syscall) in [
            (Some(1), Some(1)),
            (Some(1), None),
            (Some(2), Some(1)),
            (Some(3), Some(1)),
            (Some(4), Some(1)),
            (None, None),
        ] {
            samples.push(sample(stack, syscall));
        }
        table.add_samples(&samples, (0, 9));
        table.add_samples(&samples, (6, 9));
        let time = table.get(7).expect("samples");
        assert_eq!((time.cpu_ns, time.send_ns, time.receive_ns), (60, 10, 0));
        assert_eq!(table.get(8), None);
    }
}
