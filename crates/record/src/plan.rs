//! Before a recording begins: what the user asked for is found on this host, the probes are loaded
//! and attached, and what does not work becomes coverage.

use probe::clock::{Host, monotonic_ns};
use probe::hooks::{Detail, FOLLOW, Hooks, HooksError, Selection, Storage, missed_without_bpf};
use probe::processes::{self, Cgroup, check_pid, pids_by_comm};
use table::manifest::{Coverage, FORMAT, Header, ProbeState};

use crate::budget::HookTimer;
use crate::poll::Polls;
use crate::{Options, RecordError, Target};

/// The user's target as processes and ids of this host.
#[derive(Default)]
pub(crate) struct ResolvedTarget {
    selection: Selection,
    pids: Vec<u32>,
}

impl ResolvedTarget {
    /// Returns the pids of the target that run now.
    pub(crate) fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// Returns which connections are recorded beside those of the processes.
    pub(crate) fn selection(&self) -> &Selection {
        &self.selection
    }
}

/// Finds the target's processes; with `follow`, also processes that serve its connections on this
/// host.
pub(crate) fn resolve_target(target: &Target, follow: bool) -> Result<ResolvedTarget, RecordError> {
    let mut plan = ResolvedTarget::default();
    plan.selection.follow = follow;
    match target {
        Target::Command(_) => {}
        Target::Pids(pids) => {
            for pid in pids {
                check_pid(*pid)?;
                check_readable(*pid)?;
            }
            plan.pids.clone_from(pids);
            plan.selection.sharers = true;
        }
        Target::Comm(name) => {
            // none running is no error: one may start
            plan.pids = pids_by_comm(name).unwrap_or_default();
            plan.selection.comm = Some(name.clone());
        }
        Target::Port(port) => plan.selection.port = Some(*port),
        Target::Cgroup(path) => {
            let cgroup = Cgroup::resolve(path)?;
            plan.selection.cgroup = Some((cgroup.id, cgroup.level));
            plan.pids = cgroup.processes();
        }
        Target::All => plan.selection.all = true,
    }
    Ok(plan)
}

/// Refuses a process with files that may not be read: its sockets cannot be found.
fn check_readable(pid: u32) -> Result<(), RecordError> {
    match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(RecordError::Foreign { pid })
        }
        // a process that has just ended is noticed later
        _ => Ok(()),
    }
}

/// Sources of socket data: BPF hooks, or polls where hooks do not load; and what they cover.
pub(crate) struct DataSources<'a> {
    pub(crate) hooks: Option<Hooks<'a>>,
    pub(crate) polls: Option<Polls>,
    pub(crate) coverage: Vec<Coverage>,
    /// Processes that are recorded from the start; `None` without hooks.
    pub(crate) processes: Option<usize>,
    /// Cost of a hook that leaves at once, ns a run, if calls and waits are recorded in windows.
    pub(crate) run_ns: Option<f64>,
    /// `CLOCK_MONOTONIC` before the first hook was attached: nothing earlier is recorded.
    pub(crate) attach_ns: u64,
}

/// Attaches the hooks; on a host without BPF it opens polls. With `usdt`, the user asked for USDT
/// probes, which need hooks; with `in_windows`, for calls and waits in windows only.
///
/// # Errors
/// Where sockets cannot be polled either.
pub(crate) fn open_sources<'a>(
    storage: &'a mut Storage,
    target: &Target,
    plan: &ResolvedTarget,
    detail: Detail,
    (usdt, in_windows): (bool, bool),
) -> Result<DataSources<'a>, RecordError> {
    let timer = in_windows.then(HookTimer::begin);
    let sources = match attach(storage, plan, detail, in_windows) {
        Ok((hooks, attach_ns)) => DataSources {
            attach_ns,
            run_ns: timer.map(HookTimer::finish),
            coverage: hooks
                .coverage()
                .iter()
                .cloned()
                .chain(hooks.unreached_netns())
                .collect(),
            processes: Some(count_processes(&hooks, plan)),
            hooks: Some(hooks),
            polls: None,
        },
        Err(error) => DataSources {
            attach_ns: monotonic_ns(),
            hooks: None,
            processes: None,
            run_ns: None,
            polls: Some(Polls::open(target)?),
            coverage: {
                let follow = plan.selection.follow.then(|| off(FOLLOW, &error));
                let others = without_hooks(&error, detail, usdt);
                others.into_iter().chain(follow).collect()
            },
        },
    };
    Ok(sources)
}

