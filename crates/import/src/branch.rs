//! One step of a branch trace: a branch from one place in the code to another, or that it broke.

use std::rc::Rc;

/// Addresses from here on are the kernel's (the upper half of x86-64's address space).
pub(crate) const KERNEL_BEGIN: u64 = 1 << 63;

/// Kind of a branch of the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BranchKind {
    Call,
    Return,
    /// A jump, conditional or not, or a software interrupt instruction.
    Jump,
    Syscall,
    /// An interrupt or exception.
    Interrupt,
    Sysret,
    Iret,
    /// A transaction was rolled back.
    TransactionAbort,
    /// Not known: the trace only begins or ends here.
    Unknown,
}

/// Whether the trace itself begins or ends with the branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowEdge {
    Begin,
    End,
    Inside,
}

/// A place in the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodeLocation {
    pub(crate) address: u64,
    /// Its function, or in brackets the file that has no symbol for it; `None`: neither is known.
    pub(crate) function: Option<Rc<str>>,
}

impl CodeLocation {
    pub(crate) fn in_kernel(&self) -> bool {
        self.address >= KERNEL_BEGIN
    }
}

/// One branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) kind: BranchKind,
    pub(crate) edge: FlowEdge,
    /// Within a memory transaction, which may be rolled back.
    pub(crate) in_transaction: bool,
    pub(crate) to: CodeLocation,
}
