//! Plays a fault and tells what happened.

use std::path::Path;

use serde_json::{Value, json};

use super::scene::{Claim, Dice, End, Fault, Pair, Variant};
use crate::site::Site;
use crate::{LabError, Running, Wire, WireConfig};

/// What is played.
pub struct Play<'a> {
    /// The fault.
    pub fault: &'a Fault,
    /// Which form of it.
    pub variant: Variant,
    /// Congestion control of both ends.
    pub congctl: &'a str,
    /// Seed of sizes, delays and losses.
    pub seed: u64,
}

impl Play<'_> {
    /// Makes the namespaces and the wire, runs the roles as processes of `program` (a `whylat`)
    /// until they end, and gives the ground truth.
    ///
    /// # Errors
    /// Without root, when the variant does not exist, or when a role fails.
    pub fn run(&self, program: &Path) -> Result<Value, LabError> {
        if self.variant == Variant::Mended && !self.fault.mendable {
            return Err(LabError::Option {
                option: "--variant",
                value: "mended".to_owned(),
                why: "the lab cannot follow the advice for this fault",
                hint: "`whylat lab list --json` shows which it can",
            });
        }
        let scene = (self.fault.scene)(self.variant, &mut Dice::new(self.seed));
        let wire = Wire::start(WireConfig {
            a_to_b: scene.forward,
            b_to_a: scene.back,
            seed: self.seed,
            congctl: Some(self.congctl.to_owned()),
            log_packets: 0,
            ..WireConfig::default()
        })?;
        let site = Site::over(&wire, program);
        let beside: Vec<Running> = scene
            .beside
            .iter()
            .map(|role| site.beside(role))
            .collect::<Result<_, _>>()?;
        let mut first = scene.pair;
        let faulty = self.variant == Variant::Faulty;
        let claim = (self.fault.claim)(self.congctl).filter(|_| faulty);
        first.claims.extend(claim);
        let pairs = std::iter::once(first).chain(scene.others);
        let started: Vec<Started> = pairs
            .map(|pair| start(&site, pair))
            .collect::<Result<_, _>>()?;
        let ended: Vec<Ended> = started
            .into_iter()
            .map(Started::finish)
            .collect::<Result<_, _>>()?;
        let beside: Vec<Value> = beside
            .into_iter()
            .map(Running::finish)
            .collect::<Result<_, _>>()?;
        let (stats, _) = wire.stop();
        let expected: Vec<Value> = ended.iter().flat_map(Ended::expected).collect();
        let roles: Vec<Value> = ended.iter().map(Ended::truth).collect();
        Ok(json!({
            "fault": self.fault.name,
            "variant": self.variant,
            "congctl": self.congctl,
            "seed": self.seed,
            "expected": expected,
            "wire": stats,
            "roles": roles,
            "beside": beside,
        }))
    }
}

/// A pair under way.
struct Started {
    server: Running,
    client: Running,
    claims: Vec<Claim>,
}

/// What the two of a pair knew at their end.
struct Ended {
    server: Value,
    client: Value,
    claims: Vec<Claim>,
}

fn start(site: &Site, pair: Pair) -> Result<Started, LabError> {
    let (server, port) = site.serve(&pair.server)?;
    Ok(Started {
        server,
        client: site.connect(&pair.client, port)?,
        claims: pair.claims,
    })
}

impl Started {
    fn finish(self) -> Result<Ended, LabError> {
        let client = self.client.finish()?;
        Ok(Ended {
            server: self.server.finish()?,
            client,
            claims: self.claims,
        })
    }
}

impl Ended {
    fn truth(&self) -> Value {
        json!({ "client": self.client, "server": self.server })
    }

    /// Which rules, of which connections, and when; none where nothing is to be said.
    fn expected(&self) -> impl Iterator<Item = Value> {
        self.claims.iter().map(|claim| {
            let end = match claim.end {
                End::Client => &self.client,
                End::Server => &self.server,
            };
            let connections = end["connections"].as_array().cloned().unwrap_or_default();
            let of_all = |name| connections.iter().filter_map(move |one| one[name].as_u64());
            json!({
                "rule": claim.rule,
                "end": claim.end,
                "connections": connections,
                "from_ns": of_all("opened_ns").min(),
                "until_ns": of_all("closed_ns").max(),
            })
        })
    }
}
