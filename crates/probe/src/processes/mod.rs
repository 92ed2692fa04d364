//! Processes from `/proc`. In: pids, command names, cgroup paths, as the user gives them. Out:
//! rows of `processes` ([`ProcessReader`]; what the kernel side shows is [`ObservedProcess`]), the owner of a socket file
//! ([`SocketOwners`]), and
//! the pids or cgroups that a target means ([`pids_by_comm`], [`check_pid`], [`families`],
//! [`Cgroup`], [`find_container`], [`find_pod`]).
//!
//! Needs no BPF. Processes come and go while `/proc` is read: one that is gone is left out,
//! never an error, unless the user named it.

mod cgroup;
mod containers;
mod facts;
mod owners;
mod seen;
mod target;

use std::sync::OnceLock;

pub use crate::interface::ObservedProcess;
pub(crate) use cgroup::cgroup2_root;
pub use cgroup::{Cgroup, CgroupError};
pub use containers::{
    Container, ContainerError, ContainerNames, ContainerPlace, Members, Pod, PodError, Runtime,
    Silence, SilentRuntime, Workload, find_container, find_pod, pod_uid,
};
pub use facts::{ProcessReader, USER_TICK_NS};
pub use owners::{Owners, SocketOwners};
pub(crate) use seen::Processes;
pub use target::{TargetError, check_pid, families, pids_by_comm, pids_of_uid};

use table::manifest::{Coverage, ProbeState};

/// Inode number of the initial pid namespace (`PROC_PID_INIT_INO`).
const INITIAL_PID_NAMESPACE: u64 = 0xefff_fffc;

/// Returns whether this process is in the initial pid namespace; `None` if unknown.
pub(crate) fn is_initial_pid_namespace() -> Option<bool> {
    use std::os::unix::fs::MetadataExt as _;
    // a process stays in the one that it began in (setns(2): it is its children that go elsewhere)
    static ANSWER: OnceLock<Option<bool>> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let namespace = std::fs::metadata("/proc/self/ns/pid").ok()?;
        Some(namespace.ino() == INITIAL_PID_NAMESPACE)
    })
}

/// Returns whether this process sees all processes of the host, with the kernel's ids.
pub fn sees_all() -> bool {
    is_initial_pid_namespace() == Some(true)
}

/// Name of [`coverage`] among probes.
pub const PIDS: &str = "pids";

/// Returns the coverage line of process ids: they must be the kernel's own.
pub fn coverage() -> Coverage {
    let state = match is_initial_pid_namespace() {
        Some(false) => ProbeState::Off {
            why: "process ids here are of a pid namespace of its own, and those that are recorded are the host's: whylat \
                  run and -p record nothing; the owner of others' connections has the name that the kernel knows, and \
                  nothing else is known of it"
                .to_owned(),
            remedy: "record from the host, or share its process ids: --pid=host for a container"
                .to_owned(),
        },
        _ => ProbeState::On,
    };
    Coverage {
        probe: PIDS.to_owned(),
        state,
    }
}

/// Returns the pids of all processes that `/proc` shows now, in no order.
pub fn all_pids() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Returns whether a process is a program: threads of the kernel have no file that they execute, and what has exited
/// has none any more.
pub fn is_program(pid: u32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

#[cfg(test)]
mod testing {
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};

    /// Starts a copy of `cat` and waits until it answers: only then is its command name set,
    /// which `execve` does after it has let the parent go on.
    pub fn start_cat(command: &mut Command) -> Child {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    /// Ends the child process.
    pub fn stop(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
