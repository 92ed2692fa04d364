//! Decides which hooks this kernel has: known by the types in its BTF and by what it lets load, never by its
//! version. Where a tracepoint is missing, a function may do, at which the same is seen.

use libbpf_rs::OpenObject;
use libbpf_rs::btf::types::{Enum, Func, FuncProto, Struct, Typedef};
use libbpf_rs::btf::{Btf, BtfType};
use table::manifest::{Coverage, ProbeState};

use super::mib::MibPlaces;
use super::mptcp::Mptcp;
use super::{Detail, HooksError, on};
use crate::drops::DropArguments;
use crate::messages::{received, sent};
use crate::preemptions::READ_PREEMPTIONS;
use crate::registry::Support;
use crate::{PROBES, calls, udp_flows, zerocopy};

/// The optional hooks, as found in this kernel. The program at hook X is `handle_X`.
#[derive(Debug, Default)]
pub(crate) struct Features {
    tracepoints: Vec<&'static str>,
    functions: Vec<&'static Function>,
    /// Programs at hooks that this kernel has, but which it does not let load or attach.
    refused: Vec<&'static str>,
    pub(super) mib: Option<MibPlaces>,
    /// Sockets count their retransmission timeouts (Linux 6.7).
    pub(super) counts_timeouts: bool,
    /// `tcp_retransmit_skb` reports retransmissions that failed, too, and which.
    pub(super) retransmit_has_error: bool,
    /// `io_uring_complete` hands over the completion, not its parts.
    pub(super) complete_has_cqe: bool,
    /// Functions of Python are read.
    pub(crate) python: bool,
    /// Holds what is known of MPTCP sockets.
    pub(crate) mptcp: Mptcp,
    /// Arguments of the tracepoints of drops.
    pub(crate) drops: DropArguments,
}

/// A tracepoint that some supported kernel lacks.
#[derive(Debug)]
pub(crate) struct Tracepoint {
    name: &'static str,
    /// The first Linux that has it.
    since: &'static str,
}

/// A function at which the same is seen as at a tracepoint, and how many parameters it must have.
#[derive(Debug)]
struct Function {
    name: &'static str,
    parameters: usize,
    program: &'static str,
    tracepoint: &'static str,
}

pub(crate) const fn tracepoint(name: &'static str, since: &'static str) -> Tracepoint {
    Tracepoint { name, since }
}

const FUNCTIONS: [Function; 5] = [
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
/// Programs that nothing can do without, which are simpler without MPTCP: an older verifier may refuse them with it.
const NEEDED_WITH_MPTCP: [&str; 3] = [
    "handle_inet_sock_set_state",
    "walk_subflows",
    "walk_task_files",
];

/// Walks over active sockets; those over all of them do for it.
const READ_ACTIVE: &str = "read_active";

/// Programs that are simpler without functions of Python: an older verifier may refuse them with these.
const WITH_PYTHON: [&str; 2] = ["handle_sched_switch", "sample_cpu"];

/// Holds what the programs cannot do without; those that came last.
const HELPERS: [&str; 4] = [
    "sock_from_file",
    "task_storage_get",
    "get_current_task_btf",
    "task_pt_regs",
];

/// Holds what a recording keeps beside polled statistics and events.
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
}

impl Levels {
    /// Whether each call becomes a record.
    pub(crate) fn logs_calls(self) -> bool {
        self.calls && !self.summaries
    }
}

/// Returns the hooks of all probes, each once.
fn optional() -> Vec<&'static Tracepoint> {
    let mut all: Vec<&Tracepoint> = Vec::new();
    for hook in PROBES.iter().flat_map(|probe| probe.hooks()) {
        if !all.iter().any(|found| found.name == hook.name) {
            all.push(hook);
        }
    }
    all
}

