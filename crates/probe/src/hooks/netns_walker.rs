//! A thread that runs iterators over sockets in other network namespaces. It alone keeps the capabilities to enter them;
//! the thread that asks for walks can drop all of its own.
//!
//! Between walks it is in the namespace of the process, and has no other one open: it keeps none that ends.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::clock::{monotonic_ns, thread_cpu_ns};
use crate::helper::{forbid_more_capabilities, keep_capabilities};
use crate::interface::HooksError;
use crate::iterator::run_iterator;
use crate::netns::{self, Netns};
use crate::privileges::{Capability, Privileges};

/// Objects of walks, in errors.
const WHAT: &str = "sockets of network namespaces";

/// Capabilities of the thread: to create iterators, where the kernel demands it; for setns(2); and for /proc/PID/ns/net
/// of other users.
const KEPT: [Capability; 3] = [Capability::Bpf, Capability::SysAdmin, Capability::SysPtrace];

/// While the thread walks, its scheduling policy is that of who waits for it, after this time at most: a tenth of the
/// time within which a recorder's watchdog raises one.
const POLICY_WITHIN: Duration = Duration::from_millis(10);

/// A search for namespaces that the last one did not find comes so many times its own CPU time later: 0.5 % of a CPU, as
/// a recording may take for a walk.
const SEARCH_PAUSE_FACTOR: u64 = 200;

/// How walks go over network namespaces.
#[derive(Debug, Default)]
pub(super) struct NetnsWalks {
    /// They do.
    pub(super) is_used: bool,
    /// The only namespace with recorded sockets, by inode number; `None`: any may have some.
    only: Option<u32>,
    /// The thread that enters them, from when hooks are attached.
    walker: OnceCell<NetnsWalker>,
    unentered: RefCell<UnenteredNetns>,
}

/// Namespaces with recorded sockets that were not entered, by inode number.
#[derive(Debug, Default)]
struct UnenteredNetns {
    /// At the last walk.
    last: BTreeSet<u32>,
    /// At any walk.
    all: BTreeSet<u32>,
}

