//! The qdisc that dropped packets, and what waited in it.

use table::tables::PacketDrop;

use crate::units::count;

/// Qdiscs that drop packets for another reason than their limit, and that reason.
const OTHER_REASONS: &[(&str, &str)] = &[
    ("netem", "netem also drops as its option loss says"),
    (
        "tbf",
        "tbf also drops packets that are longer than its burst",
    ),
    ("fq", "fq also drops what is beyond flow_limit or horizon"),
];

/// The qdisc that dropped a packet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DroppingQdisc {
    /// Kind.
    pub kind: String,
    /// Kind of its child that dropped it, or of its only child; `None`: it has none, or it is not known.
    pub child: Option<String>,
    /// Kinds of its children that may have dropped it, if they are several.
    pub candidates: Vec<String>,
    /// Device; `None`: not known.
    pub device: Option<String>,
    /// Limit of the child or, without one, of the qdisc; `None`: not known.
    pub limit: Option<u32>,
}

impl DroppingQdisc {
    /// Returns the qdisc that dropped a row's packet; `None`: none did, or it is unknown.
    pub fn from_row(row: &PacketDrop) -> Option<Self> {
        Some(Self {
            kind: row.qdisc.clone()?,
            child: row.qdisc_child.clone(),
            candidates: candidates_of(row),
            device: row.device.clone(),
            limit: row.qdisc_limit,
        })
    }

    /// Returns the qdisc as reports print it: `qdisc tbf of v0`.
    pub fn title(&self) -> String {
        match &self.device {
            Some(device) => format!("qdisc {} of {device}", self.kind),
            None => format!("qdisc {}", self.kind),
        }
    }

    /// Returns the children that may have dropped the packet: `bfifo or pfifo below it`; `None`:
    /// none may.
    pub fn name_candidates(&self) -> Option<String> {
        let names = self.candidates.join(" or ");
        (!names.is_empty()).then(|| format!("{names} below it"))
    }

    /// Returns the kind of the child or qdisc with the limit, and the limit's unit: `bytes` or
    /// `packets`.
    fn limited(&self) -> (&str, &'static str) {
        let kind = self.child.as_deref().unwrap_or(&self.kind);
        (kind, if kind == "bfifo" { "bytes" } else { "packets" })
    }

    /// Returns a sentence on the qdisc's limit. `is_general`: the kernel says only that a qdisc
    /// dropped packets.
    pub fn explain(&self, level: &QdiscLevel, is_general: bool) -> String {
        if let Some(names) = self.name_candidates() {
            return format!("{names} dropped it; the kernel does not say which.");
        }
        let other = if is_general {
            self.other_reason()
        } else {
            String::new()
        };
        let (kind, unit) = self.limited();
        let waiting = match unit {
            "bytes" => level.bytes,
            _ => level.packets,
        };
        match (self.limit, waiting) {
            (Some(limit), _) if level.full > 0 => format!(
                "{kind} was full at {} of {} drops: its limit is {} {unit}{}.",
                count(level.full),
                count(level.drops),
                count(u64::from(limit)),
                match level.full < level.drops {
                    true => other,
                    false => String::new(),
                }
            ),
            (Some(limit), Some(waiting)) => format!(
                "{kind} held at most {} of {} {unit} right after a drop{}.",
                count(waiting),
                count(u64::from(limit)),
                other
            ),
            (None, Some(waiting)) => format!(
                "{kind} held at most {} {unit} right after a drop; its limit is not known{}.",
                count(waiting),
                other
            ),
            (_, None) => "Its backlog is not known.".to_owned(),
        }
    }

    /// Returns other reasons for which qdisc and child drop packets, each after a semicolon.
    fn other_reason(&self) -> String {
        let kinds = [Some(self.kind.as_str()), self.child.as_deref()];
        let own = OTHER_REASONS.iter();
        let own = own.filter(|(kind, _)| kinds.contains(&Some(*kind)));
        own.map(|(_, reason)| format!("; {reason}")).collect()
    }
}

