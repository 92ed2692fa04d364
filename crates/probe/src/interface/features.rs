//! Decides which hooks this kernel has: known by the types in its BTF and by what it lets load, never by its
//! version. Where a tracepoint is missing, a function may do, at which the same is seen.

use std::collections::BTreeMap;

use table::manifest::{Coverage, ProbeState};

use super::btf::{
    BtfError, has_member, has_tracepoint, kernel_btf, parameters_of, tracepoint_parameters,
};
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
    /// How many parameters the function at each tracepoint has; the first is its own data.
    pub(crate) parameters: BTreeMap<&'static str, usize>,
}

/// A tracepoint that some supported kernel does not have.
#[derive(Debug)]
pub(crate) struct Tracepoint {
    pub(crate) name: &'static str,
    /// The first Linux that has it.
    pub(crate) since: &'static str,
}

/// A function at which the same is seen as at a tracepoint, and how many parameters it must have.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) parameters: usize,
    pub(crate) program: &'static str,
    tracepoint: &'static str,
}

pub(crate) const fn tracepoint(name: &'static str, since: &'static str) -> Tracepoint {
    Tracepoint { name, since }
}

pub(crate) const FUNCTIONS: [Function; 5] = [
    Function {
        name: "tcp_sendmsg",
        parameters: 3,
        program: "tcp_sendmsg",
        tracepoint: "sock_send_length",
    },
    Function {
        name: "tcp_recvmsg",
        parameters: 5,
        program: "tcp_recvmsg",
        tracepoint: "sock_recv_length",
    },
    Function {
        name: "tcp_recvmsg",
        parameters: 6,
        program: "tcp_recvmsg_nonblock",
        tracepoint: "sock_recv_length",
    },
    Function {
        name: "sock_def_readable",
        parameters: 1,
        program: "sock_def_readable",
        tracepoint: "sk_data_ready",
    },
    Function {
        name: "tcp_sendmsg_locked",
        parameters: 3,
        program: "tcp_sendmsg_locked_entry",
        tracepoint: "tcp_sendmsg_locked",
    },
];

/// It serves calls and waits.
pub(crate) const SCHED_SWITCH: Tracepoint = tracepoint("sched_switch", "2.6.32");
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
    /// Whether each call becomes a record.
    pub(crate) fn logs_calls(self) -> bool {
        self.calls && !self.summaries
    }

    /// Whether sockets have a ledger, which no call may pass unseen.
    pub(crate) fn keeps_ledger(self) -> bool {
        self.calls && !self.windows
    }
}

impl Features {
    /// Returns which of these hooks this kernel has, and what else its BTF says.
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
            parameters,
        })
    }

    /// Returns how many arguments a tracepoint has; 0: it is not there.
    pub(crate) fn arguments(&self, tracepoint: &str) -> usize {
        self.parameters.get(tracepoint).map_or(0, |all| all - 1)
    }

    /// Returns whether this kernel did not load a program that it was asked to.
    pub(crate) fn is_refused(&self, program: &str) -> bool {
        self.refused.contains(&program)
    }

    /// Returns the function at which the same is seen as at a tracepoint that this kernel does not have.
    pub(crate) fn stand_in(&self, hook: &Tracepoint) -> Option<&'static Function> {
        if self.tracepoints.contains(&hook.name) {
            return None;
        }
        let mut functions = self.functions.iter();
        functions
            .find(|function| function.tracepoint == hook.name)
            .copied()
    }

    /// The program that serves a hook in this kernel.
    pub(crate) fn program(&self, hook: &Tracepoint) -> Option<&'static str> {
        let mut there = self.tracepoints.iter().copied();
        let tracepoint = there.find(|found| *found == hook.name);
        tracepoint.or_else(|| Some(self.stand_in(hook)?.program))
    }

    /// Whether some program serves each of these.
    pub(crate) fn has_all(&self, hooks: &[Tracepoint]) -> bool {
        hooks.iter().all(|hook| self.program(hook).is_some())
    }

    /// Returns how a probe works that needs these hooks.
    pub(crate) fn hook_coverage(&self, probe: &str, hooks: &[Tracepoint]) -> Coverage {
        if let Some(hook) = hooks.iter().find(|hook| self.program(hook).is_none()) {
            return self.off(probe, hook);
        }
        let missing = || hooks.iter().filter(|hook| self.stand_in(hook).is_some());
        let functions: Vec<&str> = missing()
            .filter_map(|hook| Some(self.stand_in(hook)?.name))
            .collect();
        let Some(first) = missing().next() else {
            return on(probe);
        };
        Coverage {
            probe: probe.to_owned(),
            state: ProbeState::Fallback {
                which: format!("by the functions of TCP ({})", functions.join(", ")),
                why: self.why_not(first),
            },
        }
    }

    /// Returns how a probe works that sees more than TCP: functions of TCP do not stand in for tracepoints.
    pub(crate) fn seen_by_tracepoints(&self, probe: &str, hooks: &[Tracepoint]) -> Coverage {
        let is_missing = |hook: &&Tracepoint| !self.tracepoints.contains(&hook.name);
        let missing = hooks.iter().find(is_missing);
        missing.map_or_else(|| on(probe), |hook| self.off(probe, hook))
    }

    /// Returns how a probe works that needs these hooks; `None`: it works without a substitute.
    pub(crate) fn unless_on(&self, probe: &str, hooks: &[Tracepoint]) -> Option<Coverage> {
        Some(self.hook_coverage(probe, hooks)).filter(|coverage| coverage.state != ProbeState::On)
    }

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

/// Coverage entry of a working probe.
pub(crate) fn on(probe: &str) -> Coverage {
    Coverage {
        probe: probe.to_owned(),
        state: ProbeState::On,
    }
}
