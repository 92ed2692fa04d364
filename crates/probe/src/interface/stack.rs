//! Stacks and functions that the kernel side hands over: user space makes frames and names of them.

/// Where a sample interrupted a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledAddress {
    /// Number of the stack of its callers, as the kernel gave it; 0: none.
    pub(crate) callers: u32,
    /// The address.
    pub(crate) address: u64,
}

/// A stack as the kernel handed it over.
#[derive(Debug, Clone)]
pub struct SeenStack {
    /// When it was first seen, `CLOCK_MONOTONIC`.
    pub(crate) time_ns: u64,
    /// Its number in rows of `waits`.
    pub(crate) number: u32,
    /// The program; `None` for a stack of the kernel.
    pub(crate) program: Option<ProgramKey>,
    /// Return addresses that the frame pointers show, innermost first.
    pub(crate) addresses: Vec<u64>,
    pub(crate) registers: Registers,
    /// Code objects of Python's functions, innermost first.
    pub(crate) codes: Vec<u64>,
    /// A copy of the stack, from the stack pointer on.
    pub(crate) copied: Vec<u8>,
}

/// The program of a process: another one after each `execve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ProgramKey {
    pub(crate) pid: u32,
    pub(crate) started_ns: u64,
    pub(crate) execs: u32,
}

/// Registers with which a thread entered the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers {
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    /// Of frame pointers, if the program keeps them.
    pub(crate) fp: u64,
    /// Link register: the return address until the function calls another; 0 where calls put it on the stack.
    #[cfg_attr(
        not(target_arch = "aarch64"),
        expect(dead_code, reason = "it is 0 there")
    )]
    pub(crate) lr: u64,
}

/// A function of Python, as the kernel side handed it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonCode {
    pub(crate) pid: u32,
    /// Address of its code object.
    pub(crate) code: u64,
    /// Its qualified name; until Python 3.10, its name.
    pub(crate) function: String,
    pub(crate) file: Option<String>,
    /// The line where it begins.
    pub(crate) line: u32,
}
