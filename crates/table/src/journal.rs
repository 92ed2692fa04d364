//! The file `manifest.jsonl` itself: lines out, lines in, and the lock that shows whether a
//! recorder is still at work.
//!
//! Every line carries a digest of its own text as a last member, `"check"`, because a flipped
//! bit in a loss count is as bad as one in a row. A line is whole or it does not count: the
//! file is synced after each, and cut back when a write fails half way.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, fallocate, fcntl};
use nix::libc;

use crate::error::{Problem, ReadError, WriteError};
use crate::files::{FILE_MODE, MANIFEST, is_inside, sync_dir};
use crate::manifest::{FORMAT, Header, Line, Segment};

/// Longest line that is read: far above any that is written.
const LINE_BYTES: u64 = 1 << 20;
/// Disk space kept for coming lines, so that loss and end can be written on a full disk.
const RESERVE_BYTES: u64 = 64 << 10;
/// Hexadecimal digits of a line's digest.
const CHECK_DIGITS: usize = 16;

/// Returns the text of a line, with its digest and the final newline.
pub(crate) fn line_text(line: &Line) -> io::Result<String> {
    let text = serde_json::to_string(line)?;
    let body = text.strip_suffix('}').unwrap_or(&text);
    Ok(format!("{body},\"check\":\"{}\"}}\n", check(body)))
}

/// Returns the digest of a line's text up to its `"check"` member.
fn check(body: &str) -> String {
    blake3::hash(body.as_bytes()).to_hex()[..CHECK_DIGITS].to_owned()
}

/// Checks the digest of a line, and returns its JSON object without the digest.
fn checked_body(text: &str) -> Result<String, String> {
    let (body, digest) = text
        .rsplit_once(",\"check\":\"")
        .ok_or("the line is cut, or is not from a recording: it has no check")?;
    match digest.strip_suffix("\"}") {
        Some(digest) if digest == check(body) => Ok(format!("{body}}}")),
        _ => Err("the line is damaged: it does not match its check".to_owned()),
    }
}

/// A manifest opened for writing, and locked against other writers.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    /// Length of the whole lines.
    length: u64,
    /// Up to where disk space is allocated.
    reserved: u64,
}

impl Journal {
    /// Creates the manifest of a new recording with its first line.
    pub(crate) fn create(dir: &Path, header: &Header) -> Result<Self, WriteError> {
        let path = dir.join(MANIFEST);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(&path);
        let file = file.map_err(|source| WriteError::io("create", &path, source))?;
        let mut journal = Self {
            file,
            path,
            length: 0,
            reserved: 0,
        };
        journal.lock()?;
        journal.append(&[Line::Header(header.clone())])?;
        sync_dir(dir)?;
        Ok(journal)
    }

    /// Changes the owner of the manifest.
    pub(crate) fn give_to(&self, uid: u32, gid: u32) -> Result<(), WriteError> {
        fchown(&self.file, Some(uid), Some(gid))
            .map_err(|source| WriteError::io("change the owner of", &self.path, source))
    }

