//! Watched sockets: one reading holds what the agent asks of a socket (`watch.bpf.h`). In: records of
//! the walks, and of sockets that close. Out: the rows that the same would be in a recording, and
//! counts of calls.

use table::TableId;

pub use crate::interface::{CALL_CLASSES, CallCounts, CallSummary, SocketReading};

use crate::interface::features::Levels;
use crate::interface::{HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source};
use crate::wire::types::{call_summary, record_kind, socket_reading};
use crate::wire::{Wire, read};

// SAFETY: `socket_reading` is `repr(C)` and made of integers, arrays of them and structs of these.
unsafe impl Wire for socket_reading {}

/// The probe of watched sockets.
pub(crate) struct Watch;

impl Probe for Watch {
    fn name(&self) -> &'static str {
        "watch"
    }

    fn table(&self) -> Option<TableId> {
        None
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.summaries
    }

    fn programs(&self) -> &'static [&'static str] {
        &["read_watched"]
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_SOCKET_READING, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        kernel.records(record_kind::RECORD_SOCKET_READING)
    }
}

/// Adds one reading of a watched socket; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    output.readings.push(make_reading(&read(body)?));
    Some(())
}

/// Makes the reading of a watched socket from its record.
fn make_reading(record: &socket_reading) -> SocketReading {
    let socket_reading {
        since_ns,
        sample,
        calls: call_summary { writes, reads },
        stages,
    } = record;
    SocketReading {
        since_ns: *since_ns,
        sample: crate::tcp_stats::read::sample_row(sample),
        stages: (stages.cookie != 0).then(|| crate::tcp_stages::make_row(stages)),
        calls: CallSummary {
            writes: *writes,
            reads: *reads,
        },
    }
}
