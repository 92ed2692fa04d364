//! The account of every probe: `produced = stored + filtered + Σ lost`, exactly. In: what the
//! kernel counted, what was handed to the store, what the writer stored. Out: the manifest's loss
//! lines.

use std::collections::BTreeMap;

use probe::hooks::Counts;
use probe::tcp_stats::SampleCounts;
use probe::{itt, nic, usdt};
use table::RowSet;
use table::manifest::Loss;

use crate::keep::WindowCounts;

/// RowCounts by table.
pub(crate) type RowCounts = BTreeMap<&'static str, u64>;

/// Returns how many rows each table has.
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

/// What user space itself counts.
#[derive(Debug, Default)]
pub(crate) struct Added {
    /// RowCounts beyond those that the kernel side made.
    pub(crate) rows: RowCounts,
    /// Records from the kernel that could not be decoded, by probe.
    pub(crate) undecoded: BTreeMap<&'static str, u64>,
}

impl Added {
    /// Notes rows that there were not `before`.
    pub(crate) fn add_since(&mut self, before: &RowCounts, rows: &RowSet) {
        let mut added = count_rows(rows);
        for (table, count) in &mut added {
            *count -= before.get(table).copied().unwrap_or(0);
        }
        add_counts(&mut self.rows, added);
    }

    fn of(&self, table: &str) -> u64 {
        self.rows.get(table).copied().unwrap_or(0)
    }
}

/// One probe's account under construction.
struct Account {
    loss: Loss,
}

impl Account {
    fn new(probe: &str, table: &str, produced: u64, stored: &RowCounts, discarded: &RowCounts) -> Self {
        let of_table = |rows: &RowCounts| rows.get(table).copied().unwrap_or(0);
        let stored = of_table(stored);
        let loss = Loss {
            probe: probe.to_owned(),
            produced,
            stored,
            ..Loss::default()
        };
        Self { loss }.lost("disk", of_table(discarded))
    }

    /// Of a probe with several tables: the rows of this one, too.
    fn and_of(mut self, table: &str, stored: &RowCounts, discarded: &RowCounts) -> Self {
        self.loss.stored += stored.get(table).copied().unwrap_or(0);
        self.lost("disk", discarded.get(table).copied().unwrap_or(0))
    }

    fn filtered(mut self, records: u64) -> Self {
        self.loss.filtered = records;
        self
    }

    fn lost(mut self, cause: &str, records: u64) -> Self {
        if records > 0 {
            *self.loss.lost.entry(cause.to_owned()).or_default() += records;
        }
        self
    }
}

/// RowCounts of the tables that the probes of programs' own words fill together.
#[derive(Debug, Clone)]
struct Said {
    stored: RowCounts,
    discarded: RowCounts,
}

