//! `whylat bugreport`: the data that a developer needs to understand a bug: facts of this host and the manifests of
//! recordings. Never the recorded data, and of the environment names only.

mod addresses;
mod host;
mod names;
mod redact;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use record::privileges::Privileges;
use serde_json::Value;

use crate::confine::confine_process;
use crate::out::{Output, OutputArgs};
use crate::{args, doctor, load, out};
use redact::Redactor;

/// The manifest of a recording.
const MANIFEST: &str = "manifest.jsonl";

/// Collects what a bug report needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo whylat bugreport
  sudo whylat bugreport --redact r.whylat -o report.tar.gz
  whylat bugreport --redact -o report      # a directory, to read first")]
#[command(mut_arg("output", |it| it.help(
    "Archive (*.tar.gz) or directory to create; `-`: an archive on standard output [default: \
     whylat-bugreport-<UTC time>.tar.gz here]"
)))]
#[command(mut_arg("force", |it| it.help("Replace an existing archive")))]
pub(crate) struct Bugreport {
    /// Recordings to describe, by their manifests without data [default: the newest *.whylat here]
    recordings: Vec<PathBuf>,
    /// Replace command lines, paths, addresses, and names of hosts and users by placeholders
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    to: OutputArgs,
}

/// A file of the report.
struct Part {
    name: String,
    content: Content,
}

enum Content {
    /// One value, or one a line.
    Json(Vec<Value>),
    /// Text for people, with no names of this host.
    Text(String),
}

impl Bugreport {
    pub(crate) fn execute(mut self, program: &clap::Command) -> anyhow::Result<ExitCode> {
        let to = std::mem::take(&mut self.to).check_or(|| Output::new(default_output()))?;
        let mut parts = vec![
            json("doctor.json", doctor::examine_host()?)?,
            json("host.json", host::describe())?,
            json("environment.json", host::environment_variables(self.redact))?,
        ];
        let log = host::agent_log().filter(|_| !self.redact);
        // which asks for the user's name
        let redactor = self.redact.then(|| Redactor::new(program));
        // what is left to do is to read what recordings say, and to write
        Privileges::for_writing().assume()?;
        confine_process();
        parts.extend(self.read_manifests()?);
        parts.extend(log.map(|log| json("agent-log.json", log)).transpose()?);
        if let Some(mut redactor) = redactor {
            let values = || parts.iter().filter_map(Part::values).flatten();
            redactor.learn_secrets(values());
            for part in &mut parts {
                if let Content::Json(values) = &mut part.content {
                    values.iter_mut().for_each(|value| redactor.value(value));
                }
            }
        }
        parts.push(make_readme(&parts, self.redact));
        write(&to, &parts)?;
        if let Some(file) = to.file() {
            out::line(&out::name(file))?;
        }
        eprintln!("read it before you send it; its README lists the content");
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the manifests of recordings. A line that is no JSON, which a kill may leave, is skipped.
    fn read_manifests(&self) -> anyhow::Result<Vec<Part>> {
        let mut recordings = self.recordings.clone();
        if recordings.is_empty() {
            recordings.extend(load::find_newest_recording().ok());
        }
        let mut parts = Vec::new();
        for (number, recording) in (1..).zip(&recordings) {
            let path = recording.join(MANIFEST);
            let text = fs::read_to_string(&path).map_err(|error| {
                let path = out::name(&path);
                anyhow!("cannot read {path}: {error}\nhint: name a recording's directory")
            })?;
            let lines = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            parts.push(Part {
                name: format!("recording-{number}.jsonl"),
                content: Content::Json(lines.collect()),
            });
        }
        Ok(parts)
    }
}

/// Writes an archive or a directory. Only its owner may read it.
fn write(to: &Output, parts: &[Part]) -> anyhow::Result<()> {
    let Some(path) = to.file() else {
        return to.write_bytes(|out| pack(out, parts));
    };
    // another user's pipe, or a directory with its files
    let is_other = |it: fs::Metadata| !it.is_file() && !it.is_symlink();
    let is_taken = path.symlink_metadata().is_ok_and(is_other);
    if is_archive(path) && !is_taken {
        return to.write(|out| pack(out, parts));
    }
    write_directory(path, parts).map_err(|error| {
        let shown = out::name(path);
        match error.kind() {
            ErrorKind::AlreadyExists => anyhow!(
                "cannot create {shown}: it exists already\nhint: name another file with -o, or replace the \
                    archive with --force"
            ),
            _ => anyhow!("cannot write {shown}: {error}\nhint: -o PATH writes it elsewhere"),
        }
    })
}

impl Part {
    /// Returns the JSON values of a part; None if it is text.
    fn values(&self) -> Option<&[Value]> {
        match &self.content {
            Content::Json(values) => Some(values),
            Content::Text(_) => None,
        }
    }

