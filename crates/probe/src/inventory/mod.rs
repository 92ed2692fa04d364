//! `inventory`: the recorded sockets and their owners.

pub(crate) mod kinds;
pub(crate) mod listener;
pub(crate) mod seen;

pub use kinds::KindsByFile;
pub(crate) use listener::Listeners;

use table::manifest::{Coverage, ProbeState};
use table::{Columns, TableId};

use crate::interface::features::{Tracepoint, tracepoint};
use crate::interface::{
    HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source, Support, on,
};
use crate::wire::read;
use crate::wire::types::record_kind;

/// Where connections end with a last change of state that no program saw.
static HOOKS: [Tracepoint; 1] = [tracepoint("tcp_destroy_sock", "4.16")];

/// The probe of connections.
pub(crate) struct Inventory;

impl Probe for Inventory {
    fn name(&self) -> &'static str {
        "inventory"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::Connection)
    }

    fn needs_bpf(&self) -> bool {
        true
    }

    fn hooks(&self) -> &'static [Tracepoint] {
        &HOOKS
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_SOCKET_SEEN, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        let mut count = kernel.records(record_kind::RECORD_SOCKET_SEEN)?;
        if let Some(variables) = kernel.variables() {
            count.add_unmade("no_memory", variables.lost_socket_storage);
            count.add_unmade("processes_full", variables.lost_tasks);
            count.add_unmade("peers_full", variables.lost_peers);
        }
        Ok(count)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        let mptcp = support.features.mptcp.coverage(support.detail);
        let mib = (!support.has_mib).then(without_mib);
        [on(self.name())]
            .into_iter()
            .chain(mib)
            .chain(mptcp)
            .collect()
    }
}

/// Adds the row of an open socket, and its owner; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    let seen = read(body)?;
    output.rows.connections.push(seen::make_row(&seen));
    output.add_owner(&seen.owner, seen.time_ns);
    Some(())
}

/// Makes the coverage line of a kernel with unreadable namespace counters.
fn without_mib() -> Coverage {
    Coverage {
        probe: "inventory.listen_overflows".to_owned(),
        state: ProbeState::Off {
            why: "the kernel's BTF does not show where it is, or there are too many CPUs"
                .to_owned(),
            remedy: "watch `nstat -az TcpExtListenOverflows`".to_owned(),
        },
    }
}
