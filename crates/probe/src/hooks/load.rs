//! Loading: which programs and maps this kernel and what is recorded need, and the values that they get
//! before they run.

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapType, OpenObject};

use super::links::AttachedLinks;
use super::netns_walker::NetnsWalks;
use super::select::{LoadOptions, OutputMode, Selection};
use super::window_hooks::WindowHooks;
use super::{Hooks, follow, log, netns_walk, walk};
use crate::PROBES;
use crate::busy_poll::BusyPolls;
use crate::cpu_clocks::{self, clock_coverage};
use crate::interface::features::{Features, Levels};
use crate::interface::mib::MibPlaces;
use crate::interface::{Detail, HooksError, Probe};
use crate::nic::Nics;
use crate::on_cpu_samples::OnCpuSamples;
use crate::skel::{HooksSkel, HooksSkelBuilder, OpenHooksSkel};
use crate::{tcp_stages, udp_flows};

/// How many programs that the kernel refuses are left out before it is given up.
const REFUSED_MOST: usize = 8;

/// Where the loaded object lives, and those that the kernel refused; it must outlive [`Hooks`].
#[derive(Debug)]
pub struct Storage {
    tries: [MaybeUninit<OpenObject>; REFUSED_MOST],
    last: MaybeUninit<OpenObject>,
}

impl Storage {
    /// Returns memory for an object that is not opened yet.
    pub fn uninit() -> Self {
        Self {
            tries: [const { MaybeUninit::uninit() }; REFUSED_MOST],
            last: MaybeUninit::uninit(),
        }
    }
}

impl<'obj> Hooks<'obj> {
    /// Loads the programs for `selection`. Hooks that this kernel does not have, and those with programs that it
    /// refuses, are left out and named in [`coverage`](Self::coverage).
    pub fn load(
        storage: &'obj mut Storage,
        selection: &Selection,
        detail: Detail,
    ) -> Result<Self, HooksError> {
        let nics = match detail {
            Detail::Messages => Nics::find(),
            _ => Nics::default(),
        };
        Self::load_beside(storage, selection, detail, &nics)
    }

    /// Loads the programs as on a host with these adapters.
    pub(crate) fn load_beside(
        storage: &'obj mut Storage,
        selection: &Selection,
        detail: Detail,
        nics: &Nics,
    ) -> Result<Self, HooksError> {
        log::listen();
        let what = LoadOptions {
            selection,
            detail,
            output: OutputMode::Records,
            nics,
            windows: false,
            active_for: walk::ACTIVE_FOR,
        };
        Self::load_with(storage, &what, Features::probe()?)
    }

    /// Loads the programs for windows: calls and waits are seen in windows only, messages and
    /// ledgers never. No window is open at first: see [`open_window`](Self::open_window).
    pub fn load_for_windows(
        storage: &'obj mut Storage,
        selection: &Selection,
        detail: Detail,
    ) -> Result<Self, HooksError> {
        log::listen();
        let what = LoadOptions {
            selection,
            detail: detail.min(Detail::Waits),
            output: OutputMode::Records,
            nics: &Nics::default(),
            windows: true,
            active_for: walk::ACTIVE_FOR,
        };
        Self::load_with(storage, &what, Features::probe()?)
    }

    /// Loads the programs that watch every connection of the host or of one network namespace.
    /// `detail` is `Stats` or `Calls`.
    pub fn load_to_watch(
        storage: &'obj mut Storage,
        netns: Option<u32>,
        detail: Detail,
    ) -> Result<Self, HooksError> {
        log::listen();
        let selection = Selection {
            all: true,
            netns,
            ..Selection::default()
        };
        let what = LoadOptions {
            selection: &selection,
            detail: detail.min(Detail::Calls),
            output: OutputMode::Summaries,
            nics: &Nics::default(),
            windows: false,
            active_for: walk::ACTIVE_FOR,
        };
        Self::load_with(storage, &what, Features::probe()?)
    }

    /// Loads the programs; leaves out one that the verifier refuses, and tries again.
    pub(super) fn load_with(
        storage: &'obj mut Storage,
        what: &LoadOptions<'_>,
        mut features: Features,
    ) -> Result<Self, HooksError> {
        let Storage { tries, last } = storage;
        features.follow = what.selection.follow;
        for storage in tries {
            match Self::load_chosen(storage, what, &features) {
                Err(HooksError::Refused { program, .. }) if features.omit_program(&program) => {}
                done => return done,
            }
        }
        Self::load_chosen(last, what, &features)
    }

