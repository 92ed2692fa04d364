//! AUXTRACE records → spans: the buffers of each CPU in order, decoded, given to the threads that
//! had the CPU.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::bytes::FieldReader;
use super::file::{PerfData, PerfRecord, record_type};
use super::sideband::{Sideband, Thread};
use crate::TraceImport;
use crate::branch::{Branch, CodeLocation};
use crate::intel_pt::{ClockRatios, Decoder, FlowEvent, PtEvent, StopReason, TimeConversion};
use crate::stack::CallStack;
use table::spans::SpanOwner;

/// Kind of trace that AUXTRACE_INFO announces (`PERF_AUXTRACE_INTEL_PT`).
const INTEL_PT: u32 = 1;
/// Widest shift of MTC packets that hardware has.
const MAX_MTC_SHIFT: u64 = 15;

/// Holds the fields of AUXTRACE_INFO of an Intel PT trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TraceInfo {
    conv: TimeConversion,
    ratios: ClockRatios,
    snapshots: bool,
}

/// The trace of one CPU, or of one thread on any.
#[derive(Debug, Default)]
struct AuxQueue {
    /// First time stamp near the trace's begin.
    reference: u64,
    cpu: Option<u32>,
    tid: Option<u32>,
    bytes: Vec<u8>,
}

/// A branch or stop of a trace, at perf's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimedEvent {
    pub(super) time_ns: u64,
    pub(super) cpu: Option<u32>,
    pub(super) thread: Thread,
    pub(super) flow: FlowEvent,
}

/// Decodes all traces of a file.
pub(super) fn read(file: &PerfData<'_>, sideband: &Sideband, imported: &mut TraceImport) {
    let mut stops = 0_u64;
    let found = decode(file, sideband, |events| {
        let mut open: Option<(Thread, CallStack)> = None;
        for event in events {
            stops += u64::from(matches!(
                event.flow,
                FlowEvent::Stop {
                    why: StopReason::NoCode,
                    ..
                }
            ));
            apply_event(event, sideband, &mut open, imported);
        }
        if let Some((_, stack)) = open {
            stack.finish().store(&mut imported.activities);
        }
    });
    if let Err(note) = found {
        imported.notes.push(note.to_owned());
    }
    if stops > 0 {
        imported.notes.push(format!(
            "Intel PT without the programs' code: decoding stopped {stops} times, each a row of kind \
             decode_error; `perf script --itrace=bep` on the recorded host makes text that is whole"
        ));
    }
}

/// Gives an event to the thread that had the CPU. When another thread gets it, the spans of the one
/// before end unseen.
fn apply_event(
    event: TimedEvent,
    sideband: &Sideband,
    open: &mut Option<(Thread, CallStack)>,
    imported: &mut TraceImport,
) {
    let TimedEvent {
        time_ns,
        cpu,
        thread,
        flow,
    } = event;
    if let Some((_, stack)) = open.take_if(|(owner, _)| *owner != thread) {
        stack.finish().store(&mut imported.activities);
    }
    let (_, stack) = open.get_or_insert_with(|| {
        let owner = SpanOwner {
            pid: thread.pid,
            tid: thread.tid,
            cpu: cpu.and_then(|cpu| u16::try_from(cpu).ok()),
        };
        (thread, CallStack::new(owner, false, time_ns))
    });
    match flow {
        FlowEvent::Stop { why, at: _ } => stack.error(Some(time_ns), why.message().into()),
        FlowEvent::Branch {
            kind,
            edge,
            from: _,
            to,
        } => {
            let file = sideband.file_at(thread.pid, to, time_ns);
            let function = file.map(|file| bracketed(&file));
            let to = CodeLocation {
                address: to,
                function,
            };
            let branch = Branch {
                kind,
                edge,
                in_transaction: false,
                to,
            };
            stack.branch(time_ns, branch);
        }
    }
}

/// Returns the name for code of a file without symbols, as `perf script` prints it.
fn bracketed(file: &str) -> Rc<str> {
    format!("[{file}]").into()
}

