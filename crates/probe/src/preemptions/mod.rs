//! `preemptions`: times in which a recorded thread could have run and did not, because another one ran or its control
//! group had used up its CPU quota. `preemptions.bpf.h` makes a record when the thread runs again; here it becomes a
//! row of table `preemptions`.

use table::manifest::{Coverage, ProbeState};
use table::tables::Preemption;
use table::{Columns, TableId};

use crate::interface::features::{Levels, SCHED_SWITCH, Tracepoint};
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, REENTERED, Source, Support,
};
use crate::wire::types::{preemption_quota, preemption_seen, record_kind};
use crate::wire::{Wire, read};

// SAFETY: `preemption_seen` is `repr(C)` and made of integers and arrays of integers.
unsafe impl Wire for preemption_seen {}

static HOOKS: [Tracepoint; 1] = [SCHED_SWITCH];

/// Hands over the sums of short preemptions when nothing is attached any more.
pub(crate) const READ_PREEMPTIONS: &str = "read_preemptions";

/// The probe of preemptions.
pub(crate) struct Preemptions;

impl Probe for Preemptions {
    fn name(&self) -> &'static str {
        "preemptions"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::Preemption)
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

    fn hooks(&self) -> &'static [Tracepoint] {
        &HOOKS
    }

    fn programs(&self) -> &'static [&'static str] {
        &[READ_PREEMPTIONS]
    }

    fn maps(&self) -> &'static [&'static str] {
        &["preemption_records"]
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_PREEMPTION_SEEN, decode)])
    }

    /// Refused runs are switches between threads: each may have been a preemption.
    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        let mut count = kernel.records(record_kind::RECORD_PREEMPTION_SEEN)?;
        if kernel.levels.waits {
            let refused = kernel.refused_runs(&[&kernel.programs().handle_sched_switch])?;
            count.add_unmade(REENTERED, refused);
        }
        Ok(count)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        let mut covered = support.features.hook_coverage(self.name(), &HOOKS);
        if covered.state == ProbeState::On && support.features.is_refused(READ_PREEMPTIONS) {
            covered.state = ProbeState::Fallback {
                which: "without those below 50 µs in the last 10 ms of each thread".to_owned(),
                why: format!("this kernel does not load {READ_PREEMPTIONS}"),
            };
        }
        vec![covered]
    }
}

/// Adds the row of one preemption; None if the record is damaged.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    output.rows.preemptions.push(make_row(&read(body)?)?);
    Some(())
}

/// Returns the row of a record; `None`: it has values that no program gives.
fn make_row(seen: &preemption_seen) -> Option<Preemption> {
    let preemption_seen {
        start_ns,
        end_ns,
        off_ns,
        count,
        yields,
        tid,
        pid,
        by_tid,
        by_pid,
        by_comm,
        cpu,
        quota,
        pad: _,
    } = *seen;
    let is_idle = by_tid == 0;
    let comm = by_comm.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(Preemption {
        end_ns,
        start_ns,
        off_cpu_ns: off_ns,
        count,
        yields,
        tid,
        pid,
        by_tid: (!is_idle).then_some(by_tid),
        by_pid: (!is_idle).then_some(by_pid),
        by_comm: (!is_idle).then(|| String::from_utf8_lossy(comm).into_owned()),
        quota_used_up: match preemption_quota(u32::from(quota)) {
            preemption_quota::QUOTA_UNKNOWN => None,
            preemption_quota::QUOTA_LEFT => Some(false),
            preemption_quota::QUOTA_USED_UP => Some(true),
            _ => return None,
        },
        cpu,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cpu_after_preemption_is_null() {
        let mut seen = preemption_seen {
            start_ns: 3,
            end_ns: 10,
            off_ns: 7,
            count: 1,
            ..Default::default()
        };
        let idle = make_row(&seen).expect("a row");
        assert_eq!((idle.by_tid, idle.by_pid, idle.by_comm), (None, None, None));
        assert_eq!(idle.quota_used_up, None);
        (seen.by_tid, seen.by_pid) = (5, 4);
        seen.by_comm[..4].copy_from_slice(b"gzip");
        seen.quota = preemption_quota::QUOTA_USED_UP.0 as u8;
        let busy = make_row(&seen).expect("a row");
        assert_eq!((busy.by_tid, busy.by_pid), (Some(5), Some(4)));
        assert_eq!(busy.by_comm.as_deref(), Some("gzip"));
        assert_eq!(busy.quota_used_up, Some(true));
        seen.quota = u8::MAX;
        assert!(make_row(&seen).is_none());
    }
}
