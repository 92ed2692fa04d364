//! The BPF object of stamps, loaded and attached. In: the adapters of this host, and the hooks, which know who is
//! recorded. Out: rows of `sent_messages` with their stamps, and how many stamps there were.

use std::cell::RefCell;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, RingBuffer, RingBufferBuilder};
use table::manifest::{Coverage, ProbeState};
use table::tables::SentMessages;

use super::matching::{Matcher, Stamp};
use super::skel::types::{nic_place, nic_stamp};
use super::skel::{NicSkel, NicSkelBuilder};
use super::{Nics, coverage_line};
use crate::hooks::Hooks;
use crate::iterator::run_iterator;
use crate::netns::{self, Netns};
use crate::processes::cgroup2_root;
use crate::wire::{Wire, read};

// SAFETY: `nic_stamp` is `repr(C)` and made of integers.
unsafe impl Wire for nic_stamp {}

/// The kernel function that the object needs; Linux 6.15 has it.
const KFUNC: &str = "bpf_sock_ops_enable_tx_tstamp";

/// `SK_BPF_CB_TX_TIMESTAMPING` of include/uapi/linux/bpf.h.
const CALL_BACK: u32 = 1;

/// Where the loaded object lives; it must outlive [`Stamper`].
pub type Storage = MaybeUninit<OpenObject>;

/// Stamps of the adapters, and how many of them a message has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NicCounts {
    /// Stamps of packets of recorded connections.
    pub produced: u64,
    /// Of these, those that a message has.
    pub used: u64,
    /// Those for which the ring had no room.
    pub lost_ring_full: u64,
}

/// Why there are no stamps, and what fixes that.
type StampRefusal = (String, &'static str);

/// Stamps sent messages. Dropping it detaches it; so does the kernel after a kill.
pub struct Stamper<'obj> {
    /// Go first: a link of libbpf's looks into the object when it is destroyed.
    link: RefCell<Option<Link>>,
    walk: Link,
    ring: RingBuffer<'static>,
    stamps: Rc<RefCell<Vec<nic_stamp>>>,
    matcher: Matcher,
    skel: NicSkel<'obj>,
}

impl<'obj> Stamper<'obj> {
    /// Loads and attaches the object if an adapter is set to stamp, and nobody else needs its stamps, or they
    /// are to be `shared`. Without sent messages there is nothing to be stamped, and nothing to be reported.
    pub fn begin(
        storage: &'obj mut Storage,
        hooks: &Hooks<'_>,
        shared: bool,
    ) -> (Option<Self>, Option<Coverage>) {
        let Some(nics) = hooks.nics() else {
            return (None, None);
        };
        if let Some(lack) = nics.lack(shared) {
            return (None, Some(coverage_line(lack)));
        }
        match Self::attach(storage, hooks, nics) {
            Ok(stamper) => (Some(stamper), Some(coverage_line(ProbeState::On))),
            Err((why, remedy)) => {
                let remedy = remedy.to_owned();
                (None, Some(coverage_line(ProbeState::Off { why, remedy })))
            }
        }
    }

    /// Attaches the program that asks adapters for timestamps of sent packets.
    fn attach(
        storage: &'obj mut Storage,
        hooks: &Hooks<'_>,
        nics: &Nics,
    ) -> Result<Self, StampRefusal> {
        let failed = |error: libbpf_rs::Error| {
            let remedy = "report what `WHYLAT_LIBBPF_LOG=1 whylat doctor` says";
            (format!("cannot load its BPF programs: {error}"), remedy)
        };
        kernel_lacks()?;
        let root = root_cgroup()?;
        let mut open = NicSkelBuilder::default().open(storage).map_err(failed)?;
        let maps = &mut open.maps;
        maps.sockets.reuse_fd(hooks.sockets()).map_err(failed)?;
        let places = u32::try_from(nics.0.len()).unwrap_or(u32::MAX);
        maps.nics.set_max_entries(places).map_err(failed)?;
        let mut skel = open.load().map_err(failed)?;
        for (place, ptp) in nics.stamping_places() {
            let (key, value) = (place_key(place), u32::from(ptp).to_ne_bytes());
            let given = skel.maps.nics.update(&key, &value, MapFlags::ANY);
            given.map_err(failed)?;
        }
        call_back(&mut skel, CALL_BACK);
        let stamps = Rc::default();
        let link = skel.progs.handle_sock_ops.attach_cgroup(root.as_raw_fd());
        let stamper = Self {
            link: RefCell::new(Some(link.map_err(failed)?)),
            walk: skel.progs.walk_open_sockets.attach().map_err(failed)?,
            ring: ring(&skel, &stamps).map_err(failed)?,
            stamps,
            matcher: Matcher::default(),
            skel,
        };
        stamper.walk();
        Ok(stamper)
    }

    /// Sets or removes the callbacks of all recorded open connections. Ignores a namespace that
    /// goes away meanwhile.
    fn walk(&self) {
        let walk = self.walk.as_fd();
        let Ok(found) = netns::discover() else {
            return;
        };
        for path in found.paths.values() {
            if let Ok(netns) = Netns::open(path) {
                let _ = netns.run(|| run_iterator(walk));
            }
        }
    }

