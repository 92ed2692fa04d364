//! `drops`: packets that this host drops, and resets. `drops.bpf.h` counts them and hands over those of recorded sockets;
//! here a record becomes a row of table `drops`, and the counts rows of `drop_counts`.
//!
//! ```text
//! packet.bpf.h  headers of a packet, with pointers that may lead nowhere
//! ports.bpf.h   ports of recorded sockets
//! qdisc.bpf.h   the qdisc that dropped a packet
//! names         names of reasons (the kernel's BTF) and of functions (/proc/kallsyms)
//! ordinary      reasons that are no problem
//! qdisc         reasons of qdiscs, and whether one was full
//! readings      counts → rows
//! ```

mod names;
mod ordinary;
mod qdisc;
mod readings;
mod row;

pub use readings::DropReader;

use table::manifest::{Coverage, ProbeState};
use table::{Columns, TableId};

use crate::interface::features::{Features, Levels, Tracepoint, tracepoint};
use crate::interface::{
    HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source, Support, on,
};
use crate::wire::types::{drop_count, drop_key, drop_kind, drop_seen, record_kind, rodata};
use crate::wire::{Wire, read};
use names::kernel_names;

// SAFETY: `drop_seen` is `repr(C)` and made of integers, arrays and structs of them.
unsafe impl Wire for drop_seen {}
// SAFETY: `drop_key` is `repr(C)` and made of integers and arrays of them.
unsafe impl Wire for drop_key {}
// SAFETY: `drop_count` is `repr(C)` and made of integers and arrays of them.
unsafe impl Wire for drop_count {}

/// Where drops are seen; each does without the others.
static HOOKS: [Tracepoint; 6] = [
    tracepoint("kfree_skb", "2.6.30"),
    tracepoint("tcp_send_reset", "4.15"),
    tracepoint("tcp_receive_reset", "4.15"),
    tracepoint("sock_rcvqueue_full", "2.6.39"),
    tracepoint("udp_fail_queue_rcv_skb", "3.0"),
    tracepoint("icmp_send", "6.11"),
];

/// Sets the programs' constants for this kernel before loading.
pub(crate) fn configure(rodata: &mut rodata, features: &Features) {
    let arguments = |tracepoint| features.arguments(tracepoint);
    rodata.kfree_skb_arguments = u32::try_from(arguments("kfree_skb").clamp(2, 4)).unwrap_or(2);
    rodata.reset_has_reason = arguments("tcp_send_reset") >= 3;
    rodata.udp_drop_has_skb = arguments("udp_fail_queue_rcv_skb") >= 3;
    for (is_by_qdisc, reason) in rodata.drop_by_qdisc.iter_mut().zip(0..) {
        let name = kernel_names().reason(reason);
        *is_by_qdisc = u8::from(name.is_some_and(qdisc::is_qdisc_reason));
    }
    if let Some((general, base)) = kernel_names().qdisc_reasons() {
        rodata.qdisc_general_reason = general;
        rodata.qdisc_reason_base = base;
    }
    for (is_ordinary, reason) in rodata.drop_ordinary.iter_mut().zip(0..) {
        let name = kernel_names().reason(reason);
        *is_ordinary = u8::from(name.is_some_and(ordinary::is_ordinary));
    }
}

/// Returns how often no program saw a drop, by kind: the kernel runs none inside itself, so what is dropped while another
/// drop is examined on the same CPU is not.
fn refused_runs(kernel: &KernelCounts<'_>) -> Result<[(drop_kind, u64); 6], HooksError> {
    let programs = kernel.programs();
    let refused = |kind, program| Ok((kind, kernel.refused_runs(&[program])?));
    Ok([
        refused(drop_kind::DROP_PACKET, &programs.handle_kfree_skb)?,
        refused(drop_kind::DROP_RESET_SENT, &programs.handle_tcp_send_reset)?,
        refused(
            drop_kind::DROP_RESET_RECEIVED,
            &programs.handle_tcp_receive_reset,
        )?,
        refused(
            drop_kind::DROP_QUEUE_FULL,
            &programs.handle_sock_rcvqueue_full,
        )?,
        refused(
            drop_kind::DROP_UDP_QUEUE_FULL,
            &programs.handle_udp_fail_queue_rcv_skb,
        )?,
        refused(drop_kind::DROP_ICMP_SENT, &programs.handle_icmp_send)?,
    ])
}

/// Returns the drops that are in no place's count, by kind: for these, or because the map was full.
fn uncounted_drops(kernel: &KernelCounts<'_>) -> Result<Vec<(drop_kind, u64)>, HooksError> {
    let full = kernel.variables().map(|bss| bss.drops_uncounted);
    let full = full.into_iter().flatten().zip(0..);
    let full = full.map(|(count, kind)| (drop_kind(kind), count));
    Ok(full.chain(refused_runs(kernel)?).collect())
}

/// The probe of drops.
pub(crate) struct Drops;

impl Probe for Drops {
    fn name(&self) -> &'static str {
        "drops"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::PacketDrop)
    }

    fn is_on(&self, levels: Levels) -> bool {
        !levels.summaries
    }

    fn needs_bpf(&self) -> bool {
        true
    }

    fn hooks(&self) -> &'static [Tracepoint] {
        &HOOKS
    }

    fn maps(&self) -> &'static [&'static str] {
        &["drop_counts"]
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_DROP_SEEN, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        kernel.records(record_kind::RECORD_DROP_SEEN)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        let features = support.features;
        let mut all = vec![drops_coverage(self.name(), features)];
        all.extend(features.unless_on("drops.resets_sent", &HOOKS[1..2]));
        all.extend(features.unless_on("drops.resets_received", &HOOKS[2..3]));
        all.extend(features.unless_on("drops.queues", &HOOKS[3..4]));
        all.extend(features.unless_on("drops.udp_queues", &HOOKS[4..5]));
        all.extend(features.unless_on("drops.icmp", &HOOKS[5..]));
        all
    }
}

/// The probe of counts of drops, which are read in user space.
pub(crate) struct DropReadings;

impl Probe for DropReadings {
    fn name(&self) -> &'static str {
        "drops.counts"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::DropCount)
    }

    fn is_on(&self, levels: Levels) -> bool {
        !levels.summaries
    }
}

/// Returns how dropped packets are seen.
fn drops_coverage(probe: &str, features: &Features) -> Coverage {
    let covered = features.hook_coverage(probe, &HOOKS[..1]);
    if covered.state != ProbeState::On {
        return covered;
    }
    let lacks = [
        (
            features.arguments("kfree_skb") < 3,
            "places without reasons",
            "this kernel gives no reasons of drops (Linux 5.17 does)",
        ),
        (
            !kernel_names().has_functions(),
            "reasons without names of functions",
            "the kernel hides the addresses of its functions (/proc/kallsyms)",
        ),
    ];
    let lack = lacks.into_iter().find(|(is_lacking, ..)| *is_lacking);
    lack.map_or_else(
        || on(probe),
        |(_, which, why)| Coverage {
            probe: probe.to_owned(),
            state: ProbeState::Fallback {
                which: which.to_owned(),
                why: why.to_owned(),
            },
        },
    )
}

/// Adds the row of one drop; None if the record is damaged.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    output
        .rows
        .drops
        .push(row::make_row(&read(body)?, kernel_names())?);
    Some(())
}
