//! Ring buffers → columns. The consumer looks at its own pace, and is woken when a ring fills faster.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use table::Columns;
use table::tables::{
    Calls, Connections, Listeners, ReceivedMessages, SentMessages, Spins, TcpEvents, TcpSamples,
    TcpStages, UdpSockets, Waits,
};

use super::HooksError;
use crate::inventory;
use crate::stacks::SeenStack;
use crate::watch::SocketReading;
use crate::wire::types as wire;
use crate::wire::{Wire, read, read_all};

// SAFETY: `record_header` is `repr(C)` and made of integers.
unsafe impl Wire for wire::record_header {}

/// Batches that are taken without a pause: at most this many times 8 KiB to decode.
const AT_ONCE: usize = 8;

/// Rings of the hooks.
const RINGS: usize = 7;

/// Rows taken from the rings since the last [`Drainer::take`].
#[derive(Debug, Default)]
pub struct Drained {
    /// Call log.
    pub calls: Calls,
    /// Blocked intervals of threads.
    pub waits: Waits,
    /// Received messages.
    pub received: ReceivedMessages,
    /// Sent messages.
    pub sent: SentMessages,
    /// Threads that ask what is ready without waiting for it.
    pub spins: Spins,
    /// Call stacks that were met for the first time.
    pub stacks: Vec<SeenStack>,
    /// Sockets chosen, established, owned, closed.
    pub connections: Connections,
    /// Listening sockets.
    pub listeners: Listeners,
    /// UDP sockets.
    pub udp_sockets: UdpSockets,
    /// Owners of these: pid and command name.
    pub owners: Vec<(u32, String)>,
    /// Recorded processes that became other programs, with their names.
    pub programs: Vec<(u32, String)>,
    /// Events.
    pub events: TcpEvents,
    /// Statistics of sockets.
    pub samples: TcpSamples,
    /// Ledgers of sockets.
    pub stages: TcpStages,
    /// Watched sockets, as they were read.
    pub readings: Vec<SocketReading>,
    /// Records that could not be decoded; zero unless program and reader do not fit.
    pub undecoded: u64,
}

/// Takes records out of the rings.
pub struct Drainer<'a> {
    rings: RingBuffer<'a>,
    /// Told by the programs when a ring fills (`ring_wakeup()`); not by what lies in the rings anyway.
    filling: Epoll,
    rows: Rc<RefCell<Drained>>,
}

impl<'a> Drainer<'a> {
    pub(super) fn new(
        records: &'a dyn MapCore,
        readings: &'a dyn MapCore,
        call_ring: &'a dyn MapCore,
        wait_ring: &'a dyn MapCore,
        stack_ring: &'a dyn MapCore,
        received_ring: &'a dyn MapCore,
        sent_ring: &'a dyn MapCore,
    ) -> Result<Self, HooksError> {
        let failed = |error| HooksError::Use {
            action: "map the ring buffers",
            error,
        };
        let rows = Rc::new(RefCell::new(Drained::default()));
        let of_calls = Rc::clone(&rows);
        let of_waits = Rc::clone(&rows);
        let of_stacks = Rc::clone(&rows);
        let of_received = Rc::clone(&rows);
        let of_sent = Rc::clone(&rows);
        let all = [
            records,
            readings,
            call_ring,
            wait_ring,
            stack_ring,
            received_ring,
            sent_ring,
        ];
        let filling = watch(&all).map_err(|error| HooksError::Read {
            what: "how full the rings are",
            error: error.into(),
        })?;
        let mut builder = RingBufferBuilder::new();
        for ring in [records, readings] {
            let of_records = Rc::clone(&rows);
            let take = move |bytes: &[u8]| {
                of_records.borrow_mut().take_record(bytes);
                0
            };
            builder.add(ring, take).map_err(failed)?;
        }
        builder
            .add(call_ring, move |bytes| {
                of_calls.borrow_mut().take_calls(bytes);
                0
            })
            .map_err(failed)?;
        builder
            .add(wait_ring, move |bytes| {
                of_waits.borrow_mut().take_waits(bytes);
                0
            })
            .map_err(failed)?;
        builder
            .add(received_ring, move |bytes| {
                let mut rows = of_received.borrow_mut();
                crate::messages::append_received(&read_all(bytes), &mut rows.received);
                0
            })
            .map_err(failed)?;
        builder
            .add(sent_ring, move |bytes| {
                let mut rows = of_sent.borrow_mut();
                crate::messages::append_sent(&read_all(bytes), &mut rows.sent);
                0
            })
            .map_err(failed)?;
        builder
            .add(stack_ring, move |bytes| {
                of_stacks.borrow_mut().take_stack(bytes);
                0
            })
            .map_err(failed)?;
        Ok(Self {
            rings: builder.build().map_err(failed)?,
            filling,
            rows,
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

    /// The rows drained so far.
    pub fn take(&self) -> Drained {
        std::mem::take(&mut self.rows.borrow_mut())
    }
}

impl AsFd for Drainer<'_> {
    /// Readable when a ring fills faster than it was drained.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.filling.0.as_fd()
    }
}

fn watch(rings: &[&dyn MapCore; RINGS]) -> nix::Result<Epoll> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for ring in rings {
        let when = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0);
        epoll.add(ring.as_fd(), when)?;
    }
    Ok(epoll)
}

