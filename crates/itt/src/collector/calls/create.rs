//! Calls that create objects. They work also while nobody records: macros in the program read a
//! domain's `flags` through whatever pointer it got.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;

use crate::collector::abi::{
    ContextMetadata, Counter, CounterInfo, DomainHandle, Histogram, TextHandle,
};
use crate::collector::definition::Definition;
use crate::collector::handles::{HandleEntry, HandleKind};
use crate::collector::memory::string_bytes;
use crate::collector::names::{NameKey, record_half};
use crate::collector::state::{Collector, current_collector};
use crate::layout::TEXT_BYTES;
use crate::value::ValueType;
use crate::wire::{RecordCode, RecordHead};

/// `const char*`
type CharPointer = *const c_char;

/// `__itt_context_nameA`, `deviceA`, `unitsA` and `pci_addrA`: C strings.
const CONTEXT_TEXTS: [c_int; 4] = [1, 3, 5, 7];
/// `__itt_context_tid` to `__itt_context_cpu_cycles_flag`: 64-bit numbers.
const CONTEXT_NUMBERS: std::ops::RangeInclusive<c_int> = 9..=17;

/// Returns the domain of this name; makes it if it is new.
///
/// # Safety
///
/// `name` is null or a C string.
pub(super) unsafe extern "C" fn domain_create(name: CharPointer) -> *mut DomainHandle {
    // SAFETY: the API demands a C string or null.
    let Some(name) = (unsafe { string_bytes(name) }) else {
        return null_mut();
    };
    let text = name.clone();
    let made = create(NameKey::Domain(name), HandleKind::Domain, [0; 2], || {
        DomainHandle {
            flags: 1,
            name: lasting(text),
            name_wide: null_mut(),
            extra1: 0,
            extra2: null_mut(),
            next: null_mut(),
        }
    });
    made.unwrap_or_else(disabled_domain)
}

/// Returns the handle of a text; makes it if it is new.
///
/// # Safety
///
/// `text` is null or a C string.
pub(super) unsafe extern "C" fn string_handle_create(text: CharPointer) -> *mut TextHandle {
    // SAFETY: the API demands a C string or null.
    let Some(name) = (unsafe { string_bytes(text) }) else {
        return null_mut();
    };
    let text = name.clone();
    let made = create(NameKey::Text(name), HandleKind::Text, [0; 2], || {
        TextHandle {
            text: lasting(text),
            text_wide: null_mut(),
            extra1: 0,
            extra2: null_mut(),
            next: null_mut(),
        }
    });
    made.unwrap_or(null_mut())
}

/// Returns the counter of this name, with unsigned values; makes it if it is new.
///
/// # Safety
///
/// `name` and `domain` are null or C strings.
pub(super) unsafe extern "C" fn counter_create(name: CharPointer, domain: CharPointer) -> Counter {
    // SAFETY: the caller promises the same. The header says that such a counter has the type u64, 1.
    unsafe { counter_create_typed(name, domain, 1) }
}

/// Returns the counter of this name and type; makes it if it is new.
///
/// # Safety
///
/// `name` and `domain` are null or C strings.
pub(super) unsafe extern "C" fn counter_create_typed(
    name: CharPointer,
    domain: CharPointer,
    value_type: c_int,
) -> Counter {
    // SAFETY: the API demands C strings or null.
    match unsafe { (string_bytes(name), string_bytes(domain)) } {
        (Some(name), domain) => counter(name, domain.unwrap_or_default(), value_type),
        (None, _) => null_mut(),
    }
}

/// Returns the counter of this name and type in a domain; makes it if it is new.
///
/// # Safety
///
/// `domain` is null or points to a domain; `name` is null or a C string.
pub(super) unsafe extern "C" fn counter_create_v3(
    domain: *const DomainHandle,
    name: CharPointer,
    value_type: c_int,
) -> Counter {
    if domain.is_null() {
        return null_mut();
    }
    // SAFETY: the API demands a domain that was created, and a C string.
    match unsafe { (string_bytes(name), string_bytes((*domain).name)) } {
        (Some(name), domain) => counter(name, domain.unwrap_or_default(), value_type),
        (None, _) => null_mut(),
    }
}

