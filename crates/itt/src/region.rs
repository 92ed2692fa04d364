//! The ring file, mapped: words that several processes read and write.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::layout::{
    ChunkControl, LossCause, MAGIC, RingShape, VERSION, WORD_BYTES, WORD_CHUNK_BYTES, WORD_CHUNKS,
    WORD_CLOSED, WORD_DEFINITION_CHUNKS, WORD_MAGIC, WORD_NEXT_ID, WORD_PID_NAMESPACE,
    WORD_VERSION,
};

/// A mapped ring file.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<AtomicU64>,
    words: usize,
    /// How the file is divided. A copy: the one in the file may be scribbled over.
    pub(crate) shape: RingShape,
}

// SAFETY: the region is made of atomics, and the mapping lives as long as the value.
unsafe impl Send for Region {}
// SAFETY: see above.
unsafe impl Sync for Region {}

impl Region {
    /// Creates the ring's file, allocates it and maps it.
    pub(crate) fn create(path: &Path, shape: RingShape) -> Result<Self, Error> {
        let bytes = file_bytes(&shape)?;
        let failed = |what| {
            move |source| Error::Ring {
                what,
                path: path.to_owned(),
                source,
            }
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(path).map_err(failed("create"))?;
        let region = allocate(&file, bytes)
            .map_err(failed("allocate"))
            .and_then(|()| Self::map(&file, bytes, shape).map_err(failed("map")));
        match region {
            Ok(region) => {
                region.write_header();
                Ok(region)
            }
            Err(error) => {
                // The error matters more than a file that may be left.
                let _ = std::fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Allocates a ring in memory without a file name, and maps it. Nobody can change its length,
    /// so that no mapping of it can fail later.
    pub(crate) fn create_nameless(shape: RingShape) -> Result<(Self, OwnedFd), Error> {
        let bytes = file_bytes(&shape)?;
        let failed = |what| {
            move |source| Error::Ring {
                what,
                path: "in memory".into(),
                source,
            }
        };
        let file = create_memory_file().map_err(failed("create"))?;
        allocate(&file, bytes).map_err(failed("allocate"))?;
        seal_length(&file).map_err(failed("seal"))?;
        let region = Self::map(&file, bytes, shape).map_err(failed("map"))?;
        region.write_header();
        Ok((region, file.into()))
    }

    /// Maps the file of a recorder's ring.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |what| {
            move |source| Error::Ring {
                what,
                path: path.to_owned(),
                source,
            }
        };
        let not_a_ring = |why| Error::NotARing {
            path: path.to_owned(),
            why,
        };
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(failed("open"))?;
        let metadata = file.metadata().map_err(failed("read"))?;
        if !metadata.is_file() {
            return Err(not_a_ring("it is not a file"));
        }
        let shape = read_shape(&file).map_err(failed("read"))?;
        let shape = shape.ok_or_else(|| not_a_ring("it has another beginning or version"))?;
        if file_bytes(&shape)? != metadata.len() {
            return Err(not_a_ring("it has another length than it says"));
        }
        Self::map(&file, metadata.len(), shape).map_err(failed("map"))
    }

    /// Maps the ring's file into memory.
    fn map(file: &File, bytes: u64, shape: RingShape) -> io::Result<Self> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file, at an address that the kernel chooses.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                access,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region {
            base,
            words: length / WORD_BYTES,
            shape,
        })
    }

    /// Writes the header; its magic comes last, so that an incomplete file is no ring.
    fn write_header(&self) {
        let RingShape {
            chunks,
            definition_chunks,
            chunk_bytes,
        } = self.shape;
        let header = [
            (WORD_VERSION, VERSION),
            (WORD_CHUNKS, chunks as u64),
            (WORD_CHUNK_BYTES, chunk_bytes as u64),
            (WORD_DEFINITION_CHUNKS, definition_chunks as u64),
            (WORD_PID_NAMESPACE, pid_namespace()),
            (WORD_NEXT_ID, 1),
        ];
        for (word, value) in header {
            self.word(word).store(value, Ordering::Relaxed);
        }
        self.word(WORD_MAGIC).store(MAGIC, Ordering::Release);
    }

