//! Opening and creating what is not there, not ours, taken, or from another version.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use common::{Random, header, rows};
use whylat_table::manifest::{Coverage, FORMAT, Header, Line, Loss, ProbeState};
use whylat_table::tables::{Call, Calls};
use whylat_table::{
    ReadError, Recording, WriteError, WriteOptions, Writer, recover_recording, table, validate,
};

const FORCE: WriteOptions = WriteOptions {
    segment_ns: 2_000_000_000,
    segment_bytes: 64 << 20,
    force: true,
};

/// Begins a recording.
fn create(dir: &Path) -> Result<Writer, WriteError> {
    Writer::create(dir, &header(), WriteOptions::default())
}

/// Checks that an error says what failed, on which path, and what to do.
#[track_caller]
fn assert_clear(error: &dyn std::error::Error, path: &Path) {
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert!(text.contains("\nhint: "), "{text}");
}

#[test]
fn foreign_directory_is_refused_by_name() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let dir = temporary.path();
    let missing = dir.join("missing.whylat");
    let error = Recording::open(&missing).expect_err("not there");
    assert!(matches!(error, ReadError::NotFound { .. }));
    assert_clear(&error, &missing);

    let file = dir.join("plain");
    fs::write(&file, "text").expect("write");
    let error = Recording::open(&file).expect_err("a file");
    assert!(matches!(error, ReadError::NotADirectory { .. }));
    assert_clear(&error, &file);

    let error = Recording::open(dir).expect_err("a foreign directory");
    assert!(matches!(error, ReadError::NoManifest { .. }));
    assert_clear(&error, dir);

    let manifest = dir.join("manifest.jsonl");
    fs::write(&manifest, "").expect("write");
    let error = Recording::open(dir).expect_err("an empty manifest");
    assert!(matches!(error, ReadError::EmptyManifest { .. }));
    assert_clear(&error, &manifest);

    for foreign in [
        "\n",
        "PAR1\0\u{1}",
        "{\"name\":\"x\"}\n",
        "{\"header\":{}}\n",
        "[1,2]\n",
    ] {
        fs::write(&manifest, foreign).expect("write");
        let error = Recording::open(dir).expect_err("a foreign manifest");
        assert!(
            matches!(error, ReadError::Header { .. }),
            "{foreign:?}: {error}"
        );
        assert_clear(&error, &manifest);
        assert!(validate(dir).is_err() && recover_recording(dir).is_err());
    }
}

#[test]
fn later_format_is_refused_and_earlier_is_read() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let later = temporary.path().join("later.whylat");
    let newer = Header {
        format: FORMAT + 1,
        whylat: "9.9.9".to_owned(),
        ..header()
    };
    drop(Writer::create(&later, &newer, WriteOptions::default()).expect("create"));
    let error = Recording::open(&later).expect_err("a later format");
    assert_clear(&error, &later);
    let text = error.to_string();
    let found = format!("format {}", FORMAT + 1);
    let supported = format!("up to {FORMAT}");
    assert!(
        text.contains(&found) && text.contains(&supported) && text.contains("9.9.9"),
        "{text}"
    );
    // A later format may have no check that we know.
    let manifest = later.join("manifest.jsonl");
    fs::write(&manifest, "{\"header\":{\"format\":7,\"whylat\":\"10\"}}\n").expect("write");
    assert!(matches!(
        Recording::open(&later),
        Err(ReadError::Newer { found: 7, .. })
    ));

    let earlier = temporary.path().join("earlier.whylat");
    let older = Header {
        format: FORMAT - 1,
        ..header()
    };
    let mut writer = Writer::create(&earlier, &older, WriteOptions::default()).expect("create");
    let calls = rows::<Call>(&mut Random::new(1), 97);
    writer.append(calls.clone()).expect("append");
    writer.close(1).expect("close");
    let recording = Recording::open(&earlier).expect("an earlier format");
    assert_eq!(recording.header().format, FORMAT - 1);
    assert_eq!(recording.read_all::<Call>(), calls);
}

table! {
    /// Table `calls` as an earlier version declared it.
    row OldCall, columns OldCalls, name "calls", time end_ns {
        /// Socket cookie.
        conn: u64, "-";
        /// When the call was done.
        end_ns: u64, "ns";
        /// Time blocked within the call.
        blocked_ns: Option<u64>, "ns", null = "not measured";
    }
}

/// A shorter declaration reads its columns; a longer one gets nulls where it may and a
/// problem where it may not.
#[test]
fn tables_with_other_columns_are_read() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let dir = temporary.path().join("r.whylat");
    let mut writer = create(&dir).expect("create");
    let calls = rows::<Call>(&mut Random::new(2), 1_013);
    writer.append(calls.clone()).expect("append");
    writer.close(1).expect("close");
    let old = Recording::open(&dir).expect("open").read_all::<OldCall>();
    assert_eq!((old.conn, old.end_ns), (calls.conn, calls.end_ns));
    assert_eq!(old.blocked_ns, calls.blocked_ns);

    let dir = temporary.path().join("old.whylat");
    let mut writer = create(&dir).expect("create");
    let old = rows::<OldCall>(&mut Random::new(2), 3);
    writer.append(old).expect("append");
    writer.close(1).expect("close");
    let recording = Recording::open(&dir).expect("open");
    assert_eq!(recording.read_all::<Call>(), Calls::default());
    let problems = recording.problems();
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0]
            .to_string()
            .contains("column is_send is missing"),
        "{}",
        problems[0]
    );
}

