//! Ring buffers → columns. The consumer looks at its own pace, and is woken when a ring fills faster.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use table::{Columns, RowSet};

use super::HooksError;
use crate::clock::monotonic_ns;
use crate::inventory;
use crate::processes::Seen;
use crate::stacks::SeenStack;
use crate::watch::SocketReading;
use crate::wire::types as wire;
use crate::wire::{Wire, read, read_all};

// SAFETY: `record_header` is `repr(C)` and made of integers.
unsafe impl Wire for wire::record_header {}
// SAFETY: as above, and of arrays of them.
unsafe impl Wire for wire::process_seen {}

/// Batches that are taken without a pause: at most this many times 8 KiB to decode.
const AT_ONCE: usize = 8;

/// Takes what lies in a ring: a record or a batch.
type Taker = fn(&mut ProbeOutput, &[u8]);

/// How many [`Rings`] there are.
const RINGS: usize = 7;

/// The rings of the hooks, by what lies in them.
pub(super) struct Rings<'a> {
    /// Rare records, each with a header.
    pub(super) records: &'a dyn MapCore,
    /// The same, of watched sockets.
    pub(super) readings: &'a dyn MapCore,
    /// Batches of calls.
    pub(super) calls: &'a dyn MapCore,
    /// Batches of waits.
    pub(super) waits: &'a dyn MapCore,
    /// Stacks, one at a time.
    pub(super) stacks: &'a dyn MapCore,
    /// Batches of received messages.
    pub(super) received: &'a dyn MapCore,
    /// Batches of sent messages.
    pub(super) sent: &'a dyn MapCore,
}

/// Holds what the hooks gave since the last [`Drainer::take`]: rows, and what is still to be made into some.
#[derive(Debug, Default)]
pub struct ProbeOutput {
    /// Rows as the kernel side knows them.
    pub rows: RowSet,
    /// Owners of sockets, one for each row of a socket that has one.
    pub owners: Vec<Seen>,
    /// Recorded processes that became other programs, which they are now.
    pub programs: Vec<Seen>,
    /// Call stacks that came for the first time.
    pub stacks: Vec<SeenStack>,
    /// Watched sockets, as they were read.
    pub readings: Vec<SocketReading>,
    /// Records that could not be decoded, by probe; none unless program and reader do not fit.
    pub undecoded: BTreeMap<&'static str, u64>,
}

/// Takes records out of the rings.
pub struct Drainer<'a> {
    rings: RingBuffer<'a>,
    /// Told by the programs when a ring fills (`ring_wakeup()`); not by what lies in the rings anyway.
    filling: Epoll,
    output: Rc<RefCell<ProbeOutput>>,
}

impl<'a> Drainer<'a> {
    pub(super) fn new(rings: Rings<'a>) -> Result<Self, HooksError> {
        let takers: [(&dyn MapCore, Taker); RINGS] = [
            (rings.records, ProbeOutput::take_record),
            (rings.readings, ProbeOutput::take_record),
            (rings.calls, ProbeOutput::take_calls),
            (rings.waits, ProbeOutput::take_waits),
            (rings.received, ProbeOutput::take_received),
            (rings.sent, ProbeOutput::take_sent),
            // the last that is looked at when there is much in all: what does not fit there is asked for again
            (rings.stacks, ProbeOutput::take_stack),
        ];
        let filling = watch(takers.map(|(ring, _)| ring)).map_err(|error| HooksError::Read {
            what: "how full the rings are",
            error: error.into(),
        })?;
        let failed = |error| HooksError::Use {
            action: "map the ring buffers",
            error,
        };
        let output = Rc::new(RefCell::new(ProbeOutput::default()));
        let mut builder = RingBufferBuilder::new();
        for (ring, take) in takers {
            let output = Rc::clone(&output);
            let take = move |bytes: &[u8]| {
                take(&mut output.borrow_mut(), bytes);
                0
            };
            builder.add(ring, take).map_err(failed)?;
        }
        Ok(Self {
            rings: builder.build().map_err(failed)?,
            filling,
            output,
        })
    }

    /// Takes `most` records or batches, or a few more; returns how many there were. In between, after a few dozen
    /// microseconds each, it calls `between`.
    pub fn drain(&self, most: usize, between: impl Fn()) -> usize {
        // Being told again while this is under way is no harm; nor is it not to be told.
        let _ = self
            .filling
            .wait(&mut [EpollEvent::empty(); RINGS], EpollTimeout::ZERO);
        let mut all = 0;
        while all < most {
            match usize::try_from(self.rings.consume_raw_n(AT_ONCE)) {
                Ok(0) | Err(_) => break,
                Ok(some) => all += some,
            }
            between();
        }
        all
    }

    /// Returns what was drained since the last call.
    pub fn take(&self) -> ProbeOutput {
        std::mem::take(&mut self.output.borrow_mut())
    }
}

impl AsFd for Drainer<'_> {
    /// Readable when a ring fills faster than it was output.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.filling.0.as_fd()
    }
}

fn watch(rings: [&dyn MapCore; RINGS]) -> nix::Result<Epoll> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for ring in rings {
        let when = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0);
        epoll.add(ring.as_fd(), when)?;
    }
    Ok(epoll)
}

impl ProbeOutput {
    fn take_calls(&mut self, bytes: &[u8]) {
        crate::calls::append(&read_all(bytes), &mut self.rows.calls);
    }

