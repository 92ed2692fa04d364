//! Writes data to stdout or to the path of `-o`, messages to stderr. A closed pipe (`| head`) is no error.
//!
//! The option is declared here, and the path is opened here: exactly PATH is created, `-` is standard output, and what is
//! there already is refused unless `--force` is given. Messages name files, tables and keys that anybody may have made up:
//! what a terminal would act on is taken out here, so that no command can forget it.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde::Serialize;
use view::TextOptions;

use crate::{exit, progress};

/// Path that means standard output.
const STDOUT: &str = "-";

/// Private, as recordings are: a report contains the same facts.
const PRIVATE: u32 = 0o600;

/// Where an answer goes, of commands that give one.
#[derive(Debug, Default, Args)]
pub(crate) struct OutputArgs {
    /// File to create; `-`: standard output [default: -]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replace PATH if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

impl OutputArgs {
    /// Makes the options for a file that must not exist yet.
    pub(crate) fn from_file(path: PathBuf) -> Self {
        Self {
            output: Some(path),
            force: false,
        }
    }

    /// Returns standard output, or the given file, which must not exist. Called before the work,
    /// which may take long.
    ///
    /// # Errors
    /// When something has it, and is not to be replaced.
    pub(crate) fn check(self) -> anyhow::Result<Output> {
        let output = Output {
            file: self.output.filter(|path| path != Path::new(STDOUT)),
            force: self.force,
        };
        match &output.file {
            Some(file) if !self.force && file.symlink_metadata().is_ok() => {
                Err(cannot_create(file, &ErrorKind::AlreadyExists.into()))
            }
            _ => Ok(output),
        }
    }

    /// Checks the options, with another default than standard output.
    ///
    /// # Errors
    /// As [`OutputArgs::check`].
    pub(crate) fn check_or(mut self, default: impl FnOnce() -> Output) -> anyhow::Result<Output> {
        match self.output.take() {
            None => Ok(default()),
            Some(path) => Self {
                output: Some(path),
                ..self
            }
            .check(),
        }
    }
}

/// The directory to create, of commands that create one.
#[derive(Debug, Args)]
pub(crate) struct DirectoryArgs {
    /// Directory to create [default: whylat-<UTC time>.whylat here]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replace a recording at PATH if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

impl DirectoryArgs {
    /// Returns the options for a path.
    #[cfg(test)]
    pub(crate) fn from_path(path: &Path) -> Self {
        Self {
            output: Some(path.to_owned()),
            force: false,
        }
    }

    /// Returns the given directory; `None` if none was given.
    ///
    /// # Errors
    /// When it is standard output.
    pub(crate) fn path(&self) -> anyhow::Result<Option<&Path>> {
        if self.output.as_deref() == Some(Path::new(STDOUT)) {
            return Err(exit::wrong_usage(
                "cannot write a directory to standard output\n\
                 hint: name a directory with -o; `whylat report DIR --format json -o -` prints a report",
            ));
        }
        Ok(self.output.as_deref())
    }

    /// Makes the given directory; with `--force` it may exist.
    ///
    /// # Errors
    /// When it cannot be made, or is there.
    pub(crate) fn make_directory(&self) -> anyhow::Result<Option<&Path>> {
        let Some(path) = self.path()? else {
            return Ok(None);
        };
        match fs::create_dir(path) {
            Err(error)
                if error.kind() == ErrorKind::AlreadyExists && self.force && path.is_dir() => {}
            made => made.map_err(|error| cannot_create(path, &error))?,
        }
        Ok(Some(path))
    }
}

/// Where an answer goes.
#[derive(Debug)]
pub(crate) struct Output {
    /// `None`: standard output.
    file: Option<PathBuf>,
    force: bool,
}

impl Output {
    /// Returns a file that replaces an existing one.
    pub(crate) fn replacing(file: PathBuf) -> Self {
        Self {
            file: Some(file),
            force: true,
        }
    }

    /// Returns a file that must not exist yet.
    pub(crate) fn new(file: PathBuf) -> Self {
        Self {
            file: Some(file),
            force: false,
        }
    }

    /// Returns the file; `None`: standard output.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns whether the output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.file.is_none() && io::stdout().is_terminal()
    }