/// Returns the handle of a counter; makes it if it is new.
fn counter(name: Vec<u8>, domain: Vec<u8>, value_type: c_int) -> Counter {
    let number = ValueType::byte_of(value_type);
    let texts = (name.clone(), domain.clone());
    let name = NameKey::Counter {
        domain,
        name,
        value_type: number,
    };
    let made = create(name, HandleKind::Counter, [number, 0], || CounterInfo {
        name: lasting(texts.0),
        name_wide: null_mut(),
        domain: lasting(texts.1),
        domain_wide: null_mut(),
        value_type,
        index: 0,
        extra1: 0,
        extra2: null_mut(),
        next: null_mut(),
    });
    made.unwrap_or(null_mut())
}

/// Returns the histogram of this name and types; makes it if it is new.
///
/// # Safety
///
/// `name` is null or a C string.
pub(super) unsafe extern "C" fn histogram_create(
    domain: *const DomainHandle,
    name: CharPointer,
    x_type: c_int,
    y_type: c_int,
) -> *mut Histogram {
    let known = current_collector().and_then(|collector| collector.handles.find(domain.addr()));
    let known = known.filter(|entry| entry.is(HandleKind::Domain));
    // SAFETY: the API demands a C string or null.
    let (Some(known), Some(text)) = (known, unsafe { string_bytes(name) }) else {
        return null_mut();
    };
    let types = [ValueType::byte_of(y_type), ValueType::byte_of(x_type)];
    let name = NameKey::Histogram {
        domain: known.id(),
        name: text.clone(),
        types,
    };
    let made = create(name, HandleKind::Histogram, types, || Histogram {
        domain,
        name: lasting(text),
        name_wide: null_mut(),
        x_type,
        y_type,
        extra1: 0,
        extra2: null_mut(),
        next: null_mut(),
    });
    made.unwrap_or(null_mut())
}

/// Returns the number of the event of this name; makes it if it is new.
///
/// # Safety
///
/// `name` is null or points to `length` bytes, or to fewer and a zero.
pub(super) unsafe extern "C" fn event_create(name: CharPointer, length: c_int) -> c_int {
    let Some(collector) = current_collector() else {
        return 0;
    };
    if name.is_null() {
        return 0;
    }
    let limit = usize::try_from(length).unwrap_or(0);
    // SAFETY: the API demands a string of that length; one that ends earlier is read to its end.
    let text = unsafe {
        std::slice::from_raw_parts(name.cast::<u8>(), libc::strnlen(name, limit)).to_vec()
    };
    let known =
        collector.with_names(|names| names.intern(&collector.region, NameKey::Event(text)).id);
    known.map_or(0, |id| id as c_int)
}

/// Records the description of a counter: unit, device, and so on.
///
/// # Safety
///
/// `metadata` is null or points to `length` entries; the value of each is null or of its type.
pub(super) unsafe extern "C" fn bind_context_metadata_to_counter(
    counter: *const CounterInfo,
    length: usize,
    metadata: *const ContextMetadata,
) {
    let Some(collector) = current_collector() else {
        return;
    };
    let known = collector.handles.find(counter.addr());
    let Some(known) = known.filter(|entry| entry.is(HandleKind::Counter)) else {
        return;
    };
    if metadata.is_null() {
        return;
    }
    for index in 0..length {
        // SAFETY: the API demands an array of that length.
        let (context_type, value) = unsafe {
            let entry = &*metadata.add(index);
            (entry.context_type, entry.value)
        };
        // SAFETY: the API demands a value of that type.
        if let Some((number, text)) = unsafe { context_value(context_type, value) } {
            let definition = Definition::from_context(known.id(), context_type, number, &text);
            collector.with_names(|names| names.define(&collector.region, definition));
        }
    }
}

