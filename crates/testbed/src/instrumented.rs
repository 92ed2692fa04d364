//! An instrumented program, with Intel's own static part in it, under `whylat run`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command};
use std::sync::OnceLock;

use serde_json::Value;
use table::manifest::{Loss, ProbeState};
use table::tables::{Counter, Task};
use table::{Columns, Recording};
use tempfile::TempDir;

use crate::process::{ChildGuard, CommandOutput, finish, program};
use crate::sources;

/// The instrumented program, where everybody may run it, and the collector beside it.
pub struct InstrumentedTools {
    /// The directory with its files.
    pub scratch: TempDir,
}

impl InstrumentedTools {
    /// Returns the tools, which are built once.
    pub fn get() -> &'static Self {
        static TOOLS: OnceLock<InstrumentedTools> = OnceLock::new();
        TOOLS.get_or_init(Self::build)
    }

    /// Compiles the program, and copies the collector.
    pub fn build() -> Self {
        let tools = InstrumentedTools {
            scratch: open_directory(),
        };
        let library = sources::c_library();
        let include = format!("-I{}", library.join("include").display());
        let include_own = format!("-I{}", library.join("src/ittnotify").display());
        let part = library.join("src/ittnotify/ittnotify_static.c");
        let part = part.to_str().expect("a path");
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernel/programs/itt_calls.c");
        let more = [&include, &include_own, part, "-ldl", "-lpthread"];
        sources::compile("CC", "cc", &tools.itt_calls(), &source, &more);
        let built = Path::new(program()).with_file_name("libwhylat_itt.so");
        fs::copy(&built, tools.collector())
            .unwrap_or_else(|why| panic!("{}: {why}; make build", built.display()));
        tools
    }

    /// Returns the path of the instrumented program.
    pub fn itt_calls(&self) -> PathBuf {
        self.scratch.path().join("itt_calls")
    }

    /// Returns the path of the collector.
    pub fn collector(&self) -> PathBuf {
        self.scratch.path().join("libwhylat_itt.so")
    }
}

/// Makes a directory that everybody may write to.
pub fn open_directory() -> TempDir {
    let scratch = tempfile::tempdir().expect("a directory");
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
    scratch
}

/// A run of `whylat run`, and where it records to.
pub struct ToolRun {
    /// The command to be run.
    pub command: Command,
    /// The directory with its files.
    pub scratch: TempDir,
}

impl ToolRun {
    /// Makes a run of a command with these options.
    pub fn new(whylat: impl AsRef<Path>, options: &str, argv: &[&str]) -> Self {
        let scratch = open_directory();
        let mut command = Command::new(whylat.as_ref());
        command.arg("run").args(options.split_whitespace());
        command.arg("-o").arg(scratch.path().join("r.whylat"));
        command.arg("--").args(argv);
        ToolRun { command, scratch }
    }

    /// Returns a run of `itt_calls` at detail `waits`.
    pub fn itt_calls(arguments: &[&str]) -> Self {
        let itt_calls = InstrumentedTools::get().itt_calls();
        let mut argv = vec![itt_calls.to_str().expect("a path")];
        argv.extend(arguments);
        Self::new(program(), "--detail waits", &argv)
    }

    /// Runs the program to its end.
    pub fn end(mut self) -> RunOutcome {
        let output = finish(&mut self.command);
        RunOutcome {
            output,
            scratch: self.scratch,
        }
    }

    /// Starts the program, to exchange lines with it.
    pub fn start(mut self) -> LiveRun {
        let stderr = fs::File::create(self.scratch.path().join("stderr")).expect("a file");
        let mut process = ChildGuard::start_talking(self.command.stderr(stderr));
        let stdin = process.0.stdin.take().expect("stdin");
        let stdout = process.0.stdout.take().expect("stdout");
        LiveRun {
            process,
            stdin,
            stdout: BufReader::new(stdout),
            scratch: self.scratch,
        }
    }
}

/// A recording of a command under way, and the command's stdin and stdout.
pub struct LiveRun {
    /// `whylat run`.
    pub process: ChildGuard,
    stdin: ChildStdin,
    /// The stdout of the command.
    pub stdout: BufReader<ChildStdout>,
    /// The directory with its files.
    pub scratch: TempDir,
}

impl LiveRun {
    /// Reads a line of the command's JSON.
    pub fn line(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line:?}"))
    }

    /// Lets the program go on.
    pub fn go(&mut self) {
        self.stdin.write_all(b".").expect("it listens");
    }
}

/// A run that ended.
pub struct RunOutcome {
    /// Its output, and how it ended.
    pub output: CommandOutput,
    /// The directory with its files.
    pub scratch: TempDir,
}

impl RunOutcome {
    /// Opens the recording of the run.
    pub fn recording(&self) -> Recording {
        Recording::open(self.scratch.path().join("r.whylat")).expect("it opens")
    }

    /// Returns the lines that the programs printed.
    pub fn truths(&self) -> Vec<Value> {
        let lines = self.output.out.lines();
        lines
            .map_while(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Returns all rows of `counters`.
    pub fn counters(&self) -> Vec<Counter> {
        let rows = self.recording().read_all::<Counter>();
        (0..rows.len()).map(|row| rows.row(row)).collect()
    }

    /// Returns all rows of `tasks`.
    pub fn tasks(&self) -> Vec<Task> {
        let rows = self.recording().read_all::<Task>();
        (0..rows.len()).map(|row| rows.row(row)).collect()
    }

    /// Returns whether ITT was recorded.
    pub fn coverage(&self) -> ProbeState {
        let recording = self.recording();
        let found = recording.coverage().iter().find(|line| line.probe == "itt");
        found
            .unwrap_or_else(|| panic!("no coverage of itt"))
            .state
            .clone()
    }

    /// Returns the account of ITT alone.
    #[track_caller]
    pub fn account(&self) -> Loss {
        account(&self.recording(), "itt")
    }

    /// Demands that the probe is off for this reason, and that the program ran as without it.
    #[track_caller]
    pub fn is_off(&self, expected: &str) {
        match self.coverage() {
            ProbeState::Off { why, remedy } => {
                assert!(why.contains(expected), "{why}");
                assert!(!remedy.is_empty(), "{why}");
            }
            state => panic!("{state:?}"),
        }
        self.output.assert_status(0);
        assert_eq!((self.counters(), self.tasks()), (Vec::new(), Vec::new()));
        let recording = self.recording();
        assert!(recording.loss().iter().all(|loss| loss.probe != "itt"));
    }
}

/// Returns the account of a probe, which adds up; all others do, too.
#[track_caller]
pub fn account(recording: &Recording, probe: &str) -> Loss {
    for loss in recording.loss() {
        assert_eq!(loss.residual(), 0, "{loss:?}");
    }
    let found = recording.loss().iter().find(|loss| loss.probe == probe);
    let account = found.expect("its account").clone();
    let rows = recording.rows::<Counter>() + recording.rows::<Task>();
    assert_eq!(account.stored, rows);
    account
}
