//! `calls`: the socket-call log. `calls.bpf.h` makes a record where a call ends; here it becomes a
//! row of table `calls`.

use table::tables::Call;

use crate::hooks::wire::call_record;
use crate::wire::Wire;

// SAFETY: `call_record` is `repr(C)` and made of integers.
unsafe impl Wire for call_record {}

/// Bits of `call_record.bits` (`calls.h`).
const SEND: u8 = 1;
const ASKED: u8 = 2;
const BLOCKING_SEEN: u8 = 4;
const BLOCKED: u8 = 8;

/// The row of a record.
pub(crate) fn row(record: &call_record) -> Call {
    let call_record {
        cookie,
        end_ns,
        start_ns,
        blocked_ns,
        offset_end,
        runq_us,
        asked_bytes,
        result,
        msg_flags,
        tid,
        pid,
        cpu,
        bits,
        pad: _,
    } = *record;
    let has = |bit: u8| bits & bit != 0;
    let measured = has(BLOCKING_SEEN) || has(BLOCKED);
    Call {
        conn: cookie,
        end_ns,
        start_ns: has(BLOCKED).then_some(start_ns),
        blocked_ns: measured.then_some(blocked_ns),
        runq_ns: measured.then_some(u64::from(runq_us) * 1000),
        is_send: has(SEND),
        asked_bytes: has(ASKED).then_some(u64::from(asked_bytes)),
        result,
        offset_end,
        flags: msg_flags,
        tid,
        pid,
        cpu,
    }
}
