//! A listening socket as the kernel side describes it → a row of table `listeners`.

use table::tables::Listener;
use table::{Columns, TableId};

use super::seen::address;
use crate::interface::{HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source};
use crate::wire::types::{descriptor_room, listener_mib, listener_seen, record_kind};
use crate::wire::{Wire, read};

// SAFETY: `listener_seen` is `repr(C)` and made of integers, arrays and structs of them.
unsafe impl Wire for listener_seen {}

/// The probe of listening sockets.
pub(crate) struct Listeners;

impl Probe for Listeners {
    fn name(&self) -> &'static str {
        "listeners"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::Listener)
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_LISTENER_SEEN, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        kernel.records(record_kind::RECORD_LISTENER_SEEN)
    }
}

/// Adds the row of a listening socket, and its owner; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    let seen = read(body)?;
    output.rows.listeners.push(make_row(&seen));
    output.add_owner(&seen.owner, seen.time_ns);
    Some(())
}

/// Makes the row of a listening socket.
fn make_row(seen: &listener_seen) -> Listener {
    let listener_seen {
        cookie,
        time_ns,
        listen_ns,
        closed_ns,
        mib,
        local_addr,
        owner,
        room,
        netns,
        waiting,
        waiting_max,
        drops,
        local_port,
        pad: _,
    } = *seen;
    let listener_mib {
        listen_overflows,
        syncookies_received,
        known,
    } = mib;
    let descriptor_room { limit, full } = room;
    let is_read = limit != 0;
    let counted = |count: u64| (known != 0).then_some(count);
    let nonzero = |ns: u64| (ns != 0).then_some(ns);
    Listener {
        conn: cookie,
        time_ns,
        netns,
        local: address(local_addr, local_port).to_string(),
        pid: (owner.pid != 0).then_some(owner.pid),
        listen_ns: nonzero(listen_ns),
        closed_ns: nonzero(closed_ns),
        waiting,
        waiting_max,
        drops,
        netns_listen_overflows: counted(listen_overflows),
        netns_syncookies_received: counted(syncookies_received),
        descriptors_most: is_read.then_some(limit),
        descriptors_full: is_read.then_some(full != 0),
    }
}
