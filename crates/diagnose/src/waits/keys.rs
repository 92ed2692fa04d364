//! Keys of objects, threads and wakers, as small numbers: each key gets the next one when it
//! is first seen.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use table::WaitObject;
use table::Waker;
use table::tables::{Spins, Waits};

/// Fields of a row that describe its object.
struct ObjectFields {
    kind: WaitObject,
    pid: u32,
    conn: Option<u64>,
    object: Option<u64>,
    fd: Option<i32>,
    syscall: Option<i32>,
}

/// One object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectKey {
    /// Kind; a listener's socket cookie is that of a connection here.
    pub kind: WaitObject,
    /// Process that alone knows it; 0 if it is not of one process.
    pub pid: u32,
    /// Descriptor of a set, or number of a system call; -1 without one.
    pub fd: i32,
    /// Socket cookie, inode, address or number; 0 without one.
    pub id: u64,
    /// Whether `id` is a socket cookie.
    pub is_conn: bool,
}

impl ObjectKey {
    /// Makes the key of a connection or listener by its id.
    pub const fn conn(conn: u64) -> Self {
        Self {
            kind: WaitObject::Connection,
            pid: 0,
            fd: -1,
            id: conn,
            is_conn: true,
        }
    }

    /// Makes the key of the object that a row waited for.
    pub fn from_wait(rows: &Waits, row: usize) -> Self {
        Self::from_fields(&ObjectFields {
            kind: rows.kind[row],
            pid: rows.pid[row],
            conn: rows.conn[row],
            object: rows.object[row],
            fd: rows.fd[row],
            syscall: rows.syscall[row],
        })
    }

    /// Returns the object that a thread polled without waiting.
    pub fn from_spin(rows: &Spins, row: usize) -> Self {
        Self::from_fields(&ObjectFields {
            kind: rows.kind[row],
            pid: rows.pid[row],
            conn: rows.conn[row],
            object: rows.object[row],
            fd: rows.fd[row],
            syscall: Some(rows.syscall[row]),
        })
    }

    /// Makes an object's key: which columns count depends on its kind.
    #[inline]
    fn from_fields(fields: &ObjectFields) -> Self {
        if let Some(conn) = fields.conn {
            return Self::conn(conn);
        }
        let (kind, pid) = (fields.kind, fields.pid);
        let id = fields.object.unwrap_or(0);
        let (pid, fd, id) = match kind {
            WaitObject::Connection
            | WaitObject::Listener
            | WaitObject::Datagram
            | WaitObject::Unix
            | WaitObject::Socket
            | WaitObject::Pipe
            | WaitObject::File
            | WaitObject::Event => (0, -1, id),
            WaitObject::Futex => (pid, -1, id),
            WaitObject::Epoll | WaitObject::IoUring => (pid, fields.fd.unwrap_or(-1), id),
            WaitObject::Other => (pid, fields.syscall.unwrap_or(-1), 0),
            WaitObject::Poll
            | WaitObject::Select
            | WaitObject::Sleep
            | WaitObject::Child
            | WaitObject::Signal
            | WaitObject::PageFault => (pid, -1, 0),
        };
        Self {
            kind,
            pid,
            fd,
            id,
            is_conn: false,
        }
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            kind,
            pid,
            fd,
            id,
            is_conn,
        } = *self;
        let small = (kind as u64) << 1 | u64::from(is_conn);
        state.write_u64(id);
        state.write_u64(u64::from(pid) << 32 ^ u64::from(fd as u32) << 8 ^ small);
    }
}

/// A thread: process and thread id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadKey {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
}

impl Hash for ThreadKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.pid) << 32 | u64::from(self.tid));
    }
}

/// Waker of a wait. What an interrupt interrupted has no part in it, and is not distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakerKey {
    /// A thread.
    Thread(ThreadKey),
    /// An interrupt or softirq.
    Interrupt,
    /// Not seen.
    Unseen,
}

impl WakerKey {
    /// Makes the key of a row's waker.
    pub fn from_wait(rows: &Waits, index: usize) -> Self {
        match (
            rows.waker[index],
            rows.waker_pid[index],
            rows.waker_tid[index],
        ) {
            (Waker::Thread, Some(pid), Some(tid)) => Self::Thread(ThreadKey { pid, tid }),
            (Waker::Interrupt, ..) => Self::Interrupt,
            (Waker::Thread | Waker::Unseen, ..) => Self::Unseen,
        }
    }
}

impl Hash for WakerKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Thread(thread) => thread.hash(state),
            Self::Interrupt => state.write_u64(u64::MAX),
            Self::Unseen => state.write_u64(u64::MAX - 1),
        }
    }
}

/// Keys by number.
#[derive(Debug)]
pub struct KeyNumbers<K> {
    numbers: HashMap<K, u32, BuildHasherDefault<FoldedKey>>,
    keys: Vec<K>,
}

impl<K> Default for KeyNumbers<K> {
    fn default() -> Self {
        Self {
            numbers: HashMap::default(),
            keys: Vec::new(),
        }
    }
}

impl<K: Copy + Eq + Hash> KeyNumbers<K> {
    /// Returns the number of a key; a new key gets the next number.
    #[inline(always)] // three times a row
    pub fn number(&mut self, key: K) -> u32 {
        let next = self.keys.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.keys.push(key);
        }
        number
    }

    /// Returns the key with this number.
    pub fn key(&self, number: u32) -> K {
        self.keys[number as usize]
    }

    /// Returns all keys, in the order of their numbers.
    pub fn keys(&self) -> &[K] {
        &self.keys
    }
}

/// Multiplies by 2^64 divided by the golden ratio (Knuth, TAOCP 3, 6.4) and folds, a word at a time:
/// the keys are numbers that the kernel gives, and SipHash would cost more than the rest of a row.
#[derive(Debug, Default)]
pub(super) struct FoldedKey(u64);

impl Hasher for FoldedKey {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let product = (self.0.rotate_left(29) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }
}
