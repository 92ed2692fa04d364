//! Wires that several tests use.

use lab::{Direction, DirectionConfig, Wire, WireConfig};

use testbed::until;

/// A wire with this delay each way, in µs.
pub fn wire(congctl: &str, delay_us: u64) -> Wire {
    start(congctl, DirectionConfig::delay(delay_us))
}

/// A wire of 50 Mbit/s and 20 ms there and back. Its queue holds one bandwidth-delay product.
pub fn link(congctl: &str) -> DirectionConfig {
    assert!(matches!(congctl, "cubic" | "bbr"));
    DirectionConfig {
        rate_bps: Some(50_000_000),
        queue_bytes: 128 << 10,
        ..DirectionConfig::delay(10_000)
    }
}

/// A wire on which `forward` happens to what the client sends; what comes back is only delayed.
pub fn start(congctl: &str, forward: DirectionConfig) -> Wire {
    let back = DirectionConfig::delay(forward.delay_us);
    Wire::start(WireConfig {
        a_to_b: forward,
        b_to_a: back,
        congctl: Some(congctl.to_owned()),
        ..WireConfig::default()
    })
    .expect("a wire")
}

/// Drops all packets that the client sends for this long, from the middle of the transfer on.
pub fn drop_sent_packets(wire: &Wire, length_ns: u64) {
    let has_data = || (wire.stats().a_to_b.delivered.packets > 500).then_some(());
    until("data on the wire", has_data);
    let since_ns = wire.blackhole(Direction::AToB, true);
    let over = || (lab::now_ns() >= since_ns + length_ns).then_some(());
    until("the end of the black hole", over);
    wire.blackhole(Direction::AToB, false);
}
