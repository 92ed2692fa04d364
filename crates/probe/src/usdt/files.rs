//! In which files a USDT probe is searched for: the program that a command starts and its libraries,
//! or what running processes have mapped.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::notes::Elf;
use crate::itt::User;

/// Bytes of a script's first line that the kernel reads (`BINPRM_BUF_SIZE`).
const FIRST_LINE_BYTES: u64 = 256;
/// Scripts that are interpreted by scripts: the kernel follows no more (`exec_binprm`).
const MOST_SCRIPTS: usize = 5;

/// A file that may have probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binary {
    /// As the user knows it.
    pub(super) shown: PathBuf,
    /// Where it can be opened from here.
    pub(super) opened: PathBuf,
}

impl Binary {
    /// Names a file by its path.
    pub(super) fn at(path: &Path) -> Self {
        Self {
            shown: path.to_owned(),
            opened: path.to_owned(),
        }
    }

    /// Returns device and inode, by which the kernel identifies the file.
    pub(super) fn identity(&self) -> Option<(u64, u64)> {
        let metadata = self.opened.metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    }
}

/// Files in which probes are searched for when the user names none.
#[derive(Debug, Clone, Default)]
pub struct Files {
    pub(super) files: Vec<Binary>,
    /// The command, where the first file is what interprets it.
    pub(super) script: Option<PathBuf>,
    /// Places that could not be searched, and why.
    pub(super) gaps: Vec<String>,
}

impl Files {
    /// Returns the program that a command starts, and the libraries that are loaded with it. Its dynamic
    /// loader shows them, run as `user`, or as this process's own when none is named: what is
    /// loaded later is not among them.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn from_command(program: &OsStr, user: Option<User>) -> io::Result<Self> {
        let command = find_program(program)?;
        let mut path = command.clone();
        for _ in 0..MOST_SCRIPTS {
            match interpreter_of_script(&path) {
                Some(next) => path = find_program(&next)?,
                None => break,
            }
        }
        let mut all = Self {
            files: vec![Binary::at(&path)],
            script: Some(command).filter(|command| *command != path),
            ..Self::default()
        };
        match libraries(&path, user) {
            Ok(libraries) => all.files.extend(libraries),
            Err(why) => all
                .gaps
                .push(format!("the libraries of {}: {why}", path.display())),
        }
        Ok(all)
    }

    /// Returns the executable files that these processes have mapped.
    pub fn from_processes(pids: &[u32]) -> Self {
        let mut all = Self::default();
        for pid in pids {
            match std::fs::read(format!("/proc/{pid}/maps")) {
                Ok(maps) => all.add_mapped(*pid, &String::from_utf8_lossy(&maps)),
                Err(why) => all.gaps.push(format!("process {pid}: {why}")),
            }
        }
        all
    }

    /// Adds the executable files that a process has mapped.
    fn add_mapped(&mut self, pid: u32, maps: &str) {
        let mut seen = BTreeSet::new();
        for line in maps.lines() {
            let Some((range, path)) = parse_executable(line) else {
                continue;
            };
            if seen.insert(path) {
                self.files.push(mapped_binary(pid, range, path));
            }
        }
    }
}

/// Returns address range and path of an executable mapping (`proc_pid_maps(5)`).
fn parse_executable(line: &str) -> Option<(&str, &str)> {
    let mut fields = line.splitn(6, ' ');
    let range = fields.next()?;
    let permissions = fields.next()?;
    let path = fields.nth(3)?.trim_start();
    (permissions.contains('x') && path.starts_with('/')).then_some((range, path))
}

/// Finds the file of a mapping. It may be deleted, or be another file in the mount namespace of the process than
/// in this one.
fn mapped_binary(pid: u32, range: &str, path: &str) -> Binary {
    let here = Binary::at(Path::new(path));
    let there = Binary {
        shown: here.shown.clone(),
        opened: format!("/proc/{pid}/root{path}").into(),
    };
    match (here.identity(), there.identity()) {
        (here_is, Some(there_is)) if here_is == Some(there_is) => here,
        (_, Some(_)) => there,
        (_, None) => Binary {
            opened: format!("/proc/{pid}/map_files/{range}").into(),
            ..there
        },
    }
}

