//! The qdisc that dropped a packet, as a record has it → columns of table `drops`.

use table::tables::PacketDrop;

use crate::wire::text;
use crate::wire::types::drop_qdisc;

/// Reasons that qdiscs give (`include/net/dropreason-core.h`).
const REASONS: [&str; 8] = [
    "QDISC_DROP",
    "QDISC_OVERLIMIT",
    "QDISC_CONGESTED",
    "CAKE_FLOOD",
    "FQ_BAND_LIMIT",
    "FQ_HORIZON_LIMIT",
    "FQ_FLOW_LIMIT",
    "DUALPI2_STEP_DROP",
];

/// Qdiscs that compare `sch->q.qlen` with `sch->limit`, a number of packets: their `enqueue` in `net/sched`.
const LIMITED_IN_PACKETS: [&str; 8] = [
    "pfifo",
    "pfifo_head_drop",
    "netem",
    "codel",
    "fq",
    "fq_codel",
    "fq_pie",
    "pie",
];

/// Returns whether a qdisc gives this reason.
pub(super) fn is_qdisc_reason(reason: &str) -> bool {
    REASONS.contains(&reason)
}

/// Fills the columns of the qdisc.
pub(super) fn fill_qdisc(row: &mut PacketDrop, qdisc: &drop_qdisc) {
    let name = |bytes: &[i8; 16]| Some(text(bytes)).filter(|name| !name.is_empty());
    let Some(kind) = name(&qdisc.kind) else {
        return;
    };
    let child = name(&qdisc.child);
    let has_level = qdisc.has_level != 0;
    row.qdisc_limit = known_limit(qdisc);
    row.qdisc_packets = has_level.then_some(qdisc.packets);
    row.qdisc_bytes = has_level.then_some(qdisc.bytes);
    row.qdisc_full = is_full(child.as_deref().unwrap_or(&kind), qdisc);
    row.qdisc = Some(kind);
    row.qdisc_child = child;
}

/// Returns the limit; `None`: the qdisc has none, or keeps it elsewhere.
fn known_limit(qdisc: &drop_qdisc) -> Option<u32> {
    (qdisc.limit != 0).then_some(qdisc.limit)
}

/// Returns whether a qdisc of this kind held as much as its limit, by the test of its `enqueue`.
fn is_full(kind: &str, qdisc: &drop_qdisc) -> Option<bool> {
    let limit = known_limit(qdisc).filter(|_| qdisc.has_level != 0)?;
    if kind == "bfifo" {
        let with_packet = u64::from(qdisc.bytes) + u64::from(qdisc.packet_bytes);
        return Some(with_packet > u64::from(limit));
    }
    let is_known = LIMITED_IN_PACKETS.contains(&kind);
    is_known.then_some(qdisc.packets >= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(limit: u32, packets: u32, bytes: u32) -> drop_qdisc {
        // SAFETY: `Wire` says of `drop_seen`, which has it, that any bytes are a value.
        let zeros: drop_qdisc = unsafe { std::mem::zeroed() };
        drop_qdisc {
            limit,
            packets,
            bytes,
            packet_bytes: 1514,
            has_level: 1,
            ..zeros
        }
    }

    #[test]
    fn qdisc_is_full_by_its_own_test() {
        assert_eq!(is_full("pfifo", &level(10, 10, 15_140)), Some(true));
        assert_eq!(is_full("netem", &level(1000, 3, 4542)), Some(false));
        // bytes, with the packet that found no room
        assert_eq!(is_full("bfifo", &level(4000, 2, 3028)), Some(true));
        assert_eq!(is_full("bfifo", &level(4542, 2, 3028)), Some(false));
    }

    #[test]
    fn unknown_limit_is_not_full() {
        assert_eq!(is_full("tbf", &level(0, 10, 15_140)), None);
        assert_eq!(is_full("htb", &level(10, 10, 15_140)), None);
        let per_cpu = drop_qdisc {
            has_level: 0,
            ..level(10, 0, 0)
        };
        assert_eq!(is_full("pfifo", &per_cpu), None);
    }
}
