//! The storing thread: batches of rows in, sealed segments out. It alone waits for the disk.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use probe::clock::monotonic_ns;
use table::manifest::Line;
use table::tables::{Calls, ClockPairs, Connections, Processes, TcpEvents, TcpSamples, TcpStages};
use table::{Columns, WriteError, Writer};

/// Batches under way to the disk; more, and the collector waits.
const QUEUE_LEN: usize = 16;

/// A batch for one table, or a line of the manifest.
pub(crate) enum Batch {
    Calls(Calls),
    ClockPairs(ClockPairs),
    Connections(Connections),
    Events(TcpEvents),
    Processes(Processes),
    Samples(TcpSamples),
    Stages(TcpStages),
    Line(Line),
}

/// The storing thread's handle.
pub(crate) struct Store {
    queue: SyncSender<Batch>,
    thread: JoinHandle<(Writer, Option<WriteError>)>,
}

impl Store {
    pub(crate) fn start(writer: Writer) -> Self {
        let (queue, batches) = sync_channel(QUEUE_LEN);
        Self {
            queue,
            thread: std::thread::spawn(move || store_all(writer, &batches)),
        }
    }

    /// Hands a batch over; waits when the disk is behind.
    pub(crate) fn put(&self, batch: Batch) {
        // The thread ends only after this sender is gone.
        let _ = self.queue.send(batch);
    }

    /// Ends the thread; gives the writer back, with the first error that it met.
    pub(crate) fn finish(self) -> Option<(Writer, Option<WriteError>)> {
        drop(self.queue);
        self.thread.join().ok()
    }
}

/// A disk that fails once may work again: rows that could not be written are counted by the
/// writer, and it goes on.
fn store_all(mut writer: Writer, batches: &Receiver<Batch>) -> (Writer, Option<WriteError>) {
    let mut first_error = None;
    loop {
        let stored = match batches.recv_timeout(Duration::from_millis(100)) {
            Ok(batch) => store(&mut writer, batch),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => return (writer, first_error),
        };
        let sealed = stored.and_then(|()| writer.seal_if_due(monotonic_ns()).map(|_| ()));
        if let Err(error) = sealed {
            first_error.get_or_insert(error);
        }
    }
}

fn store(writer: &mut Writer, batch: Batch) -> Result<(), WriteError> {
    match batch {
        Batch::Calls(rows) => append(writer, rows),
        Batch::ClockPairs(rows) => append(writer, rows),
        Batch::Connections(rows) => append(writer, rows),
        Batch::Events(rows) => append(writer, rows),
        Batch::Processes(rows) => append(writer, rows),
        Batch::Samples(rows) => append(writer, rows),
        Batch::Stages(rows) => append(writer, rows),
        Batch::Line(line) => writer.line(&line),
    }
}

fn append<C: Columns>(writer: &mut Writer, rows: C) -> Result<(), WriteError> {
    if rows.is_empty() {
        Ok(())
    } else {
        writer.append(rows)
    }
}
