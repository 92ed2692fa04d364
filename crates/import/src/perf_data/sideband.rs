//! perf's records beside the trace: threads' names, which thread had which CPU, and which
//! file lay where in memory.

use std::collections::BTreeMap;
use std::rc::Rc;

use table::ActivitySource;
use table::tables::Activities;

use super::bytes::FieldReader;
use super::file::{PerfData, PerfRecord, RecordStamp, known_id, record_type};
use crate::tally::Tally;
use table::spans::{CpuTimeline, RunningThread, SuspendedActivities};

/// Bit of `misc`: the thread leaves the CPU.
const SWITCH_OUT: u16 = 1 << 13;
/// Bits of `misc` that say whether an address is the kernel's; the value for the kernel.
const CPU_MODE: u16 = 7;
const CPU_MODE_KERNEL: u16 = 1;

/// A thread and its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Thread {
    pub(crate) pid: Option<u32>,
    pub(crate) tid: Option<u32>,
}

#[derive(Debug)]
struct Mapping {
    time_ns: u64,
    /// `None`: the kernel.
    pid: Option<u32>,
    begin: u64,
    end: u64,
    file: Rc<str>,
}

/// The records, sorted by kind.
#[derive(Debug, Default)]
pub(crate) struct Sideband {
    /// The thread that got each CPU, in order of time.
    switches: BTreeMap<u32, Vec<(u64, Thread)>>,
    /// Names of threads, in order of time.
    names: BTreeMap<u32, Vec<(u64, Rc<str>)>>,
    mappings: Vec<Mapping>,
}

impl Sideband {
    /// Reads the records beside the trace, and counts those that are not used.
    pub(crate) fn read(file: &PerfData<'_>, tally: &mut Tally) -> Self {
        let mut sideband = Self::default();
        for record in &file.records {
            let stamp = file.stamp(record);
            match sideband.take_record(record, stamp) {
                Some(true) => tally.use_one(),
                Some(false) => tally.ignore(loss_reason(record.kind)),
                None => tally.ignore("records that are cut off"),
            }
        }
        for switches in sideband.switches.values_mut() {
            switches.sort_by_key(|(time_ns, _)| *time_ns);
        }
        for names in sideband.names.values_mut() {
            names.sort_by_key(|(time_ns, _)| *time_ns);
        }
        sideband.mappings.sort_by_key(|mapping| mapping.time_ns);
        sideband
    }

    /// Reads one record; returns whether it is used; `None`: it is cut off.
    fn take_record(&mut self, record: &PerfRecord<'_>, stamp: RecordStamp) -> Option<bool> {
        let fields = FieldReader(record.body);
        match record.kind {
            record_type::SWITCH_CPU_WIDE => self.switch(record, stamp),
            record_type::ITRACE_START => self.trace_starts(fields, stamp),
            record_type::COMM => self.name(fields, stamp),
            record_type::MMAP => self.add_mapping(record, fields, 0, stamp),
            // Device, inode and protection stand before the name.
            record_type::MMAP2 => self.add_mapping(record, fields, 32, stamp),
            kind => Some(is_trace(kind)),
        }
    }

    /// Keeps which thread runs on a CPU from now on. None: cut off; false: without CPU or time.
    fn switch(&mut self, record: &PerfRecord<'_>, stamp: RecordStamp) -> Option<bool> {
        let mut fields = FieldReader(record.body);
        let (pid, tid) = (fields.u32()?, fields.u32()?);
        let (Some(cpu), Some(time_ns)) = (stamp.cpu, stamp.time_ns) else {
            return Some(false);
        };
        let thread = match record.misc & SWITCH_OUT {
            0 => Thread {
                pid: stamp.pid,
                tid: stamp.tid,
            },
            _ => Thread {
                pid: known_id(pid),
                tid: known_id(tid),
            },
        };
        self.switches
            .entry(cpu)
            .or_default()
            .push((time_ns, thread));
        Some(true)
    }

    /// Keeps the thread on a CPU when its trace begins. None: cut off; false: without CPU or time.
    fn trace_starts(&mut self, mut fields: FieldReader<'_>, stamp: RecordStamp) -> Option<bool> {
        let (pid, tid) = (known_id(fields.u32()?), known_id(fields.u32()?));
        let (Some(cpu), Some(time_ns)) = (stamp.cpu, stamp.time_ns) else {
            return Some(false);
        };
        let on_cpu = self.switches.entry(cpu).or_default();
        on_cpu.push((time_ns, Thread { pid, tid }));
        Some(true)
    }

