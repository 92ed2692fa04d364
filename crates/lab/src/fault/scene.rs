//! The parts of a fault.

use std::ops::Range;

use clap::ValueEnum;
use serde::Serialize;

use crate::random::Random;
use crate::{DirectionConfig, LabError};

/// Form of a fault that is played. The forms differ in nothing but the fault and its fix, and have the same sizes and
/// delays for the same seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// With the fault.
    Faulty,
    /// Its twin without it.
    Healthy,
    /// With the fault's cause, and the first advice of its finding followed.
    #[value(name = "mended")]
    #[serde(rename = "mended")]
    Fixed,
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionEnd {
    /// The end that connected.
    Client,
    /// The end that accepted.
    Server,
    /// The program that passed data on between them.
    Proxy,
}

/// Connections of an end that a claim is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimSubject {
    /// All.
    All,
    /// Those on which a receive call took TCP_RTO_MIN (200 ms) or more.
    Stalled,
    /// Those for which connect() took a SYN's first timeout (1 s) or more.
    LateToConnect,
    /// The listening socket itself.
    Listener,
    /// The n-th.
    Nth(usize),
    /// Those with the n-th client.
    WithClient(usize),
    /// No socket: the requests that this end's process sends or answers.
    Service,
    /// The same, by UDP.
    Datagrams,
    /// No socket: the process of this end.
    Process,
}

/// A finding that a diagnosis of the fault must report: its rule and its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Name of the rule.
    pub rule: &'static str,
    /// The end of the socket that it is about.
    pub end: ConnectionEnd,
    /// The sockets of that end, or what else of it.
    pub of: ClaimSubject,
}

/// Programs of a scene that a recording must cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedPrograms {
    /// All programs.
    All,
    /// The first client alone, as where the server runs on another host.
    Client,
}

/// A server and its clients, with their options.
#[derive(Debug, Clone)]
pub struct ProgramPair {
    /// `whylat lab workload` words without the address.
    pub server: String,
    /// `whylat lab workload` words of a proxy beside the clients, which then connect to it.
    pub proxy: Option<String>,
    /// `whylat lab workload` words of each client.
    pub clients: Vec<String>,
    /// Claims about it beside that of the fault.
    pub claims: Vec<Claim>,
    /// Rules that may be reported of the requests of an end, by the scene's settings.
    pub also_true: Vec<(ConnectionEnd, &'static str)>,
}

impl ProgramPair {
    /// Makes a pair without claims.
    pub fn new(server: impl Into<String>, client: impl Into<String>) -> Self {
        ProgramPair {
            server: server.into(),
            proxy: None,
            clients: vec![client.into()],
            claims: Vec::new(),
            also_true: Vec::new(),
        }
    }
}

/// A path between two ends, the programs that use it, and the settings of both ends.
#[derive(Debug, Clone)]
pub struct Scene {
    /// MTU of the path.
    pub mtu: u32,
    /// From client to server.
    pub forward: DirectionConfig,
    /// From server to client.
    pub back: DirectionConfig,
    /// The pair with the fault.
    pub pair: ProgramPair,
    /// Others, who talk over the same path at the same time.
    pub others: Vec<ProgramPair>,
    /// When the fault is there, in microseconds after the wire's first packet; `None`: always.
    pub lasts_us: Option<Range<u64>>,
    /// No loss belongs to it: where the path's queue overflows all the same, more was planted than this.
    pub lossless: bool,
    /// Settings of an end's namespace.
    pub sysctls: Vec<(ConnectionEnd, &'static str, &'static str)>,
    /// Programs without connections that run meanwhile: `whylat lab workload` words.
    pub beside: Vec<String>,
    /// Commands of nft, each in the namespace of an end.
    pub firewall: Vec<(ConnectionEnd, String)>,
    /// Client and server run on one host, and talk over its loopback device instead of the path.
    pub is_local: bool,
    /// Programs that a recording has to see.
    pub recorded: RecordedPrograms,
    /// Its fixes, each apart, if there are several. The scene of [`Variant::Fixed`] is then
    /// without any, and the first one is applied unless another is chosen.
    pub fixes: &'static [FaultFix],
}

/// A fix of a fault: further words for its roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FaultFix {
    /// Its name on the command line.
    pub name: &'static str,
    /// One sentence: who does what.
    pub summary: &'static str,
    /// `whylat lab workload` words for each client.
    #[serde(skip)]
    pub client: &'static str,
    /// `whylat lab workload` words for the server.
    #[serde(skip)]
    pub server: &'static str,
}