    /// Returns the ring's memory as words.
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has that many words, is aligned to a page, and any bytes are a
        // value of an atomic integer.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }

    /// Returns a word of the file.
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        &self.words()[index]
    }

    /// Returns a word of a chunk's control.
    pub(crate) fn control(&self, chunk: usize, field: ChunkControl) -> &AtomicU64 {
        self.word(RingShape::control_at(chunk, field))
    }

    /// Returns the words of a chunk.
    pub(crate) fn chunk(&self, chunk: usize) -> &[AtomicU64] {
        &self.words()[self.shape.chunk_at(chunk)]
    }

    /// Counts a record that could not be written.
    #[cold]
    pub(crate) fn count_loss(&self, tid: u32, cause: LossCause) {
        let cell = self.word(RingShape::loss_at(tid, cause));
        cell.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether the recorder has the same pid namespace as this process. Read again after
    /// each fork: the parent may have called `unshare`.
    pub(crate) fn is_same_pid_namespace(&self) -> bool {
        let recorders = self.word(WORD_PID_NAMESPACE).load(Ordering::Relaxed);
        recorders != 0 && recorders == pid_namespace()
    }

    /// Returns whether the recorder has gone.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        // SAFETY: every region has a header. Each call asks this, so that it is not checked.
        let closed = unsafe { self.base.add(WORD_CLOSED).as_ref() };
        closed.load(Ordering::Relaxed) != 0
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone, and references to it cannot outlive the value.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * WORD_BYTES) };
    }
}

/// Returns the bytes of a ring of this shape.
fn file_bytes(shape: &RingShape) -> Result<u64, Error> {
    let refused = |why| Error::Shape { shape: *shape, why };
    shape.file_bytes().map_err(refused)
}

/// Returns the inode of this process's pid namespace; 0 if it cannot be read.
fn pid_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino())
}

/// Gives the file its bytes on disk, so that no write can fail later.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    // SAFETY: the call takes an open descriptor and plain numbers; it returns the errno.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Returns a file in memory, `memfd_create(2)`.
fn create_memory_file() -> io::Result<File> {
    let create = |flags| {
        // SAFETY: the name is a C string, and a descriptor that is returned is ours alone.
        unsafe {
            match libc::memfd_create(c"whylat-itt".as_ptr(), flags) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(File::from_raw_fd(fd)),
            }
        }
    };
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Linux 6.3 knows the flag, and may be set up to demand it (`vm.memfd_noexec`).
    create(flags | libc::MFD_NOEXEC_SEAL).or_else(|_| create(flags))
}

/// Makes the file's length final.
fn seal_length(file: &File) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: the call takes an open descriptor and a plain number.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Reads the shape from a file's header; `None` if the file is no ring of this version.
fn read_shape(file: &File) -> io::Result<Option<RingShape>> {
    use std::os::unix::fs::FileExt;

    let mut header = [0; (WORD_PID_NAMESPACE + 1) * WORD_BYTES];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) => {}
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(why) => return Err(why),
    }
    let (words, _) = header.as_chunks::<WORD_BYTES>();
    let word = |index: usize| u64::from_ne_bytes(words[index]);
    if word(WORD_MAGIC) != MAGIC || word(WORD_VERSION) != VERSION {
        return Ok(None);
    }
    let size = |index| usize::try_from(word(index)).unwrap_or(usize::MAX);
    Ok(Some(RingShape {
        chunks: size(WORD_CHUNKS),
        definition_chunks: size(WORD_DEFINITION_CHUNKS),
        chunk_bytes: size(WORD_CHUNK_BYTES),
    }))
}