/// Loads and attaches the probes for a plan; returns when the first was attached, too.
fn attach<'a>(
    storage: &'a mut Storage,
    plan: &ResolvedTarget,
    detail: Detail,
    in_windows: bool,
) -> Result<(Hooks<'a>, u64), HooksError> {
    let selection = &plan.selection;
    let hooks = match in_windows {
        true => Hooks::load_for_windows(storage, selection, detail)?,
        false => Hooks::load(storage, selection, detail)?,
    };
    hooks.leave_out_self()?;
    // of a control group, processes may leave: the programs ask
    if selection.cgroup.is_none() {
        record_processes(&hooks, &plan.pids)?;
    }
    let attach_ns = monotonic_ns();
    hooks.attach()?;
    if let Some(name) = &selection.comm {
        // who has started since
        record_processes(&hooks, &pids_by_comm(name).unwrap_or_default())?;
    }
    if selection.sharers || selection.follow {
        hooks.find_processes(selection.sharers)?;
    } else {
        // twice: the first walk learns the connections, the second one finds their other ends
        hooks.walk()?;
        hooks.walk()?;
    }
    Ok((hooks, attach_ns))
}

/// Records these processes.
fn record_processes(hooks: &Hooks<'_>, pids: &[u32]) -> Result<(), HooksError> {
    pids.iter().try_for_each(|pid| hooks.record_process(*pid))
}

/// Returns how many processes are recorded from the start.
fn count_processes(hooks: &Hooks<'_>, plan: &ResolvedTarget) -> usize {
    let of_others = |pids: &[u32]| {
        let own = processes::families([std::process::id()]);
        let others = pids.iter().filter(|pid| !own.contains(pid));
        others.filter(|pid| processes::is_program(**pid)).count()
    };
    match (&plan.selection.cgroup, plan.selection.all) {
        (Some(_), _) => of_others(&plan.pids),
        (None, true) => of_others(&processes::all_pids()),
        _ => hooks.recorded_processes().len(),
    }
}

/// Returns the coverage without BPF, by polls alone. With `usdt`, the user asked for USDT probes.
pub fn without_hooks(error: &HooksError, detail: Detail, usdt: bool) -> Vec<Coverage> {
    let usdt = usdt.then_some(probe::usdt::PROBE);
    let missed = missed_without_bpf(detail).chain(usdt);
    missed.map(|probe| off(probe, error)).collect()
}

/// Makes the coverage line of a probe that is off, because hooks cannot be loaded.
fn off(probe: &str, error: &HooksError) -> Coverage {
    Coverage {
        probe: probe.to_owned(),
        state: ProbeState::Off {
            why: error.to_string(),
            remedy: error.remedy(),
        },
    }
}

/// Returns whether the ids of processes that come are those of `/proc` here. Hooks give the kernel's; what is polled
/// without them is searched in `/proc`.
pub(crate) fn is_in_proc(hooks: Option<&Hooks<'_>>) -> bool {
    hooks.is_none() || processes::sees_all()
}

/// Returns the coverage line of process ids, if they are not those of the host.
pub(crate) fn pid_coverage() -> Option<Coverage> {
    Some(processes::coverage()).filter(|it| it.state != ProbeState::On)
}

/// Makes the recording's first line.
pub(crate) fn header(host: &Host, options: &Options) -> Header {
    describe(host, options.detail, &options.arguments)
}

/// Makes a header: this host, the detail, and the command's arguments.
pub(crate) fn describe(host: &Host, detail: Detail, arguments: &[String]) -> Header {
    let Host {
        host,
        boot_id,
        kernel,
        cpus,
        clocksource,
        now_ns,
        now_realtime_ns,
        jiffy_ns,
    } = host.clone();
    Header {
        format: FORMAT,
        whylat: env!("CARGO_PKG_VERSION").to_owned(),
        host,
        boot_id,
        kernel,
        cpus,
        architecture: Some(std::env::consts::ARCH.to_owned()),
        clocksource,
        detail: detail.name().to_owned(),
        arguments: arguments.to_vec(),
        started_ns: now_ns,
        started_realtime_ns: now_realtime_ns,
        jiffy_ns,
    }
}