/// Decodes the traces of each CPU in turn.
///
/// # Errors
/// Why nothing can be decoded.
pub(super) fn decode(
    file: &PerfData<'_>,
    sideband: &Sideband,
    mut each: impl FnMut(&mut dyn Iterator<Item = TimedEvent>),
) -> Result<(), &'static str> {
    let traced = |record: &&PerfRecord<'_>| record.kind == record_type::AUXTRACE;
    if !file.records.iter().any(|record| traced(&record)) {
        return Err("the file holds no trace (AUXTRACE records)");
    }
    let info = file
        .records
        .iter()
        .find_map(|record| trace_info(file, record));
    let Some(info) = info else {
        return Err("the trace is not Intel PT, or does not say what its clock is");
    };
    for queue in join_queues(file, info.snapshots).values() {
        let decoder = Decoder::new(&queue.bytes, info.ratios, queue.reference);
        let timed = |PtEvent { tsc, flow }| {
            let time_ns = info.conv.ns(tsc);
            let thread = queue.cpu.and_then(|cpu| sideband.thread_at(cpu, time_ns));
            let only = Thread {
                pid: None,
                tid: queue.tid,
            };
            TimedEvent {
                time_ns,
                cpu: queue.cpu,
                thread: thread.unwrap_or(only),
                flow,
            }
        };
        each(&mut decoder.map(timed));
    }
    Ok(())
}

/// Returns the fields of an AUXTRACE_INFO record of Intel PT (`INTEL_PT_PMU_TYPE` and following).
fn trace_info(file: &PerfData<'_>, record: &PerfRecord<'_>) -> Option<TraceInfo> {
    if record.kind != record_type::AUXTRACE_INFO {
        return None;
    }
    let mut fields = FieldReader(record.body);
    let kind = fields.u32()?;
    fields.u32()?;
    if kind != INTEL_PT {
        return None;
    }
    let pmu = fields.u64()?;
    let conv = TimeConversion {
        shift: u32::try_from(fields.u64()?).ok()?,
        mult: fields.u64()?,
        zero: fields.u64()?,
    };
    // cap_user_time_zero, tsc_bit, noretcomp_bit, have_sched_switch
    fields.skip(4 * 8)?;
    let snapshots = fields.u64()? != 0;
    // per_cpu_mmaps, mtc_bit
    fields.skip(2 * 8)?;
    let mtc_bits = fields.u64().unwrap_or(0);
    let tsc_ctc = (fields.u64().unwrap_or(0), fields.u64().unwrap_or(0));
    fields.u64();
    let max_non_turbo = fields.u64().unwrap_or(0);
    let config = file.attrs.iter().find(|attr| u64::from(attr.pmu) == pmu);
    let mtc_shift = config.map_or(0, |attr| {
        (attr.config & mtc_bits) >> mtc_bits.trailing_zeros().min(63)
    });
    let small = |number: u64| u32::try_from(number).unwrap_or(0);
    Some(TraceInfo {
        conv,
        ratios: ClockRatios {
            mtc_shift: mtc_shift.min(MAX_MTC_SHIFT) as u32,
            tsc_ctc: (small(tsc_ctc.0), small(tsc_ctc.1)),
            max_non_turbo: small(max_non_turbo),
        },
        snapshots,
    })
}

/// Joins the buffers of each trace. Snapshots do not join: each is a trace of its own.
fn join_queues(file: &PerfData<'_>, snapshots: bool) -> BTreeMap<(u32, usize), AuxQueue> {
    let mut queues = BTreeMap::<_, AuxQueue>::new();
    for (number, record) in file.records.iter().enumerate() {
        let Some((index, reference, tid, cpu)) = buffer(record) else {
            continue;
        };
        let number = if snapshots { number } else { 0 };
        let queue = queues.entry((index, number)).or_insert_with(|| AuxQueue {
            reference,
            cpu,
            tid,
            bytes: Vec::new(),
        });
        queue.bytes.extend_from_slice(record.trace);
    }
    queues
}

/// Returns index, reference, thread and CPU of an AUXTRACE record.
fn buffer(record: &PerfRecord<'_>) -> Option<(u32, u64, Option<u32>, Option<u32>)> {
    if record.kind != record_type::AUXTRACE {
        return None;
    }
    let mut fields = FieldReader(record.body);
    fields.skip(16)?;
    let reference = fields.u64()?;
    let (index, tid, cpu) = (fields.u32()?, fields.u32()?, fields.u32()?);
    Some((
        index,
        reference,
        super::file::known_id(tid),
        super::file::known_id(cpu),
    ))
}
