//! A full disk under the spool: what was stored stays, what does not fit is counted, and it goes on when there is room.
//! The disk is a small tmpfs in a mount namespace of a child process, so root is needed.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use common::*;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use whylat_agent::Interval;

/// Names the directory for the child's mount.
const DIR: &str = "WHYLAT_AGENT_TEST_DISK";

#[test]
fn full_disk_is_counted_and_survived() {
    if let Some(dir) = std::env::var_os(DIR) {
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
            "full_disk_is_counted_and_survived",
            "--test-threads=1",
        ])
        .env(DIR, temporary.path())
        .output()
        .expect("start child");
    let [output, errors] =
        [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(child.status.success(), "{output}{errors}");
}

/// Mounts a small file system.
fn mount_small_disk(mount_point: &Path) {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS).expect("mount namespace");
    mount(none, "/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none).expect("private mounts");
    let tmpfs = Some("tmpfs");
    mount(tmpfs, mount_point, tmpfs, MsFlags::empty(), Some("size=1m")).expect("tmpfs");
}

/// Runs in the child: fills a small file system, which ends with the child.
fn fill_small_disk(dir: &Path) {
    let mut config = config(dir);
    let target = dir.join("dataset");
    fs::remove_dir(&target).expect("away");
    let disk = dir.join("disk");
    fs::create_dir(&disk).expect("mount point");
    mount_small_disk(&disk);
    config.spool = disk.join("spool");
    let shipper = start(&config);
    let of = |minute: i64| interval(HOUR_NS + minute * MINUTE_NS, 3);
    let mut all: Vec<Interval> = (1..4).map(of).collect();
    all.iter().for_each(|one| put(&shipper, one.clone()));
    until(&shipper, |state| state.stored_intervals == 3);

    let filler = disk.join("filler");
    let mut file = File::create(&filler).expect("filler");
    while file.write_all(&[0; 4096]).is_ok() {}
    drop(file);
    put(&shipper, of(4));
    let state = until(&shipper, |state| state.stored_intervals == 4);
    // the details of the newest go first, then the interval itself; details that were there make no room for it
    assert!(state.given.full_files >= 5, "{state:?}");
    let dropped = state.given.full_files;

    fs::remove_file(&filler).expect("room");
    put(&shipper, of(5));
    all.push(of(5));
    until(&shipper, |state| state.stored_intervals == 5);
    fs::create_dir(&target).expect("back");
    until(&shipper, |state| state.spooled_files == 0);
    let state = stop(shipper);
    assert_eq!((state.given.full_files, state.spooled_files), (dropped, 0));
    let begins: Vec<i64> = all.iter().map(|one| one.begin_ns).collect();
    assert_eq!(watched(&target), begins);
    let problems = count::<table::fleet::FleetProblems>(&target);
    assert_eq!(problems.len(), 4 * 3);
    assert!(problems.values().all(|&times| times == 1));
}
