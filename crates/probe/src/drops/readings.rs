//! The counts of drops → rows of table `drop_counts`.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags};
use table::tables::{DropCount, DropCounts};
use table::{Columns, DropKind};

use super::names::kernel_names;
use super::row;
use crate::clock::monotonic_ns;
use crate::interface::{HooksError, KernelCounts};
use crate::wire::types::{drop_count, drop_key};
use crate::wire::{read, text};

/// Time between two readings.
const READ_EVERY_NS: u64 = 1_000_000_000;

/// Holds the key of a count: two places in one function are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CountKey {
    kind: DropKind,
    reason: Option<String>,
    place: Option<String>,
    netns: Option<u32>,
    device: Option<String>,
    ifindex: Option<u32>,
    ordinary: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CountSum {
    count: u64,
    selected: u64,
    stored: u64,
}

/// Reads the counts, and keeps the last ones.
#[derive(Debug, Default)]
pub struct DropReader {
    last: BTreeMap<CountKey, CountSum>,
    next_ns: u64,
}

impl DropReader {
    /// Reads the counts, unless the last time was less than a second ago.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub(crate) fn read_if_due(
        &mut self,
        kernel: &KernelCounts<'_>,
        rows: &mut DropCounts,
    ) -> Result<(), HooksError> {
        let now_ns = monotonic_ns();
        if now_ns < self.next_ns {
            return Ok(());
        }
        self.next_ns = now_ns + READ_EVERY_NS;
        self.read(kernel, rows)
    }

    /// Reads the counts: a row for each that has changed.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub(crate) fn read(
        &mut self,
        kernel: &KernelCounts<'_>,
        rows: &mut DropCounts,
    ) -> Result<(), HooksError> {
        let sums = read_sums(kernel)?;
        let time_ns = monotonic_ns();
        for (key, sum) in &sums {
            if self.last.get(key) != Some(sum) {
                rows.push(count_row(time_ns, key, *sum));
            }
        }
        self.last = sums;
        Ok(())
    }
}

/// Makes the row of one count, at this time.
fn count_row(time_ns: u64, key: &CountKey, sum: CountSum) -> DropCount {
    let CountKey {
        kind,
        reason,
        place,
        netns,
        device,
        ifindex,
        ordinary,
    } = key.clone();
    let CountSum {
        count,
        selected,
        stored,
    } = sum;
    DropCount {
        time_ns,
        kind,
        reason,
        place,
        netns,
        device,
        ifindex,
        ordinary,
        count,
        selected,
        stored,
    }
}

/// Reads the kernel's counts of drops, summed over CPUs.
fn read_sums(kernel: &KernelCounts<'_>) -> Result<BTreeMap<CountKey, CountSum>, HooksError> {
    let mut sums = BTreeMap::new();
    if kernel.levels.summaries {
        return Ok(sums);
    }
    let map = &kernel.maps().drop_counts;
    for bytes in map.keys() {
        let values = map.lookup_percpu(&bytes, MapFlags::ANY);
        let values = values.map_err(|error| HooksError::Use {
            action: "read counts of drops",
            error,
        })?;
        let values: Vec<drop_count> = values
            .unwrap_or_default()
            .iter()
            .filter_map(|bytes| read(bytes))
            .collect();
        if let Some(key) = read(&bytes).and_then(|key| count_key(&key, &values)) {
            add(sums.entry(key).or_default(), &values);
        }
    }
    for (kind, uncounted) in super::uncounted_drops(kernel)? {
        let kind = u8::try_from(kind.0).ok().and_then(row::kind);
        if let Some(kind) = kind.filter(|_| uncounted > 0) {
            sums.entry(key_without_place(kind)).or_default().count += uncounted;
        }
    }
    Ok(sums)
}

/// Names the key of a count: kind, reason, place, device. None for an unknown kind.
fn count_key(key: &drop_key, values: &[drop_count]) -> Option<CountKey> {
    let named = values.iter().map(|value| text(&value.device));
    Some(CountKey {
        kind: row::kind(key.kind)?,
        reason: row::reason_name(key, kernel_names()),
        place: row::place_name(key, kernel_names()),
        netns: row::nonzero(key.netns),
        device: named.into_iter().find(|name| !name.is_empty()),
        ifindex: row::nonzero(key.ifindex),
        ordinary: row::is_ordinary(key, kernel_names()),
    })
}

/// Returns the key of drops that no hook examined: see [`super::uncounted_drops`].
fn key_without_place(kind: DropKind) -> CountKey {
    CountKey {
        kind,
        reason: None,
        place: None,
        netns: None,
        device: None,
        ifindex: None,
        ordinary: false,
    }
}

/// Adds the values of all CPUs to a sum.
fn add(sum: &mut CountSum, values: &[drop_count]) {
    for value in values {
        sum.count += value.count;
        sum.selected += value.selected;
        sum.stored += value.stored;
    }
}
