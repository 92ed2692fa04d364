//! The BPF programs of all probes, loaded and attached as one object (`src/bpf/hooks.bpf.c` is
//! the list of what is hooked). In: what to record. Out: rows, counts of what was produced and
//! lost, and coverage: which hooks this kernel has, decided from its BTF.

mod count;
mod drain;
mod features;
mod iterate;
mod log;
mod mib;
mod walk;

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenMapMut, OpenObject, ProgramInput, ProgramMut};
use table::manifest::{Coverage, ProbeState};

use crate::nic::Nics;
use crate::privileges::{Capability, Privileges};
use crate::self_cost::{BpfTimeError, BpfTimeSampler};
use crate::skel::{HooksSkel, HooksSkelBuilder, OpenHooksSkel};
use crate::wire::types as wire;
pub use count::{Counts, ProbeCount};
pub use drain::{Drained, Drainer};
use features::{Features, Levels};
use iterate::read_iterator;
use mib::MibPlaces;
pub use walk::{WALK_LEVEL_MOST, WalkOf, Walked};

/// How many programs that the kernel refuses are left out before it is given up.
const REFUSED_MOST: usize = 8;

/// Where the loaded object lives, and those that the kernel refused; it must outlive [`Hooks`].
#[derive(Debug)]
pub struct Storage {
    tries: [MaybeUninit<OpenObject>; REFUSED_MOST],
    last: MaybeUninit<OpenObject>,
}

impl Storage {
    /// Room for an object.
    pub fn uninit() -> Self {
        Self {
            tries: [const { MaybeUninit::uninit() }; REFUSED_MOST],
            last: MaybeUninit::uninit(),
        }
    }
}

/// How much is recorded. Each level includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Polled statistics, events, last statistics of every connection.
    Stats,
    /// Also every send and receive call, and the exact stage ledger.
    Calls,
    /// Also every interval in which a thread was blocked, and on what.
    Waits,
    /// Also every received message, with the times of its way to the program.
    Messages,
}

impl Detail {
    /// Name on the command line and in the recording.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stats => "stats",
            Self::Calls => "calls",
            Self::Waits => "waits",
            Self::Messages => "messages",
        }
    }
}

/// What leaves the kernel of the connections that are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    /// Each call and each event.
    Records,
    /// Counts of them, with the socket's statistics: for watching without an end.
    Summaries,
}

/// Which connections are recorded. Processes come on top, by [`Hooks::record_process`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Every connection on the host.
    pub all: bool,
    /// Connections with this local or remote port.
    pub port: Option<u16>,
    /// Processes that execute under this command name.
    pub comm: Option<String>,
    /// Processes in this control group or below: its id and its depth below the root.
    pub cgroup: Option<(u64, u32)>,
    /// Of `all`, only those in the network namespace with this inode number.
    pub netns: Option<u32>,
}

/// Why a process is known to the programs: `TASK_*` in `select.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum TaskKind {
    Recorded = 1,
    Parent = 2,
}

/// What can go wrong between the object file and running programs.
#[derive(Debug, thiserror::Error)]
pub enum HooksError {
    /// The kernel refused to load the programs.
    #[error("cannot load BPF programs: {0}")]
    Load(libbpf_rs::Error),
    /// The kernel refused to load a program that nothing can do without.
    #[error("cannot load BPF program {program}: {error}")]
    Refused {
        /// Name of the program.
        program: String,
        /// Cause.
        error: libbpf_rs::Error,
    },
    /// A program could not be attached.
    #[error("cannot attach BPF program {program}: {error}")]
    Attach {
        /// Name of the program.
        program: &'static str,
        /// Cause.
        error: libbpf_rs::Error,
    },
    /// A loaded program or map could not be used.
    #[error("cannot {action}: {error}")]
    Use {
        /// What was tried.
        action: &'static str,
        /// Cause.
        error: libbpf_rs::Error,
    },
    /// An iterator could not be read.
    #[error("cannot read {what} from the kernel: {error}")]
    Read {
        /// What was read.
        what: &'static str,
        /// Cause.
        error: std::io::Error,
    },
    /// The kernel carries no type information, which the programs need.
    #[error("this kernel has no BTF (/sys/kernel/btf/vmlinux): {0}")]
    NoBtf(String),
    /// The kernel is too old.
    #[error("this kernel has no BPF helper bpf_{0}, which the programs need")]
    NoHelper(&'static str),
}

impl HooksError {
    fn attach(program: &'static str) -> impl Fn(libbpf_rs::Error) -> Self {
        move |error| Self::Attach { program, error }
    }

