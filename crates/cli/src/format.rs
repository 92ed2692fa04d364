//! How an answer is printed, and where one goes that is no text.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};

use crate::out;

/// A format of one answer.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// For people: at most 80 columns.
    Text,
    /// For programs: by the schemas in docs.
    Json,
}

/// A file to write instead of standard output.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// The file to write a page or an export to
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing FILE
    #[arg(long, requires = "output")]
    force: bool,
}

impl OutputArgs {
    /// The file that was named.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Says so if a file was named for a format that is printed.
    pub(crate) fn refuse(&self) -> anyhow::Result<()> {
        if self.output.is_some() {
            bail!(
                "-o is for pages and exports\n\
                 hint: add their --format, or send the text to a file with `>`"
            );
        }
        Ok(())
    }

    /// Writes a page to the file, or else to stdout.
    pub(crate) fn page(&self, page: &str) -> anyhow::Result<()> {
        match &self.output {
            None => out::exact(page),
            Some(file) => self.write(file, |out| out.write_all(page.as_bytes())),
        }
    }

    /// Writes to a file. If that fails, half a file is removed, but not what only has a name there, such as a pipe.
    pub(crate) fn write<T>(
        &self,
        file: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
    ) -> anyhow::Result<T> {
        let mut out = self.create(file)?;
        write(&mut out).map_err(|error| {
            if out.metadata().is_ok_and(|it| it.is_file()) {
                // Best effort: what was there before --force is gone already.
                let _ = std::fs::remove_file(file);
            }
            anyhow!(
                "cannot write {}: {error}\nhint: name a file on a disk with room for it with -o",
                out::name(file)
            )
        })
    }

    fn create(&self, file: &Path) -> anyhow::Result<File> {
        let opened = if self.force {
            anew(file)
        } else {
            private().create_new(true).open(file)
        };
        opened.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => anyhow!(
                "cannot create {}: it exists already\n\
                 hint: name another file with -o, or replace it with --force",
                out::name(file)
            ),
            _ => anyhow!(
                "cannot create {}: {error}\nhint: name a file that you may write to with -o",
                out::name(file)
            ),
        })
    }
}

/// For nobody else to read.
const PRIVATE: u32 = 0o600;

/// A file that nobody else may read, as with recordings: it tells what they tell.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(PRIVATE);
    options
}

/// Such a file, emptied if it is there. A pipe or a device stays as it is.
pub(crate) fn anew(file: &Path) -> io::Result<File> {
    let out = private().create(true).truncate(true).open(file)?;
    if out.metadata()?.is_file() {
        out.set_permissions(Permissions::from_mode(PRIVATE))?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(output: &Path, force: bool) -> OutputArgs {
        OutputArgs {
            output: Some(output.to_owned()),
            force,
        }
    }

    fn fails(_: &mut dyn Write) -> io::Result<()> {
        Err(ErrorKind::StorageFull.into())
    }

    #[test]
    fn a_file_is_replaced_only_when_told() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("t.csv");
        let write = |text: &'static str, force| {
            to(&path, force).write(&path, |out| out.write_all(text.as_bytes()))
        };
        write("first", false).expect("a new file");
        let refused = write("second", false).expect_err("it exists").to_string();
        assert!(refused.contains("hint: ") && refused.contains("--force"));
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "first");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("set");
        write("new", true).expect("replaced");
        let mode = path.metadata().expect("there").permissions().mode();
        assert_eq!(mode & 0o777, PRIVATE);
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "new");
    }

    #[test]
    fn half_a_file_is_removed_but_no_device() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("t.csv");
        assert!(to(&path, false).write(&path, fails).is_err());
        assert!(!path.exists());
        let pipe = scratch.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe)
        });
        assert!(to(&pipe, true).write(&pipe, fails).is_err());
        assert_eq!(reader.join().expect("it ends").expect("nothing"), b"");
        assert!(pipe.exists());
    }
}
