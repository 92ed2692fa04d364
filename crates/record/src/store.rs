//! The storing thread: batches of rows in, sealed segments out. It alone waits for the disk.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use probe::clock::monotonic_ns;
use table::manifest::Line;
use table::{RowSet, WriteError, Writer};

use crate::priority::IdlePriority;
use crate::privileges::{PrivilegeError, Privileges};

/// How late rows are sealed when no more come.
const SEALS_WITHIN: Duration = Duration::from_millis(50);

/// How often free memory goes back. It is needed again soon: given back at every seal, a recorder of redis-benchmark
/// (8 clients) took 3,150 page faults a second instead of 820. One takes up to 0.4 ms in a guest if the host has to find
/// the memory, and every thread that wants that CPU waits, a real-time thread among them.
const GIVES_BACK_EVERY: Duration = Duration::from_secs(60);

/// Batches under way to the disk, of at most half a megabyte each ([`DRAIN_AT_ONCE`](crate::collector::DRAIN_AT_ONCE));
/// more, and the collector waits.
const QUEUE_LEN: usize = 8;

/// An item of the queue to the storing thread.
enum Batch {
    Rows(Box<RowSet>),
    Line(Box<Line>),
}

/// Stores rows.
pub(crate) trait RowSink {
    /// Stores rows.
    fn store_rows(&self, rows: RowSet);

    /// Stores a line of the manifest.
    fn store_line(&self, line: Line);
}

/// The storing thread's handle.
pub(crate) struct Store {
    queue: SyncSender<Batch>,
    thread: JoinHandle<(Writer, Option<WriteError>)>,
    priority: Arc<IdlePriority>,
}

impl Store {
    /// Starts the thread, which keeps no more privileges than these.
    pub(crate) fn start(
        mut writer: Writer,
        privileges: Privileges,
    ) -> Result<Self, PrivilegeError> {
        let (queue, batches) = sync_channel(QUEUE_LEN);
        let priority = Arc::new(IdlePriority::default());
        let of_thread = Arc::clone(&priority);
        let of_writer = Arc::clone(&priority);
        writer.set_between(Arc::new(move || of_writer.yield_cpu()));
        let (answer, answered) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            // who asked waits for it
            let _ = answer.send(privileges.assume());
            of_thread.begin();
            store_all(writer, &batches, &of_thread)
        });
        // a thread that died before is found when it is finished
        if let Err(error) = answered.recv().unwrap_or(Ok(())) {
            drop(queue);
            // what was begun is removed next, and this thread must not write any more
            let _ = thread.join();
            return Err(error);
        }
        Ok(Self {
            queue,
            thread,
            priority,
        })
    }

    /// The idle priority of the thread.
    pub(crate) fn priority(&self) -> &Arc<IdlePriority> {
        &self.priority
    }

    /// Ends the storing thread; returns the writer with its first error.
    pub(crate) fn finish(self) -> Option<(Writer, Option<WriteError>)> {
        self.priority.raise_priority();
        drop(self.queue);
        self.thread.join().ok()
    }
}

impl Store {
    /// Gives a batch to the storing thread; waits if the disk is behind.
    fn send(&self, batch: Batch) {
        // The thread ends only after this sender is gone.
        if let Err(TrySendError::Full(batch)) = self.queue.try_send(batch) {
            self.priority.raise_priority();
            let _ = self.queue.send(batch);
        }
    }
}

impl RowSink for Store {
    fn store_rows(&self, rows: RowSet) {
        if !rows.is_empty() {
            self.send(Batch::Rows(Box::new(rows)));
        }
    }

    fn store_line(&self, line: Line) {
        self.send(Batch::Line(Box::new(line)));
    }
}

/// Writes all batches; a disk error is kept, and writing goes on.
fn store_all(
    mut writer: Writer,
    batches: &Receiver<Batch>,
    priority: &IdlePriority,
) -> (Writer, Option<WriteError>) {
    let mut first_error = None;
    let mut given_back = Instant::now();
    loop {
        priority.note_alive();
        let batch = batches.try_recv().or_else(|_| {
            priority.lower_priority();
            batches.recv_timeout(SEALS_WITHIN)
        });
        let stored = match batch {
            Ok(batch) => store(&mut writer, batch),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => return (writer, first_error),
        };
        let sealed = stored.and_then(|()| writer.seal_if_due(monotonic_ns()));
        match sealed {
            Ok(true) if given_back.elapsed() >= GIVES_BACK_EVERY => {
                // the collector waits for the locks that it takes, and so must not wait for a turn
                priority.raise_priority();
                give_back_free_memory();
                given_back = Instant::now();
            }
            Ok(_) => {}
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
}

/// Returns memory of sealed segments to the system. By itself glibc keeps free pages below anything that lives
/// longer, and the memory of a recorder grows to the sum of all peaks.
fn give_back_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim() takes a number, locks each arena while it looks at it, and touches no
    // memory that is in use
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

/// Writes one batch of rows, or one line of the manifest.
fn store(writer: &mut Writer, batch: Batch) -> Result<(), WriteError> {
    match batch {
        Batch::Rows(rows) => writer.append_all(*rows),
        Batch::Line(line) => writer.line(&line),
    }
}
