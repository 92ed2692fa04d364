//! Targets for hostile input: one function each. In: any bytes. Out: nothing; a target fails by a panic, by
//! an input that takes too long, or by too much memory.
//!
//! Each takes the way that the program takes with such input, so that a panic that the program catches is no failure.

mod capture;
mod config;
mod files;
mod recording;
mod ring;
mod trace;

// The `whylat` package has no library: of its sources, what reads a configuration file and needs nothing of the rest.
#[path = "../../crates/cli/src/profile.rs"]
mod profile;
#[path = "../../crates/cli/src/values.rs"]
mod values;

pub use capture::pcap;
pub use config::{agent_config, profiles};
pub use files::elf;
pub use recording::{manifest, segment};
pub use ring::itt_ring;
pub use trace::{ftrace, intel_pt, perf};

/// A reader of hostile input.
pub type Target = fn(&[u8]);

/// All targets, by the name of their corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("manifest", manifest),
    ("segment", segment),
    ("perf", perf),
    ("ftrace", ftrace),
    ("intel_pt", intel_pt),
    ("pcap", pcap),
    ("itt_ring", itt_ring),
    ("netlink", netlink),
    ("elf", elf),
    ("perf_map", perf_map),
    ("agent_config", agent_config),
    ("profiles", profiles),
];

/// A batch of `sock_diag` replies.
pub fn netlink(bytes: &[u8]) {
    probe::fuzz::netlink_batch(bytes);
}

/// A map of code that a program made, as it wrote it.
pub fn perf_map(bytes: &[u8]) {
    probe::fuzz::perf_map(bytes);
}
