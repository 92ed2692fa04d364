//! `messages`: what each receive call took, and what happened to it on its way. `receive.bpf.h` matches the
//! segments of the stream with the call and makes one record; here batches of them become rows of table
//! `messages`.

use table::Columns;
use table::tables::{Message, Messages};

use crate::wire::Wire;
use crate::wire::types::message_record;

// SAFETY: `message_record` is `repr(C)` and made of integers.
unsafe impl Wire for message_record {}

/// Bits of `message_record.bits` (`messages.h`).
const BACKLOG: u8 = 1;
const MERGED: u8 = 2;

/// Appends the rows of a batch.
pub(crate) fn append(records: &[message_record], rows: &mut Messages) {
    for record in records {
        rows.push(row(record));
    }
}

fn row(record: &message_record) -> Message {
    let message_record {
        cookie,
        done_ns,
        first_ns,
        last_ns,
        tcp_ns,
        ready_ns,
        woken_ns,
        run_ns,
        copy_ns,
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
    } = *record;
    let seen = |ns: u64| (ns != 0).then_some(ns);
    Message {
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
        merged: bits & MERGED != 0,
    }
}
