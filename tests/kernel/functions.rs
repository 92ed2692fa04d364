//! Requests name the functions that computed for them, in the language of the program.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use testbed::{finish, program, root};

/// Starts a server and asks it: see its head.
const ASK: &str = include_str!("programs/ask.py");

/// Servers that compute in one function: see their heads.
const NATIVE: &str = include_str!("programs/burn.c");
const PYTHON: &str = include_str!("programs/burn.py");
const NODE: &str = include_str!("programs/burn.js");
const JAVA: &str = include_str!("programs/Burn.java");

/// Requests to each.
const REQUESTS: &str = "20";

/// Records a server, to which `command` is given; returns the report of its requests.
fn record(scratch: &Path, command: &[&str]) -> Value {
    let place = |name: &str| scratch.join(name);
    std::fs::write(place("ask.py"), ASK).expect("the source");
    let mut run = Command::new(program());
    run.current_dir(scratch);
    run.args(["run", "--as-root", "--output"])
        .arg(place("r.whylat"));
    run.args(["--", "python3"])
        .arg(place("ask.py"))
        .arg(REQUESTS);
    finish(run.args(command)).assert_status(0);
    let mut report = Command::new(program());
    report.args(["report", "--requests", "--format", "json"]);
    let output = finish(report.arg(place("r.whylat")));
    serde_json::from_str(&output.assert_status(0).out).expect("JSON")
}

/// The functions of the service that answers.
fn functions(report: &Value) -> &Value {
    let services = report["services"].as_array().expect("services");
    let server = services.iter().find(|it| it["role"] == "server");
    &server.expect("a server")["functions"]["all"]
}

/// Demands that the function that computes is the first, and that every sample is in the sum.
fn assert_first(report: &Value, function: &str) {
    let all = functions(report);
    let listed = all["functions"].as_array().expect("functions");
    let name = listed.first().and_then(|it| it["function"].as_str());
    assert_eq!(name, Some(function), "{all:#}");
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let of_all = |list: &Value| -> u64 {
        let list = list.as_array().into_iter().flatten();
        list.map(|it| count(&it["samples"])).sum()
    };
    let sum = of_all(&all["functions"]) + of_all(&all["unnamed"]) + count(&all["others"]);
    assert_eq!(sum, count(&all["samples"]), "{all:#}");
}

#[test]
fn native_function_is_named() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let (source, binary) = (scratch.path().join("burn.c"), scratch.path().join("burn"));
    std::fs::write(&source, NATIVE).expect("the source");
    let mut compiler = Command::new("cc");
    finish(compiler.arg("-O2").arg("-o").arg(&binary).arg(&source)).assert_status(0);
    let report = record(scratch.path(), &[&binary.to_string_lossy()]);
    assert_first(&report, "burn");
    // each request has its own samples, and those of the service are their sum
    let requests = report["requests"].as_array().expect("requests").iter();
    let of_server =
        requests.filter(|it| it["service"].as_str().is_some_and(|it| it.contains(" at ")));
    let samples = of_server.map(|it| it["functions"]["samples"].as_u64().unwrap_or(0));
    assert_eq!(functions(&report)["samples"], samples.sum::<u64>());
}

#[test]
fn function_of_node_is_named_by_its_map() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("burn.js");
    std::fs::write(&source, NODE).expect("the source");
    let source = source.to_string_lossy().into_owned();
    let report = record(scratch.path(), &["node", "--perf-basic-prof", &source]);
    assert_first(&report, "burn");
    let first = &functions(&report)["functions"][0];
    assert!(
        first["source"]
            .as_str()
            .is_some_and(|it| it.ends_with("burn.js")),
        "{first}"
    );
    assert_eq!(first["line"], 4);
}

/// Without a map the report says how to get one.
#[test]
fn node_without_a_map_says_how_to_write_one() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("burn.js");
    std::fs::write(&source, NODE).expect("the source");
    let source = source.to_string_lossy().into_owned();
    let report = record(scratch.path(), &["node", &source]);
    let unnamed = functions(&report)["unnamed"]
        .as_array()
        .expect("some without names");
    let remedy = |it: &Value| {
        it["remedy"]
            .as_str()
            .is_some_and(|it| it.contains("--perf-basic-prof"))
    };
    assert!(unnamed.iter().any(remedy), "{unnamed:#?}");
}

#[test]
fn function_of_java_is_named_by_its_map() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("Burn.java");
    std::fs::write(&source, JAVA).expect("the source");
    if Command::new("javac").arg(&source).status().is_err() {
        eprintln!("skipped: no Java here");
        return;
    }
    let classes = scratch.path().to_string_lossy().into_owned();
    let options = [
        "-XX:+PreserveFramePointer",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:+DumpPerfMapAtExit",
    ];
    let command = [&["java"], &options[..], &["-cp", &classes, "Burn"]].concat();
    assert_first(&record(scratch.path(), &command), "Burn.burn");
}

/// Interpreters that are tried: those that are not there are left out.
const INTERPRETERS: [&str; 8] = [
    "python3",
    "python3.8",
    "python3.9",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
];

#[test]
fn function_of_python_is_named() {
    if !root() {
        return;
    }
    let mut tried = 0;
    for interpreter in INTERPRETERS {
        let version = "import sys; print(sys.version_info[1])";
        let output = Command::new(interpreter).args(["-c", version]).output();
        let Some(output) = output.ok().filter(|it| it.status.success()) else {
            continue;
        };
        let minor: u32 = String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .expect("a version");
        let scratch = tempfile::tempdir().expect("a directory");
        let source = scratch.path().join("burn.py");
        std::fs::write(&source, PYTHON).expect("the source");
        let source = source.to_string_lossy().into_owned();
        let report = record(scratch.path(), &[interpreter, &source]);
        // code has a qualified name since Python 3.11
        let name = if minor >= 11 { "Work.burn" } else { "burn" };
        assert_first(&report, name);
        let first = &functions(&report)["functions"][0];
        let is_own = first["source"]
            .as_str()
            .is_some_and(|it| it.ends_with("burn.py"));
        assert!(is_own && first["line"] == 8, "{interpreter}: {first}");
        tried += 1;
    }
    assert!(tried > 0);
}
