//! The forwarding loop: one thread that reads packets from two TUN devices, asks the
//! path what becomes of each, keeps those under way, and hands them over on time.
//!
//! All state sits behind one lock that the thread holds while it handles a batch, so a
//! snapshot of the counters always balances and agrees with the log.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::{TimeSpec, TimeValLike};

use super::config::{Direction, DirectionConfig};
use super::packet::{Packet, parse, set_window_scale};
use super::path::{PacketFate, PacketSizes, PathModel};
use super::stats::{Cause, DirectionStats, PacketRecord, Verdict};
use crate::clock::now_ns;

/// Packets read from one device before the other gets its turn.
const BATCH: usize = 64;
const LARGEST_PACKET: usize = 65_536;

/// State shared by the loop and the handle.
#[derive(Debug)]
pub(crate) struct WireState {
    pub(crate) directions: [DirectionState; 2],
    pub(crate) log: PacketLog,
    pub(crate) failure: Option<String>,
    pub(super) first_packet_ns: Option<u64>,
}

/// One direction: what to do, what is under way, what happened.
#[derive(Debug)]
pub(crate) struct DirectionState {
    pub(crate) config: DirectionConfig,
    pub(crate) stats: DirectionStats,
    path: PathModel,
    travelling: BinaryHeap<PacketInFlight>,
}

/// The packet log and its bound.
#[derive(Debug)]
pub(crate) struct PacketLog {
    pub(crate) records: Vec<PacketRecord>,
    pub(crate) missed: u64,
    capacity: usize,
}

/// A packet under way.
#[derive(Debug)]
struct PacketInFlight {
    at_ns: u64,
    /// Its number in this direction: packets due together keep their order.
    index: u64,
    row: Option<usize>,
    bytes: Vec<u8>,
}

impl PartialEq for PacketInFlight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PacketInFlight {}

impl PartialOrd for PacketInFlight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PacketInFlight {
    /// Reversed: the heap's greatest element is the packet that is due first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.index).cmp(&(self.at_ns, self.index))
    }
}

/// Locks the state of the wire, even if a thread panicked while it held the lock: the counters are
/// still the best account.
pub(crate) fn lock(state: &Mutex<WireState>) -> MutexGuard<'_, WireState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WireState {
    /// Makes a wire with these two directions; `log_packets` is the length of its log.
    pub(crate) fn new(configs: [DirectionConfig; 2], seed: u64, log_packets: usize) -> Self {
        let [a_to_b, b_to_a] = configs;
        WireState {
            // Distinct sequences per direction; the path mixes the seed further.
            directions: [
                DirectionState::new(a_to_b, seed),
                DirectionState::new(b_to_a, !seed),
            ],
            log: PacketLog {
                records: Vec::new(),
                missed: 0,
                capacity: log_packets,
            },
            failure: None,
            first_packet_ns: None,
        }
    }

    /// Takes a packet from its device: forwards it, keeps it until it is due, or drops it.
    fn enter(&mut self, direction: Direction, bytes: &mut [u8], to: &File) {
        let time_ns = now_ns();
        let direction_state = &mut self.directions[direction.index()];
        let packet_bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let tcp = match parse(bytes) {
            Packet::Tcp(segment) => Some(segment),
            Packet::Other => None,
            Packet::Ignored => return direction_state.stats.ignored.add(packet_bytes),
        };
        if let Some(scale) = direction_state.config.window_scale {
            direction_state.stats.window_scales_changed +=
                u64::from(set_window_scale(bytes, scale));
        }
        let first_ns = *self.first_packet_ns.get_or_insert(time_ns);
        let index = direction_state.stats.entered.packets;
        let payload_bytes = tcp.map_or(0, |tcp| tcp.payload_bytes);
        let fate = direction_state.decide(
            PacketSizes {
                packet_bytes,
                payload_bytes,
            },
            time_ns,
            first_ns,
        );
        let verdict = match fate {
            PacketFate::Deliver { .. } => Verdict::Travelling,
            PacketFate::Drop(cause) => Verdict::Dropped(cause),
        };
        let row = self.log.push(PacketRecord {
            time_ns,
            direction,
            index,
            packet_bytes,
            tcp,
            verdict,
            handing_ns: None,
            delivered_ns: None,
        });
        if let PacketFate::Deliver { at_ns } = fate {
            if at_ns <= time_ns && direction_state.travelling.is_empty() {
                direction_state.hand_over(&mut self.log, row, bytes, to);
            } else {
                direction_state.travelling.push(PacketInFlight {
                    at_ns,
                    index,
                    row,
                    bytes: bytes.to_vec(),
                });
            }
        }
    }

    /// Forwards all packets that are due; returns when the next one is, ns.
    fn deliver_due(&mut self, tuns: &[File; 2]) -> Option<u64> {
        for direction in Direction::BOTH {
            let direction_state = &mut self.directions[direction.index()];
            let to = &tuns[1 - direction.index()];
            while direction_state
                .travelling
                .peek()
                .is_some_and(|packet| packet.at_ns <= now_ns())
            {
                if let Some(packet) = direction_state.travelling.pop() {
                    direction_state.hand_over(&mut self.log, packet.row, &packet.bytes, to);
                }
            }
        }
        self.directions
            .iter()
            .filter_map(|direction_state| direction_state.travelling.peek())
            .map(|packet| packet.at_ns)
            .min()
    }

    /// Drops all packets under way, so that the final counters and log are complete.
    fn discard_rest(&mut self) {
        for direction_state in &mut self.directions {
            for packet in std::mem::take(&mut direction_state.travelling) {
                direction_state.settle_packet(
                    &mut self.log,
                    packet.row,
                    &packet.bytes,
                    Err(Cause::Discarded),
                );
            }
        }
    }
}

