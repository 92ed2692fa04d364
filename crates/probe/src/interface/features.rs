//! Decides which hooks this kernel has: known by the types in its BTF and by what it lets load, never by its
//! version. Where a tracepoint is missing, a function may do, at which the same is seen.

use std::collections::BTreeMap;

use table::manifest::{Coverage, ProbeState};

use super::btf::{
    BtfError, has_member, has_tracepoint, kernel_btf, parameters_of, tracepoint_parameters,
};
use super::map_iterator;
use super::mib::MibPlaces;
use super::mptcp::Mptcp;

/// The optional hooks, as found in this kernel. The program at hook X is `handle_X`.
#[derive(Debug, Default)]
pub(crate) struct Features {
    pub(crate) tracepoints: Vec<&'static str>,
    pub(crate) functions: Vec<&'static Function>,
    /// Programs at hooks that this kernel has, but which it does not let load or attach.
    pub(crate) refused: Vec<&'static str>,
    pub(crate) mib: Option<MibPlaces>,
    /// Sockets count their retransmission timeouts (Linux 6.7).
    pub(crate) counts_timeouts: bool,
    /// `tcp_retransmit_skb` reports retransmissions that failed, too, and which.
    pub(crate) retransmit_has_error: bool,
    /// `io_uring_complete` hands over the completion, not its parts.
    pub(crate) complete_has_cqe: bool,
    /// Functions of Python are read.
    pub(crate) python: bool,
    /// Processes that serve recorded connections are followed: that is asked for, and no program was refused for it.
    pub(crate) follow: bool,
    /// Features of MPTCP sockets.
    pub(crate) mptcp: Mptcp,
    /// Walks are over network namespaces, because the kernel refuses iterators over maps.
    pub(crate) walks_netns: bool,
    /// How many parameters the function at each tracepoint has; the first is its own data.
    pub(crate) parameters: BTreeMap<&'static str, usize>,
}

/// A tracepoint that some supported kernel does not have.
#[derive(Debug)]
pub(crate) struct Tracepoint {
    pub(crate) name: &'static str,
    /// The first Linux that has it.
    pub(crate) since: &'static str,
    /// Where calls and waits are recorded in windows only, so is its program attached.
    pub(crate) is_of_windows: bool,
}

impl Tracepoint {
    /// Returns the tracepoint as one that is needed only during windows.
    pub(crate) const fn of_windows(self) -> Self {
        Self {
            is_of_windows: true,
            ..self
        }
    }
}

/// A function at which the same is seen as at a tracepoint, and how many parameters it must have. The program at it is
/// `handle_` and `program`.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) parameters: usize,
    pub(crate) program: &'static str,
    tracepoint: &'static str,
    pub(crate) family: SocketFamily,
}

impl Function {
    /// Returns whether the function shows the same events as this tracepoint.
    pub(crate) fn replaces(&self, hook: &Tracepoint) -> bool {
        self.tracepoint == hook.name
    }
}

/// Sockets that pass a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketFamily {
    /// TCP, MPTCP, UDP and what else is over IP.
    Inet,
    /// TCP without what lies above it in the kernel: no MPTCP, no kernel TLS.
    Tcp,
    /// UNIX streams.
    Unix,
}

/// Makes a tracepoint that Linux has since this version.
pub(crate) const fn tracepoint(name: &'static str, since: &'static str) -> Tracepoint {
    Tracepoint {
        name,
        since,
        is_of_windows: false,
    }
}

/// Makes a function of the socket layer in place of a tracepoint; its program has its name.
const fn socket_function(
    name: &'static str,
    parameters: usize,
    tracepoint: &'static str,
    family: SocketFamily,
) -> Function {
    Function {
        name,
        parameters,
        program: name,
        tracepoint,
        family,
    }
}

/// Returns a function of TCP.
const fn tcp_function(
    name: &'static str,
    parameters: usize,
    tracepoint: &'static str,
    program: &'static str,
) -> Function {
    Function {
        name,
        parameters,
        program,
        tracepoint,
        family: SocketFamily::Tcp,
    }
}

/// All of one family stand in for a tracepoint together, or none. Functions of TCP do where those of IP are not there.
pub(crate) const FUNCTIONS: [Function; 13] = [
    socket_function("inet_sendmsg", 3, SEND_END, SocketFamily::Inet),
    socket_function("inet6_sendmsg", 3, SEND_END, SocketFamily::Inet),
    tcp_function("tcp_sendmsg", 3, SEND_END, "tcp_sendmsg"),
    socket_function("unix_stream_sendmsg", 3, SEND_END, SocketFamily::Unix),
    socket_function("unix_seqpacket_sendmsg", 3, SEND_END, SocketFamily::Unix),
    socket_function("inet_recvmsg", 4, RECEIVE_END, SocketFamily::Inet),
    socket_function("inet6_recvmsg", 4, RECEIVE_END, SocketFamily::Inet),
    tcp_function("tcp_recvmsg", 5, RECEIVE_END, "tcp_recvmsg"),
    tcp_function("tcp_recvmsg", 6, RECEIVE_END, "tcp_recvmsg_nonblock"),
    socket_function("unix_stream_recvmsg", 4, RECEIVE_END, SocketFamily::Unix),
    socket_function("unix_seqpacket_recvmsg", 4, RECEIVE_END, SocketFamily::Unix),
    tcp_function("sock_def_readable", 1, "sk_data_ready", "sock_def_readable"),
    tcp_function(
        "tcp_sendmsg_locked",
        3,
        "tcp_sendmsg_locked",
        "tcp_sendmsg_locked_entry",
    ),
];

