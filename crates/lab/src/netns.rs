//! Network namespaces without a name.
//!
//! In: nothing. Out: a handle that keeps a fresh namespace alive, runs commands in it
//! and sets its addresses, routes and sysctls. The handle is an open file descriptor
//! and nothing else (no pin under /run/netns), so the kernel removes the namespace when
//! its last holder dies, SIGKILL included. Every step runs in a thread or child that
//! has entered the namespace; the calling thread never moves.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::Signal;

use crate::error::{HINT_ROOT, LabError};

const HINT_IPROUTE: &str = "install iproute2: apt-get install iproute2";
const THREAD_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// An open network namespace. Clones share it; the last one to go closes it.
#[derive(Debug, Clone)]
pub struct Netns {
    fd: Arc<OwnedFd>,
    inode: u64,
}

impl Netns {
    /// Makes an empty namespace with its loopback device up.
    ///
    /// # Errors
    /// Without `CAP_SYS_ADMIN`, or when iproute2 is missing.
    pub fn new() -> Result<Netns, LabError> {
        let outside = fs::metadata(THREAD_NAMESPACE)
            .map(|meta| meta.ino())
            .unwrap_or(0);
        let file = in_new_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|why| LabError::os("make", "a network namespace", why, HINT_ROOT))?;
            File::open(THREAD_NAMESPACE)
                .map_err(|why| LabError::os("open", THREAD_NAMESPACE, why, "mount /proc"))
        })??;
        let inode = inode_of(&file)?;
        if inode == outside {
            // Cannot happen after unshare; checked because all that follows configures
            // whatever namespace this is.
            let why = std::io::Error::other("the new namespace is the caller's own");
            return Err(LabError::os(
                "leave",
                "the caller's namespace",
                why,
                HINT_ROOT,
            ));
        }
        let netns = Netns {
            fd: Arc::new(file.into()),
            inode,
        };
        netns.run_ip("link set lo up")?;
        Ok(netns)
    }

    /// Returns the inode number that `/proc/PID/ns/net` shows for processes in this namespace.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Returns the path by which other programs can enter while this process lives:
    /// `nsenter --net=PATH`.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.fd.as_raw_fd()
        ))
    }

    /// Returns a command that will run in this namespace. Everything else is inherited.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let fd = Arc::clone(&self.fd);
        let mut command = Command::new(program);
        // SAFETY: the closure runs between fork and exec; setns is a plain system call,
        // allocates nothing and takes no lock, and the descriptor is kept open by `fd`.
        unsafe {
            command.pre_exec(move || Ok(setns(&*fd, CloneFlags::CLONE_NEWNET)?));
        }
        command
    }

    /// Calls `work` in a thread that has entered this namespace, and waits for it.
    /// Sockets and devices that it opens belong to the namespace for good.
    ///
    /// # Errors
    /// When the thread cannot be started or may not enter.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        in_new_thread(|| {
            setns(&*self.fd, CloneFlags::CLONE_NEWNET)
                .map_err(|why| LabError::os("enter", "the network namespace", why, HINT_ROOT))?;
            Ok(work())
        })?
    }

    /// Runs `ip ARGUMENTS` in the namespace and returns its output. White space separates `arguments`.
    ///
    /// # Errors
    /// When `ip` is missing or refuses.
    pub fn run_ip(&self, arguments: &str) -> Result<String, LabError> {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let refused = "run `ip addr` and `ip route` in the namespace to see its state";
        self.run_setup("ip", &words, (HINT_IPROUTE, refused))
    }

    /// Runs `nft RULES` in the namespace: commands of the firewall, separated by semicolons.
    ///
    /// # Errors
    /// When `nft` is missing or refuses.
    pub fn nft(&self, rules: &str) -> Result<(), LabError> {
        let refused = "load nf_tables, and see nft(8) for the rule";
        let missing = "install nftables: apt-get install nftables";
        self.run_setup("nft", &[rules], (missing, refused))
            .map(drop)
    }

    /// Runs a program that changes the setup, and returns its output. Errors have a hint: the program is missing, or
    /// it refuses.
    fn run_setup(
        &self,
        program: &str,
        words: &[&str],
        (missing, refused): (&'static str, &'static str),
    ) -> Result<String, LabError> {
        let whole = format!("{program} {}", words.join(" "));
        let output = self.command(program).args(words).output();
        let output = output.map_err(|why| LabError::os("run", &whole, why, missing))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(LabError::Command {
            command: whole,
            detail: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            hint: refused,
        })
    }

    /// Sets a sysctl of this namespace, for example `net.ipv4.tcp_rmem`. Sysctls that
    /// are not per namespace do not exist or are read-only in it, so the host's are
    /// out of reach.
    ///
    /// # Errors
    /// For names outside `net.`, and when the kernel refuses.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<(), LabError> {
        let path = sysctl_path(name)?;
        let hint = "only sysctls that exist per network namespace can be set here";
        self.run(|| fs::write(&path, value))?
            .map_err(|why| LabError::os("set", format!("{name} to {value:?}"), why, hint))
    }

    /// Makes `congctl` (`cubic`, `bbr`, `reno`) the congestion control of every route of
    /// this namespace, loopback included. Programs need no change and connections that
    /// are already open keep theirs. (The namespace's sysctl is no way: it refuses
    /// algorithms that are not marked as unrestricted.)
    ///
    /// # Errors
    /// When the kernel does not have the algorithm.
    pub fn set_congctl(&self, congctl: &str) -> Result<(), LabError> {
        for family in ["-4", "-6"] {
            for table in ["main", "local"] {
                let routes = self.run_ip(&format!("{family} route show table {table}"))?;
                for route in routes.lines().filter_map(replaceable_route) {
                    self.replace_route(family, table, &route, congctl)?;
                }
            }
        }
        Ok(())
    }

    /// Replaces one route by itself with a congestion control.
    fn replace_route(
        &self,
        family: &str,
        table: &str,
        route: &str,
        congctl: &str,
    ) -> Result<(), LabError> {
        // The kernel's own IPv6 local routes have metric 0, which no request can name (0
        // asks for the default, 1024): the new route is added, and the old one removed.
        let unnameable = route.contains(" metric 0");
        let wanted = route.replace(" metric 0", "");
        self.run_ip(&format!(
            "{family} route replace {wanted} table {table} congctl {congctl}"
        ))?;
        if unnameable {
            self.run_ip(&format!("{family} route del {route} table {table}"))?;
        }
        Ok(())
    }

    /// Names of the network devices in the namespace.
    ///
    /// # Errors
    /// When the namespace cannot be entered or /proc not be read.
    pub fn devices(&self) -> Result<Vec<String>, LabError> {
        Ok(self
            .device_lines()?
            .into_iter()
            .map(|(name, _)| name)
            .collect())
    }

    /// Returns packets that the kernel dropped before `device` could send them.
    pub(crate) fn transmit_drops(&self, device: &str) -> Option<u64> {
        // /proc/net/dev: eight receive columns, then bytes, packets, errs, drop of transmit.
        const TRANSMIT_DROP: usize = 11;
        let lines = self.device_lines().ok()?;
        let (_, columns) = lines.into_iter().find(|(name, _)| name == device)?;
        columns.get(TRANSMIT_DROP).copied()
    }

    /// Returns the devices of `/proc/net/dev` with their counters.
    fn device_lines(&self) -> Result<Vec<(String, Vec<u64>)>, LabError> {
        const PATH: &str = "/proc/thread-self/net/dev";
        let text = self
            .run(|| fs::read_to_string(PATH))?
            .map_err(|why| LabError::os("read", PATH, why, "mount /proc"))?;
        Ok(text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, rest)| {
                let columns = rest.split_whitespace().filter_map(|cell| cell.parse().ok());
                (name.trim().to_owned(), columns.collect())
            })
            .collect())
    }
}