    /// Returns the bytes of a part, as its file has them.
    fn bytes(&self) -> io::Result<Vec<u8>> {
        Ok(match &self.content {
            Content::Text(text) => text.clone().into_bytes(),
            Content::Json(values) if self.name.ends_with(".jsonl") => {
                let mut bytes = Vec::new();
                for value in values {
                    serde_json::to_writer(&mut bytes, value)?;
                    bytes.push(b'\n');
                }
                bytes
            }
            Content::Json(values) => {
                let mut bytes = Vec::new();
                for value in values {
                    serde_json::to_writer_pretty(&mut bytes, value)?;
                    bytes.push(b'\n');
                }
                bytes
            }
        })
    }
}

/// Makes a part of one JSON value.
fn json(name: &str, value: impl serde::Serialize) -> anyhow::Result<Part> {
    Ok(Part {
        name: name.to_owned(),
        content: Content::Json(vec![serde_json::to_value(value)?]),
    })
}

/// Makes the README of a bug report: it describes the other parts.
fn make_readme(parts: &[Part], is_redacted: bool) -> Part {
    let mut text = "A report for the developers of whylat.\n\n".to_owned();
    for part in parts {
        let what = match part.name.as_str() {
            "doctor.json" => "what works on this host: whylat doctor --json",
            "host.json" => "versions, configuration and settings of the kernel, privileges",
            "environment.json" => "names of environment variables, without values",
            "agent-log.json" => "the last lines of the agent's log",
            _ => "the manifest of a recording, without its data",
        };
        text += &format!("{:<20} {what}\n", part.name);
    }
    text += match is_redacted {
        true => {
            "\nRedacted: placeholders replace command lines, paths, addresses, and names of hosts and users;\n\
             equal ones have equal placeholders. The agent's log is omitted: it is free text.\n"
        }
        false => {
            "\nNot redacted: command lines, paths and host names are unchanged. --redact replaces them.\n"
        }
    };
    Part {
        name: "README".to_owned(),
        content: Content::Text(text),
    }
}

/// Returns the name of the archive if the user gives none; it has the time.
fn default_output() -> PathBuf {
    let time = args::utc_now();
    format!("whylat-bugreport-{time}.tar.gz").into()
}

/// Returns whether the name ends like a compressed archive.
fn is_archive(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".tar.gz") || name.ends_with(".tgz")
}

/// Writes all parts as a compressed archive.
fn pack(out: &mut dyn Write, parts: &[Part]) -> io::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(out, Compression::default()));
    for part in parts {
        let bytes = part.bytes()?;
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_cksum();
        let name = format!("whylat-bugreport/{}", part.name);
        archive.append_data(&mut header, name, bytes.as_slice())?;
    }
    archive.into_inner()?.finish()?;
    Ok(())
}

/// Writes all parts as files of a directory.
fn write_directory(path: &Path, parts: &[Part]) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    for part in parts {
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        options
            .open(path.join(&part.name))?
            .write_all(&part.bytes()?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;

    /// Writes a bug report.
    fn write(output: &Path, force: bool) -> anyhow::Result<()> {
        let to = match force {
            true => Output::replacing(output.to_owned()),
            false => Output::new(output.to_owned()),
        };
        super::write(&to, &[make_readme(&[], true)])
    }

    /// Returns a directory with a file that everyone may read.
    fn taken() -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("report.tar.gz");
        fs::write(&path, "before").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("its mode");
        (dir, path)
    }

    /// Checks that the archive is complete, private to its owner, and beside it only `others`.
    #[track_caller]
    fn assert_report(path: &Path, others: usize) {
        let found = path.symlink_metadata().expect("it is there");
        assert!(found.is_file());
        assert_eq!(found.mode() & 0o7777, 0o600);
        assert_eq!(found.uid(), nix::unistd::geteuid().as_raw());
        let unpacked = flate2::read::GzDecoder::new(File::open(path).expect("opened"));
        let mut archive = tar::Archive::new(unpacked);
        assert_eq!(archive.entries().expect("entries").count(), 1);
        let dir = path.parent().expect("a directory");
        assert_eq!(fs::read_dir(dir).expect("files").count(), 1 + others);
    }

    /// Demands that the output is refused, and nothing changed.
    #[track_caller]
    fn assert_refused(output: &Path, force: bool) {
        let why = write(output, force).expect_err("taken").to_string();
        let is_clear = why.contains("it exists already\nhint: ");
        assert!(
            is_clear && why.contains(&*output.to_string_lossy()),
            "{why}"
        );
    }

    #[test]
    fn forced_replacement_is_private() {
        let (_dir, path) = taken();
        // who opened it before does not see the report
        let opened = File::open(&path).expect("opened");
        assert_refused(&path, false);
        assert_eq!(fs::read(&path).expect("a file"), b"before");
        write(&path, true).expect("replaced");
        assert_report(&path, 0);
        assert_eq!(io::read_to_string(opened).expect("a file"), "before");
    }

    #[test]
    fn links_are_not_followed() {
        let (dir, elsewhere) = taken();
        let missing = dir.path().join("missing");
        for (name, to) in [("a.tar.gz", &missing), ("b.tar.gz", &elsewhere)] {
            let link = dir.path().join(name);
            symlink(to, &link).expect("a link");
            assert_refused(&link, false);
            write(&link, true).expect("replaced");
            assert!(!missing.exists());
            assert_eq!(fs::read(&elsewhere).expect("a file"), b"before");
            assert_report(&link, 1);
            fs::remove_file(&link).expect("removed");
        }
        let link = dir.path().join("report");
        symlink(&missing, &link).expect("a link");
        assert_refused(&link, false);
        assert!(!missing.exists());
    }

    #[test]
    fn only_archives_are_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = dir.path().join("folder.tar.gz");
        fs::create_dir(&folder).expect("a directory");
        let pipe = dir.path().join("pipe.tar.gz");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        for path in [&folder, &pipe] {
            assert_refused(path, false);
            assert_refused(path, true);
        }
        assert_eq!(fs::read_dir(dir.path()).expect("files").count(), 2);
    }

    #[test]
    fn new_reports_are_private() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("new.tgz");
        write(&path, false).expect("an archive");
        assert_report(&path, 0);
        let folder = dir.path().join("new");
        write(&folder, false).expect("a directory");
        let mode = |path: &Path| path.metadata().expect("it is there").mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("README")), 0o600);
        let nowhere = dir.path().join("missing/new.tgz");
        let why = write(&nowhere, true).expect_err("no such directory");
        assert!(why.to_string().contains("cannot create") && why.to_string().contains("\nhint: "));
    }
}