    /// Opens the manifest of a recording that nobody writes.
    pub(crate) fn reopen(dir: &Path) -> Result<Self, WriteError> {
        let path = dir.join(MANIFEST);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|source| WriteError::io("open", &path, source))?;
        let length = file
            .metadata()
            .map_err(|source| WriteError::io("read", &path, source))?
            .len();
        let journal = Self {
            file,
            path,
            length,
            reserved: length,
        };
        journal.lock()?;
        Ok(journal)
    }

    /// Locks the open file; the lock goes when the process dies.
    fn lock(&self) -> Result<(), WriteError> {
        match fcntl(
            &self.file,
            FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK)),
        ) {
            Ok(_) => Ok(()),
            Err(Errno::EAGAIN | Errno::EACCES) => Err(WriteError::Busy {
                path: self.path.parent().unwrap_or(&self.path).to_owned(),
            }),
            Err(errno) => Err(WriteError::io("lock", &self.path, errno.into())),
        }
    }

    /// Appends lines and syncs them; on failure the file is as before.
    pub(crate) fn append(&mut self, lines: &[Line]) -> Result<(), WriteError> {
        let text = lines.iter().map(line_text).collect::<io::Result<String>>();
        let written = text.and_then(|text| {
            self.file.seek(SeekFrom::Start(self.length))?;
            self.file.write_all(text.as_bytes())?;
            self.file.sync_data()?;
            Ok(text.len() as u64)
        });
        match written {
            Ok(bytes) => {
                self.length += bytes;
                self.reserve_space();
                Ok(())
            }
            Err(source) => {
                // A reader takes a torn line for what it is, should this fail as well.
                let _ = self.file.set_len(self.length);
                self.reserved = self.length;
                Err(WriteError::io("write", &self.path, source))
            }
        }
    }

    /// Cuts the file after its last whole line.
    pub(crate) fn cut(&mut self, length: u64) -> Result<(), WriteError> {
        let cut = self
            .file
            .set_len(length)
            .and_then(|()| self.file.sync_data());
        cut.map_err(|source| WriteError::io("truncate", &self.path, source))?;
        self.length = length;
        Ok(())
    }

    /// Frees the reserved space, after the last line.
    pub(crate) fn release(&mut self) {
        // Truncating to its own length frees what is allocated behind the end of a file.
        let _ = self.file.set_len(self.length);
        self.reserved = self.length;
    }

    /// Allocates space for coming lines, if the file system can do so.
    fn reserve_space(&mut self) {
        if self.length + RESERVE_BYTES / 2 < self.reserved {
            return;
        }
        let keep_size = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let (Ok(start), Ok(bytes)) = (i64::try_from(self.length), i64::try_from(RESERVE_BYTES))
        else {
            return;
        };
        if fallocate(&self.file, keep_size, start, bytes).is_ok() {
            self.reserved = self.length + RESERVE_BYTES;
        }
    }
}

/// A lock over a whole file.
fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Returns whether some process has the manifest open for writing, without taking the lock. So a
/// reader never blocks a recorder.
pub(crate) fn is_locked(path: &Path) -> io::Result<bool> {
    let mut lock = whole_file(libc::F_WRLCK);
    fcntl(File::open(path)?, FcntlArg::F_OFD_GETLK(&mut lock))?;
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}

/// Lines of a manifest, and problems in them.
#[derive(Debug)]
pub(crate) struct Contents {
    /// First line.
    pub(crate) header: Header,
    /// The readable lines after it, in order.
    pub(crate) lines: Vec<Line>,
    /// The lines that are damaged.
    pub(crate) problems: Vec<Problem>,
    /// Length of the file up to the end of its last whole line.
    pub(crate) whole_bytes: u64,
    /// Whether a line without an end follows, as a kill leaves it.
    pub(crate) torn: bool,
}

/// The files of one table, as the manifest has them.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    /// Files that hold the table's rows, in order.
    pub(crate) segments: Vec<Segment>,
    /// Files that a merge has replaced; they may be gone.
    pub(crate) replaced: Vec<Segment>,
    /// Whether `segments` is one merged file and nothing came after it.
    pub(crate) merged: bool,
}

impl Contents {
    /// Returns the files of each table, and problems such as a file name outside of the recording.
    pub(crate) fn holdings(&self, dir: &Path) -> (BTreeMap<String, Holding>, Vec<Problem>) {
        let mut holdings = BTreeMap::<String, Holding>::new();
        let mut problems = Vec::new();
        for line in &self.lines {
            let (Line::Segment(segment) | Line::Merged(segment)) = line else {
                continue;
            };
            if !is_inside(segment) {
                let cause = format!("names the file {:?}, which is not its own", segment.file);
                problems.push(Problem::from_file(
                    &dir.join(MANIFEST),
                    Some(segment.rows),
                    cause,
                ));
                continue;
            }
            let holding = holdings.entry(segment.table.clone()).or_default();
            holding.merged = matches!(line, Line::Merged(_));
            if holding.merged {
                holding.replaced.append(&mut holding.segments);
            }
            holding.segments.push(segment.clone());
        }
        (holdings, problems)
    }
}