impl Features {
    pub(super) fn probe() -> Result<Self, HooksError> {
        let btf = Btf::from_vmlinux().map_err(|error| HooksError::NoBtf(error.to_string()))?;
        if let Some(helper) = missing_helper(&btf) {
            return Err(HooksError::NoHelper(helper));
        }
        // its own data, the ring, the request, and the completion, or five of its parts
        let completion = tracepoint_parameters(&btf, "io_uring_complete");
        let has = |tracepoint: &&str| match *tracepoint {
            "io_uring_complete" => matches!(completion, Some(4 | 8)),
            other => btf
                .type_by_name::<Typedef<'_>>(&format!("btf_trace_{other}"))
                .is_some(),
        };
        Ok(Self {
            tracepoints: optional()
                .into_iter()
                .map(|hook| hook.name)
                .filter(has)
                .collect(),
            functions: FUNCTIONS
                .iter()
                .filter(|function| parameters(&btf, function.name) == Some(function.parameters))
                .collect(),
            refused: Vec::new(),
            mib: MibPlaces::from_btf(&btf),
            counts_timeouts: has_member(&btf, "tcp_sock", "total_rto"),
            // its own data, the socket, the skb, and what went wrong
            retransmit_has_error: tracepoint_parameters(&btf, "tcp_retransmit_skb") == Some(4),
            complete_has_cqe: completion == Some(4),
            python: cfg!(target_arch = "x86_64"),
            mptcp: Mptcp::from_btf(&btf),
            drops: DropArguments::new(|tracepoint| tracepoint_parameters(&btf, tracepoint)),
        })
    }

    /// Does without a program from now on. False if that cannot be, or it was not there anyway.
    pub(super) fn refuse(&mut self, program: &str) -> bool {
        if self.mptcp.sockets && NEEDED_WITH_MPTCP.contains(&program) {
            self.mptcp = Mptcp::default();
            return true;
        }
        if self.python && WITH_PYTHON.contains(&program) {
            self.python = false;
            return true;
        }
        let mut dispensable = [READ_ACTIVE, READ_PREEMPTIONS]
            .into_iter()
            .chain(udp_flows::PROGRAMS)
            .chain(zerocopy::PROGRAMS);
        if let Some(name) = dispensable.find(|it| *it == program) {
            let is_first = !self.is_refused(name);
            self.refused.push(name);
            return is_first;
        }
        let Some(name) = program.strip_prefix("handle_") else {
            return false;
        };
        let there = self.tracepoints.iter().find(|found| **found == name);
        let there = there.copied().or_else(|| {
            let function = self.functions.iter().find(|found| found.program == name);
            function.map(|function| function.program)
        });
        self.refused.extend(there);
        self.tracepoints.retain(|found| *found != name);
        self.functions.retain(|found| found.program != name);
        there.is_some()
    }

    /// Returns whether this kernel did not load a program that it was asked to.
    pub(crate) fn is_refused(&self, program: &str) -> bool {
        self.refused.contains(&program)
    }

    /// Returns what this kernel lacks to see UDP, and the first Linux that has it: functions stand in for TCP only.
    pub(super) fn lacks_for_udp(&self) -> Option<(&'static str, &'static str)> {
        let mut calls = calls::HOOKS[..2].iter();
        let missing = calls.find(|hook| !self.tracepoints.contains(&hook.name))?;
        Some((missing.name, missing.since))
    }

