//! `whylat bugreport`: what somebody else needs to understand a fault of whylat: what this host is and can do, and what
//! recordings say of themselves. Never the recorded data, and of the environment names only.

mod host;
mod names;
mod redact;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use record::privileges::Privileges;
use serde_json::Value;

use crate::confine::confine;
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
  whylat bugreport --redact -o report      # a directory, to look at it first")]
pub(crate) struct Bugreport {
    /// Recordings to tell of: their manifests, not their data [default: the newest *.whylat here]
    recordings: Vec<PathBuf>,
    /// Replace command lines, paths, addresses, and names of hosts and users: equal ones by equal words
    #[arg(long)]
    redact: bool,
    /// What to create: an archive if it ends with .tar.gz, else a directory
    /// [default: whylat-bugreport-<UTC time>.tar.gz here]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replace an existing archive
    #[arg(long)]
    force: bool,
}

/// A file of the report.
struct Part {
    name: String,
    content: Content,
}

enum Content {
    /// One value, or one a line.
    Json(Vec<Value>),
    /// For people, and of nothing of this host's.
    Text(String),
}

impl Bugreport {
    pub(crate) fn execute(self, program: &clap::Command) -> anyhow::Result<ExitCode> {
        let mut parts = vec![
            json("doctor.json", doctor::examine()?)?,
            json("host.json", host::describe())?,
            json("environment.json", host::environment(self.redact))?,
        ];
        let log = host::agent_log().filter(|_| !self.redact);
        // which asks for the user's name
        let redactor = self.redact.then(|| Redactor::new(program));
        // what is left to do is to read what recordings say, and to write
        Privileges::of_writing().assume()?;
        confine();
        parts.extend(self.manifests()?);
        parts.extend(log.map(|log| json("agent-log.json", log)).transpose()?);
        if let Some(mut redactor) = redactor {
            let values = || parts.iter().filter_map(Part::values).flatten();
            redactor.learn(values());
            for part in &mut parts {
                if let Content::Json(values) = &mut part.content {
                    values.iter_mut().for_each(|value| redactor.value(value));
                }
            }
        }
        parts.push(readme(&parts, self.redact));
        let output = self.output.clone().unwrap_or_else(default_output);
        self.write(&output, &parts)?;
        out::line(&output.display().to_string())?;
        eprintln!("look at it before you send it: README in it says what is in it");
        Ok(ExitCode::SUCCESS)
    }

    /// What recordings say of themselves. A line that is no JSON, as a kill may leave one, is left out.
    fn manifests(&self) -> anyhow::Result<Vec<Part>> {
        let mut recordings = self.recordings.clone();
        if recordings.is_empty() {
            recordings.extend(load::newest().ok());
        }
        let mut parts = Vec::new();
        for (number, recording) in (1..).zip(&recordings) {
            let path = recording.join(MANIFEST);
            let text = fs::read_to_string(&path).map_err(|error| {
                let path = path.display();
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

    fn write(&self, output: &Path, parts: &[Part]) -> anyhow::Result<()> {
        let shown = output.display();
        if output.exists() && !(self.force && output.is_file()) {
            bail!(
                "cannot create {shown}: it exists already\nhint: name another with -o, or replace an archive with --force"
            );
        }
        let written = if is_archive(output) {
            archive(output, parts)
        } else {
            directory(output, parts)
        };
        written.map_err(|error| {
            anyhow!("cannot write {shown}: {error:#}\nhint: -o PATH writes it elsewhere")
        })
    }
}

impl Part {
    fn values(&self) -> Option<&[Value]> {
        match &self.content {
            Content::Json(values) => Some(values),
            Content::Text(_) => None,
        }
    }

    fn bytes(&self) -> anyhow::Result<Vec<u8>> {
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

fn json(name: &str, value: impl serde::Serialize) -> anyhow::Result<Part> {
    Ok(Part {
        name: name.to_owned(),
        content: Content::Json(vec![serde_json::to_value(value)?]),
    })
}

/// Says what the other parts are.
fn readme(parts: &[Part], is_redacted: bool) -> Part {
    let mut text = "A report of whylat for those who mend it.\n\n".to_owned();
    for part in parts {
        let what = match part.name.as_str() {
            "doctor.json" => "what works on this host: whylat doctor --json",
            "host.json" => "versions, how the kernel was built and is set, what whylat may do",
            "environment.json" => "names of environment variables, without their values",
            "agent-log.json" => "the last lines that the agent logged",
            _ => "what a recording says of itself: its manifest, not its data",
        };
        text += &format!("{:<20} {what}\n", part.name);
    }
    text += match is_redacted {
        true => {
            "\nRedacted: command lines, paths, addresses, and names of hosts and users are replaced, equal ones\n\
             by equal words. The agent's log is left out, as it is free text.\n"
        }
        false => {
            "\nNot redacted: command lines, paths and host names are as they were. --redact replaces them.\n"
        }
    };
    Part {
        name: "README".to_owned(),
        content: Content::Text(text),
    }
}

fn default_output() -> PathBuf {
    let time = args::utc_now();
    format!("whylat-bugreport-{time}.tar.gz").into()
}

fn is_archive(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".tar.gz") || name.ends_with(".tgz")
}

/// Only its owner may read what is written.
fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

fn archive(path: &Path, parts: &[Part]) -> anyhow::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(create(path)?, Compression::default()));
    for part in parts {
        let bytes = part.bytes()?;
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_cksum();
        let name = format!("whylat-bugreport/{}", part.name);
        archive.append_data(&mut header, name, bytes.as_slice())?;
    }
    archive.into_inner()?.finish()?.sync_all()?;
    Ok(())
}

fn directory(path: &Path, parts: &[Part]) -> anyhow::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    for part in parts {
        create(&path.join(&part.name))?.write_all(&part.bytes()?)?;
    }
    Ok(())
}
