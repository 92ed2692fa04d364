//! `zerocopy`: zero-copy sends, and whether the kernel copied them after all. `zerocopy.bpf.h` reads the reports of their
//! ends; here what it counted becomes a row of table `zerocopy_sends`.

use table::manifest::{Coverage, ProbeState};
use table::tables::ZerocopySend;
use table::{Columns, TableId, ZerocopyInterface};

use crate::interface::features::{Levels, Tracepoint, tracepoint};
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, REENTERED, Source, Support,
};
use crate::wire::types::{record_kind, zerocopy_interface, zerocopy_seen};
use crate::wire::{Wire, read};

// SAFETY: `zerocopy_seen` is `repr(C)` and made of integers, arrays and structs of them.
unsafe impl Wire for zerocopy_seen {}

static HOOKS: [Tracepoint; 2] = [
    tracepoint("inet_sk_error_report", "5.14"),
    tracepoint("io_uring_complete", "6.0"),
];

/// Programs that see the end of a connection and of a recording.
pub(crate) const PROGRAMS: [&str; 3] = [
    "handle_zerocopy_close",
    "read_zerocopy",
    "read_zerocopy_uring",
];

/// The probe of zero-copy sends.
pub(crate) struct ZerocopySends;

impl Probe for ZerocopySends {
    fn name(&self) -> &'static str {
        "zerocopy"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::ZerocopySend)
    }

    fn detail(&self) -> Detail {
        Detail::Calls
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.logs_calls()
    }

    fn needs_bpf(&self) -> bool {
        true
    }

    fn hooks(&self) -> &'static [Tracepoint] {
        &HOOKS
    }

    fn programs(&self) -> &'static [&'static str] {
        &PROGRAMS
    }

    fn maps(&self) -> &'static [&'static str] {
        &["zerocopy_requests", "zerocopy_by_uring"]
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_ZEROCOPY, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        let mut count = kernel.records(record_kind::RECORD_ZEROCOPY)?;
        if kernel.levels.logs_calls() {
            let programs = kernel.programs();
            let refused = kernel.refused_runs(&[
                &programs.handle_inet_sk_error_report,
                &programs.handle_io_uring_complete,
            ])?;
            count.add_unmade(REENTERED, refused);
        }
        Ok(count)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        let features = support.features;
        let mut sends = features.hook_coverage(self.name(), &HOOKS[..1]);
        let refused = PROGRAMS.into_iter().find(|it| features.is_refused(it));
        if let Some(program) = refused.filter(|_| sends.state == ProbeState::On) {
            sends.state = ProbeState::Fallback {
                which: "without the last 100 ms of each connection".to_owned(),
                why: format!("this kernel does not load {program}"),
            };
        }
        let uring = features.hook_coverage("zerocopy.io_uring", &HOOKS[1..]);
        vec![sends, uring]
    }
}

/// Adds the row of one connection's zero-copy sends; None if the record is damaged.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    output.rows.zerocopy_sends.push(make_row(&read(body)?)?);
    Some(())
}

/// Returns the row of a record; `None`: it has values that no program gives.
fn make_row(seen: &zerocopy_seen) -> Option<ZerocopySend> {
    let zerocopy_seen {
        cookie,
        time_ns,
        counts,
        interface,
        pad: _,
    } = *seen;
    Some(ZerocopySend {
        conn: cookie,
        time_ns,
        interface: match zerocopy_interface(u32::from(interface)) {
            zerocopy_interface::ZEROCOPY_MSG => ZerocopyInterface::MsgZerocopy,
            zerocopy_interface::ZEROCOPY_URING => ZerocopyInterface::IoUring,
            _ => return None,
        },
        not_copied: counts.not_copied,
        copied: counts.copied,
        unknown: counts.unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_interface_is_no_row() {
        let mut seen = zerocopy_seen {
            cookie: 7,
            interface: zerocopy_interface::ZEROCOPY_URING.0 as u8,
            ..Default::default()
        };
        seen.counts.copied = 3;
        let made = make_row(&seen).expect("a row");
        assert_eq!((made.conn, made.copied), (7, 3));
        assert_eq!(made.interface, ZerocopyInterface::IoUring);
        seen.interface = u8::MAX;
        assert!(make_row(&seen).is_none());
    }
}
