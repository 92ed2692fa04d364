//! A full disk: a clear error, the sealed rows stay readable, and the end can still be written.
//! The disk is a small tmpfs in a mount namespace of a child process, so root is needed.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use common::{Random, header, rows, slice};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use whylat_table::manifest::{Line, Loss};
use whylat_table::tables::{Call, Calls, TcpEvent};
use whylat_table::{Columns, Recording, WriteError, WriteOptions, Writer, validate};

/// Gives the child the place to mount.
const CHILD_DIR: &str = "WHYLAT_TABLE_TEST_DISK";

#[test]
fn a_full_disk_loses_only_open_rows() {
    if let Some(dir) = std::env::var_os(CHILD_DIR) {
        return fill_small_disk(Path::new(&dir));
    }
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: mounting a small file system needs root");
        return;
    }
    let temporary = tempfile::tempdir().expect("temporary directory");
    let child = Command::new(std::env::current_exe().expect("own path"))
        .args([
            "--exact",
            "a_full_disk_loses_only_open_rows",
            "--test-threads=1",
        ])
        .env(CHILD_DIR, temporary.path())
        .output()
        .expect("start child");
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success(),
        "{output}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

/// Mounts a small file system in the child: it ends with the child.
fn mount_small_disk(mount_point: &Path) {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS).expect("mount namespace");
    mount(none, "/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none).expect("private mounts");
    let tmpfs = Some("tmpfs");
    mount(tmpfs, mount_point, tmpfs, MsFlags::empty(), Some("size=4m")).expect("tmpfs");
}

/// Fills a small file system while it is written to, and demands the error.
fn fill_small_disk(mount_point: &Path) {
    mount_small_disk(mount_point);
    let dir = mount_point.join("r.whylat");
    let mut random = Random::new(5);
    let calls = rows::<Call>(&mut random, 4_001);
    let events = rows::<TcpEvent>(&mut random, 101);
    let mut writer = Writer::create(&dir, &header(), WriteOptions::default()).expect("create");
    writer.append(calls.clone()).expect("append");
    writer.append(events.clone()).expect("append");
    writer.seal().expect("seal");

    let error = append_until_full(&mut writer, &mut random);
    assert!(matches!(error, WriteError::Full { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("calls/") && text.contains("hint: free some space"),
        "{text}"
    );
    fill_up(mount_point);
    let loss = go_on_and_close(writer, &calls);

    let recording = Recording::open(&dir).expect("open");
    assert_eq!(recording.problems(), []);
    assert!(recording.closed().is_some());
    assert_eq!(recording.rows::<Call>(), loss.stored);
    assert_eq!(recording.loss(), [loss]);
    assert_eq!(slice(&recording.read_all::<Call>(), 0..calls.len()), calls);
    assert_eq!(recording.read_all::<TcpEvent>(), events);
    assert_eq!(validate(&dir).expect("opens"), []);
}

/// Writes more rows, which fail and are counted, and closes: the manifest has reserved space.
fn go_on_and_close(mut writer: Writer, calls: &Calls) -> Loss {
    let before = writer.discarded().get("calls").copied().unwrap_or(0);
    let failed = writer.append(calls.clone()).and_then(|()| writer.seal());
    assert!(matches!(failed, Err(WriteError::Full { .. })), "{failed:?}");
    let discarded = before + calls.len() as u64;
    assert_eq!(writer.discarded()["calls"], discarded);
    let stored = writer.stored()["calls"];
    let loss = Loss {
        probe: "calls".to_owned(),
        produced: stored + discarded,
        stored,
        filtered: 0,
        lost: BTreeMap::from([("disk".to_owned(), discarded)]),
    };
    writer
        .line(&Line::Loss(loss.clone()))
        .expect("room for lines is kept");
    let closed = writer.close(77).expect("room for the last line is kept");
    assert!(!closed.failures.is_empty());
    assert!(
        closed
            .failures
            .iter()
            .all(|error| matches!(error, WriteError::Full { .. }))
    );
    loss
}

/// Appends random rows, which do not pack, until the disk is full.
fn append_until_full(writer: &mut Writer, random: &mut Random) -> WriteError {
    for _ in 0..200 {
        let rows = rows::<Call>(random, 2_000);
        if let Err(error) = writer.append(rows).and_then(|()| writer.seal()) {
            return error;
        }
    }
    panic!("the disk took 400,000 rows");
}

/// Fills the rest of the disk.
fn fill_up(mount_point: &Path) {
    let mut file = fs::File::create(mount_point.join("filler")).expect("create");
    while file.write(&[0; 4_096]).is_ok_and(|written| written > 0) {}
}
