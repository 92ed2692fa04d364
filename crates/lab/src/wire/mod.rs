//! A user-space wire between two network namespaces.
//!
//! In: what to do to packets ([`WireConfig`]). Out: two namespaces joined by a path
//! with that delay, loss, rate and queue, the wire's own counters and a log of every
//! packet. The programs at both ends use the kernel's TCP unchanged. It exists because
//! netem is not in every kernel, and because a log from outside the kernel's TCP is a
//! truth that the profiler's answers can be held against.

mod config;
mod engine;
pub(crate) mod packet;
mod path;
mod stats;
mod tun;

pub mod command;

use std::io::{PipeWriter, pipe};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

pub use config::{
    BurstLoss, Direction, DirectionConfig, HoldWindow, LossWindow, WindowScale, WireConfig,
};
pub use packet::Segment;
pub use stats::{
    Cause, Count, DirectionStats, DropCounts, PacketRecord, Verdict, WireStats, write_log,
};

use crate::clock::now_ns;
use crate::error::LabError;
use crate::netns::Netns;
use engine::{WireState, lock};

/// Records copied per lock, so that reading a long log does not hold up packets.
const LOG_CHUNK: usize = 4096;

/// Gives this thread real-time priority, if it may: a wire that waits for a CPU moves no packets.
fn first_in_line() {
    // SAFETY: setpriority takes no pointers; thread 0 is the calling one.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// A running wire. Dropping it stops it and removes its devices; the namespaces live as
/// long as a handle exists.
#[derive(Debug)]
pub struct Wire {
    /// Namespace at one end.
    pub a: Netns,
    /// Namespace at the other end.
    pub b: Netns,
    config: WireConfig,
    state: Arc<Mutex<WireState>>,
    /// Closing it wakes the loop and ends it.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Makes two namespaces and starts a wire between them.
    ///
    /// # Errors
    /// For options out of range, without root, and when a device cannot be set up.
    pub fn start(config: WireConfig) -> Result<Wire, LabError> {
        config.check()?;
        Wire::between(config, Netns::new()?, Netns::new()?)
    }

    /// Starts a wire between two namespaces that exist, which may have other wires with
    /// other device names and addresses.
    ///
    /// # Errors
    /// As [`Wire::start`]; also when the device name or an address is taken.
    pub fn between(config: WireConfig, a: Netns, b: Netns) -> Result<Wire, LabError> {
        config.check()?;
        let tuns = [
            tun::open(&a, &config.device)?,
            tun::open(&b, &config.device)?,
        ];
        configure_end(&a, &config, config.address_a, config.address6_a)?;
        configure_end(&b, &config, config.address_b(), config.address6_b())?;
        let directions = [config.a_to_b.clone(), config.b_to_a.clone()];
        let state = WireState::new(directions, config.seed, config.log_packets);
        let state = Arc::new(Mutex::new(state));
        let hint = "free memory, threads or file descriptors";
        let (wake, stop) = pipe().map_err(|why| LabError::os("make", "a pipe", why, hint))?;
        let shared = Arc::clone(&state);
        let thread = thread::Builder::new()
            .name("lab-wire".into())
            .spawn(move || {
                first_in_line();
                engine::run(tuns, wake, shared);
            })
            .map_err(|why| LabError::os("start", "the wire's thread", why, hint))?;
        Ok(Wire {
            a,
            b,
            config,
            state,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the address of end `a`.
    pub fn address_a(&self) -> Ipv4Addr {
        self.config.address_a
    }

    /// Returns the address of end `b`.
    pub fn address_b(&self) -> Ipv4Addr {
        self.config.address_b()
    }

    /// Returns the IPv6 addresses of `a` and `b`, if the wire carries IPv6.
    pub fn addresses6(&self) -> Option<(Ipv6Addr, Ipv6Addr)> {
        self.config.address6_a.zip(self.config.address6_b())
    }

    /// Returns the counters now.
    pub fn stats(&self) -> WireStats {
        let state = lock(&self.state);
        let mut stats = WireStats {
            a_to_b: state.directions[0].stats,
            b_to_a: state.directions[1].stats,
            first_packet_ns: state.first_packet_ns,
            log_missed: state.log.missed,
            failure: state.failure.clone(),
        };
        drop(state);
        stats.a_to_b.dropped_before_wire = self.a.transmit_drops(&self.config.device);
        stats.b_to_a.dropped_before_wire = self.b.transmit_drops(&self.config.device);
        stats
    }

    /// Returns a copy of the packet log so far. Packets that travel have no final verdict yet: use
    /// [`Wire::stop`] for a complete one.
    pub fn log(&self) -> Vec<PacketRecord> {
        let mut copy = Vec::new();
        loop {
            let state = lock(&self.state);
            let rest = state.log.records.get(copy.len()..).unwrap_or_default();
            if rest.is_empty() {
                return copy;
            }
            copy.extend_from_slice(&rest[..rest.len().min(LOG_CHUNK)]);
        }
    }

    /// Replaces what happens to packets that enter from now on; those under way keep
    /// their fate. Random sequences and counts go on. Returns the time of the change,
    /// `CLOCK_MONOTONIC` ns.
    ///
    /// # Errors
    /// For options out of range.
    pub fn change(
        &self,
        direction: Direction,
        edit: impl FnOnce(&mut DirectionConfig),
    ) -> Result<u64, LabError> {
        let mut state = lock(&self.state);
        let direction_state = &mut state.directions[direction.index()];
        let mut config = direction_state.config.clone();
        edit(&mut config);
        config.check()?;
        direction_state.config = config;
        Ok(now_ns())
    }

    /// Starts or ends losing every packet of a direction. Returns the time of the
    /// change, `CLOCK_MONOTONIC` ns.
    pub fn blackhole(&self, direction: Direction, on: bool) -> u64 {
        let mut state = lock(&self.state);
        state.directions[direction.index()].config.blackhole = on;
        now_ns()
    }

    /// Stops forwarding, removes the devices and returns the final counters and log.
    /// What was under way is counted as discarded.
    pub fn stop(mut self) -> (WireStats, Vec<PacketRecord>) {
        let before = self.stats();
        self.end();
        let mut state = lock(&self.state);
        let log = std::mem::take(&mut state.log.records);
        drop(state);
        let mut stats = self.stats();
        // The devices are gone; their own counters were read before.
        stats.a_to_b.dropped_before_wire = before.a_to_b.dropped_before_wire;
        stats.b_to_a.dropped_before_wire = before.b_to_a.dropped_before_wire;
        (stats, log)
    }

    /// Ends the forwarding thread.
    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the loop has been printed already; the counters remain.
            let _ = thread.join();
        }
    }
}

/// Sets addresses, MTU and congestion control of one end.
fn configure_end(
    netns: &Netns,
    config: &WireConfig,
    address: Ipv4Addr,
    address6: Option<Ipv6Addr>,
) -> Result<(), LabError> {
    let address = format!("{address}/30");
    let address6 = address6.map(|address| format!("{address}/126"));
    tun::configure_device(
        netns,
        &config.device,
        config.mtu,
        &address,
        address6.as_deref(),
    )?;
    config
        .congctl
        .as_ref()
        .map_or(Ok(()), |congctl| netns.set_congctl(congctl))
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.end();
    }
}
