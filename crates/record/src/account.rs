//! The account of every probe: `produced = stored + filtered + Σ lost`, exactly. In: what the
//! kernel counted, what was handed to the store, what the writer stored. Out: the manifest's loss
//! lines.

use std::collections::BTreeMap;

use probe::hooks::{Hooks, HooksError, ProbeAccount, ProbeCount, ProbeCounts, RING_FULL, accounts};
use probe::tcp_stats::SampleCounts;
use probe::{itt, nic, usdt};
use table::RowSet;
use table::manifest::Loss;

use crate::flight_recorder::WindowCounts;
use crate::poll::Polls;

/// Why records are lost: program and reader do not fit.
const UNDECODED: &str = "undecoded";
/// Why ends are lost: what they end was not seen to begin.
const NO_BEGIN: &str = "no_begin";

/// Rows by table.
pub(crate) type RowCounts = BTreeMap<&'static str, u64>;

/// Returns the number of rows of each table.
pub(crate) fn count_rows(rows: &RowSet) -> RowCounts {
    let counts = rows.len_by_table().filter(|(_, rows)| *rows > 0);
    counts.map(|(table, rows)| (table, rows as u64)).collect()
}

/// Adds counts to others.
pub(crate) fn add_counts(to: &mut RowCounts, counts: RowCounts) {
    for (name, count) in counts {
        *to.entry(name).or_default() += count;
    }
}

/// Rows, and records without a decoder, that user space counted by itself.
#[derive(Debug, Default)]
pub(crate) struct UserSpaceCounts {
    /// Rows beyond those that the kernel side made.
    pub(crate) rows: RowCounts,
    /// Records from the kernel that could not be decoded, by probe.
    pub(crate) undecoded: BTreeMap<&'static str, u64>,
}

impl UserSpaceCounts {
    /// Counts the rows that user space added since `before`.
    pub(crate) fn add_since(&mut self, before: &RowCounts, rows: &RowSet) {
        let mut added = count_rows(rows);
        for (table, count) in &mut added {
            *count -= before.get(table).copied().unwrap_or(0);
        }
        add_counts(&mut self.rows, added);
    }

    /// Returns how many rows user space made for a table.
    fn rows_of(&self, table: &str) -> u64 {
        self.rows.get(table).copied().unwrap_or(0)
    }
}

/// Returns the account of a probe with rows in these tables.
fn loss(
    probe: &str,
    tables: &[&str],
    mut count: ProbeCount,
    stored: &RowCounts,
    discarded: &RowCounts,
) -> Loss {
    let of_tables = |rows: &RowCounts| tables.iter().filter_map(|table| rows.get(*table)).sum();
    count.add_lost("disk", of_tables(discarded));
    let ProbeCount {
        produced,
        filtered,
        lost,
    } = count;
    Loss {
        probe: probe.to_owned(),
        produced,
        stored: of_tables(stored),
        filtered,
        lost: lost
            .into_iter()
            .map(|(cause, records)| (cause.to_owned(), records))
            .collect(),
    }
}

/// Tables that ITT and USDT probes fill together.
const PROGRAM_TABLES: [&str; 2] = ["counters", "tasks"];

/// Rows of the tables that ITT and USDT probes fill together.
#[derive(Debug, Clone)]
struct SharedTables {
    stored: RowCounts,
    discarded: RowCounts,
}

