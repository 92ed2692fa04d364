//! Privileges of whylat once it has set up: a recorder has the capabilities that docs/privileges.md names, its command
//! those that it would have anyway; what reads recordings is confined; and nobody else reads them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use table::tables::{Process, Symbol};
use tempfile::TempDir;

use crate::doctor::walks_netns;
use crate::terminal::Terminal;
use crate::top::top_in;
use testbed::instrumented::open_directory;
use testbed::report::Report;
use testbed::{ChildGuard, Recorder, Site, finish, program, root, until, whylat};

const NOBODY: u32 = 65534;

/// The bits of capabilities that the documents name (`uapi/linux/capability.h`).
const BITS: [(&str, u32); 8] = [
    ("CAP_DAC_READ_SEARCH", 2),
    ("CAP_KILL", 5),
    ("CAP_SYS_PTRACE", 19),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_SYS_NICE", 23),
    ("CAP_SYSLOG", 34),
    ("CAP_BPF", 39),
    ("CAP_CHECKPOINT_RESTORE", 40),
];

/// A set as `/proc/PID/status` writes it.
fn bits(names: &BTreeSet<String>) -> String {
    let bit = |name: &String| BITS.iter().find(|(known, _)| known == name);
    let bits = names
        .iter()
        .map(|name| 1u64 << bit(name).expect("a known one").1);
    format!("{:016x}", bits.sum::<u64>())
}

/// Returns the capabilities that the document names for a kind of recording, or of the agent.
pub fn documented(recording: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/privileges.md");
    let text = fs::read_to_string(path).expect("docs/privileges.md");
    let row = |line: &&str| line.starts_with(&format!("| {recording} |"));
    let row = text.lines().find(row).expect("a row of the document");
    let names = row.split('`').filter(|word| word.starts_with("CAP_"));
    names.map(str::to_owned).collect()
}

/// A line of a status file.
fn line(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {status}"))
        .trim()
        .to_owned()
}

/// (name, status) of a process's threads.
fn threads(pid: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .expect("threads")
        .flatten();
    threads
        .filter_map(|it| fs::read_to_string(it.path().join("status")).ok())
        .collect()
}

/// The thread that enters network namespaces where the kernel refuses iterators over maps.
const WALKER: &str = "netns-walks";

/// The threads of a process but the one that enters network namespaces.
fn other_threads(pid: u32) -> Vec<String> {
    let mut threads = threads(pid);
    threads.retain(|status| line(status, "Name:") != WALKER);
    threads
}

/// The thread that enters network namespaces is there where the kernel demands it. It has what the document names for
/// it, and root's ids.
fn assert_walker(pid: u32) {
    let kept = bits(&documented(&format!(
        "thread `{WALKER}`, where there is one"
    )));
    let is_walker = |status: &String| line(status, "Name:") == WALKER;
    let walkers: Vec<String> = threads(pid).into_iter().filter(is_walker).collect();
    static IS_NEEDED: OnceLock<bool> = OnceLock::new();
    let is_needed = IS_NEEDED.get_or_init(|| walks_netns(&mut Command::new("env")));
    assert_eq!(walkers.len(), usize::from(*is_needed));
    for status in walkers {
        for ids in ["Uid:", "Gid:"] {
            assert_eq!(line(&status, ids), "0\t0\t0\t0");
        }
        assert_eq!(line(&status, "CapEff:"), kept);
        assert_eq!(line(&status, "CapPrm:"), kept);
        for none in ["CapBnd:", "CapInh:", "CapAmb:"] {
            assert_eq!(line(&status, none), "0".repeat(16), "{none}");
        }
        assert_eq!(line(&status, "NoNewPrivs:"), "1");
    }
}

/// Every thread of a recorder has these capabilities or fewer, one has just these, and none can get more: a moment
/// after it is ready.
pub fn assert_kept(recorder: u32, kept: &BTreeSet<String>, uid: u32) {
    let threads = until("no more capabilities than are needed", || {
        let threads = other_threads(recorder);
        (line(&threads[0], "CapPrm:") == bits(kept)).then_some(threads)
    });
    assert!(threads.len() >= 2, "{threads:?}");
    assert_walker(recorder);
    let storing: Vec<String> = threads
        .iter()
        .map(|status| line(status, "CapPrm:"))
        .collect();
    let all = u64::from_str_radix(&bits(kept), 16).expect("a number");
    for permitted in storing {
        let permitted = u64::from_str_radix(&permitted, 16).expect("a number");
        assert_eq!(permitted & !all, 0, "{permitted:x}, not within {all:x}");
    }
    for status in &threads {
        assert_eq!(line(status, "CapEff:"), line(status, "CapPrm:"));
        for none in ["CapBnd:", "CapInh:", "CapAmb:"] {
            assert_eq!(line(status, none), "0".repeat(16), "{none}");
        }
        assert_eq!(line(status, "NoNewPrivs:"), "1");
        let ids = format!("{uid}\t{uid}\t{uid}\t{uid}");
        assert_eq!(
            (line(status, "Uid:"), line(status, "Gid:")),
            (ids.clone(), ids)
        );
    }
    let children = fs::read_to_string(format!("/proc/{recorder}/task/{recorder}/children"));
    for child in children.expect("children").split_whitespace() {
        let status = fs::read_to_string(format!("/proc/{child}/status")).expect("its helper");
        assert_eq!(line(&status, "Name:"), "whylat-stats");
        assert_eq!(
            line(&status, "CapEff:"),
            bits(&BTreeSet::from(["CAP_SYS_ADMIN".to_owned()]))
        );
    }
}