    /// Returns width and colour of text for this output.
    pub(crate) fn text_options(&self) -> TextOptions {
        match self.file {
            None => text_options(),
            Some(_) => TextOptions::default(),
        }
    }

    /// Writes text without control characters.
    pub(crate) fn print(&self, text: &str) -> anyhow::Result<()> {
        self.write_exact(&clean_text(text))
    }

    /// Writes text unchanged: `view` has cleaned it, or programs read it.
    pub(crate) fn write_exact(&self, text: &str) -> anyhow::Result<()> {
        self.write(|out| out.write_all(text.as_bytes()))
    }

    /// Writes an answer as JSON and a line end, while it is made.
    pub(crate) fn json(&self, answer: &impl Serialize) -> anyhow::Result<()> {
        self.write(|out| {
            view::write_json(answer, &mut *out)?;
            out.write_all(b"\n")
        })
    }

    /// Writes JSON with a line for each value, to compare versions.
    pub(crate) fn pretty_json(&self, answer: &impl Serialize) -> anyhow::Result<()> {
        self.write_exact(&format!("{}\n", serde_json::to_string_pretty(answer)?))
    }

    /// Writes binary data, but not to a terminal.
    pub(crate) fn write_bytes(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        if self.is_terminal() {
            bail!(
                "cannot write binary data to a terminal\nhint: name a file with -o, or use a pipe: -o - | …"
            );
        }
        self.write(write)
    }

    /// Calls `write` for this output; on failure it removes the half-written file. A pipe or device
    /// stays. A reader that left is no failure.
    pub(crate) fn write(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        progress::clear();
        let Some(path) = &self.file else {
            return write_to(io::stdout().lock(), write).context("cannot write to stdout");
        };
        let file = self
            .create(path)
            .map_err(|error| cannot_create(path, &error))?;
        write_to(&file, write).map_err(|error| {
            if !is_kept(path) {
                // Best effort: what was there before --force is gone already.
                let _ = fs::remove_file(path);
            }
            anyhow!(
                "cannot write {}: {error}\nhint: name a file with -o on a disk with free space",
                name(path)
            )
        })
    }

    /// Creates a file, in place of another or of a link. The new file has its own permissions, and readers of the old
    /// one do not see it. A pipe or a device is written to as it is.
    fn create(&self, path: &Path) -> io::Result<File> {
        if self.force && path.symlink_metadata().is_ok() {
            if is_kept(path) {
                return OpenOptions::new().write(true).open(path);
            }
            fs::remove_file(path)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(PRIVATE);
        options.open(path)
    }
}

/// Returns whether the path is a pipe or device, which is written to as it is.
fn is_kept(path: &Path) -> bool {
    let is_other = |it: fs::Metadata| !it.is_file() && !it.is_dir();
    let parent = path.parent().unwrap_or(path);
    let is_systems =
        parent == Path::new("/dev") || parent.starts_with("/proc") || parent.starts_with("/dev/fd");
    is_systems || path.metadata().is_ok_and(is_other)
}

/// Makes the error of an output file that cannot be created.
fn cannot_create(path: &Path, error: &io::Error) -> anyhow::Error {
    let path = name(path);
    match error.kind() {
        ErrorKind::AlreadyExists => anyhow!(
            "cannot create {path}: it exists already\n\
             hint: name another path with -o, or replace it with --force"
        ),
        _ => anyhow!("cannot create {path}: {error}\nhint: name a writable path with -o"),
    }
}

/// Writes `text` to stdout, cleaned.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    stdout().print(text)
}

/// Writes `text` and a line end to stdout, cleaned.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    print(&format!("{text}\n"))
}

/// Returns standard output.
pub(crate) fn stdout() -> Output {
    Output {
        file: None,
        force: false,
    }
}

/// Returns how text goes to stdout: colour for a terminal unless NO_COLOR is set; 80 columns.
pub(crate) fn text_options() -> TextOptions {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    TextOptions {
        colour: io::stdout().is_terminal() && !no_colour,
        ..TextOptions::default()
    }
}

/// Writes a line to stderr without control characters; ignores a failure. A full disk or a reader
/// that left must not end the recording.
pub(crate) fn print_message(message: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", clean_text(&message.to_string()));
}

