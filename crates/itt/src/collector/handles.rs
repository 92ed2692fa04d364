//! Address of a handle → what was defined. Read by every call, without a lock.
//!
//! The program's handles are addresses of structs: of ours, or of a static part that created
//! them before it knew of a collector. They are never dereferenced here; a static part may have
//! freed them, and older ones leave their reserved fields uninitialised.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The kind of object behind a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum HandleKind {
    Domain = 1,
    Text,
    Counter,
    Histogram,
}

/// Kind, definition id and value types of a handle, packed into one word, so that a single atomic access reads all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HandleEntry(NonZeroU64);

impl HandleEntry {
    /// Makes the entry of a handle: its kind, the id of its definition, and the ITT numbers of its
    /// value types.
    pub(crate) fn new(kind: HandleKind, id: u32, types: [u8; 2]) -> Self {
        let [first, second] = types.map(u64::from);
        let word = (kind as u64) << 32 | first << 40 | second << 48 | u64::from(id);
        // No kind is 0: the word is not either.
        HandleEntry(NonZeroU64::new(word).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns whether the handle is of this kind.
    #[inline(always)]
    pub(crate) fn is(self, kind: HandleKind) -> bool {
        (self.0.get() >> 32) as u8 == kind as u8
    }

    /// Returns the id of the handle's definition.
    #[inline(always)]
    pub(crate) fn id(self) -> u32 {
        self.0.get() as u32
    }

    /// Returns the ITT numbers of the handle's value types.
    #[inline(always)]
    pub(crate) fn types(self) -> [u8; 2] {
        [(self.0.get() >> 40) as u8, (self.0.get() >> 48) as u8]
    }
}

/// An open-addressed table; the number of slots is a power of two.
struct HandleTable {
    slots: Box<[(AtomicU64, AtomicU64)]>,
    taken: AtomicUsize,
}

/// All handles of the process.
pub(crate) struct Handles {
    /// A table that grew is replaced and left as it is: another thread may be reading it.
    table: AtomicPtr<HandleTable>,
}

const FIRST_SLOTS: usize = 1024;

impl Handles {
    /// Makes a table without handles.
    pub(crate) fn new() -> Self {
        Handles {
            table: AtomicPtr::new(Box::into_raw(Box::new(HandleTable::new(FIRST_SLOTS)))),
        }
    }

    /// Returns the entry of an address.
    #[inline(always)]
    pub(crate) fn find(&self, address: usize) -> Option<HandleEntry> {
        self.table().find(address as u64)
    }

    /// Enters a handle, or replaces the entry of its address. Callers hold the names' lock.
    pub(crate) fn enter(&self, address: usize, entry: HandleEntry) {
        if self.table().is_full() {
            let larger = self.table().to_grown();
            let larger = Box::into_raw(Box::new(larger));
            self.table.store(larger, Ordering::Release);
        }
        self.table().enter(address as u64, entry.0.get());
    }

    /// Returns the present table.
    #[inline(always)]
    fn table(&self) -> &HandleTable {
        // SAFETY: the pointer is of a table that is never freed.
        unsafe { &*self.table.load(Ordering::Acquire) }
    }
}

impl HandleTable {
    /// Makes an empty table.
    fn new(slots: usize) -> Self {
        HandleTable {
            slots: (0..slots).map(|_| Default::default()).collect(),
            taken: AtomicUsize::new(0),
        }
    }

    /// Returns the slots in the order of the search for an address.
    #[inline(always)]
    fn places(&self, address: u64) -> impl Iterator<Item = &(AtomicU64, AtomicU64)> {
        // Fibonacci hashing (Knuth, volume 3, 6.4): 2^64 over the golden ratio.
        let hash = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let mask = self.slots.len() - 1;
        (0..self.slots.len()).map(move |step| &self.slots[(hash as usize + step) & mask])
    }

    /// Returns the entry of an address; None if it is not there.
    #[inline(always)]
    fn find(&self, address: u64) -> Option<HandleEntry> {
        for (key, value) in self.places(address) {
            match key.load(Ordering::Acquire) {
                0 => return None,
                found if found == address => {
                    return NonZeroU64::new(value.load(Ordering::Relaxed)).map(HandleEntry);
                }
                _ => {}
            }
        }
        None
    }

    /// Adds an entry; the table must have room.
    fn enter(&self, address: u64, word: u64) {
        for (key, value) in self.places(address) {
            let found = key.load(Ordering::Relaxed);
            if found == 0 || found == address {
                if found == 0 {
                    self.taken.fetch_add(1, Ordering::Relaxed);
                }
                value.store(word, Ordering::Relaxed);
                key.store(address, Ordering::Release);
                return;
            }
        }
    }

    /// Returns whether more than half of the slots are taken.
    fn is_full(&self) -> bool {
        self.taken.load(Ordering::Relaxed) * 2 > self.slots.len()
    }

    /// Returns a table of twice the size with the same entries.
    fn to_grown(&self) -> Self {
        let larger = HandleTable::new(self.slots.len() * 2);
        for (key, value) in &self.slots {
            let address = key.load(Ordering::Relaxed);
            if address != 0 {
                larger.enter(address, value.load(Ordering::Relaxed));
            }
        }
        larger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_found_after_the_table_grew() {
        let handles = Handles::new();
        let entry = |id| HandleEntry::new(HandleKind::Counter, id, [4, 0]);
        for id in 1..5000u32 {
            handles.enter(id as usize * 48, entry(id));
        }
        for id in 1..5000u32 {
            assert_eq!(handles.find(id as usize * 48), Some(entry(id)));
        }
        assert_eq!(entry(7).types(), [4, 0]);
        assert_eq!(entry(7).id(), 7);
        assert!(entry(7).is(HandleKind::Counter) && !entry(7).is(HandleKind::Text));
        assert_eq!(handles.find(47), None);
        handles.enter(48, entry(9));
        assert_eq!(handles.find(48), Some(entry(9)));
    }
}
