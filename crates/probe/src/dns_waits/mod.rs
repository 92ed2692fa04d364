//! `dns_waits`: waits for the answers of name servers (`dns_waits.bpf.h`) → rows of table `dns_waits`.

use table::manifest::Coverage;
use table::tables::DnsWait;
use table::{Columns, TableId};

use crate::interface::features::{Levels, SCHED_SWITCH, Tracepoint};
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source, Support,
};
use crate::inventory::seen::address;
use crate::wire::types::{dns_wait, record_kind};
use crate::wire::{Wire, read};

// SAFETY: `dns_wait` is `repr(C)` and made of integers and arrays of integers.
unsafe impl Wire for dns_wait {}

static HOOKS: [Tracepoint; 1] = [SCHED_SWITCH];

/// The probe of waits for name servers.
pub(crate) struct DnsWaits;

impl Probe for DnsWaits {
    fn name(&self) -> &'static str {
        "dns_waits"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::DnsWait)
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

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_DNS_WAIT, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        kernel.records(record_kind::RECORD_DNS_WAIT)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        vec![support.features.hook_coverage(self.name(), &HOOKS)]
    }
}

/// Adds the row of one record; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    output.rows.dns_waits.push(make_row(&read(body)?));
    Some(())
}

fn make_row(seen: &dns_wait) -> DnsWait {
    let dns_wait {
        start_ns,
        end_ns,
        socket,
        server_addr,
        tid,
        pid,
        error,
        server_port,
        answered,
        pad: _,
    } = *seen;
    DnsWait {
        end_ns,
        start_ns,
        tid,
        pid,
        socket,
        server: address(server_addr, server_port).to_string(),
        answered: answered != 0,
        errno: (error != 0).then_some(error),
    }
}