impl NetnsWalks {
    /// Makes what walks keep, whether they are over namespaces or not. `only`: one alone has recorded sockets.
    pub(super) fn new(is_used: bool, only: Option<u32>) -> Self {
        Self {
            is_used,
            only,
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

    /// Returns the thread, if there is one.
    pub(super) fn walker(&self) -> Option<&NetnsWalker> {
        self.walker.get()
    }

    /// Returns whether walks are over one namespace, though others may have recorded sockets.
    pub(super) fn are_limited(&self) -> bool {
        let walker = self.walker.get();
        walker.is_some_and(|it| !it.has_right && self.only != Some(it.own))
    }

    /// Notes the namespaces that a walk has not entered.
    pub(super) fn note_unentered(&self, netns: Vec<u32>) {
        let mut unentered = self.unentered.borrow_mut();
        unentered.all.extend(&netns);
        unentered.last = netns.into_iter().collect();
    }

    /// Returns the namespaces that the last walk has not entered.
    pub(super) fn last_unentered(&self) -> BTreeSet<u32> {
        self.unentered.borrow().last.clone()
    }

    /// Returns the namespaces that some walk has not entered.
    pub(super) fn all_unentered(&self) -> BTreeSet<u32> {
        self.unentered.borrow().all.clone()
    }
}

/// A walk that is asked for.
struct Walk {
    link: OwnedFd,
    /// Namespaces, by inode number.
    netns: Vec<u32>,
    done: Sender<io::Result<WalkResult>>,
}

/// A walk that was done.
struct WalkResult {
    /// Namespaces that were not entered: nothing leads there, or the thread is not allowed to.
    unentered: Vec<u32>,
    /// CPU time of the thread so far.
    cpu_ns: u64,
}

/// The thread, which ends with this.
#[derive(Debug)]
pub(super) struct NetnsWalker {
    walks: Sender<Walk>,
    tid: libc::pid_t,
    /// The namespace of the process.
    own: u32,
    /// The thread may enter others.
    has_right: bool,
    policy: Cell<libc::c_int>,
    cpu_ns: Cell<u64>,
}

impl NetnsWalker {
    /// Starts the thread, with those of the needed capabilities that the calling thread has.
    pub(super) fn start() -> io::Result<Self> {
        let (walks, asked) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let serve = move || match KnownNetns::begin() {
            Ok(known) => {
                let tid = nix::unistd::gettid().as_raw();
                if ready.send(Ok((tid, known.own.inode()))).is_ok() {
                    serve(known, &asked);
                }
            }
            // who asked waits for it
            Err(error) => drop(ready.send(Err(error))),
        };
        std::thread::Builder::new()
            .name("netns-walks".to_owned())
            .spawn(serve)?;
        let (tid, own) = is_ready.recv().unwrap_or_else(|_| Err(make_end_error()))?;
        Ok(Self {
            walks,
            tid,
            own,
            has_right: Privileges::read().has_capability(Capability::SysAdmin),
            policy: Cell::new(read_policy()),
            cpu_ns: Cell::new(0),
        })
    }

    /// Runs an iterator in each of these network namespaces; returns those that it could not enter.
    pub(super) fn walk(&self, link: BorrowedFd<'_>, netns: Vec<u32>) -> io::Result<Vec<u32>> {
        let (done, is_done) = mpsc::channel();
        let link = link.try_clone_to_owned()?;
        self.match_policy();
        let walk = Walk { link, netns, done };
        self.walks.send(walk).map_err(|_| make_end_error())?;
        loop {
            match is_done.recv_timeout(POLICY_WITHIN) {
                Ok(walked) => {
                    let WalkResult { unentered, cpu_ns } = walked?;
                    self.cpu_ns.set(cpu_ns);
                    return Ok(unentered);
                }
                // another thread may have raised this one meanwhile
                Err(RecvTimeoutError::Timeout) => self.match_policy(),
                Err(RecvTimeoutError::Disconnected) => return Err(make_end_error()),
            }
        }
    }

    /// Gives the thread the scheduling policy of the calling one; ignores a failure.
    fn match_policy(&self) {
        let policy = read_policy();
        if policy == self.policy.get() {
            return;
        }
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the parameters live through the call, which keeps no pointer to them.
        let code = unsafe { libc::sched_setscheduler(self.tid, policy, &raw const parameters) };
        if code == 0 {
            self.policy.set(policy);
        }
    }

    /// Returns the CPU time of the thread so far, ns.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.cpu_ns.get()
    }

    /// Returns the file of the namespace in which the thread is.
    #[cfg(test)]
    pub(super) fn netns_file(&self) -> PathBuf {
        format!("/proc/self/task/{}/ns/net", self.tid).into()
    }
}

/// Returns the scheduling policy of the calling thread.
fn read_policy() -> libc::c_int {
    // SAFETY: the call takes a number: the calling thread.
    unsafe { libc::sched_getscheduler(0) }
}

/// Makes the error of a thread that is there no more.
fn make_end_error() -> io::Error {
    io::Error::other("the thread that walks network namespaces has ended")
}

/// Does walks until nobody can ask for one.
fn serve(mut known: KnownNetns, asked: &Receiver<Walk>) {
    for walk in asked {
        // who asked may have ended meanwhile
        let _ = walk
            .done
            .send(known.walk(&walk).map(|unentered| WalkResult {
                unentered,
                cpu_ns: thread_cpu_ns(),
            }));
    }
}

/// The namespaces that the thread knows.
struct KnownNetns {
    /// That of the process, in which the thread is between walks.
    own: Netns,
    /// Files of those that a search found, by inode number. They are not open, which would keep the namespaces.
    paths: HashMap<u32, PathBuf>,
    /// Those that the last search did not find.
    missing: HashSet<u32>,
    /// When these are searched again, `CLOCK_MONOTONIC` ns.
    next_search_ns: u64,
}

impl KnownNetns {
    /// Drops the capabilities that the calling thread does not need, and opens its namespace.
    fn begin() -> io::Result<Self> {
        let own = Netns::current().map_err(io::Error::other)?;
        let bits = KEPT.iter().fold(0, |bits, it| bits | 1 << it.bit());
        forbid_more_capabilities().and_then(|()| keep_capabilities(bits))?;
        Ok(Self {
            own,
            paths: HashMap::new(),
            missing: HashSet::new(),
            next_search_ns: 0,
        })
    }

