//! Call stacks of waits, against chains of calls that are known: with frame pointers and without, to
//! the first function of the thread, with the lines of the calls.

use std::collections::HashSet;
use std::process::Command;

use serde_json::Value;
use table::WaitObject;
use table::tables::{StackFrame, Wait};
use tempfile::TempDir;

use testbed::report::{Report, number, text};
use testbed::{compile_c, finish, program, record_command, root};

/// Waits in known functions: see its head.
const STACKS: &str = include_str!("programs/stacks.cc");
const ROUNDS: usize = 101;

/// Waits at one place with any values in registers of frames.
const BUSY_REGISTER: &str = include_str!("programs/busy_register.c");

/// Waits on a stack that no page follows.
const COROUTINE: &str = include_str!("programs/coroutine.c");

/// The waits by stack of the program, compiled with these options.
fn by_stack(options: &[&str], depth: usize) -> Vec<Value> {
    let scratch = tempfile::tempdir().expect("a directory");
    compile(&scratch, options);
    recorded(scratch, depth)
}

/// Records the program `stacks` there, and its waits by stack.
fn recorded(scratch: TempDir, depth: usize) -> Vec<Value> {
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", "waits", "--output"]);
    run.arg(scratch.path().join("r.whylat"));
    run.current_dir(scratch.path()).args([
        "--",
        "./stacks",
        &ROUNDS.to_string(),
        &depth.to_string(),
    ]);
    finish(&mut run).assert_status(0);
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    read_groups(&report)
}

fn compile(scratch: &TempDir, options: &[&str]) {
    let source = scratch.path().join("stacks.cc");
    std::fs::write(&source, STACKS).expect("the source");
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-pthread", "-fno-optimize-sibling-calls"]);
    compiler.args(options).arg("-o");
    compiler.arg(scratch.path().join("stacks")).arg(source);
    finish(&mut compiler).assert_status(0);
}

/// Functions of a group's stack, innermost first.
fn functions(group: &Value) -> Vec<&str> {
    let frames = group["stack"]["frames"].as_array();
    let frames = frames.into_iter().flatten();
    frames
        .filter_map(|frame| frame["function"].as_str())
        .collect()
}

/// The group with these functions on its stack, one called by the next.
fn find<'a>(groups: &'a [Value], chain: &[&str]) -> &'a Value {
    let is_it = |group: &&Value| {
        functions(group)
            .windows(chain.len())
            .any(|part| part == chain)
    };
    let found = groups.iter().find(is_it);
    found.unwrap_or_else(|| panic!("no stack {chain:?} in {groups:#?}"))
}

/// The line of the source that is marked.
fn marked(mark: &str) -> u64 {
    let mark = format!("// LINE {mark}");
    let line = STACKS.lines().position(|line| line.ends_with(&mark));
    line.expect("a mark") as u64 + 1
}

/// Returns the waits of a recording by stack.
fn read_groups(report: &Report) -> Vec<Value> {
    let mut view = Command::new(program());
    view.args(["report", "--by", "stack", "--format", "json"]);
    let output = finish(view.arg(report.path()));
    output.assert_status(0);
    let report: Value = serde_json::from_str(&output.out).expect("JSON");
    report["groups"].as_array().expect("groups").clone()
}

/// Returns whether a number of waits is known: what ends while the agent of a sandbox is the current task passes no
/// hook.
fn is_known(count: u64) -> bool {
    let rounds = ROUNDS as u64;
    (rounds - rounds / 10..=rounds).contains(&count)
}

fn check(options: &[&str], depth: usize) {
    if !root() {
        return;
    }
    let groups = by_stack(options, depth);
    let mut chain = vec!["inner_reads", "middle_reads", "outer_reads"];
    chain.extend(vec!["deep"; depth + 1]);
    chain.push("main");
    let reads = find(&groups, &chain);
    assert_eq!(text(&reads["stack"], "caller"), "none", "{reads:#?}");
    let on_pipe = |group: &&Value| group.pointer("/objects/0/kind") == Some(&"pipe".into());
    assert_eq!(groups.iter().filter(on_pipe).count(), 1, "{groups:#?}");
    let count = number(reads, "/count");
    assert!(is_known(count), "{count} of {ROUNDS} waits: {groups:#?}");
    let frames = reads["stack"]["frames"].as_array().expect("frames");
    for function in ["inner_reads", "middle_reads", "outer_reads"] {
        let frame = frames.iter().find(|frame| frame["function"] == function);
        let frame = frame.expect("it is there");
        assert!(text(frame, "source").ends_with("stacks.cc"), "{frame}");
        assert_eq!(frame["line"], marked(function), "{frame}");
    }
    let kernel = text(&reads["kernel_stacks"][0], "name");
    assert!(kernel.contains("pipe_read"), "{kernel}");
    let locks = number(find(&groups, &["inner_locks", "outer_locks"]), "/count");
    assert!(is_known(locks), "{locks} of {ROUNDS} waits for the lock");
    for naps in ["one_naps", "other_naps"] {
        let count = number(find(&groups, &[naps, "main"]), "/count");
        assert!(is_known(count), "{naps}: {count} of {ROUNDS}");
    }
}

#[test]
fn stacks_are_complete_with_frame_pointers() {
    check(&["-O1", "-g", "-fno-omit-frame-pointer"], 0);
}

