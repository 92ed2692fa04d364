//! Evidence of a recording for rules on requests: its services, who took their time, and the digests beside them.

use table::Role;

use super::digests::DigestSet;
use super::endpoint::Endpoint;
use super::id::{EndpointId, ServiceId, ThreadId};
use super::request_table::RequestTable;
use crate::rows::addresses::port;
use crate::rows::top::{Element, Top};
use crate::waits::NameTable;

/// Evidence of a whole recording.
#[derive(Debug, Clone, Copy)]
pub struct RequestEvidence<'a> {
    pub(super) table: &'a RequestTable,
    /// Digests beside requests.
    pub digests: &'a DigestSet,
}

/// A thread with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedThread {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// As it is printed: `redis-server[7] thread 7`.
    pub name: String,
}

/// Something that took time, with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTime<T> {
    /// The thing.
    pub subject: T,
    /// Its time at least, ns.
    pub ns: u64,
    /// How often, at least.
    pub count: u64,
}

impl<'a> RequestEvidence<'a> {
    /// Makes the evidence of a table that has all rows.
    pub fn new(table: &'a RequestTable, digests: &'a DigestSet) -> Self {
        Self { table, digests }
    }

    /// Returns when a process opened connections to the port of an address, in the order of time, ns.
    pub fn opened_ns(&self, pid: u32, address: &str) -> Vec<u64> {
        let asked = port(address);
        let rows = self.names().connections();
        let own = rows.filter(|row| row.pid == Some(pid) && row.role == Role::Client);
        let of_port = own.filter(|row| port(&row.remote) == asked);
        let mut opened: Vec<u64> = of_port.filter_map(|row| row.opened_ns).collect();
        opened.sort_unstable();
        opened
    }

    /// Returns the addresses to which a process connected.
    pub fn reached_addresses(&self, pid: u32) -> impl Iterator<Item = &'a str> {
        let rows = self.names().connections();
        let own = rows.filter(move |row| row.pid == Some(pid) && row.role == Role::Client);
        own.map(|row| row.remote.as_str())
    }

    /// Returns from when to when rows of requests came, `CLOCK_MONOTONIC` ns.
    pub fn time_range(&self) -> (u64, u64) {
        (self.table.header.started_ns, self.table.latest_ns)
    }

    /// Returns a recorded end of a connection.
    pub(in crate::requests) fn endpoint(&self, id: EndpointId) -> &'a Endpoint {
        self.table.endpoints.get(id)
    }

    /// Returns the names of connections, processes and stacks.
    pub fn names(&self) -> &'a NameTable {
        &self.table.names
    }

    /// Returns whether calls were recorded in windows only (`--budget`).
    pub fn has_windows(&self) -> bool {
        self.table.has_windows()
    }

    /// Returns whether the recording has the waits of threads.
    pub fn has_waits(&self) -> bool {
        self.table.has_waits
    }

    /// Returns whether the recording has preemptions: time without a CPU is a part of its own.
    pub fn has_preemptions(&self) -> bool {
        self.table.has_preemptions
    }

    /// Returns whether the recording has the packets that this host dropped.
    pub fn has_drops(&self) -> bool {
        self.table.has_drops
    }

    /// Returns whether all calls were recorded.
    pub fn has_all_calls(&self) -> bool {
        self.table.has_calls && self.table.is_lossless && !self.has_windows()
    }

    /// Returns the records that were lost, by probe.
    pub fn losses(&self) -> &'a [(String, u64)] {
        &self.table.lost
    }

    /// Returns the kernel's jiffy, ns; 0: not known.
    pub fn jiffy_ns(&self) -> u64 {
        self.table.header.jiffy_ns.unwrap_or(0)
    }

    /// Returns the samples of functions that have names, of all requests of a service.
    pub fn named_samples(&self, service: ServiceId) -> impl Iterator<Item = (String, u64)> {
        let counts = self.table.services.digest(service).functions();
        let name = |id| self.table.functions.title(id);
        counts
            .ids()
            .filter_map(move |id| Some((name(id)?, counts.samples_of(id))))
    }

    /// Returns the thread with this number.
    pub fn thread(&self, number: u32) -> NamedThread {
        let thread = self.table.history.get(ThreadId::from_number(number));
        let (pid, tid) = (thread.pid, thread.tid);
        let process = self.names().process(pid).title();
        NamedThread {
            pid,
            tid,
            name: format!("{process} thread {tid}"),
        }
    }

    /// Returns the threads of a list, the one with the most time first.
    pub fn threads(&self, top: &Top) -> Vec<NamedTime<NamedThread>> {
        name_times(top, |number| Some(self.thread(number)))
    }

    /// Returns the stacks of a list that have names, the one with the most time first.
    pub fn stacks(&self, top: &Top) -> Vec<NamedTime<String>> {
        name_times(top, |number| self.names().distinct_stack_title(number))
    }

    /// Returns the services of a list, the one with the most time first.
    pub fn services_of(&self, top: &Top) -> Vec<NamedTime<ServiceId>> {
        name_times(top, |number| Some(ServiceId::from_number(number)))
    }
}

/// Returns the largest times with the names of their subjects; leaves out those without one.
fn name_times<T>(top: &Top, name: impl Fn(u32) -> Option<T>) -> Vec<NamedTime<T>> {
    let all = top.worst(usize::MAX).into_iter();
    let named = |it: Element| {
        Some(NamedTime {
            subject: name(it.number)?,
            ns: it.blocked_ns,
            count: it.count,
        })
    };
    all.filter_map(named).collect()
}
