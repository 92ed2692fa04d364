//! Plays a fault and tells what happened.

use std::path::Path;

use serde_json::{Value, json};

use super::scene::{Dice, End, Fault, Variant};
use crate::site::Site;
use crate::{LabError, Wire, WireConfig};

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
        let scene = (self.fault.scene)(self.variant, &mut Dice::new(self.seed));
        let scene = scene.ok_or_else(|| LabError::Option {
            option: "--variant",
            value: format!("{:?}", self.variant).to_lowercase(),
            why: "this fault has no such form",
            hint: "`whylat lab list` shows which faults can be mended",
        })?;
        let wire = Wire::start(WireConfig {
            a_to_b: scene.forward,
            b_to_a: scene.back,
            seed: self.seed,
            congctl: Some(self.congctl.to_owned()),
            log_packets: 0,
            ..WireConfig::default()
        })?;
        let site = Site::over(&wire, program);
        let (server, port) = site.serve(&scene.pair.server)?;
        let client = site.connect(&scene.pair.client, port)?.finish()?;
        let server = server.finish()?;
        let (stats, _) = wire.stop();
        Ok(json!({
            "fault": self.fault.name,
            "variant": self.variant,
            "congctl": self.congctl,
            "seed": self.seed,
            "expected": self.expected(&client, &server),
            "wire": stats,
            "client": client,
            "server": server,
        }))
    }

    /// Which rule, of which connections, and when; null where nothing is to be said.
    fn expected(&self, client: &Value, server: &Value) -> Value {
        let faulty = self.variant == Variant::Faulty;
        let Some(claim) = (self.fault.claim)(self.congctl).filter(|_| faulty) else {
            return Value::Null;
        };
        let end = match claim.end {
            End::Client => client,
            End::Server => server,
        };
        json!({
            "rule": claim.rule,
            "end": claim.end,
            "connections": end["connections"],
            "from_ns": client["start_ns"],
            "until_ns": client["end_ns"],
        })
    }
}