impl SharedTables {
    /// Takes the stored and refused rows of one probe out of the table's counts. The table has rows
    /// of two probes. The disk does not say from which of them the rows are that it refused: they
    /// are taken to be this one's as far as it made any, so that both accounts add up.
    fn take(&mut self, made: [(&'static str, u64); 2]) -> SharedTables {
        let mut own = SharedTables {
            stored: RowCounts::new(),
            discarded: RowCounts::new(),
        };
        for (table, made) in made {
            let discarded = self.discarded.entry(table).or_default();
            let refused = made.min(*discarded);
            *discarded -= refused;
            own.discarded.insert(table, refused);
            let stored = self.stored.entry(table).or_default();
            let kept = (made - refused).min(*stored);
            *stored -= kept;
            own.stored.insert(table, kept);
        }
        own
    }
}

/// Returns the losses of ITT and USDT probes, which programs report.
pub(crate) fn program_losses(
    itt: Option<&itt::IttCounts>,
    usdt: Option<&usdt::UsdtCounts>,
    stored: &RowCounts,
    discarded: &RowCounts,
) -> Vec<Loss> {
    let mut shared = SharedTables {
        stored: stored.clone(),
        discarded: discarded.clone(),
    };
    let usdt = usdt.map(|counts| {
        let made = [("counters", counts.counters), ("tasks", counts.tasks)];
        let SharedTables { stored, discarded } = shared.take(made);
        let count = usdt_count(counts);
        loss(usdt::PROBE, &PROGRAM_TABLES, count, &stored, &discarded)
    });
    let itt = itt.map(|counts| {
        let SharedTables { stored, discarded } = &shared;
        loss("itt", &PROGRAM_TABLES, itt_count(counts), stored, discarded)
    });
    itt.into_iter().chain(usdt).collect()
}

/// Returns records and losses of USDT probes.
fn usdt_count(counts: &usdt::UsdtCounts) -> ProbeCount {
    let usdt::UsdtCounts {
        produced,
        filtered,
        lost_ring_full,
        lost_unread,
        lost_no_begin,
        counters: _,
        tasks: _,
    } = *counts;
    let lost = [
        (RING_FULL, lost_ring_full),
        ("unread", lost_unread),
        (NO_BEGIN, lost_no_begin),
    ];
    count_of(produced, filtered, lost)
}

/// Returns records and losses of ITT collectors.
fn itt_count(counts: &itt::IttCounts) -> ProbeCount {
    let itt::IttCounts {
        produced,
        filtered,
        lost_no_begin,
        lost_ring_full,
        lost_interrupted,
        lost_invalid,
        lost_names,
        lost_damaged,
    } = *counts;
    let lost = [
        (NO_BEGIN, lost_no_begin),
        (RING_FULL, lost_ring_full),
        ("interrupted", lost_interrupted),
        ("invalid_handle", lost_invalid),
        ("names", lost_names),
        ("damaged", lost_damaged),
    ];
    count_of(produced, filtered, lost)
}

/// Makes the counts of a probe: records made, left out by the filter, and lost by cause.
fn count_of<const N: usize>(
    produced: u64,
    filtered: u64,
    lost: [(&'static str, u64); N],
) -> ProbeCount {
    let mut count = ProbeCount {
        produced,
        filtered,
        ..ProbeCount::default()
    };
    for (cause, records) in lost {
        count.add_lost(cause, records);
    }
    count
}

/// The accounts of the flight recorder.
pub(crate) fn flight_recorder_losses(
    windows: WindowCounts,
    added: &UserSpaceCounts,
    stored: &RowCounts,
    discarded: &RowCounts,
) -> [Loss; 2] {
    let spans = count_of(added.rows_of("activity"), 0, []);
    let WindowCounts { produced, filtered } = windows;
    let windows = count_of(produced, filtered, []);
    [
        ("activity", "activity", spans),
        ("activity.windows", "activity_windows", windows),
    ]
    .map(|(probe, table, count)| loss(probe, &[table], count, stored, discarded))
}

/// The account of adapters' stamps: stored with messages, or of packets in which none ended.
pub(crate) fn nic_loss(counts: nic::NicCounts) -> Loss {
    let nic::NicCounts {
        produced,
        used,
        lost_ring_full,
    } = counts;
    let filtered = produced - used - lost_ring_full;
    let count = count_of(produced, filtered, [(RING_FULL, lost_ring_full)]);
    let none = RowCounts::new();
    Loss {
        stored: used,
        ..loss(nic::PROBE, &[], count, &none, &none)
    }
}

/// Counts the records that hooks, or polls without them, produced.
pub(crate) fn count(
    hooks: Option<&Hooks<'_>>,
    polls: Option<&Polls>,
) -> Result<ProbeCounts, HooksError> {
    let mut counts = hooks.map(Hooks::counts).transpose()?.unwrap_or_default();
    if let Some(polls) = polls {
        let SampleCounts {
            produced,
            rows: _,
            filtered,
            incomplete,
        } = polls.counts();
        let polled = count_of(produced, filtered, [("incomplete", incomplete)]);
        counts.add("tcp_stats", polled);
    }
    Ok(counts)
}

/// Returns the losses of all probes in the list of probes.
pub(crate) fn losses(
    counts: &ProbeCounts,
    added: &UserSpaceCounts,
    stored: &RowCounts,
    discarded: &RowCounts,
) -> Vec<Loss> {
    let mut undecoded = added.undecoded.clone();
    let mut losses = Vec::new();
    for account in accounts() {
        let ProbeAccount {
            probe,
            table,
            counts_rows,
        } = account;
        let mut count = counts.count(probe);
        count.produced += added.rows_of(table);
        let records = undecoded.remove(probe).unwrap_or(0);
        if counts_rows {
            count.add_unmade(UNDECODED, records);
        } else {
            count.add_lost(UNDECODED, records);
        }
        losses.push(loss(probe, &[table], count, stored, discarded));
    }
    // of kinds that are no probe's
    for (probe, records) in undecoded {
        let count = count_of(records, 0, [(UNDECODED, records)]);
        losses.push(loss(probe, &[], count, stored, discarded));
    }
    losses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_place_in_the_identity() {
        let mut counts = ProbeCounts::default();
        let mut calls = count_of(100, 0, [(RING_FULL, 7)]);
        calls.add_unmade("reentered", 2);
        counts.add("calls", calls);
        counts.add("tcp_stats", count_of(23, 13, [(RING_FULL, 1)]));
        let polled = count_of(10, 5, [("incomplete", 1)]);
        counts.add("tcp_stats", polled);
        let mut sockets = ProbeCount::default();
        for (cause, records) in [("no_memory", 2), ("processes_full", 3), ("peers_full", 4)] {
            sockets.add_unmade(cause, records);
        }
        counts.add("inventory", sockets);
        let added = UserSpaceCounts {
            rows: RowCounts::from([("processes", 3)]),
            undecoded: BTreeMap::from([("calls", 1), ("processes", 2), ("rings", 4)]),
        };
        let stored = RowCounts::from([("calls", 87), ("tcp_samples", 13), ("processes", 3)]);
        let discarded = RowCounts::from([("calls", 5)]);
        let losses = losses(&counts, &added, &stored, &discarded);
        let calls = losses
            .iter()
            .find(|loss| loss.probe == "calls")
            .expect("calls account");
        assert_eq!(calls.produced, 102);
        assert_eq!(calls.lost_total(), 15);
        let inventory = losses.iter().find(|loss| loss.probe == "inventory");
        assert_eq!(inventory.expect("an account").lost_total(), 9);
        let undecoded = losses.iter().filter_map(|it| it.lost.get(UNDECODED));
        assert_eq!(undecoded.sum::<u64>(), 1 + 2 + 4);
        for loss in &losses {
            assert_eq!(loss.residual(), 0, "{loss:?}");
        }
    }

    #[test]
    fn stamps_that_no_message_has_are_filtered() {
        let loss = nic_loss(nic::NicCounts {
            produced: 10,
            used: 6,
            lost_ring_full: 3,
        });
        assert_eq!((loss.stored, loss.filtered, loss.lost_total()), (6, 1, 3));
        assert_eq!(loss.residual(), 0);
    }

    #[test]
    fn both_tables_of_programs_are_in_one_account() {
        let counts = itt::IttCounts {
            produced: 100,
            filtered: 40,
            lost_ring_full: 3,
            lost_no_begin: 1,
            ..itt::IttCounts::default()
        };
        let stored = RowCounts::from([("counters", 30), ("tasks", 20)]);
        let discarded = RowCounts::from([("counters", 4), ("tasks", 2)]);
        let losses = program_losses(Some(&counts), None, &stored, &discarded);
        let [loss] = &losses[..] else {
            panic!("{losses:?}");
        };
        assert_eq!((loss.stored, loss.lost["disk"]), (50, 6));
        assert_eq!(loss.residual(), 0, "{loss:?}");
    }

    #[test]
    fn probes_that_fill_the_same_tables_have_accounts_of_their_own() {
        let itt = itt::IttCounts {
            produced: 31,
            filtered: 1,
            ..itt::IttCounts::default()
        };
        let usdt = usdt::UsdtCounts {
            produced: 70,
            filtered: 5,
            lost_ring_full: 7,
            lost_unread: 2,
            lost_no_begin: 1,
            counters: 40,
            tasks: 15,
        };
        let stored = RowCounts::from([("counters", 50), ("tasks", 25)]);
        let discarded = RowCounts::from([("counters", 10)]);
        let losses = program_losses(Some(&itt), Some(&usdt), &stored, &discarded);
        for loss in &losses {
            assert_eq!(loss.residual(), 0, "{loss:?}");
        }
        let stored: u64 = losses.iter().map(|loss| loss.stored).sum();
        assert_eq!(stored, 75);
        assert_eq!(losses[1].lost["disk"], 10);
    }
}