    /// Whether it is for want of privilege.
    pub fn is_permission(&self) -> bool {
        let denied = libbpf_rs::ErrorKind::PermissionDenied;
        matches!(
            self,
            Self::Load(error) | Self::Refused { error, .. } | Self::Attach { error, .. }
                if error.kind() == denied
        )
    }

    /// What mends it.
    pub fn remedy(&self) -> String {
        let needs = [Capability::Bpf, Capability::Perfmon, Capability::NetAdmin];
        match self {
            _ if self.is_permission() => Privileges::read().remedy(&needs),
            Self::NoBtf(_) => {
                "run a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are; \
                in a container, mount /sys/kernel/btf"
                    .to_owned()
            }
            // the oldest that `make kernels` sees them run on
            Self::NoHelper(_) => "run Linux 6.1 or newer".to_owned(),
            _ => "see what the kernel says: WHYLAT_LIBBPF_LOG=1 whylat doctor".to_owned(),
        }
    }
}

/// The running programs. Dropping it detaches them all; so does the kernel after a kill.
pub struct Hooks<'obj> {
    skel: HooksSkel<'obj>,
    attached: RefCell<Attached>,
    cpus: usize,
    leaves: Leaves,
    has_calls: bool,
    /// Walks may be over active sockets only.
    has_active: bool,
    /// The present walk is.
    over_active: Cell<bool>,
    /// So many walks are not to be, though they might.
    over_all: Cell<u8>,
    /// What walks over active sockets had no need to look at, so far.
    resting: Cell<u64>,
    counts_timeouts: bool,
    has_waits: bool,
    has_messages: bool,
    /// A clock on every CPU; none if no waits are recorded, or the kernel refused.
    clocks: Vec<OwnedFd>,
    /// Adapters that may stamp what is sent, if that is recorded.
    nics: Option<Nics>,
    coverage: Vec<Coverage>,
}

/// What is attached; dropped to detach.
#[derive(Default)]
struct Attached {
    hooks: Vec<Link>,
    walk: Option<Link>,
    sockets: Option<Link>,
    active: Option<Link>,
    draining: Option<Link>,
    sending: Option<Link>,
    udp: Option<Link>,
}

impl<'obj> Hooks<'obj> {
    /// Loads the programs for `selection`. Hooks that this kernel lacks, and those whose programs it
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

    /// The same on a host with these adapters.
    pub(crate) fn load_beside(
        storage: &'obj mut Storage,
        selection: &Selection,
        detail: Detail,
        nics: &Nics,
    ) -> Result<Self, HooksError> {
        log::listen();
        let what = What {
            selection,
            detail,
            leaves: Leaves::Records,
            nics,
            active_for: walk::ACTIVE_FOR,
        };
        Self::load_with(storage, &what, Features::probe()?)
    }

