//! Decides which programs are loaded: by what this kernel has, by what is asked for, and by what it refused before.

use libbpf_rs::OpenObject;
use table::manifest::Coverage;

use super::netns_walk;
use crate::interface::features::{
    FUNCTIONS, Features, Function, Levels, SCHED_SWITCH, SocketFamily, Tracepoint,
};
use crate::interface::mptcp::Mptcp;
use crate::interface::{Detail, HooksError, Probe, Support};
use crate::messages::{received, sent};
use crate::preemptions::READ_PREEMPTIONS;
use crate::unix_sockets::UnixSockets;
use crate::{PROBES, calls, udp_flows, zerocopy};

/// Programs that nothing can do without, which are simpler without MPTCP: an older verifier may refuse them with it.
const NEEDED_WITH_MPTCP: [&str; 4] = [
    "handle_connection_close",
    "handle_inet_sock_set_state",
    "walk_subflows",
    "walk_task_files",
];

/// Walks over active sockets; those over all of them do for it.
const READ_ACTIVE: &str = "read_active";

/// Programs that are simpler without functions of Python: an older verifier may refuse them with these.
const WITH_PYTHON: [&str; 2] = ["handle_sched_switch", "sample_cpu"];

/// Programs that are simpler where nobody is followed, beside those at which a call ends: an older verifier may refuse them
/// with it.
const WITH_FOLLOW: [&str; 4] = [
    "handle_inet_sock_set_state",
    "handle_sched_process_exit",
    "walk_subflows",
    "walk_task_files",
];

/// Returns whether a program sees the ends of system calls.
fn is_at_call(program: &str) -> bool {
    let Some(name) = program.strip_prefix("handle_") else {
        return false;
    };
    let is_one = |it: &Function, hook: &Tracepoint| it.program == name && it.replaces(hook);
    let mut hooks = calls::CALL_HOOKS.iter();
    hooks.any(|hook| hook.name == name || FUNCTIONS.iter().any(|it| is_one(it, hook)))
}

/// Returns the hooks of all probes, each once.
fn list_hooks() -> Vec<&'static Tracepoint> {
    let mut all: Vec<&Tracepoint> = Vec::new();
    for hook in PROBES.iter().flat_map(|probe| probe.hooks()) {
        if !all.iter().any(|found| found.name == hook.name) {
            all.push(hook);
        }
    }
    all
}

impl Features {
    /// Reads which hooks of the probes this kernel has.
    pub(super) fn probe() -> Result<Self, HooksError> {
        Self::read(&list_hooks()).map_err(HooksError::Btf)
    }

    /// Leaves a program out from now on; returns false if it is required, or already left out.
    pub(super) fn omit_program(&mut self, program: &str) -> bool {
        if self.follow && (WITH_FOLLOW.contains(&program) || is_at_call(program)) {
            self.follow = false;
            return true;
        }
        if self.mptcp.sockets && NEEDED_WITH_MPTCP.contains(&program) {
            self.mptcp = Mptcp::default();
            return true;
        }
        if self.python && WITH_PYTHON.contains(&program) {
            self.python = false;
            return true;
        }
        if !self.walks_netns && netns_walk::is_main_walk(program) {
            self.walks_netns = true;
            return true;
        }
        let mut dispensable = [READ_ACTIVE, READ_PREEMPTIONS]
            .into_iter()
            .chain(udp_flows::PROGRAMS)
            .chain([udp_flows::ARRIVALS_PROGRAM])
            .chain(zerocopy::PROGRAMS);
        let replaced = netns_walk::name_replaced(program);
        if let Some(name) = dispensable.find(|it| *it == replaced) {
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

    /// Returns the first hook of calls which UDP does not pass in this kernel, and the first Linux in which it does.
    pub(super) fn find_hook_missing_for_udp(&self) -> Option<(&'static str, &'static str)> {
        let mut calls = calls::CALL_HOOKS.iter();
        let missing = calls.find(|hook| !self.sees(hook, SocketFamily::Inet))?;
        Some((missing.name, missing.since))
    }

    /// Returns the tracepoints that are needed only during windows. Functions that stand in are
    /// none: to let go of one takes the kernel until every thread has left its trampoline.
    pub(super) fn window_hooks(&self) -> Vec<&'static str> {
        let all = list_hooks().into_iter().filter(|hook| hook.is_of_windows);
        let names = all.map(|hook| hook.name);
        // of its tracepoint, messages have a program, too
        let arrivals = udp_flows::ARRIVALS_PROGRAM.strip_prefix("handle_");
        let arrivals = arrivals.filter(|_| udp_flows::sees_arrivals(self));
        names
            .filter(|name| self.tracepoints.contains(name))
            .chain(arrivals)
            .collect()
    }

    /// Returns the programs at functions in place of tracepoints that are needed only during
    /// windows: between windows they return at once.
    pub(super) fn window_stand_ins(&self) -> Vec<&'static str> {
        let all = list_hooks().into_iter().filter(|hook| hook.is_of_windows);
        let functions = all.flat_map(|hook| self.stand_ins(hook));
        functions.map(|function| function.program).collect()
    }