/// Reads a manifest line by line. A damaged line is reported and left out.
pub(crate) fn read(dir: &Path) -> Result<Contents, ReadError> {
    let path = dir.join(MANIFEST);
    let io_error = |source| ReadError::Io {
        path: path.clone(),
        source,
    };
    let mut input = BufReader::new(File::open(&path).map_err(io_error)?);
    let first = next_line(&mut input).map_err(io_error)?;
    if first.is_empty() {
        return Err(ReadError::EmptyManifest { path });
    }
    let header = parse_header(dir, &path, &first)?;
    let mut contents = Contents {
        header,
        lines: Vec::new(),
        problems: Vec::new(),
        whole_bytes: first.len() as u64,
        torn: false,
    };
    loop {
        let bytes = next_line(&mut input).map_err(io_error)?;
        if bytes.is_empty() {
            return Ok(contents);
        }
        if bytes.last() != Some(&b'\n') && (bytes.len() as u64) < LINE_BYTES {
            contents.torn = true;
            return Ok(contents);
        }
        match parse_line(&bytes) {
            Ok(line) => contents.lines.push(line),
            Err(cause) => {
                contents
                    .problems
                    .push(Problem::at(&path, contents.whole_bytes, cause));
            }
        }
        contents.whole_bytes += bytes.len() as u64;
    }
}

/// Returns the next line with its newline; without one at the end of the file, or beyond a sane
/// length.
fn next_line(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    input.take(LINE_BYTES).read_until(b'\n', &mut line)?;
    Ok(line)
}

/// Reads one line of the manifest, and checks its checksum.
fn parse_line(bytes: &[u8]) -> Result<Line, String> {
    let body = line_body(bytes)?;
    serde_json::from_str(&body).map_err(|error| format!("the line is not understood: {error}"))
}

/// Returns the line without its checksum, which must be right.
fn line_body(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "the line is damaged: not UTF-8")?;
    checked_body(text.trim_end_matches('\n'))
}

/// Reads the header; the error says why this version cannot read on. A later format may have
/// another check, so a line without ours is asked for its format first.
fn parse_header(dir: &Path, path: &Path, bytes: &[u8]) -> Result<Header, ReadError> {
    let bad = |cause: String| ReadError::Header {
        path: path.to_owned(),
        cause,
    };
    if bytes.last() != Some(&b'\n') {
        return Err(bad(
            "the line is cut, or the file is not a manifest".to_owned()
        ));
    }
    let text = String::from_utf8_lossy(bytes);
    let body = match line_body(bytes) {
        Ok(body) => body,
        Err(cause) if text.contains("\"check\"") => return Err(bad(cause)),
        Err(cause) => {
            refuse_newer(dir, &text)?;
            return Err(bad(cause));
        }
    };
    refuse_newer(dir, &body)?;
    match serde_json::from_str(&body) {
        Ok(Line::Header(header)) => Ok(header),
        Ok(_) => Err(bad("the first line is no header".into())),
        Err(error) => Err(bad(format!("the header is not understood: {error}"))),
    }
}

/// Returns an error if this is the header of a later format.
fn refuse_newer(dir: &Path, text: &str) -> Result<(), ReadError> {
    let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let header = &value["header"];
    match header["format"].as_u64() {
        Some(found) if found > u64::from(FORMAT) => Err(ReadError::Newer {
            path: dir.to_owned(),
            found,
            whylat: header["whylat"]
                .as_str()
                .unwrap_or("of a later version")
                .to_owned(),
        }),
        _ => Ok(()),
    }
}
