//! The command line is pleasant: help, manual pages, profiles. No privileges needed.

use std::fs;
use std::path::Path;
use std::process::Command;

use testbed::{finish, program, root, whylat};

#[test]
fn manual_pages_render() {
    let scratch = tempfile::tempdir().expect("a directory");
    finish(whylat("manual -o").arg(scratch.path()))
        .assert_status(1)
        .explains("it exists already");
    finish(whylat("manual --force -o").arg(scratch.path())).assert_status(0);
    let mut pages: Vec<_> = fs::read_dir(scratch.path())
        .expect("pages")
        .flatten()
        .map(|it| it.path())
        .collect();
    pages.sort();
    for name in [
        "whylat",
        "whylat-run",
        "whylat-report",
        "whylat-lab-fault",
        "whylat-import-perf",
    ] {
        let page = scratch.path().join(name).with_extension("1");
        assert!(pages.contains(&page), "{name} is not in {pages:?}");
    }
    for page in &pages {
        let mut man = Command::new("man");
        man.args(["--warnings", "-l"]).arg(page);
        man.env("MANPAGER", "cat")
            .env("MANWIDTH", "80")
            .env("LC_ALL", "C.UTF-8");
        let output = finish(&mut man);
        output.assert_status(0);
        assert_eq!(output.err, "", "{}", page.display());
        assert!(
            output.out.contains("EXAMPLES") || is_role(page),
            "{}",
            output.out
        );
        for words in ["EXIT STATUS", "3  done, but the data is partial"] {
            assert!(output.out.contains(words), "{}", output.out);
        }
    }
}

/// Commands that answer, of a recording `r`, and whether as text.
const ANSWERS: &[(&str, bool)] = &[
    ("report r", true),
    ("report r --format json", true),
    ("report r --format html", true),
    ("report r --format csv --table clock_pairs", true),
    ("report r --format perfetto", false),
    ("report r --by thread", true),
    ("report r --by object --format json", true),
    ("diff r r --format html", true),
    ("view r --no-open", true),
    ("validate r", true),
    ("validate r --json", true),
    ("config --config config.toml --json", true),
    ("completions bash", true),
];

/// The same answer is printed, printed by `-o -`, and written by `-o FILE`; an existing file is not written over.
#[test]
fn output_option_writes_file() {
    // waits want it
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = scratch.path();
    fs::write(dir.join("config.toml"), "[profile.a]\n").expect("write");
    let ask = |words: &str| {
        let output = whylat(words).current_dir(dir).output().expect("whylat");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), output.stdout, stderr)
    };
    // which waits for its child
    ask("run -o r -- timeout 60 true");
    assert!(dir.join("r/manifest.jsonl").exists());
    let answer = dir.join("answer");
    for (words, is_text) in ANSWERS {
        let (code, printed, stderr) = ask(&format!("{words} -o -"));
        assert!(matches!(code, Some(0 | 3)), "{words}: {stderr}");
        assert!(!printed.is_empty(), "{words}");
        // a page is written beside its recording unless it is sent elsewhere
        let is_page = words.starts_with("view");
        if *is_text && !is_page {
            assert!(ask(words).1 == printed, "{words}");
        }
        let (_, none, stderr) = ask(&format!("{words} -o answer"));
        assert!(
            fs::read(&answer).expect("a file") == printed,
            "{words}: {stderr}"
        );
        assert!(none.is_empty() || is_page, "{words}");
        fs::write(&answer, "mine").expect("write");
        let (code, _, stderr) = ask(&format!("{words} -o answer"));
        assert_eq!(code, Some(1), "{words}");
        assert!(
            stderr.contains("it exists already\nhint: "),
            "{words}: {stderr}"
        );
        assert_eq!(fs::read(&answer).expect("a file"), b"mine", "{words}");
        ask(&format!("{words} -o answer --force"));
        assert!(fs::read(&answer).expect("a file") == printed, "{words}");
        fs::remove_file(&answer).expect("removed");
    }
    let (code, _, stderr) = ask("run -o - -- true");
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("cannot write a directory to standard output\nhint: "),
        "{stderr}"
    );
    assert!(!dir.join("-").exists());
}

#[test]
fn closed_pipe_is_no_error() {
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = scratch.path();
    let run = whylat("run --detail stats -o r -- true")
        .current_dir(dir)
        .output();
    run.expect("whylat");
    for words in [
        "report r --format html -o -",
        "report r --format perfetto -o -",
        "completions zsh",
    ] {
        let script = format!("\"$0\" {words} | head -c 1 > /dev/null; exit ${{PIPESTATUS[0]}}");
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).arg(program()).current_dir(dir);
        let output = finish(&mut shell);
        assert!(
            matches!(output.code, Some(0 | 3)),
            "{words}: {}",
            output.err
        );
        assert!(!output.err.contains("error"), "{words}: {}", output.err);
    }
}

#[test]
fn help_ends_with_exit_codes() {
    let output = finish(&mut whylat("--help"));
    output.assert_status(0);
    let codes = output.out.split("Exit codes:\n").nth(1).unwrap_or_default();
    for code in ["  0  done\n", "  2  wrong usage\n", "  3  done, but"] {
        assert!(codes.contains(code), "{}", output.out);
    }
}

