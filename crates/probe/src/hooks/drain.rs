//! Ring buffers → columns. The consumer looks at its own pace, and is woken when a ring fills faster.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::LazyLock;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::PROBES;
use crate::interface::{DecodeBatch, DecodeRecord, HooksError, ProbeOutput, Source};
use crate::skel::HooksMaps;
use crate::wire::types as wire;
use crate::wire::{Wire, read};

// SAFETY: `record_header` is `repr(C)` and made of integers.
unsafe impl Wire for wire::record_header {}

/// Batches that are taken without a pause: at most this many times 8 KiB to decode.
const AT_ONCE: usize = 8;

/// Filling rings that are heard of at once.
const FILLING_MOST: usize = 16;

/// The probe of records of unknown kinds.
const NO_PROBE: &str = "rings";

/// Takes records out of the rings.
pub struct Drainer<'a> {
    rings: RingBuffer<'a>,
    /// Notified by the programs when a ring fills (`ring_wakeup()`); not by what lies in the rings anyway.
    filling: Epoll,
    output: Rc<RefCell<ProbeOutput>>,
}

impl<'a> Drainer<'a> {
    /// Maps all rings, each with the function that decodes its records.
    pub(super) fn new(maps: &'a HooksMaps<'a>) -> Result<Self, HooksError> {
        let rings = rings(maps);
        let filling = watch(&rings).map_err(|error| HooksError::Read {
            what: "how full the rings are",
            error: error.into(),
        })?;
        let failed = |error| HooksError::Use {
            action: "map the ring buffers",
            error,
        };
        let output = Rc::new(RefCell::new(ProbeOutput::default()));
        let mut builder = RingBufferBuilder::new();
        for Ring { map, probe, decode } in rings {
            let output = Rc::clone(&output);
            let take = move |bytes: &[u8]| {
                let mut output = output.borrow_mut();
                let undecoded = decode(&mut output, bytes);
                output.note_undecoded(probe, undecoded);
                0
            };
            builder.add(map, take).map_err(failed)?;
        }
        Ok(Self {
            rings: builder.build().map_err(failed)?,
            filling,
            output,
        })
    }

    /// Reads about `most` records or batches; returns their number. In between, after a few dozen
    /// microseconds each, it calls `between`.
    pub fn drain(&self, most: usize, between: impl Fn()) -> usize {
        // A second notification while this is under way is no harm; nor is a missing one.
        let _ = self
            .filling
            .wait(&mut [EpollEvent::empty(); FILLING_MOST], EpollTimeout::ZERO);
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

    /// Returns the output that was drained since the last call.
    pub fn take(&self) -> ProbeOutput {
        std::mem::take(&mut self.output.borrow_mut())
    }
}

impl AsFd for Drainer<'_> {
    /// Returns a descriptor that is readable when a ring fills faster than it is read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.filling.0.as_fd()
    }
}

/// A ring, and what makes rows of what lies in it.
struct Ring<'a> {
    map: &'a dyn MapCore,
    /// The probe of the undecoded records that `decode` counts.
    probe: &'static str,
    decode: DecodeBatch,
}

/// Returns all rings with their decoders.
fn rings<'a>(maps: &'a HooksMaps<'a>) -> Vec<Ring<'a>> {
    let shared: [&dyn MapCore; 4] = [
        &maps.records,
        &maps.readings,
        &maps.preemption_records,
        &maps.clock_records,
    ];
    let shared = shared.into_iter().map(|map| Ring {
        map,
        probe: NO_PROBE,
        decode: decode_record,
    });
    let own = PROBES.iter().flat_map(|probe| {
        let (found, decode) = match probe.source() {
            Source::Ring(find, decode) => (vec![find(maps)], decode),
            Source::Batches(find, decode) => (find(maps).to_vec(), decode),
            Source::Records(_) | Source::UserSpace => return Vec::new(),
        };
        let probe = probe.name();
        let ring = |map| Ring { map, probe, decode };
        found.into_iter().map(ring).collect()
    });
    shared.chain(own).collect()
}

/// Makes an epoll set that wakes when a ring is filled.
fn watch(rings: &[Ring<'_>]) -> nix::Result<Epoll> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for ring in rings {
        let when = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0);
        epoll.add(ring.map.as_fd(), when)?;
    }
    Ok(epoll)
}

/// How many kinds of rare records there are.
const KINDS: usize = wire::record_kind::RECORD_KIND_COUNT.0 as usize;

/// Says who decodes the records of each kind, and how.
static DECODERS: LazyLock<[Option<(&'static str, DecodeRecord)>; KINDS]> = LazyLock::new(|| {
    let mut decoders = [None; KINDS];
    for probe in PROBES {
        if let Source::Records(kinds) = probe.source() {
            for (kind, decode) in kinds {
                decoders[kind.0 as usize] = Some((probe.name(), *decode));
            }
        }
    }
    decoders
});

/// Makes rows of a rare record. One that cannot be decoded is its probe's; of unknown kinds, nobody's.
fn decode_record(output: &mut ProbeOutput, bytes: &[u8]) -> u64 {
    let decoder = read::<wire::record_header>(bytes)
        .and_then(|header| *DECODERS.get(header.kind as usize)?);
    let Some((probe, decode)) = decoder else {
        return 1;
    };
    let body = &bytes[size_of::<wire::record_header>()..];
    if decode(output, body).is_none() {
        output.note_undecoded(probe, 1);
    }
    0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use table::Columns;

    use super::*;

    /// Makes a record of `kind` with a body of `size` bytes, all set.
    fn record(kind: wire::record_kind, size: usize) -> Vec<u8> {
        let mut bytes = kind.0.to_ne_bytes().to_vec();
        bytes.resize(size_of::<wire::record_header>() + size, 0xff);
        bytes
    }

    #[test]
    fn every_kind_has_a_decoder() {
        let without = DECODERS.iter().position(Option::is_none);
        assert_eq!(without, None, "number in `record_kind`");
    }

    #[test]
    fn undecoded_records_count_as_lost_of_their_probe() {
        let mut output = ProbeOutput::default();
        let mut unknown = 0;
        let mut take = |bytes: &[u8]| unknown += decode_record(&mut output, bytes);
        // neither the kind of the event nor that of the call is one
        take(&record(wire::record_kind::RECORD_TCP_EVENT, 4096));
        take(&record(wire::record_kind::RECORD_SPIN_SEEN, 4096));
        // too short
        take(&record(wire::record_kind::RECORD_SOCKET_SEEN, 0));
        take(&record(wire::record_kind::RECORD_SOCKET_SEEN, 7));
        take(&[]);
        take(&record(wire::record_kind::RECORD_KIND_COUNT, 4096));
        let found = BTreeMap::from([("inventory", 2), ("spins", 1), ("tcp_events", 1)]);
        assert_eq!((&output.undecoded, unknown), (&found, 2));
        let rows = &output.rows;
        assert_eq!(
            rows.tcp_events.len() + rows.spins.len() + rows.connections.len(),
            0
        );
    }
}