    /// Keeps a thread's name since this time. None: cut off.
    fn name(&mut self, mut fields: FieldReader<'_>, stamp: RecordStamp) -> Option<bool> {
        fields.u32()?;
        let tid = fields.u32()?;
        let since_ns = stamp.time_ns.unwrap_or_default();
        let name = (since_ns, fields.text().into());
        self.names.entry(tid).or_default().push(name);
        Some(true)
    }

    /// Keeps a file that a process has mapped. None: cut off.
    fn add_mapping(
        &mut self,
        record: &PerfRecord<'_>,
        mut fields: FieldReader<'_>,
        skipped: usize,
        stamp: RecordStamp,
    ) -> Option<bool> {
        let pid = known_id(fields.u32()?);
        fields.u32()?;
        let (begin, len) = (fields.u64()?, fields.u64()?);
        fields.u64()?;
        fields.skip(skipped)?;
        let in_kernel = record.misc & CPU_MODE == CPU_MODE_KERNEL;
        let file = fields.text();
        let file = match file.strip_prefix("[kernel.kallsyms]") {
            Some(_) => "[kernel.kallsyms]".into(),
            None => file.into(),
        };
        self.mappings.push(Mapping {
            time_ns: stamp.time_ns.unwrap_or_default(),
            pid: pid.filter(|_| !in_kernel),
            begin,
            end: begin.saturating_add(len),
            file,
        });
        Some(true)
    }

    /// Returns the thread that had a CPU at a time.
    pub(crate) fn thread_at(&self, cpu: u32, time_ns: u64) -> Option<Thread> {
        let switches = self.switches.get(&cpu)?;
        let after = switches.partition_point(|(switch_ns, _)| *switch_ns <= time_ns);
        Some(switches.get(after.checked_sub(1)?)?.1)
    }

    /// Returns the file with the code at an address of a process.
    pub(crate) fn file_at(&self, pid: Option<u32>, address: u64, time_ns: u64) -> Option<Rc<str>> {
        let holds = |mapping: &&Mapping| {
            (mapping.pid.is_none() || mapping.pid == pid)
                && (mapping.begin..mapping.end).contains(&address)
        };
        let known = self
            .mappings
            .partition_point(|mapping| mapping.time_ns <= time_ns);
        let mapping = self.mappings[..known].iter().rev().find(holds)?;
        Some(Rc::clone(&mapping.file))
    }

    /// Adds the spans of threads on CPUs.
    pub(crate) fn store_tasks(&self, into: &mut Activities) {
        for (cpu, switches) in &self.switches {
            let Some((first_ns, _)) = switches.first() else {
                continue;
            };
            let mut core = CpuTimeline::new(u16::try_from(*cpu).ok(), *first_ns);
            let mut suspended = SuspendedActivities::new();
            let mut last = None;
            for (time_ns, thread) in switches {
                let Some(tid) = thread.tid else { continue };
                let source = ActivitySource::Tracepoints;
                core.advance(*time_ns, None, source, &mut suspended);
                if last != Some(tid) {
                    let runner = self.running_thread(tid, thread.pid, *time_ns);
                    core.switch(*time_ns, runner, source, &mut suspended);
                }
                last = Some(tid);
            }
            core.finish(into);
        }
    }

    /// Returns the thread with its name at this time.
    fn running_thread(&self, tid: u32, pid: Option<u32>, time_ns: u64) -> RunningThread {
        let name = self.names.get(&tid).and_then(|names| {
            let after = names.partition_point(|(since_ns, _)| *since_ns <= time_ns);
            names.get(after.checked_sub(1)?)
        });
        RunningThread {
            tid,
            pid,
            comm: name.map(|(_, name)| Rc::clone(name)),
        }
    }
}

/// Records that [`super::trace`] reads.
fn is_trace(kind: u32) -> bool {
    matches!(
        kind,
        record_type::AUXTRACE_INFO
            | record_type::AUXTRACE
            | record_type::TIME_CONV
            | record_type::HEADER_ATTR
    )
}

/// Returns which data a record of loss means.
fn loss_reason(kind: u32) -> &'static str {
    match kind {
        record_type::SAMPLE => "samples, which `perf script` can turn into text",
        record_type::LOST => "records of losses beside the trace",
        record_type::AUX => "records of the progress of the trace",
        record_type::SWITCH_CPU_WIDE | record_type::ITRACE_START => "switches without CPU or time",
        record_type::COMPRESSED => "compressed records",
        _ => "records of no use here",
    }
}
