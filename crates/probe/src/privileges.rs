//! Describes what this process may do, as far as probes need it, and what to do about what it may not: each capability has a
//! remedy of its own. In: `/proc/self`, `/sys/kernel/security`. Out: text for coverage.

use std::fs;

use crate::processes;

/// A capability that a probe needs, or the names of what it found. `CAP_SYS_ADMIN` means each of the first
/// three, too; not for those of names, as recorders do not keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// To load programs and maps.
    Bpf,
    /// To attach programs to tracepoints and functions, and to open counters of CPUs.
    Perfmon,
    /// To attach programs that see sockets being made, and to ask adapters for stamps.
    NetAdmin,
    /// To read the memory maps and descriptors of other users' processes.
    SysPtrace,
    /// To enter other network namespaces, and to make some.
    SysAdmin,
    /// To read files and directories that are private to other users: what holds names of functions.
    DacReadSearch,
    /// To be shown addresses of the kernel.
    Syslog,
    /// To open the files that memory is mapped from.
    CheckpointRestore,
}

impl Capability {
    /// All privileges.
    pub const ALL: [Self; 8] = [
        Self::Bpf,
        Self::Perfmon,
        Self::NetAdmin,
        Self::SysPtrace,
        Self::SysAdmin,
        Self::DacReadSearch,
        Self::Syslog,
        Self::CheckpointRestore,
    ];

    /// Capabilities that setcap gives a program of an ordinary user: those that probes need. Not what is as good as
    /// root in the hands of whoever may run the program.
    const GIVEN: [Self; 4] = [Self::Bpf, Self::Perfmon, Self::NetAdmin, Self::SysPtrace];

    /// Returns the capability's name in capabilities(7).
    pub fn name(self) -> &'static str {
        match self {
            Self::Bpf => "CAP_BPF",
            Self::Perfmon => "CAP_PERFMON",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::Syslog => "CAP_SYSLOG",
            Self::CheckpointRestore => "CAP_CHECKPOINT_RESTORE",
        }
    }

    /// Returns the capability's number in `linux/capability.h`.
    pub(crate) fn bit(self) -> u32 {
        match self {
            Self::Bpf => 39,
            Self::Perfmon => 38,
            Self::NetAdmin => 12,
            Self::SysPtrace => 19,
            Self::SysAdmin => 21,
            Self::DacReadSearch => 2,
            Self::Syslog => 34,
            Self::CheckpointRestore => 40,
        }
    }

    /// Returns whether CAP_SYS_ADMIN includes the capability (`bpf_capable`, `perfmon_capable` and
    /// `bpf_net_capable`).
    fn is_in_sys_admin(self) -> bool {
        matches!(self, Self::Bpf | Self::Perfmon | Self::NetAdmin)
    }
}

/// Privileges of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Privileges {
    /// Effective user id.
    pub user_id: u32,
    /// `CapEff` of `/proc/self/status`.
    effective: u64,
    /// Capabilities hold in a user namespace of its own only, not for the kernel as a whole.
    pub is_in_user_namespace: bool,
    /// Process ids here are not those of the kernel as a whole.
    pub is_in_pid_namespace: bool,
    /// A seccomp filter is in force.
    pub is_filtered: bool,
    /// The kernel's lockdown mode; `None`: it has none, or does not say.
    pub lockdown: Option<String>,
}

/// `uid_map` of the initial user namespace: every id is itself.
const ALL_IDS: [&str; 3] = ["0", "0", "4294967295"];

impl Privileges {
    /// Reads the rights of this process; an unreadable right counts as not held.
    pub fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let mut lines = status.lines();
            lines
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        let hex = field("CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let ids = fs::read_to_string("/proc/self/uid_map");
        let lockdown = fs::read_to_string("/sys/kernel/security/lockdown");
        Self {
            user_id: nix::unistd::geteuid().as_raw(),
            effective: hex.unwrap_or(0),
            is_in_user_namespace: ids.is_ok_and(|ids| ids.split_whitespace().ne(ALL_IDS)),
            is_in_pid_namespace: processes::is_initial_pid_namespace() == Some(false),
            is_filtered: field("Seccomp:") == Some("2"),
            lockdown: lockdown.ok().and_then(|modes| chosen_mode(&modes)),
        }
    }

