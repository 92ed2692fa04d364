//! Why a packet was dropped: the kernel's reason, its function, and the hook of netfilter.

use table::DropKind;
use table::tables::PacketDrop;

use super::hook::hook_of_stack;
use super::meaning::{ReasonMeaning, find_meaning};

/// Reason, function, and hook of netfilter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DropCause {
    /// The kernel's reason; `None`: it gives none.
    pub reason: Option<String>,
    /// The function; `None`: its name is hidden.
    pub place: Option<String>,
    /// Hook of netfilter; `None`: not dropped by it.
    pub hook: Option<&'static str>,
}

impl DropCause {
    /// Returns that of a row.
    pub fn from_row(row: &PacketDrop) -> Self {
        let is_netfilter = row.reason.as_deref() == Some("NETFILTER_DROP");
        let stack = row.stack.as_deref().filter(|_| is_netfilter);
        Self {
            reason: row.reason.clone(),
            place: row.place.clone(),
            hook: stack.and_then(hook_of_stack),
        }
    }

    /// As it is printed: `NETFILTER_DROP in nft_do_chain(), hook input`.
    pub fn title(&self) -> String {
        let mut title = self.reason.clone().unwrap_or_else(|| "no reason".into());
        if let Some(place) = &self.place {
            title += &format!(" in {place}()");
        }
        if let Some(hook) = self.hook {
            title += &format!(", hook {hook}");
        }
        title
    }

    fn known_meaning(&self) -> Option<ReasonMeaning> {
        find_meaning(
            DropKind::Packet,
            self.reason.as_deref()?,
            self.place.as_deref(),
        )
    }

    /// Returns its meaning in plain words, as a sentence without a full stop: `A firewall rule dropped the packet`.
    pub fn meaning(&self) -> String {
        match (self.known_meaning(), &self.reason, &self.place) {
            (Some(known), ..) => known.what.trim_end_matches('.').to_owned(),
            (None, Some(reason), _) => format!("The kernel gives {reason} as the reason"),
            (None, None, Some(place)) => format!("{place}() of the kernel dropped the packet"),
            (None, None, None) => "The kernel gives no reason".to_owned(),
        }
    }

    /// Returns it with its meaning and a remedy.
    pub fn explain(&self) -> String {
        match self.known_meaning() {
            Some(known) => format!("{}: {} {}", self.title(), known.what, known.remedy),
            None => format!(
                "{}: look the function up in the kernel's source.",
                self.title()
            ),
        }
    }
}