/// Options that contradict each other, and values that none takes: each error says which, and ends with code 2.
#[test]
fn wrong_usage_ends_with_its_exit_code() {
    let scratch = tempfile::tempdir().expect("a directory");
    let ask = |words: &str| finish(whylat(words).current_dir(scratch.path()));
    ask("run --detail stats -o r -- true").assert_status(0);
    for (words, what) in [
        (
            "report r --by thread --from 2s --to 1s",
            "no time lies between",
        ),
        ("report r --table calls", "--table needs --format csv"),
        ("report r --format csv", "--format csv needs a table"),
        (
            "report r --categories mine.csv",
            "--categories needs --tail",
        ),
        (
            "report r --format html --drops",
            "--format html does not go",
        ),
        (
            "report r --format perfetto --by thread",
            "an export does not go",
        ),
        (
            "diff r r --format html --limit 3",
            "the page always shows all",
        ),
        ("run -o - -- true", "a directory to standard output"),
        ("run --detail stats --budget 5% -- true", "--budget limits"),
        (
            "run --detail stats --follow host -- true",
            "--follow needs calls",
        ),
        (
            "run --keep p99 -- true",
            "--keep and --trigger need messages",
        ),
        ("record --all --budget 5%", "--budget needs processes"),
    ] {
        ask(words).assert_status(2).explains(what);
    }
    // clap's own
    for command in ["record", "top"] {
        for (option, value) in [("--port", "0"), ("-p", "0"), ("--comm", ""), ("--none", "")] {
            let output = finish(whylat(command).args([option, value]));
            output.assert_status(2);
            assert!(output.err.contains(option), "{}", output.err);
        }
    }
}

/// Those of the lab, too, which prints its own.
#[test]
fn help_fits_a_terminal() {
    for words in [
        "run",
        "report",
        "lab",
        "lab fault",
        "lab list",
        "lab wire",
        "lab tail",
        "lab copy",
        "lab copy serve",
        "lab workload",
    ] {
        let output = finish(whylat(words).arg("--help"));
        output.assert_status(0);
        for line in output.out.lines().filter(|it| !it.starts_with("Usage: ")) {
            assert!(line.chars().count() <= 80, "{words}: {line}");
        }
        let other = finish(whylat("help").args(words.split(' ')));
        assert_eq!(other.assert_status(0).out, output.out);
    }
}

/// Pages of the lab's small programs, which are for its faults rather than for users.
fn is_role(page: &Path) -> bool {
    let name = page.to_string_lossy();
    name.contains("-lab-workload-") || name.contains("-lab-copy-")
}

#[test]
fn command_line_overrides_profile() {
    let scratch = tempfile::tempdir().expect("a directory");
    let config = scratch.path().join("whylat/config.toml");
    fs::create_dir(scratch.path().join("whylat")).expect("mkdir");
    let output = scratch.path().join("r");
    fs::create_dir(&output).expect("mkdir");
    let text = format!(
        "[profile.cheap]\ndetail = \"stats\"\noutput_dir = {output:?}\n[profile.deep]\ndetail = \"messages\"\n"
    );
    fs::write(&config, text).expect("write");
    let run = |arguments: &str| {
        let mut command = whylat(arguments);
        command.args(["--", "true"]).current_dir(scratch.path());
        finish(command.env("XDG_CONFIG_HOME", scratch.path()))
    };
    run("run --profile cheap").assert_status(0);
    run("run --profile deep --detail calls -o given").assert_status(0);
    let made = fs::read_dir(&output)
        .expect("made")
        .flatten()
        .next()
        .expect("a recording");
    assert_eq!(detail(&made.path()), "stats");
    assert_eq!(detail(&scratch.path().join("given")), "calls");
    run("run --profile shallow")
        .assert_status(1)
        .explains("has no profile shallow");
    let shown = finish(whylat("config --json").env("XDG_CONFIG_HOME", scratch.path()));
    shown.assert_status(0);
    let shown: serde_json::Value = serde_json::from_str(&shown.out).expect("JSON");
    assert_eq!(shown["profiles"]["deep"]["detail"], "messages");
    fs::write(&config, "[profile.cheap]\ndetial = \"stats\"\n").expect("write");
    let output = run("run --profile cheap");
    output
        .assert_status(1)
        .explains("config.toml:2: unknown key detial");
    assert!(
        output.err.contains("did you mean detail?"),
        "{}",
        output.err
    );
}

/// The detail of a recording, by its manifest.
fn detail(recording: &Path) -> String {
    let recording = table::Recording::open(recording).expect("a recording");
    recording.header().detail.clone()
}

/// Under sudo the file is that of the user who called it, and must belong to that user: root reads nothing for
/// a user who may not.
#[test]
fn sudo_reads_configuration_of_invoking_user() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = scratch.path().join("whylat");
    fs::create_dir(&dir).expect("mkdir");
    fs::write(dir.join("config.toml"), "[profile.a]\n").expect("write");
    let ask = || {
        let mut command = whylat("config");
        command
            .env("SUDO_UID", "65534")
            .env("XDG_CONFIG_HOME", scratch.path());
        finish(&mut command)
    };
    ask()
        .assert_status(1)
        .explains("does not belong to user id 65534");
    std::os::unix::fs::chown(dir.join("config.toml"), Some(65534), None).expect("chown");
    ask().assert_status(0);
}
