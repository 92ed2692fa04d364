//! Recordings for tests: a header, and rows of every table from random but repeatable values.

#![allow(dead_code, reason = "each test file uses its part")]

use arrow_schema::DataType;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use whylat_table::manifest::{FORMAT, Header};
use whylat_table::{
    ActivityKind, ActivitySource, Caller, Chosen, Columns, CounterKind, DropKind, Role, SampleKind,
    Table, TaskKind, TcpEventKind, ValueSource, WaitObject, Waker, Why, WorkloadKind,
    WorkloadSource, ZerocopyInterface,
};

/// Makes a header of this version.
pub fn header() -> Header {
    Header {
        format: FORMAT,
        whylat: "0.1.0".to_owned(),
        host: "test".to_owned(),
        boot_id: "2f1b5b54-0f2e-4c38-9a53-6a2e7f6f8d01".to_owned(),
        kernel: "6.18".to_owned(),
        cpus: 2,
        architecture: Some("x86_64".to_owned()),
        clocksource: "tsc".to_owned(),
        detail: "calls".to_owned(),
        arguments: vec!["whylat".to_owned(), "record".to_owned()],
        started_ns: 1_000,
        started_realtime_ns: 2_000,
        jiffy_ns: Some(4_000_000),
    }
}

/// xorshift: random enough, and the same in every run.
pub struct Random(u64);

impl Random {
    /// Begins a series of random numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Returns the next random number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a random number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Returns a random element.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Returns random bits: often an edge of the type, often a small number.
    fn bits(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => u64::MAX >> 1,
            3 => self.below(100),
            _ => {
                let shift = self.below(64);
                self.next() >> shift
            }
        }
    }
}

/// Random rows of a table, nulls included.
pub fn rows<T: Table + DeserializeOwned>(random: &mut Random, count: usize) -> T::Columns {
    let mut columns = T::Columns::default();
    for _ in 0..count {
        columns.push(serde_json::from_value(row::<T>(random)).expect("a row of its own table"));
    }
    columns
}

/// Makes a random row of a table.
fn row<T: Table>(random: &mut Random) -> Value {
    let schema = T::Columns::schema();
    let cells = T::FIELDS
        .iter()
        .zip(schema.fields())
        .map(|(field, column)| {
            let null = column.is_nullable() && random.below(3) == 0;
            let value = if null {
                Value::Null
            } else {
                cell::<T>(field.name, column.data_type(), random)
            };
            (field.name.to_owned(), value)
        });
    Value::Object(cells.collect::<Map<_, _>>())
}

/// Makes a random value of a column, or none.
fn cell<T: Table>(field: &str, kind: &DataType, random: &mut Random) -> Value {
    let bits = random.bits();
    match kind {
        DataType::UInt8 => (bits as u8).into(),
        DataType::UInt16 => (bits as u16).into(),
        DataType::UInt32 => (bits as u32).into(),
        DataType::UInt64 => bits.into(),
        DataType::Int32 => (bits as i32).into(),
        DataType::Int64 => (bits as i64).into(),
        DataType::Float64 => f64::from(bits as u32).into(),
        DataType::Boolean => (bits & 1 == 0).into(),
        DataType::Utf8 => text::<T>(field, random).into(),
        other => panic!("tests know no {other}"),
    }
}

/// Makes a random text; a valid name where a column has fixed names.
fn text<T: Table>(field: &str, random: &mut Random) -> String {
    match (T::NAME, field) {
        ("connections" | "unix_sockets" | "udp_flows", "role") => {
            random.pick(Role::ALL).name().to_owned()
        }
        ("connections", "chosen") => random.pick(Chosen::ALL).name().to_owned(),
        ("tcp_samples", "kind") => random.pick(SampleKind::ALL).name().to_owned(),
        ("tcp_events", "kind") => random.pick(TcpEventKind::ALL).name().to_owned(),
        ("waits", "kind" | "ready_kind") | ("spins", "kind") => {
            random.pick(WaitObject::ALL).name().to_owned()
        }
        ("waits", "waker") => random.pick(Waker::ALL).name().to_owned(),
        ("stacks", "caller") => random.pick(Caller::ALL).name().to_owned(),
        ("counters" | "tasks", "source") => random.pick(ValueSource::ALL).name().to_owned(),
        ("processes", "workload_kind") => random.pick(WorkloadKind::ALL).name().to_owned(),
        ("processes", "workload_source") => random.pick(WorkloadSource::ALL).name().to_owned(),
        ("zerocopy_sends", "interface") => random.pick(ZerocopyInterface::ALL).name().to_owned(),
        ("counters", "kind") => random.pick(CounterKind::ALL).name().to_owned(),
        ("activity", "kind") => random.pick(ActivityKind::ALL).name().to_owned(),
        ("activity_windows", "why") => random.pick(Why::ALL).name().to_owned(),
        ("drops" | "drop_counts", "kind") => random.pick(DropKind::ALL).name().to_owned(),
        ("activity", "source") => random.pick(ActivitySource::ALL).name().to_owned(),
        ("tasks", "kind") => random.pick(TaskKind::ALL).name().to_owned(),
        _ => {
            let words = [
                "",
                "a",
                "nginx",
                "nginx: worker",
                "\u{1b}]52;c;\u{7}",
                "é",
                "日本",
                "\0",
            ];
            (0..random.below(4)).map(|_| *random.pick(&words)).collect()
        }
    }
}

/// Returns the rows at `range`, as their own columns.
pub fn slice<C: Columns>(columns: &C, range: std::ops::Range<usize>) -> C {
    let mut part = C::default();
    range.for_each(|index| part.push(columns.row(index)));
    part
}
