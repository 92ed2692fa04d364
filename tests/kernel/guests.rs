//! The release binary on another kernel than this machine's, in an emulated guest. `make kernels` does
//! so on all kernels, and more; here it is the oldest on which everything is measured, if qemu is installed. The
//! kernel is fetched when this is first run.

use std::path::Path;
use std::process::Command;

use testbed::program;

#[test]
fn older_kernel_falls_back_and_finds_cause() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut guests = Command::new("python3");
    guests.arg(root.join("tests/guests/run.py"));
    guests.args(["--kernel", "6.1", "--whylat", program()]);
    let checks = "check doctor whylat doctor --json\nloopback calls";
    let output = guests.args(["--checks", checks]).output().expect("python3");
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    let reasons = ["not installed", "cannot get kernel", "guests cannot run"];
    if reasons.iter().any(|reason| err.contains(reason)) {
        eprintln!("skipped: {}{}", out.trim(), err.trim());
        return;
    }
    assert!(output.status.success(), "{out}{err}");
    assert!(
        out.contains("calls.loopback") && !out.contains("FAILED"),
        "{out}{err}"
    );
}