impl Drained {
    fn take_calls(&mut self, bytes: &[u8]) {
        crate::calls::append(&read_all(bytes), &mut self.calls);
    }

    fn take_waits(&mut self, bytes: &[u8]) {
        self.undecoded += crate::waits::append(&read_all(bytes), &mut self.waits);
    }

    fn take_stack(&mut self, bytes: &[u8]) {
        match crate::stacks::seen(bytes) {
            Some(stack) => self.stacks.push(stack),
            None => self.undecoded += 1,
        }
    }

    fn take_record(&mut self, bytes: &[u8]) {
        if self.decode(bytes).is_none() {
            self.undecoded += 1;
        }
    }

    fn decode(&mut self, bytes: &[u8]) -> Option<()> {
        let header: wire::record_header = read(bytes)?;
        let body = &bytes[size_of::<wire::record_header>()..];
        match wire::record_kind(header.kind) {
            wire::record_kind::RECORD_SOCKET_SEEN => {
                let seen = read(body)?;
                self.connections.push(inventory::seen::row(&seen));
                self.owners
                    .extend(inventory::seen::owner(seen.pid, &seen.comm));
            }
            wire::record_kind::RECORD_LISTENER_SEEN => {
                let seen = read(body)?;
                self.listeners.push(inventory::listener::row(&seen));
                self.owners
                    .extend(inventory::seen::owner(seen.pid, &seen.comm));
            }
            wire::record_kind::RECORD_UDP_SEEN => {
                let seen = read(body)?;
                self.udp_sockets.push(crate::udp::row(&seen));
                self.owners
                    .extend(inventory::seen::owner(seen.pid, &seen.comm));
            }
            wire::record_kind::RECORD_PROGRAM_SEEN => {
                self.programs.push(crate::waits::program(&read(body)?));
            }
            wire::record_kind::RECORD_SPIN_SEEN => {
                self.spins.push(crate::spins::row(&read(body)?)?);
            }
            wire::record_kind::RECORD_TCP_EVENT => {
                self.events.push(crate::tcp_events::row(&read(body)?)?);
            }
            wire::record_kind::RECORD_TCP_SAMPLE => {
                self.samples
                    .push(crate::tcp_stats::read::sample_row(&read(body)?));
            }
            wire::record_kind::RECORD_STAGE_READING => {
                self.stages.push(crate::tcp_stages::row(&read(body)?));
            }
            wire::record_kind::RECORD_SOCKET_READING => {
                self.readings.push(crate::watch::reading(&read(body)?));
            }
            _ => return None,
        }
        Some(())
    }
}
