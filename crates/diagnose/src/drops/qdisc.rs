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
    /// Kind of its only child; `None`: it has none, or several.
    pub child: Option<String>,
    /// Device; `None`: not known.
    pub device: Option<String>,
    /// Limit of the child or, without one, of the qdisc; `None`: not known.
    pub limit: Option<u32>,
}

impl DroppingQdisc {
    /// Returns that of a row; `None`: no qdisc dropped it, or it is not known.
    pub fn from_row(row: &PacketDrop) -> Option<Self> {
        Some(Self {
            kind: row.qdisc.clone()?,
            child: row.qdisc_child.clone(),
            device: row.device.clone(),
            limit: row.qdisc_limit,
        })
    }

    /// As it is printed: `qdisc tbf of v0`.
    pub fn title(&self) -> String {
        match &self.device {
            Some(device) => format!("qdisc {} of {device}", self.kind),
            None => format!("qdisc {}", self.kind),
        }
    }

    /// Returns the kind of the child or, without one, of the qdisc, and `bytes` or `packets`.
    fn limited(&self) -> (&str, &'static str) {
        let kind = self.child.as_deref().unwrap_or(&self.kind);
        (kind, if kind == "bfifo" { "bytes" } else { "packets" })
    }

    /// Returns what is known of its limit, as a sentence. `is_general`: the kernel says only that a qdisc dropped packets.
    pub fn explain(&self, level: &QdiscLevel, is_general: bool) -> String {
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
                "{kind} was full at {} of {} drops: its limit is {} {unit}.",
                count(level.full),
                count(level.drops),
                count(u64::from(limit))
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

    fn other_reason(&self) -> String {
        let own = OTHER_REASONS.iter().find(|(kind, _)| *kind == self.kind);
        own.map_or_else(String::new, |(_, reason)| format!("; {reason}"))
    }
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
    /// Adds a drop.
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

    fn qdisc(kind: &str, child: Option<&str>, limit: Option<u32>) -> DroppingQdisc {
        DroppingQdisc {
            kind: kind.into(),
            child: child.map(str::to_owned),
            device: Some("v0".into()),
            limit,
        }
    }

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
        assert_eq!(
            qdisc("fq", None, Some(10_000)).explain(&level(0, 101, 9000), false),
            "fq held at most 101 of 10,000 packets right after a drop."
        );
        let tbf = qdisc("tbf", Some("bfifo"), Some(4000));
        assert_eq!(
            tbf.explain(&level(4, 2, 3028), true),
            "bfifo was full at 4 of 5 drops: its limit is 4,000 bytes."
        );
        let htb = qdisc("htb", None, None);
        assert_eq!(
            htb.explain(&level(0, 7, 9000), true),
            "htb held at most 7 packets right after a drop; its limit is not known."
        );
        assert_eq!(
            qdisc("pfifo_fast", None, None).explain(&QdiscLevel::default(), true),
            "Its backlog is not known."
        );
    }
}
