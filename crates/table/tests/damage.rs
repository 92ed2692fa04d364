//! Damage: whatever is cut or flipped, a recording opens or says why not, hands out only rows
//! that were written, and still has every row of every file that is whole.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Random, header, rows, slice};
use tempfile::TempDir;
use whylat_table::manifest::{Line, Loss};
use whylat_table::tables::{Call, Calls, Connection, Connections};
use whylat_table::{Columns, Recording, WriteOptions, Writer, recover_recording, validate};

/// Rows of `calls` in each sealed segment.
const SEGMENT_ROWS: usize = 53;
/// Sealed segments.
const SEGMENTS: usize = 3;

struct Sample {
    _temporary: TempDir,
    dir: PathBuf,
    calls: Calls,
    connections: Connections,
    files: Vec<PathBuf>,
    closed: bool,
}

/// Writes a small recording with three segments of calls, or one merged file.
fn sample(close: bool) -> Sample {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let dir = temporary.path().join("r.whylat");
    let mut random = Random::new(42);
    let calls = rows::<Call>(&mut random, SEGMENTS * SEGMENT_ROWS);
    let connections = rows::<Connection>(&mut random, 5);
    let mut writer = Writer::create(&dir, &header(), WriteOptions::default()).expect("create");
    writer.append(connections.clone()).expect("append");
    for segment in 0..SEGMENTS {
        let start = segment * SEGMENT_ROWS;
        writer
            .append(slice(&calls, start..start + SEGMENT_ROWS))
            .expect("append");
        writer.seal().expect("seal");
    }
    let loss = Loss {
        probe: "calls".to_owned(),
        produced: 10,
        stored: 10,
        ..Loss::default()
    };
    writer.line(&Line::Loss(loss)).expect("line");
    if close {
        writer.close(1).expect("close");
    } else {
        drop(writer);
    }
    let mut files = vec![dir.join("manifest.jsonl")];
    for table in ["calls", "connections"] {
        let entries = fs::read_dir(dir.join(table)).expect("table directory");
        files.extend(entries.map(|entry| entry.expect("entry").path()));
    }
    files.sort();
    Sample {
        _temporary: temporary,
        dir,
        calls,
        connections,
        files,
        closed: close,
    }
}

/// Checks what a reader gets from a recording with a `damaged` file.
fn check(sample: &Sample, damaged: &Path, what: &str) {
    let recording = match Recording::open(&sample.dir) {
        Ok(recording) => recording,
        Err(error) => {
            assert!(damaged.ends_with("manifest.jsonl"), "{what}: {error}");
            let text = error.to_string();
            assert!(
                text.contains("manifest.jsonl") || text.contains("format"),
                "{what}: {text}"
            );
            assert!(text.contains("hint: "), "{what}: {text}");
            return;
        }
    };
    let calls = recording.read_all::<Call>();
    let connections = recording.read_all::<Connection>();
    let problems = recording.problems();
    if damaged.ends_with("manifest.jsonl") {
        let unclosed = sample.closed && recording.closed().is_none();
        let noticed = !problems.is_empty() || recording.torn() || unclosed;
        assert!(noticed, "{what}: unnoticed");
        assert!(
            is_whole_segments(&calls, &sample.calls, None),
            "{what}: rows changed"
        );
        assert!(
            connections.is_empty() || connections == sample.connections,
            "{what}"
        );
        return;
    }
    assert!(
        problems.iter().any(|problem| problem.file == damaged),
        "{what}: {problems:?}"
    );
    assert_eq!(validate(&sample.dir).expect("opens").len(), 1, "{what}");
    if damaged
        .parent()
        .is_some_and(|table| table.ends_with("calls"))
    {
        let segment = sample
            .files
            .iter()
            .position(|file| file == damaged)
            .expect("listed");
        let expected_all = sample.files.len() == 2 + SEGMENTS;
        let missing = expected_all.then_some(segment);
        assert!(
            is_whole_segments(&calls, &sample.calls, missing),
            "{what}: rows changed"
        );
        assert_eq!(connections, sample.connections, "{what}");
    } else {
        assert_eq!(calls, sample.calls, "{what}");
        assert!(connections.is_empty(), "{what}");
    }
}

