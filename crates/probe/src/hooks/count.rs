//! How many records each probe produced and lost, as counted in the kernel where it happened.

use std::os::fd::AsFd;

use libbpf_rs::{MapCore, MapFlags, ProgramMut};

use super::HooksError;
use crate::self_cost::program_info;
use crate::skel::HooksSkel;
use crate::wire::types as wire;
use crate::wire::{Wire, read};

// SAFETY: both are `repr(C)` and made of integers and arrays of `Wire` records.
unsafe impl Wire for wire::record_count {}
// SAFETY: see above.
unsafe impl Wire for wire::call_batch {}
// SAFETY: see above.
unsafe impl Wire for wire::wait_batch {}
// SAFETY: see above.
unsafe impl Wire for wire::received_batch {}
// SAFETY: `sent_batch` is `repr(C)` and made of integers.
unsafe impl Wire for wire::sent_batch {}

/// Records of one probe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProbeCount {
    /// Records that the hooks set out to make.
    pub produced: u64,
    /// Of these, lost because the ring was full.
    pub lost_ring_full: u64,
}

impl ProbeCount {
    fn add(&mut self, produced: u64, lost_ring_full: u64) {
        self.produced += produced;
        self.lost_ring_full += lost_ring_full;
    }
}

/// Records of all probes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of `connections`.
    pub connections: ProbeCount,
    /// Rows of `listeners`.
    pub listeners: ProbeCount,
    /// Rows of `udp_sockets`.
    pub udp_sockets: ProbeCount,
    /// Processes that became other programs: each is a row of `processes`.
    pub programs: ProbeCount,
    /// Rows of `tcp_events`.
    pub tcp_events: ProbeCount,
    /// Rows of `tcp_samples` made when a socket closes.
    pub close_samples: ProbeCount,
    /// Rows of `tcp_stages` made when a socket closes.
    pub close_stages: ProbeCount,
    /// Last readings of watched sockets.
    pub close_readings: ProbeCount,
    /// Rows of `calls`.
    pub calls: ProbeCount,
    /// Rows of `waits`.
    pub waits: ProbeCount,
    /// Rows of `received_messages`.
    pub received: ProbeCount,
    /// Rows of `sent_messages`.
    pub sent: ProbeCount,
    /// Rows of `spins`.
    pub spins: ProbeCount,
    /// Switches between threads that were not looked at, because the kernel refused to run the program
    /// inside itself.
    pub waits_reentered: u64,
    /// Calls that no record was made of, because the kernel refused to run the program inside
    /// itself (`recursion_misses`), or an interrupt ended one while its batch was handed over.
    pub calls_reentered: u64,
    /// Received messages that no record was made of, for the same reason.
    pub received_reentered: u64,
    /// Sent messages, the same.
    pub sent_reentered: u64,
    /// Events that no record was made of, for the same reason.
    pub events_reentered: u64,
    /// Sends of which nothing is told: too many threads wait for room in one socket.
    pub lost_sends: u64,
    /// Sockets that could not be recorded for want of kernel memory.
    pub lost_sockets: u64,
    /// Processes that are not recorded, because the map of those that are is full.
    pub lost_tasks: u64,
    /// Connections whose other end on this host is not told, because the map of such ends is full.
    pub lost_peers: u64,
    /// Sockets seen by walks over the recorded ones.
    pub walked: u64,
    /// Of these, without a new sample.
    pub unchanged: u64,
    /// Ledgers read by walks.
    pub ledgers: u64,
}

impl Counts {
    /// Records of watched sockets that were made and did not arrive, and sockets and calls that none
    /// could be made of.
    pub fn lost_to_watch(&self) -> u64 {
        self.connections.lost_ring_full
            + self.close_readings.lost_ring_full
            + self.lost_sockets
            + self.calls_reentered
            + self.events_reentered
    }
}