impl Said {
    /// Takes out what one of the probes made. Whose rows the disk refused, nobody knows: they are
    /// taken to be this one's as far as it made any, so that both accounts add up.
    fn take(&mut self, made: [(&'static str, u64); 2]) -> Said {
        let mut own = Said {
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

/// The accounts of what programs said, by ITT and by USDT probes.
pub(crate) fn said_losses(
    itt: Option<&itt::Counts>,
    usdt: Option<&usdt::Counts>,
    stored: &RowCounts,
    discarded: &RowCounts,
) -> Vec<Loss> {
    let mut said = Said {
        stored: stored.clone(),
        discarded: discarded.clone(),
    };
    let usdt = usdt.map(|counts| {
        let made = [("counters", counts.counters), ("tasks", counts.tasks)];
        usdt_loss(counts, &said.take(made))
    });
    let itt = itt.map(|counts| itt_loss(counts, &said.stored, &said.discarded));
    itt.into_iter().chain(usdt).collect()
}

fn usdt_loss(counts: &usdt::Counts, said: &Said) -> Loss {
    let usdt::Counts {
        produced,
        filtered,
        lost_ring_full,
        lost_unread,
        lost_no_begin,
        counters: _,
        tasks: _,
    } = *counts;
    let Said { stored, discarded } = said;
    let account = Account::new(usdt::PROBE, "counters", produced, stored, discarded)
        .and_of("tasks", stored, discarded)
        .filtered(filtered)
        .lost("ring_full", lost_ring_full)
        .lost("unread", lost_unread)
        .lost("no_begin", lost_no_begin);
    account.loss
}

/// The accounts of the flight recorder.
pub(crate) fn kept_losses(
    windows: WindowCounts,
    added: &Added,
    stored: &RowCounts,
    discarded: &RowCounts,
) -> [Loss; 2] {
    let spans = Account::new("activity", "activity", added.of("activity"), stored, discarded);
    let probe = "activity.windows";
    let windows = Account::new(
        probe,
        "activity_windows",
        windows.produced,
        stored,
        discarded,
    )
    .filtered(windows.filtered);
    [spans.loss, windows.loss]
}

/// The account of adapters' stamps: stored with messages, or of packets in which none ended.
pub(crate) fn nic_loss(counts: nic::Counts) -> Loss {
    let nic::Counts {
        produced,
        used,
        lost_ring_full,
    } = counts;
    let none = RowCounts::new();
    let account = Account::new(nic::PROBE, "", produced, &none, &none);
    let mut loss = account.lost("ring_full", lost_ring_full).loss;
    loss.stored = used;
    loss.filtered = produced - used - lost_ring_full;
    loss
}

/// The account of what the program said by ITT.
fn itt_loss(counts: &itt::Counts, stored: &RowCounts, discarded: &RowCounts) -> Loss {
    let itt::Counts {
        produced,
        filtered,
        lost_no_begin,
        lost_ring_full,
        lost_interrupted,
        lost_invalid,
        lost_names,
        lost_damaged,
    } = *counts;
    let account = Account::new("itt", "counters", produced, stored, discarded)
        .and_of("tasks", stored, discarded)
        .filtered(filtered)
        .lost("no_begin", lost_no_begin)
        .lost("ring_full", lost_ring_full)
        .lost("interrupted", lost_interrupted)
        .lost("invalid_handle", lost_invalid)
        .lost("names", lost_names)
        .lost("damaged", lost_damaged);
    account.loss
}

/// The accounts of all probes that every recording has.
pub(crate) fn losses(
    counts: &Counts,
    polled: SampleCounts,
    added: &Added,
    stored: &RowCounts,
    discarded: &RowCounts,
) -> Vec<Loss> {
    const RING: &str = "ring_full";
    const REENTERED: &str = "reentered";
    const UNDECODED: &str = "undecoded";
    let account = |probe, table, produced| Account::new(probe, table, produced, stored, discarded);
    let mut undecoded = added.undecoded.clone();
    // of rows that only this side counts
    let rows = |probe, rows| rows + added.undecoded.get(probe).copied().unwrap_or(0);
    let kernel = [
        account(
            "inventory",
            "connections",
            counts.connections.produced
                + added.of("connections")
                + counts.lost_sockets
                + counts.lost_tasks
                + counts.lost_peers,
        )
        .lost(RING, counts.connections.lost_ring_full)
        .lost("no_memory", counts.lost_sockets)
        .lost("processes_full", counts.lost_tasks)
        .lost("peers_full", counts.lost_peers),
        account("listeners", "listeners", counts.listeners.produced)
            .lost(RING, counts.listeners.lost_ring_full),
        account(
            "messages.udp_sockets",
            "udp_sockets",
            counts.udp_sockets.produced,
        )
        .lost(RING, counts.udp_sockets.lost_ring_full),
        account(
            "tcp_events",
            "tcp_events",
            counts.tcp_events.produced + counts.events_reentered,
        )
        .lost(RING, counts.tcp_events.lost_ring_full)
        .lost(REENTERED, counts.events_reentered),
        account(
            "tcp_stats",
            "tcp_samples",
            counts.close_samples.produced + counts.walked + polled.produced,
        )
        .filtered(counts.unchanged + polled.filtered)
        .lost(RING, counts.close_samples.lost_ring_full)
        .lost("incomplete", polled.incomplete),
        account(
            "tcp_stages",
            "tcp_stages",
            counts.close_stages.produced + counts.ledgers,
        )
        .lost(RING, counts.close_stages.lost_ring_full),
        account(
            "calls",
            "calls",
            counts.calls.produced + counts.calls_reentered,
        )
        .lost(RING, counts.calls.lost_ring_full)
        .lost(REENTERED, counts.calls_reentered),
        account(
            "waits",
            "waits",
            counts.waits.produced + counts.waits_reentered,
        )
        .lost(RING, counts.waits.lost_ring_full)
        .lost(REENTERED, counts.waits_reentered),
        account(
            "messages",
            "received_messages",
            counts.received.produced + counts.received_reentered,
        )
        .lost(RING, counts.received.lost_ring_full)
        .lost(REENTERED, counts.received_reentered),
        account(
            "messages.sent",
            "sent_messages",
            counts.sent.produced + counts.lost_sends + counts.sent_reentered,
        )
        .lost(RING, counts.sent.lost_ring_full)
        .lost("threads_waiting", counts.lost_sends)
        .lost(REENTERED, counts.sent_reentered),
        account("spins", "spins", counts.spins.produced).lost(RING, counts.spins.lost_ring_full),
        account(
            "processes",
            "processes",
            rows("processes", added.of("processes")) + counts.programs.lost_ring_full,
        )
        .lost(RING, counts.programs.lost_ring_full),
        account(
            "waits.stacks",
            "stacks",
            rows("waits.stacks", added.of("stacks")),
        ),
        account("waits.symbols", "symbols", added.of("symbols")),
        account("clock", "clock_pairs", added.of("clock_pairs")),
        account("cpu.processes", "process_samples", added.of("process_samples")),
        account("cpu.cpus", "cpu_samples", added.of("cpu_samples")),
    ];
    let mut losses: Vec<Loss> = Vec::from(kernel.map(|account| {
        let records = undecoded.remove(account.loss.probe.as_str());
        account.lost(UNDECODED, records.unwrap_or(0)).loss
    }));
    // of kinds that are no probe's
    losses.extend(undecoded.into_iter().map(|(probe, records)| {
        let none = account(probe, "", records);
        none.lost(UNDECODED, records).loss
    }));
    losses
}

#[cfg(test)]
mod tests {
    use probe::hooks::ProbeCount;

    use super::*;

    #[test]
    fn every_cause_has_its_place_in_the_identity() {
        let counts = Counts {
            calls: ProbeCount {
                produced: 100,
                lost_ring_full: 7,
            },
            calls_reentered: 2,
            received_reentered: 1,
            close_samples: ProbeCount {
                produced: 3,
                lost_ring_full: 1,
            },
            walked: 20,
            unchanged: 13,
            lost_sockets: 2,
            lost_tasks: 3,
            lost_peers: 4,
            ..Counts::default()
        };
        let polled = SampleCounts {
            produced: 10,
            rows: 4,
            filtered: 5,
            incomplete: 1,
        };
        let added = Added {
            rows: RowCounts::from([("processes", 3)]),
            undecoded: BTreeMap::from([("calls", 1), ("processes", 2), ("rings", 4)]),
            ..Added::default()
        };
        let stored = RowCounts::from([("calls", 87), ("tcp_samples", 13), ("processes", 3)]);
        let discarded = RowCounts::from([("calls", 5)]);
        let losses = losses(&counts, polled, &added, &stored, &discarded);
        let calls = losses
            .iter()
            .find(|loss| loss.probe == "calls")
            .expect("calls account");
        assert_eq!(calls.produced, 102);
        assert_eq!(calls.lost_total(), 15);
        let inventory = losses.iter().find(|loss| loss.probe == "inventory");
        assert_eq!(inventory.expect("an account").lost_total(), 9);
        let undecoded = losses.iter().filter_map(|it| it.lost.get("undecoded"));
        assert_eq!(undecoded.sum::<u64>(), 1 + 2 + 4);
        for loss in &losses {
            assert_eq!(loss.residual(), 0, "{loss:?}");
        }
    }

    #[test]
    fn stamps_that_no_message_has_are_filtered() {
        let loss = nic_loss(nic::Counts {
            produced: 10,
            used: 6,
            lost_ring_full: 3,
        });
        assert_eq!((loss.stored, loss.filtered, loss.lost_total()), (6, 1, 3));
        assert_eq!(loss.residual(), 0);
    }

    #[test]
    fn both_tables_of_the_programs_own_words_are_in_one_account() {
        let counts = itt::Counts {
            produced: 100,
            filtered: 40,
            lost_ring_full: 3,
            lost_no_begin: 1,
            ..itt::Counts::default()
        };
        let stored = RowCounts::from([("counters", 30), ("tasks", 20)]);
        let discarded = RowCounts::from([("counters", 4), ("tasks", 2)]);
        let losses = said_losses(Some(&counts), None, &stored, &discarded);
        let [loss] = &losses[..] else {
            panic!("{losses:?}");
        };
        assert_eq!((loss.stored, loss.lost["disk"]), (50, 6));
        assert_eq!(loss.residual(), 0, "{loss:?}");
    }

    #[test]
    fn probes_that_fill_the_same_tables_have_accounts_of_their_own() {
        let itt = itt::Counts {
            produced: 31,
            filtered: 1,
            ..itt::Counts::default()
        };
        let usdt = usdt::Counts {
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
        let losses = said_losses(Some(&itt), Some(&usdt), &stored, &discarded);
        for loss in &losses {
            assert_eq!(loss.residual(), 0, "{loss:?}");
        }
        let stored: u64 = losses.iter().map(|loss| loss.stored).sum();
        assert_eq!(stored, 75);
        assert_eq!(losses[1].lost["disk"], 10);
    }
}
