//! The way between the two ends of a fault: one wire, or two with a router between them, where packets are captured.
//!
//! With a router one of the wires has all that is wrong with the way, and half of the delay. So the router is behind the
//! fault in one direction and before it in the other. The seed says which wire that is.

use std::fs;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use crate::wire::WireStats;
use crate::{DirectionConfig, LabError, Netns, Wire, WireConfig};

/// Addresses behind the router: its own, and the server's.
const FAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);

/// A way between client and server.
pub(super) struct Route {
    near: Wire,
    /// Behind the router.
    far: Option<Wire>,
    /// Whether the fault lies behind the router.
    is_fault_far: bool,
}

impl Route {
    /// Makes a route of one wire.
    pub(super) fn direct(config: WireConfig) -> Result<Self, LabError> {
        Ok(Self {
            near: Wire::start(config)?,
            far: None,
            is_fault_far: false,
        })
    }

    /// Makes a route of two wires and a router between them.
    pub(super) fn routed(config: WireConfig) -> Result<Self, LabError> {
        let router = Netns::new()?;
        router.sysctl("net.ipv4.ip_forward", "1")?;
        let delays = |config: &WireConfig| WireConfig {
            a_to_b: DirectionConfig::delay(config.a_to_b.delay_us / 2),
            b_to_a: DirectionConfig::delay(config.b_to_a.delay_us / 2),
            ..config.clone()
        };
        let mut faulty = config.clone();
        for direction in [&mut faulty.a_to_b, &mut faulty.b_to_a] {
            direction.delay_us -= direction.delay_us / 2;
        }
        let is_fault_far = config.seed.is_multiple_of(2);
        let (near, far) = match is_fault_far {
            true => (delays(&config), faulty),
            false => (faulty, delays(&config)),
        };
        let far = WireConfig {
            device: "wire1".to_owned(),
            address_a: FAR_ADDRESS,
            ..far
        };
        let near = Wire::between(near, Netns::new()?, router.clone())?;
        let far = Wire::between(far, router, Netns::new()?)?;
        let by = |netns: &Netns, to: Ipv4Addr, via: Ipv4Addr| {
            netns.run_ip(&format!("route add {to}/32 via {via}"))
        };
        by(&near.a, far.address_b(), near.address_b())?;
        by(&far.b, near.address_a(), far.address_a())?;
        if let Some(congctl) = &config.congctl {
            near.a.set_congctl(congctl)?;
            far.b.set_congctl(congctl)?;
        }
        Ok(Self {
            near,
            far: Some(far),
            is_fault_far,
        })
    }

    /// Returns the client's end.
    pub(super) fn client(&self) -> &Netns {
        &self.near.a
    }

    /// Returns the server's end.
    pub(super) fn server(&self) -> &Netns {
        &self.server_wire().b
    }

    /// Returns the router's namespace; `None` for a single wire.
    pub(super) fn router(&self) -> Option<&Netns> {
        self.far.as_ref().map(|far| &far.a)
    }

    /// Returns the wire that the server is at.
    pub(super) fn server_wire(&self) -> &Wire {
        self.far.as_ref().unwrap_or(&self.near)
    }

    /// Returns the end at which the fault is, seen from the router; `None`: there is no router.
    pub(super) fn fault_side(&self) -> Option<&'static str> {
        self.far.as_ref().map(|_| match self.is_fault_far {
            true => "server",
            false => "client",
        })
    }

    /// Waits until all connections at both ends are closed, for a second at most.
    pub(super) fn drain(&self) -> Result<(), LabError> {
        const LONGEST: Duration = Duration::from_secs(1);
        let end = Instant::now() + LONGEST;
        while Instant::now() < end
            && (has_connections(self.client())? || has_connections(self.server())?)
        {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Takes the way down. Returns the counters of the wire with the fault.
    pub(super) fn stop(self) -> WireStats {
        let near = self.near.stop().0;
        let far = self.far.map(|far| far.stop().0);
        far.filter(|_| self.is_fault_far).unwrap_or(near)
    }
}

/// Returns whether a namespace has TCP sockets that neither listen nor are over.
fn has_connections(netns: &Netns) -> Result<bool, LabError> {
    const TABLE: &str = "/proc/thread-self/net/tcp";
    // TIME_WAIT, CLOSE and LISTEN (include/net/tcp_states.h)
    const OTHERS: [&str; 3] = ["06", "07", "0A"];
    let table = netns.run(|| fs::read_to_string(TABLE))?;
    let table = table.map_err(|why| LabError::os("read", TABLE, why, "mount /proc"))?;
    let states = table.lines().skip(1);
    let mut states = states.filter_map(|line| line.split_whitespace().nth(3));
    Ok(states.any(|state| !OTHERS.contains(&state)))
}