/// The tracepoint at the end of send calls.
pub(crate) const SEND_END: &str = "sock_send_length";
/// The tracepoint at the end of receive calls.
pub(crate) const RECEIVE_END: &str = "sock_recv_length";

/// Returns the programs of a hook in any kernel: at the tracepoint, and at the functions in its place.
pub(crate) fn programs_at(hook: &str) -> Vec<String> {
    let functions = FUNCTIONS.iter().filter(|it| it.tracepoint == hook);
    let names = std::iter::once(hook).chain(functions.map(|it| it.program));
    names.map(|name| format!("handle_{name}")).collect()
}

/// It serves calls and waits.
pub(crate) const SCHED_SWITCH: Tracepoint = tracepoint("sched_switch", "2.6.32").of_windows();
/// Parts of a recording beside polled statistics and events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Levels {
    pub(crate) calls: bool,
    pub(crate) waits: bool,
    pub(crate) messages: bool,
    /// Sent messages, too.
    pub(crate) sent: bool,
    /// Calls and events are counted, not reported.
    pub(crate) summaries: bool,
    /// Walks may be over active sockets: hooks see all that happens on one.
    pub(crate) active: bool,
    /// Calls and waits are recorded in windows only.
    pub(crate) windows: bool,
}

impl Levels {
    /// Returns whether each call becomes a record.
    pub(crate) fn logs_calls(self) -> bool {
        self.calls && !self.summaries
    }

    /// Returns whether sockets have a ledger, which no call may pass unseen.
    pub(crate) fn keeps_ledger(self) -> bool {
        self.calls && !self.windows
    }
}

impl Features {
    /// Reads from the kernel's BTF which of these hooks exist.
    pub(crate) fn read(hooks: &[&'static Tracepoint]) -> Result<Self, BtfError> {
        let btf = kernel_btf()?;
        let parameters: BTreeMap<&str, usize> = hooks
            .iter()
            .filter_map(|hook| Some((hook.name, tracepoint_parameters(&btf, hook.name)?)))
            .collect();
        // its own data, the ring, the request, and the completion, or five of its parts
        let completion = parameters.get("io_uring_complete").copied();
        let has = |tracepoint: &&str| match *tracepoint {
            "io_uring_complete" => matches!(completion, Some(4 | 8)),
            other => has_tracepoint(&btf, other),
        };
        Ok(Self {
            tracepoints: hooks.iter().map(|hook| hook.name).filter(has).collect(),
            functions: FUNCTIONS
                .iter()
                .filter(|function| parameters_of(&btf, function.name) == Some(function.parameters))
                .collect(),
            refused: Vec::new(),
            mib: MibPlaces::from_btf(&btf),
            counts_timeouts: has_member(&btf, "tcp_sock", "total_rto"),
            // its own data, the socket, the skb, and what went wrong
            retransmit_has_error: parameters.get("tcp_retransmit_skb") == Some(&4),
            complete_has_cqe: completion == Some(4),
            python: cfg!(target_arch = "x86_64"),
            follow: false,
            mptcp: Mptcp::from_btf(&btf),
            walks_netns: !map_iterator::is_loaded(&btf),
            parameters,
        })
    }

    /// Returns the number of a tracepoint's arguments; 0 if it does not exist.
    pub(crate) fn arguments(&self, tracepoint: &str) -> usize {
        self.parameters.get(tracepoint).map_or(0, |all| all - 1)
    }

    /// Returns whether this kernel refused to load a program.
    pub(crate) fn is_refused(&self, program: &str) -> bool {
        self.refused.contains(&program)
    }

    /// Returns the functions to use in place of a tracepoint that this kernel does not have.
    pub(crate) fn stand_ins(&self, hook: &Tracepoint) -> Vec<&'static Function> {
        if self.tracepoints.contains(&hook.name) {
            return Vec::new();
        }
        let mut chosen = self.functions_of(hook, SocketFamily::Inet);
        if chosen.is_empty() {
            chosen = self.functions_of(hook, SocketFamily::Tcp);
        }
        chosen.extend(self.functions_of(hook, SocketFamily::Unix));
        chosen
    }

