//! What each receive call took.

use table::Columns;
use table::tables::{ReceivedMessage, ReceivedMessages};

use super::{DATAGRAM, seen};
use crate::wire::Wire;
use crate::wire::types::received_record;

// SAFETY: `received_record` is `repr(C)` and made of integers.
unsafe impl Wire for received_record {}

/// Bits of `received_record.bits` (`messages.h`).
const BACKLOG: u8 = 1;

/// Appends the rows of a batch.
pub(crate) fn append(records: &[received_record], rows: &mut ReceivedMessages) {
    for record in records {
        rows.push(row(record));
    }
}

fn row(record: &received_record) -> ReceivedMessage {
    let received_record {
        cookie,
        done_ns,
        first_ns,
        last_ns,
        tcp_ns,
        ready_ns,
        woken_ns,
        run_ns,
        copy_ns,
        doubt_ns,
        offset_end,
        bytes,
        spliced_bytes,
        tid,
        pid,
        segments,
        receive_cpu,
        cpu,
        bits,
        pad: _,
        cut_or_nic,
    } = *record;
    let is_datagram = bits & DATAGRAM != 0;
    ReceivedMessage {
        done_ns,
        conn: cookie,
        bytes,
        offset_end,
        spliced_bytes,
        first_arrival_ns: seen(first_ns),
        last_arrival_ns: seen(last_ns),
        tcp_ns: seen(tcp_ns),
        ready_ns: seen(ready_ns),
        woken_ns: seen(woken_ns),
        running_ns: seen(run_ns),
        copy_ns: seen(copy_ns),
        segments,
        receive_cpu: (tcp_ns != 0).then_some(receive_cpu),
        cpu,
        tid,
        pid,
        backlog: bits & BACKLOG != 0,
        doubt_ns,
        cut_bytes: is_datagram.then_some(cut_or_nic as u32), // as a datagram has no more
        nic_phc_ns: (!is_datagram && cut_or_nic != 0).then_some(cut_or_nic),
    }
}
