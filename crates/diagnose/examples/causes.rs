//! How much of the functions' time of a recording has a cause: self time (a span without those within it)
//! by cause, and the functions that no rule knows. A helper's time is that of the function around it.
//! Prints JSON; times in nanoseconds.
//!
//! ```text
//! whylat import ftrace trace.txt -o t.whylat
//! cargo run --release -p whylat-diagnose --example causes -- t.whylat
//! ```

use std::collections::BTreeMap;
use std::error::Error;

use serde_json::json;
use table::tables::{Activities, Activity};
use table::{ActivityKind, Columns, Recording};
use whylat_diagnose::causes::{Categories, Cause, CauseCache};

/// Names without a cause that are shown.
const WORST: usize = 40;

/// An open span.
struct Open {
    row: Activity,
    cause: Option<Cause>,
    within_ns: u64,
}

struct Sums<'a> {
    known: CauseCache<'a>,
    causes: BTreeMap<Option<Cause>, u64>,
    unknown: BTreeMap<String, u64>,
}

impl Sums<'_> {
    /// Adds the spans of one CPU or thread, in the order of their start.
    fn add(&mut self, rows: Vec<Activity>) {
        let mut open: Vec<Open> = Vec::new();
        for row in rows {
            while open.len() > usize::from(row.depth) {
                self.close(&mut open);
            }
            let found = self.known.cause(row.kind, row.name.as_deref());
            let around = open.last().and_then(|around| around.cause);
            let cause = found.map(|found| match found {
                Cause::Helpers => around.unwrap_or(found),
                found => found,
            });
            open.push(Open {
                row,
                cause,
                within_ns: 0,
            });
        }
        while !open.is_empty() {
            self.close(&mut open);
        }
    }

    /// Ends the innermost open span: adds its own time, without its children, to the sum of its
    /// cause.
    fn close(&mut self, open: &mut Vec<Open>) {
        let Some(last) = open.pop() else { return };
        let length_ns = last.row.end_ns - last.row.begin_ns;
        if let Some(around) = open.last_mut() {
            around.within_ns += length_ns;
        }
        if last.row.kind != ActivityKind::Function {
            return;
        }
        let own_ns = length_ns.saturating_sub(last.within_ns);
        *self.causes.entry(last.cause).or_default() += own_ns;
        if let (None, Some(name)) = (last.cause, last.row.name) {
            *self.unknown.entry(name).or_default() += own_ns;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("name a recording")?;
    let rows: Activities = Recording::open(path)?.read_all::<Activity>();
    let mut lanes: BTreeMap<_, Vec<Activity>> = BTreeMap::new();
    for row in (0..rows.len()).map(|index| rows.row(index)) {
        let lane = (row.cpu, row.tid.filter(|_| row.cpu.is_none()));
        lanes.entry(lane).or_default().push(row);
    }
    let categories = Categories::built_in()?;
    let mut sums = Sums {
        known: CauseCache::new(&categories),
        causes: BTreeMap::new(),
        unknown: BTreeMap::new(),
    };
    for rows in lanes.into_values() {
        sums.add(rows);
    }
    println!("{}", report(&sums));
    Ok(())
}

/// Returns the sums as JSON: time by cause, and the functions without a cause.
fn report(sums: &Sums<'_>) -> serde_json::Value {
    let total_ns: u64 = sums.causes.values().sum();
    let unknown_ns = sums.causes.get(&None).copied().unwrap_or_default();
    let causes = sums.causes.iter();
    let named = causes.filter_map(|(cause, ns)| Some(((*cause)?.name(), ns)));
    let mut worst: Vec<_> = sums.unknown.iter().collect();
    worst.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
    worst.truncate(WORST);
    json!({
        "functions_ns": total_ns,
        "unknown_ns": unknown_ns,
        "categorised": (total_ns > 0).then(|| 1.0 - unknown_ns as f64 / total_ns as f64),
        "causes": named.collect::<BTreeMap<_, _>>(),
        "worst": worst,
    })
}
