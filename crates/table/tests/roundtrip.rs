//! Rows of every table come back as they went in: through batches, open segments, merged
//! files and JSON lines, whatever their values, nulls and batch sizes.

mod common;

use std::fmt::Debug;

use common::{Random, header, rows, slice};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use whylat_table::{
    Columns, Recording, Table, WriteOptions, Writer, for_each_table, rows_from_jsonl,
    rows_to_jsonl, validate,
};

/// Writes rows in batches of random size with seals between, and reads them before and after
/// the merge.
fn through_segments<T>(columns: &T::Columns, random: &mut Random)
where
    T: Table,
    T::Columns: PartialEq + Debug,
{
    let dir = tempfile::tempdir().expect("temporary directory");
    let dir = dir.path().join("r.whylat");
    let mut writer = Writer::create(&dir, &header(), WriteOptions::default()).expect("create");
    let mut start = 0;
    while start < columns.len() {
        let most = if random.below(2) == 0 { 10 } else { 20_000 };
        let end = columns.len().min(start + 1 + random.below(most) as usize);
        writer.append(slice(columns, start..end)).expect("append");
        if random.below(4) == 0 {
            writer.seal().expect("seal");
        }
        start = end;
    }
    writer.seal().expect("seal");
    let stored = writer.stored().get(T::NAME).copied().unwrap_or(0);
    assert_eq!(stored, columns.len() as u64);

    let open = Recording::open(&dir).expect("open");
    assert!(open.is_live());
    assert_eq!(&open.read_all::<T>(), columns);
    assert_eq!(open.problems(), []);
    assert_eq!(validate(&dir).expect("open"), []);

    let closed = writer.close(9).expect("close");
    assert!(closed.failures.is_empty(), "{:?}", closed.failures);
    let merged = Recording::open(&dir).expect("open");
    assert!(!merged.is_live());
    assert!(merged.closed().is_some_and(|close| close.in_order));
    assert_eq!(&merged.read_all::<T>(), columns);
    assert_eq!(validate(&dir).expect("open"), []);
    let files = std::fs::read_dir(dir.join(T::NAME)).map_or(0, Iterator::count);
    assert_eq!(files, usize::from(!columns.is_empty()));
}

/// Writes random rows of a table and reads them again, in every way.
fn through_all<T>(seed: u64, count: usize)
where
    T: Table + Serialize + DeserializeOwned + PartialEq + Debug,
    T::Columns: PartialEq + Debug + Clone,
{
    let mut random = Random::new(seed);
    let columns = rows::<T>(&mut random, count);
    let batch = columns.clone().into_batch();
    assert_eq!(T::Columns::from_batch(&batch).expect("own batch"), columns);
    let text = rows_to_jsonl::<T>(&columns).expect("finite numbers");
    assert_eq!(rows_from_jsonl::<T>(&text).expect("own text"), columns);
    through_segments::<T>(&columns, &mut random);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn few_rows_of_every_table_are_read_back(seed: u64, count in 0usize..70) {
        macro_rules! every {
            ($($row:ty),+ $(,)?) => { $(through_all::<$row>(seed, count);)+ };
        }
        for_each_table!(every);
    }
}

/// Enough rows for several segments, and for two batches of a reader.
#[test]
fn many_rows_of_every_table_are_read_back() {
    macro_rules! every {
        ($($row:ty),+ $(,)?) => { $(through_all::<$row>(7_919, 17_011);)+ };
    }
    for_each_table!(every);
}

/// A column with values that jump over the whole range, so that differences wrap around.
#[test]
fn wrapping_differences_are_read_back() {
    use whylat_table::tables::{ClockPair, ClockPairs};
    let mut pairs = ClockPairs::default();
    for index in 0..1_009u64 {
        let extreme = if index % 2 == 0 { i64::MIN } else { i64::MAX };
        pairs.push(ClockPair {
            monotonic_ns: u64::MAX * (index % 3 / 2),
            clock: "realtime".to_owned(),
            other_ns: extreme,
            error_ns: index << 54,
            set: None,
            steer_ppb: (index % 5 > 0).then_some(extreme),
            slew_ppb: None,
        });
    }
    through_segments::<ClockPair>(&pairs, &mut Random::new(3));
}
