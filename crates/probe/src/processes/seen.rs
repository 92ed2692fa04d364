//! Processes as the kernel side meets them (`bpf/process.h`), which may be gone by the time anyone looks them up.

use table::TableId;

use crate::clock::monotonic_ns;
use crate::interface::features::Levels;
use crate::interface::{
    HooksError, KernelCounts, ObservedProcess, Probe, ProbeCount, ProbeOutput, Source,
};
use crate::wire::read;
use crate::wire::types::record_kind;

/// The probe of processes. The kernel side reports those that became other programs; owners of sockets are in the
/// records of sockets. Which of them is a row, user space knows.
pub(crate) struct Processes;

impl Probe for Processes {
    fn name(&self) -> &'static str {
        "processes"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::Process)
    }

    fn is_on(&self, levels: Levels) -> bool {
        !levels.summaries
    }

    fn programs(&self) -> &'static [&'static str] {
        &[
            "handle_sched_process_fork",
            "handle_sched_process_exec",
            "handle_sched_process_exit",
        ]
    }

    fn maps(&self) -> &'static [&'static str] {
        &["tasks", "peer_tuples"]
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_PROGRAM_SEEN, decode)])
    }

    fn counts_rows(&self) -> bool {
        true
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        let kernel = kernel.records(record_kind::RECORD_PROGRAM_SEEN)?;
        let mut count = ProbeCount::default();
        for (cause, records) in kernel.lost {
            count.add_unmade(cause, records);
        }
        Ok(count)
    }
}

/// Adds a process that was seen; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    output
        .programs
        .extend(ObservedProcess::from_wire(&read(body)?, monotonic_ns()));
    Some(())
}
