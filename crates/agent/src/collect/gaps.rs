//! The gaps of what an agent sees, so that an empty table is not taken for a healthy host. In: hooks
//! that are off, the agent's pid namespace, and the kernel's own list of sockets. Out: text.

use std::collections::{BTreeSet, HashSet};
use std::fs;

use probe::hooks::{Hooks, MPTCP_SOCKETS};
use probe::processes::{self, SilentRuntime};
use table::manifest::{Coverage, ProbeState};

/// The probes that the agent's rows come from.
const PROBES: [&str; 4] = ["tcp_stats", "tcp_events", "calls", "tcp_stages"];

/// `TCP_ESTABLISHED` in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";

/// Gaps in what the agent sees, as text: what is missing, why, and after `hint:` the fix.
#[derive(Debug, Default)]
pub(super) struct CoverageGaps {
    /// For as long as the agent runs.
    lasting: Vec<String>,
    now: Vec<String>,
    /// Connections that the kernel listed at the last check, by the inode of their sockets.
    listed: HashSet<String>,
    /// Network namespaces with watched connections that the last walk did not enter, by inode number.
    unentered: BTreeSet<u32>,
}

impl CoverageGaps {
    /// Returns which probes are missing, and why, after the first walk.
    pub(super) fn from_hooks(hooks: &Hooks<'_>) -> Self {
        let mut gaps = texts_of_off_probes(hooks.coverage());
        gaps.extend(hooks.netns_limits().filter_map(text_of_limit));
        if !processes::sees_all() {
            gaps.push(
                "who owns a connection, except for a name: the agent runs in a pid namespace of its own\nhint: \
                    run it in the pid namespace of the host, as with --pid=host"
                    .to_owned(),
            );
        }
        Self {
            now: gaps.clone(),
            lasting: gaps,
            listed: established(),
            unentered: hooks.unentered_netns(),
        }
    }

    /// Returns the gaps as of the last check.
    pub(super) fn current(&self) -> &[String] {
        &self.now
    }

    /// Checks coverage again, while `watched` connections are watched. One that the kernel listed
    /// at the last check and still does should be among them. The last walk did not enter namespaces `unentered`: a gap
    /// if that was so at the last check, too, for one that ends may have a connection that still closes.
    /// `silent` was asked in vain for labels of pods.
    pub(super) fn check(
        &mut self,
        watched: usize,
        unentered: BTreeSet<u32>,
        silent: Option<&SilentRuntime>,
    ) {
        self.now.clone_from(&self.lasting);
        self.now.extend(silent.map(|it| {
            format!(
                "the workloads of some pods: {it}. Of these, only Deployments are known, by the names of pods\n\
                hint: `crictl pods` asks the same"
            )
        }));
        let lasting = unentered.intersection(&self.unentered).count();
        if lasting > 0 {
            self.now.push(format!(
                "connections of other network namespaces ({lasting}) before they close\n\
                hint: run the agent in the pid namespace of the host, with CAP_SYS_PTRACE"
            ));
        }
        self.unentered = unentered;
        let listed = if watched == 0 {
            established()
        } else {
            HashSet::new()
        };
        let missed = listed.intersection(&self.listed).count();
        if missed > 0 {
            self.now.push(format!(
                "any of the {missed} connections that /proc/net/tcp lists\n\
                hint: `whylat doctor` says what is missing"
            ));
        }
        self.listed = listed;
    }
}

/// Returns what is seen of other network namespaces, and why not all is, as text.
fn text_of_limit(coverage: Coverage) -> Option<String> {
    let ProbeState::Fallback { which, why } = coverage.state else {
        return None;
    };
    let what = match coverage.probe.as_str() {
        MPTCP_SOCKETS => "MPTCP connections of all network namespaces",
        _ => "all network namespaces",
    };
    Some(format!(
        "{what}: {why}. It sees only {which}\nhint: run the agent with CAP_SYS_ADMIN"
    ))
}

