//! The ITT calls themselves, as `ittnotify.h` declares them: one function each, named alike.
//!
//! None of them is bound unless the collector is there. `formatted_metadata_add` is variadic,
//! which Rust cannot define; it stays null.

mod attached;
mod control;
mod counters;
mod create;
mod moments;
mod spans;

use std::ffi::c_void;

use attached::*;
use control::*;
use counters::*;
use create::*;
use moments::*;
use spans::*;

/// Returns the collector's function of a name without `__itt_`; `None` if it has none.
pub(crate) fn function(name: &[u8]) -> Option<*mut c_void> {
    let functions = FUNCTIONS.0;
    let found = functions.iter().find(|(known, _)| known.as_bytes() == name);
    found.map(|(_, function)| function.cast_mut())
}

/// Names and functions. Pointers to functions are the same for all threads.
struct Functions(&'static [(&'static str, *const c_void)]);

// SAFETY: the pointers are of functions, which never change.
unsafe impl Sync for Functions {}

macro_rules! functions {
    ($($name:ident),* $(; $($alias:ident = $target:ident),*)?) => {
        static FUNCTIONS: Functions = Functions(&[
            $((stringify!($name), $name as *const c_void),)*
            $($((stringify!($alias), $target as *const c_void),)*)?
        ]);
    };
}

functions! {
    domain_create, string_handle_create, counter_create, counter_create_typed, counter_create_v3,
    histogram_create, event_create, bind_context_metadata_to_counter,
    counter_set_value, counter_set_value_v3, counter_set_value_ex, counter_inc, counter_dec,
    counter_inc_delta, counter_dec_delta, counter_inc_v3, counter_dec_v3, counter_inc_delta_v3,
    counter_dec_delta_v3, counter_destroy, histogram_submit,
    task_begin, task_begin_ex, task_end, task_end_ex, task_begin_overlapped,
    task_begin_overlapped_ex, task_end_overlapped, task_end_overlapped_ex,
    region_begin, region_end, frame_begin_v3, frame_end_v3, frame_submit_v3,
    marker, marker_ex, event_start, event_end,
    sync_create, sync_rename, sync_destroy, sync_prepare, sync_cancel, sync_acquired,
    sync_releasing,
    metadata_add, metadata_str_add, relation_add, relation_add_ex, relation_add_to_current,
    relation_add_to_current_ex,
    thread_set_name, thread_ignore, pause, resume, detach, get_timestamp;
    // Names of the older API (`legacy/ittnotify.h`) with the same arguments.
    sync_set_name = sync_create, notify_sync_prepare = sync_prepare,
    notify_sync_cancel = sync_cancel, notify_sync_acquired = sync_acquired,
    notify_sync_releasing = sync_releasing, thr_ignore = thread_ignore
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_its_name() {
        assert_eq!(
            function(b"counter_inc"),
            Some(counter_inc as *const c_void as *mut c_void)
        );
        assert_eq!(
            function(b"sync_set_name"),
            Some(sync_create as *const c_void as *mut c_void)
        );
        assert_eq!(function(b"formatted_metadata_add"), None);
    }
}
