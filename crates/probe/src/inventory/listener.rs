//! A listening socket as the kernel side describes it → a row of table `listeners`.

use table::tables::Listener;

use super::seen::address;
use crate::wire::Wire;
use crate::wire::types::{listener_mib, listener_seen};

// SAFETY: `listener_seen` is `repr(C)` and made of integers, arrays and structs of them.
unsafe impl Wire for listener_seen {}

/// The row of a record.
pub(crate) fn row(seen: &listener_seen) -> Listener {
    let listener_seen {
        cookie,
        time_ns,
        listen_ns,
        closed_ns,
        mib,
        local_addr,
        owner,
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
    }
}