    /// Returns the functions that sockets of one family pass; none if one is missing.
    fn functions_of(&self, hook: &Tracepoint, family: SocketFamily) -> Vec<&'static Function> {
        let is_of = |it: &Function| it.replaces(hook) && it.family == family;
        let there = self.functions.iter().copied().filter(|it| is_of(it));
        let there: Vec<&Function> = there.collect();
        let mut wanted = FUNCTIONS.iter().filter(|it| is_of(it));
        match wanted.all(|it| there.iter().any(|found| found.name == it.name)) {
            true => there,
            false => Vec::new(),
        }
    }

    /// Returns the programs of a hook in this kernel, without `handle_`.
    pub(crate) fn programs(&self, hook: &Tracepoint) -> Vec<&'static str> {
        let mut there = self.tracepoints.iter().copied();
        match there.find(|found| *found == hook.name) {
            Some(tracepoint) => vec![tracepoint],
            None => self.stand_ins(hook).iter().map(|it| it.program).collect(),
        }
    }

    /// Returns whether a program of this hook sees sockets of a family.
    pub(crate) fn sees(&self, hook: &Tracepoint, family: SocketFamily) -> bool {
        let mut functions = self.stand_ins(hook).into_iter();
        self.tracepoints.contains(&hook.name) || functions.any(|it| it.family == family)
    }

    /// Returns whether a program of this hook sees TCP sockets.
    pub(crate) fn has(&self, hook: &Tracepoint) -> bool {
        self.sees(hook, SocketFamily::Inet) || self.sees(hook, SocketFamily::Tcp)
    }

    /// Returns whether each of these hooks has a program.
    pub(crate) fn has_all(&self, hooks: &[Tracepoint]) -> bool {
        hooks.iter().all(|hook| self.has(hook))
    }

    /// Returns how a probe of TCP works that needs these hooks.
    pub(crate) fn hook_coverage(&self, probe: &str, hooks: &[Tracepoint]) -> Coverage {
        match hooks.iter().find(|hook| !self.has(hook)) {
            Some(hook) => self.off(probe, hook),
            None => self.stand_in_coverage(probe, hooks, |it| it.family != SocketFamily::Unix),
        }
    }

    /// Returns the coverage of a probe with hooks on sockets of one family.
    pub(crate) fn family_coverage(
        &self,
        probe: &str,
        hooks: &[Tracepoint],
        family: SocketFamily,
    ) -> Coverage {
        match hooks.iter().find(|hook| !self.sees(hook, family)) {
            Some(hook) => self.off(probe, hook),
            None => self.stand_in_coverage(probe, hooks, |it| it.family == family),
        }
    }

    /// Returns the coverage of a probe with all its hooks: on, or by which functions.
    fn stand_in_coverage(
        &self,
        probe: &str,
        hooks: &[Tracepoint],
        uses: impl Fn(&Function) -> bool,
    ) -> Coverage {
        let functions = hooks.iter().flat_map(|hook| self.stand_ins(hook));
        let functions: Vec<&Function> = functions.filter(|it| uses(it)).collect();
        let first = hooks.iter().find(|hook| !self.stand_ins(hook).is_empty());
        let Some(first) = first.filter(|_| !functions.is_empty()) else {
            return on(probe);
        };
        let is_tcp = functions.iter().all(|it| it.family == SocketFamily::Tcp);
        let of = if is_tcp { "TCP" } else { "the kernel" };
        let names: Vec<&str> = functions.iter().map(|it| it.name).collect();
        Coverage {
            probe: probe.to_owned(),
            state: ProbeState::Fallback {
                which: format!("by functions of {of} ({})", names.join(", ")),
                why: self.why_not(first),
            },
        }
    }

    /// Returns how a probe works that needs these hooks; `None`: it works without a substitute.
    pub(crate) fn unless_on(&self, probe: &str, hooks: &[Tracepoint]) -> Option<Coverage> {
        Some(self.hook_coverage(probe, hooks)).filter(|coverage| coverage.state != ProbeState::On)
    }

    /// Returns the coverage line of a probe that is off because a hook is missing.
    fn off(&self, probe: &str, hook: &Tracepoint) -> Coverage {
        let remedy = if self.refused.contains(&hook.name) {
            "report what `WHYLAT_LIBBPF_LOG=1 whylat doctor` says".to_owned()
        } else {
            format!("run Linux {} or newer", hook.since)
        };
        Coverage {
            probe: probe.to_owned(),
            state: ProbeState::Off {
                why: self.why_not(hook),
                remedy,
            },
        }
    }

    /// Returns why no program serves a hook.
    pub(crate) fn why_not(&self, hook: &Tracepoint) -> String {
        let name = hook.name;
        if self.refused.contains(&name) {
            format!("this kernel refuses the program at tracepoint {name}")
        } else {
            format!("this kernel has no tracepoint {name}")
        }
    }
}

/// Returns the coverage entry of a working probe.
pub(crate) fn on(probe: &str) -> Coverage {
    Coverage {
        probe: probe.to_owned(),
        state: ProbeState::On,
    }
}