    fn take_waits(&mut self, bytes: &[u8]) {
        let undecoded = crate::waits::append(&read_all(bytes), &mut self.rows.waits);
        self.not_decoded("waits", undecoded);
    }

    fn take_received(&mut self, bytes: &[u8]) {
        crate::messages::append_received(&read_all(bytes), &mut self.rows.received_messages);
    }

    fn take_sent(&mut self, bytes: &[u8]) {
        crate::messages::append_sent(&read_all(bytes), &mut self.rows.sent_messages);
    }

    fn take_stack(&mut self, bytes: &[u8]) {
        match crate::stacks::seen(bytes) {
            Some(stack) => self.stacks.push(stack),
            None => self.not_decoded("waits.stacks", 1),
        }
    }

    fn take_record(&mut self, bytes: &[u8]) {
        if self.decode(bytes).is_none() {
            let header = read::<wire::record_header>(bytes);
            self.not_decoded(probe(header.map(|it| wire::record_kind(it.kind))), 1);
        }
    }

    fn not_decoded(&mut self, probe: &'static str, records: u64) {
        if records > 0 {
            *self.undecoded.entry(probe).or_default() += records;
        }
    }

    fn decode(&mut self, bytes: &[u8]) -> Option<()> {
        let header: wire::record_header = read(bytes)?;
        let body = &bytes[size_of::<wire::record_header>()..];
        match wire::record_kind(header.kind) {
            wire::record_kind::RECORD_SOCKET_SEEN => {
                let seen = read(body)?;
                self.rows.connections.push(inventory::seen::row(&seen));
                self.owners.extend(Seen::of(&seen.owner, seen.time_ns));
            }
            wire::record_kind::RECORD_LISTENER_SEEN => {
                let seen = read(body)?;
                self.rows.listeners.push(inventory::listener::row(&seen));
                self.owners.extend(Seen::of(&seen.owner, seen.time_ns));
            }
            wire::record_kind::RECORD_UDP_SEEN => {
                let seen = read(body)?;
                self.rows.udp_sockets.push(crate::udp::row(&seen));
                self.owners.extend(Seen::of(&seen.owner, seen.time_ns));
            }
            wire::record_kind::RECORD_PROGRAM_SEEN => {
                self.programs.extend(Seen::of(&read(body)?, monotonic_ns()));
            }
            wire::record_kind::RECORD_SPIN_SEEN => {
                self.rows.spins.push(crate::spins::row(&read(body)?)?);
            }
            wire::record_kind::RECORD_TCP_EVENT => {
                self.rows.tcp_events.push(crate::tcp_events::row(&read(body)?)?);
            }
            wire::record_kind::RECORD_TCP_SAMPLE => {
                self.rows
                    .tcp_samples
                    .push(crate::tcp_stats::read::sample_row(&read(body)?));
            }
            wire::record_kind::RECORD_STAGE_READING => {
                self.rows.tcp_stages.push(crate::tcp_stages::row(&read(body)?));
            }
            wire::record_kind::RECORD_SOCKET_READING => {
                self.readings.push(crate::watch::reading(&read(body)?));
            }
            _ => return None,
        }
        Some(())
    }
}

/// Whose records they are; of unknown kinds nobody's.
fn probe(kind: Option<wire::record_kind>) -> &'static str {
    match kind {
        Some(wire::record_kind::RECORD_SOCKET_SEEN) => "inventory",
        Some(wire::record_kind::RECORD_LISTENER_SEEN) => "listeners",
        Some(wire::record_kind::RECORD_UDP_SEEN) => "messages.udp_sockets",
        Some(wire::record_kind::RECORD_PROGRAM_SEEN) => "processes",
        Some(wire::record_kind::RECORD_SPIN_SEEN) => "spins",
        Some(wire::record_kind::RECORD_TCP_EVENT) => "tcp_events",
        Some(wire::record_kind::RECORD_TCP_SAMPLE | wire::record_kind::RECORD_SOCKET_READING) => {
            "tcp_stats"
        }
        Some(wire::record_kind::RECORD_STAGE_READING) => "tcp_stages",
        _ => "rings",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of `kind` with a body of `size` bytes, all of them set.
    fn record(kind: wire::record_kind, size: usize) -> Vec<u8> {
        let mut bytes = kind.0.to_ne_bytes().to_vec();
        bytes.resize(size_of::<wire::record_header>() + size, 0xff);
        bytes
    }

    #[test]
    fn what_does_not_fit_is_counted_where_its_probe_will_look() {
        let mut output = ProbeOutput::default();
        // neither the kind of the event nor that of the call is one
        output.take_record(&record(wire::record_kind::RECORD_TCP_EVENT, 4096));
        output.take_record(&record(wire::record_kind::RECORD_SPIN_SEEN, 4096));
        // too short
        output.take_record(&record(wire::record_kind::RECORD_SOCKET_SEEN, 0));
        output.take_record(&record(wire::record_kind::RECORD_SOCKET_SEEN, 7));
        output.take_record(&[]);
        output.take_record(&record(wire::record_kind::RECORD_KIND_COUNT, 4096));
        let found = BTreeMap::from([
            ("inventory", 2),
            ("rings", 2),
            ("spins", 1),
            ("tcp_events", 1),
        ]);
        assert_eq!(output.undecoded, found);
        assert_eq!(
            output.rows.tcp_events.len() + output.rows.spins.len() + output.rows.connections.len(),
            0
        );
    }
}
