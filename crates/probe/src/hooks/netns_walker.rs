//! A thread that runs iterators over sockets in other network namespaces. It alone keeps the capabilities to enter them;
//! the thread that asks for walks can drop all of its own.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};

use nix::time::ClockId;

use crate::clock::read_ns;
use crate::helper::{forbid_more_capabilities, keep_capabilities};
use crate::interface::HooksError;
use crate::iterator::run_iterator;
use crate::netns::{self, Found, Netns};
use crate::privileges::Capability;

/// Objects of walks, in errors.
const WHAT: &str = "sockets of network namespaces";

/// How walks go over network namespaces.
#[derive(Debug, Default)]
pub(super) struct NetnsWalks {
    /// They do.
    pub(super) is_used: bool,
    /// The thread that enters them, from when hooks are attached.
    pub(super) walker: OnceCell<NetnsWalker>,
}

impl NetnsWalks {
    /// Makes what walks keep, whether they are over namespaces or not.
    pub(super) fn new(is_used: bool) -> Self {
        Self {
            is_used,
            ..Self::default()
        }
    }

    /// Starts the thread that enters namespaces, if one is needed.
    pub(super) fn start(&self) -> Result<(), HooksError> {
        if self.is_used && self.walker.get().is_none() {
            let started =
                NetnsWalker::start().map_err(|error| HooksError::Read { what: WHAT, error })?;
            let _ = self.walker.set(started);
        }
        Ok(())
    }
}

/// Capabilities of the thread: for setns(2), and for /proc/PID/ns/net of other users.
const KEPT: [Capability; 2] = [Capability::SysAdmin, Capability::SysPtrace];

/// A walk that is asked for.
struct Walk {
    link: OwnedFd,
    /// Namespaces, by inode number.
    netns: Vec<u32>,
    done: Sender<io::Result<WalkResult>>,
}

/// A walk that was done.
struct WalkResult {
    /// Namespaces to which nothing leads any more.
    gone: Vec<u32>,
    /// CPU time of the thread so far.
    cpu_ns: u64,
}

/// The thread, which ends with this.
#[derive(Debug)]
pub(super) struct NetnsWalker {
    walks: Sender<Walk>,
    cpu_ns: Cell<u64>,
}

impl NetnsWalker {
    /// Starts the thread, with those of the needed capabilities that the calling thread has.
    pub(super) fn start() -> io::Result<Self> {
        let (walks, asked) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let serve = move || {
            let bits = KEPT.iter().fold(0, |bits, it| bits | 1 << it.bit());
            let reduced = forbid_more_capabilities().and_then(|()| keep_capabilities(bits));
            let is_reduced = reduced.is_ok();
            if ready.send(reduced).is_ok() && is_reduced {
                serve(&asked);
            }
        };
        std::thread::Builder::new()
            .name("netns-walks".to_owned())
            .spawn(serve)?;
        is_ready.recv().unwrap_or_else(|_| Err(ended()))?;
        Ok(Self {
            walks,
            cpu_ns: Cell::new(0),
        })
    }

    /// Runs an iterator in each of these network namespaces; returns those to which nothing leads any more. Leaves out
    /// those that may not be entered.
    pub(super) fn walk(&self, link: BorrowedFd<'_>, netns: Vec<u32>) -> io::Result<Vec<u32>> {
        let (done, is_done) = mpsc::channel();
        let link = link.try_clone_to_owned()?;
        let walk = Walk { link, netns, done };
        self.walks.send(walk).map_err(|_| ended())?;
        let walked = is_done.recv().unwrap_or_else(|_| Err(ended()))?;
        self.cpu_ns.set(walked.cpu_ns);
        Ok(walked.gone)
    }

    /// Returns the CPU time of the thread so far, ns.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.cpu_ns.get()
    }
}

/// Returns the error of a thread that is there no more.
fn ended() -> io::Error {
    io::Error::other("the thread that walks network namespaces has ended")
}

/// Does walks until nobody can ask for one.
fn serve(asked: &Receiver<Walk>) {
    let mut known = KnownNetns {
        paths: HashMap::new(),
        here: Netns::current().ok().map(|it| it.inode()),
    };
    for walk in asked {
        // who asked may have ended meanwhile
        let _ = walk.done.send(known.walk(&walk).map(|gone| WalkResult {
            gone,
            cpu_ns: thread_cpu_ns(),
        }));
    }
}

/// Returns the CPU time of the calling thread, ns.
fn thread_cpu_ns() -> u64 {
    // every kernel has this clock for the thread that asks
    let time_ns = read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0);
    u64::try_from(time_ns).unwrap_or(0)
}

/// The namespaces that the thread knows.
struct KnownNetns {
    /// Files of those that were walked, by inode number. They are not open, which would keep the namespaces.
    paths: HashMap<u32, PathBuf>,
    /// The one in which the thread is.
    here: Option<u32>,
}

impl KnownNetns {
    /// Walks each namespace; returns those to which nothing leads.
    fn walk(&mut self, walk: &Walk) -> io::Result<Vec<u32>> {
        let mut found = None;
        let mut gone = Vec::new();
        for &inode in &walk.netns {
            let Some(netns) = self.open(inode, &mut found) else {
                gone.push(inode);
                continue;
            };
            if self.is_entered(&netns)? {
                run_iterator(walk.link.as_fd())?;
            }
        }
        Ok(gone)
    }

    /// Enters a namespace; returns whether the thread is in it: it may not be allowed.
    fn is_entered(&mut self, netns: &Netns) -> io::Result<bool> {
        if self.here == Some(netns.inode()) {
            return Ok(true);
        }
        match netns.enter() {
            Ok(()) => {
                self.here = Some(netns.inode());
                Ok(true)
            }
            Err(error) if error.is_permission() => Ok(false),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Opens a namespace; `None`: no process and no mount leads to it. `found`: what the search of this walk found.
    fn open(&mut self, inode: u32, found: &mut Option<Found>) -> Option<Netns> {
        let open = |path: &PathBuf| Netns::open(path).ok().filter(|it| it.inode() == inode);
        if let Some(netns) = self.paths.get(&inode).and_then(open) {
            return Some(netns);
        }
        self.paths.remove(&inode);
        let found = found.get_or_insert_with(|| netns::discover().unwrap_or_default());
        let path = found.paths.get(&inode)?;
        let netns = open(path)?;
        self.paths.insert(inode, path.clone());
        Some(netns)
    }
}
