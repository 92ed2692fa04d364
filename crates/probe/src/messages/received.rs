//! Describes what each receive call took.

use table::manifest::Coverage;
use table::tables::{ReceivedMessage, ReceivedMessages};
use table::{Columns, TableId};

use super::{DATAGRAM, known_time};
use crate::calls;
use crate::interface::features::{Levels, RECEIVE_END, Tracepoint, tracepoint};
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, REENTERED, Source, Support,
};
use crate::wire::types::{received_batch, received_record};
use crate::wire::{Wire, read_all};

// SAFETY: `received_record` is `repr(C)` and made of integers.
unsafe impl Wire for received_record {}
// SAFETY: `received_batch` is `repr(C)` and made of integers and arrays of `Wire` records.
unsafe impl Wire for received_batch {}

/// Beside those of calls. Without the last, bytes that are taken without a receive call are not seen.
static HOOKS: [Tracepoint; 7] = [
    tracepoint("netif_rx_entry", "3.14"),
    tracepoint("napi_gro_receive_entry", "3.14"),
    tracepoint("napi_gro_frags_entry", "3.14"),
    tracepoint("netif_receive_skb", "2.6.37"),
    tracepoint("sk_data_ready", "6.3"),
    tracepoint("skb_copy_datagram_iovec", "2.6.30"),
    tracepoint("tcp_rcv_space_adjust", "4.15"),
];

/// Returns the hooks that received messages cannot do without, beside those of calls.
pub(crate) fn needed_hooks() -> &'static [Tracepoint] {
    &HOOKS[..6]
}

/// The probe of received messages.
pub(crate) struct ReceivedProbe;

impl Probe for ReceivedProbe {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::ReceivedMessage)
    }

    fn detail(&self) -> Detail {
        Detail::Messages
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.messages
    }

    fn needs_bpf(&self) -> bool {
        true
    }

    fn hooks(&self) -> &'static [Tracepoint] {
        &HOOKS
    }

    /// Datagrams that are sent go with received messages, whether sent ones of TCP are seen or not.
    fn maps(&self) -> &'static [&'static str] {
        &[
            "received_ring",
            "received_overflow",
            "arrivals",
            "sent_ring",
            "sent_overflow",
        ]
    }

    fn source(&self) -> Source {
        Source::Batches(
            |maps| [&maps.received_ring, &maps.received_overflow],
            decode,
        )
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        if !kernel.levels.messages {
            return Ok(ProbeCount::default());
        }
        let batches = &kernel.maps().received_batches;
        let mut count = kernel.batches(batches, |it: &received_batch| it.batch)?;
        let takes = &kernel.programs().handle_tcp_rcv_space_adjust;
        let refused = kernel.refused_runs_at(RECEIVE_END)? + kernel.refused_runs(&[takes])?;
        count.add_unmade(REENTERED, refused);
        Ok(count)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        let features = support.features;
        let hooks: &[Tracepoint] = match features.has_all(&calls::HOOKS) {
            true => needed_hooks(),
            false => &calls::HOOKS,
        };
        let spliced = features
            .supported_levels(support.detail, false)
            .messages
            .then(|| features.unless_on("messages.spliced", &HOOKS[6..]));
        let messages = features.hook_coverage(self.name(), hooks);
        [messages].into_iter().chain(spliced.flatten()).collect()
    }
}

/// Adds the rows of a batch of received messages; none can fail.
fn decode(output: &mut ProbeOutput, bytes: &[u8]) -> u64 {
    append(&read_all(bytes), &mut output.rows.received_messages);
    0
}

/// Bits of `received_record.bits` (`messages.h`).
const BACKLOG: u8 = 1;

/// Adds the rows of a batch of received messages.
fn append(records: &[received_record], rows: &mut ReceivedMessages) {
    for record in records {
        rows.push(make_row(record));
    }
}

fn make_row(record: &received_record) -> ReceivedMessage {
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
        first_arrival_ns: known_time(first_ns),
        last_arrival_ns: known_time(last_ns),
        tcp_ns: known_time(tcp_ns),
        ready_ns: known_time(ready_ns),
        woken_ns: known_time(woken_ns),
        running_ns: known_time(run_ns),
        copy_ns: known_time(copy_ns),
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
