//! Reports of a role by the Intel ITT API, as any instrumented program makes them: through
//! Intel's own static part, which the crate `ittapi-sys` compiles. Nobody listens unless the role
//! was started with a collector in its environment; then each call is a test of a pointer.
//!
//! Only here are the C functions called. They are made as the macros of `ittnotify.h` make them. The
//! first call is [`Domain::begin`]'s, in a process of one thread: it loads the collector, if there
//! is one, and after it the pointers do not change any more. So no handle is made before a load that
//! fails, which would free it.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr::NonNull;

use ittapi_sys as c;

/// An ITT domain of the program, with its handle; no handle: no collector is loaded.
#[derive(Debug)]
pub(crate) struct Domain {
    name: &'static CStr,
    handle: Option<NonNull<c::__itt_domain>>,
}

/// Name of a kind of task.
#[derive(Debug)]
pub(crate) struct TaskName(Option<NonNull<c::__itt_string_handle>>);

/// A counter of bytes.
#[derive(Debug)]
pub(crate) struct ByteCounter(Option<NonNull<c::___itt_counter>>);

/// A task of this thread that lasts until it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Task<'a> {
    domain: &'a Domain,
    /// Tasks of a thread are nested, so that it stays on its own.
    of_this_thread: PhantomData<*const ()>,
}

// SAFETY: the handle is an address that the C functions take from any thread; they and the collector
// lock what they change.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}
// SAFETY: as above.
unsafe impl Send for TaskName {}
// SAFETY: as above.
unsafe impl Sync for TaskName {}
// SAFETY: as above.
unsafe impl Send for ByteCounter {}
// SAFETY: as above.
unsafe impl Sync for ByteCounter {}

/// Reports the name of the calling thread.
pub(crate) fn name_thread(name: &CStr) {
    // SAFETY: the pointer is only written by the first call, before there is a second thread; the
    // function copies the name, a C string.
    unsafe {
        if let Some(call) = c::__itt_thread_set_name_ptr__3_0 {
            call(name.as_ptr());
        }
    }
}

impl Domain {
    /// Reports the names of the process's only thread and of a domain.
    pub(crate) fn begin(name: &'static CStr, thread: &CStr) -> Self {
        name_thread(thread);
        // SAFETY: the pointer does not change any more; the function copies the name, a C string.
        let handle = unsafe {
            c::__itt_domain_create_ptr__3_0.map(|create| NonNull::new(create(name.as_ptr())))
        };
        Domain {
            name,
            handle: handle.flatten(),
        }
    }

    /// Returns a counter of this domain.
    pub(crate) fn byte_counter(&self, name: &CStr) -> ByteCounter {
        let unsigned = c::__itt_metadata_type___itt_metadata_u64;
        // SAFETY: the pointers do not change any more; names and unit are C strings and `unit` is
        // the one structure that is announced; the functions copy all of it.
        let handle = unsafe {
            let create = c::__itt_counter_create_typed_ptr__3_0;
            let create = create.map(|call| call(name.as_ptr(), self.name.as_ptr(), unsigned));
            let handle = create.and_then(NonNull::new);
            let bind = c::__itt_bind_context_metadata_to_counter_ptr__3_0;
            if let (Some(handle), Some(call)) = (handle, bind) {
                let mut unit = c::__itt_context_metadata {
                    type_: c::__itt_context_type___itt_context_unitsA,
                    value: c"bytes".as_ptr().cast_mut().cast(),
                };
                call(handle.as_ptr(), 1, &raw mut unit);
            }
            handle
        };
        ByteCounter(handle)
    }

    /// Begins a task, which is part of the one that the thread is in.
    pub(crate) fn task(&self, name: &TaskName) -> Task<'_> {
        const NONE: c::__itt_id = c::__itt_id {
            d1: 0,
            d2: 0,
            d3: 0,
        };
        if let (Some(domain), Some(name)) = (self.enabled_handle(), name.0) {
            // SAFETY: the pointer does not change any more, and the handles are those that the
            // static part or the collector gave.
            unsafe {
                if let Some(call) = c::__itt_task_begin_ptr__3_0 {
                    call(domain.as_ptr(), NONE, NONE, name.as_ptr());
                }
            }
        }
        Task {
            domain: self,
            of_this_thread: PhantomData,
        }
    }

    /// Returns the handle, unless the collector disabled the domain.
    fn enabled_handle(&self) -> Option<NonNull<c::__itt_domain>> {
        // SAFETY: the structure is never freed once a load has succeeded; the
        // collector may write the flags at any time.
        let is_enabled = |handle: &NonNull<c::__itt_domain>| unsafe {
            (&raw const (*handle.as_ptr()).flags).read_volatile() != 0
        };
        self.handle.filter(is_enabled)
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        if let Some(domain) = self.domain.enabled_handle() {
            // SAFETY: as in `Domain::task`.
            unsafe {
                if let Some(call) = c::__itt_task_end_ptr__3_0 {
                    call(domain.as_ptr());
                }
            }
        }
    }
}

impl TaskName {
    /// Makes a task's name.
    pub(crate) fn new(name: &CStr) -> Self {
        // SAFETY: the pointer does not change any more; the function copies the name, a C string.
        let handle = unsafe {
            c::__itt_string_handle_create_ptr__3_0.map(|create| NonNull::new(create(name.as_ptr())))
        };
        TaskName(handle.flatten())
    }
}

impl ByteCounter {
    /// Reports the counter's value.
    pub(crate) fn set(&self, mut bytes: u64) {
        // SAFETY: the pointer does not change any more, the handle is the one that was given, and
        // `bytes` is of the type that was announced and outlives the call.
        unsafe {
            if let (Some(counter), Some(call)) = (self.0, c::__itt_counter_set_value_ptr__3_0) {
                call(counter.as_ptr(), (&raw mut bytes).cast());
            }
        }
    }
}