#[test]
fn recorder_keeps_required_capabilities() {
    if !root() {
        return;
    }
    for detail in ["stats", "calls", "waits", "messages"] {
        let recorder = Recorder::start(&format!("--port 9 --detail {detail}"));
        assert_kept(
            recorder.pid(),
            &documented(&format!("`--detail {detail}`")),
            0,
        );
        recorder.stop();
    }
}

/// The threads of `whylat top` share what it keeps: who has the screen has nothing.
#[test]
fn top_keeps_required_capabilities() {
    if !root() {
        return;
    }
    let kept = documented("`whylat top`");
    for sudo in [None, Some(NOBODY)] {
        let sudo_uid = sudo.map_or(String::new(), |uid: u32| format!("env SUDO_UID={uid} "));
        let terminal = Terminal::run(&format!("{sudo_uid}{} top --port 9; read wait", program()));
        let pid = top_in(&terminal);
        let all = until("no more capabilities than are needed", || {
            let all = other_threads(pid);
            let held = all
                .iter()
                .map(|status| u64::from_str_radix(&line(status, "CapPrm:"), 16).expect("a number"));
            let union = held.fold(0, |all, held| all | held);
            (all.len() >= 4 && format!("{union:016x}") == bits(&kept)).then_some(all)
        });
        assert_walker(pid);
        assert_eq!(line(&all[0], "CapPrm:"), "0".repeat(16));
        for status in &all {
            assert_eq!(line(status, "CapEff:"), line(status, "CapPrm:"));
            assert_eq!(line(status, "CapBnd:"), "0".repeat(16));
            assert_eq!(line(status, "NoNewPrivs:"), "1");
            let uid = sudo.unwrap_or(0);
            assert_eq!(line(status, "Uid:"), format!("{uid}\t{uid}\t{uid}\t{uid}"));
        }
    }
}

/// As the command sees it, which ends once its parent has just these.
#[test]
fn run_forwards_signals() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let kept = &documented("`--detail stats`") | &documented("`whylat run`, also");
    let wait = format!(
        "until grep -q 'CapEff:.{}' /proc/$PPID/status; do :; done",
        bits(&kept)
    );
    let mut run = whylat("run --detail stats -o r.whylat -- sh -c");
    finish(run.arg(wait).current_dir(scratch.path())).assert_status(0);
}

#[test]
fn sudo_recorder_becomes_user() {
    if !root() {
        return;
    }
    let mut command = Command::new(program());
    command.env("SUDO_UID", NOBODY.to_string());
    let recorder = Recorder::start_as(command, "--port 9 --detail stats");
    let kept = &documented("`--detail stats`") | &documented("under sudo, also");
    assert_kept(recorder.pid(), &kept, NOBODY);
    recorder.stop();
}

/// Everything in a directory, itself included.
fn tree(path: &Path) -> Vec<fs::Metadata> {
    let own = fs::symlink_metadata(path).expect("metadata");
    let entries = own
        .is_dir()
        .then(|| fs::read_dir(path).expect("a directory"));
    let below = entries.into_iter().flatten().flatten();
    let mut all: Vec<fs::Metadata> = below.flat_map(|entry| tree(&entry.path())).collect();
    all.push(own);
    all
}

fn assert_private(path: &Path, uid: u32) {
    for found in tree(path) {
        let mode = if found.is_dir() { 0o700 } else { 0o600 };
        let is = (found.permissions().mode() & 0o7777, found.uid());
        assert_eq!(is, (mode, uid), "{}", path.display());
    }
}

