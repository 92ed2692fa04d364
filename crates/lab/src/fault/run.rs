//! Plays a fault, and returns the ground truth.

use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};

use super::route::Route;
use super::scene::{
    Claim, ClaimSubject, ConnectionEnd, Fault, FaultFix, ProgramPair, RecordedPrograms, Scene,
    SeededDice, Variant,
};
use crate::site::Site;
use crate::tcpdump::Tcpdump;
use crate::{LabError, LabProcess, WireConfig};

/// One run of a fault: its variant, fix and congestion control, and the files that it makes.
pub struct FaultRun<'a> {
    /// The fault.
    pub fault: &'a Fault,
    /// Its form.
    pub variant: Variant,
    /// The fix that is applied; `None`: the first.
    pub fix: Option<&'a str>,
    /// Congestion control of both ends.
    pub congctl: &'a str,
    /// Seed of sizes, delays and losses.
    pub seed: u64,
    /// Where `client.pcap`, `server.pcap` and `between.pcap` are made: what tcpdump sees at either end, and at a router that
    /// is between them then; `None`: nowhere.
    pub captures: Option<&'a Path>,
    /// Recording that is made of the first client, if the fault is one that is seen there alone.
    pub recording: Option<&'a Path>,
}

impl FaultRun<'_> {
    /// Makes the namespaces and the wire, and runs the roles as processes of `program` (a `whylat`) until they end.
    /// Returns the ground truth.
    ///
    /// # Errors
    /// Without root, when the variant or the fix does not exist, or when a role fails.
    pub fn run(&self, program: &Path) -> Result<Value, LabError> {
        let (scene, fix) = self.make_scene()?;
        let config = WireConfig {
            a_to_b: scene.forward,
            b_to_a: scene.back,
            seed: self.seed,
            mtu: scene.mtu,
            congctl: Some(self.congctl.to_owned()),
            log_packets: 0,
            ..WireConfig::default()
        };
        let route = match self.captures {
            Some(_) => Route::routed(config)?,
            None => Route::direct(config)?,
        };
        let netns_of = |end| match end {
            ConnectionEnd::Client | ConnectionEnd::Proxy => route.client(),
            ConnectionEnd::Server => route.server(),
        };
        for (end, name, value) in scene.sysctls {
            netns_of(end).sysctl(name, value)?;
        }
        let captures = self.start_captures(&route)?;
        for (end, rules) in &scene.firewall {
            netns_of(*end).nft(rules)?;
        }
        let site = match scene.is_local {
            true => Site::on_loopback(route.client(), program),
            false => Site::between(route.client(), route.server_wire(), program),
        };
        let machine = site.start_role("pauses")?;
        let beside: Vec<LabProcess> = scene
            .beside
            .iter()
            .map(|role| site.start_role(role))
            .collect::<Result<_, _>>()?;
        let mut first = scene.pair;
        let faulty = self.variant == Variant::Faulty;
        let claim = (self.fault.claim)(self.congctl).filter(|_| faulty);
        first.claims.extend(claim);
        let pairs = std::iter::once(first).chain(scene.others);
        let mut recording = self.recording;
        let started: Vec<StartedPair> = pairs
            .map(|pair| start(&site, pair, &mut recording))
            .collect::<Result<_, _>>()?;
        let ended: Vec<PairOutcome> = started
            .into_iter()
            .map(StartedPair::finish)
            .collect::<Result<_, _>>()?;
        let beside: Vec<Value> = beside
            .into_iter()
            .map(LabProcess::finish)
            .collect::<Result<_, _>>()?;
        route.drain()?;
        let machine = machine.finish()?;
        captures.into_iter().try_for_each(Tcpdump::stop)?;
        let fault_side = route.fault_side();
        let stats = route.stop();
        let lasts_ns = scene.lasts_us.zip(stats.first_packet_ns);
        let lasts_ns =
            lasts_ns.map(|(us, first_ns)| first_ns + us.start * 1_000..first_ns + us.end * 1_000);
        let expected = ended
            .iter()
            .flat_map(|pair| pair.expected_rules(lasts_ns.as_ref()));
        let expected: Vec<Value> = expected.collect();
        let roles: Vec<Value> = ended.iter().map(PairOutcome::truth).collect();
        Ok(json!({
            "fault": self.fault.name,
            "variant": self.variant,
            "cure": fix.map(|fix| fix.name),
            "congctl": self.congctl,
            "seed": self.seed,
            "pid": std::process::id(),
            "expected": expected,
            "lossless": scene.lossless,
            "wire": stats,
            "fault_side": fault_side,
            "roles": roles,
            "beside": beside,
            "machine": machine,
        }))
    }

    /// Starts captures at both ends and between them, if they are wanted.
    fn start_captures(&self, route: &Route) -> Result<Vec<Tcpdump>, LabError> {
        let Some(place) = self.captures else {
            return Ok(Vec::new());
        };
        let ends = [
            (route.client(), "client.pcap"),
            (route.server(), "server.pcap"),
        ];
        let between = route.router().map(|router| (router, "between.pcap"));
        let places = ends.into_iter().chain(between);
        let started = places.map(|(netns, file)| Tcpdump::start(netns, &place.join(file)));
        started.collect()
    }

    /// Returns the programs that a recording must cover.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn recorded(&self) -> Result<RecordedPrograms, LabError> {
        Ok(self.make_scene()?.0.recorded)
    }

    /// Returns the scene of the fault, with the chosen fix if it has several.
    fn make_scene(&self) -> Result<(Scene, Option<&'static FaultFix>), LabError> {
        let refused = |option, value: &str, why, hint| LabError::Option {
            option,
            value: value.to_owned(),
            why,
            hint,
        };
        let scene = (self.fault.scene)(self.variant, &mut SeededDice::new(self.seed));
        match (self.variant, self.fix) {
            (Variant::Fixed, _) if !self.fault.mendable => Err(refused(
                "--variant",
                "mended",
                "the lab cannot follow the advice for this fault",
                "`whylat lab list --json` shows which it can",
            )),
            (Variant::Fixed, name) => Ok(match scene.fix(name)? {
                Some(fix) => (scene.with_fix(fix), Some(fix)),
                None => (scene, None),
            }),
            (_, Some(name)) => Err(refused(
                "--cure",
                name,
                "only the variant mended has a fix",
                "add --variant mended",
            )),
            (_, None) => Ok((scene, None)),
        }
    }
}

