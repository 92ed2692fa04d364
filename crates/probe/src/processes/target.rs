//! The target of the user → pids. In: `-p PID`, `--comm NAME`. Out: the pids that it means
//! now, or an error that says what to look up next.

use std::collections::HashMap;

use super::all_pids;
use super::facts::{after_comm, real_uid, status_field};

/// Bytes of a command name that the kernel keeps (`TASK_COMM_LEN` - 1).
const COMM_LEN: usize = 15;

/// A target that does not exist.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No process with this pid.
    #[error("no process with pid {pid}\nhint: list processes with: ps -e")]
    NoSuchPid {
        /// As given.
        pid: u32,
    },
    /// The pid is that of a thread.
    #[error("{tid} is a thread of process {pid}, not a process\nhint: use -p {pid}")]
    Thread {
        /// As given.
        tid: u32,
        /// The thread's process.
        pid: u32,
    },
    /// The process has exited and was not yet waited for.
    #[error("process {pid} has exited already\nhint: list processes with: ps -e")]
    Exited {
        /// As given.
        pid: u32,
    },
    /// No process with this name.
    #[error(
        "no running process has the command name {name:?}\n\
         hint: list command names with: ps -e -o comm="
    )]
    NoSuchComm {
        /// As given.
        name: String,
    },
}

/// Checks that `pid` is a running process.
pub fn check_pid(pid: u32) -> Result<(), TargetError> {
    let Some(group) = status_field(pid, "Tgid:").and_then(|group| group.parse().ok()) else {
        return Err(TargetError::NoSuchPid { pid });
    };
    if group != pid {
        return Err(TargetError::Thread {
            tid: pid,
            pid: group,
        });
    }
    match status_field(pid, "State:") {
        Some(state) if !state.starts_with(['Z', 'X']) => Ok(()),
        Some(_) => Err(TargetError::Exited { pid }),
        None => Err(TargetError::NoSuchPid { pid }),
    }
}

/// Returns the processes with command name `name`, in order. A longer name is cut as the kernel cuts
/// it, so the name of the program file may be given as well.
pub fn pids_by_comm(name: &str) -> Result<Vec<u32>, TargetError> {
    let kept = &name.as_bytes()[..name.len().min(COMM_LEN)];
    let mut pids = all_pids();
    pids.retain(|pid| {
        let comm = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        comm.strip_suffix(b"\n") == Some(kept)
    });
    pids.sort_unstable();
    if pids.is_empty() {
        return Err(TargetError::NoSuchComm {
            name: name.to_owned(),
        });
    }
    Ok(pids)
}

/// Returns the processes with the real user `uid`, in order.
pub fn pids_of_uid(uid: u32) -> Vec<u32> {
    let mut pids = all_pids();
    pids.retain(|pid| real_uid(*pid) == Some(uid));
    pids.sort_unstable();
    pids
}

/// Returns these processes and all their present descendants, in order. A process with a parent that exited
/// no longer descends from it.
pub fn families(pids: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for child in all_pids() {
        if let Some(parent) = parent_of(child) {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut family: Vec<u32> = pids.into_iter().collect();
    let mut next = 0;
    while let Some(parent) = family.get(next) {
        family.extend(children.remove(parent).unwrap_or_default());
        next += 1;
    }
    family.sort_unstable();
    family.dedup();
    family
}

/// Returns the pid of a process's parent; None if the process has ended.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    after_comm(&stat)?
        .split_ascii_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{start_cat, stop};
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn running_gone_and_thread_are_distinguished() {
        assert_eq!(check_pid(std::process::id()), Ok(()));
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(check_pid(pid), Err(TargetError::NoSuchPid { pid }));
        let tid = nix::unistd::gettid().as_raw() as u32;
        let found = check_pid(tid);
        assert_eq!(
            found,
            Err(TargetError::Thread {
                tid,
                pid: std::process::id()
            })
        );
        assert!(
            found
                .unwrap_err()
                .to_string()
                .contains(&format!("-p {}", std::process::id()))
        );
    }

    #[test]
    fn an_exited_child_not_waited_for_is_not_a_target() {
        let mut child = Command::new("cat").stdin(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        // Waits for the exit and leaves the zombie in place.
        let id = nix::sys::wait::Id::Pid(nix::unistd::Pid::from_raw(pid as i32));
        let flags = nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT;
        nix::sys::wait::waitid(id, flags).unwrap();
        assert_eq!(check_pid(pid), Err(TargetError::Exited { pid }));
        child.wait().unwrap();
    }

    #[test]
    fn names_are_found_whole_and_cut() {
        let dir = tempfile::tempdir().unwrap();
        let long = "whylat-a-name-longer-than-fifteen";
        std::os::unix::fs::symlink("/bin/cat", dir.path().join(long)).unwrap();
        let child = start_cat(&mut Command::new(dir.path().join(long)));
        let pid = child.id();
        assert_eq!(pids_by_comm(long), Ok(vec![pid]));
        assert_eq!(pids_by_comm(&long[..15]), Ok(vec![pid]));
        assert!(pids_by_comm(&long[..14]).is_err());
        stop(child);
        let error = pids_by_comm(long).unwrap_err();
        assert!(error.to_string().contains(long), "{error}");
    }

    #[test]
    fn grandchildren_descend() {
        // A background command's own input is the null device, so it takes another descriptor.
        let script = "exec 3<&0; cat <&3 & echo $!; wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let grandchild: u32 = line.trim().parse().unwrap();
        let family = families([std::process::id()]);
        assert!(family.contains(&shell.id()) && family.contains(&grandchild));
        let of_shell = families([shell.id(), grandchild]);
        assert_eq!(of_shell, [shell.id(), grandchild]);
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
