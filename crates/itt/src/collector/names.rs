//! Names of the program, each defined once: by name, over all static parts of the process.

use std::collections::BTreeMap;

use crate::collector::definition::{Definition, DefinitionQueue};
use crate::region::Region;
use crate::wire::{RecordCode, RecordHead};

/// Key of a definition: two definitions with the same key are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameKey {
    /// A domain's name.
    Domain(Vec<u8>),
    /// A string handle's text.
    Text(Vec<u8>),
    /// A counter: ITT keeps counters of one name apart by type.
    Counter {
        /// Name of its domain; empty if it has none.
        domain: Vec<u8>,
        /// Its name.
        name: Vec<u8>,
        /// ITT number of its type.
        value_type: u8,
    },
    /// A histogram.
    Histogram {
        /// Id of its domain.
        domain: u32,
        /// Its name.
        name: Vec<u8>,
        /// ITT numbers of the types of y and x.
        types: [u8; 2],
    },
    /// An event's name.
    Event(Vec<u8>),
}

/// The definition of a name that the program created, and the address of the handle that it got.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DefinedName {
    /// Id of its definition.
    pub(crate) id: u32,
    /// Address of the handle that is given out for it; 0 if none was.
    pub(crate) handle: usize,
}

/// All names of a process.
pub(crate) struct NameTable {
    known: BTreeMap<NameKey, DefinedName>,
    /// Their way into the ring.
    pub(crate) queue: DefinitionQueue,
    /// The process that defined them.
    process: u32,
}

impl NameTable {
    /// Makes a table without names.
    pub(crate) const fn new() -> Self {
        NameTable {
            known: BTreeMap::new(),
            queue: DefinitionQueue::new(),
            process: 0,
        }
    }

    /// Returns the definition of a name; defines a new name.
    pub(crate) fn intern(&mut self, region: &'static Region, name: NameKey) -> &mut DefinedName {
        self.check_process(region);
        let queue = &mut self.queue;
        self.known.entry(name).or_insert_with_key(|name| {
            let next_id = region.word(crate::layout::WORD_NEXT_ID);
            let id = next_id.fetch_add(1, std::sync::atomic::Ordering::Relaxed) as u32;
            queue.push(region, name_definition(name, id));
            DefinedName { id, handle: 0 }
        })
    }

    /// Writes a definition without an id.
    pub(crate) fn define(&mut self, region: &'static Region, definition: Definition) {
        self.check_process(region);
        self.queue.push(region, definition);
    }

    /// Begins chunks of its own in a forked child. The parent writes what still waits.
    pub(crate) fn check_process(&mut self, region: &Region) {
        let process = std::process::id();
        if self.process != process {
            self.process = process;
            self.queue.start(region);
        }
    }
}

/// Makes the definition of a name with this number.
fn name_definition(name: &NameKey, id: u32) -> Definition {
    match name {
        NameKey::Domain(name) => {
            Definition::new(RecordHead::new(RecordCode::Domain, id)).text(name)
        }
        NameKey::Text(text) => Definition::new(RecordHead::new(RecordCode::Text, id)).text(text),
        NameKey::Event(name) => Definition::new(RecordHead::new(RecordCode::Event, id)).text(name),
        NameKey::Counter {
            domain,
            name,
            value_type,
        } => {
            let head = RecordHead::with(RecordCode::Counter, *value_type, id);
            // Both fit into the longest record only if each is cut to half.
            Definition::new(head)
                .text(record_half(domain))
                .text(record_half(name))
        }
        NameKey::Histogram {
            domain,
            name,
            types: [y_type, x_type],
        } => {
            let head = RecordHead::with(RecordCode::Histogram, *y_type, id);
            let domain = u64::from(*domain);
            let definition = Definition::new(head).word(domain).word(u64::from(*x_type));
            definition.text(name)
        }
    }
}

/// Returns the part of a text that fits beside another text in one record.
pub(crate) fn record_half(text: &[u8]) -> &[u8] {
    &text[..text.len().min(crate::layout::TEXT_BYTES / 2)]
}
