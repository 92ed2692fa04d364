//! Call stacks with which threads wait: what `stacks.bpf.h` hands over of each stack, once, becomes
//! frames, each a place in a file, and in the end names of functions and lines of source.
//!
//! ```text
//! mappings   which file lies where in a process
//! code_events the same of processes that have ended, as the kernel recorded it
//! objects    those files, kept open: a program may be gone before its names are resolved
//! signatures what their unwind tables say of signed return addresses, taken out of them
//! unwind     registers and a copy of the stack → return addresses
//! functions  an address → where its function begins
//! generated  code that programs make, by the maps that they write (perf_map)
//! frames     a stack → rows of table `stacks`
//! symbols    places in files → rows of table `symbols`
//! ```

mod code_events;
mod frames;
mod functions;
mod generated;
mod mappings;
mod objects;
mod perf_map;
mod signatures;
mod symbols;
mod unwind;

pub use crate::interface::{SampledAddress, SeenStack};
pub use frames::Stacks;
pub(crate) use frames::unwind_through;
pub(crate) use perf_map::PerfMap;

use table::TableId;
use table::manifest::{Coverage, ProbeState};

use crate::interface::features::Levels;
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, ProgramKey, RING_FULL,
    Registers, Source, on,
};
use crate::wire::types::stack_seen;
use crate::wire::{Wire, read_padded};

/// Name of what is known of programs that have ended, among probes.
const ENDED_PROGRAMS: &str = "waits.ended_programs";

/// Most functions of Python that the kernel side hands over of a stack (`python.h`).
const PYTHON_FRAMES: usize = 32;

/// Most addresses that the kernel hands over of a stack (`stacks.h`).
const STACK_FRAMES: usize = 64;

// SAFETY: `stack_seen` is `repr(C)` and made of integers and arrays of integers.
unsafe impl Wire for stack_seen {}

/// The probe of call stacks. A record of the kernel becomes as many rows as the stack has frames.
pub(crate) struct StackFrames;

impl Probe for StackFrames {
    fn name(&self) -> &'static str {
        "waits.stacks"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::StackFrame)
    }

    fn detail(&self) -> Detail {
        Detail::Waits
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.waits
    }

    fn maps(&self) -> &'static [&'static str] {
        &["stack_ring", "stack_numbers"]
    }

    /// Counts the stacks that a full ring had no room for.
    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        let mut count = ProbeCount::default();
        let lost = kernel.variables().map_or(0, |it| it.stacks_lost);
        count.add_unmade(RING_FULL, lost);
        Ok(count)
    }

    fn source(&self) -> Source {
        Source::Ring(|maps| &maps.stack_ring, decode)
    }

    fn counts_rows(&self) -> bool {
        true
    }
}

/// The probe of names of functions, which are resolved in user space.
pub(crate) struct Symbols;

impl Probe for Symbols {
    fn name(&self) -> &'static str {
        "waits.symbols"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::Symbol)
    }
}

/// Returns whether stacks of programs that have ended have names, or why not.
pub fn ended_programs_coverage(opened: &Result<(), String>) -> Coverage {
    let Err(why) = opened else {
        return on(ENDED_PROGRAMS);
    };
    Coverage {
        probe: ENDED_PROGRAMS.to_owned(),
        state: ProbeState::Off {
            why: format!(
                "the kernel does not record what programs map ({why}): stacks of programs that end soon may have no names"
            ),
            remedy: "allow performance events: CAP_PERFMON, CAP_IPC_LOCK, CONFIG_PERF_EVENTS"
                .to_owned(),
        },
    }
}

/// Adds one stack; returns 1 if the record could not be read.
fn decode(output: &mut ProbeOutput, bytes: &[u8]) -> u64 {
    let stack = decode_stack(bytes);
    let undecoded = u64::from(stack.is_none());
    output.stacks.extend(stack);
    undecoded
}

/// Adds one stack of a sample; returns 1 if the record could not be read.
fn decode_sampled(output: &mut ProbeOutput, bytes: &[u8]) -> u64 {
    let stack = decode_stack(bytes);
    let undecoded = u64::from(stack.is_none());
    output.sampled_stacks.extend(stack);
    undecoded
}

/// The probe of stacks of samples, which come by a ring of their own: rows of the same tables.
pub(crate) struct SampledStacks;

impl Probe for SampledStacks {
    fn name(&self) -> &'static str {
        "waits.stacks"
    }

    fn table(&self) -> Option<TableId> {
        None
    }

    fn detail(&self) -> Detail {
        Detail::Waits
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.waits
    }

    fn source(&self) -> Source {
        Source::Ring(|maps| &maps.sample_stack_ring, decode_sampled)
    }
}

/// Decodes a stack's record; `None` if it is damaged.
fn decode_stack(bytes: &[u8]) -> Option<SeenStack> {
    // Only what was copied of the stack is handed over.
    let record: stack_seen = read_padded(bytes, std::mem::offset_of!(stack_seen, copied))?;
    let program = ProgramKey {
        pid: record.pid,
        started_ns: record.started_ns,
        execs: record.execs,
    };
    Some(SeenStack {
        time_ns: record.time_ns,
        number: record.number,
        program: (record.pid != 0).then_some(program),
        addresses: record.addresses.get(..record.frames as usize)?.to_vec(),
        registers: Registers {
            ip: record.registers.ip,
            sp: record.registers.sp,
            fp: record.registers.fp,
            lr: record.registers.lr,
        },
        codes: record.codes.get(..record.code_count as usize)?.to_vec(),
        copied: record.copied.get(..record.copied_bytes as usize)?.to_vec(),
    })
}
