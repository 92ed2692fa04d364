//! Bad input and bad circumstances end with an exit code for their kind, and a message that says
//! what failed, on what, why, and what to do next.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use lab::Netns;
use nix::sys::signal::Signal;
use nix::unistd::{Uid, User};
use serde_json::Value;
use table::tables::Process;
use tempfile::TempDir;

use crate::damage::recording;
use testbed::report::{Report, json_report, number};
use testbed::{
    ChildGuard, CommandOutput, Recorder, Site, finish, program, role, root, signal_process, wait,
    whylat,
};

const NOBODY: u32 = 65_534;
/// Above every kernel's limit of process ids (`PID_MAX_LIMIT`, 4,194,304).
const NO_PID: u32 = 4_194_305;

/// A directory that everybody may write to.
fn open_directory() -> TempDir {
    let scratch = tempfile::tempdir().expect("a directory");
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
    scratch
}

/// `whylat`, run by nobody. The program is opened first: nobody may not see the build tree.
fn as_nobody(scratch: &TempDir, arguments: &str) -> CommandOutput {
    let copy = scratch.path().join("whylat");
    if !copy.exists() {
        fs::copy(program(), &copy).expect("copy the program");
    }
    let mut command = Command::new("setpriv");
    let user = NOBODY.to_string();
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    command.arg(copy).args(arguments.split_whitespace());
    finish(command.current_dir(scratch.path()))
}

#[test]
fn fault_needs_root() {
    if root() {
        let output = as_nobody(&open_directory(), "lab fault write_write_read");
        output.assert_status(1).explains("a network namespace");
    }
}

#[test]
fn demo_needs_calls() {
    if root() {
        let output = as_nobody(&open_directory(), "demo");
        output
            .assert_status(1)
            .explains("holds no calls: cannot load BPF programs");
    }
}

/// `whylat` in a directory of its own.
fn in_scratch(arguments: &[&str]) -> (CommandOutput, TempDir) {
    let scratch = open_directory();
    let mut command = Command::new(program());
    command.args(arguments).current_dir(scratch.path());
    (finish(&mut command), scratch)
}

/// The script in a mount namespace of its own, with the program as `$0` and a directory as `$1`.
fn with_own_mounts(script: &str, scratch: &TempDir) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    command.arg(program()).arg(scratch.path());
    command
}

#[test]
fn missing_process_is_an_error() {
    let pid = NO_PID.to_string();
    let (output, scratch) = in_scratch(&["record", "-p", &pid, "-d", "1", "-o", "r"]);
    output.assert_status(1).explains(&pid);
    assert!(
        !scratch.path().join("r").exists(),
        "an empty recording was left"
    );
}

#[test]
fn exited_process_is_an_error() {
    let mut child = Command::new("true").spawn().expect("true");
    let pid = child.id().to_string();
    wait(&mut child, "true");
    let (output, _scratch) = in_scratch(&["record", "-p", &pid, "-d", "1", "-o", "r"]);
    output.assert_status(1).explains(&pid);
}

#[test]
fn process_exit_ends_recording() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let held = role(&netns, "hold-open 3");
    let recorder = Recorder::start(&format!("-p {}", held.pid()));
    drop(held);
    assert_eq!(recorder.stop().json["closed"], "in_order");
}

/// As in a container: `/proc` has others under the ids that the kernel knows processes by, and none of them is taken
/// for the one that was recorded.
#[test]
fn pid_namespace_names_no_process() {
    if !root() {
        return;
    }
    let site = Site::loopback("cubic");
    let (_server, port) = site.serve("reply-server");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", program()]);
    let recorder = Recorder::start_as(command, &format!("--port {port} --detail waits"));
    let client = site.connect("request-reply --rounds 101", port);
    let pid = client.pid();
    client.finish().expect("the client's truth");
    // who made the namespace waits for its first process, and hears no Ctrl-C
    let children = format!("/proc/{0}/task/{0}/children", recorder.pid());
    let children = fs::read_to_string(children).expect("children");
    let first = children.split_whitespace().next().expect("the recorder");
    signal_process(first.parse().expect("a pid"), Signal::SIGINT);
    let report = Report::from_scratch(recorder.stop_by(Signal::SIGINT));
    let rows = report.rows::<Process>();
    let found = rows.iter().find(|it| it.pid == pid);
    let found = found.unwrap_or_else(|| panic!("no process {pid}: {rows:?}"));
    assert_eq!((found.comm.as_str(), &found.exe), ("whylat", &None));
    assert!(rows.iter().all(|it| it.exe.is_none()), "{rows:?}");
    let output = finish(whylat("report").arg(report.path()));
    let words: Vec<&str> = output.out.split_whitespace().collect();
    let words = words.join(" ");
    assert!(
        words.contains("pids off: process ids here are of a pid namespace of its own"),
        "{words}"
    );
    assert!(words.contains("--pid=host"), "{words}");
}

