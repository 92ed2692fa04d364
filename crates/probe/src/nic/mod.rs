//! `messages.nic`: when the network adapter put a sent message on the wire, by the adapter's own clock. In:
//! adapters that are set to stamp what they send; whylat sets none. Out: columns of `sent_messages`.
//!
//! [`Stamper`] loads a BPF object of its own (`nic.bpf.c`), only where there is such an adapter, and gives rows
//! of messages their stamps.

mod attach;
mod daemon;
mod find;
mod matching;
mod skel;

use table::manifest::{Coverage, ProbeState};

pub use attach::{NicCounts, Stamper, Storage};
use find::Interface;
use skel::types::nic_place;

/// Name of the probe in coverage and accounts.
pub const PROBE: &str = "messages.nic";

/// The adapters of this host.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nics(Vec<Interface>);

impl Nics {
    /// Asks every network interface.
    pub(crate) fn find() -> Self {
        Self(find::find_interfaces())
    }

    /// Returns where the stamping adapters are, and which clock each has.
    fn stamping_places(&self) -> impl Iterator<Item = (nic_place, u16)> {
        let stamping = self.0.iter().filter(|found| found.stamps_sent);
        stamping.map(|found| {
            let Interface {
                netns,
                ifindex,
                ptp,
                ..
            } = *found;
            (nic_place { netns, ifindex }, ptp)
        })
    }

    /// Returns whether one of the adapters stamps received packets.
    pub(crate) fn stamp_received(&self) -> bool {
        self.0.iter().any(|found| found.stamps_received)
    }

    /// Returns why no adapter's stamps can be seen; `None`: some can. `shared`: although a daemon
    /// uses them, too.
    fn lack(&self, shared: bool) -> Option<ProbeState> {
        let off = |why: String, remedy: String| Some(ProbeState::Off { why, remedy });
        let Some(first) = self.0.first() else {
            let why = "no network adapter here stamps what it sends by a clock of its own";
            return off(why.to_owned(), String::new());
        };
        let clocks: Vec<u16> = self.stamping_places().map(|(_, ptp)| ptp).collect();
        if !clocks.is_empty() {
            let daemon = daemon::find(&clocks).filter(|_| !shared)?;
            return off(
                format!("{daemon}; it may miss its own timestamps if whylat requests some, too"),
                "if the adapter stamps several packets at a time: --nic-stamps".to_owned(),
            );
        }
        let names: Vec<&str> = self.0.iter().map(|found| found.name.as_str()).collect();
        off(
            format!(
                "{} can stamp what is sent, and is not set to",
                names.join(", ")
            ),
            format!("set it: {}", switch_on(&first.name)),
        )
    }
}

/// Returns the command that enables timestamps of an interface.
fn switch_on(name: &str) -> String {
    format!("hwstamp_ctl -i {name} -t 1 (or ethtool --set-hwtimestamp-cfg {name} tx on)")
}

/// Makes the coverage line of adapters' timestamps.
fn coverage_line(state: ProbeState) -> Coverage {
    Coverage {
        probe: PROBE.to_owned(),
        state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an adapter without a place.
    pub(super) fn interface(name: &str, stamps: bool) -> Interface {
        Interface {
            netns: 1,
            ifindex: 2,
            name: name.to_owned(),
            ptp: 0,
            stamps_sent: stamps,
            stamps_received: stamps,
        }
    }

    #[test]
    fn missing_stamps_are_named_with_the_command() {
        let lack = |found: &[Interface]| match Nics(found.to_vec()).lack(true) {
            Some(ProbeState::Off { why, remedy }) => Some((why, remedy)),
            _ => None,
        };
        let (_, remedy) = lack(&[]).expect("nothing there");
        assert_eq!(remedy, "");
        let (why, remedy) = lack(&[interface("eth0", false)]).expect("not set to");
        assert!(why.starts_with("eth0 ") && remedy.contains("hwstamp_ctl -i eth0 -t 1"));
        assert!(lack(&[interface("eth0", false), interface("eth1", true)]).is_none());
    }
}