    /// Returns whether the process has a capability.
    pub fn has_capability(&self, capability: Capability) -> bool {
        let has = |capability: Capability| self.effective >> capability.bit() & 1 == 1;
        has(capability) || capability.is_in_sys_admin() && has(Capability::SysAdmin)
    }

    /// Returns what helps if the kernel does not permit what needs all of `needs`.
    pub fn remedy(&self, needs: &[Capability]) -> String {
        let lacks = needs.iter().copied().find(|it| !self.has_capability(*it));
        match lacks {
            Some(capability) if self.user_id != 0 && !Capability::GIVEN.contains(&capability) => {
                "run as root: sudo whylat …".to_owned()
            }
            Some(capability) if self.user_id != 0 => format!(
                "run as root: sudo whylat …; or let this program have {} and what else it needs: sudo setcap {}+ep {}",
                capability.name(),
                setcap_names(),
                program()
            ),
            Some(capability) => format!(
                "give {name} to this root: --cap-add={short} for a container, CapabilityBoundingSet={name} for a service",
                name = capability.name(),
                short = capability.name().trim_start_matches("CAP_"),
            ),
            None if self.is_in_user_namespace => {
                "run outside of this user namespace: the kernel as a whole \
                is not open to the root of a rootless container"
                    .to_owned()
            }
            None if self.lockdown.as_deref() == Some("confidentiality") => {
                "boot without lockdown=confidentiality: it forbids programs to read kernel memory"
                    .to_owned()
            }
            None if self.is_filtered => "let the container make the system call: \
                --security-opt seccomp=unconfined, or --privileged"
                .to_owned(),
            None => "ask the host's security module what it denied: dmesg, or ausearch -m avc"
                .to_owned(),
        }
    }
}

/// Returns the mode in brackets: `none [integrity] confidentiality`.
fn chosen_mode(modes: &str) -> Option<String> {
    let (_, rest) = modes.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Returns the names of needed capabilities as `setcap` writes them.
fn setcap_names() -> String {
    let names = Capability::GIVEN.map(|it| it.name().to_ascii_lowercase());
    names.join(",")
}

/// Returns the path of this program.
fn program() -> String {
    std::env::current_exe().map_or_else(|_| "whylat".to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the rights of a user who holds these capabilities.
    fn with(user_id: u32, held: &[Capability]) -> Privileges {
        Privileges {
            user_id,
            effective: held.iter().fold(0, |bits, it| bits | 1 << it.bit()),
            is_in_user_namespace: false,
            is_in_pid_namespace: false,
            is_filtered: false,
            lockdown: None,
        }
    }

    #[test]
    fn sys_admin_includes_those_that_were_split_from_it() {
        let root = with(0, &[Capability::SysAdmin]);
        let held = Capability::ALL.map(|it| root.has_capability(it));
        assert_eq!(held, [true, true, true, false, true, false, false, false]);
    }

    #[test]
    fn each_missing_privilege_has_its_own_remedy() {
        let mut remedies = Vec::new();
        for (lacking, lacks) in Capability::ALL.iter().enumerate() {
            let mut held = Capability::ALL.to_vec();
            held.remove(lacking);
            held.retain(|it| *it != Capability::SysAdmin);
            let remedy = with(0, &held).remedy(&[*lacks]);
            assert!(remedy.contains(lacks.name()), "{remedy}");
            remedies.push(remedy);
            let remedy = with(1000, &held).remedy(&[*lacks]);
            assert!(remedy.starts_with("run as root: sudo whylat …"), "{remedy}");
            // what is given is what was named
            let name = lacks.name().to_ascii_lowercase();
            let is_given = remedy.contains("sudo setcap ") && remedy.contains(&name);
            assert_eq!(is_given, Capability::GIVEN.contains(lacks), "{remedy}");
        }
        let all = with(0, &Capability::ALL);
        let changed = |change: fn(&mut Privileges)| {
            let mut privileges = all.clone();
            change(&mut privileges);
            privileges.remedy(&Capability::ALL)
        };
        remedies.push(changed(|it| it.is_in_user_namespace = true));
        remedies.push(changed(|it| {
            it.lockdown = chosen_mode("none integrity [confidentiality]\n")
        }));
        remedies.push(changed(|it| it.is_filtered = true));
        remedies.push(changed(|_| {}));
        let count = remedies.len();
        remedies.sort();
        remedies.dedup();
        assert_eq!(remedies.len(), count, "{remedies:#?}");
    }
}