/// A pair under way.
struct StartedPair {
    address: String,
    server: LabProcess,
    proxy: Option<LabProcess>,
    clients: Vec<LabProcess>,
    claims: Vec<Claim>,
    also_true: Vec<(ConnectionEnd, &'static str)>,
}

/// Truth that the programs of a pair printed at their end, as JSON, and the claims that a diagnosis must make.
struct PairOutcome {
    /// Where the server listens.
    address: String,
    server: Value,
    proxy: Option<Value>,
    clients: Vec<Value>,
    claims: Vec<Claim>,
    also_true: Vec<(ConnectionEnd, &'static str)>,
}

/// Starts a pair. The first client that takes the recording runs under `whylat run`.
fn start(
    site: &Site,
    pair: ProgramPair,
    recording: &mut Option<&Path>,
) -> Result<StartedPair, LabError> {
    let (server, port) = site.serve(&pair.server)?;
    let proxy = pair.proxy.map(|words| site.pass_on(&words, port));
    let proxy = proxy.transpose()?;
    let connect = |words: &String| match (&proxy, recording.take()) {
        (Some((_, port)), _) => site.connect_near(words, *port),
        (None, Some(recording)) => site.connect_recorded(words, port, recording),
        (None, None) => site.connect(words, port),
    };
    let clients = pair.clients.iter().map(connect);
    Ok(StartedPair {
        address: format!("{}:{port}", site.address),
        server,
        clients: clients.collect::<Result<_, _>>()?,
        proxy: proxy.map(|(proxy, _)| proxy),
        claims: pair.claims,
        also_true: pair.also_true,
    })
}

impl StartedPair {
    /// Waits until clients, proxy and server end; returns what they know.
    fn finish(self) -> Result<PairOutcome, LabError> {
        let clients = self.clients.into_iter().map(LabProcess::finish);
        Ok(PairOutcome {
            address: self.address,
            clients: clients.collect::<Result<_, _>>()?,
            proxy: self.proxy.map(LabProcess::finish).transpose()?,
            server: self.server.finish()?,
            claims: self.claims,
            also_true: self.also_true,
        })
    }
}

/// Returns the role that an end has in its requests.
fn role(end: ConnectionEnd) -> &'static str {
    match end {
        ConnectionEnd::Server => "server",
        ConnectionEnd::Client | ConnectionEnd::Proxy => "client",
    }
}

impl PairOutcome {
    /// Returns what clients, proxy and server know, as JSON.
    fn truth(&self) -> Value {
        let also_true = self.also_true.iter();
        let also_true = also_true.map(|(end, rule)| json!({ "role": role(*end), "rule": rule }));
        json!({
            "address": self.address,
            "clients": self.clients,
            "proxy": self.proxy,
            "server": self.server,
            "also_true": also_true.collect::<Vec<_>>(),
        })
    }

