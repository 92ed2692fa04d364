//! `whylat doctor`: what works on this host, what does not, and the command that mends it.

use std::process::ExitCode;

use clap::Args;
use probe::clock::{Clocks, Host};
use probe::hooks::{Hooks, Selection, Storage};
use probe::nic;
use probe::tcp_stats::{Poller, Scope};
use serde::Serialize;
use table::manifest::{Coverage, ProbeState};

use crate::{exit, out};

/// Examines the host.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Findings {
    schema: &'static str,
    kernel: String,
    cpus: u32,
    clocksource: String,
    probes: Vec<Coverage>,
}

impl Doctor {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let host = Host::read()?;
        let mut probes = polling();
        probes.extend(hooks());
        probes.push(record::flight_recorder());
        probes.push(probe::cpu::Cpus::new().coverage());
        probes.push(probe::itt::coverage(probe::itt::find()));
        probes.extend_from_slice(Clocks::open().coverage());
        let works = !probes.iter().any(can_be_mended);
        let findings = Findings {
            schema: "whylat.doctor/1",
            kernel: host.kernel,
            cpus: host.cpus,
            clocksource: host.clocksource,
            probes,
        };
        if self.json {
            out::line(&serde_json::to_string_pretty(&findings)?)?;
        } else {
            out::print(&text(&findings))?;
        }
        Ok(ExitCode::from(if works { 0 } else { exit::FAILED }))
    }
}

/// What this host does not have at all is no failure; nor is an adapter that is not told to stamp.
fn can_be_mended(coverage: &Coverage) -> bool {
    matches!(&coverage.state, ProbeState::Off { remedy, .. } if !remedy.is_empty())
        && coverage.probe != nic::PROBE
}

fn polling() -> Vec<Coverage> {
    let root = nix::unistd::geteuid().is_root();
    let state = match Poller::open(if root { Scope::Host } else { Scope::Own }) {
        Ok(_) if root => ProbeState::On,
        Ok(_) => ProbeState::Fallback {
            which: "own sockets in this network namespace".to_owned(),
            why: "whylat is not running as root".to_owned(),
        },
        Err(error) => ProbeState::Off {
            why: error.to_string(),
            remedy: "load the kernel's socket monitoring: modprobe tcp_diag".to_owned(),
        },
    };
    vec![Coverage {
        probe: "tcp_stats.without_bpf".to_owned(),
        state,
    }]
}

/// Loads and attaches everything, as a recording would, and lets go again.
fn hooks() -> Vec<Coverage> {
    let mut storage = Storage::uninit();
    let attached = Hooks::load(
        &mut storage,
        &Selection::default(),
        record::Detail::Messages,
    )
    .and_then(|hooks| {
        hooks.attach()?;
        let mut coverage = hooks.coverage().to_vec();
        let mut storage = nic::Storage::uninit();
        coverage.extend(nic::Stamper::begin(&mut storage, &hooks, false).1);
        coverage.push(probe::usdt::coverage());
        Ok(coverage)
    });
    attached.unwrap_or_else(|error| record::without_hooks(&error, record::Detail::Messages, true))
}

fn text(findings: &Findings) -> String {
    let mut text = format!(
        "kernel       {}\nCPUs         {}\nclock        {}\n\n",
        findings.kernel, findings.cpus, findings.clocksource
    );
    for Coverage { probe, state } in &findings.probes {
        text += &match state {
            ProbeState::On => format!("  ok         {probe}\n"),
            ProbeState::Fallback { which, why } => {
                format!("  partly     {probe}: {which}, because {why}\n")
            }
            ProbeState::Off { why, remedy } if remedy.is_empty() => {
                format!("  no         {probe}: {why}\n")
            }
            ProbeState::Off { why, remedy } => {
                format!("  no         {probe}: {why}\n             hint: {remedy}\n")
            }
        };
    }
    text
}
