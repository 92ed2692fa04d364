//! A static ittnotify part: which functions it wants, and which of ours it gets.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::collector::abi::{
    ApiInfo, BUILD_COUNTERS, BUILD_MIN, CounterInfo, CounterMetadata, DomainHandle, Features,
    Global, Histogram, MAGIC, TextHandle,
};
use crate::collector::{calls, memory};

/// Groups of functions that a user may choose from (`___itt_group_id`), comma separated.
const GROUPS_VARIABLE: &str = "INTEL_ITTNOTIFY_GROUPS";
/// Their names and bits (`ITT_GROUP_LIST`).
const GROUPS: [(&str, c_int); 16] = [
    ("all", -1),
    ("control", 1 << 1),
    ("thread", 1 << 2),
    ("mark", 1 << 3),
    ("sync", 1 << 4),
    ("fsync", 1 << 5),
    ("jit", 1 << 6),
    ("model", 1 << 7),
    ("counter", 1 << 8),
    ("frame", 1 << 9),
    ("stitch", 1 << 10),
    ("heap", 1 << 11),
    ("structure", 1 << 12),
    ("suppress", 1 << 13),
    ("arrays", 1 << 14),
    ("module", 1 << 15),
];
/// Groups that are on whatever the user chose, as in `__itt_get_groups`: counter to heap.
const GROUPS_ALWAYS: c_int = 0xf << 8;
/// Functions of a static part are fewer than this; 3.26.3 has 156.
const SLOTS_MAX: usize = 4096;

/// A static part that was found to be one.
pub(crate) struct StaticPart {
    global: *mut Global,
    features: Features,
}

impl StaticPart {
    /// Reads the static part of a program; `None` if its version is unknown.
    ///
    /// # Safety
    ///
    /// The pointer is null or of an `__itt_global`.
    pub(crate) unsafe fn from_global(global: *mut Global) -> Option<Self> {
        if global.is_null() {
            return None;
        }
        // SAFETY: every version of the struct begins so. There is no reference to all of it, as
        // it may be shorter than ours.
        let (magic, build, list) =
            unsafe { ((*global).magic, (*global).version_build, (*global).api_list) };
        if magic != MAGIC || build < BUILD_MIN || list.is_null() {
            return None;
        }
        let mut part = StaticPart {
            global,
            features: Features {
                counters: build >= BUILD_COUNTERS,
                histograms: false,
                counter_metadata: false,
            },
        };
        part.features.histograms = part.has_function(c"__itt_histogram_create");
        part.features.counter_metadata =
            part.has_function(c"__itt_bind_context_metadata_to_counter");
        Some(part)
    }

    /// Returns the functions that the program's static part asks for.
    fn slots(&self) -> impl Iterator<Item = &ApiInfo> {
        // SAFETY: the list ends with an entry without a name; it was found not to be null.
        let all = (0..SLOTS_MAX).map(|index| unsafe { &*(*self.global).api_list.add(index) });
        all.take_while(|slot| !slot.name.is_null())
    }

    /// Returns whether the program's table has a function of this name.
    fn has_function(&self, name: &CStr) -> bool {
        // SAFETY: the names of a static part are C strings.
        self.slots()
            .any(|slot| unsafe { CStr::from_ptr(slot.name) } == name)
    }

    /// Sets the program's function pointers to the collector's functions, or to null.
    pub(crate) fn bind(&self) {
        let chosen = chosen_groups(std::env::var(GROUPS_VARIABLE).ok().as_deref());
        for slot in self.slots() {
            // SAFETY: the names of a static part are C strings.
            let name = unsafe { CStr::from_ptr(slot.name) }.to_bytes();
            let function = name.strip_prefix(b"__itt_").and_then(calls::function);
            let function = function.filter(|_| slot.group & chosen != 0);
            set_slot(slot, function.unwrap_or(slot.null_function));
        }
    }

    /// Sets all function pointers to null: the program's calls do nothing.
    pub(crate) fn bind_nothing(&self) {
        for slot in self.slots() {
            set_slot(slot, slot.null_function);
        }
    }

    /// Returns whether the static part is in the program, not in a library that may be unloaded.
    pub(crate) fn is_in_main_program(&self) -> bool {
        memory::is_in_main_program(self.global)
    }

    /// Returns the first domain of the static part's list.
    pub(crate) fn domains(&self) -> *mut DomainHandle {
        // SAFETY: every version has the field.
        unsafe { (*self.global).domains }
    }

    /// Returns the first string handle of the static part's list.
    pub(crate) fn texts(&self) -> *mut TextHandle {
        // SAFETY: every version has the field.
        unsafe { (*self.global).texts }
    }

    /// Returns the first counter of the static part's list; null without a list.
    pub(crate) fn counters(&self) -> *mut CounterInfo {
        match self.features.counters {
            // SAFETY: this version has the field.
            true => unsafe { (*self.global).counters },
            false => std::ptr::null_mut(),
        }
    }

    /// Returns the first histogram of the static part's list; null without a list.
    pub(crate) fn histograms(&self) -> *mut Histogram {
        match self.features.histograms {
            // SAFETY: this version has the field.
            true => unsafe { (*self.global).histograms },
            false => std::ptr::null_mut(),
        }
    }

    /// Returns the first description of a counter in the static part's list; null without a list.
    pub(crate) fn counter_metadata(&self) -> *mut CounterMetadata {
        match self.features.counter_metadata {
            // SAFETY: this version has the field.
            true => unsafe { (*self.global).counter_metadata },
            false => std::ptr::null_mut(),
        }
    }
}

/// Sets a function pointer through which other threads may be calling.
fn set_slot(slot: &ApiInfo, function: *mut c_void) {
    if !slot.function.is_null() {
        // SAFETY: the static part's pointer is there as long as the part, and is aligned.
        let pointer = unsafe { AtomicPtr::from_ptr(slot.function) };
        pointer.store(function, Ordering::Release);
    }
}

/// Returns the bits of the groups that a user has named; all if none were.
fn chosen_groups(named: Option<&str>) -> c_int {
    let Some(named) = named else {
        return -1;
    };
    let bits = |name: &str| {
        let group = GROUPS.iter().find(|(group, _)| *group == name);
        group.map_or(0, |(_, bits)| *bits)
    };
    named
        .split([',', ';', ' '])
        .fold(GROUPS_ALWAYS, |all, name| all | bits(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_chosen_by_name() {
        assert_eq!(chosen_groups(None), -1);
        assert_eq!(chosen_groups(Some("all")), -1);
        assert_eq!(
            chosen_groups(Some("sync,structure,nonsense")),
            GROUPS_ALWAYS | 1 << 4 | 1 << 12
        );
    }
}
