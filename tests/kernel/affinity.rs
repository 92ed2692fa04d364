//! `--recorder-cpus`: the recorder's threads run on the CPUs that the user names, and the recorded program where it would
//! run without whylat.

use tempfile::TempDir;

use testbed::{finish, record_command, root, whylat};

/// Prints its own CPUs when all threads of the recorder, its parent, have the one CPU that it was given.
const PROGRAM: &str = r#"
import glob, json, os, sys

def allowed(path):
    try:
        lines = open(path).read().splitlines()
    except OSError:
        return None  # the thread has ended
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list"))

while True:
    tasks = glob.glob(f"/proc/{os.getppid()}/task/*/status")
    if {allowed(task) for task in tasks} - {None} == {sys.argv[1]}:
        break
print(json.dumps(allowed("/proc/self/status")))
"#;

fn own_cpus() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("its status");
    let line = status
        .lines()
        .find(|line| line.starts_with("Cpus_allowed_list"));
    let list = line.and_then(|line| line.split_whitespace().nth(1));
    list.expect("a list").to_owned()
}

#[test]
fn recorder_runs_on_chosen_cpus_and_program_on_its_own() {
    if !root() {
        return;
    }
    let own = own_cpus();
    let first: String = own.chars().take_while(char::is_ascii_digit).collect();
    let scratch = TempDir::new().expect("a directory");
    let options = ["--detail", "stats", "--recorder-cpus", &first];
    let command = ["python3", "-c", PROGRAM, &first];
    let (_, printed) = record_command(scratch, &options, &command);
    assert_eq!(printed, [serde_json::Value::from(own)]);
}

#[test]
fn cpus_that_are_not_there_are_an_error() {
    let scratch = TempDir::new().expect("a directory");
    let mut run = whylat("run --recorder-cpus 1000 --output");
    run.arg(scratch.path().join("r.whylat"))
        .args(["--", "true"]);
    finish(&mut run).assert_status(1).explains("1000");
    finish(&mut whylat("run --recorder-cpus x -- true")).assert_status(2);
}
