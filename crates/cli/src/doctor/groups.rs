//! Purposes of a user, and the probes that each needs.

use serde::Serialize;
use table::manifest::{Coverage, ProbeState};

/// Name, title, and the probes that it has whatever detail asks for them. A group with the name of a detail has the other
/// probes of that detail: who adds a probe changes nothing here.
const GROUPS: [(&str, &str, &[&str]); 11] = [
    (
        "stats",
        "statistics of connections (--detail stats)",
        &["cpu"],
    ),
    ("drops", "drops and resets (every detail)", &["drops"]),
    ("calls", "calls and exact stages (--detail calls)", &[]),
    ("waits", "waits of threads (--detail waits)", &[]),
    ("messages", "messages (--detail messages)", &[]),
    (
        "recorder",
        "flight recorder of every CPU (--keep, --trigger)",
        &["activity"],
    ),
    ("stacks", "call stacks with names", &["stacks"]),
    (
        "programs",
        "values of programs (ITT, USDT)",
        &["itt", "usdt"],
    ),
    (
        "processes",
        "connections of chosen processes (run, -p)",
        &["pids"],
    ),
    (
        "namespaces",
        "other network namespaces (--all, the agent)",
        &["netns"],
    ),
    (
        "clocks",
        "clocks, for comparison with other hosts and tools",
        &["clock"],
    ),
];

/// The group of all other rows.
const REST: (&str, &str) = ("tools", "viewer and lab");

/// How well a group works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GroupState {
    /// All of it.
    Works,
    /// Some, or by other means.
    Partly,
    /// None.
    Off,
}

impl GroupState {
    /// Returns the state in words.
    pub(crate) fn describe_state(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Partly => "works partly",
            Self::Off => "does not work",
        }
    }

    /// Returns whether all, some or none of the probes work.
    fn from_rows(rows: &[&Coverage]) -> Self {
        let is_off = |row: &&Coverage| matches!(row.state, ProbeState::Off { .. });
        // nobody misses what nobody can fix
        let is_fine = |row: &&Coverage| match &row.state {
            ProbeState::On => true,
            ProbeState::Fallback { .. } => false,
            ProbeState::Off { remedy, .. } => remedy.is_empty(),
        };
        match rows {
            rows if rows.iter().all(is_off) => Self::Off,
            rows if rows.iter().all(is_fine) => Self::Works,
            _ => Self::Partly,
        }
    }
}

/// Probes for one purpose.
#[derive(Debug, Serialize)]
pub(crate) struct ProbeGroup {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) state: GroupState,
    pub(crate) probes: Vec<String>,
}

/// Groups all rows by purpose; leaves out empty groups.
pub(crate) fn group_probes<'c>(rows: impl Iterator<Item = &'c Coverage>) -> Vec<ProbeGroup> {
    let mut left: Vec<&Coverage> = rows.collect();
    let mut groups = Vec::new();
    for (name, title, _) in GROUPS {
        let (these, others) = left
            .into_iter()
            .partition(|row| group_of(&row.probe) == Some(name));
        groups.push(group(name, title, these));
        left = others;
    }
    groups.push(group(REST.0, REST.1, left));
    groups.retain(|group| !group.probes.is_empty());
    groups
}

/// Returns the name of the group of a probe, or of a part of one.
fn group_of(row: &str) -> Option<&'static str> {
    let probe = row.split('.').next().unwrap_or_default();
    let listed = GROUPS.iter().find(|(_, _, probes)| probes.contains(&probe));
    let name = listed.map(|(name, _, _)| *name);
    name.or_else(|| probe::hooks::least_detail(probe).map(probe::hooks::Detail::name))
}

/// Makes a group of probes with its state.
fn group(name: &'static str, title: &'static str, rows: Vec<&Coverage>) -> ProbeGroup {
    ProbeGroup {
        name,
        title,
        state: GroupState::from_rows(&rows),
        probes: rows.iter().map(|row| row.probe.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the line of a probe.
    fn row(probe: &str, state: ProbeState) -> Coverage {
        let probe = probe.to_owned();
        Coverage { probe, state }
    }

    /// Makes a probe that is off, with this remedy.
    fn off(remedy: &str) -> ProbeState {
        let (why, remedy) = ("w".to_owned(), remedy.to_owned());
        ProbeState::Off { why, remedy }
    }

    #[test]
    fn every_row_is_in_one_group() {
        let rows = [
            row("messages.udp", off("do")),
            row("messages", ProbeState::On),
            row("new.thing", off("")),
            row("udp_flows", ProbeState::On),
            row("tcp_stats.mptcp", ProbeState::On),
            row("clock.ptp", off("")),
            row("clock.perf", ProbeState::On),
        ];
        let found: Vec<_> = group_probes(rows.iter())
            .into_iter()
            .map(|it| (it.name, it.state, it.probes.len()))
            .collect();
        let known = [
            ("stats", GroupState::Works, 1),
            ("waits", GroupState::Works, 1),
            ("messages", GroupState::Partly, 2),
            ("clocks", GroupState::Works, 2),
            ("tools", GroupState::Off, 1),
        ];
        assert_eq!(found, known);
    }
}