    /// Takes rows of sent messages, and returns those that have their stamp now, or will get none. `now_ns`:
    /// `CLOCK_MONOTONIC`.
    pub fn add_stamps(&mut self, rows: &SentMessages, now_ns: u64) -> SentMessages {
        // What it returns is how many there were, or why there are none now.
        let _ = self.ring.consume();
        for stamp in self.stamps.take() {
            let nic_stamp {
                cookie,
                phc_ns,
                offset,
                offset_end,
                ptp,
                pad: _,
            } = stamp;
            let stamp = Stamp {
                phc_ns,
                ptp: ptp as u16, // as it was given to the map
                offset,
                offset_end,
                used: false,
            };
            self.matcher.add(cookie, stamp, now_ns);
        }
        self.matcher.add_stamps(rows, now_ns)
    }

    /// The rows that still wait, when the rings are empty.
    pub fn finish(&mut self) -> SentMessages {
        self.add_stamps(&SentMessages::default(), u64::MAX)
    }

    /// Returns the loaded programs, to measure their run time.
    pub fn program(&self) -> BorrowedFd<'_> {
        self.skel.progs.handle_sock_ops.as_fd()
    }

    /// Removes all callbacks and detaches; stamps on their way can still be read.
    pub fn detach(&mut self) {
        call_back(&mut self.skel, 0);
        self.walk();
        self.link.take();
    }

    /// Returns the number of stamps, by their use.
    pub fn counts(&self) -> NicCounts {
        let bss = self.skel.maps.bss_data.as_deref();
        NicCounts {
            produced: bss.map_or(0, |bss| bss.stamps_produced),
            used: self.matcher.used,
            lost_ring_full: bss.map_or(0, |bss| bss.stamps_lost_ring_full),
        }
    }
}

/// Sets which callbacks of sockets the program asks for; 0 for none.
fn call_back(skel: &mut NicSkel<'_>, flags: u32) {
    if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
        bss.callbacks = flags;
    }
}

/// Refuses if the kernel has no function to enable timestamps.
fn kernel_lacks() -> Result<(), StampRefusal> {
    match Btf::from_vmlinux() {
        Ok(btf) if btf.type_by_name::<Func<'_>>(KFUNC).is_some() => Ok(()),
        _ => Err((
            format!("this kernel has no function {KFUNC}"),
            "run Linux 6.15 or newer",
        )),
    }
}

/// Opens the root control group, to which the program is attached.
fn root_cgroup() -> Result<File, StampRefusal> {
    let remedy = "mount control groups of version 2: mount -t cgroup2 none /sys/fs/cgroup";
    let root = cgroup2_root().map_err(|error| (error.to_string(), remedy))?;
    File::open(&root).map_err(|error| (format!("{}: {error}", root.display()), remedy))
}

/// Returns the map's key of an interface: namespace and index.
fn place_key(place: nic_place) -> [u8; 8] {
    let nic_place { netns, ifindex } = place;
    let mut key = [0; 8];
    key[..4].copy_from_slice(&netns.to_ne_bytes());
    key[4..].copy_from_slice(&ifindex.to_ne_bytes());
    key
}

/// Maps the ring; each stamp that comes is added to `stamps`.
fn ring(
    skel: &NicSkel<'_>,
    stamps: &Rc<RefCell<Vec<nic_stamp>>>,
) -> libbpf_rs::Result<RingBuffer<'static>> {
    let taken = Rc::clone(stamps);
    let mut builder = RingBufferBuilder::new();
    builder.add(&skel.maps.stamp_ring, move |bytes| {
        taken.borrow_mut().extend(read::<nic_stamp>(bytes));
        0
    })?;
    builder.build()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::hooks::{Detail, Hooks, Selection, Storage as HooksStorage};
    use crate::nic::tests::interface;

    /// No adapter stamps here: the programs load, and change nothing for sockets that are open, or are opened.
    #[test]
    fn where_an_adapter_stamps_the_rest_goes_on() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: BPF needs root; run the tests as root");
            return;
        }
        let nics = Nics(vec![interface("eth0", true)]);
        let (mut storage, mut own) = (HooksStorage::uninit(), Storage::uninit());
        let selection = Selection {
            all: true,
            ..Selection::default()
        };
        let hooks = Hooks::load_beside(&mut storage, &selection, Detail::Messages, &nics).unwrap();
        hooks.attach().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let open = [
            TcpStream::connect(address).unwrap(),
            listener.accept().unwrap().0,
        ];
        hooks.walk().unwrap();
        let mut stamper = match Stamper::begin(&mut own, &hooks, true) {
            (Some(stamper), _) => stamper,
            (None, why) => return eprintln!("skipped: {why:?}"),
        };
        let new = [
            TcpStream::connect(address).unwrap(),
            listener.accept().unwrap().0,
        ];
        for [mut from, mut to] in [open, new] {
            from.write_all(&[7; 100]).unwrap();
            to.read_exact(&mut [0; 100]).unwrap();
        }
        stamper.detach();
        hooks.flush().unwrap();
        let drainer = hooks.drainer().unwrap();
        drainer.drain(usize::MAX, || ());
        let rows = drainer.take().rows;
        assert!(
            rows.sent_messages.bytes.contains(&100) && rows.received_messages.bytes.contains(&100)
        );
        assert!(
            rows.received_messages
                .nic_phc_ns
                .iter()
                .all(Option::is_none)
        );
        assert_eq!(stamper.counts(), NicCounts::default());
    }
}
