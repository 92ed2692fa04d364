//! Waits for the lock of a file: `flock()`, `fcntl(F_SETLKW)` and what calls them, as SQLite and lock files do.

use table::WaitObject;
use table::tables::Waits;

/// System calls that wait for the lock of a file, by their numbers on x86-64 and on ARM64: fcntl, flock. No number is of another
/// call that waits for a file on the other machine.
const LOCK_CALLS: [i32; 4] = [72, 73, 25, 32];

/// Returns whether a thread waited for the lock of a file. Signals end such a wait; those for a disk they do not.
pub fn is_file_lock(rows: &Waits, row: usize) -> bool {
    let is_file = rows.kind[row] == WaitObject::File && !rows.uninterruptible[row];
    let syscall = rows.syscall[row];
    is_file && syscall.is_some_and(|number| LOCK_CALLS.contains(&number))
}