/// Finds a program as `execvp(3)` does.
fn find_program(program: &OsStr) -> io::Result<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return path.metadata().map(|_| path);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    let is_program = |path: &PathBuf| {
        let found = path.metadata();
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(is_program)
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns the interpreter of a script; for `env NAME`, NAME.
fn interpreter_of_script(path: &Path) -> Option<OsString> {
    let mut start = Vec::new();
    let file = File::open(path).ok()?;
    file.take(FIRST_LINE_BYTES).read_to_end(&mut start).ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes);
    let interpreter = words.next()?;
    let is_env = Path::new(interpreter).file_name() == Some(OsStr::new("env"));
    let named = words.find(|word| !word.as_bytes().starts_with(b"-"));
    let found = named.filter(|_| is_env).unwrap_or(interpreter);
    Some(found.to_owned())
}

/// Returns the libraries that the dynamic loader would load with a program. It is asked and not imitated:
/// paths of the program, of the environment and of the loader's cache all count.
fn libraries(program: &Path, user: Option<User>) -> Result<Vec<Binary>, String> {
    let Some(loader) = Elf::read(program)?.interpreter else {
        return Ok(Vec::new());
    };
    let mut command = Command::new(&loader);
    command.arg("--list").arg(program);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    if let Some(User { uid, gid }) = user {
        command.uid(uid.as_raw()).gid(gid.as_raw());
    }
    let output = command
        .output()
        .map_err(|error| format!("cannot run {loader}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{loader} --list: {}", output.status));
    }
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(listed.lines().filter_map(parse_library).collect())
}

/// Reads a line of the dynamic loader: `libm.so.6 => /lib/libm.so.6 (0x7f…)`, or a path alone.
fn parse_library(line: &str) -> Option<Binary> {
    let path = line.split_once("=> ").map_or(line, |(_, path)| path);
    let path = path.trim().rsplit_once(" (0x")?.0;
    path.starts_with('/').then(|| Binary::at(Path::new(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_with_their_libraries() {
        let files = Files::from_command(OsStr::new("sh"), None).unwrap();
        assert!(files.files[0].shown.ends_with("sh"), "{files:?}");
        let is_libc = |file: &Binary| file.shown.to_string_lossy().contains("libc.");
        assert!(files.files.iter().any(is_libc), "{files:?}");
        assert!(files.gaps.is_empty() && files.script.is_none(), "{files:?}");
        let none = Files::from_command(OsStr::new("no-such-program"), None).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn script_is_searched_by_its_interpreter() {
        let directory = tempfile::tempdir().unwrap();
        for first in ["#!/bin/sh -e", "#! /usr/bin/env -S sh"] {
            let script = directory.path().join("script");
            std::fs::write(&script, format!("{first}\ntrue\n")).unwrap();
            let files = Files::from_command(script.as_os_str(), None).unwrap();
            assert!(files.files[0].shown.ends_with("sh"), "{files:?}");
            assert_eq!(files.script.as_ref(), Some(&script));
        }
    }

    #[test]
    fn all_mapped_files_of_a_process_are_searched() {
        let files = Files::from_processes(&[std::process::id()]);
        let own = std::env::current_exe().unwrap();
        assert!(files.files.contains(&Binary::at(&own)), "{files:?}");
        let none = Files::from_processes(&[u32::MAX]);
        assert_eq!((none.files.len(), none.gaps.len()), (0, 1));
    }

    #[test]
    fn a_deleted_file_is_found_by_its_mapping() {
        let line = "7f00-7f01 r-xp 00001000 fe:00 42                 /tmp/gone file (deleted)";
        let (range, path) = parse_executable(line).unwrap();
        assert_eq!(path, "/tmp/gone file (deleted)");
        let own = std::process::id();
        let found = mapped_binary(own, range, path);
        assert_eq!(
            found.opened,
            Path::new(&format!("/proc/{own}/map_files/7f00-7f01"))
        );
        assert_eq!(
            parse_executable("7f00-7f01 rw-p 00001000 fe:00 42 /tmp/data"),
            None
        );
        assert_eq!(
            parse_executable("7f00-7f01 r-xp 00000000 00:00 0 [vdso]"),
            None
        );
    }
}