impl Scene {
    /// Makes a scene with one pair of programs, over a path that is the same in both directions.
    pub fn over(
        path: DirectionConfig,
        server: impl Into<String>,
        client: impl Into<String>,
    ) -> Self {
        Scene {
            mtu: 1500,
            back: path.clone(),
            forward: path,
            pair: ProgramPair::new(server, client),
            others: Vec::new(),
            lasts_us: None,
            lossless: false,
            sysctls: Vec::new(),
            beside: Vec::new(),
            firewall: Vec::new(),
            is_local: false,
            recorded: RecordedPrograms::All,
            fixes: &[],
        }
    }

    /// Makes a scene with one pair of programs on one host.
    pub fn local(server: impl Into<String>, client: impl Into<String>) -> Self {
        Scene {
            is_local: true,
            ..Scene::over(DirectionConfig::default(), server, client)
        }
    }

    /// Returns the fix with this name; without a name the first.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn fix(&self, name: Option<&str>) -> Result<Option<&'static FaultFix>, LabError> {
        let Some(name) = name else {
            return Ok(self.fixes.first());
        };
        let found = self.fixes.iter().find(|fix| fix.name == name);
        found.map(Some).ok_or_else(|| LabError::Option {
            option: "--cure",
            value: name.to_owned(),
            why: "this fault has no such fix",
            hint: "`whylat lab list` shows the fixes of each fault",
        })
    }

    /// Applies a fix to the scene.
    #[must_use]
    pub fn with_fix(mut self, fix: &FaultFix) -> Self {
        self.pair.server = format!("{} {}", self.pair.server, fix.server);
        for client in &mut self.pair.clients {
            *client = format!("{client} {}", fix.client);
        }
        self
    }
}

/// Congestion controls under which a fault of connections is planted.
pub const CONGCTLS: &[&str] = &["cubic", "bbr"];

/// A fault that the lab can plant.
#[derive(Clone, Copy)]
pub struct Fault {
    /// Its name on the command line.
    pub name: &'static str,
    /// One sentence: what is wrong.
    pub summary: &'static str,
    /// Where it is described.
    pub source: &'static str,
    /// The finding that a diagnosis must report under this congestion control; none where the fault does no harm.
    pub claim: fn(congctl: &str) -> Option<Claim>,
    /// Whether the lab can follow the finding's advice: else there is no [`Variant::Fixed`].
    pub mendable: bool,
    /// Congestion controls under which it is planted: the first alone where it does not matter.
    pub congctls: &'static [&'static str],
    /// Sets the scene.
    pub scene: fn(Variant, &mut SeededDice) -> Scene,
}

/// Numbers that follow from the seed, so that each instance is another and can be had again.
#[derive(Debug)]
pub struct SeededDice(Random);

impl SeededDice {
    /// Makes random numbers of this seed.
    pub fn new(seed: u64) -> Self {
        SeededDice(Random::new(seed))
    }

    /// Returns a number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }
}

/// Returns the word, or nothing if this variant does not have it.
pub(super) fn variant_word(there: bool, word: &str) -> &str {
    if there { word } else { "" }
}

/// Returns a path of this many milliseconds there and back.
pub(super) fn path(rtt_ms: u64) -> DirectionConfig {
    DirectionConfig::delay(rtt_ms * 500)
}

/// Returns a path with a rate, and a queue of one bandwidth-delay product or 64 KiB.
pub(super) fn make_link(rtt_ms: u64, rate_mbps: u64) -> DirectionConfig {
    let rate_bps = rate_mbps * 1_000_000;
    DirectionConfig {
        rate_bps: Some(rate_bps),
        queue_bytes: (rate_bps / 8 * rtt_ms / 1000).max(64 << 10),
        ..path(rtt_ms)
    }
}

/// Claims a rule for all connections of the end that opened them.
pub(super) fn claim_opener(rule: &'static str) -> Option<Claim> {
    Some(Claim {
        rule,
        end: ConnectionEnd::Client,
        of: ClaimSubject::All,
    })
}

/// Claims a rule for all connections of the end that accepted them.
pub(super) fn claim_acceptor(rule: &'static str) -> Option<Claim> {
    Some(Claim {
        rule,
        end: ConnectionEnd::Server,
        of: ClaimSubject::All,
    })
}

/// Claims a rule for the requests that a program sends.
pub(super) fn claim_client_requests(rule: &'static str) -> Option<Claim> {
    Some(Claim {
        rule,
        end: ConnectionEnd::Client,
        of: ClaimSubject::Service,
    })
}

/// Claims a rule for the requests that a program answers.
pub(super) fn claim_server_requests(rule: &'static str) -> Option<Claim> {
    Some(Claim {
        rule,
        end: ConnectionEnd::Server,
        of: ClaimSubject::Service,
    })
}
