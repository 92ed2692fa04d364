//! `on_cpu_samples`: samples of what recorded threads run. The clock of `spins` interrupts each CPU 99 times a second;
//! `on_cpu_samples.bpf.h` makes a record where it finds a recorded thread, and here it becomes a row of table
//! `on_cpu_samples`. An idle CPU costs nothing but the clock.

use table::manifest::Coverage;
use table::tables::OnCpuSample;
use table::{Columns, TableId};

use crate::cpu_clocks::{SAMPLE_NS, coverage_without_threads};
use crate::interface::features::Levels;
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source, Support,
};
use crate::stacks::SampledAddress;
use crate::wire::types::{on_cpu_sample, record_kind};
use crate::wire::{Wire, read};

// SAFETY: `on_cpu_sample` is `repr(C)` and made of integers.
unsafe impl Wire for on_cpu_sample {}

/// The probe of samples of what runs.
pub(crate) struct OnCpuSamples;

impl Probe for OnCpuSamples {
    fn name(&self) -> &'static str {
        "on_cpu_samples"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::OnCpuSample)
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

    fn maps(&self) -> &'static [&'static str] {
        &["sample_stack_ring", "sample_stack_numbers", "clock_records"]
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_ON_CPU_SAMPLE, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        kernel.records(record_kind::RECORD_ON_CPU_SAMPLE)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        coverage_without_threads(self.name(), support)
    }
}

/// Adds the row of one sample; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    let sample: on_cpu_sample = read(body)?;
    output.rows.on_cpu_samples.push(make_row(&sample));
    output.sampled.push(SampledAddress {
        callers: sample.stack,
        address: sample.ip,
    });
    Some(())
}

/// Returns the row of a record.
fn make_row(sample: &on_cpu_sample) -> OnCpuSample {
    let on_cpu_sample {
        time_ns,
        ip: _,
        tid,
        pid,
        stack,
        kernel_stack,
        syscall,
        cpu,
        in_kernel,
        pad: _,
    } = *sample;
    OnCpuSample {
        time_ns,
        length_ns: SAMPLE_NS,
        tid,
        pid,
        in_kernel: in_kernel != 0,
        syscall: (syscall >= 0).then_some(syscall),
        stack: (stack != 0).then_some(stack),
        kernel_stack: (kernel_stack != 0).then_some(kernel_stack),
        cpu,
    }
}