    /// Returns whether calls on sockets of every kind pass a hook.
    pub(super) fn sees_every_kind(&self) -> bool {
        let mut calls = calls::CALL_HOOKS.iter();
        calls.all(|hook| self.tracepoints.contains(&hook.name))
    }

    /// Returns the functions that stand in for missing tracepoints.
    pub(super) fn all_stand_ins(&self) -> impl Iterator<Item = &'static Function> {
        list_hooks()
            .into_iter()
            .flat_map(|hook| self.stand_ins(hook))
    }

    /// Returns the levels of `detail` that this kernel supports.
    pub(crate) fn supported_levels(&self, detail: Detail, summaries: bool) -> Levels {
        let calls = detail >= Detail::Calls && self.has_all(&calls::HOOKS);
        let messages =
            calls && detail >= Detail::Messages && self.has_all(received::needed_hooks());
        Levels {
            calls,
            waits: detail >= Detail::Waits && self.has(&SCHED_SWITCH),
            messages,
            sent: messages && self.has_all(&sent::HOOKS),
            summaries,
            active: summaries && calls && self.sees_all_calls(),
            windows: false,
        }
    }

    /// Returns whether hooks see all calls. A substitute function misses some, until Linux 6.5: the sends of
    /// `tcp_sendpage()`.
    fn sees_all_calls(&self) -> bool {
        let mut calls = calls::HOOKS.iter();
        let sees_all = calls.all(|hook| self.tracepoints.contains(&hook.name));
        sees_all && !self.walks_netns && !self.is_refused(READ_ACTIVE)
    }

    /// Chooses which programs are loaded: those with a hook in this kernel and a wanted probe.
    pub(super) fn choose_programs(&self, object: &mut OpenObject, levels: Levels) {
        let on = || PROBES.iter().filter(|probe| probe.is_on(levels));
        let hooks = || on().flat_map(|probe| probe.hooks());
        let mut at_hooks: Vec<&str> = hooks().flat_map(|hook| self.programs(hook)).collect();
        if !UnixSockets.is_on(levels) {
            let is_of_unix = |it: &&Function| it.family == SocketFamily::Unix;
            let unused = FUNCTIONS.iter().filter(is_of_unix);
            let unused: Vec<&str> = unused.map(|it| it.program).collect();
            at_hooks.retain(|program| !unused.contains(program));
        }
        let chosen: Vec<&str> = on().flat_map(|probe| probe.programs()).copied().collect();
        let of_probes: Vec<&str> = PROBES
            .iter()
            .flat_map(|it| it.programs())
            .copied()
            .collect();
        let hooks_of_probes = list_hooks();
        let is_at_hook = |name: &str| {
            hooks_of_probes.iter().any(|hook| hook.name == name)
                || FUNCTIONS.iter().any(|function| function.program == name)
        };
        for mut program in object.progs_mut() {
            let name = program.name().to_str().unwrap_or_default();
            let hook = name.strip_prefix("handle_");
            if let Some(hook) = hook.filter(|hook| is_at_hook(hook)) {
                program.set_autoload(at_hooks.contains(&hook));
            } else if of_probes.contains(&name) {
                let is_there =
                    name != udp_flows::ARRIVALS_PROGRAM || udp_flows::sees_arrivals(self);
                let is_chosen = chosen.contains(&name) && !self.is_refused(name) && is_there;
                program.set_autoload(is_chosen);
            }
        }
        netns_walk::choose_walks(object, self.walks_netns);
    }

    /// Returns the coverage of each probe that this detail includes.
    pub(super) fn coverage(&self, detail: Detail, has_mib: bool) -> Vec<Coverage> {
        let support = Support {
            features: self,
            detail,
            has_mib,
        };
        let asked = PROBES.iter().filter(|probe| probe.detail() <= detail);
        asked.flat_map(|probe| probe.coverage(&support)).collect()
    }
}

