//! The desktop's opener, which is another program, shows a recording's page: here a stand-in that writes down how it was
//! called.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::{finish, program};

/// A directory with a recording, and an `xdg-open` that writes down its argument and ends with this status.
fn scene(status: u8) -> tempfile::TempDir {
    let scratch = tempfile::tempdir().expect("a directory");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let text = golden.join("nagle_delayed_ack/fires");
    table::write_fixture(&text, scratch.path().join("r.whylat")).expect("a recording");
    let opener = scratch.path().join("xdg-open");
    let opened = scratch.path().join("opened");
    let script = format!(
        "#!/bin/sh\nprintf %s \"$1\" > {}\nexit {status}\n",
        opened.display()
    );
    fs::write(&opener, script).expect("written");
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).expect("executable");
    scratch
}

fn view(scratch: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", scratch.display()));
    command.current_dir(scratch).arg("view").args(arguments);
    command
}

#[test]
fn page_is_passed_to_opener() {
    let scratch = scene(0);
    let path = scratch.path();
    let done = finish(&mut view(path, &["r.whylat"]));
    done.assert_status(0);
    let opened = PathBuf::from(fs::read_to_string(path.join("opened")).expect("it was called"));
    assert_eq!(opened, Path::new("r.whylat.html"));
    let page = fs::read_to_string(path.join(opened)).expect("the page");
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"));
    // made again each time; a file that was named is not
    finish(&mut view(path, &["r.whylat", "--no-open"])).assert_status(0);
    finish(&mut view(
        path,
        &["r.whylat", "--no-open", "-o", "own.html"],
    ))
    .assert_status(0);
    let again = finish(&mut view(
        path,
        &["r.whylat", "--no-open", "-o", "own.html"],
    ));
    again.assert_status(1);
    assert!(
        again.err.contains("exists already") && again.err.contains("--force"),
        "{}",
        again.err
    );
    finish(&mut view(
        path,
        &["r.whylat", "--no-open", "-o", "own.html", "--force"],
    ))
    .assert_status(0);
}

#[test]
fn failing_opener_is_reported() {
    let scratch = scene(3);
    let done = finish(&mut view(scratch.path(), &["r.whylat"]));
    done.assert_status(1);
    assert!(
        done.err.contains("xdg-open could not show") && done.err.contains("hint: open this file"),
        "{}",
        done.err
    );
}
