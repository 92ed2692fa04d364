//! The BPF program of USDT probes, loaded and attached. In: probes that were found. Out: their
//! firings, and how many there were.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, RingBuffer, RingBufferBuilder, UsdtOpts};

use super::error::UsdtError;
use super::probe::{MOST_ARGUMENTS, Probe};
use super::skel::types::{usdt_count, usdt_record};
use super::skel::{OpenUsdtSkel, UsdtSkel, UsdtSkelBuilder};
use crate::hooks::{Hooks, Selection};
use crate::wire::{Wire, read};

// SAFETY: both are `repr(C)` and made of integers and arrays of integers.
unsafe impl Wire for usdt_record {}
// SAFETY: see above.
unsafe impl Wire for usdt_count {}

/// Where the loaded object lives; it must outlive [`Probes`].
pub type Storage = MaybeUninit<OpenObject>;

/// A probe fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Firing {
    /// When, `CLOCK_MONOTONIC`.
    pub(super) time_ns: u64,
    /// Process.
    pub(super) pid: u32,
    /// Thread.
    pub(super) tid: u32,
    /// Index of the probe.
    pub(super) probe: usize,
    /// Bit i: argument i could not be read.
    pub(super) unread: u16,
    /// The arguments that were asked for.
    pub(super) values: [i64; MOST_ARGUMENTS],
}

/// How often a probe fired in recorded processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FiringCounts {
    /// Times.
    pub fired: u64,
    /// Of these, those for which the ring had no room.
    pub lost_ring_full: u64,
}

/// Probes that are listened to. Dropping it detaches them all; so does the kernel after a kill.
pub struct Probes<'obj> {
    /// Goes first: a link of libbpf's looks into the object when it is destroyed.
    links: RefCell<Vec<Link>>,
    ring: RingBuffer<'static>,
    firings: Rc<RefCell<Vec<Firing>>>,
    skel: UsdtSkel<'obj>,
    probes: Vec<Probe>,
}

impl<'obj> Probes<'obj> {
    /// Loads the program and attaches it to `probes` in all processes, those that start later
    /// included. Of the firings, those of the processes that `hooks` record count.
    ///
    /// # Errors
    /// When the kernel refuses a program or a probe.
    pub fn attach(
        storage: &'obj mut Storage,
        hooks: &Hooks<'_>,
        selection: &Selection,
        probes: Vec<Probe>,
    ) -> Result<Self, UsdtError> {
        let mut open = UsdtSkelBuilder::default()
            .open(storage)
            .map_err(UsdtError::Load)?;
        configure(&mut open, selection);
        share_maps(&mut open, hooks, &probes).map_err(UsdtError::Load)?;
        let skel = open.load().map_err(UsdtError::Load)?;
        let firings = Rc::default();
        let attached = Self {
            links: RefCell::default(),
            ring: ring(&skel, &firings)?,
            firings,
            skel,
            probes,
        };
        for (index, probe) in attached.probes.iter().enumerate() {
            let link = attached.attach_one(index as u32, probe)?;
            attached.links.borrow_mut().push(link);
        }
        Ok(attached)
    }

    /// Attaches the program to one probe of a file.
    fn attach_one(&self, index: u32, probe: &Probe) -> Result<Link, UsdtError> {
        const ALL_PROCESSES: i32 = -1;
        let arguments = probe.read_len() as u32;
        self.skel
            .maps
            .usdt_arguments
            .update(
                &index.to_ne_bytes(),
                &arguments.to_ne_bytes(),
                MapFlags::ANY,
            )
            .map_err(|error| UsdtError::Use {
                action: "say which arguments to read",
                error,
            })?;
        let options = UsdtOpts {
            cookie: index.into(),
            ..UsdtOpts::default()
        };
        self.skel
            .progs
            .handle_usdt
            .attach_usdt_with_opts(
                ALL_PROCESSES,
                &probe.opened,
                &probe.provider,
                &probe.name,
                options,
            )
            .map_err(|error| UsdtError::Attach {
                probe: probe.to_string(),
                path: probe.path.clone(),
                arguments: probe.arguments.clone(),
                error,
            })
    }

