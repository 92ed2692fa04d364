//! Recordings: the manifest, and the Parquet file of a segment.

use std::fs;
use std::path::Path;

use table::manifest::Segment;
use table::{Recording, Table, recover_recording, validate};

use super::files::scratch;

/// First line of a recording.
const HEADER: &str = r#"{"header":{"format":1,"whylat":"0.1.0","host":"h","boot_id":"b","kernel":"k","cpus":2,"clocksource":"tsc","detail":"calls","arguments":[],"started_ns":1,"started_realtime_ns":2,"jiffy_ns":null}}"#;

/// A line with the digest that belongs to it; as it is, if it has one.
fn checked(line: &[u8]) -> Vec<u8> {
    let is_checked = line.windows(10).any(|it| it == b",\"check\":\"");
    let Some(body) = line.strip_suffix(b"}").filter(|_| !is_checked) else {
        return line.to_owned();
    };
    let digest = blake3::hash(body).to_hex();
    let check = format!(",\"check\":\"{}\"}}", &digest[..16]);
    [body, check.as_bytes()].concat()
}

/// Reads every table of a recording, looks for damage, closes it, and reads it again.
fn use_up(dir: &Path) {
    for _ in ["as it is", "recovered"] {
        let Ok(recording) = Recording::open(dir) else {
            return;
        };
        macro_rules! read {
            ($($row:ty),+ $(,)?) => {$(
                let found = recording.scan::<$row>(drop);
                // as many as the files hold that are not damaged
                assert!(found <= recording.rows::<$row>() || !recording.problems().is_empty());
                assert!(recording.tables().all(|name| !name.is_empty() || name != <$row>::NAME));
            )+};
        }
        table::for_each_table!(read);
        let _range = recording.time_range_ns();
        let _residuals: Vec<i128> = recording.loss().iter().map(|it| it.residual()).collect();
        let _problems = validate(dir);
        if recover_recording(dir).is_err() {
            return;
        }
    }
}

/// `manifest.jsonl`. Lines without a digest get the right one, so that damage comes past it.
pub fn manifest(bytes: &[u8]) {
    let scratch = scratch();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let (body, end) = match line.strip_suffix(b"\n") {
            Some(body) => (body, &b"\n"[..]),
            None => (line, &b""[..]),
        };
        [&checked(body), end].concat()
    });
    let text = lines.collect::<Vec<_>>().concat();
    fs::write(scratch.path().join("manifest.jsonl"), text).expect("written");
    use_up(scratch.path());
}

/// Names of all tables.
fn tables() -> Vec<&'static str> {
    macro_rules! names {
        ($($row:ty),+ $(,)?) => { vec![$(<$row>::NAME),+] };
    }
    table::for_each_table!(names)
}

/// A segment's file, after a byte for the table and two for the number of rows that the manifest promises. Its
/// digest is right: the sender of a recording can compute one.
pub fn segment(bytes: &[u8]) {
    let Some((&[table, low, high], file)) = bytes.split_first_chunk() else {
        return;
    };
    let names = tables();
    let name = names[usize::from(table) % names.len()];
    let rows = u64::from(u16::from_le_bytes([low, high]));
    let scratch = scratch();
    write_segment(scratch.path(), name, rows, file);
    use_up(scratch.path());
}

fn write_segment(dir: &Path, name: &str, rows: u64, file: &[u8]) {
    let segment = Segment {
        table: name.to_owned(),
        file: format!("{name}/000001.parquet"),
        rows,
        first_ns: 0,
        last_ns: u64::MAX,
        bytes: file.len() as u64,
        blake3: blake3::hash(file).to_hex().to_string(),
    };
    let segment = serde_json::to_string(&table::manifest::Line::Segment(segment));
    let lines = [HEADER.as_bytes(), segment.expect("a line").as_bytes()].map(checked);
    fs::create_dir(dir.join(name)).expect("a directory");
    fs::write(dir.join(name).join("000001.parquet"), file).expect("written");
    let text = [lines.join(&b'\n'), b"\n".to_vec()].concat();
    fs::write(dir.join("manifest.jsonl"), text).expect("written");
}
