//! `whylat doctor`: what works on this host, what does not, and the command that fixes it.

mod checks;
mod groups;
mod host_report;
mod names;
pub(crate) mod privileges;
mod text;

use std::process::ExitCode;

use clap::Args;
use probe::clock::{Clocks, Host};
use probe::hooks::{Hooks, HooksError, Selection, Storage};
use probe::nic;
use probe::tcp_stats::{Poller, Scope};
use record::Detail;
use record::privileges::Privileges as Kept;
use table::manifest::{Coverage, ProbeState};

use crate::exit;
use crate::out::OutputArgs;
pub(crate) use host_report::HostReport;
use privileges::Privileges;

/// Examines the host.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo whylat doctor
  whylat doctor --json")]
pub(crate) struct Doctor {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    to: OutputArgs,
}

impl Doctor {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let to = self.to.check()?;
        let report = examine_host()?;
        // what is left to do is to print
        match to.file() {
            Some(_) => Kept::for_writing(),
            None => Kept::none(None)?,
        }
        .assume()?;
        let works = !report.rows().any(has_remedy);
        if self.json {
            to.print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
        } else {
            to.print(&text::text(&report))?;
        }
        Ok(ExitCode::from(if works { 0 } else { exit::FAILED }))
    }
}

/// Tries everything, and lets go again.
pub(crate) fn examine_host() -> anyhow::Result<HostReport> {
    let host = Host::read()?;
    let mut probes = polling_coverage();
    probes.extend(check_hooks());
    probes.push(record::flight_recorder_coverage());
    probes.push(probe::cpu::Cpus::new().coverage());
    probes.push(probe::itt::coverage(probe::itt::find()));
    probes.extend_from_slice(Clocks::open().coverage());
    let checks = checks::run_checks();
    Ok(HostReport {
        schema: "whylat.doctor/1",
        kernel: host.kernel,
        cpus: host.cpus,
        clocksource: host.clocksource,
        privileges: Privileges::read(),
        groups: groups::group_probes(probes.iter().chain(&checks)),
        probes,
        checks,
    })
}

/// Returns whether a remedy exists. A missing device is no failure, nor an adapter without timestamps.
fn has_remedy(coverage: &Coverage) -> bool {
    matches!(&coverage.state, ProbeState::Off { remedy, .. } if !remedy.is_empty())
        && coverage.probe != nic::PROBE
}

/// Returns the coverage of polls: root reaches all network namespaces, others their own sockets.
fn polling_coverage() -> Vec<Coverage> {
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

/// Attaches all hooks as a recording does, and detaches them; returns their coverage. Tries `waits` if this user may not
/// record `messages`.
fn check_hooks() -> Vec<Coverage> {
    let refused = match try_attach(Detail::Messages) {
        Ok(coverage) => return coverage,
        Err(error) => error,
    };
    let off = record::without_hooks(&refused, Detail::Messages, true);
    let below = refused.is_permission().then(|| try_attach(Detail::Waits));
    let Some(Ok(mut coverage)) = below else {
        return off;
    };
    let is_missing = |row: &Coverage| coverage.iter().all(|it| it.probe != row.probe);
    let missing: Vec<Coverage> = off.into_iter().filter(is_missing).collect();
    coverage.extend(missing);
    coverage
}

/// Loads and attaches the programs, and detaches them again.
fn try_attach(detail: Detail) -> Result<Vec<Coverage>, HooksError> {
    let mut storage = Storage::uninit();
    let hooks = Hooks::load(&mut storage, &Selection::default(), detail)?;
    hooks.attach()?;
    let mut coverage = hooks.coverage().to_vec();
    coverage.extend(hooks.unreached_netns());
    if detail >= Detail::Messages {
        let mut storage = nic::Storage::uninit();
        coverage.extend(nic::Stamper::begin(&mut storage, &hooks, false).1);
    }
    coverage.push(probe::usdt::coverage());
    Ok(coverage)
}