#[cfg(test)]
mod tests {
    use table::manifest::ProbeState;

    use super::*;

    /// Returns a kernel with these tracepoints missing, and with all functions but the older `tcp_recvmsg`.
    fn without(missing: &[&str]) -> Features {
        let there = list_hooks().into_iter().map(|hook| hook.name);
        let parameters = there.clone().map(|name| (name, 4)).collect();
        Features {
            tracepoints: there.filter(|name| !missing.contains(name)).collect(),
            functions: FUNCTIONS.iter().filter(|f| f.parameters != 6).collect(),
            mptcp: Mptcp {
                sockets: true,
                calls: true,
            },
            parameters,
            python: true,
            ..Features::default()
        }
    }

    /// Returns the state of a probe with these features.
    fn state(features: &Features, probe: &str) -> ProbeState {
        let coverage = features.coverage(Detail::Messages, true);
        let found = coverage.into_iter().find(|found| found.probe == probe);
        found.map_or(ProbeState::On, |found| found.state)
    }

    #[test]
    fn complete_kernel_uses_no_substitute() {
        let features = without(&[]);
        assert_eq!(features.all_stand_ins().count(), 0);
        let levels = features.supported_levels(Detail::Messages, false);
        assert!(levels.calls && levels.waits && levels.messages && levels.sent);
        let coverage = features.coverage(Detail::Messages, true);
        let off: Vec<_> = coverage
            .iter()
            .filter(|it| it.state != ProbeState::On)
            .collect();
        assert!(off.is_empty(), "{off:?}");
    }

