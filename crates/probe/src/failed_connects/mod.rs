//! `failed_connects`: attempts to connect that did not become connections (`failed_connects.bpf.h`) → rows of table
//! `failed_connects`.

use table::manifest::Coverage;
use table::tables::FailedConnect;
use table::{Columns, TableId};

use crate::interface::{
    HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source, Support, on,
};
use crate::inventory::seen::address;
use crate::wire::types::{failed_connect, record_kind};
use crate::wire::{Wire, read};

// SAFETY: `failed_connect` is `repr(C)` and made of integers, arrays and structs of them.
unsafe impl Wire for failed_connect {}

/// The probe of attempts to connect that fail.
pub(crate) struct FailedConnects;

impl Probe for FailedConnects {
    fn name(&self) -> &'static str {
        "failed_connects"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::FailedConnect)
    }

    fn needs_bpf(&self) -> bool {
        true
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_FAILED_CONNECT, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        kernel.records(record_kind::RECORD_FAILED_CONNECT)
    }

    fn coverage(&self, _: &Support<'_>) -> Vec<Coverage> {
        vec![on(self.name())]
    }
}

/// Adds the row of one failed attempt; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    let seen = read(body)?;
    output.rows.failed_connects.push(make_row(&seen));
    output.add_owner(&seen.owner, seen.end_ns);
    Some(())
}

fn make_row(seen: &failed_connect) -> FailedConnect {
    let failed_connect {
        start_ns,
        end_ns,
        local_addr,
        remote_addr,
        owner,
        netns,
        tid,
        syn_retries,
        error,
        local_port,
        remote_port,
        pad: _,
    } = *seen;
    FailedConnect {
        end_ns,
        start_ns,
        netns,
        local: (local_port != 0).then(|| address(local_addr, local_port).to_string()),
        remote: address(remote_addr, remote_port).to_string(),
        pid: owner.pid,
        tid,
        errno: (error != 0).then_some(error),
        syn_retries,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_and_no_error_are_null() {
        let given_up = failed_connect {
            start_ns: 3,
            end_ns: 10,
            remote_port: 80,
            ..Default::default()
        };
        let row = super::make_row(&given_up);
        assert_eq!((row.local, row.errno), (None, None));
        assert_eq!(row.remote, "[::]:80");
        let refused = failed_connect {
            error: libc::ECONNREFUSED,
            local_port: 40_000,
            ..given_up
        };
        let row = super::make_row(&refused);
        assert_eq!(row.local.as_deref(), Some("[::]:40000"));
        assert_eq!(row.errno, Some(libc::ECONNREFUSED));
    }
}