pub(super) fn read_all(
    skel: &HooksSkel<'_>,
    has_calls: bool,
    has_waits: bool,
    has_messages: bool,
) -> Result<Counts, HooksError> {
    let mut counts = Counts::default();
    let kinds = [
        (
            wire::record_kind::RECORD_SOCKET_SEEN,
            &mut counts.connections,
        ),
        (
            wire::record_kind::RECORD_LISTENER_SEEN,
            &mut counts.listeners,
        ),
        (wire::record_kind::RECORD_UDP_SEEN, &mut counts.udp_sockets),
        (wire::record_kind::RECORD_PROGRAM_SEEN, &mut counts.programs),
        (wire::record_kind::RECORD_SPIN_SEEN, &mut counts.spins),
        (wire::record_kind::RECORD_TCP_EVENT, &mut counts.tcp_events),
        (
            wire::record_kind::RECORD_TCP_SAMPLE,
            &mut counts.close_samples,
        ),
        (
            wire::record_kind::RECORD_STAGE_READING,
            &mut counts.close_stages,
        ),
        (
            wire::record_kind::RECORD_SOCKET_READING,
            &mut counts.close_readings,
        ),
    ];
    for (kind, total) in kinds {
        for count in per_cpu::<wire::record_count>(&skel.maps.record_counts, kind.0)? {
            total.add(count.produced, count.lost_ring_full);
        }
    }
    if has_calls {
        for which in [0, 1] {
            for wire::call_batch { batch, .. } in per_cpu(&skel.maps.call_batches, which)? {
                counts.calls.add(batch.produced, batch.lost_ring_full);
                counts.calls_reentered += batch.lost_flushed;
            }
        }
    }
    let p = &skel.progs;
    if has_waits {
        for wire::wait_batch { batch, .. } in per_cpu(&skel.maps.wait_batches, 0)? {
            counts.waits.add(batch.produced, batch.lost_ring_full);
            counts.waits_reentered += batch.lost_flushed;
        }
        counts.waits_reentered += recursion_misses(&[&p.handle_sched_switch])?;
    }
    if has_messages {
        for by in 0..skel.maps.received_batches.max_entries() {
            for wire::received_batch { batch, .. } in per_cpu(&skel.maps.received_batches, by)? {
                counts.received.add(batch.produced, batch.lost_ring_full);
                counts.received_reentered += batch.lost_flushed;
            }
        }
        for by in 0..skel.maps.sent_batches.max_entries() {
            for wire::sent_batch { batch, .. } in per_cpu(&skel.maps.sent_batches, by)? {
                counts.sent.add(batch.produced, batch.lost_ring_full);
                counts.sent_reentered += batch.lost_flushed;
            }
        }
    }
    let of_sends = [&p.handle_sock_send_length, &p.handle_tcp_sendmsg];
    let of_receives = [
        &p.handle_sock_recv_length,
        &p.handle_tcp_recvmsg,
        &p.handle_tcp_recvmsg_nonblock,
    ];
    let of_events = [
        &p.handle_inet_sock_set_state,
        &p.handle_tcp_cong_state_set,
        &p.handle_tcp_retransmit_skb,
    ];
    let (sends, receives) = (
        recursion_misses(&of_sends)?,
        recursion_misses(&of_receives)?,
    );
    counts.calls_reentered += sends + receives;
    if has_messages {
        let takes = recursion_misses(&[&p.handle_tcp_rcv_space_adjust])?;
        counts.sent_reentered += sends;
        counts.received_reentered += receives + takes;
    }
    counts.events_reentered = recursion_misses(&of_events)?;
    if let Some(bss) = skel.maps.bss_data.as_deref() {
        counts.lost_sockets = bss.lost_socket_storage;
        counts.lost_tasks = bss.lost_tasks;
        counts.lost_sends = bss.lost_sends;
        counts.lost_peers = bss.lost_peers;
        counts.walked = bss.walked.sockets;
        counts.unchanged = bss.walked.unchanged;
        counts.ledgers = bss.walked.ledgers;
    }
    Ok(counts)
}

pub(super) fn per_cpu<T: Wire>(map: &impl MapCore, key: u32) -> Result<Vec<T>, HooksError> {
    let values = map
        .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| HooksError::Use {
            action: "read record counts",
            error,
        })?;
    Ok(values
        .unwrap_or_default()
        .iter()
        .filter_map(|bytes| read(bytes))
        .collect())
}

fn recursion_misses(programs: &[&ProgramMut<'_>]) -> Result<u64, HooksError> {
    let mut misses = 0;
    for program in programs.iter().filter(|program| program.autoload()) {
        let info = program_info(program.as_fd()).map_err(|error| HooksError::Read {
            what: "program statistics",
            error,
        })?;
        misses += info.recursion_misses;
    }
    Ok(misses)
}
