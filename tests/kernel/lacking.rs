//! A recorder that does not have a capability, one after the other: what it records is right, and what it cannot record
//! is off, with the capability by name.

use std::process::Command;

use serde_json::Value;
use table::tables::Call;

use testbed::report::{Report, number};
use testbed::{finish, program, root};

/// Every capability that whylat, or what it starts, asks for anywhere; CAP_SYS_ADMIN includes those that were split
/// from it, so that it goes with them. And the capability that is reported to be lacking.
const ONE_BY_ONE: [(&str, Option<&str>); 14] = [
    ("-bpf,-sys_admin", Some("CAP_BPF")),
    ("-perfmon,-sys_admin", Some("CAP_PERFMON")),
    ("-net_admin,-sys_admin", Some("CAP_NET_ADMIN")),
    ("-sys_admin", None),
    ("-sys_ptrace", None),
    ("-syslog", None),
    ("-checkpoint_restore", None),
    ("-dac_read_search", None),
    ("-dac_override", None),
    ("-sys_nice", None),
    ("-sys_resource", None),
    ("-setpcap", None),
    ("-setuid,-setgid", None),
    ("-kill", None),
];

/// Records a known number of calls by a root without these.
fn recorded_without(capabilities: &str) -> (Report, u64) {
    let scratch = tempfile::tempdir().expect("a directory");
    let truth = scratch.path().join("truth");
    let mut command = Command::new("setpriv");
    command.args(["--inh-caps=-all", &format!("--bounding-set={capabilities}")]);
    command
        .arg(program())
        .args(["run", "--as-root", "--detail", "messages", "--output"]);
    command.arg(scratch.path().join("r.whylat"));
    let script = format!(
        "exec \"$0\" lab workload count-calls --pairs 1 --sends 211 --size 67 > '{}'",
        truth.display()
    );
    let output = finish(command.args(["--", "sh", "-c", &script, program()]));
    assert!(!output.err.contains("panicked"), "{output:?}");
    output.assert_status(0);
    let truth = std::fs::read_to_string(&truth).expect("truth");
    let truth: Value = serde_json::from_str(&truth).expect("JSON");
    (Report::from_scratch(scratch), number(&truth, "/send_calls"))
}

/// Returns the probes that are off, with their remedies.
fn off(report: &Report) -> Vec<(String, String)> {
    let coverage = report.json["coverage"].as_array().expect("coverage");
    let off = coverage.iter().filter(|entry| entry["state"] == "off");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    off.map(|entry| (text(&entry["probe"]), text(&entry["remedy"])))
        .collect()
}

#[test]
fn missing_capabilities_are_reported() {
    if !root() {
        return;
    }
    let (all, _) = recorded_without("+all");
    let off_with_all = off(&all);
    for (set, lacking) in ONE_BY_ONE {
        let (report, sends) = recorded_without(set);
        report.assert_whole();
        let off = off(&report);
        let more = off.iter().filter(|entry| !off_with_all.contains(entry));
        if let Some(capability) = lacking {
            let is_named = more.clone().any(|(_, remedy)| remedy.contains(capability));
            assert!(is_named, "without {set}: {off:?}");
        }
        for (probe, remedy) in more {
            assert!(remedy.contains("CAP_"), "{probe} without {set}: {remedy:?}");
        }
        let calls: Vec<Call> = report.rows();
        let seen = calls.iter().filter(|call| call.is_send).count() as u64;
        let is_off = off.iter().any(|(probe, _)| probe == "calls");
        assert_eq!(
            seen,
            if is_off { 0 } else { sends },
            "without {set}: {off:?}"
        );
    }
}