    /// Returns the rules to be reported, with their subjects and times; none where nothing is to be reported.
    fn expected_rules(&self, lasts_ns: Option<&Range<u64>>) -> impl Iterator<Item = Value> {
        self.claims.iter().map(move |claim| {
            let connections = self.sockets(*claim);
            let (from_ns, until_ns) = match (claim.of, lasts_ns) {
                (ClaimSubject::LateToConnect, _) => {
                    time_range(&connections, "connecting_ns", "opened_ns")
                }
                (_, Some(lasts)) => (Some(lasts.start), Some(lasts.end)),
                (ClaimSubject::Service | ClaimSubject::Datagrams | ClaimSubject::Process, None) => {
                    time_range(&self.clients, "start_ns", "end_ns")
                }
                (_, None) => time_range(&connections, "opened_ns", "closed_ns"),
            };
            json!({
                "rule": claim.rule,
                "end": claim.end,
                "connections": connections,
                "services": self.claimed_services(*claim),
                "processes": self.processes(*claim),
                "from_ns": from_ns,
                "until_ns": until_ns,
            })
        })
    }

    /// Returns the outcomes of an end.
    fn end_outcomes(&self, end: ConnectionEnd) -> &[Value] {
        match end {
            ConnectionEnd::Client => &self.clients,
            ConnectionEnd::Server => std::slice::from_ref(&self.server),
            ConnectionEnd::Proxy => self.proxy.as_slice(),
        }
    }

    /// Returns the services that a claim speaks of: the requests of an end's process. Several processes are one service.
    fn claimed_services(&self, claim: Claim) -> Vec<Value> {
        let address = match claim.of {
            ClaimSubject::Service => self.address.clone(),
            ClaimSubject::Datagrams => format!("udp:{}", self.address),
            _ => return Vec::new(),
        };
        let role = role(claim.end);
        let ends = self.end_outcomes(claim.end).iter();
        let service = |end: &Value| json!({ "role": role, "address": address, "pid": end["pid"] });
        ends.map(service).collect()
    }

    /// Returns the processes that a claim speaks of.
    fn processes(&self, claim: Claim) -> Vec<Value> {
        let ends = self.end_outcomes(claim.end).iter();
        let of_processes = ends.filter(|_| claim.of == ClaimSubject::Process);
        of_processes.map(|end| end["pid"].clone()).collect()
    }

    /// Returns the sockets that a claim speaks of.
    fn sockets(&self, claim: Claim) -> Vec<Value> {
        let ends = self.end_outcomes(claim.end);
        let sockets = ends
            .iter()
            .filter_map(|end| end["connections"].as_array())
            .flatten();
        match claim.of {
            ClaimSubject::Service | ClaimSubject::Datagrams | ClaimSubject::Process => Vec::new(),
            ClaimSubject::All => sockets.cloned().collect(),
            ClaimSubject::Stalled => sockets.filter(|one| has_stalled(one)).cloned().collect(),
            ClaimSubject::LateToConnect => {
                sockets.filter(|one| connected_late(one)).cloned().collect()
            }
            ClaimSubject::Listener => ends.iter().map(|end| end["listener"].clone()).collect(),
            ClaimSubject::Nth(index) => sockets.skip(index).take(1).cloned().collect(),
            ClaimSubject::WithClient(index) => {
                let client = &self.clients[index]["connections"];
                let theirs: Vec<&Value> = client.as_array().into_iter().flatten().collect();
                let is_theirs = |one: &&Value| theirs.iter().any(|it| it["local"] == one["remote"]);
                sockets.filter(is_theirs).cloned().collect()
            }
        }
    }
}

/// Returns the first start and the last end.
fn time_range(of: &[Value], begin: &str, end: &str) -> (Option<u64>, Option<u64>) {
    let times = |name| of.iter().filter_map(move |one: &Value| one[name].as_u64());
    (times(begin).min(), times(end).max())
}

/// Returns whether a receive call took TCP_RTO_MIN or more.
fn has_stalled(connection: &Value) -> bool {
    const TCP_RTO_MIN_NS: u64 = 200_000_000;
    let slow = connection["recv"]["slow"].as_array();
    let took = |call: &Value| call[1].as_u64().is_some_and(|ns| ns >= TCP_RTO_MIN_NS);
    slow.is_some_and(|calls| calls.iter().any(took))
}

/// Returns whether connect() took a SYN's first timeout or more.
fn connected_late(connection: &Value) -> bool {
    const TCP_TIMEOUT_INIT_NS: u64 = 1_000_000_000;
    let at = |name: &str| connection[name].as_u64();
    let took_ns = at("opened_ns").zip(at("connecting_ns"));
    took_ns.is_some_and(|(opened_ns, since_ns)| opened_ns - since_ns >= TCP_TIMEOUT_INIT_NS)
}