    /// Loads the programs that watch every connection of the host, or of one network namespace,
    /// for good: what they count leaves the kernel by [`walk_watched`](Self::walk_watched).
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
        let what = What {
            selection: &selection,
            detail: detail.min(Detail::Calls),
            leaves: Leaves::Summaries,
            nics: &Nics::default(),
            active_for: walk::ACTIVE_FOR,
        };
        Self::load_with(storage, &what, Features::probe()?)
    }

    fn load_with(
        storage: &'obj mut Storage,
        what: &What<'_>,
        mut features: Features,
    ) -> Result<Self, HooksError> {
        let Storage { tries, last } = storage;
        for storage in tries {
            match Self::load_chosen(storage, what, &features) {
                Err(HooksError::Refused { program, .. }) if features.refuse(&program) => {}
                done => return done,
            }
        }
        Self::load_chosen(last, what, &features)
    }

    fn load_chosen(
        storage: &'obj mut MaybeUninit<OpenObject>,
        what: &What<'_>,
        features: &Features,
    ) -> Result<Self, HooksError> {
        let What {
            selection,
            detail,
            leaves,
            nics,
            active_for,
        } = *what;
        let summaries = leaves == Leaves::Summaries;
        let mut open = HooksSkelBuilder::default()
            .open(storage)
            .map_err(HooksError::Load)?;
        let levels = features.levels(detail, summaries);
        let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
        configure(&mut open, selection, levels, nics);
        walk::configure(&mut open, levels, active_for);
        let has_mib = configure_mib(&mut open, features.mib, cpus);
        features.choose_programs(open.open_object_mut(), levels);
        open.progs.read_draining.set_autoload(levels.calls);
        open.progs.read_sending.set_autoload(levels.sent);
        for program in [
            &mut open.progs.handle_sock_create,
            &mut open.progs.handle_sock_release,
            &mut open.progs.read_udp,
        ] {
            program.set_autoload(levels.messages);
        }
        for program in [
            &mut open.progs.handle_sched_process_fork,
            &mut open.progs.handle_sched_process_exec,
            &mut open.progs.handle_sched_process_exit,
            &mut open.progs.read_sockets,
        ] {
            program.set_autoload(!summaries);
        }
        open.progs.read_watched.set_autoload(summaries);
        open.progs.read_active.set_autoload(levels.active);
        open.progs
            .flush_batches
            .set_autoload(levels.logs_calls() || levels.waits);
        let mut coverage = features.coverage(detail, has_mib);
        let clocks = if levels.waits {
            let opened = crate::spins::open_clocks();
            coverage.push(spins_coverage(opened.as_ref().err()));
            opened.unwrap_or_default()
        } else {
            Vec::new()
        };
        open.progs.look_at_cpu.set_autoload(!clocks.is_empty());
        shrink_unused_maps(&mut open, levels)?;
        let mut skel = open.load().map_err(refused)?;
        try_stand_ins(&skel, features)?;
        let mut attached = Attached::default();
        match features.lacks_for_udp() {
            _ if !levels.messages => {}
            Some((hook, since)) => coverage.push(crate::udp::off(hook, since)),
            None => {
                let links = crate::udp::attach(&mut skel);
                coverage.push(crate::udp::coverage(links.as_ref().err()));
                attached.hooks = links.unwrap_or_default();
            }
        }
        let hooks = Self {
            skel,
            attached: RefCell::new(attached),
            cpus,
            leaves,
            has_calls: levels.calls,
            has_active: levels.active,
            over_active: Cell::new(false),
            over_all: Cell::new(0),
            resting: Cell::new(0),
            counts_timeouts: features.counts_timeouts,
            has_waits: levels.waits,
            has_messages: levels.messages,
            clocks,
            nics: levels.sent.then(|| nics.clone()),
            coverage,
        };
        hooks.run_on_each_cpu(
            &hooks.skel.progs.learn_cpu,
            "learn where CPUs keep counters",
        )?;
        Ok(hooks)
    }

    /// Attaches every loaded program. Sockets that are open already are found by
    /// [`walk`](Self::walk).
    pub fn attach(&self) -> Result<(), HooksError> {
        let p = &self.skel.progs;
        let hooks = [
            (&p.handle_sched_process_fork, "sched_process_fork"),
            (&p.handle_sched_process_exec, "sched_process_exec"),
            (&p.handle_sched_process_exit, "sched_process_exit"),
            (&p.handle_inet_sock_set_state, "inet_sock_set_state"),
            (&p.handle_tcp_cong_state_set, "tcp_cong_state_set"),
            (&p.handle_tcp_retransmit_skb, "tcp_retransmit_skb"),
            (&p.handle_sched_switch, "sched_switch"),
            (&p.handle_sched_waking, "sched_waking"),
            (&p.handle_tcp_probe, "tcp_probe"),
            (&p.handle_sock_send_length, "sock_send_length"),
            (&p.handle_tcp_sendmsg, "tcp_sendmsg"),
            (&p.handle_sock_recv_length, "sock_recv_length"),
            (&p.handle_tcp_recvmsg, "tcp_recvmsg"),
            (&p.handle_tcp_recvmsg_nonblock, "tcp_recvmsg_nonblock"),
            (&p.handle_netif_rx_entry, "netif_rx_entry"),
            (&p.handle_napi_gro_receive_entry, "napi_gro_receive_entry"),
            (&p.handle_napi_gro_frags_entry, "napi_gro_frags_entry"),
            (&p.handle_netif_receive_skb, "netif_receive_skb"),
            (&p.handle_sk_data_ready, "sk_data_ready"),
            (&p.handle_sock_def_readable, "sock_def_readable"),
            (&p.handle_skb_copy_datagram_iovec, "skb_copy_datagram_iovec"),
            (&p.handle_tcp_rcv_space_adjust, "tcp_rcv_space_adjust"),
            (&p.handle_tcp_sendmsg_locked, "tcp_sendmsg_locked"),
            (
                &p.handle_tcp_sendmsg_locked_entry,
                "tcp_sendmsg_locked_entry",
            ),
            (&p.handle_net_dev_queue, "net_dev_queue"),
            (&p.handle_net_dev_start_xmit, "net_dev_start_xmit"),
            (&p.handle_udp_fail_queue_rcv_skb, "udp_fail_queue_rcv_skb"),
        ];
        let mut attached = self.attached.take();
        for (program, name) in hooks {
            if program.autoload() {
                attached
                    .hooks
                    .push(program.attach().map_err(HooksError::attach(name))?);
            }
        }
        for clock in &self.clocks {
            attached.hooks.push(start_clock(&p.look_at_cpu, clock)?);
        }
        let walk = p
            .walk_task_files
            .attach()
            .map_err(HooksError::attach("walk_task_files"))?;
        attached.walk = Some(walk);
        let maps = &self.skel.maps;
        let over = |map: &dyn MapCore, program: &ProgramMut<'_>, name| {
            let link = program.attach_iter(map.as_fd());
            link.map_err(HooksError::attach(name))
        };
        attached.sockets = Some(match self.leaves {
            Leaves::Records => over(&maps.sockets, &p.read_sockets, "read_sockets")?,
            Leaves::Summaries => over(&maps.sockets, &p.read_watched, "read_watched")?,
        });
        if self.has_active {
            let active = over(&maps.active_sockets, &p.read_active, "read_active")?;
            attached.active = Some(active);
        }
        if self.has_calls {
            let draining = over(&maps.sockets, &p.read_draining, "read_draining")?;
            attached.draining = Some(draining);
        }
        if p.read_sending.autoload() {
            let sending = over(&maps.send_streams, &p.read_sending, "read_sending")?;
            attached.sending = Some(sending);
        }
        if p.read_udp.autoload() {
            let udp = over(&maps.udp_sockets, &p.read_udp, "read_udp")?;
            attached.udp = Some(udp);
        }
        self.attached.replace(attached);
        Ok(())
    }

    /// What works, and why the rest does not.
    pub fn coverage(&self) -> &[Coverage] {
        &self.coverage
    }

    /// Whether the ledger and the call log are kept.
    pub fn has_calls(&self) -> bool {
        self.has_calls
    }

    /// Whether sockets of this kernel count their retransmission timeouts.
    pub fn counts_timeouts(&self) -> bool {
        self.counts_timeouts
    }

    /// Records this process and its descendants.
    pub fn record_process(&self, pid: u32) -> Result<(), HooksError> {
        self.set_task(pid, TaskKind::Recorded)
    }

    /// Records what this process forks from now on, but not itself: for starting a command.
    pub fn record_children_of(&self, pid: u32) -> Result<(), HooksError> {
        self.set_task(pid, TaskKind::Parent)
    }

    /// Forgets a process; what it forked stays recorded.
    pub fn forget_process(&self, pid: u32) -> Result<(), HooksError> {
        match self.skel.maps.tasks.delete(&pid.to_ne_bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(HooksError::Use {
                action: "forget a process",
                error,
            }),
            _ => Ok(()),
        }
    }

    fn set_task(&self, pid: u32, kind: TaskKind) -> Result<(), HooksError> {
        self.skel
            .maps
            .tasks
            .update(&pid.to_ne_bytes(), &[kind as u8], MapFlags::ANY)
            .map_err(|error| HooksError::Use {
                action: "select a process",
                error,
            })
    }

    /// The map of processes that are recorded, for programs of other objects.
    pub(crate) fn tasks(&self) -> BorrowedFd<'_> {
        self.skel.maps.tasks.as_fd()
    }

    /// The storage of recorded sockets, the same.
    pub(crate) fn sockets(&self) -> BorrowedFd<'_> {
        self.skel.maps.sockets.as_fd()
    }

    /// The adapters that may stamp sent messages; `None`: these are not recorded.
    pub(crate) fn nics(&self) -> Option<&Nics> {
        self.nics.as_ref()
    }

    /// Processes selected so far: those asked for, and their descendants that still run.
    pub fn recorded_processes(&self) -> Vec<u32> {
        let is_recorded = |key: &Vec<u8>| {
            let kind = self
                .skel
                .maps
                .tasks
                .lookup(key, MapFlags::ANY)
                .ok()
                .flatten();
            kind.as_deref() == Some(&[TaskKind::Recorded as u8])
        };
        let pid = |key: Vec<u8>| key.try_into().ok().map(u32::from_ne_bytes);
        self.skel
            .maps
            .tasks
            .keys()
            .filter(is_recorded)
            .filter_map(pid)
            .collect()
    }

    /// Walks the open files of every process: finds sockets that were open before, the other ends
    /// of chosen connections on this host, and owners.
    pub fn walk(&self) -> Result<(), HooksError> {
        read_iterator(self.attached.borrow().walk.as_ref(), "open files")
    }

    /// Reads the recorded sockets on which something has happened since they were last read: a
    /// sample of each one's statistics and, where it is kept, its ledger. True when there are more
    /// than the ring holds: after it was drained, [`read_more_sockets`](Self::read_more_sockets)
    /// reads on.
    pub fn read_sockets(&self) -> Result<bool, HooksError> {
        self.begin_poll([0; 4])?;
        self.read_more_sockets()
    }

    fn begin_poll(&self, arguments: [u64; 4]) -> Result<(), HooksError> {
        let mut context: Vec<u8> = arguments.iter().flat_map(|n| n.to_ne_bytes()).collect();
        let input = ProgramInput {
            context_in: Some(&mut context),
            ..ProgramInput::default()
        };
        let begun = self.skel.progs.begin_poll.test_run(input);
        begun.map(drop).map_err(|error| HooksError::Use {
            action: "begin a poll",
            error,
        })
    }

    /// Reads the sockets that [`read_sockets`](Self::read_sockets) had no room for.
    pub fn read_more_sockets(&self) -> Result<bool, HooksError> {
        let attached = self.attached.borrow();
        let link = match self.over_active.get() {
            true => &attached.active,
            false => &attached.sockets,
        };
        let walk = || read_iterator(link.as_ref(), "recorded sockets");
        Ok(self.counted(walk, |walked| walked.postponed)? > 0)
    }

    /// Advances the ledgers of connections of which an end has closed, and that may still send: no
    /// hook sees their ACKs. Returns how many there were.
    pub fn read_draining(&self) -> Result<u64, HooksError> {
        let attached = self.attached.borrow();
        let walk = || read_iterator(attached.draining.as_ref(), "draining sockets");
        self.counted(walk, |walked| walked.draining)
    }

    /// By how much a walk raised a count.
    fn counted(
        &self,
        walk: impl FnOnce() -> Result<(), HooksError>,
        count: impl Fn(&wire::walk_counts) -> u64,
    ) -> Result<u64, HooksError> {
        let read = || {
            let bss = self.skel.maps.bss_data.as_deref();
            bss.map_or(0, |bss| count(&bss.walked))
        };
        let before = read();
        walk()?;
        Ok(read() - before)
    }

    /// Hands the batches of every CPU to the rings, full or not.
    pub fn flush(&self) -> Result<(), HooksError> {
        if !self.skel.progs.flush_batches.autoload() {
            return Ok(());
        }
        self.run_on_each_cpu(&self.skel.progs.flush_batches, "flush batches")
    }

    /// Runs a program that is attached to nothing once on every CPU that is on.
    fn run_on_each_cpu(
        &self,
        program: &ProgramMut<'_>,
        action: &'static str,
    ) -> Result<(), HooksError> {
        const BPF_F_TEST_RUN_ON_CPU: u32 = 1;
        for cpu in 0..self.cpus {
            let input = ProgramInput {
                cpu: u32::try_from(cpu).unwrap_or(0),
                flags: BPF_F_TEST_RUN_ON_CPU,
                ..Default::default()
            };
            match program.test_run(input) {
                Ok(_) => {}
                // possible, but not online
                Err(error) if error.kind() == libbpf_rs::ErrorKind::Other => {}
                Err(error) => return Err(HooksError::Use { action, error }),
            }
        }
        Ok(())
    }

    /// Detaches every program, and has those messages handed over that are not acknowledged yet. Records that
    /// are on their way can still be drained.
    pub fn detach(&self) -> Result<(), HooksError> {
        let mut attached = self.attached.take();
        attached.hooks.clear();
        read_iterator(attached.udp.as_ref(), "UDP sockets")?;
        read_iterator(attached.sending.as_ref(), "sent messages")
    }

    /// Records produced and lost so far, by probe.
    pub fn counts(&self) -> Result<Counts, HooksError> {
        count::read_all(
            &self.skel,
            self.has_calls && self.leaves == Leaves::Records,
            self.has_waits,
            self.has_messages,
        )
    }

    /// Reads what the programs wrote, at the caller's pace.
    pub fn drainer(&self) -> Result<Drainer<'_>, HooksError> {
        let maps = &self.skel.maps;
        Drainer::new(
            &maps.records,
            &maps.readings,
            &maps.call_ring,
            &maps.wait_ring,
            &maps.stack_ring,
            &maps.received_ring,
            &maps.sent_ring,
        )
    }

    /// A sampler of the programs' run time, and of that of others.
    pub fn run_time<'a>(
        &'a self,
        now_ns: u64,
        others: impl IntoIterator<Item = BorrowedFd<'a>>,
    ) -> Result<BpfTimeSampler, BpfTimeError> {
        let p = &self.skel.progs;
        let hooks = [
            &p.handle_sched_process_fork,
            &p.handle_sched_process_exec,
            &p.handle_sched_process_exit,
            &p.handle_inet_sock_set_state,
            &p.handle_tcp_cong_state_set,
            &p.handle_tcp_retransmit_skb,
            &p.handle_sched_switch,
            &p.handle_sched_waking,
            &p.handle_tcp_probe,
            &p.handle_sock_send_length,
            &p.handle_tcp_sendmsg,
            &p.handle_sock_recv_length,
            &p.handle_tcp_recvmsg,
            &p.handle_tcp_recvmsg_nonblock,
            &p.look_at_cpu,
            &p.handle_netif_rx_entry,
            &p.handle_napi_gro_receive_entry,
            &p.handle_napi_gro_frags_entry,
            &p.handle_netif_receive_skb,
            &p.handle_sk_data_ready,
            &p.handle_sock_def_readable,
            &p.handle_skb_copy_datagram_iovec,
            &p.handle_tcp_sendmsg_locked,
            &p.handle_tcp_sendmsg_locked_entry,
            &p.handle_net_dev_queue,
            &p.handle_net_dev_start_xmit,
            &p.handle_udp_fail_queue_rcv_skb,
            &p.handle_sock_create,
            &p.handle_sock_release,
            &p.flush_batches,
            &p.learn_cpu,
            &p.begin_poll,
            &p.walk_task_files,
            &p.read_sockets,
            &p.read_watched,
            &p.read_active,
            &p.read_draining,
        ];
        let loaded = hooks.into_iter().filter(|program| program.autoload());
        let loaded = loaded.map(|program| program.as_fd());
        BpfTimeSampler::new(loaded.chain(others), now_ns, now_ns)
    }
}

