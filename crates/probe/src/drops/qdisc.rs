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

/// In place of the kinds of children beyond those that a record has.
const OTHERS: &str = "others";

/// Returns whether qdiscs give this reason.
pub(super) fn is_qdisc_reason(reason: &str) -> bool {
    REASONS.contains(&reason)
}

/// Fills the row's columns on the qdisc that dropped the packet.
pub(super) fn fill_qdisc(row: &mut PacketDrop, qdisc: &drop_qdisc) {
    let name = |bytes: &[i8; 16]| Some(text(bytes)).filter(|name| !name.is_empty());
    let Some(kind) = name(&qdisc.kind) else {
        return;
    };
    let mut candidates = candidate_kinds(qdisc);
    let is_of_one_kind = candidates.len() == 1;
    let child = match is_of_one_kind {
        true => candidates.pop(),
        false => name(&qdisc.child),
    };
    row.qdisc_candidates = Some(candidates.join(", ")).filter(|it| !it.is_empty());
    row.qdisc = Some(kind.clone());
    row.qdisc_child.clone_from(&child);
    if is_of_one_kind {
        // the level is that of their parent
        return;
    }
    let has_level = qdisc.has_level != 0;
    row.qdisc_limit = known_limit(qdisc);
    row.qdisc_packets = has_level.then_some(qdisc.packets);
    row.qdisc_bytes = has_level.then_some(qdisc.bytes);
    row.qdisc_full = is_full(child.as_deref().unwrap_or(&kind), qdisc);
}

/// Returns the kinds of the children that may have dropped the packet, each once.
fn candidate_kinds(qdisc: &drop_qdisc) -> Vec<String> {
    let count = usize::from(qdisc.candidate_count);
    let kept = qdisc.candidates.iter().take(count).map(|it| text(it));
    let mut kinds: Vec<String> = kept.filter(|kind| !kind.is_empty()).collect();
    kinds.sort();
    kinds.dedup();
    if count > qdisc.candidates.len() && !kinds.is_empty() {
        kinds.push(OTHERS.to_owned());
    }
    kinds
}

/// Returns the qdisc's limit; `None`: it has none, or keeps it elsewhere.
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

    /// Makes a qdisc with this limit and fill level.
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

    /// Makes the kernel's array of a qdisc's name.
    fn kind(name: &str) -> [i8; 16] {
        let bytes = name.bytes().map(u8::cast_signed);
        let mut kind = [0; 16];
        kind.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        kind
    }

    /// Makes a qdisc with these candidates for the child that dropped.
    fn with_children(names: &[&str], count: u16) -> drop_qdisc {
        let mut qdisc = level(0, 10, 15_140);
        let candidates = qdisc.candidates.iter_mut().zip(names);
        candidates.for_each(|(to, name)| *to = kind(name));
        qdisc.candidate_count = count;
        qdisc
    }

    #[test]
    fn children_that_dropped_are_named_once_and_others_are_mentioned() {
        let kinds = |names, count| candidate_kinds(&with_children(names, count));
        assert_eq!(kinds(&["pfifo", "bfifo", "pfifo"], 3), ["bfifo", "pfifo"]);
        let many = ["fq", "fq", "fq", "fq"];
        assert_eq!(kinds(&many, 4), ["fq"]);
        assert_eq!(kinds(&many, 5), ["fq", "others"]);
        // one child, and a list that was not followed to its end
        assert_eq!(kinds(&["fq"], 5), ["fq", "others"]);
        assert!(kinds(&["fq"], 0).is_empty());
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