/// Returns the gaps of probes that are off, as text.
fn texts_of_off_probes(coverage: &[Coverage]) -> Vec<String> {
    let ours = coverage
        .iter()
        .filter(|found| PROBES.contains(&found.probe.as_str()));
    let text = |found: &Coverage| match &found.state {
        ProbeState::Off { why, remedy } => Some(format!("{}: {why}\nhint: {remedy}", found.probe)),
        _ => None,
    };
    ours.filter_map(text).collect()
}

/// Returns the connections that the kernel lists in the agent's network namespace.
fn established() -> HashSet<String> {
    let files = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let lists = files.map(|path| fs::read_to_string(path).unwrap_or_default());
    let inode = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, _, _, ESTABLISHED, _, _, _, _, _, inode, ..] => Some((*inode).to_owned()),
            _ => None,
        }
    };
    lists
        .iter()
        .flat_map(|list| list.lines())
        .filter_map(inode)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use probe::processes::Silence;

    use super::*;

    #[test]
    fn unwatched_connection_is_a_gap() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let _stream = TcpStream::connect(address).expect("a connection");
        let mut gaps = CoverageGaps::default();
        let check = |gaps: &mut CoverageGaps, watched| gaps.check(watched, BTreeSet::new(), None);
        check(&mut gaps, 0);
        assert_eq!(gaps.current(), [""; 0], "it may have come just now");
        check(&mut gaps, 0);
        assert!(gaps.current()[0].contains("/proc/net/tcp"), "{gaps:?}");
        check(&mut gaps, 1);
        assert_eq!(gaps.current(), [""; 0]);
    }

    #[test]
    fn namespace_that_walks_miss_twice_is_a_gap() {
        let mut gaps = CoverageGaps::default();
        let mut texts = |missed: &[u32]| {
            gaps.check(1, missed.iter().copied().collect(), None);
            gaps.current().join(", ")
        };
        assert_eq!(texts(&[7]), "");
        assert_eq!(texts(&[11]), "", "another one");
        let expected = "connections of other network namespaces (1) before they close\nhint: ";
        assert!(texts(&[7, 11]).starts_with(expected));
        assert_eq!(texts(&[]), "");
    }

    #[test]
    fn each_limit_names_its_probe() {
        let text = |probe: &str| {
            let (which, why) = ("some".to_owned(), "no right".to_owned());
            let state = ProbeState::Fallback { which, why };
            let probe = probe.to_owned();
            text_of_limit(Coverage { probe, state }).expect("a text")
        };
        let rest = "all network namespaces: no right. It sees only some\nhint: run the agent with CAP_SYS_ADMIN";
        assert_eq!(text("tcp_stats.other_netns"), rest);
        assert_eq!(text(MPTCP_SOCKETS), format!("MPTCP connections of {rest}"));
    }

    #[test]
    fn silent_runtime_is_a_gap_until_it_answers() {
        let mut gaps = CoverageGaps::default();
        let silent = SilentRuntime {
            socket: "/run/containerd/containerd.sock".into(),
            silence: Silence::NoAnswer,
        };
        gaps.check(1, BTreeSet::new(), Some(&silent));
        let expected = "the workloads of some pods: /run/containerd/containerd.sock does not answer. Of these, only \
            Deployments are known, by the names of pods\nhint: `crictl pods` asks the same";
        assert_eq!(gaps.current(), [expected]);
        gaps.check(1, BTreeSet::new(), None);
        assert_eq!(gaps.current(), [""; 0]);
    }

    #[test]
    fn only_off_probes_with_rows_are_gaps() {
        let of = |probe: &str, state| Coverage {
            probe: probe.to_owned(),
            state,
        };
        let is_off = || ProbeState::Off {
            why: "no such thing".to_owned(),
            remedy: "get one".to_owned(),
        };
        let coverage = [
            of("calls", is_off()),
            of("tcp_stats", ProbeState::On),
            of("inventory.listen_overflows", is_off()),
        ];
        assert_eq!(
            texts_of_off_probes(&coverage),
            ["calls: no such thing\nhint: get one"]
        );
    }
}