    /// Loads the programs that the options and this kernel allow.
    fn load_chosen(
        storage: &'obj mut MaybeUninit<OpenObject>,
        what: &LoadOptions<'_>,
        features: &Features,
    ) -> Result<Self, HooksError> {
        let LoadOptions {
            selection,
            detail,
            output,
            nics,
            windows,
            active_for,
        } = *what;
        let summaries = output == OutputMode::Summaries;
        let mut open = HooksSkelBuilder::default()
            .open(storage)
            .map_err(HooksError::Load)?;
        let levels = Levels {
            windows,
            ..features.supported_levels(detail, summaries)
        };
        let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
        configure(&mut open, selection, features, levels, nics);
        walk::configure(&mut open, levels, active_for);
        let has_mib = configure_mib(&mut open, features.mib, cpus);
        features.choose_programs(open.open_object_mut(), levels);
        open.progs
            .walk_subflows
            .set_autoload(features.mptcp.sockets);
        open.progs.read_active.set_autoload(levels.active);
        open.progs
            .flush_batches
            .set_autoload(levels.logs_calls() || levels.waits);
        open.progs.begin_window.set_autoload(windows);
        open.progs.extend_window.set_autoload(windows);
        let mut coverage = features.coverage(detail, has_mib);
        if windows {
            tcp_stages::put_off(&mut coverage);
        }
        let follows = features.follows(levels);
        coverage.extend((selection.follow && !follows).then(follow::off));
        coverage.extend(features.walks_netns.then(netns_walk::polls_coverage));
        let clocks = if levels.waits {
            let opened = cpu_clocks::open_clocks();
            let users: [&dyn Probe; 2] = [&BusyPolls, &OnCpuSamples];
            let refused = opened.as_ref().err();
            coverage.extend(users.map(|probe| clock_coverage(probe.name(), refused)));
            opened.unwrap_or_default()
        } else {
            Vec::new()
        };
        open.progs.sample_cpu.set_autoload(!clocks.is_empty());
        shrink_unused_maps(&mut open, levels)?;
        if !features.mptcp.sockets {
            let connections = &mut open.maps.mptcp_connections;
            connections.set_max_entries(1).map_err(HooksError::Load)?;
        }
        let mut skel = open.load().map_err(load_error)?;
        try_stand_ins(&skel, features)?;
        let mut attached = AttachedLinks::default();
        let mut of_windows = match windows {
            true => WindowHooks::new(features),
            false => WindowHooks::default(),
        };
        match features.find_hook_missing_for_udp() {
            _ if !levels.messages => {}
            Some((hook, since)) => coverage.push(crate::udp::off(hook, since)),
            None => {
                let links = crate::udp::attach(&mut skel);
                coverage.push(crate::udp::coverage(links.as_ref().err()));
                attached.hooks = links.unwrap_or_default();
            }
        }
        if levels.waits && levels.logs_calls() && features.find_hook_missing_for_udp().is_none() {
            let root = udp_flows::open_root(&skel);
            let links = root.and_then(|root| {
                let links = udp_flows::attach(&skel, &root);
                Ok((root, links.map_err(|error| error.to_string())?))
            });
            coverage.push(udp_flows::coverage(links.as_ref().err()));
            match links {
                Ok((root, _)) if windows => of_windows.udp_root = Some(root),
                Ok((_, links)) => attached.hooks.extend(links),
                Err(_) => {}
            }
        }
        let hooks = Self {
            skel,
            attached: RefCell::new(attached),
            cpus,
            levels,
            over_active: Cell::new(false),
            over_all: Cell::new(0),
            resting: Cell::new(0),
            counts_timeouts: features.counts_timeouts,
            counts_other_calls: levels.logs_calls() && !windows && features.sees_every_kind(),
            open_sockets: Cell::default(),
            unreached: RefCell::default(),
            netns_walks: NetnsWalks::new(features.walks_netns, selection.netns),
            clocks,
            of_windows,
            nics: levels.sent.then(|| nics.clone()),
            coverage,
            follows,
        };
        hooks.run_on_each_cpu(
            &hooks.skel.progs.learn_cpu,
            "learn where CPUs keep counters",
        )?;
        Ok(hooks)
    }
}

/// Returns why a load failed.
fn load_error(error: libbpf_rs::Error) -> HooksError {
    match log::take_refused() {
        Some(program) => HooksError::Refused { program, error },
        None => HooksError::Load(error),
    }
}