#[test]
fn command_that_cannot_start_is_an_error() {
    let (output, scratch) = in_scratch(&["run", "-o", "r", "--", "no-such-command-13"]);
    output.assert_status(127).explains("no-such-command-13");
    assert!(
        !scratch.path().join("r").exists(),
        "an empty recording was left"
    );

    let scratch = open_directory();
    fs::write(scratch.path().join("text"), "not a program").expect("write");
    let mut command = Command::new(program());
    command.args(["run", "-o", "r", "--", "./text"]);
    finish(command.current_dir(scratch.path()))
        .assert_status(126)
        .explains("./text");
    assert!(
        !scratch.path().join("r").exists(),
        "an empty recording was left"
    );
}

#[test]
fn run_returns_command_status() {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let (output, _scratch) = in_scratch(&["run", "-o", "r", "--", "sh", "-c", script]);
        output.assert_status(code);
    }
}

#[test]
fn wrong_usage_has_exit_code_and_hint() {
    let (output, _) = in_scratch(&["record", "-d", "1"]);
    output.assert_status(2);
    let (output, _) = in_scratch(&["record", "-a", "-p", "1"]);
    output.assert_status(2);
    let (output, _) = in_scratch(&["no-such-subcommand"]);
    output.assert_status(2);
}

#[test]
fn unprivileged_run_polls_own_sockets() {
    if !root() {
        return;
    }
    let scratch = open_directory();
    // The host's own loopback: nobody may not enter a namespace.
    let script = r#""$0" lab workload reply-server --ready-file port > server &
        while [ ! -s port ]; do :; done
        port=$(grep -o '"ready":[0-9]*' port | tr -dc 0-9)
        exec "$0" lab workload request-reply --rounds 40 --pause-us 20000 \
            --connect 127.0.0.1:$port > client"#;
    let arguments = "run -o r --json --poll-ms 100 -- sh -c";
    let copy = scratch.path().join("whylat");
    fs::copy(program(), &copy).expect("copy");
    let user = NOBODY.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    command
        .arg(&copy)
        .args(arguments.split_whitespace())
        .arg(script)
        .arg(&copy);
    let output = finish(command.current_dir(scratch.path()));
    output.assert_status(0);
    let json: Value = serde_json::from_str(&output.out).expect("JSON");
    let connections = json["connections"].as_array().expect("connections");
    assert_eq!(connections.len(), 2, "{json:#}");
    for probe in ["inventory", "tcp_events", "calls", "tcp_stages"] {
        assert_off(&json, probe, "sudo");
    }
}

/// A probe is off, and its remedy says what to do.
#[track_caller]
fn assert_off(json: &Value, probe: &str, remedy: &str) {
    let all = json["coverage"].as_array().expect("coverage");
    let found = all.iter().find(|entry| entry["probe"] == probe);
    let entry = found.unwrap_or_else(|| panic!("{probe} is not in {all:?}"));
    assert_eq!(entry["state"], "off", "{entry}");
    let says = entry["remedy"].as_str().unwrap_or_default();
    assert!(says.contains(remedy), "{entry}");
}

#[test]
fn unprivileged_foreign_process_is_refused() {
    if !root() {
        return;
    }
    let scratch = open_directory();
    let output = as_nobody(
        &scratch,
        &format!("record -d 0.2 -o r -p {}", std::process::id()),
    );
    output.assert_status(1).explains("sudo");
}

#[test]
fn kernel_without_btf_is_polled() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let netns = Netns::new().expect("a namespace");
    let mut pair = role(&netns, "count-calls --pairs 1 --sends 11 --start-on-stdin");
    pair.port().expect("connected");
    let script = format!(
        "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" record -p {} -d 1 --poll-ms 50 -o \"$1/r\"",
        pair.pid()
    );
    finish(&mut with_own_mounts(&script, &scratch)).assert_status(0);
    pair.go().expect("go");
    let truth = pair.finish().expect("truth");
    let json = json_report(&scratch.path().join("r"));
    for probe in ["inventory", "tcp_events", "calls", "tcp_stages"] {
        assert_off(&json, probe, "CONFIG_DEBUG_INFO_BTF");
    }
    let found: Vec<u64> = json["connections"]
        .as_array()
        .expect("connections")
        .iter()
        .map(|c| number(c, "/id"))
        .collect();
    for end in [0, 1] {
        let cookie = number(&truth, &format!("/connections/{end}/cookie"));
        assert!(
            found.contains(&cookie),
            "socket {cookie} is not in {found:?}"
        );
    }
}