/// Returns the kinds of the children that may have dropped a packet.
pub fn candidates_of(row: &PacketDrop) -> Vec<String> {
    let names = row.qdisc_candidates.as_deref().into_iter();
    names
        .flat_map(|it| it.split(", "))
        .map(str::to_owned)
        .collect()
}

/// Packets and bytes that waited in a qdisc right after it dropped packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QdiscLevel {
    /// Drops.
    pub drops: u64,
    /// Of these, those at which it held as much as its limit.
    pub full: u64,
    /// Most packets; `None`: not known.
    pub packets: Option<u64>,
    /// Most bytes; `None`: not known.
    pub bytes: Option<u64>,
}

impl QdiscLevel {
    /// Returns whether the qdisc was full at most of its drops. A few others prove nothing: a qdisc
    /// may send packets between a drop and the look at it, and a qdisc that drops at random is full
    /// by chance.
    pub fn is_mostly_full(&self) -> bool {
        self.full * 2 > self.drops
    }

    /// Adds one drop, and how full the qdisc was then.
    pub fn add(&mut self, row: &PacketDrop) {
        self.drops += 1;
        self.full += u64::from(row.qdisc_full == Some(true));
        self.packets = self.packets.max(row.qdisc_packets.map(u64::from));
        self.bytes = self.bytes.max(row.qdisc_bytes.map(u64::from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a qdisc that dropped packets, with its child and its limit in packets.
    fn qdisc(kind: &str, child: Option<&str>, limit: Option<u32>) -> DroppingQdisc {
        DroppingQdisc {
            kind: kind.into(),
            child: child.map(str::to_owned),
            candidates: Vec::new(),
            device: Some("v0".into()),
            limit,
        }
    }

    /// Makes the fill level at 5 drops: `full` of them found the queue full.
    fn level(full: u64, packets: u64, bytes: u64) -> QdiscLevel {
        QdiscLevel {
            drops: 5,
            full,
            packets: Some(packets),
            bytes: Some(bytes),
        }
    }

    #[test]
    fn a_qdisc_is_called_full_only_where_that_is_known() {
        let netem = qdisc("netem", None, Some(1000));
        assert_eq!(
            netem.explain(&level(0, 3, 4542), true),
            "netem held at most 3 of 1,000 packets right after a drop; netem also drops as its option loss says."
        );
        // full at one drop, and the others came by its option loss
        assert_eq!(
            netem.explain(&level(1, 1000, 1_514_000), true),
            "netem was full at 1 of 5 drops: its limit is 1,000 packets; netem also drops as its option loss says."
        );
        let of_htb = qdisc("htb", Some("netem"), Some(1000));
        assert_eq!(
            of_htb.explain(&level(0, 3, 4542), true),
            "netem held at most 3 of 1,000 packets right after a drop; netem also drops as its option loss says."
        );
        assert_eq!(
            qdisc("fq", None, Some(10_000)).explain(&level(0, 101, 9000), false),
            "fq held at most 101 of 10,000 packets right after a drop."
        );
        let tbf = qdisc("tbf", Some("bfifo"), Some(4000));
        assert_eq!(
            tbf.explain(&level(5, 2, 3028), true),
            "bfifo was full at 5 of 5 drops: its limit is 4,000 bytes."
        );
        let htb = qdisc("htb", None, None);
        assert_eq!(
            htb.explain(&level(0, 7, 9000), true),
            "htb held at most 7 packets right after a drop; its limit is not known."
        );
        let of_several = DroppingQdisc {
            candidates: vec!["bfifo".into(), "pfifo".into()],
            ..htb
        };
        assert_eq!(
            of_several.explain(&level(0, 7, 9000), true),
            "bfifo or pfifo below it dropped it; the kernel does not say which."
        );
        assert_eq!(
            qdisc("pfifo_fast", None, None).explain(&QdiscLevel::default(), true),
            "Its backlog is not known."
        );
    }
}