/// What is to be loaded.
struct What<'a> {
    selection: &'a Selection,
    detail: Detail,
    leaves: Leaves,
    nics: &'a Nics,
    /// How long a socket stays active after its last data.
    active_for: Duration,
}

/// Why a load failed.
fn refused(error: libbpf_rs::Error) -> HooksError {
    match log::take_refused() {
        Some(program) => HooksError::Refused { program, error },
        None => HooksError::Load(error),
    }
}

/// Attaches each program at a function for a moment: some kernels let it load, and not attach.
fn try_stand_ins(skel: &HooksSkel<'_>, features: &Features) -> Result<(), HooksError> {
    for stand_in in features.stand_ins() {
        let name = format!("handle_{stand_in}");
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

/// Lets a clock run the program on its CPU. libbpf closes the descriptor that it is given.
fn start_clock(program: &ProgramMut<'_>, clock: &OwnedFd) -> Result<Link, HooksError> {
    let failed = HooksError::attach("look_at_cpu");
    let own = clock.try_clone().map_err(|error| failed(error.into()))?;
    let link = program.attach_perf_event(own.into_raw_fd());
    link.map_err(failed)
}

fn spins_coverage(refused: Option<&std::io::Error>) -> Coverage {
    let Some(error) = refused else {
        return on("spins");
    };
    Coverage {
        probe: "spins".to_owned(),
        state: ProbeState::Off {
            why: format!("perf_event_open: {error}"),
            remedy: "allow performance events: CAP_PERFMON, CONFIG_PERF_EVENTS".to_owned(),
        },
    }
}

fn configure(open: &mut OpenHooksSkel<'_>, selection: &Selection, levels: Levels, nics: &Nics) {
    let Some(rodata) = open.maps.rodata_data.as_deref_mut() else {
        return;
    };
    rodata.detail_calls = levels.calls;
    rodata.only_summaries = levels.summaries;
    rodata.select_netns = selection.netns.unwrap_or(0);
    rodata.detail_waits = levels.waits;
    rodata.detail_messages = levels.messages;
    rodata.detail_sent = levels.sent;
    rodata.detail_nic = levels.messages && nics.stamp_received();
    rodata.address_salt = crate::waits::salt();
    if let Some(jiffy_ns) = crate::clock::jiffy_ns() {
        const NS_PER_S: u64 = 1_000_000_000;
        rodata.kernel_hz = u32::try_from((NS_PER_S + jiffy_ns / 2) / jiffy_ns).unwrap_or(100);
    }
    crate::waits::name_syscalls(&mut rodata.syscall_objects);
    crate::spins::name_timeouts(&mut rodata.syscall_timeouts);
    rodata.select_all = selection.all;
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

/// Whether the counters are read: where the kernel tells their places, and the programs have room for
/// all CPUs.
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

/// Nothing is put into the maps of what is not recorded: they take no more memory than they must.
fn shrink_unused_maps(open: &mut OpenHooksSkel<'_>, levels: Levels) -> Result<(), HooksError> {
    // libbpf makes it whole pages
    const LEAST_RING_BYTES: u32 = 4096;
    let maps = &mut open.maps;
    let shrink =
        |map: &mut OpenMapMut<'_>, entries| map.set_max_entries(entries).map_err(HooksError::Load);
    if levels.summaries {
        shrink(&mut maps.call_ring, LEAST_RING_BYTES)?;
        shrink(&mut maps.tasks, 1)?;
        shrink(&mut maps.peer_tuples, 1)?;
    }
    if !levels.waits {
        shrink(&mut maps.wait_ring, LEAST_RING_BYTES)?;
        shrink(&mut maps.stack_ring, LEAST_RING_BYTES)?;
        shrink(&mut maps.stack_numbers, 1)?;
    }
    if !levels.messages {
        shrink(&mut maps.received_ring, LEAST_RING_BYTES)?;
        shrink(&mut maps.arrivals, 1)?;
        shrink(&mut maps.sent_ring, LEAST_RING_BYTES)?;
    }
    Ok(())
}

/// Coverage entry of a working probe.
fn on(probe: &str) -> Coverage {
    Coverage {
        probe: probe.to_owned(),
        state: ProbeState::On,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a full map has no room for is counted, and what is there already is no loss.
    #[test]
    fn what_full_maps_have_no_room_for_is_counted() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: BPF needs root; run the tests as root");
            return;
        }
        let mut storage = Storage::uninit();
        let hooks = Hooks::load(&mut storage, &Selection::default(), Detail::Stats).unwrap();
        hooks.attach().unwrap();
        hooks.record_process(std::process::id()).unwrap();
        let use_both = || {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            assert!(child.wait().unwrap().success());
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let counts = hooks.counts().unwrap();
            (counts.lost_tasks, counts.lost_peers)
        };
        assert_eq!(use_both(), (0, 0));
        fill(&hooks.skel.maps.tasks);
        fill(&hooks.skel.maps.peer_tuples);
        let (tasks, peers) = use_both();
        assert!(tasks >= 1 && peers >= 1, "{tasks} tasks, {peers} peers");
    }

    /// A call and the walk over open files may meet a new socket at the same time, each of which would
    /// give it its storage.
    #[test]
    fn a_socket_that_a_call_and_a_walk_meet_at_once_is_chosen() {
        const CONNECTS: u32 = 20_011;
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: BPF needs root; run the tests as root");
            return;
        }
        let mut storage = Storage::uninit();
        let hooks = Hooks::load(&mut storage, &Selection::default(), Detail::Stats).unwrap();
        hooks.attach().unwrap();
        hooks.record_process(std::process::id()).unwrap();
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = nobody.local_addr().unwrap();
        drop(nobody);
        let caller = std::thread::spawn(move || {
            for _ in 0..CONNECTS {
                std::net::TcpStream::connect(address).unwrap_err();
            }
        });
        while !caller.is_finished() {
            hooks.walk().unwrap();
        }
        caller.join().unwrap();
        assert_eq!(hooks.counts().unwrap().lost_sockets, 0);
    }

    /// Puts keys into a map that the kernel makes none of, until it is full.
    fn fill(map: &impl MapCore) {
        for number in 0..=map.max_entries() {
            let mut key = vec![0xff; map.key_size() as usize];
            key[..4].copy_from_slice(&(number | 1 << 31).to_ne_bytes());
            if map.update(&key, &[0], MapFlags::ANY).is_err() {
                return;
            }
        }
        panic!("{:?} is never full", map.name());
    }

    /// On kernels that refuse programs at functions this goes through the refusal, too.
    #[test]
    fn without_a_tracepoint_the_rest_works() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: BPF needs root; run the tests as root");
            return;
        }
        let mut features = Features::probe().unwrap();
        features.refuse("handle_sock_send_length");
        log::listen();
        let mut storage = Storage::uninit();
        let what = What {
            selection: &Selection::default(),
            detail: Detail::Waits,
            leaves: Leaves::Records,
            nics: &Nics::default(),
            active_for: walk::ACTIVE_FOR,
        };
        let hooks = Hooks::load_with(&mut storage, &what, features).unwrap();
        hooks.attach().unwrap();
        let state = |name: &str| {
            let mut coverage = hooks.coverage().iter();
            coverage
                .find(|probe| probe.probe == name)
                .unwrap()
                .state
                .clone()
        };
        assert_eq!(state("waits"), ProbeState::On);
        match state("calls") {
            ProbeState::On => panic!("calls cannot be on"),
            ProbeState::Fallback { .. } => assert!(hooks.has_calls()),
            ProbeState::Off { why, .. } => {
                assert!(!hooks.has_calls());
                assert!(why.contains("sock_send_length"), "{why}");
            }
        }
    }
}
