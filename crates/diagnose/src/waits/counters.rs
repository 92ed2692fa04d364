//! Counters of programs by name: rows of table `counters` in, how often each was reported and its values out.

use std::collections::HashMap;

use table::tables::Counters;
use table::{Columns, CounterKind, Rows, TableConsumer, TableId};

pub use super::counter_report::CounterReport;
use super::join::counters::value;
use super::join::report::{FactorKind, Preceding};
use super::{NameTable, WaitFilter};

/// One counter of one process.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct CounterKey {
    pid: u32,
    domain: Option<String>,
    name: Option<String>,
    id: Option<u32>,
}

/// Values of one counter.
#[derive(Debug, Clone)]
struct CounterSums {
    unit: Option<String>,
    values: u64,
    now: f64,
    min: f64,
    max: f64,
}

/// Counters on their way to a report.
#[derive(Debug)]
pub struct CounterTable {
    pid: Option<u32>,
    tid: Option<u32>,
    span: (u64, u64),
    counters: HashMap<CounterKey, CounterSums>,
}

impl TableConsumer for CounterTable {
    fn is_reader_of(&self, table: TableId) -> bool {
        table == TableId::Counter
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        if let Rows::Counter(rows) = rows {
            self.add(rows);
        }
    }
}

impl CounterTable {
    /// Takes counters of the processes, threads and times that the filter of waits names.
    pub fn new(filter: &WaitFilter, started_ns: u64) -> Self {
        Self {
            pid: filter.pid,
            tid: filter.tid,
            span: filter.span_ns(started_ns),
            counters: HashMap::new(),
        }
    }

    /// Adds rows, each counter's in the order of time.
    pub fn add(&mut self, rows: &Counters) {
        for index in 0..rows.len() {
            let (pid, tid) = (rows.pid[index], rows.tid[index]);
            let is_wanted = self.pid.is_none_or(|wanted| wanted == pid)
                && self.tid.is_none_or(|wanted| wanted == tid)
                && (self.span.0..=self.span.1).contains(&rows.time_ns[index]);
            if let Some(value) = value(rows, index).filter(|_| is_wanted) {
                self.add_value(rows, index, value);
            }
        }
    }

    /// Adds a value of a program's counter: last, smallest and largest.
    fn add_value(&mut self, rows: &Counters, index: usize, value: f64) {
        let name = rows.name[index].clone();
        let key = CounterKey {
            pid: rows.pid[index],
            domain: rows.domain[index].clone(),
            id: rows.counter[index].filter(|_| name.is_none()),
            name,
        };
        let sums = self.counters.entry(key).or_insert_with(|| CounterSums {
            unit: rows.unit[index].clone(),
            values: 0,
            now: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        });
        sums.now = match rows.kind[index] {
            CounterKind::Set => value,
            CounterKind::Increment | CounterKind::Decrement => sums.now + value,
        };
        sums.values += 1;
        sums.min = sums.min.min(sums.now);
        sums.max = sums.max.max(sums.now);
    }

    /// Returns the counters by process and name, without the waits beside them.
    pub fn alone(self, names: &NameTable) -> Vec<CounterReport> {
        self.report(names, std::iter::empty())
    }

    /// Returns the counters by process and name. `preceding`: the titles of groups, and what went before their waits.
    pub(super) fn report<'a>(
        self,
        names: &NameTable,
        preceding: impl Iterator<Item = (String, &'a Preceding)> + Clone,
    ) -> Vec<CounterReport> {
        let mut counters: Vec<_> = self.counters.into_iter().collect();
        counters.sort_by(|one, other| one.0.cmp(&other.0));
        let report = |(key, sums): (CounterKey, CounterSums)| CounterReport {
            slow_waits: preceding
                .clone()
                .filter(|(_, preceding)| goes_with(preceding, &key))
                .map(|(title, _)| title)
                .collect(),
            process: names.process(key.pid),
            domain: key.domain,
            name: key.name,
            unit: sums.unit,
            values: sums.values,
            min: sums.min,
            max: sums.max,
            last: sums.now,
        };
        counters.into_iter().map(report).collect()
    }
}

/// Returns whether slow waits go with values of the counter.
fn goes_with(preceding: &Preceding, key: &CounterKey) -> bool {
    let mut associated = preceding
        .factors
        .iter()
        .filter(|factor| factor.association.is_some());
    associated.any(|factor| match &factor.what {
        FactorKind::Counter { domain, name, .. } => *domain == key.domain && *name == key.name,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use table::row_of;
    use table::tables::Counter;

    use super::*;

    #[test]
    fn changes_are_added_up_and_values_are_kept() {
        let mut rows = Counters::default();
        for (time_ns, kind, value) in [(1, "set", 5), (2, "increment", 7), (3, "decrement", 10)] {
            let row = json!({
                "time_ns": time_ns, "source": "itt", "pid": 7, "tid": 71, "domain": "net",
                "name": "queued", "kind": kind, "value_u64": value, "unit": "requests",
            });
            rows.push(row_of::<Counter>(row).expect("a row"));
        }
        let mut table = CounterTable::new(&WaitFilter::default(), 0);
        table.add(&rows);
        let report = table.report(&NameTable::default(), std::iter::empty());
        let [counter] = &report[..] else {
            panic!("{report:?}")
        };
        assert_eq!(counter.title(), "net: queued");
        let values = (counter.values, counter.min, counter.max, counter.last);
        assert_eq!(values, (3, 2.0, 12.0, 2.0));
    }
}
