//! What a watch keeps of the rows that come, until it is next looked at. In: the batches that a recording would store.
//! Out: those of the tables that a live view judges; the others are let go.

use std::cell::RefCell;
use std::collections::BTreeMap;

use table::Columns;
use table::Table;
use table::tables::{
    Calls, Connections, CpuSamples, Listeners, ProcessSamples, Processes, TcpEvents, TcpSamples,
    TcpStages, Waits,
};

use crate::account;
use crate::store::{Batch, Sink};

/// Rows that came since the last look, of each table in the order in which they came.
#[derive(Debug, Default)]
pub struct Rows {
    /// Connections met, completed or closed.
    pub connections: Connections,
    /// Readings of listening sockets.
    pub listeners: Listeners,
    /// Processes met.
    pub processes: Processes,
    /// CPU use of those that own connections.
    pub process_samples: ProcessSamples,
    /// CPU use of the host.
    pub cpu_samples: CpuSamples,
    /// Statistics of connections.
    pub samples: TcpSamples,
    /// Their ledgers, at detail `calls` and above.
    pub stages: TcpStages,
    /// What happened to them.
    pub events: TcpEvents,
    /// Socket calls, at detail `calls` and above.
    pub calls: Calls,
    /// Blocked intervals of threads, at detail `waits`.
    pub waits: Waits,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Shelf {
    rows: RefCell<Rows>,
    taken: RefCell<account::Rows>,
}

impl Shelf {
    /// The rows since the last call.
    pub(crate) fn take(&self) -> Rows {
        self.rows.take()
    }

    /// Rows that were kept so far, by table.
    pub(crate) fn kept(&self) -> BTreeMap<&'static str, u64> {
        self.taken.borrow().clone()
    }

    fn keep<C: Columns>(&self, to: impl FnOnce(&mut Rows) -> &mut C, rows: C) {
        *self.taken.borrow_mut().entry(C::Row::NAME).or_default() += rows.len() as u64;
        to(&mut self.rows.borrow_mut()).append(rows);
    }
}

impl Sink for Shelf {
    fn put(&self, batch: Batch) {
        match batch {
            Batch::Connections(rows) => self.keep(|to| &mut to.connections, rows),
            Batch::Listeners(rows) => self.keep(|to| &mut to.listeners, rows),
            Batch::Processes(rows) => self.keep(|to| &mut to.processes, rows),
            Batch::ProcessSamples(rows) => self.keep(|to| &mut to.process_samples, rows),
            Batch::Cpus(rows) => self.keep(|to| &mut to.cpu_samples, rows),
            Batch::Samples(rows) => self.keep(|to| &mut to.samples, *rows),
            Batch::Stages(rows) => self.keep(|to| &mut to.stages, *rows),
            Batch::Events(rows) => self.keep(|to| &mut to.events, rows),
            Batch::Calls(rows) => self.keep(|to| &mut to.calls, rows),
            Batch::Waits(rows) => self.keep(|to| &mut to.waits, *rows),
            Batch::Received(_)
            | Batch::Sent(_)
            | Batch::Spins(_)
            | Batch::ClockPairs(_)
            | Batch::UdpSockets(_)
            | Batch::Counters(_)
            | Batch::Tasks(_)
            | Batch::Stacks(_)
            | Batch::Symbols(_)
            | Batch::Activities(_)
            | Batch::Windows(_)
            | Batch::Line(_) => {}
        }
    }
}
