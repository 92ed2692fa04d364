//! Describes what each send call gave.

use table::manifest::Coverage;
use table::tables::{SentMessage, SentMessages};
use table::{Columns, TableId};

use super::{DATAGRAM, known_time};
use crate::interface::features::{Levels, SEND_END, Tracepoint, tracepoint};
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, REENTERED, Source, Support,
};
use crate::wire::types::{sent_batch, sent_record};
use crate::wire::{Wire, read_all};

// SAFETY: `sent_record` is `repr(C)` and made of integers.
unsafe impl Wire for sent_record {}
// SAFETY: `sent_batch` is `repr(C)` and made of integers.
unsafe impl Wire for sent_batch {}

/// Beside those of received messages.
pub(crate) static HOOKS: [Tracepoint; 3] = [
    tracepoint("tcp_sendmsg_locked", "6.16"),
    tracepoint("net_dev_queue", "2.6.37"),
    tracepoint("net_dev_start_xmit", "3.14"),
];

/// The probe of sent messages.
pub(crate) struct SentProbe;

impl Probe for SentProbe {
    fn name(&self) -> &'static str {
        "messages.sent"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::SentMessage)
    }

    fn detail(&self) -> Detail {
        Detail::Messages
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.sent
    }

    fn hooks(&self) -> &'static [Tracepoint] {
        &HOOKS
    }

    fn programs(&self) -> &'static [&'static str] {
        &["read_sending"]
    }

    fn source(&self) -> Source {
        Source::Batches(|maps| [&maps.sent_ring, &maps.sent_overflow], decode)
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        if !kernel.levels.messages {
            return Ok(ProbeCount::default());
        }
        let batches = &kernel.maps().sent_batches;
        let mut count = kernel.batches(batches, |it: &sent_batch| it.batch)?;
        count.add_unmade(REENTERED, kernel.refused_runs_at(SEND_END)?);
        // too many threads wait for room in one socket
        let lost = kernel.variables().map_or(0, |it| it.lost_sends);
        count.add_unmade("threads_waiting", lost);
        Ok(count)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        let features = support.features;
        let has_messages = features.supported_levels(support.detail, false).messages;
        let sent = has_messages.then(|| features.unless_on(self.name(), &HOOKS));
        sent.flatten().into_iter().collect()
    }
}

/// Adds the rows of a batch of sent messages; none can fail.
fn decode(output: &mut ProbeOutput, bytes: &[u8]) -> u64 {
    append(&read_all(bytes), &mut output.rows.sent_messages);
    0
}

/// Adds the rows of a batch of sent messages.
fn append(records: &[sent_record], rows: &mut SentMessages) {
    for record in records {
        rows.push(make_row(record));
    }
}

fn make_row(record: &sent_record) -> SentMessage {
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
        call_ns: known_time(call_ns),
        tcp_ns: known_time(tcp_ns),
        queue_ns: known_time(queue_ns),
        driver_ns: known_time(driver_ns),
        // by `nic`, later
        nic_phc_ns: None,
        nic_ptp: None,
        acked_ns: known_time(acked_ns),
        resent_segments: resent,
        cpu,
        driver_cpu: (driver_ns != 0).then_some(driver_cpu),
        tid,
        pid,
        packets: (bits & DATAGRAM != 0).then_some(packets),
    }
}
