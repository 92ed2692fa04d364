//! The privileges of a recorder once everything is attached and its command has started, and a watch once it is
//! attached: what its work from then on needs, and nothing else. Under sudo it goes on as the user who called sudo. The
//! recording belongs to that user.
//!
//! Identity and capabilities are each thread's own; a thread that is made later has those of its maker. So every
//! thread that was made before calls [`Privileges::assume`] itself, the last one before anything is recorded.
//! `docs/privileges.md` says what needs which.

use std::ffi::CString;
use std::io;

use caps::{CapSet, Capability, CapsHashSet};
use nix::libc;
use nix::unistd::{User, getgrouplist};
use probe::hooks::Detail;

/// Capabilities for polls of other network namespaces: setns(2), and /proc/PID/fd.
const OF_POLLS: [Capability; 2] = [Capability::CAP_SYS_ADMIN, Capability::CAP_DAC_READ_SEARCH];

/// A capability could not be dropped, or the user could not be changed.
#[derive(Debug, thiserror::Error)]
#[error("cannot drop the privileges that are not needed any more: {0}")]
pub struct PrivilegeError(io::Error);

/// Tasks that a recorder has after everything is attached.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordingTasks {
    /// The detail of what the hooks record.
    pub detail: Option<Detail>,
    /// Sockets of other network namespaces are polled: there are no hooks.
    pub polls: bool,
    /// In the end, sockets must be set so that network adapters stamp them no more.
    pub stamps: bool,
    /// A command was started, to which signals are passed on.
    pub command: bool,
}

/// Capabilities and user that a thread keeps.
#[derive(Debug, Clone, Default)]
pub struct Privileges {
    capabilities: CapsHashSet,
    user: Option<Identity>,
}

/// The user as which a thread goes on.
#[derive(Debug, Clone)]
struct Identity {
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

impl Privileges {
    /// Returns the privileges that a recording thread with these tasks needs, as this user.
    pub fn for_tasks(tasks: RecordingTasks, user: Option<&User>) -> Result<Self, PrivilegeError> {
        let mut kept = Self::for_storing(user)?;
        // the recorded process may belong to another user: its executable, cgroup, namespaces
        kept.capabilities.insert(Capability::CAP_SYS_PTRACE);
        if tasks.detail >= Some(Detail::Waits) {
            kept.capabilities.extend([
                // the files that code is mapped from (/proc/PID/map_files), whoever may read them
                Capability::CAP_CHECKPOINT_RESTORE,
                Capability::CAP_DAC_READ_SEARCH,
                // addresses in /proc/kallsyms
                Capability::CAP_SYSLOG,
            ]);
        }
        if tasks.polls {
            kept.capabilities.extend(OF_POLLS);
        }
        if tasks.stamps {
            kept.capabilities.insert(Capability::CAP_SYS_ADMIN);
        }
        if tasks.command {
            kept.capabilities.insert(Capability::CAP_KILL);
        }
        Ok(kept)
    }

    /// Returns the privileges of a live view: it reads owners of sockets, and without hooks other
    /// network namespaces.
    pub fn for_live_view(polls: bool, user: Option<&User>) -> Result<Self, PrivilegeError> {
        let mut kept = Self::none(user)?;
        kept.capabilities.insert(Capability::CAP_SYS_PTRACE);
        if polls {
            kept.capabilities.extend(OF_POLLS);
        }
        Ok(kept)
    }

    /// Returns the privileges of a thread that samples the waits of any process's threads.
    pub fn for_thread_samples(user: Option<&User>) -> Result<Self, PrivilegeError> {
        let mut kept = Self::for_live_view(false, user)?;
        // the file of a descriptor: /proc/PID/fd is its owner's
        kept.capabilities.insert(Capability::CAP_DAC_READ_SEARCH);
        Ok(kept)
    }

    /// Returns the privileges of a thread that writes a file anywhere, and does nothing else.
    pub fn for_writing() -> Self {
        Self {
            capabilities: CapsHashSet::from([Capability::CAP_DAC_OVERRIDE]),
            user: None,
        }
    }

