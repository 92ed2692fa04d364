//! The lines of `manifest.jsonl`: what a recording is, what it holds, what it lost and what
//! it cost. The manifest is append-only; a reader takes the lines in order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the recording format that this code writes. Older ones are read.
pub const FORMAT: u32 = 1;

/// Detail of a recording that was made of a packet capture, and the name by which it accounts for packets.
pub const CAPTURE: &str = "capture";

/// One line of the manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// First line.
    Header(Header),
    /// A segment was sealed.
    Segment(Segment),
    /// All segments of a table so far were rewritten as one; the earlier ones no longer count.
    Merged(Segment),
    /// State of a probe; a later line for the same probe replaces an earlier one.
    Coverage(Coverage),
    /// Totals of a probe so far; a later line replaces an earlier one.
    Loss(Loss),
    /// A USDT probe that is listened to; a later line for the same probe and file replaces an
    /// earlier one.
    Usdt(UsdtProbe),
    /// Sockets of one kind that recorded processes had; a later line for the same kind replaces an earlier one.
    Sockets(SocketKind),
    /// The cost so far; a later line replaces an earlier one.
    Cost(Cost),
    /// Last line of a recording that was closed in order, or by `recover`.
    Close(Close),
}

/// Describes a recording and its host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Format version; see [`FORMAT`].
    pub format: u32,
    /// Version of whylat that wrote it.
    pub whylat: String,
    /// Host name.
    pub host: String,
    /// Kernel's boot id: socket cookies are unique within it.
    pub boot_id: String,
    /// Kernel release and version.
    pub kernel: String,
    /// Online CPUs.
    pub cpus: u32,
    /// Architecture of the recorder, by which numbers of system calls are read (`x86_64`, `aarch64`); `None`: an earlier
    /// version did not write it, or no host was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Kernel clock source (`tsc`, `kvm-clock`, …).
    pub clocksource: String,
    /// Detail level.
    pub detail: String,
    /// Command line that made the recording.
    pub arguments: Vec<String>,
    /// `CLOCK_MONOTONIC` at the start.
    pub started_ns: u64,
    /// `CLOCK_REALTIME` at the start.
    pub started_realtime_ns: u64,
    /// Length of a jiffy, the resolution of the kernel's own stage clocks; `None`: unknown.
    pub jiffy_ns: Option<u64>,
}

impl Header {
    /// Returns whether the recording was made of a packet capture: no socket was seen.
    pub fn is_capture(&self) -> bool {
        self.detail == CAPTURE
    }
}

/// A sealed file of one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Table name.
    pub table: String,
    /// Path of the file below the recording directory.
    pub file: String,
    /// Rows in it.
    pub rows: u64,
    /// Earliest row time.
    pub first_ns: u64,
    /// Latest row time.
    pub last_ns: u64,
    /// Length of the file.
    pub bytes: u64,
    /// BLAKE3 digest of the file, hexadecimal.
    pub blake3: String,
}

/// States of a probe on this host, decided from what loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Name of the probe, or `probe.part` for one of its hooks.
    pub probe: String,
    /// Its state.
    #[serde(flatten)]
    pub state: ProbeState,
}

/// State of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ProbeState {
    /// Working as designed.
    On,
    /// Working in part, or by other means.
    Fallback {
        /// The part that works, or the means.
        which: String,
        /// Why it is not all, or not the first choice; may be empty.
        why: String,
    },
    /// Not working.
    Off {
        /// Why.
        why: String,
        /// The fix; empty when there is none.
        remedy: String,
    },
}

/// Returns how a probe works in part, and why: `WHICH; WHY`.
pub fn join_reason(which: &str, why: &str) -> String {
    let parts = [which, why].into_iter().filter(|text| !text.is_empty());
    parts.collect::<Vec<_>>().join("; ")
}

/// `produced = stored + filtered + Σ lost`, exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Name of the probe.
    pub probe: String,
    /// Records that the probe's hooks set out to make.
    pub produced: u64,
    /// Records in sealed segments.
    pub stored: u64,
    /// Records dropped on purpose (a poll that found nothing new).
    pub filtered: u64,
    /// Records lost, by cause.
    pub lost: BTreeMap<String, u64>,
}

impl Loss {
    /// Records lost for any cause.
    pub fn lost_total(&self) -> u64 {
        self.lost.values().sum()
    }

    /// Returns the unexplained rest of the identity: zero, or the accounting is wrong.
    pub fn residual(&self) -> i128 {
        i128::from(self.produced)
            - i128::from(self.stored)
            - i128::from(self.filtered)
            - i128::from(self.lost_total())
    }
}

/// A USDT probe that was listened to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsdtProbe {
    /// Provider.
    pub provider: String,
    /// Name.
    pub name: String,
    /// The file that has it.
    pub path: String,
    /// Places in the file's code.
    pub places: u64,
    /// How often it fired in recorded processes; `None`: the recording was not closed, so that
    /// nobody counted.
    pub fired: Option<u64>,
}

/// Sockets of one kind that recorded processes had. Where no connection was seen, this says why that may be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketKind {
    /// `tcp`, `mptcp`, `udp`, `unix`, `smc`, `sctp`, `raw`, `packet`, `netlink`, `vsock` or `other`.
    pub kind: String,
    /// Descriptors that were such sockets, as most were open at one look.
    pub open: u64,
    /// Send calls that moved bytes; `None`: not counted (TCP's are rows of `calls`; no hook saw calls).
    pub sends: Option<u64>,
    /// Bytes that they sent.
    pub sent_bytes: Option<u64>,
    /// Receive calls that moved bytes; `None` as `sends`.
    pub receives: Option<u64>,
    /// Bytes that they took.
    pub received_bytes: Option<u64>,
}

impl SocketKind {
    /// Returns whether none was seen.
    pub fn is_empty(&self) -> bool {
        self.open == 0 && self.calls() == 0
    }

    /// Returns the number of calls that moved bytes, as far as they were counted.
    pub fn calls(&self) -> u64 {
        self.sends.unwrap_or(0) + self.receives.unwrap_or(0)
    }
}

/// Cost of the profiler itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Recorded time.
    pub wall_ns: u64,
    /// CPU time of the recorder's threads since the recording began.
    pub cpu_ns: u64,
    /// CPU time that it took before, to load and attach the probes.
    #[serde(default)]
    pub start_cpu_ns: u64,
    /// Peak resident memory.
    pub max_rss_bytes: u64,
    /// Share of one CPU spent in BPF programs, `run_time_ns` over wall time, in the windows in
    /// which the kernel's statistics were on. `None`: no window was taken.
    pub bpf_cpu_share: Option<f64>,
    /// Length of those windows together.
    pub bpf_sampled_ns: u64,
}

/// The end of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Close {
    /// `CLOCK_MONOTONIC` at the end.
    pub ended_ns: u64,
    /// Whether the recorder itself closed it (true) or `recover` did (false).
    pub in_order: bool,
}
