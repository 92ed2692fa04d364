//! The parts that a request's time is made of, and sums of them.

use serde::Serialize;
use serde::ser::SerializeMap;
use table::Stage;

use crate::kernel::WAKE_NS;

macro_rules! parts {
    ($($(#[doc = $doc:literal])+ $part:ident = $name:literal, $text:literal;)+) => {
        /// One part of a request's time. `docs/requests.md` says how each is found.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RequestPart {
            $($(#[doc = $doc])+ $part,)+
        }

        impl RequestPart {
            /// Every part, in the order in which answers list them.
            pub const ALL: &'static [Self] = &[$(Self::$part),+];

            /// Returns the name in JSON and CSV.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$part => $name),+
                }
            }

            /// Returns the name in text.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$part => $text),+
                }
            }
        }
    };
}

parts! {
    /// The TCP handshake of a connection that this request opened.
    Connect = "connect", "connect";
    /// Blocked on a resolver's socket.
    Dns = "dns", "DNS";
    /// Under way: the round trip of the path.
    Network = "network", "network";
    /// The stage of the same name.
    RetransmitTimeout = "retransmit_timeout", "retransmission timeout";
    /// The stage of the same name.
    TailLoss = "tail_loss", "tail loss";
    /// The stage of the same name.
    ReceiverWindow = "receiver_window", "receiver window";
    /// The stage of the same name.
    FastRetransmit = "fast_retransmit", "fast retransmit";
    /// The stage of the same name.
    CongestionWindow = "congestion_window", "congestion window";
    /// The stage of the same name.
    Pacing = "pacing", "pacing";
    /// The stage of the same name.
    LocalQueue = "local_queue", "local queue";
    /// The stage of the same name.
    Cork = "cork", "cork";
    /// The stage of the same name.
    Nagle = "nagle", "Nagle";
    /// The stage of the same name.
    DelayedAck = "delayed_ack", "delayed ACK";
    /// The stage of the same name.
    SendBuffer = "send_buffer", "send buffer";
    /// It had arrived, and no thread had read it; what the thread did is not known.
    Unread = "unread", "unread";
    /// It had arrived, and the thread that read it served others first.
    Queued = "queued", "queued behind others";
    /// A thread ran.
    Cpu = "cpu", "computing";
    /// A thread could run, and another one ran.
    Preempted = "preempted", "preempted";
    /// A thread could run, and its control group had used up its CPU quota.
    CpuQuota = "cpu_quota", "CPU quota";
    /// A thread was runnable and waited for a CPU.
    RunQueue = "run_queue", "waiting for a CPU";
    /// A futex or another lock of the process.
    Lock = "lock", "lock";
    /// The disk, or a file.
    Disk = "disk", "disk";
    /// A page of memory.
    Memory = "memory", "memory";
    /// Room for output: in a pipe, a terminal or a UNIX socket that nobody reads fast enough.
    Output = "output", "blocked output";
    /// A signal, a debugger or a freezer stopped the process.
    Paused = "paused", "stopped process";
    /// A sleep or a timeout that nothing else ended.
    Timer = "timer", "timer";
    /// Another process on this host: a pipe, a UNIX socket, a child.
    Process = "process", "another process";
    /// A request that this request made.
    Upstream = "upstream", "upstream";
    /// The other end, which is not recorded.
    Remote = "remote", "the other end";
    /// The rest.
    Unknown = "unknown", "unknown";
}

/// Parts in which a thread could run and had no CPU.
pub const LACK_OF_CPU: &[RequestPart] = &[
    RequestPart::RunQueue,
    RequestPart::Preempted,
    RequestPart::CpuQuota,
];

/// Number of parts.
pub const PARTS: usize = RequestPart::ALL.len();

impl RequestPart {
    /// Returns the part that is a stage of TCP in which data was held; `None`: nothing was.
    pub const fn of_stage(stage: Stage) -> Option<Self> {
        Some(match stage {
            Stage::RetransmitTimeout => Self::RetransmitTimeout,
            Stage::TailLoss => Self::TailLoss,
            Stage::ReceiverWindow => Self::ReceiverWindow,
            Stage::FastRetransmit => Self::FastRetransmit,
            Stage::CongestionWindow => Self::CongestionWindow,
            Stage::Pacing => Self::Pacing,
            Stage::LocalQueue => Self::LocalQueue,
            Stage::Cork => Self::Cork,
            Stage::Nagle => Self::Nagle,
            Stage::DelayedAck => Self::DelayedAck,
            Stage::SendBuffer => Self::SendBuffer,
            Stage::InFlight | Stage::SenderApp | Stage::Unknown => return None,
        })
    }

    /// Returns whether a thread could run meanwhile, and had no CPU.
    pub fn is_lack_of_cpu(self) -> bool {
        LACK_OF_CPU.contains(&self)
    }

    /// Returns how much of an interval with this part every wake-up takes, ns: nothing but of a run-queue delay.
    pub fn wake_ns(self, ns: u64) -> u64 {
        match self {
            Self::RunQueue => ns.min(WAKE_NS),
            _ => 0,
        }
    }

    /// Returns whether the time passed while the request was with TCP or the other end.
    pub const fn is_elsewhere(self) -> bool {
        (self as usize) >= Self::Network as usize && (self as usize) <= Self::SendBuffer as usize
            || matches!(self, Self::Remote)
    }
}

impl Serialize for RequestPart {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Time of each part, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartTimes([u64; PARTS]);

impl PartTimes {
    /// Adds time to a part.
    pub fn add(&mut self, part: RequestPart, ns: u64) {
        self.0[part as usize] += ns;
    }

    /// Adds all parts of another.
    pub fn add_all(&mut self, other: &Self) {
        for (sum, ns) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(ns);
        }
    }

    /// Moves at most `ns` from one part to another.
    pub fn shift(&mut self, from: RequestPart, to: RequestPart, ns: u64) {
        let ns = ns.min(self.get(from));
        self.0[from as usize] -= ns;
        self.0[to as usize] += ns;
    }

    /// Returns the time of a part, ns.
    pub fn get(&self, part: RequestPart) -> u64 {
        self.0[part as usize]
    }

    /// Returns the sum of all parts, ns.
    pub fn total_ns(&self) -> u64 {
        self.0.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Returns the parts that took time, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (RequestPart, u64)> + '_ {
        let all = RequestPart::ALL.iter().copied().zip(self.0);
        all.filter(|(_, ns)| *ns > 0)
    }

    /// Returns the parts that took time, the largest first.
    pub fn largest(&self) -> Vec<(RequestPart, u64)> {
        let mut parts: Vec<_> = self.iter().collect();
        parts.sort_by_key(|(part, ns)| (std::cmp::Reverse(*ns), *part));
        parts
    }
}

impl Serialize for PartTimes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (part, ns) in self.iter() {
            map.serialize_entry(part.name(), &ns)?;
        }
        map.end()
    }
}

/// Parts as shares of their sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartShares(pub PartTimes);

impl PartShares {
    /// Returns the share of a part.
    pub fn share(&self, part: RequestPart) -> f64 {
        crate::units::ratio_of(self.0.get(part), self.0.total_ns())
    }

    /// Returns the parts with their shares, the largest first.
    pub fn largest(&self) -> impl Iterator<Item = (RequestPart, f64)> + '_ {
        let parts = self.0.largest().into_iter();
        parts.map(|(part, _)| (part, self.share(part)))
    }
}

impl Serialize for PartShares {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (part, _) in self.0.iter() {
            map.serialize_entry(part.name(), &self.share(part))?;
        }
        map.end()
    }
}