impl DirectionState {
    /// Makes a direction without packets under way.
    fn new(config: DirectionConfig, seed: u64) -> Self {
        DirectionState {
            config,
            stats: DirectionStats::default(),
            path: PathModel::new(seed),
            travelling: BinaryHeap::new(),
        }
    }

    /// Decides what happens to a packet, and counts it.
    fn decide(&mut self, packet: PacketSizes, now_ns: u64, first_ns: u64) -> PacketFate {
        self.stats.entered.add(packet.packet_bytes);
        let held_bytes = self.stats.travelling.bytes;
        let fate = self
            .path
            .admit(&self.config, packet, now_ns, now_ns - first_ns, held_bytes);
        match fate {
            PacketFate::Deliver { .. } => self.stats.travelling.add(packet.packet_bytes),
            PacketFate::Drop(cause) => self.stats.dropped.counter(cause).add(packet.packet_bytes),
        }
        fate
    }

    /// Writes a packet to the receiving device, and notes its end in the log.
    fn hand_over(&mut self, log: &mut PacketLog, row: Option<usize>, bytes: &[u8], mut to: &File) {
        let handing_ns = now_ns();
        // The receiver's TCP input runs inside this write (tun_get_user).
        let end = match to.write(bytes) {
            Ok(_) => Ok(handing_ns),
            Err(_) => Err(Cause::Refused),
        };
        self.settle_packet(log, row, bytes, end);
    }

    /// Notes the end of a packet in counters and log: when it was forwarded, or why it was dropped.
    fn settle_packet(
        &mut self,
        log: &mut PacketLog,
        row: Option<usize>,
        bytes: &[u8],
        end: Result<u64, Cause>,
    ) {
        let packet_bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.stats.travelling.remove(packet_bytes);
        let record = row.and_then(|row| log.records.get_mut(row));
        match end {
            Err(cause) => {
                self.stats.dropped.counter(cause).add(packet_bytes);
                if let Some(record) = record {
                    record.verdict = Verdict::Dropped(cause);
                }
            }
            Ok(handing_ns) => {
                self.stats.delivered.add(packet_bytes);
                if let Some(record) = record {
                    record.verdict = Verdict::Delivered;
                    record.handing_ns = Some(handing_ns);
                    record.delivered_ns = Some(now_ns());
                }
            }
        }
    }
}

impl PacketLog {
    /// Adds a packet to the log; returns its row, None if the log is full.
    fn push(&mut self, record: PacketRecord) -> Option<usize> {
        if self.records.len() < self.capacity {
            self.records.push(record);
            return Some(self.records.len() - 1);
        }
        // A log that is switched off has not missed anything.
        self.missed += u64::from(self.capacity > 0);
        None
    }
}

/// Forwards packets until `stop` is closed, or a device fails.
pub(crate) fn run(tuns: [File; 2], stop: PipeReader, state: Arc<Mutex<WireState>>) {
    // The default slack of 50 us would show in every round trip. Without it the wire is
    // only less exact, so a refusal is no error.
    let _ = set_timerslack(1);
    let outcome = forward_packets(&tuns, &stop, &state);
    let mut state = lock(&state);
    state.discard_rest();
    state.failure = outcome.err().map(|why| why.to_string());
}

/// Forwards packets in both directions until `stop` is closed.
fn forward_packets(
    tuns: &[File; 2],
    stop: &PipeReader,
    state: &Mutex<WireState>,
) -> io::Result<()> {
    let mut buffer = vec![0; LARGEST_PACKET];
    let mut due_ns = None;
    loop {
        let ready = wait(tuns, stop, due_ns)?;
        if ready.stop {
            return Ok(());
        }
        let mut state = lock(state);
        state.deliver_due(tuns);
        for direction in Direction::BOTH {
            if ready.tuns[direction.index()] {
                read_batch(&mut state, direction, tuns, &mut buffer)?;
            }
        }
        due_ns = state.deliver_due(tuns);
    }
}

/// Reads the packets that a device has ready.
fn read_batch(
    state: &mut WireState,
    direction: Direction,
    tuns: &[File; 2],
    buffer: &mut [u8],
) -> io::Result<()> {
    let [from, to] = match direction {
        Direction::AToB => [&tuns[0], &tuns[1]],
        Direction::BToA => [&tuns[1], &tuns[0]],
    };
    let mut from = from;
    for _ in 0..BATCH {
        match from.read(buffer) {
            Ok(length) => state.enter(direction, &mut buffer[..length], to),
            Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

struct ReadyDevices {
    tuns: [bool; 2],
    stop: bool,
}

/// Sleeps until a packet comes, a packet is due or the wire is stopped.
fn wait(tuns: &[File; 2], stop: &PipeReader, due_ns: Option<u64>) -> io::Result<ReadyDevices> {
    let mut fds = [
        PollFd::new(tuns[0].as_fd(), PollFlags::POLLIN),
        PollFd::new(tuns[1].as_fd(), PollFlags::POLLIN),
        PollFd::new(stop.as_fd(), PollFlags::POLLIN),
    ];
    let timeout = due_ns.map(|due_ns| {
        let left_ns = due_ns.saturating_sub(now_ns());
        TimeSpec::nanoseconds(i64::try_from(left_ns).unwrap_or(i64::MAX))
    });
    match ppoll(&mut fds, timeout, None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(why) => return Err(why.into()),
    }
    let any = |fd: &PollFd| fd.any().unwrap_or(false);
    Ok(ReadyDevices {
        tuns: [any(&fds[0]), any(&fds[1])],
        stop: any(&fds[2]),
    })
}
