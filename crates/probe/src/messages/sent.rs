//! What each send call gave.

use table::Columns;
use table::tables::{SentMessage, SentMessages};

use super::{DATAGRAM, seen};
use crate::wire::Wire;
use crate::wire::types::sent_record;

// SAFETY: `sent_record` is `repr(C)` and made of integers.
unsafe impl Wire for sent_record {}

/// Appends the rows of a batch.
pub(crate) fn append(records: &[sent_record], rows: &mut SentMessages) {
    for record in records {
        rows.push(row(record));
    }
}

fn row(record: &sent_record) -> SentMessage {
    let sent_record {
        cookie,
        call_ns,
        done_ns,
        tcp_ns,
        queue_ns,
        driver_ns,
        acked_ns,
        offset_end,
        bytes,
        spliced_bytes,
        tid,
        pid,
        resent,
        cpu,
        driver_cpu,
        packets,
        bits,
        pad: _,
    } = *record;
    SentMessage {
        done_ns,
        conn: cookie,
        bytes,
        offset_end,
        spliced_bytes,
        call_ns: seen(call_ns),
        tcp_ns: seen(tcp_ns),
        queue_ns: seen(queue_ns),
        driver_ns: seen(driver_ns),
        // by `nic`, later
        nic_phc_ns: None,
        nic_ptp: None,
        acked_ns: seen(acked_ns),
        resent_segments: resent,
        cpu,
        driver_cpu: (driver_ns != 0).then_some(driver_cpu),
        tid,
        pid,
        packets: (bits & DATAGRAM != 0).then_some(packets),
    }
}