    /// Returns the programs that serve the hooks of calls.
    fn programs_of_calls(features: &Features) -> Vec<&'static str> {
        let hooks = calls::CALL_HOOKS.iter();
        hooks.flat_map(|hook| features.programs(hook)).collect()
    }

    const MISSING: [&str; 3] = ["sock_send_length", "sock_recv_length", "tcp_sendmsg_locked"];

    #[test]
    fn window_hooks_are_the_hooks_of_calls_and_waits() {
        let features = without(&["sock_send_length"]);
        let mut hooks = features.window_hooks();
        hooks.sort_unstable();
        assert_eq!(
            hooks,
            [
                "sched_switch",
                "sched_waking",
                "sock_recv_length",
                "tcp_probe",
                "udp_data_ready"
            ]
        );
        assert_eq!(
            features.window_stand_ins(),
            [
                "inet_sendmsg",
                "inet6_sendmsg",
                "unix_stream_sendmsg",
                "unix_seqpacket_sendmsg"
            ]
        );
        for hook in PROBES.iter().flat_map(|probe| probe.hooks()) {
            let first = list_hooks().into_iter().find(|it| it.name == hook.name);
            assert_eq!(first.map(|it| it.is_of_windows), Some(hook.is_of_windows));
        }
    }

    #[test]
    fn functions_stand_in_for_missing_tracepoints() {
        let features = without(&MISSING);
        let expected = [
            "inet_sendmsg",
            "inet6_sendmsg",
            "unix_stream_sendmsg",
            "unix_seqpacket_sendmsg",
            "inet_recvmsg",
            "inet6_recvmsg",
            "unix_stream_recvmsg",
            "unix_seqpacket_recvmsg",
        ];
        assert_eq!(programs_of_calls(&features), expected);
        for program in expected {
            assert!(is_at_call(&format!("handle_{program}")), "{program}");
        }
        assert!(!is_at_call("handle_tcp_sendmsg_locked_entry"));
        assert!(features.supported_levels(Detail::Messages, false).sent);
        assert!(features.find_hook_missing_for_udp().is_none() && !features.sees_every_kind());
        let by_functions = [
            "calls",
            "tcp_stages",
            "messages.sent",
            "udp_flows",
            "unix_sockets",
        ];
        for probe in by_functions {
            let state = state(&features, probe);
            assert!(matches!(state, ProbeState::Fallback { .. }), "{probe}");
        }
        assert_eq!(state(&features, "messages"), ProbeState::On);
    }

    /// Functions of TCP see no UDP; those of UNIX sockets are not concerned.
    #[test]
    fn tcp_functions_stand_in_when_ip_functions_are_missing() {
        let mut features = without(&MISSING);
        assert!(features.omit_program("handle_inet6_recvmsg"));
        assert!(features.omit_program("handle_inet_sendmsg"));
        let expected = [
            "tcp_sendmsg",
            "unix_stream_sendmsg",
            "unix_seqpacket_sendmsg",
            "tcp_recvmsg",
            "unix_stream_recvmsg",
            "unix_seqpacket_recvmsg",
        ];
        assert_eq!(programs_of_calls(&features), expected);
        assert_eq!(
            features.find_hook_missing_for_udp(),
            Some(("sock_send_length", "6.3"))
        );
        let is_off = |probe| matches!(state(&features, probe), ProbeState::Off { .. });
        assert!(is_off("udp_flows") && !is_off("unix_sockets") && !is_off("calls"));
        let ProbeState::Fallback { which, .. } = state(&features, "calls") else {
            panic!("calls are not by functions");
        };
        assert_eq!(which, "by functions of TCP (tcp_sendmsg, tcp_recvmsg)");
    }

    #[test]
    fn refused_program_counts_as_missing() {
        let mut features = without(&["sock_send_length"]);
        features.follow = true;
        assert!(
            features.omit_program("handle_inet_sendmsg"),
            "nobody is followed"
        );
        assert!(!features.follow && features.supported_levels(Detail::Calls, false).calls);
        for program in ["handle_inet_sendmsg", "handle_tcp_sendmsg"] {
            assert!(features.supported_levels(Detail::Calls, false).calls);
            assert!(features.omit_program(program));
        }
        assert!(!features.omit_program("handle_tcp_sendmsg"), "not twice");
        assert!(!features.supported_levels(Detail::Messages, false).calls);
        assert!(features.supported_levels(Detail::Messages, false).waits);
        for probe in ["calls", "tcp_stages", "messages"] {
            let ProbeState::Off { why, .. } = state(&features, probe) else {
                panic!("{probe} is not off");
            };
            assert_eq!(why, "this kernel has no tracepoint sock_send_length");
        }

        assert!(features.omit_program("handle_tcp_cong_state_set"));
        let ProbeState::Fallback { why, .. } = state(&features, "tcp_events.congestion_state")
        else {
            panic!("not polled");
        };
        assert!(why.contains("refuses"), "{why}");
    }

    #[test]
    fn walks_skip_idle_sockets_only_if_hooks_see_every_call() {
        let mut features = without(&[]);
        assert!(features.supported_levels(Detail::Calls, true).active);
        assert!(!features.supported_levels(Detail::Calls, false).active);
        assert!(!features.supported_levels(Detail::Stats, true).active);
        let substituted = without(&["sock_send_length"]).supported_levels(Detail::Calls, true);
        assert!(substituted.calls && !substituted.active);

        assert!(features.omit_program("read_active"));
        assert!(!features.omit_program("read_active"), "not twice");
        assert!(features.omit_program("read_preemptions"));
        assert!(!features.omit_program("read_preemptions"), "not twice");
        let levels = features.supported_levels(Detail::Calls, true);
        assert!(levels.calls && !levels.active);
    }

    #[test]
    fn required_program_is_never_omitted() {
        let mut features = without(&[]);
        for program in [
            "handle_sched_process_fork",
            "read_sockets_of_netns",
            "handle_",
        ] {
            assert!(!features.omit_program(program), "{program}");
        }
    }

    #[test]
    fn refused_poll_over_a_map_is_one_over_namespaces() {
        for (poll, in_place) in [
            ("read_sockets", "read_sockets_of_netns"),
            ("read_watched", "read_watched_of_netns"),
        ] {
            let mut features = without(&[]);
            assert!(features.omit_program(poll) && features.walks_netns);
            assert!(!features.is_refused(poll));
            assert!(!features.supported_levels(Detail::Calls, true).active);
            for refused in [poll, in_place] {
                assert!(!features.omit_program(refused), "{refused}");
            }
        }
    }

    /// Polls stay as they are.
    #[test]
    fn refused_walk_of_zero_copy_sends_is_left_out() {
        for (walks_netns, refused) in [(false, "read_zerocopy"), (true, "read_zerocopy_of_netns")] {
            let mut features = without(&[]);
            features.walks_netns = walks_netns;
            assert!(features.omit_program(refused), "{refused}");
            assert!(!features.omit_program(refused), "not twice");
            assert!(features.is_refused("read_zerocopy"));
            assert_eq!(features.walks_netns, walks_netns);
            let ProbeState::Fallback { why, .. } = state(&features, "zerocopy") else {
                panic!("it is not left out");
            };
            assert!(why.contains("read_zerocopy"), "{why}");
        }
        let mut features = without(&[]);
        assert!(!features.omit_program("read_udp") && !features.walks_netns);
    }
}