impl TryFrom<File> for Netns {
    type Error = LabError;

    /// Takes over an open namespace file, such as [`Netns::path`] of another process.
    fn try_from(file: File) -> Result<Self, LabError> {
        let inode = inode_of(&file)?;
        Ok(Netns {
            fd: Arc::new(file.into()),
            inode,
        })
    }
}

/// Lets the kernel kill the command's process when its parent dies, so that a killed
/// test leaves no child. The kernel means the parent **thread**: spawn from a thread
/// that lives as long as the child should.
pub fn tie_to_parent(command: &mut Command) -> &mut Command {
    // SAFETY: the closure runs between fork and exec; prctl is a plain system call that
    // allocates nothing and takes no lock.
    unsafe { command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?)) }
}

/// Returns a route in the form that `ip route replace` reads. `None`: the route carries no TCP connections
/// (multicast, broadcast). Flags that `ip` prints but does not read are left out.
fn replaceable_route(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let skipped = ["broadcast", "multicast", "anycast", "unreachable"];
    if words.first().is_none_or(|first| skipped.contains(first)) || line.contains("fe80:") {
        return None;
    }
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word {
            "congctl" => drop(words.next()),
            "linkdown" | "dead" | "onlink" => {}
            other => kept.push(other),
        }
    }
    Some(kept.join(" "))
}

/// Returns the file of a setting; an error if the name is not valid.
fn sysctl_path(name: &str) -> Result<PathBuf, LabError> {
    if !name.starts_with("net.") || name.contains("..") || name.contains('/') {
        return Err(LabError::Option {
            option: "sysctl",
            value: name.to_owned(),
            why: "only names under net. belong to a network namespace",
            hint: "write it with dots, for example net.ipv4.tcp_rmem",
        });
    }
    Ok(PathBuf::from("/proc/sys").join(name.replace('.', "/")))
}

/// Returns the inode of a namespace file.
fn inode_of(file: &File) -> Result<u64, LabError> {
    let meta = file.metadata();
    meta.map(|meta| meta.ino())
        .map_err(|why| LabError::os("stat", THREAD_NAMESPACE, why, "mount /proc"))
}

/// Calls `work` in a new thread, which may enter a namespace for good.
fn in_new_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    thread::scope(|scope| {
        let handle = thread::Builder::new()
            .name("lab-netns".into())
            .spawn_scoped(scope, work)
            .map_err(|why| LabError::os("start", "a thread", why, "free memory or threads"))?;
        handle
            .join()
            .or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_routes_omit_refused_attributes() {
        let line = "10.77.0.0/30 dev wire0 proto kernel scope link src 10.77.0.1 congctl cubic";
        assert_eq!(
            replaceable_route(line).as_deref(),
            Some("10.77.0.0/30 dev wire0 proto kernel scope link src 10.77.0.1")
        );
        assert_eq!(
            replaceable_route("multicast ff00::/8 dev wire0 proto kernel"),
            None
        );
        assert_eq!(replaceable_route(""), None);
    }

    #[test]
    fn sysctls_outside_net_are_refused() {
        assert!(sysctl_path("net.ipv4.tcp_rmem").is_ok());
        for name in [
            "kernel.pid_max",
            "net...kernel.pid_max",
            "net/../kernel/pid_max",
        ] {
            let message = sysctl_path(name)
                .map(|_| String::new())
                .unwrap_or_else(|e| e.to_string());
            assert!(message.contains("hint:"), "{name} was accepted");
        }
    }
}