/// Attaches each program at a function for a moment: some kernels load it but cannot attach it.
fn try_stand_ins(skel: &HooksSkel<'_>, features: &Features) -> Result<(), HooksError> {
    for stand_in in features.all_stand_ins() {
        let name = format!("handle_{}", stand_in.program);
        let mut programs = skel.object().progs_mut();
        let program =
            programs.find(|program| *program.name() == *name.as_str() && program.autoload());
        if let Some(Err(error)) = program.map(|program| program.attach()) {
            return Err(HooksError::Refused {
                program: name,
                error,
            });
        }
    }
    Ok(())
}

/// Sets the constants of the programs before loading: target, features, detail.
fn configure(
    open: &mut OpenHooksSkel<'_>,
    selection: &Selection,
    features: &Features,
    levels: Levels,
    nics: &Nics,
) {
    let Some(rodata) = open.maps.rodata_data.as_deref_mut() else {
        return;
    };
    rodata.detail_ledger = levels.keeps_ledger();
    rodata.has_windows = levels.windows;
    rodata.only_summaries = levels.summaries;
    rodata.retransmit_has_error = features.retransmit_has_error;
    rodata.complete_has_cqe = features.complete_has_cqe;
    rodata.select_netns = selection.netns.unwrap_or(0);
    rodata.has_mptcp = features.mptcp.sockets;
    rodata.walks_netns = features.walks_netns;
    rodata.has_mptcp_calls = features.mptcp.calls && levels.calls;
    rodata.detail_waits = levels.waits;
    rodata.has_python = levels.waits && features.python;
    rodata.has_udp_times =
        levels.waits && levels.logs_calls() && udp_flows::sees_arrivals(features);
    rodata.detail_messages = levels.messages;
    rodata.detail_sent = levels.sent;
    rodata.detail_nic = levels.messages && nics.stamp_received();
    rodata.address_salt = crate::waits::address_salt();
    if let Some(jiffy_ns) = crate::clock::jiffy_ns() {
        const NS_PER_S: u64 = 1_000_000_000;
        rodata.kernel_hz = u32::try_from((NS_PER_S + jiffy_ns / 2) / jiffy_ns).unwrap_or(100);
    }
    crate::waits::name_syscalls(&mut rodata.syscall_objects);
    crate::busy_poll::name_timeouts(&mut rodata.syscall_timeouts);
    crate::drops::configure(rodata, features);
    rodata.select_all = selection.all;
    rodata.select_sharers = selection.sharers;
    if features.follows(levels) {
        rodata.select_follow = follow::FOLLOW_MOST;
    }
    rodata.select_port = selection.port.unwrap_or(0);
    if let Some(comm) = &selection.comm {
        // the kernel keeps 15 bytes of a command's name
        for (to, from) in rodata.select_comm.iter_mut().zip(comm.bytes().take(15)) {
            *to = from.cast_signed();
        }
    }
    if let Some((id, level)) = selection.cgroup {
        rodata.select_cgroup_id = id;
        rodata.select_cgroup_level = level;
    }
}

/// Sets the places of the namespace counters; returns whether they can be read.
fn configure_mib(open: &mut OpenHooksSkel<'_>, places: Option<MibPlaces>, cpus: usize) -> bool {
    let bss = open.maps.bss_data.as_deref();
    let room = bss.map_or(0, |bss| bss.cpu_distances.len());
    let Some(places) = places.filter(|_| cpus <= room) else {
        return false;
    };
    let (Some(rodata), Ok(cpus)) = (open.maps.rodata_data.as_deref_mut(), cpus.try_into()) else {
        return false;
    };
    rodata.mib_cpus = cpus;
    rodata.mib_listen_overflows = places.listen_overflows;
    rodata.mib_syncookies_received = places.syncookies_received;
    true
}

/// Shrinks the maps of data that is not recorded. Then they take little memory.
fn shrink_unused_maps(open: &mut OpenHooksSkel<'_>, levels: Levels) -> Result<(), HooksError> {
    // libbpf makes it whole pages
    const LEAST_RING_BYTES: u32 = 4096;
    let off = PROBES.iter().filter(|probe| !probe.is_on(levels));
    let unused: Vec<&str> = off.flat_map(|probe| probe.maps()).copied().collect();
    for mut map in open.open_object_mut().maps_mut() {
        let name = map.name().to_str().unwrap_or_default();
        if unused.contains(&name) {
            let least = match map.map_type() {
                MapType::RingBuf => LEAST_RING_BYTES,
                _ => 1,
            };
            map.set_max_entries(least).map_err(HooksError::Load)?;
        }
    }
    Ok(())
}