#[test]
fn existing_path_is_kept_without_force() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let dir = temporary.path().join("r.whylat");
    let writer = create(&dir).expect("create");
    let error = create(&dir).err().expect("taken");
    assert!(matches!(error, WriteError::Exists { .. }));
    assert_clear(&error, &dir);

    for error in [
        Writer::create(&dir, &header(), FORCE)
            .err()
            .expect("still written"),
        recover_recording(&dir).expect_err("still written"),
    ] {
        assert!(matches!(error, WriteError::Busy { .. }), "{error:?}");
        assert_clear(&error, &dir);
    }
    assert!(Recording::open(&dir).expect("open").is_live());
    drop(writer);
    assert!(!Recording::open(&dir).expect("open").is_live());
    Writer::create(&dir, &header(), FORCE).expect("a recording is replaced");

    let foreign = temporary.path().join("precious");
    fs::create_dir(&foreign).expect("create");
    fs::write(foreign.join("thesis"), "text").expect("write");
    let error = Writer::create(&foreign, &header(), FORCE)
        .err()
        .expect("not a recording");
    assert!(matches!(error, WriteError::NotARecording { .. }));
    assert_clear(&error, &foreign);
    assert!(foreign.join("thesis").exists());
    let empty = temporary.path().join("empty.whylat");
    fs::create_dir(&empty).expect("create");
    Writer::create(&empty, &header(), FORCE).expect("nothing is lost with an empty directory");
    let link = temporary.path().join("link.whylat");
    symlink(&dir, &link).expect("link");
    assert!(Writer::create(&link, &header(), FORCE).is_err());
    assert!(dir.exists());
}

#[test]
fn an_unwritable_parent_is_named() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let missing = temporary.path().join("no/r.whylat");
    let error = create(&missing).err().expect("no parent");
    assert!(matches!(error, WriteError::Io { .. }));
    assert_clear(&error, &missing);
    // Not even root may make directories in sysfs.
    let refused = Path::new("/sys/r.whylat");
    let error = create(refused).err().expect("refused");
    assert!(matches!(error, WriteError::Denied { .. }), "{error:?}");
    assert_clear(&error, refused);
}

#[test]
fn later_lines_replace_earlier_ones() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let dir = temporary.path().join("r.whylat");
    let mut writer = create(&dir).expect("create");
    let off = ProbeState::Off {
        why: "no BTF".to_owned(),
        remedy: String::new(),
    };
    let mut line = |line| writer.line(&line).expect("line");
    for state in [off, ProbeState::On] {
        line(Line::Coverage(Coverage {
            probe: "calls".to_owned(),
            state,
        }));
    }
    for (produced, stored) in [(5, 5), (11, 7)] {
        let probe = "calls".to_owned();
        line(Line::Loss(Loss {
            probe,
            produced,
            stored,
            ..Loss::default()
        }));
    }
    writer.close(5).expect("close");
    let recording = Recording::open(&dir).expect("open");
    assert_eq!(recording.coverage().len(), 1);
    assert_eq!(recording.coverage()[0].state, ProbeState::On);
    assert_eq!(recording.loss().len(), 1);
    let problems = validate(&dir).expect("opens");
    assert_eq!(problems.len(), 1);
    let text = problems[0].to_string();
    assert!(
        text.contains("produced 11 is not stored 7 + filtered 0 + lost 0"),
        "{text}"
    );
}

/// Rows are sealed by time or by size, and only when there are any.
#[test]
fn sealing_is_due_by_time_and_size() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let dir = temporary.path().join("r.whylat");
    let options = WriteOptions {
        segment_ns: 100,
        segment_bytes: 50_000,
        force: false,
    };
    let mut writer = Writer::create(&dir, &header(), options).expect("create");
    let started_ns = header().started_ns;
    assert!(!writer.due(started_ns + 1_000));
    let mut random = Random::new(3);
    writer.append(rows::<Call>(&mut random, 3)).expect("append");
    assert!(!writer.seal_if_due(started_ns + 99).expect("seal"));
    assert!(writer.seal_if_due(started_ns + 100).expect("seal"));
    assert_eq!(writer.stored()["calls"], 3);
    writer
        .append(rows::<Call>(&mut random, 3_001))
        .expect("append");
    assert!(writer.seal_if_due(started_ns + 101).expect("seal"));
    assert_eq!(writer.stored()["calls"], 3_004);
}

/// Each format that was ever written is read by every later version: `tests/formats/N` is a recording of format N, of
/// a client of eleven rounds in a namespace of its own.
#[test]
fn recordings_of_every_earlier_format_are_read() {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats");
    for format in 1..=FORMAT {
        let path = formats.join(format.to_string());
        let recording = Recording::open(&path).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(recording.header().format, format);
        assert!(recording.closed().is_some_and(|close| close.in_order));
        assert_eq!(validate(&path).expect("opens"), []);
        let calls = recording.read_all::<Call>();
        assert_eq!(calls.conn.len(), 65);
        assert_eq!(calls.is_send.iter().filter(|send| **send).count(), 33);
        assert!(recording.loss().iter().all(|loss| loss.residual() == 0));
    }
}
