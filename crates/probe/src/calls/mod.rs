//! `calls`: the socket-call log. `calls.bpf.h` makes a record where a call ends; here batches of
//! them become rows of table `calls`.

use table::manifest::Coverage;
use table::{Columns, TableId, tables};

use crate::interface::features::{
    Levels, RECEIVE_END, SCHED_SWITCH, SEND_END, Tracepoint, tracepoint,
};
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, REENTERED, Source, Support,
};
use crate::wire::types::{call_batch, call_record};
use crate::wire::{Wire, read_all};

// SAFETY: `call_record` is `repr(C)` and made of integers.
unsafe impl Wire for call_record {}
// SAFETY: `call_batch` is `repr(C)` and made of integers and arrays of `Wire` records.
unsafe impl Wire for call_batch {}

/// The ledger and the call log need all of them: a ledger that does not see sends would call every
/// wait for the application something else.
pub(crate) static HOOKS: [Tracepoint; 4] = [
    tracepoint(SEND_END, "6.3").of_windows(),
    tracepoint(RECEIVE_END, "6.3").of_windows(),
    tracepoint("tcp_probe", "4.16").of_windows(),
    SCHED_SWITCH,
];

/// The hooks at which a call ends: sockets of each family pass them.
pub(crate) static CALL_HOOKS: &[Tracepoint] = HOOKS.split_at(2).0;

/// The probe of calls.
pub(crate) struct Calls;

impl Probe for Calls {
    fn name(&self) -> &'static str {
        "calls"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::Call)
    }

    fn detail(&self) -> Detail {
        Detail::Calls
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.logs_calls()
    }

    fn needs_bpf(&self) -> bool {
        true
    }

    fn hooks(&self) -> &'static [Tracepoint] {
        &HOOKS
    }

    fn maps(&self) -> &'static [&'static str] {
        &["call_ring", "call_overflow"]
    }

    fn source(&self) -> Source {
        Source::Batches(|maps| [&maps.call_ring, &maps.call_overflow], decode)
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        let mut count = ProbeCount::default();
        if kernel.levels.logs_calls() {
            let batches = &kernel.maps().call_batches;
            count = kernel.batches(batches, |it: &call_batch| it.batch)?;
        }
        let refused = kernel.refused_runs_at(SEND_END)? + kernel.refused_runs_at(RECEIVE_END)?;
        count.add_unmade(REENTERED, refused);
        Ok(count)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        vec![support.features.hook_coverage(self.name(), &HOOKS)]
    }
}

/// Adds the rows of a batch of calls; none can fail.
fn decode(output: &mut ProbeOutput, bytes: &[u8]) -> u64 {
    append(&read_all(bytes), &mut output.rows.calls);
    0
}

/// Bits of `call_record.bits` (`calls.h`).
const SEND: u8 = 1;
const ASKED: u8 = 2;
const BLOCKING_SEEN: u8 = 4;
const BLOCKED: u8 = 8;
const UNREAD_UNSEEN: u8 = 16;

/// Room made at once when columns are begun: what 50 ms of 500,000 calls a second need.
const RESERVE_ROWS: usize = 32_768;

/// Appends the rows of a batch, column by column: at half a million calls a second, a row at a time
/// would cost the recorder more than all else it does.
fn append(records: &[call_record], rows: &mut tables::Calls) {
    if rows.is_empty() {
        rows.reserve(RESERVE_ROWS);
    }
    let tables::Calls {
        conn,
        end_ns,
        start_ns,
        blocked_ns,
        runq_ns,
        unread_ns,
        tcp_ns,
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
    let received =
        |record: &call_record| record.bits & (SEND | UNREAD_UNSEEN) == 0 && record.result > 0;
    unread_ns.extend(
        records
            .iter()
            .map(|r| received(r).then_some(u64::from(r.unread_us) * 1000)),
    );
    let has_transmitted =
        |record: &call_record| record.bits & (SEND | BLOCKED) == SEND && record.start_ns > 0;
    tcp_ns.extend(
        records
            .iter()
            .map(|r| has_transmitted(r).then_some(r.start_ns)),
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
        let transmitted = call_record {
            start_ns: 23,
            ..ran
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
        let mut rows = tables::Calls::default();
        append(&[unmeasured, ran, blocked, transmitted], &mut rows);
        let [unmeasured, ran, blocked, transmitted] = [0, 1, 2, 3].map(|index| rows.row(index));
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
        assert_eq!((ran.tcp_ns, blocked.tcp_ns), (None, None));
        assert_eq!((transmitted.start_ns, transmitted.tcp_ns), (None, Some(23)));
        assert_eq!(
            (blocked.runq_ns, blocked.asked_bytes),
            (Some(13_000), Some(17))
        );
    }
}
