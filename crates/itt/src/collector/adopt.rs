//! Objects that a static part created before it knew of a collector.
//!
//! Create calls alone never load a collector, so programs often have all their counters by then.
//! Their addresses stay valid as handles.

use crate::collector::abi::{CounterInfo, CounterMetadata, DomainHandle, Histogram, TextHandle};
use crate::collector::definition::Definition;
use crate::collector::handles::{HandleEntry, HandleKind};
use crate::collector::memory::string_bytes;
use crate::collector::names::{NameKey, NameTable};
use crate::collector::slots::StaticPart;
use crate::collector::state::Collector;
use crate::value::ValueType;

/// Lists longer than this are taken for damaged.
const OBJECTS_MAX: usize = 1 << 20;

/// Enters all objects of a static part.
pub(crate) fn adopt_objects(
    collector: &'static Collector,
    names: &mut NameTable,
    part: &StaticPart,
) {
    let mut adoption = Adoption {
        collector,
        names,
        is_lasting: part.is_in_main_program(),
    };
    // SAFETY: the static part holds its lock: nothing changes the lists. Each is read only if
    // the struct has it, and its objects are the static part's own.
    unsafe {
        for_each(part.domains(), |object| adoption.adopt_domain(object));
        for_each(part.texts(), |object| adoption.text(object));
        for_each(part.counters(), |object| adoption.adopt_counter(object));
        for_each(part.histograms(), |object| adoption.adopt_histogram(object));
        for_each(part.counter_metadata(), |object| {
            adoption.counter_metadata(object)
        });
    }
    collector.flush_names(adoption.names);
}

struct Adoption<'a> {
    collector: &'static Collector,
    names: &'a mut NameTable,
    /// The objects are there as long as the process: a plug-in may be unloaded and free its own,
    /// so that its handles are given to nobody else.
    is_lasting: bool,
}

impl Adoption<'_> {
    /// Enters a domain that the program made before.
    ///
    /// # Safety
    ///
    /// The domain is of a static part.
    unsafe fn adopt_domain(&mut self, domain: &DomainHandle) {
        // SAFETY: a static part's names are C strings.
        if let Some(name) = unsafe { string_bytes(domain.name) } {
            self.enter(domain, NameKey::Domain(name), HandleKind::Domain, [0; 2]);
        }
    }

    /// Enters a text that the program made before.
    ///
    /// # Safety
    ///
    /// The text is of a static part.
    unsafe fn text(&mut self, text: &TextHandle) {
        // SAFETY: a static part's names are C strings.
        if let Some(name) = unsafe { string_bytes(text.text) } {
            self.enter(text, NameKey::Text(name), HandleKind::Text, [0; 2]);
        }
    }

    /// Enters a counter that the program made before.
    ///
    /// # Safety
    ///
    /// The counter is of a static part.
    unsafe fn adopt_counter(&mut self, counter: &CounterInfo) {
        // SAFETY: a static part's names are C strings.
        let (name, domain) = unsafe { (string_bytes(counter.name), string_bytes(counter.domain)) };
        let Some(name) = name else {
            return;
        };
        let value_type = ValueType::byte_of(counter.value_type);
        let name = NameKey::Counter {
            domain: domain.unwrap_or_default(),
            name,
            value_type,
        };
        self.enter(counter, name, HandleKind::Counter, [value_type, 0]);
    }

    /// Enters a histogram that the program made before.
    ///
    /// # Safety
    ///
    /// The histogram is of a static part.
    unsafe fn adopt_histogram(&mut self, histogram: &Histogram) {
        let domain = self.collector.handles.find(histogram.domain.addr());
        let domain = domain.filter(|domain| domain.is(HandleKind::Domain));
        // SAFETY: a static part's names are C strings.
        let (Some(domain), Some(name)) = (domain, unsafe { string_bytes(histogram.name) }) else {
            return;
        };
        let types = [
            ValueType::byte_of(histogram.y_type),
            ValueType::byte_of(histogram.x_type),
        ];
        let name = NameKey::Histogram {
            domain: domain.id(),
            name,
            types,
        };
        self.enter(histogram, name, HandleKind::Histogram, types);
    }

    /// Enters the description of a counter that the program made before.
    ///
    /// # Safety
    ///
    /// The metadata is of a static part.
    unsafe fn counter_metadata(&mut self, metadata: &CounterMetadata) {
        let counter = self.collector.handles.find(metadata.counter.addr());
        let Some(counter) = counter.filter(|counter| counter.is(HandleKind::Counter)) else {
            return;
        };
        // SAFETY: a static part's texts are C strings.
        let text = unsafe { string_bytes(metadata.text) };
        let text = text.as_deref().unwrap_or_default();
        let definition =
            Definition::from_context(counter.id(), metadata.context_type, metadata.number, text);
        self.names.define(&self.collector.region, definition);
    }

    /// Enters an object that the program made before the collector was there.
    fn enter<T>(&mut self, object: &T, name: NameKey, kind: HandleKind, types: [u8; 2]) {
        let address = std::ptr::from_ref(object).addr();
        let known = self.names.intern(&self.collector.region, name);
        if known.handle == 0 && self.is_lasting {
            known.handle = address;
        }
        let entry = HandleEntry::new(kind, known.id, types);
        self.collector.handles.enter(address, entry);
    }
}

/// An object of a static part's list.
trait ListObject {
    /// Returns the one after it; null for the last.
    fn next(&self) -> *mut Self;
}

macro_rules! list_objects {
    ($($object:ty),*) => {
        $(impl ListObject for $object {
            /// Returns the next object of the program's list; null at its end.
            fn next(&self) -> *mut Self {
                self.next
            }
        })*
    };
}

list_objects!(
    DomainHandle,
    TextHandle,
    CounterInfo,
    Histogram,
    CounterMetadata
);

/// Calls `work` for each object of a list.
///
/// # Safety
///
/// The list is of such objects, and nothing changes it.
unsafe fn for_each<T: ListObject>(mut object: *mut T, mut work: impl FnMut(&T)) {
    for _ in 0..OBJECTS_MAX {
        // SAFETY: the caller says so.
        let Some(found) = (unsafe { object.as_ref() }) else {
            return;
        };
        work(found);
        object = found.next();
    }
}
