//! CPU activity during a message: rows of `activity`, as far as they were kept.

use serde::Serialize;
use table::tables::{Activities, Activity};
use table::{ActivityKind, Columns};

/// Something that a CPU did meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuActivity {
    /// CPU.
    pub cpu: u16,
    /// When it began, ns from the message's first step; below zero: before.
    pub after_ns: i64,
    /// How long it took, ns, as far as it was kept.
    pub length_ns: u64,
    /// Number of activities around it.
    pub depth: u16,
    /// Kind.
    pub kind: ActivityKind,
    /// Name of the thread, system call, interrupt, softirq or function; `None`: not known.
    pub name: Option<String>,
    /// Thread that had the CPU; `None`: not known.
    pub tid: Option<u32>,
    /// Whether it began then, and not before.
    pub begin_seen: bool,
    /// Whether it ended then, and not later.
    pub end_seen: bool,
}

/// The time of a message, and its CPUs.
#[derive(Debug, Clone)]
pub(super) struct MessageWindow {
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    pub(super) cpus: Vec<u16>,
    pub(super) tid: u32,
}

impl MessageWindow {
    /// Adds the activities of all CPUs within the window.
    pub(super) fn add(&self, rows: &Activities, into: &mut Vec<CpuActivity>) {
        let rows = (0..rows.len()).map(|row| rows.row(row));
        into.extend(rows.filter_map(|row| self.activity(row)));
    }

    /// Returns the activity relative to the window; None if it is outside or has no CPU.
    fn activity(&self, row: Activity) -> Option<CpuActivity> {
        let cpu = row.cpu?;
        if row.begin_ns > self.until_ns || row.end_ns < self.from_ns {
            return None;
        }
        Some(CpuActivity {
            cpu,
            after_ns: row.begin_ns.cast_signed() - self.from_ns.cast_signed(),
            length_ns: row.end_ns - row.begin_ns,
            depth: row.depth,
            kind: row.kind,
            name: row.name,
            tid: row.tid,
            begin_seen: row.begin_seen,
            end_seen: row.end_seen,
        })
    }

    /// Returns the activities of the message's CPUs, and of those where its thread ran, by CPU and
    /// time; `None` if nothing was kept.
    pub(super) fn select(mut self, mut all: Vec<CpuActivity>) -> Option<Vec<CpuActivity>> {
        let own = all.iter().filter(|activity| activity.tid == Some(self.tid));
        self.cpus.extend(own.map(|activity| activity.cpu));
        all.retain(|activity| self.cpus.contains(&activity.cpu));
        all.sort_by_key(|activity| (activity.cpu, activity.after_ns, activity.depth));
        (!all.is_empty()).then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use table::row_of;

    use super::*;

    #[test]
    fn activity_is_that_of_own_cpus_and_thread() {
        let meanwhile = MessageWindow {
            from_ns: 1_000,
            until_ns: 2_000,
            cpus: vec![3],
            tid: 7,
        };
        let mut rows = Activities::default();
        for (cpu, tid, begin_ns, end_ns) in [
            (3, 1, 0, 999),
            (3, 1, 900, 1_000),
            (2, 1, 1_500, 1_600),
            (3, 1, 2_000, 9_000),
            (3, 1, 2_001, 2_002),
            (4, 7, 1_100, 1_200),
            (4, 0, 1_200, 1_300),
        ] {
            let row = json!({
                "cpu": cpu, "tid": tid, "begin_ns": begin_ns, "end_ns": end_ns, "kind": "task", "source": "tracepoints",
            });
            rows.push(row_of(row).expect("a row"));
        }
        let mut found = Vec::new();
        meanwhile.add(&rows, &mut found);
        assert_eq!(meanwhile.clone().select(Vec::new()), None);
        let found = meanwhile.select(found).expect("some");
        let times: Vec<_> = found.iter().map(|it| (it.after_ns, it.length_ns)).collect();
        assert_eq!(times, [(-100, 100), (1_000, 7_000), (100, 100), (200, 100)]);
    }
}
