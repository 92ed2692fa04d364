//! Why a packet was dropped: the kernel's reason, its function, and the hook of netfilter or the qdisc.

use table::DropKind;
use table::tables::PacketDrop;

use super::hook::hook_of_stack;
use super::meaning::{ReasonMeaning, find_meaning};
use super::qdisc::{DroppingQdisc, QdiscLevel};

/// Reason, function, and hook of netfilter or qdisc.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DropCause {
    /// The kernel's reason; `None`: it gives none.
    pub reason: Option<String>,
    /// The function; `None`: its name is hidden.
    pub place: Option<String>,
    /// Hook of netfilter; `None`: not dropped by it.
    pub hook: Option<&'static str>,
    /// The qdisc; `None`: not dropped by one, or it is not known.
    pub qdisc: Option<DroppingQdisc>,
}

impl DropCause {
    /// Returns the cause of a dropped packet's row.
    pub fn from_row(row: &PacketDrop) -> Self {
        let is_netfilter = row.reason.as_deref() == Some("NETFILTER_DROP");
        let stack = row.stack.as_deref().filter(|_| is_netfilter);
        Self {
            reason: row.reason.clone(),
            place: row.place.clone(),
            hook: stack.and_then(hook_of_stack),
            qdisc: DroppingQdisc::from_row(row),
        }
    }

    /// Returns the cause as reports print it: `NETFILTER_DROP in nft_do_chain(), hook input`.
    pub fn title(&self) -> String {
        let mut title = self.reason.clone().unwrap_or_else(|| "no reason".into());
        if let Some(place) = &self.place {
            title += &format!(" in {place}()");
        }
        if let Some(hook) = self.hook {
            title += &format!(", hook {hook}");
        }
        if let Some(qdisc) = &self.qdisc {
            title += &format!(", {}", qdisc.title());
        }
        title
    }

    /// Returns what the kernel's reason means; None if it is not in the list.
    fn known_meaning(&self) -> Option<ReasonMeaning> {
        find_meaning(
            DropKind::Packet,
            self.reason.as_deref()?,
            self.place.as_deref(),
        )
    }

    /// Returns the cause's meaning as a sentence without a full stop: `A firewall rule dropped the
    /// packet`.
    pub fn meaning(&self) -> String {
        match (self.known_meaning(), &self.reason, &self.place) {
            (Some(known), ..) => self.name_qdisc(known.what.trim_end_matches('.')),
            (None, Some(reason), _) => format!("The kernel gives {reason} as the reason"),
            (None, None, Some(place)) => format!("{place}() of the kernel dropped the packet"),
            (None, None, None) => "The kernel gives no reason".to_owned(),
        }
    }

    /// Replaces "a qdisc" in a sentence by the name of this one.
    fn name_qdisc(&self, sentence: &str) -> String {
        match (&self.qdisc, sentence.strip_prefix("A qdisc ")) {
            (Some(qdisc), Some(rest)) => format!("The {} {rest}", qdisc.title()),
            _ => sentence.to_owned(),
        }
    }

    /// Returns the cause's meaning, with what is known of the qdisc's limit.
    pub fn meaning_at(&self, level: Option<&QdiscLevel>) -> String {
        match (&self.qdisc, level) {
            (Some(qdisc), Some(level)) if level.is_mostly_full() => {
                format!("The {} was full", qdisc.title())
            }
            _ => self.meaning(),
        }
    }

    /// Returns meaning and remedy, with how full the qdisc was.
    pub fn explain_at(&self, level: Option<&QdiscLevel>) -> String {
        let (Some(known), Some(qdisc), Some(level)) = (self.known_meaning(), &self.qdisc, level)
        else {
            return self.explain();
        };
        let remedy = match level.is_mostly_full() {
            true => "Raise its limit or rate, or send less: `tc -s qdisc`.",
            false => known.remedy,
        };
        let general = ["QDISC_DROP", "QDISC_DROP_GENERIC"];
        let is_general = self
            .reason
            .as_deref()
            .is_some_and(|it| general.contains(&it));
        format!(
            "{}: {} {} {remedy}",
            self.title(),
            self.name_qdisc(known.what),
            qdisc.explain(level, is_general)
        )
    }

    /// Returns the cause with its meaning and a remedy.
    pub fn explain(&self) -> String {
        match self.known_meaning() {
            Some(known) => format!(
                "{}: {} {}",
                self.title(),
                self.name_qdisc(known.what),
                known.remedy
            ),
            None => format!(
                "{}: look the function up in the kernel's source.",
                self.title()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_loss_of_a_qdisc_that_was_full_once_is_not_called_full() {
        let cause = DropCause {
            reason: Some("QDISC_DROP".into()),
            place: Some("__dev_queue_xmit".into()),
            hook: None,
            qdisc: Some(DroppingQdisc {
                kind: "netem".into(),
                child: None,
                candidates: Vec::new(),
                device: Some("v0".into()),
                limit: Some(1000),
            }),
        };
        let level = |full| QdiscLevel {
            drops: 100,
            full,
            packets: Some(1000),
            bytes: Some(1_514_000),
        };
        let once = cause.explain_at(Some(&level(1)));
        assert!(once.contains("its option loss"), "{once}");
        assert!(!once.contains("Raise its limit"), "{once}");
        assert_eq!(
            cause.meaning_at(Some(&level(1))),
            "The qdisc netem of v0 dropped the packet"
        );
        let always = cause.explain_at(Some(&level(100)));
        assert!(always.contains("Raise its limit"), "{always}");
        assert!(!always.contains("its option loss"), "{always}");
        assert_eq!(
            cause.meaning_at(Some(&level(100))),
            "The qdisc netem of v0 was full"
        );
    }
}
