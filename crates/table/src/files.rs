//! Files of a recording: names, temporary names until they are on disk, digests.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use blake3::Hasher;

use crate::error::WriteError;
use crate::manifest::Segment;

/// Name of the manifest within a recording.
pub(crate) const MANIFEST: &str = "manifest.jsonl";
/// Ending of a file that is not complete.
pub(crate) const TEMPORARY: &str = "tmp";
/// Ending of a file that was complete but not in the manifest when `recover` found it.
pub(crate) const UNLISTED: &str = "unlisted";
/// Ending of a sealed file.
pub(crate) const SEALED: &str = "parquet";
/// Bytes that are digested and written at once: enough for BLAKE3 to use wide registers.
const BUFFER_BYTES: usize = 256 << 10;

/// Permissions of what a recording consists of, which no other user may read: it holds addresses, command lines
/// and who talks to which host.
pub(crate) const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// Creates a directory of a recording.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY_MODE).create(path)
}

/// Returns the path of a sealed file below the recording.
pub(crate) fn segment_name(table: &str, number: u32) -> String {
    format!("{table}/{number:06}.{SEALED}")
}

/// The number in the path of a sealed file; zero for other names.
pub(crate) fn segment_number(name: &str) -> u32 {
    Path::new(name)
        .file_stem()
        .and_then(|stem| stem.to_str())
        .and_then(|stem| stem.parse().ok())
        .unwrap_or(0)
}

/// Returns whether a manifest's file name stays within the recording: `<table>/<file>`.
pub(crate) fn is_inside(segment: &Segment) -> bool {
    let mut parts = Path::new(&segment.file).components();
    matches!(
        (parts.next(), parts.next(), parts.next()),
        (Some(Component::Normal(table)), Some(Component::Normal(_)), None)
            if table == segment.table.as_str()
    )
}

/// Makes names created, renamed or removed in a directory last.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), WriteError> {
    File::open(dir)
        .and_then(|file| file.sync_all())
        .map_err(|source| WriteError::io("sync", dir, source))
}

/// Returns length and BLAKE3 digest of a file, hexadecimal.
pub(crate) fn digest_file(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match io::Read::read(&mut file, &mut buffer) {
            Ok(0) => return Ok((hasher.count(), hasher.finalize().to_hex().to_string())),
            Ok(read) => hasher.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
    }
}

/// A file with a temporary name, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    /// Creates the file that will become `name`, and the table's directory.
    pub(crate) fn create(dir: &Path, table: &str, name: &str) -> Result<(Self, File), WriteError> {
        let table_dir = dir.join(table);
        if !table_dir.is_dir() {
            create_dir(&table_dir)
                .map_err(|source| WriteError::io("create", &table_dir, source))?;
            sync_dir(dir)?;
        }
        let path = dir.join(format!("{name}.{TEMPORARY}"));
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true);
        let file = options.mode(FILE_MODE).open(&path);
        let file = file.map_err(|source| WriteError::io("create", &path, source))?;
        Ok((Self(path), file))
    }

    /// Returns the temporary path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Lets go of the file without removing it, as it has another name by now.
    fn keep_file(mut self) {
        self.0.clear();
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            // Best effort: `recover` removes what stays.
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// A file that is complete and on disk, but not yet renamed.
pub(crate) struct FinishedFile {
    temporary: Temporary,
    segment: Segment,
}

impl FinishedFile {
    /// Keeps a synced file with its future manifest line.
    pub(crate) fn new(temporary: Temporary, segment: Segment) -> Self {
        Self { temporary, segment }
    }

    /// Renames the file to its final name below `dir`; the directory is not synced.
    pub(crate) fn rename(self, dir: &Path) -> Result<Segment, WriteError> {
        let path = dir.join(&self.segment.file);
        fs::rename(self.temporary.path(), &path)
            .map_err(|source| WriteError::io("rename", self.temporary.path(), source))?;
        self.temporary.keep_file();
        Ok(self.segment)
    }
}

/// A file that is digested while it is written.
pub(crate) struct DigestingFile {
    file: File,
    hasher: Hasher,
    buffer: Vec<u8>,
    /// The first error of the file system. Kept, because Parquet writers turn errors to text.
    failure: Option<io::Error>,
}

impl DigestingFile {
    /// A file that is empty so far.
    pub(crate) fn new(file: File) -> Self {
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        Self {
            file,
            hasher: Hasher::new(),
            buffer,
            failure: None,
        }
    }

    /// The first failure of the file system.
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Writes the buffer and syncs the file; returns length and digest.
    pub(crate) fn finish(&mut self) -> io::Result<(u64, String)> {
        self.write_buffer()?;
        self.file.sync_all()?;
        Ok((
            self.hasher.count(),
            self.hasher.finalize().to_hex().to_string(),
        ))
    }

    /// Writes the buffer to the file, and adds it to the digest.
    fn write_buffer(&mut self) -> io::Result<()> {
        self.hasher.update(&self.buffer);
        let result = self.file.write_all(&self.buffer);
        self.buffer.clear();
        result.inspect_err(|error| {
            let copy = match error.raw_os_error() {
                Some(errno) => io::Error::from_raw_os_error(errno),
                None => error.kind().into(),
            };
            self.failure.get_or_insert(copy);
        })
    }
}

impl Write for DigestingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.write_buffer()?;
        }
        let taken = bytes.len().min(BUFFER_BYTES);
        self.buffer.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Leaves the bytes in the buffer: `finish` is what makes them last.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