    /// Returns the probes in the order of their indices.
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// Takes at most `most` firings out of the ring.
    pub fn drain(&self, most: usize) -> Vec<Firing> {
        // What it returns is how many there were.
        let _ = self.ring.consume_raw_n(most);
        self.firings.take()
    }

    /// Detaches the program; firings on their way can still be drained.
    pub fn detach(&self) {
        self.links.take();
    }

    /// Returns the program, for measuring its run time.
    pub fn program(&self) -> BorrowedFd<'_> {
        self.skel.progs.handle_usdt.as_fd()
    }

    /// Returns how often each probe fired so far.
    ///
    /// # Errors
    /// When the kernel does not give its counts.
    pub fn counts(&self) -> Result<Vec<FiringCounts>, UsdtError> {
        (0..self.probes.len() as u32)
            .map(|index| self.count(index))
            .collect()
    }

    /// Returns how often a probe fired, and how many firings were lost.
    fn count(&self, index: u32) -> Result<FiringCounts, UsdtError> {
        let counts = &self.skel.maps.usdt_counts;
        let of_cpus = counts
            .lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| UsdtError::Use {
                action: "read how often USDT probes fired",
                error,
            })?;
        let mut sum = FiringCounts::default();
        for count in of_cpus.iter().flatten().filter_map(|bytes| read(bytes)) {
            let usdt_count {
                fired,
                lost_ring_full,
            } = count;
            sum.fired += fired;
            sum.lost_ring_full += lost_ring_full;
        }
        Ok(sum)
    }
}

/// Sets which processes count, beside those of the shared map.
fn configure(open: &mut OpenUsdtSkel<'_>, selection: &Selection) {
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.select_all = selection.all;
        (rodata.select_cgroup_id, rodata.select_cgroup_level) =
            selection.cgroup.unwrap_or_default();
    }
}

/// Shares the map of recorded processes, and gives the others room for all probes.
fn share_maps(
    open: &mut OpenUsdtSkel<'_>,
    hooks: &Hooks<'_>,
    probes: &[Probe],
) -> libbpf_rs::Result<()> {
    let count = |number: usize| u32::try_from(number.max(1)).unwrap_or(u32::MAX);
    let places = count(probes.iter().map(|probe| probe.places).sum());
    let maps = &mut open.maps;
    maps.tasks.reuse_fd(hooks.tasks())?;
    maps.usdt_arguments.set_max_entries(count(probes.len()))?;
    maps.usdt_counts.set_max_entries(count(probes.len()))?;
    maps.__bpf_usdt_specs.set_max_entries(places)?;
    maps.__bpf_usdt_ip_to_spec_id.set_max_entries(places)
}

/// Maps the ring; each firing that comes is added to `firings`.
fn ring(
    skel: &UsdtSkel<'_>,
    firings: &Rc<RefCell<Vec<Firing>>>,
) -> Result<RingBuffer<'static>, UsdtError> {
    let failed = |error| UsdtError::Use {
        action: "map the ring of USDT probes",
        error,
    };
    let taken = Rc::clone(firings);
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&skel.maps.usdt_ring, move |bytes| {
            taken.borrow_mut().extend(decode_firing(bytes));
            0
        })
        .map_err(failed)?;
    builder.build().map_err(failed)
}

/// Decodes a record of a firing, with the arguments that the user asked for.
fn decode_firing(bytes: &[u8]) -> Option<Firing> {
    let mut whole = [0; size_of::<usdt_record>()];
    whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let usdt_record {
        time_ns,
        pid,
        tid,
        probe,
        count: _,
        unread,
        values,
    } = read(&whole)?;
    Some(Firing {
        time_ns,
        pid,
        tid,
        probe: probe as usize,
        unread,
        values,
    })
}