/// A command that says what it may do, under `whylat run` with these options and without whylat.
#[test]
fn command_keeps_its_capabilities() {
    if !root() {
        return;
    }
    let scratch = open_directory();
    let sets = |status: &str| {
        let names = [
            "Uid:",
            "Gid:",
            "CapInh:",
            "CapPrm:",
            "CapEff:",
            "CapBnd:",
            "NoNewPrivs:",
        ];
        names.map(|name| line(status, name))
    };
    let status = ["cat", "/proc/self/status"];
    let direct = finish(Command::new("cat").arg(status[1]));
    let user = ["--reuid", "65534", "--regid", "65534", "--init-groups"];
    let as_user = finish(Command::new("setpriv").args(user).args(status));
    for (name, options, sudo, expected, owner) in [
        ("root", "", None, &direct, 0),
        ("user", "", Some(NOBODY), &as_user, NOBODY),
        ("asked", "--as-root", Some(NOBODY), &direct, NOBODY),
    ] {
        let recording = scratch.path().join(format!("{name}.whylat"));
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 0; exec \"$@\"", "sh", program(), "run"]);
        shell.args(["--detail", "stats", "-o"]).arg(&recording);
        shell
            .args(options.split_whitespace())
            .arg("--")
            .args(status);
        shell.envs(sudo.map(|uid| ("SUDO_UID", uid.to_string())));
        let output = finish(&mut shell);
        output.assert_status(0);
        assert_eq!(sets(&output.out), sets(&expected.out), "{name}");
        assert_private(&recording, owner);
    }
    // another user does not get at the arguments of the command line
    let manifest = scratch.path().join("root.whylat/manifest.jsonl");
    let peek = finish(Command::new("setpriv").args(user).arg("cat").arg(&manifest));
    assert!(peek.code != Some(0) && peek.out.is_empty(), "{peek:?}");
    let page = scratch.path().join("page.html");
    let report = format!("report --format html -o {}", page.display());
    finish(whylat(&report).arg(scratch.path().join("root.whylat"))).assert_status(0);
    assert_private(&page, 0);
}

/// The kernel's functions, those of a program that only its user may read, and what that program is: without any of the
/// capabilities, one of them is missing.
#[test]
fn reduced_capabilities_lose_no_rows() {
    if !root() {
        return;
    }
    let site = Site::loopback("cubic");
    let (server, port) = site.serve("reply-server");
    let own = own_program();
    let scratch = tempfile::tempdir().expect("a directory");
    let recording = scratch.path().join("r.whylat");
    let mut run = site.client.command(program());
    run.env("SUDO_UID", NOBODY.to_string());
    run.args(["run", "--detail", "messages", "-o"])
        .arg(&recording)
        .arg("--");
    run.arg(own.path().join("client"))
        .args(["lab", "workload", "write-write-read"]);
    run.args(["--connect", &format!("127.0.0.1:{port}"), "--rounds", "31"]);
    finish(&mut run).assert_status(0);
    server.finish().expect("the server's truth");
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    let name = own.path().join("client").display().to_string();
    let client = report
        .rows::<Process>()
        .into_iter()
        .find(|it| it.exe.as_deref() == Some(&name));
    assert_eq!(client.expect("the program is known").uid, Some(NOBODY));
    let symbols = report.rows::<Symbol>();
    let has = |part: &str| {
        symbols
            .iter()
            .any(|it| it.function.as_deref().is_some_and(|f| f.contains(part)))
    };
    assert!(has("tcp_recvmsg"), "the kernel's functions are not known");
    assert!(has("workload"), "the program's functions are not known");
    let cost = report.recording().cost().cloned().expect("a cost");
    assert!(cost.bpf_sampled_ns > 0, "{cost:?}");
}

/// A copy of whylat that only nobody may read and run.
fn own_program() -> TempDir {
    let own = tempfile::tempdir().expect("a directory");
    let copy = own.path().join("client");
    fs::copy(program(), &copy).expect("a copy");
    for path in [copy.as_path(), own.path()] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("another owner");
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("a mode");
    }
    own
}

/// Each waits for a file that nobody writes; by then it must be confined.
#[test]
fn readers_are_confined() {
    let scratch = tempfile::tempdir().expect("a directory");
    let recording = scratch.path().join("r.whylat");
    fs::create_dir(&recording).expect("a directory");
    mkfifo(&recording.join("manifest.jsonl"), Mode::S_IRUSR).expect("a pipe");
    let trace = scratch.path().join("trace");
    mkfifo(&trace, Mode::S_IRUSR).expect("a pipe");
    for (words, file) in [
        ("report", &recording),
        ("view --no-open", &recording),
        ("validate", &recording),
        ("diff --format html -o d.html r.whylat", &recording),
        ("import ftrace", &trace),
        ("import pcap", &trace),
        ("bugreport -o report", &recording),
    ] {
        let mut command = whylat(words);
        let command = command.arg(file).current_dir(scratch.path());
        let reader = ChildGuard::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        until(&format!("{words} confined"), || {
            let status = fs::read_to_string(format!("/proc/{}/status", reader.0.id())).ok()?;
            (line(&status, "Seccomp:") == "2" && line(&status, "NoNewPrivs:") == "1").then_some(())
        });
    }
}
