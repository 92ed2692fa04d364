//! Messages as far as the host delayed them: a received one from the moment all of it had arrived to the end of
//! the call that took it, a sent one from the start of its call to the driver.

use table::Columns;
use table::tables::{ReceivedMessages, SentMessages};

use crate::messages::breakdown::HostTimes;
use crate::messages::message::{MessageDirection, MessageId};

/// One message.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostMessage {
    pub(super) id: MessageId,
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// When the host had it.
    pub(super) times: HostTimes,
    /// CPU of the receiving softirq, or of the driver.
    pub(super) kernel_cpu: Option<u16>,
    /// CPU of the thread.
    pub(super) cpu: u16,
}

impl HostMessage {
    /// Returns a row of `received_messages`; `None`: not all of its times are known, or they cannot be.
    pub(super) fn from_received(rows: &ReceivedMessages, row: usize) -> Option<Self> {
        let times = HostTimes::from_received(&rows.row(row))?;
        Some(Self {
            id: MessageId {
                conn: rows.conn[row],
                direction: MessageDirection::Received,
                offset_end: rows.offset_end[row],
            },
            pid: rows.pid[row],
            tid: rows.tid[row],
            times,
            kernel_cpu: rows.receive_cpu[row],
            cpu: rows.cpu[row],
        })
    }

    /// Returns a row of `sent_messages`; `None` as above.
    pub(super) fn from_sent(rows: &SentMessages, row: usize) -> Option<Self> {
        let times = HostTimes::from_sent(&rows.row(row))?;
        Some(Self {
            id: MessageId {
                conn: rows.conn[row],
                direction: MessageDirection::Sent,
                offset_end: rows.offset_end[row],
            },
            pid: rows.pid[row],
            tid: rows.tid[row],
            times,
            kernel_cpu: rows.driver_cpu[row],
            cpu: rows.cpu[row],
        })
    }

    /// Returns when the kernel's part ended, ns: a received message is in its socket, a sent one at
    /// the driver.
    pub(super) fn kernel_done_ns(&self) -> u64 {
        match self.id.direction {
            MessageDirection::Received => self.times.handed_ns,
            MessageDirection::Sent => self.times.end_ns,
        }
    }

    /// Returns begin and end of the kernel's part, ns.
    pub(super) fn kernel_ns(&self) -> (u64, u64) {
        match self.id.direction {
            MessageDirection::Received => (self.times.start_ns, self.times.handed_ns),
            MessageDirection::Sent => (self.times.handed_ns, self.times.end_ns),
        }
    }

    /// Returns begin and end of the thread's part, ns.
    pub(super) fn application_ns(&self) -> (u64, u64) {
        match self.id.direction {
            MessageDirection::Received => (self.times.handed_ns, self.times.end_ns),
            MessageDirection::Sent => (self.times.start_ns, self.times.handed_ns),
        }
    }

    /// Returns how long this host had the message, ns.
    pub(super) fn latency_ns(&self) -> u64 {
        self.times.end_ns - self.times.start_ns
    }
}
