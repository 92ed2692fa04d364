//! Report of `whylat doctor` on a host.

use serde::Serialize;
use table::manifest::Coverage;

use super::groups::ProbeGroup;
use super::privileges::Privileges;

/// All that was found out.
#[derive(Debug, Serialize)]
pub(crate) struct HostReport {
    pub(super) schema: &'static str,
    pub(super) kernel: String,
    pub(super) cpus: u32,
    pub(super) clocksource: String,
    pub(super) privileges: Privileges,
    /// Each by what needs it.
    pub(super) groups: Vec<ProbeGroup>,
    /// As a recording would list them.
    pub(super) probes: Vec<Coverage>,
    /// Checks beside the probes of a recording.
    pub(super) checks: Vec<Coverage>,
}

impl HostReport {
    /// Returns the states of all probes and checks.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Coverage> {
        self.probes.iter().chain(&self.checks)
    }
}