#[test]
fn stacks_are_complete_without_frame_pointers() {
    check(&["-O2", "-g", "-fomit-frame-pointer"], 0);
}

#[test]
fn deep_stacks_are_complete() {
    check(&["-O1", "-g", "-fomit-frame-pointer"], 40);
}

/// Rust's linker lays segments out one after the other, so that they begin anywhere in a page.
#[test]
fn stacks_of_rust_program_are_complete() {
    const NAPS: &str = "
        #[inline(never)]
        fn nap(us: u64) -> u64 {
            std::thread::sleep(std::time::Duration::from_micros(us));
            us + 1
        }
        fn main() {
            let mut sum = 0;
            for us in 2000..2101 {
                sum += nap(us);
            }
            assert!(sum > 0);
        }";
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("stacks.rs");
    std::fs::write(&source, NAPS).expect("the source");
    let mut compiler = Command::new("rustc");
    compiler.args(["-O", "-g", "-o"]);
    compiler.arg(scratch.path().join("stacks")).arg(source);
    finish(&mut compiler).assert_status(0);
    let groups = recorded(scratch, 0);
    let naps = groups
        .iter()
        .find(|group| functions(group).contains(&"stacks::nap"));
    let naps = naps.unwrap_or_else(|| panic!("no naps in {groups:#?}"));
    assert!(functions(naps).contains(&"main"), "{naps:#?}");
    assert_eq!(text(&naps["stack"], "caller"), "none", "{naps:#?}");
}

/// A program without frame pointers uses their register for anything.
#[test]
fn one_place_is_one_stack_whatever_the_register_of_frame_pointers_holds() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let options = ["-fomit-frame-pointer"];
    let binary = compile_c(scratch.path(), "busy_register", BUSY_REGISTER, &options);
    let (report, _) = record_command(scratch, &["--detail", "waits"], &[&binary]);
    report.assert_whole();
    let mut rows: Vec<Wait> = report.rows();
    rows.retain(|it| it.kind == WaitObject::Sleep);
    assert!(rows.len() > 1, "{rows:?}");
    let stacks: HashSet<_> = rows.iter().map(|it| it.stack).collect();
    assert_eq!(stacks.len(), 1, "{stacks:?}");
    assert_ne!(stacks, HashSet::from([None]));
}

/// A stack is read up to the end of its last page, and two places with one stack pointer stay apart.
#[test]
fn stack_on_last_page_is_complete() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let options = [
        "-O1",
        "-g",
        "-fomit-frame-pointer",
        "-fno-optimize-sibling-calls",
    ];
    let binary = compile_c(scratch.path(), "coroutine", COROUTINE, &options);
    let (report, _) = record_command(scratch, &["--detail", "waits"], &[&binary]);
    report.assert_whole();
    let groups = read_groups(&report);
    for naps in ["one_naps", "other_naps"] {
        let group = find(&groups, &["nap", naps, "run"]);
        let count = number(group, "/count");
        assert!(is_known(count), "{naps}: {count} of {ROUNDS}");
    }
}

/// The recorder is stopped before the programs begin, and goes on after they have ended: another program, and a child that
/// runs the code of its parent.
#[test]
fn stacks_of_ended_programs_have_names() {
    if !root() {
        return;
    }
    const SCRIPT: &str = "mkfifo pipe; kill -STOP $PPID; (read -r line < pipe) & ./stacks 101 0; echo line > pipe; wait; \
                          kill -CONT $PPID";
    let scratch = tempfile::tempdir().expect("a directory");
    compile(&scratch, &["-O2", "-g", "-fomit-frame-pointer"]);
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", "waits", "--output"]);
    run.arg(scratch.path().join("r.whylat"));
    run.current_dir(scratch.path()).args(["--", "dash", "-c"]);
    let output = finish(run.arg(SCRIPT));
    output.assert_status(0);
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    let groups = read_groups(&report);
    let reads = find(
        &groups,
        &["inner_reads", "middle_reads", "outer_reads", "deep", "main"],
    );
    assert_eq!(text(&reads["stack"], "caller"), "none", "{reads:#?}");
    let count = number(reads, "/count");
    assert!(is_known(count), "{count} of {ROUNDS} waits: {groups:#?}");
    let frames: Vec<StackFrame> = report.rows();
    let of_shell = |frame: &&StackFrame| {
        let object = frame.object.as_deref();
        object.is_some_and(|object| object.ends_with("/dash"))
    };
    let shells: HashSet<_> = frames.iter().filter(of_shell).map(|it| it.pid).collect();
    assert!(shells.len() > 1, "{frames:#?}");
}

/// Functions of a stripped program have no names; the report says where they are.
#[test]
fn stripped_program_shows_addresses() {
    if !root() {
        return;
    }
    let groups = by_stack(&["-O2", "-s"], 0);
    let on_pipe = |group: &&Value| group.pointer("/objects/0/kind") == Some(&"pipe".into());
    let reads = groups.iter().find(on_pipe);
    let reads = reads.unwrap_or_else(|| panic!("no reads in {groups:#?}"));
    let frames = reads["stack"]["frames"].as_array().expect("frames");
    let own: Vec<&Value> = frames
        .iter()
        .filter(|frame| text(frame, "object").ends_with("/stacks"))
        .collect();
    assert!(
        own.len() >= 4 && own.iter().all(|frame| frame["offset"].is_u64()),
        "{reads:#?}"
    );
}
