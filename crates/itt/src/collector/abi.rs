//! The C structs and types of the ITT API, as `ittnotify.h` and `ittnotify_config.h` have them
//! (API 3.26.3). A static part may be older, and its struct shorter: see [`Features`].

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

/// `__itt_global`: what a static part passes and gets.
#[repr(C)]
pub(crate) struct Global {
    pub(crate) magic: [u8; 8],
    version_major: c_ulong,
    version_minor: c_ulong,
    pub(crate) version_build: c_ulong,
    api_initialized: c_long,
    mutex_initialized: c_long,
    atomic_counter: c_long,
    mutex: libc::pthread_mutex_t,
    lib: *mut c_void,
    error_handler: *mut c_void,
    dll_path: *mut *const c_char,
    pub(crate) api_list: *mut ApiInfo,
    next: *mut Global,
    thread_list: *mut c_void,
    pub(crate) domains: *mut DomainHandle,
    pub(crate) texts: *mut TextHandle,
    state: c_int,
    pub(crate) counters: *mut CounterInfo,
    ipt_collect_events: c_uint,
    pub(crate) histograms: *mut Histogram,
    pub(crate) counter_metadata: *mut CounterMetadata,
}

/// `ITT_MAGIC`.
pub(crate) const MAGIC: [u8; 8] = [0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30];
/// `API_VERSION_BUILD` of the oldest static part that is understood: entries of its API list
/// have a null function.
pub(crate) const BUILD_MIN: c_ulong = 20111111;
/// `API_VERSION_BUILD` from which there is a `counter_list`.
pub(crate) const BUILD_COUNTERS: c_ulong = 20151119;

/// `__itt_api_info`: one function pointer of a static part.
#[repr(C)]
pub(crate) struct ApiInfo {
    pub(crate) name: *const c_char,
    pub(crate) function: *mut *mut c_void,
    init_function: *mut c_void,
    pub(crate) null_function: *mut c_void,
    pub(crate) group: c_int,
}

/// `__itt_counter`
pub(crate) type Counter = *mut CounterInfo;

/// `__itt_domain`. Macros in the program read `flags`.
#[repr(C)]
pub(crate) struct DomainHandle {
    pub(crate) flags: c_int,
    pub(crate) name: *const c_char,
    pub(crate) name_wide: *const c_void,
    pub(crate) extra1: c_int,
    pub(crate) extra2: *mut c_void,
    pub(crate) next: *mut DomainHandle,
}

/// `__itt_string_handle`.
#[repr(C)]
pub(crate) struct TextHandle {
    pub(crate) text: *const c_char,
    pub(crate) text_wide: *const c_void,
    pub(crate) extra1: c_int,
    pub(crate) extra2: *mut c_void,
    pub(crate) next: *mut TextHandle,
}

/// `__itt_counter_info_t`.
#[repr(C)]
pub(crate) struct CounterInfo {
    pub(crate) name: *const c_char,
    pub(crate) name_wide: *const c_void,
    pub(crate) domain: *const c_char,
    pub(crate) domain_wide: *const c_void,
    pub(crate) value_type: c_int,
    pub(crate) index: c_long,
    pub(crate) extra1: c_int,
    pub(crate) extra2: *mut c_void,
    pub(crate) next: *mut CounterInfo,
}

/// `__itt_histogram`.
#[repr(C)]
pub(crate) struct Histogram {
    pub(crate) domain: *const DomainHandle,
    pub(crate) name: *const c_char,
    pub(crate) name_wide: *const c_void,
    pub(crate) x_type: c_int,
    pub(crate) y_type: c_int,
    pub(crate) extra1: c_int,
    pub(crate) extra2: *mut c_void,
    pub(crate) next: *mut Histogram,
}

/// `__itt_counter_metadata`: context that a counter got before a collector was there.
#[repr(C)]
pub(crate) struct CounterMetadata {
    pub(crate) counter: *const c_void,
    pub(crate) context_type: c_int,
    pub(crate) text: *const c_char,
    text_wide: *const c_void,
    pub(crate) number: u64,
    extra1: c_int,
    extra2: *mut c_void,
    pub(crate) next: *mut CounterMetadata,
}

/// `__itt_context_metadata`.
#[repr(C)]
pub(crate) struct ContextMetadata {
    pub(crate) context_type: c_int,
    pub(crate) value: *const c_void,
}

/// `__itt_id`, passed by value.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IttId(pub(crate) u64, pub(crate) u64, pub(crate) u64);

/// Optional fields at the end of a static part's `__itt_global`, by the version of ittnotify that it was built from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Features {
    /// There is a `counter_list`.
    pub(crate) counters: bool,
    /// There is a `histogram_list`: the API list has `histogram_create`. One build number,
    /// 20180723, was used with and without.
    pub(crate) histograms: bool,
    /// There is a `counter_metadata_list`: the API list has `bind_context_metadata_to_counter`.
    pub(crate) counter_metadata: bool,
}