/// Returns an error with its causes, each once.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Returns a name for a message, on one line: a line end in a name would forge a line.
pub(crate) fn name(name: &(impl AsRef<OsStr> + ?Sized)) -> String {
    view::remove_controls(&name.as_ref().to_string_lossy())
}

/// Returns text without control characters, but with its line ends.
fn clean_text(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(view::remove_controls).collect();
    lines.join("\n")
}

/// Writes through a buffer, and flushes it.
fn write_to(
    out: impl Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Opens an output file.
    fn output(path: &Path, force: bool) -> anyhow::Result<Output> {
        OutputArgs {
            output: Some(path.to_owned()),
            force,
        }
        .check()
    }

    /// Returns the text of a file.
    #[track_caller]
    fn read(path: &Path) -> String {
        fs::read_to_string(path).expect("a file")
    }

    /// Fails as a full disk does.
    fn fail(_: &mut dyn Write) -> io::Result<()> {
        Err(ErrorKind::StorageFull.into())
    }

    #[test]
    fn file_is_replaced_only_with_force() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("t.csv");
        let write = |text, force| output(&path, force)?.write_exact(text);
        write("first", false).expect("a new file");
        let refused = write("second", false).expect_err("it exists").to_string();
        assert!(refused.contains("hint: ") && refused.contains("--force"));
        assert_eq!(read(&path), "first");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        // who opened it before does not see the answer
        let opened = File::open(&path).expect("opened");
        write("new", true).expect("replaced");
        let mode = path.metadata().expect("there").permissions().mode();
        assert_eq!(mode & 0o777, PRIVATE);
        assert_eq!(read(&path), "new");
        assert_eq!(io::read_to_string(opened).expect("a file"), "first");
    }

    #[test]
    fn link_is_replaced_not_followed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (link, other) = (scratch.path().join("link"), scratch.path().join("other"));
        for is_there in [false, true] {
            symlink(&other, &link).expect("a link");
            assert!(output(&link, false).is_err());
            output(&link, true)
                .and_then(|to| to.write_exact("new"))
                .expect("replaced");
            assert_eq!(read(&link), "new");
            assert_eq!(other.exists(), is_there);
            fs::remove_file(&link).expect("removed");
            fs::write(&other, "before").expect("written");
        }
        assert_eq!(read(&other), "before");
        let refused = output(scratch.path(), true).and_then(|to| to.write_exact("new"));
        assert!(refused.is_err(), "a directory is not replaced");
    }

    #[test]
    fn partial_file_is_removed_but_not_pipe() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("t.csv");
        assert!(Output::new(path.clone()).write(fail).is_err());
        assert!(!path.exists());
        let pipe = scratch.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe)
        });
        assert!(Output::replacing(pipe.clone()).write(fail).is_err());
        assert_eq!(reader.join().expect("it ends").expect("nothing"), b"");
        assert!(pipe.exists());
    }

    #[test]
    fn system_paths_are_kept() {
        for path in ["/dev/stdout", "/dev/fd/63", "/proc/self/fd/1", "/dev/null"] {
            assert!(is_kept(Path::new(path)), "{path}");
        }
        assert!(!is_kept(Path::new("/dev/shm/report.html")));
    }

    #[test]
    fn dash_is_standard_output() {
        let to = output(Path::new("-"), false).expect("standard output");
        assert_eq!(to.file(), None);
        let directory = DirectoryArgs {
            output: Some("-".into()),
            force: false,
        };
        let refused = directory.path().expect_err("no stream").to_string();
        assert!(refused.contains("hint: "), "{refused}");
    }

    #[test]
    fn messages_are_cleaned() {
        let text = "error: cannot read a\u{1b}]0;title\u{7}b\u{9b}2J\nhint: ls\r\u{1b}[1A\n";
        assert_eq!(clean_text(text), "error: cannot read ab\nhint: ls\n");
        assert_eq!(clean_text("two\n\nparts\n"), "two\n\nparts\n");
    }

    #[test]
    fn names_are_on_one_line() {
        let hostile = Path::new("r\nhint: rm -r\u{1b}[8m.whylat");
        assert_eq!(name(hostile), "r hint: rm -r.whylat");
        assert_eq!(name("r.whylat"), "r.whylat");
    }
}