    /// Walks each namespace, and returns to that of the process; returns those that were not entered.
    fn walk(&mut self, walk: &Walk) -> io::Result<Vec<u32>> {
        let mut here = self.own.inode();
        let walked = self.walk_each(walk, &mut here);
        if here != self.own.inode() {
            self.own.enter().map_err(io::Error::other)?;
        }
        walked
    }

    /// Walks each namespace; returns those that were not entered. `here`: that in which the thread is.
    fn walk_each(&mut self, walk: &Walk, here: &mut u32) -> io::Result<Vec<u32>> {
        let mut has_searched = false;
        let mut unentered = Vec::new();
        for &inode in &walk.netns {
            let is_entered = if *here == inode {
                true
            } else if inode == self.own.inode() {
                try_enter(&self.own)?
            } else if let Some(netns) = self.open(inode, &mut has_searched) {
                try_enter(&netns)?
            } else {
                false
            };
            if is_entered {
                *here = inode;
                run_iterator(walk.link.as_fd())?;
            } else {
                unentered.push(inode);
            }
        }
        Ok(unentered)
    }

    /// Opens a namespace; `None`: no process and no mount leads to it. `has_searched`: this walk has.
    fn open(&mut self, inode: u32, has_searched: &mut bool) -> Option<Netns> {
        if let Some(netns) = self.open_known(inode) {
            return Some(netns);
        }
        let may_search = !self.missing.contains(&inode) || monotonic_ns() >= self.next_search_ns;
        if may_search && !*has_searched {
            self.search();
            *has_searched = true;
        }
        let netns = self.open_known(inode);
        if netns.is_none() {
            self.missing.insert(inode);
        }
        netns
    }

    /// Opens a namespace by its file, if that is known and still leads there.
    fn open_known(&self, inode: u32) -> Option<Netns> {
        let netns = Netns::open(self.paths.get(&inode)?).ok()?;
        (netns.inode() == inode).then_some(netns)
    }

    /// Searches all namespaces. One in which the thread itself is does not count: it would never end.
    fn search(&mut self) {
        let before_ns = thread_cpu_ns();
        let found = netns::discover_by_processes().unwrap_or_default();
        self.paths = found.paths;
        self.missing.clear();
        let took_ns = thread_cpu_ns().saturating_sub(before_ns);
        self.next_search_ns = monotonic_ns() + took_ns.saturating_mul(SEARCH_PAUSE_FACTOR);
    }
}

/// Enters a namespace; returns whether that is allowed.
fn try_enter(netns: &Netns) -> io::Result<bool> {
    match netns.enter() {
        Ok(()) => Ok(true),
        Err(error) if error.is_permission() => Ok(false),
        Err(error) => Err(io::Error::other(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_of_the_own_namespace_need_no_right() {
        let own = Netns::current().unwrap().inode();
        for (has_right, only, is_limited) in [
            (true, None, false),
            (false, None, true),
            (false, Some(own), false),
            (false, Some(own + 1), true),
        ] {
            let walks = NetnsWalks::new(true, only);
            let walker = NetnsWalker {
                has_right,
                ..NetnsWalker::start().unwrap()
            };
            walks.walker.set(walker).unwrap();
            assert_eq!(walks.are_limited(), is_limited);
        }
    }

    /// Another thread has idle priority, too, while this one has it.
    #[test]
    fn walker_has_the_policy_of_who_waits() {
        let run = || {
            let walker = NetnsWalker::start().unwrap();
            let parameters = libc::sched_param { sched_priority: 0 };
            // SAFETY: the parameters live through the call, which keeps no pointer to them.
            let code =
                unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
            assert_eq!(code, 0, "{}", io::Error::last_os_error());
            walker.match_policy();
            // SAFETY: the call takes a number.
            let policy = unsafe { libc::sched_getscheduler(walker.tid) };
            assert_eq!(policy, libc::SCHED_IDLE);
        };
        std::thread::scope(|scope| scope.spawn(run).join().unwrap());
    }
}