#[test]
fn full_disk() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    fs::create_dir(scratch.path().join("m")).expect("mkdir");
    // The copy is made inside the namespace, where the small disk is.
    let script = "mount -t tmpfs -o size=1m none \"$1/m\" && \
        \"$0\" run --as-root -o \"$1/m/r\" -- \"$0\" lab workload count-calls --sends 100003; \
        echo $? > \"$1/code\"; cp -r \"$1/m/r\" \"$1/r\"";
    let output = finish(&mut with_own_mounts(script, &scratch));
    output.explains("No space left on device");
    let code = fs::read_to_string(scratch.path().join("code")).expect("a code");
    assert_eq!(code.trim(), "0", "run gives its command's status");
    let path = scratch.path().join("r");
    let report = finish(whylat("report --format json").arg(&path));
    report.assert_status(3);
    let json: Value = serde_json::from_str(&report.out).expect("JSON");
    assert!(
        json["problems"].as_array().expect("problems").is_empty(),
        "{json:#}"
    );
}

#[test]
fn read_only_directory_is_an_error() {
    if !root() {
        return;
    }
    let scratch = open_directory();
    let closed = scratch.path().join("closed");
    fs::create_dir(&closed).expect("mkdir");
    let output = as_nobody(&scratch, "record -a -d 0.2 -o closed/r");
    output.assert_status(1).explains("closed/r");
    assert!(output.err.contains("ermission denied"), "{}", output.err);
}

#[test]
fn existing_output_is_kept_without_force() {
    if !root() {
        return;
    }
    let scratch = recording();
    // It has no connection: no load of a test beside this one makes records be lost.
    let idle = ChildGuard::start(Command::new("sleep").arg("600"));
    let idle_pid = idle.0.id();
    let record = |more: &str| {
        let mut command = whylat(&format!("record -p {idle_pid} -d 0.1 {more} -o r.whylat"));
        finish(command.current_dir(scratch.path()))
    };
    record("").assert_status(1).explains("--force");
    record("--force").assert_status(0);
    fs::create_dir(scratch.path().join("mine")).expect("mkdir");
    fs::write(scratch.path().join("mine/thesis"), "two years").expect("write");
    let mut command = whylat(&format!("record -p {idle_pid} -d 0.1 --force -o mine"));
    finish(command.current_dir(scratch.path()))
        .assert_status(1)
        .explains("mine");
    assert!(scratch.path().join("mine/thesis").exists());
}

#[test]
fn two_recorders_record_at_once() {
    if !root() {
        return;
    }
    let site = Site::loopback("cubic");
    let (server, port) = site.serve("reply-server");
    let recorders = [(); 2].map(|()| Recorder::start(&format!("--port {port}")));
    let client = site.connect("request-reply --rounds 1009", port);
    let client = client.finish().expect("truth");
    server.finish().expect("truth");
    for recorder in recorders {
        let report = recorder.stop();
        report.assert_whole();
        let end = report.by_cookie(number(&client, "/connections/0/cookie"));
        assert_eq!(number(end, "/totals/send_calls"), 1009);
        assert_eq!(number(end, "/totals/bytes_sent"), 100_900);
    }
}

#[test]
fn sudo_runs_command_as_invoking_user() {
    if !root() {
        return;
    }
    let user = User::from_uid(Uid::from_raw(NOBODY))
        .expect("users")
        .expect("nobody");
    for (more, expected) in [(&[][..], NOBODY), (&["--as-root"], 0)] {
        let scratch = open_directory();
        let mut command = Command::new(program());
        command.args(["run", "-o", "r"]).args(more);
        command.args(["--", "sh", "-c", "id -u; id -g; id -G; echo $HOME"]);
        command.env("SUDO_UID", user.uid.to_string());
        command.env("SUDO_GID", user.gid.to_string());
        let output = finish(command.current_dir(scratch.path()));
        output.assert_status(0);
        let words: Vec<&str> = output.out.lines().take(3).collect();
        assert_eq!(words, [expected.to_string().as_str(); 3], "{more:?}");
        let home = output.out.lines().nth(3).map(Path::new);
        assert_eq!(
            home == Some(user.dir.as_path()),
            expected == NOBODY,
            "{home:?}"
        );
    }
}