/// Returns whether rows are the written segments in order, but for the one at `missing`; any may be
/// missing if it is `None`.
fn is_whole_segments(found: &Calls, written: &Calls, missing: Option<usize>) -> bool {
    let segments: Vec<Calls> = (0..SEGMENTS)
        .map(|segment| {
            slice(
                written,
                segment * SEGMENT_ROWS..(segment + 1) * SEGMENT_ROWS,
            )
        })
        .collect();
    (0..1 << SEGMENTS).any(|chosen: usize| {
        let mut expected = Calls::default();
        let is_chosen = |index: &usize| chosen >> index & 1 == 1;
        let fits = missing.is_none_or(|missing| chosen == ((1 << SEGMENTS) - 1) & !(1 << missing));
        (0..SEGMENTS)
            .filter(is_chosen)
            .for_each(|index| expected.append(segments[index].clone()));
        fits && expected == *found
    })
}

#[test]
fn every_truncation_is_noticed() {
    let mut tried = 0;
    for close in [false, true] {
        let sample = sample(close);
        for file in &sample.files {
            let whole = fs::read(file).expect("read");
            let step = (whole.len() / 1_100).max(1);
            for length in (0..whole.len()).step_by(step) {
                tried += 1;
                fs::write(file, &whole[..length]).expect("write");
                let what = format!("{} cut to {length} of {}", file.display(), whole.len());
                let lines_end = length == 0 || whole[length - 1] == b'\n';
                if close || !file.ends_with("manifest.jsonl") || !lines_end {
                    check(&sample, file, &what);
                }
            }
            fs::write(file, &whole).expect("write");
        }
        assert_eq!(validate(&sample.dir).expect("opens"), []);
    }
    assert!(tried >= 10_000, "{tried}");
}

#[test]
fn every_flipped_bit_is_noticed() {
    let mut random = Random::new(1_000_003);
    for close in [false, true] {
        let sample = sample(close);
        let contents: BTreeMap<_, _> = sample
            .files
            .iter()
            .map(|file| (file, fs::read(file).expect("read")))
            .collect();
        for round in 0..1_200 {
            let file = random.pick(&sample.files);
            let mut bytes = contents[file].clone();
            let bit = random.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(file, &bytes).expect("write");
            check(
                &sample,
                file,
                &format!("round {round}: bit {bit} of {}", file.display()),
            );
            fs::write(file, &contents[file]).expect("write");
        }
        assert_eq!(validate(&sample.dir).expect("opens"), []);
    }
}

/// Recovery must not give damaged rows a valid digest.
#[test]
fn recovery_keeps_damage_visible() {
    let sample = sample(false);
    let damaged = sample.dir.join("calls/000002.parquet");
    let mut bytes = fs::read(&damaged).expect("read");
    bytes[100] ^= 1;
    fs::write(&damaged, bytes).expect("write");
    let recovered = recover_recording(&sample.dir).expect("recover");
    assert_eq!(recovered.unmerged.len(), 1);
    assert!(
        recovered.unmerged[0]
            .to_string()
            .contains("calls/000002.parquet")
    );
    check(&sample, &damaged, "after recovery");
    let recording = Recording::open(&sample.dir).expect("open");
    assert!(recording.closed().is_some_and(|close| !close.in_order));
    assert_eq!(recording.read_all::<Connection>(), sample.connections);
}

/// Leaves files as a crash does beside whole segments, and recovers.
#[test]
fn recovery_clears_what_a_crash_leaves() {
    let sample = sample(false);
    let stray = sample.dir.join("calls/000009.parquet");
    fs::copy(sample.dir.join("calls/000001.parquet"), &stray).expect("copy");
    let temporary = sample.dir.join("calls/000010.parquet.tmp");
    fs::write(&temporary, b"PAR1").expect("write");
    let manifest = sample.dir.join("manifest.jsonl");
    let mut text = fs::read_to_string(&manifest).expect("read");
    let whole = text.len() as u64;
    text.push_str("{\"segment\":{\"table\":\"ca");
    fs::write(&manifest, text).expect("write");
    assert!(Recording::open(&sample.dir).expect("open").torn());
    assert_eq!(validate(&sample.dir).expect("opens").len(), 2);

    let recovered = recover_recording(&sample.dir).expect("recover");
    assert!(!recovered.was_closed);
    assert_eq!(recovered.dropped_line, Some(whole));
    assert_eq!(recovered.removed, [temporary]);
    assert_eq!(
        recovered.set_aside,
        [sample.dir.join("calls/000009.parquet.unlisted")]
    );
    assert_eq!(recovered.problems, []);
    let after = fs::read(&manifest).expect("read");
    let recording = Recording::open(&sample.dir).expect("open");
    assert_eq!(recording.read_all::<Call>(), sample.calls);
    assert_eq!(validate(&sample.dir).expect("opens"), []);

    let again = recover_recording(&sample.dir).expect("recover again");
    assert!(again.was_closed && again.removed.is_empty() && again.set_aside.is_empty());
    assert_eq!(fs::read(&manifest).expect("read"), after);
}
