//! IttNames that the program gave: what the numbers in records stand for.

use std::collections::HashMap;

use ::itt::{Body, Context, Record};

/// `__itt_context_unitsA`.
const CONTEXT_UNITS: u8 = 5;
/// IttNames kept of one address. A new object at the address of an old one has its own name; values
/// of both may be read together.
const NAMES_OF_ADDRESS: usize = 8;

/// A counter's names.
#[derive(Debug, Clone, Default)]
pub(super) struct CounterName {
    pub(super) domain: Option<String>,
    pub(super) name: String,
    pub(super) unit: Option<String>,
}

/// A synchronisation object's names.
#[derive(Debug, Clone)]
pub(super) struct SyncName {
    since_ns: u64,
    pub(super) object_type: Option<String>,
    pub(super) name: String,
}

/// All names.
#[derive(Debug, Default)]
pub(super) struct IttNames {
    /// Domains, texts and events; a number means one of them.
    texts: HashMap<u32, String>,
    counters: HashMap<u32, CounterName>,
    /// Domain and name.
    histograms: HashMap<u32, (u32, String)>,
    /// By process and address, in order of time.
    objects: HashMap<(u32, u64), Vec<SyncName>>,
}

impl IttNames {
    /// Keeps the name that a definition gives.
    pub(super) fn define(&mut self, record: Record) {
        let Record {
            time_ns, pid, body, ..
        } = record;
        match body {
            Body::Domain { id, name } | Body::Event { id, name } => {
                self.texts.insert(id, name);
            }
            Body::Text { id, text } => {
                self.texts.insert(id, text);
            }
            Body::Counter {
                id, domain, name, ..
            } => {
                let counter = self.counters.entry(id).or_default();
                (counter.domain, counter.name) = (domain, name);
            }
            Body::Histogram {
                id, domain, name, ..
            } => {
                self.histograms.insert(id, (domain, name));
            }
            body => self.describe(pid, time_ns, body),
        }
    }

    /// Keeps what a record reports of a counter or an object.
    fn describe(&mut self, pid: u32, time_ns: u64, body: Body) {
        match body {
            Body::CounterContext {
                counter,
                context_type: CONTEXT_UNITS,
                context: Context::Text(unit),
            } => {
                if let Some(counter) = self.counters.get_mut(&counter) {
                    counter.unit = Some(unit);
                }
            }
            Body::SyncObject {
                address,
                object_type,
                name,
                ..
            } => self.name_object((pid, address), time_ns, Some(object_type), name),
            Body::SyncRenamed { address, name } => {
                let before = self.object(pid, address, time_ns);
                let object_type = before.and_then(|object| object.object_type.clone());
                self.name_object((pid, address), time_ns, object_type, name);
            }
            _ => {}
        }
    }

    /// Keeps a name of an address since this time; forgets the oldest of many.
    fn name_object(
        &mut self,
        object: (u32, u64),
        since_ns: u64,
        object_type: Option<String>,
        name: String,
    ) {
        let names = self.objects.entry(object).or_default();
        if names.len() == NAMES_OF_ADDRESS {
            names.remove(0);
        }
        names.push(SyncName {
            since_ns,
            object_type,
            name,
        });
    }

    /// Forgets the names of an object that was destroyed.
    pub(super) fn forget_object(&mut self, pid: u32, address: u64, time_ns: u64) {
        if let Some(names) = self.objects.get_mut(&(pid, address)) {
            names.retain(|name| name.since_ns > time_ns);
            if names.is_empty() {
                self.objects.remove(&(pid, address));
            }
        }
    }

    /// Returns the domain, text or event with this number.
    pub(super) fn text(&self, id: u32) -> Option<String> {
        self.texts.get(&id).cloned()
    }

    /// Returns the counter with this number.
    pub(super) fn counter(&self, id: u32) -> Option<CounterName> {
        self.counters.get(&id).cloned()
    }

    /// Returns domain and name of the histogram with this number.
    pub(super) fn histogram(&self, id: u32) -> Option<(Option<String>, String)> {
        let (domain, name) = self.histograms.get(&id)?;
        Some((self.text(*domain), name.clone()))
    }

    /// Returns the name that a synchronisation object had at a time.
    pub(super) fn object(&self, pid: u32, address: u64, time_ns: u64) -> Option<&SyncName> {
        let names = self.objects.get(&(pid, address))?;
        names.iter().rev().find(|name| name.since_ns <= time_ns)
    }
}
