//! `calls`: the socket-call log. `calls.bpf.h` makes a record where a call ends; here batches of
//! them become rows of table `calls`.

use table::Columns;
use table::tables::Calls;

use crate::wire::Wire;
use crate::wire::types::call_record;

// SAFETY: `call_record` is `repr(C)` and made of integers.
unsafe impl Wire for call_record {}

/// Bits of `call_record.bits` (`calls.h`).
const SEND: u8 = 1;
const ASKED: u8 = 2;
const BLOCKING_SEEN: u8 = 4;
const BLOCKED: u8 = 8;

/// Room made at once when columns are begun: what 50 ms of 500,000 calls a second need.
const RESERVE_ROWS: usize = 32_768;

/// Appends the rows of a batch, column by column: at half a million calls a second, a row at a time
/// would cost the recorder more than all else it does.
pub(crate) fn append(records: &[call_record], rows: &mut Calls) {
    if rows.is_empty() {
        rows.reserve(RESERVE_ROWS);
    }
    let Calls {
        conn,
        end_ns,
        start_ns,
        blocked_ns,
        runq_ns,
        unread_ns,
        is_send,
        asked_bytes,
        result,
        offset_end,
        flags,
        tid,
        pid,
        cpu,
    } = rows;
    let has = |record: &call_record, bit: u8| record.bits & bit != 0;
    let measured = |record: &call_record| record.bits & (BLOCKING_SEEN | BLOCKED) != 0;
    conn.extend(records.iter().map(|r| r.cookie));
    end_ns.extend(records.iter().map(|r| r.end_ns));
    start_ns.extend(
        records
            .iter()
            .map(|r| has(r, BLOCKED).then_some(r.start_ns)),
    );
    blocked_ns.extend(records.iter().map(|r| measured(r).then_some(r.blocked_ns)));
    runq_ns.extend(
        records
            .iter()
            .map(|r| measured(r).then_some(u64::from(r.runq_us) * 1000)),
    );
    let received = |record: &call_record| !has(record, SEND) && record.result > 0;
    unread_ns.extend(
        records
            .iter()
            .map(|r| received(r).then_some(u64::from(r.unread_us) * 1000)),
    );
    is_send.extend(records.iter().map(|r| has(r, SEND)));
    asked_bytes.extend(
        records
            .iter()
            .map(|r| has(r, ASKED).then_some(u64::from(r.asked_bytes))),
    );
    result.extend(records.iter().map(|r| r.result));
    offset_end.extend(records.iter().map(|r| r.offset_end));
    flags.extend(records.iter().map(|r| r.msg_flags));
    tid.extend(records.iter().map(|r| r.tid));
    pid.extend(records.iter().map(|r| r.pid));
    cpu.extend(records.iter().map(|r| r.cpu));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_is_not_zero() {
        let unmeasured = call_record {
            result: 5,
            ..Default::default()
        };
        let ran = call_record {
            bits: BLOCKING_SEEN | SEND,
            ..Default::default()
        };
        let blocked = call_record {
            bits: BLOCKED | BLOCKING_SEEN | ASKED,
            start_ns: 7,
            blocked_ns: 11,
            runq_us: 13,
            unread_us: 19,
            result: 17,
            asked_bytes: 17,
            ..Default::default()
        };
        let mut rows = Calls::default();
        append(&[unmeasured, ran, blocked], &mut rows);
        let [unmeasured, ran, blocked] = [0, 1, 2].map(|index| rows.row(index));
        assert_eq!(
            (unmeasured.blocked_ns, unmeasured.asked_bytes),
            (None, None)
        );
        assert_eq!(
            (ran.start_ns, ran.blocked_ns, ran.is_send),
            (None, Some(0), true)
        );
        assert_eq!((blocked.start_ns, blocked.blocked_ns), (Some(7), Some(11)));
        assert_eq!((ran.unread_ns, blocked.unread_ns), (None, Some(19_000)));
        assert_eq!(
            (blocked.runq_ns, blocked.asked_bytes),
            (Some(13_000), Some(17))
        );
    }
}
