//! The seeds of the corpus that follow from the code: recordings as this version writes them. To be written again after
//! a change of tables: `cargo test --release -p whylat --test corpus -- --ignored write_seeds`.

use std::fs;
use std::path::Path;

use table::manifest::{Coverage, Line, Loss, ProbeState};
use table::{Table, WriteOptions, Writer};

use super::common::{Random, header, rows};

/// Where the corpus is.
pub const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");

const ROWS: usize = 61;

fn put(target: &str, name: &str, bytes: &[u8]) {
    let place = Path::new(CORPUS).join(target);
    fs::create_dir_all(&place).expect("a directory");
    fs::write(place.join(name), bytes).expect("written");
}

/// The manifest without the digests of its lines, which the target adds.
fn without_checks(text: &str) -> String {
    let line = |line: &str| {
        let body = line
            .rsplit_once(",\"check\":")
            .map_or(line, |(body, _)| body);
        format!("{body}}}\n")
    };
    text.lines().map(line).collect()
}

/// The file of one table, as it is sealed and as it is merged.
fn put_table<T: Table + serde::de::DeserializeOwned>(index: usize) {
    for close in [false, true] {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = scratch.path().join("r");
        let mut writer = Writer::create(&dir, &header(), WriteOptions::default()).expect("created");
        let columns = rows::<T>(&mut Random::new(index as u64), ROWS);
        writer.append(columns).expect("appended");
        writer.seal().expect("sealed");
        if close {
            writer.close(1).expect("closed");
        }
        let file = fs::read_dir(dir.join(T::NAME))
            .expect("a table")
            .flatten()
            .next();
        let file = fs::read(file.expect("a file").path()).expect("read");
        let promise = [index as u8, ROWS as u8, 0];
        let name = format!("{}-{}", T::NAME, if close { "merged" } else { "sealed" });
        put("segment", &name, &[&promise, &file[..]].concat());
    }
}

fn put_manifest() {
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = scratch.path().join("r");
    let mut writer = Writer::create(&dir, &header(), WriteOptions::default()).expect("created");
    let calls = rows::<table::tables::Call>(&mut Random::new(1), ROWS);
    let probe = "calls".to_owned();
    let state = ProbeState::On;
    writer
        .line(&Line::Coverage(Coverage {
            probe: probe.clone(),
            state,
        }))
        .expect("a line");
    writer.append(calls).expect("appended");
    writer.seal().expect("sealed");
    let loss = Loss {
        probe,
        produced: 61,
        stored: 61,
        ..Loss::default()
    };
    writer.line(&Line::Loss(loss)).expect("a line");
    writer.close(1).expect("closed");
    let text = fs::read_to_string(dir.join("manifest.jsonl")).expect("a manifest");
    put("manifest", "checked", text.as_bytes());
    put("manifest", "unchecked", without_checks(&text).as_bytes());
}

#[test]
#[ignore = "writes into the corpus"]
fn write_seeds() {
    let mut index = 0;
    macro_rules! put_all {
        ($($row:ty),+ $(,)?) => {$(
            put_table::<$row>(index);
            index += 1;
        )+};
    }
    table::for_each_table!(put_all);
    assert!(index > 0);
    put_manifest();
}
