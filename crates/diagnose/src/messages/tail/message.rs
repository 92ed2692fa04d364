//! Messages as far as the host delayed them: a received one from the moment all of it had arrived to the end of
//! the call that took it, a sent one from the begin of its call to the driver.

use table::Columns;
use table::tables::{ReceivedMessages, SentMessages};

use crate::messages::story::MessageId;
use crate::messages::way::{Direction, Way};

/// From when to when the host had a row of `received_messages`; `None`: not all of its times are known, or they cannot
/// be.
pub fn received_life_ns(rows: &ReceivedMessages, row: usize) -> Option<(u64, u64)> {
    Message::received(rows, row).map(|message| (message.start_ns, message.end_ns))
}

/// The same of `sent_messages`.
pub fn sent_life_ns(rows: &SentMessages, row: usize) -> Option<(u64, u64)> {
    Message::sent(rows, row).map(|message| (message.start_ns, message.end_ns))
}

/// One message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub(super) id: MessageId,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// When it went from the one core to the other: a received one to its socket, a sent one to the driver.
    pub(super) handed_ns: u64,
    /// The thread had waited for it, and had a CPU again then.
    pub(super) running_ns: Option<u64>,
    /// When the thread began with it.
    pub(super) taken_ns: u64,
    /// CPU of the receiving softirq, or of the driver.
    pub(super) kernel_cpu: Option<u16>,
    /// CPU of the thread.
    pub(super) cpu: u16,
}

impl Message {
    /// A row of `received_messages`; `None`: not all of its times are known, or they cannot be.
    pub(super) fn received(rows: &ReceivedMessages, row: usize) -> Option<Self> {
        Way::of_received(&rows.row(row)).ok()?;
        let done_ns = rows.done_ns[row];
        Some(Self {
            id: MessageId {
                conn: rows.conn[row],
                direction: Direction::Received,
                offset_end: rows.offset_end[row],
            },
            pid: rows.pid[row],
            tid: rows.tid[row],
            start_ns: rows.last_arrival_ns[row]?,
            end_ns: done_ns,
            handed_ns: rows.ready_ns[row].or(rows.tcp_ns[row])?,
            running_ns: rows.running_ns[row],
            taken_ns: rows.copy_ns[row].unwrap_or(done_ns),
            kernel_cpu: rows.receive_cpu[row],
            cpu: rows.cpu[row],
        })
    }

    /// A row of `sent_messages`; `None` as above.
    pub(super) fn sent(rows: &SentMessages, row: usize) -> Option<Self> {
        Way::of_sent(&rows.row(row), None).ok()?;
        let driver_ns = rows.driver_ns[row]?;
        let start_ns = rows.call_ns[row].or(rows.queue_ns[row])?;
        Some(Self {
            id: MessageId {
                conn: rows.conn[row],
                direction: Direction::Sent,
                offset_end: rows.offset_end[row],
            },
            pid: rows.pid[row],
            tid: rows.tid[row],
            start_ns,
            end_ns: driver_ns,
            handed_ns: rows.done_ns[row].clamp(start_ns, driver_ns),
            running_ns: None,
            taken_ns: start_ns,
            kernel_cpu: rows.driver_cpu[row],
            cpu: rows.cpu[row],
        })
    }

    /// When the kernel was done with it: a received one in its socket, a sent one at the driver.
    pub(super) fn kernel_done_ns(&self) -> u64 {
        match self.id.direction {
            Direction::Received => self.handed_ns,
            Direction::Sent => self.end_ns,
        }
    }

    /// From when to when it was on the kernel's core.
    pub(super) fn kernel_ns(&self) -> (u64, u64) {
        match self.id.direction {
            Direction::Received => (self.start_ns, self.handed_ns),
            Direction::Sent => (self.handed_ns, self.end_ns),
        }
    }

    /// From when to when it was on the thread's core.
    pub(super) fn application_ns(&self) -> (u64, u64) {
        match self.id.direction {
            Direction::Received => (self.handed_ns, self.end_ns),
            Direction::Sent => (self.start_ns, self.handed_ns),
        }
    }

    /// How long the host had it, ns.
    pub(super) fn latency_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}