    /// Returns the privileges of an ordinary program of this user.
    pub fn none(user: Option<&User>) -> Result<Self, PrivilegeError> {
        Ok(Self {
            capabilities: CapsHashSet::new(),
            user: user.map(Identity::from_user).transpose()?,
        })
    }

    /// Returns the privileges of an agent: some kernels demand them for every run of a program or
    /// map read.
    pub fn for_agent() -> Self {
        Self {
            capabilities: CapsHashSet::from([Capability::CAP_BPF]),
            user: None,
        }
    }

    /// Returns the privileges of a thread that writes to an existing recording.
    pub fn for_storing(user: Option<&User>) -> Result<Self, PrivilegeError> {
        // back from SCHED_IDLE
        let mut capabilities = CapsHashSet::from([Capability::CAP_SYS_NICE]);
        if user.is_some() {
            // through directories that are not this user's, to the recording
            capabilities.insert(Capability::CAP_DAC_READ_SEARCH);
        }
        Ok(Self {
            capabilities,
            user: user.map(Identity::from_user).transpose()?,
        })
    }

    /// Reduces the calling thread to these privileges, for good.
    pub fn assume(&self) -> Result<(), PrivilegeError> {
        self.reduce().map_err(PrivilegeError)
    }

    /// Gives up all rights that recording does not need, for good.
    fn reduce(&self) -> io::Result<()> {
        no_new_privileges()?;
        let has = |set| caps::read(None, set).map_err(io::Error::other);
        let permitted = has(CapSet::Permitted)?;
        let set = |set, to: &CapsHashSet| caps::set(None, set, to).map_err(io::Error::other);
        // nothing is inherited, not even by a program that root executes
        if has(CapSet::Effective)?.contains(&Capability::CAP_SETPCAP) {
            caps::clear(None, CapSet::Bounding).map_err(io::Error::other)?;
        }
        // which clears the ambient ones, too
        set(CapSet::Inheritable, &CapsHashSet::new())?;
        if let Some(user) = &self.user {
            user.assume()?;
        }
        let kept = self
            .capabilities
            .intersection(&permitted)
            .copied()
            .collect();
        set(CapSet::Effective, &kept)?;
        set(CapSet::Permitted, &kept)
    }
}

impl Identity {
    /// Takes the user's ids and groups.
    fn from_user(user: &User) -> Result<Self, PrivilegeError> {
        let name =
            CString::new(user.name.as_str()).map_err(|error| PrivilegeError(error.into()))?;
        let groups = getgrouplist(&name, user.gid).map_err(|errno| PrivilegeError(errno.into()))?;
        Ok(Self {
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            groups: groups.into_iter().map(|gid| gid.as_raw()).collect(),
        })
    }

    /// Changes the thread's user: its permitted capabilities stay, effective ones do not. The
    /// kernel's own calls: those of the C library change every thread, and would take privileges
    /// from the others that they need.
    fn assume(&self) -> io::Result<()> {
        let Self { uid, gid, groups } = self;
        call_prctl(libc::PR_SET_KEEPCAPS, 1)?;
        // SAFETY: the list lives through the call, which reads this many entries.
        let code = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
        check_code(code)?;
        // SAFETY: plain numbers.
        check_code(unsafe { libc::syscall(libc::SYS_setresgid, *gid, *gid, *gid) })?;
        // SAFETY: plain numbers.
        check_code(unsafe { libc::syscall(libc::SYS_setresuid, *uid, *uid, *uid) })?;
        call_prctl(libc::PR_SET_KEEPCAPS, 0)
    }
}

/// Takes from programs that this thread executes all rights that it does not have (setuid files).
fn no_new_privileges() -> io::Result<()> {
    call_prctl(libc::PR_SET_NO_NEW_PRIVS, 1)
}

/// Calls prctl(2) with one value.
fn call_prctl(option: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: options that take plain numbers.
    check_code(unsafe { libc::prctl(option, value, 0, 0, 0) }.into())
}

/// Turns the result of a C function into a result: 0 is success.
fn check_code(code: libc::c_long) -> io::Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