    /// Programs at functions that stand in for missing tracepoints.
    pub(super) fn stand_ins(&self) -> impl Iterator<Item = &'static str> {
        let hooks = optional().into_iter();
        hooks.filter_map(|hook| Some(self.stand_in(hook)?.program))
    }

    fn stand_in(&self, hook: &Tracepoint) -> Option<&'static Function> {
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

    /// Returns what of `detail` this kernel can do.
    pub(crate) fn levels(&self, detail: Detail, summaries: bool) -> Levels {
        let calls = detail >= Detail::Calls && self.has_all(&calls::HOOKS);
        let messages =
            calls && detail >= Detail::Messages && self.has_all(received::needed_hooks());
        Levels {
            calls,
            waits: detail >= Detail::Waits && self.program(&SCHED_SWITCH).is_some(),
            messages,
            sent: messages && self.has_all(&sent::HOOKS),
            summaries,
            active: summaries && calls && self.sees_all_calls(),
        }
    }

    /// A substitute function does not see all that its tracepoint does: what `tcp_sendpage()` sends, until Linux 6.5.
    fn sees_all_calls(&self) -> bool {
        let mut calls = calls::HOOKS.iter();
        calls.all(|hook| self.tracepoints.contains(&hook.name)) && !self.is_refused(READ_ACTIVE)
    }

    /// Leaves out the programs of hooks that are not there, and of probes that are not asked for.
    pub(super) fn choose_programs(&self, object: &mut OpenObject, levels: Levels) {
        let on = || PROBES.iter().filter(|probe| probe.is_on(levels));
        let at_hooks: Vec<&str> = on()
            .flat_map(|probe| probe.hooks())
            .filter_map(|hook| self.program(hook))
            .collect();
        let chosen: Vec<&str> = on().flat_map(|probe| probe.programs()).copied().collect();
        let of_probes: Vec<&str> = PROBES
            .iter()
            .flat_map(|it| it.programs())
            .copied()
            .collect();
        let optional = optional();
        let is_at_hook = |name: &str| {
            optional.iter().any(|hook| hook.name == name)
                || FUNCTIONS.iter().any(|function| function.program == name)
        };
        for mut program in object.progs_mut() {
            let name = program.name().to_str().unwrap_or_default();
            let hook = name.strip_prefix("handle_");
            if let Some(hook) = hook.filter(|hook| is_at_hook(hook)) {
                program.set_autoload(at_hooks.contains(&hook));
            } else if of_probes.contains(&name) {
                let is_chosen = chosen.contains(&name) && !self.is_refused(name);
                program.set_autoload(is_chosen);
            }
        }
    }

    /// Returns how well each probe works that this detail asks for.
    pub(super) fn coverage(&self, detail: Detail, has_mib: bool) -> Vec<Coverage> {
        let support = Support {
            features: self,
            detail,
            has_mib,
        };
        let asked = PROBES.iter().filter(|probe| probe.detail() <= detail);
        asked.flat_map(|probe| probe.coverage(&support)).collect()
    }

    /// How a probe works that needs these hooks.
    pub(crate) fn covered(&self, probe: &str, hooks: &[Tracepoint]) -> Coverage {
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

    /// The same of what is no TCP: functions of TCP do not stand in for tracepoints.
    pub(crate) fn seen_by_tracepoints(&self, probe: &str, hooks: &[Tracepoint]) -> Coverage {
        let is_missing = |hook: &&Tracepoint| !self.tracepoints.contains(&hook.name);
        let missing = hooks.iter().find(is_missing);
        missing.map_or_else(|| on(probe), |hook| self.off(probe, hook))
    }

    /// The same, where it is worth a line.
    pub(crate) fn unless_on(&self, probe: &str, hooks: &[Tracepoint]) -> Option<Coverage> {
        Some(self.covered(probe, hooks)).filter(|coverage| coverage.state != ProbeState::On)
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

    /// Why no program serves a hook.
    pub(crate) fn why_not(&self, hook: &Tracepoint) -> String {
        let name = hook.name;
        if self.refused.contains(&name) {
            format!("this kernel refuses the program at tracepoint {name}")
        } else {
            format!("this kernel has no tracepoint {name}")
        }
    }
}

/// How many parameters a function of the kernel has; `None`: there is none of that name.
fn parameters(btf: &Btf<'_>, name: &str) -> Option<usize> {
    let function: BtfType<'_> = *btf.type_by_name::<Func<'_>>(name)?;
    let prototype = FuncProto::try_from(function.next_type()?).ok()?;
    Some(prototype.iter().count())
}

/// How many parameters the function at a tracepoint has; the first is its own data.
fn tracepoint_parameters(btf: &Btf<'_>, name: &str) -> Option<usize> {
    let pointer = btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"))?;
    let prototype = FuncProto::try_from(pointer.next_type()?.next_type()?).ok()?;
    Some(prototype.iter().count())
}

pub(super) fn has_member(btf: &Btf<'_>, of: &str, member: &str) -> bool {
    let found = btf.type_by_name::<Struct<'_>>(of);
    found.is_some_and(|found| {
        found
            .iter()
            .any(|it| it.name.is_some_and(|name| name == member))
    })
}

/// The first of [`HELPERS`] that is missing; `None`, too, where BTF does not list them.
fn missing_helper(btf: &Btf<'_>) -> Option<&'static str> {
    let helpers = btf.type_by_name::<Enum<'_>>("bpf_func_id")?;
    let has = |helper: &str| {
        let name = format!("BPF_FUNC_{helper}");
        helpers
            .iter()
            .any(|member| member.name.is_some_and(|found| *found == *name.as_str()))
    };
    HELPERS.into_iter().find(|helper| !has(helper))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with these tracepoints missing, and with all functions but the older `tcp_recvmsg`.
    fn without(missing: &[&str]) -> Features {
        let there = optional().into_iter().map(|hook| hook.name);
        Features {
            tracepoints: there.filter(|name| !missing.contains(name)).collect(),
            functions: FUNCTIONS.iter().filter(|f| f.parameters != 6).collect(),
            mptcp: Mptcp {
                sockets: true,
                calls: true,
            },
            drops: DropArguments::new(|_| Some(4)),
            python: true,
            ..Features::default()
        }
    }

    fn state(features: &Features, probe: &str) -> ProbeState {
        let coverage = features.coverage(Detail::Messages, true);
        let found = coverage.into_iter().find(|found| found.probe == probe);
        found.map_or(ProbeState::On, |found| found.state)
    }

    #[test]
    fn complete_kernel_needs_no_substitute() {
        let features = without(&[]);
        assert_eq!(features.stand_ins().count(), 0);
        let levels = features.levels(Detail::Messages, false);
        assert!(levels.calls && levels.waits && levels.messages && levels.sent);
        let coverage = features.coverage(Detail::Messages, true);
        let off: Vec<_> = coverage
            .iter()
            .filter(|it| it.state != ProbeState::On)
            .collect();
        assert!(off.is_empty(), "{off:?}");
    }

    #[test]
    fn functions_stand_in_for_missing_tracepoints() {
        let features = without(&["sock_send_length", "sock_recv_length", "tcp_sendmsg_locked"]);
        let stand_ins: Vec<_> = features.stand_ins().collect();
        assert_eq!(
            stand_ins,
            ["tcp_sendmsg", "tcp_recvmsg", "tcp_sendmsg_locked_entry"]
        );
        assert!(features.levels(Detail::Messages, false).sent);
        for probe in ["calls", "tcp_stages", "messages.sent"] {
            let state = state(&features, probe);
            assert!(matches!(state, ProbeState::Fallback { .. }), "{probe}");
        }
        assert_eq!(state(&features, "messages"), ProbeState::On);
    }

    #[test]
    fn a_refused_program_counts_as_missing() {
        let mut features = without(&["sock_send_length"]);
        assert!(features.refuse("handle_tcp_sendmsg"));
        assert!(!features.refuse("handle_tcp_sendmsg"), "not twice");
        assert!(!features.levels(Detail::Messages, false).calls);
        assert!(features.levels(Detail::Messages, false).waits);
        for probe in ["calls", "tcp_stages", "messages"] {
            let ProbeState::Off { why, .. } = state(&features, probe) else {
                panic!("{probe} is not off");
            };
            assert_eq!(why, "this kernel has no tracepoint sock_send_length");
        }

        assert!(features.refuse("handle_tcp_cong_state_set"));
        let ProbeState::Fallback { why, .. } = state(&features, "tcp_events.congestion_state")
        else {
            panic!("not polled");
        };
        assert!(why.contains("refuses"), "{why}");
    }

    #[test]
    fn walks_are_over_active_sockets_only_where_hooks_see_every_call() {
        let mut features = without(&[]);
        assert!(features.levels(Detail::Calls, true).active);
        assert!(!features.levels(Detail::Calls, false).active);
        assert!(!features.levels(Detail::Stats, true).active);
        let substituted = without(&["sock_send_length"]).levels(Detail::Calls, true);
        assert!(substituted.calls && !substituted.active);

        assert!(features.refuse("read_active"));
        assert!(!features.refuse("read_active"), "not twice");
        assert!(features.refuse("read_preemptions"));
        assert!(!features.refuse("read_preemptions"), "not twice");
        let levels = features.levels(Detail::Calls, true);
        assert!(levels.calls && !levels.active);
    }

    #[test]
    fn what_nothing_can_do_without_is_not_left_out() {
        let mut features = without(&[]);
        for program in ["handle_sched_process_fork", "read_sockets", "handle_"] {
            assert!(!features.refuse(program), "{program}");
        }
    }
}