/// Returns a value of the description as a number or text; `None` for an unknown type.
///
/// # Safety
///
/// The pointer is null or of a value of that `__itt_context_type`.
unsafe fn context_value(context_type: c_int, value: *const c_void) -> Option<(u64, Vec<u8>)> {
    if value.is_null() {
        return None;
    }
    if CONTEXT_TEXTS.contains(&context_type) {
        // SAFETY: these types have C strings.
        return Some((
            0,
            unsafe { CStr::from_ptr(value.cast()) }.to_bytes().to_vec(),
        ));
    }
    if CONTEXT_NUMBERS.contains(&context_type) {
        // SAFETY: these types have 64-bit numbers.
        return Some((unsafe { value.cast::<u64>().read_unaligned() }, Vec::new()));
    }
    None
}

/// Records the name of a lock by its address.
///
/// # Safety
///
/// `object_type` and `name` are null or C strings.
pub(super) unsafe extern "C" fn sync_create(
    address: *mut c_void,
    object_type: CharPointer,
    name: CharPointer,
    attribute: c_int,
) {
    // SAFETY: the API demands C strings or null.
    let (object_type, name) = unsafe { (string_bytes(object_type), string_bytes(name)) };
    let head = RecordHead::new(RecordCode::SyncObject, 0);
    define(|| {
        Definition::new(head)
            .word(address.addr() as u64)
            .word(attribute as u32 as u64)
            .text(record_half(&object_type.unwrap_or_default()))
            .text(record_half(&name.unwrap_or_default()))
    });
}

/// Records a new name of a lock.
///
/// # Safety
///
/// `name` is null or a C string.
pub(super) unsafe extern "C" fn sync_rename(address: *mut c_void, name: CharPointer) {
    // SAFETY: the API demands a C string or null.
    let name = unsafe { string_bytes(name) }.unwrap_or_default();
    let head = RecordHead::new(RecordCode::SyncRenamed, 0);
    define(|| {
        Definition::new(head)
            .word(address.addr() as u64)
            .text(&name)
    });
}

/// Records the name of the calling thread.
///
/// # Safety
///
/// `name` is null or a C string.
pub(super) unsafe extern "C" fn thread_set_name(name: CharPointer) {
    // SAFETY: the API demands a C string or null.
    if let Some(name) = unsafe { string_bytes(name) } {
        define(|| Definition::new(RecordHead::new(RecordCode::ThreadName, 0)).text(&name));
    }
}

/// Writes a definition without an id, if a recorder reads the ring.
fn define(make: impl FnOnce() -> Definition) {
    if let Some(collector) = current_collector().filter(|collector| !collector.region.is_closed()) {
        let definition = make();
        collector.with_names(|names| names.define(&collector.region, definition));
    }
}

/// Returns the handle of a name; makes it if it is new. `None` within another such call of this
/// thread.
fn create<T>(
    name: NameKey,
    kind: HandleKind,
    types: [u8; 2],
    make: impl FnOnce() -> T,
) -> Option<*mut T> {
    let collector: &'static Collector = current_collector()?;
    collector.with_names(|names| {
        let known = names.intern(&collector.region, name);
        if known.handle == 0 {
            known.handle = Box::into_raw(Box::new(make())).expose_provenance();
            let entry = HandleEntry::new(kind, known.id, types);
            collector.handles.enter(known.handle, entry);
        }
        std::ptr::with_exposed_provenance_mut(known.handle)
    })
}

/// Makes a C string that is never freed, as handles are not.
fn lasting(text: Vec<u8>) -> *const c_char {
    let text = text.into_iter().take(TEXT_BYTES).collect::<Vec<u8>>();
    CString::new(text).unwrap_or_default().into_raw()
}

/// Makes a domain that is off, so that the program skips its tasks.
fn disabled_domain() -> *mut DomainHandle {
    Box::into_raw(Box::new(DomainHandle {
        flags: 0,
        name: c"".as_ptr(),
        name_wide: null_mut(),
        extra1: 0,
        extra2: null_mut(),
        next: null_mut(),
    }))
}
