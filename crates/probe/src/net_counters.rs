//! Counters of network namespaces and their devices that grew during a recording (`/proc/PID/net`): rows of table
//! `net_counters`, beside which drops that no hook saw stand out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use table::tables::{NetCounter, NetCounters};
use table::{Columns, TableId};

use crate::clock::monotonic_ns;
use crate::interface::Probe;
use crate::netns;

/// The probe of these counters, which needs no BPF.
pub(crate) struct NetCounterReadings;

impl Probe for NetCounterReadings {
    fn name(&self) -> &'static str {
        "net_counters"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::NetCounter)
    }
}

/// Namespaces that are read: each takes some 0.3 ms.
const NAMESPACES_MOST: usize = 64;

/// Columns of `/proc/net/dev` that count what was lost, as in `/sys/class/net/DEVICE/statistics`.
const DEVICE_COLUMNS: [(usize, &str); 8] = [
    (2, "rx_errors"),
    (3, "rx_dropped"),
    (4, "rx_fifo_errors"),
    (5, "rx_frame_errors"),
    (10, "tx_errors"),
    (11, "tx_dropped"),
    (12, "tx_fifo_errors"),
    (13, "collisions"),
];

/// Device, if it is one of a device, and name.
type CounterKey = (Option<String>, String);
type NamespaceCounters = BTreeMap<CounterKey, u64>;

/// Holds the first values of all namespaces.
#[derive(Debug)]
pub struct NetCounterReader {
    since_ns: u64,
    first: BTreeMap<u32, NamespaceCounters>,
}

impl NetCounterReader {
    /// Reads the counters of all namespaces with a process: as a recording begins.
    pub fn begin() -> Self {
        Self {
            since_ns: monotonic_ns(),
            first: read_all(),
        }
    }

    /// Reads the counters again, and adds a row for each that grew.
    pub fn finish(&self, rows: &mut NetCounters) {
        let time_ns = monotonic_ns();
        for (netns, counters) in read_all() {
            let Some(before) = self.first.get(&netns) else {
                continue;
            };
            for ((device, name), last) in counters {
                let key = (device, name);
                let first = before.get(&key).copied().unwrap_or(0);
                if last > first {
                    let (device, name) = key;
                    rows.push(NetCounter {
                        time_ns,
                        since_ns: self.since_ns,
                        netns,
                        device,
                        name,
                        first,
                        last,
                    });
                }
            }
        }
    }
}

/// Reads the counters of all network namespaces, by inode; of many only the first.
fn read_all() -> BTreeMap<u32, NamespaceCounters> {
    let found = netns::discover().unwrap_or_default();
    let folders = found
        .paths
        .into_iter()
        .filter_map(|(inode, path)| Some((inode, net_folder(&path)?)));
    let mut folders: Vec<(u32, PathBuf)> = folders.collect();
    folders.sort();
    let read = |(inode, folder): (u32, PathBuf)| (inode, read_namespace(&folder));
    folders
        .into_iter()
        .take(NAMESPACES_MOST)
        .map(read)
        .collect()
}

/// Returns `/proc/PID/net` for `/proc/PID/ns/net`; `None` for a namespace that only a mount keeps.
fn net_folder(path: &Path) -> Option<PathBuf> {
    let process = path.parent()?.parent()?;
    (path.starts_with("/proc") && path.ends_with("ns/net")).then(|| process.join("net"))
}

/// Reads the counters of one namespace from the files of `/proc/PID/net`.
fn read_namespace(folder: &Path) -> NamespaceCounters {
    let read = |file| std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    let mut counters = NamespaceCounters::new();
    for file in ["snmp", "netstat"] {
        counters.extend(parse_pairs(&read(file)));
    }
    counters.extend(parse_lines(&read("snmp6")));
    counters.extend(parse_devices(&read("dev")));
    counters
}

/// Reads counters from pairs of lines: names, then values.
fn parse_pairs(text: &str) -> NamespaceCounters {
    let lines: Vec<&str> = text.lines().collect();
    let mut counters = NamespaceCounters::new();
    for pair in lines.chunks_exact(2) {
        let (Some((group, names)), Some((_, values))) =
            (pair[0].split_once(':'), pair[1].split_once(':'))
        else {
            continue;
        };
        let values = values.split_ascii_whitespace();
        for (name, value) in names.split_ascii_whitespace().zip(values) {
            // some have -1 for "none"
            if let Ok(value) = value.parse() {
                counters.insert((None, format!("{group}{name}")), value);
            }
        }
    }
    counters
}

/// A name and a value a line.
fn parse_lines(text: &str) -> NamespaceCounters {
    let counters = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(|c: char| c.is_ascii_whitespace())?;
        Some(((None, name.to_owned()), value.trim().parse().ok()?))
    });
    counters.collect()
}

/// A device a line, after two lines of titles.
fn parse_devices(text: &str) -> NamespaceCounters {
    let mut counters = NamespaceCounters::new();
    for line in text.lines().skip(2) {
        let Some((device, values)) = line.split_once(':') else {
            continue;
        };
        let values: Vec<u64> = values
            .split_ascii_whitespace()
            .filter_map(|value| value.parse().ok())
            .collect();
        for (column, name) in DEVICE_COLUMNS {
            if let Some(value) = values.get(column) {
                let key = (Some(device.trim().to_owned()), name.to_owned());
                counters.insert(key, *value);
            }
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_names_of_nstat() {
        let text = "Tcp: RtoMax MaxConn InSegs\nTcp: 120000 -1 7\nTcpExt: ListenDrops\nTcpExt: 3\n";
        let found = parse_pairs(text);
        assert_eq!(found[&(None, "TcpInSegs".to_owned())], 7);
        assert_eq!(found[&(None, "TcpExtListenDrops".to_owned())], 3);
        assert!(!found.contains_key(&(None, "TcpMaxConn".to_owned())));
        let found = parse_lines("Ip6InReceives                   \t11\n");
        assert_eq!(found[&(None, "Ip6InReceives".to_owned())], 11);
    }

    #[test]
    fn devices_count_drops_of_both_directions() {
        let text =
            "Inter-|   Receive\n face |bytes\n  veth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        let found = parse_devices(text);
        let of = |name: &str| found[&(Some("veth0".to_owned()), name.to_owned())];
        assert_eq!((of("rx_errors"), of("rx_dropped")), (3, 4));
        assert_eq!((of("tx_errors"), of("tx_dropped")), (11, 12));
    }

    #[test]
    fn own_namespace_is_read() {
        let own = netns::Netns::current().unwrap().inode();
        let counters = &read_all()[&own];
        assert!(counters.contains_key(&(None, "IpInReceives".to_owned())));
        assert!(counters.contains_key(&(Some("lo".to_owned()), "rx_dropped".to_owned())));
    }
}
