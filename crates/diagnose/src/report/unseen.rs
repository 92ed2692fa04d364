//! Why a recording may have no connection: which sockets the recorded processes had instead.

use table::manifest::{Coverage, ProbeState, SocketKind};

use crate::units::{count, format_bytes, quantity};

/// Says why no connection was seen, as far as the sockets of the recorded processes show; `None`: nobody counted them.
/// `listening` says how many sockets were waiting for connections.
pub fn why_unseen(
    sockets: &[SocketKind],
    coverage: &[Coverage],
    listening: usize,
) -> Option<String> {
    if sockets.is_empty() {
        return None;
    }
    let is_tcp = |line: &&SocketKind| line.kind == "tcp";
    let tcp_open: u64 = sockets.iter().filter(is_tcp).map(|line| line.open).sum();
    let used: Vec<&SocketKind> = sockets.iter().filter(|line| line.calls() > 0).collect();
    let open = |line: &&SocketKind| line.open > 0 && line.kind != "tcp";
    let open: Vec<&SocketKind> = sockets.iter().filter(open).collect();
    let are_counted = sockets.iter().any(|line| line.sends.is_some());
    let mut sentences = Vec::new();
    if !used.is_empty() {
        let is_only = tcp_open == 0 && listening == 0;
        sentences.push(describe_used(&used, coverage, is_only));
    }
    match listening {
        0 if !used.is_empty() => {}
        0 if tcp_open > 0 => sentences
            .push("The TCP sockets of the recorded processes had no connection.".to_owned()),
        0 => sentences.push(describe_open(&open, are_counted)),
        1 => sentences.push("One TCP socket listened, and no client connected.".to_owned()),
        some => sentences.push(format!(
            "{} TCP sockets listened, and no client connected.",
            count(some as u64)
        )),
    }
    Some(sentences.join(" "))
}

/// Returns the probe that records calls on sockets of a kind that is not TCP.
fn probe_of(kind: &str) -> Option<&'static str> {
    match kind {
        "unix" => Some("unix_sockets"),
        "udp" => Some("udp_flows"),
        _ => None,
    }
}

/// Returns whether a probe of this kind of socket was on.
fn is_recorded(kind: &str, coverage: &[Coverage]) -> bool {
    let is_off = |it: &Coverage| matches!(it.state, ProbeState::Off { .. });
    let probe = probe_of(kind);
    let mut lines = coverage.iter();
    lines.any(|it| probe == Some(it.probe.as_str()) && !is_off(it))
}

/// Returns whether calls on other sockets than those of TCP were recorded.
pub fn has_other_sockets(sockets: &[SocketKind], coverage: &[Coverage]) -> bool {
    let mut used = sockets.iter().filter(|line| line.calls() > 0);
    used.any(|line| is_recorded(&line.kind, coverage))
}

/// Bytes moved over these, and no others but TCP.
fn describe_used(used: &[&SocketKind], coverage: &[Coverage], only: bool) -> String {
    let facts: Vec<String> = used
        .iter()
        .map(|line| {
            let (sends, receives) = (line.sends.unwrap_or(0), line.receives.unwrap_or(0));
            format!(
                "{} sockets ({} of {}, {} of {})",
                title(&line.kind),
                quantity(sends, "send"),
                format_bytes(line.sent_bytes.unwrap_or(0)),
                quantity(receives, "receive"),
                format_bytes(line.received_bytes.unwrap_or(0)),
            )
        })
        .collect();
    let only = if only { " only" } else { "" };
    let is_unrecorded = |line: &&&SocketKind| !is_recorded(&line.kind, coverage);
    let unrecorded: Vec<_> = used.iter().filter(is_unrecorded).collect();
    let has = |kind: &str| unrecorded.iter().any(|line| line.kind == kind);
    let others: Vec<String> = unrecorded
        .iter()
        .filter(|line| !["udp", "mptcp"].contains(&line.kind.as_str()))
        .map(|line| format!("{} sockets", title(&line.kind)))
        .collect();
    let mut text = format!("The recorded processes used{only} {}.", facts.join(" and "));
    if !others.is_empty() {
        text.push_str(&format!(
            " whylat does not record {}.",
            others.join(" and ")
        ));
    }
    if has("mptcp") {
        text.push_str(" whylat did not find the subflows of the MPTCP sockets. hint: start it before the program.");
    }
    if has("udp") {
        text.push_str(" hint: --detail messages records UDP.");
    }
    text
}

/// Returns the text on open sockets on which no byte was seen to move.
fn describe_open(open: &[&SocketKind], are_counted: bool) -> String {
    let facts: Vec<String> = open
        .iter()
        .map(|line| quantity(line.open, &format!("{} socket", title(&line.kind))))
        .collect();
    match (&facts[..], are_counted) {
        ([], true) => "No recorded process sent or received a byte over any socket.".to_owned(),
        ([], false) => "The recorded processes had no socket open when whylat checked. \
                        hint: run as root with --detail calls to see short ones."
            .to_owned(),
        (facts, true) => format!(
            "The recorded processes had {} open, and sent and received no byte over them.",
            facts.join(" and ")
        ),
        (facts, false) => format!(
            "The recorded processes had {} open. hint: as root, --detail calls counts their bytes.",
            facts.join(" and ")
        ),
    }
}

/// Returns the name of a kind of sockets, before the word "socket".
fn title(kind: &str) -> &'static str {
    match kind {
        "tcp" => "TCP",
        "mptcp" => "MPTCP",
        "udp" => "UDP",
        "unix" => "UNIX",
        "smc" => "SMC",
        "sctp" => "SCTP",
        "raw" => "raw IP",
        "packet" => "packet",
        "netlink" => "netlink",
        "vsock" => "VM (vsock)",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a count of open sockets and calls of one kind.
    fn line(kind: &str, open: u64, calls: Option<u64>) -> SocketKind {
        SocketKind {
            kind: kind.to_owned(),
            open,
            sends: calls,
            sent_bytes: calls.map(|calls| 100 * calls),
            receives: calls.map(|_| 0),
            received_bytes: calls.map(|_| 0),
        }
    }

    /// Returns the sentence on sockets that the recording does not see.
    fn why(sockets: &[SocketKind]) -> String {
        why_unseen(sockets, &[], 0).expect("counted")
    }

    #[test]
    fn older_recording_gives_no_reason() {
        assert_eq!(why_unseen(&[], &[], 3), None);
    }

    #[test]
    fn active_sockets_are_named_before_open_ones() {
        let tcp = line("tcp", 0, None);
        let text = why(&[
            tcp.clone(),
            line("udp", 1, Some(13)),
            line("netlink", 1, Some(0)),
        ]);
        assert_eq!(
            text,
            "The recorded processes used only UDP sockets (13 sends of 1.30 kB, 0 receives of 0 B). \
             hint: --detail messages records UDP."
        );
        let text = why(&[line("tcp", 2, None), line("unix", 0, Some(1))]);
        assert!(
            text.starts_with("The recorded processes used UNIX sockets (1 send"),
            "{text}"
        );
        assert!(
            text.ends_with("whylat does not record UNIX sockets."),
            "{text}"
        );
    }

    #[test]
    fn recorded_kinds_are_not_listed_as_unseen() {
        let on = Coverage {
            probe: "unix_sockets".to_owned(),
            state: ProbeState::On,
        };
        let sockets = [line("tcp", 0, None), line("unix", 1, Some(2))];
        assert_eq!(
            why_unseen(&sockets, std::slice::from_ref(&on), 0).as_deref(),
            Some(
                "The recorded processes used only UNIX sockets (2 sends of 200 B, 0 receives of 0 B)."
            )
        );
        assert!(has_other_sockets(&sockets, &[on]));
        assert!(!has_other_sockets(&sockets, &[]));
    }

    #[test]
    fn mptcp_sockets_without_subflows_are_no_unknown_kind() {
        let text = why(&[line("tcp", 0, None), line("mptcp", 1, Some(5))]);
        assert!(text.contains("did not find the subflows"), "{text}");
        assert!(!text.contains("does not record"), "{text}");
    }

    #[test]
    fn idle_sockets_are_distinguished_from_none() {
        let counted = line("unix", 0, Some(0));
        let text = why(&[line("tcp", 0, None), counted.clone()]);
        assert_eq!(
            text,
            "No recorded process sent or received a byte over any socket."
        );
        let text = why(&[line("tcp", 1, None), counted]);
        assert_eq!(
            text,
            "The TCP sockets of the recorded processes had no connection."
        );
        let text = why(&[line("udp", 2, None)]);
        assert!(text.contains("had 2 UDP sockets open. hint:"), "{text}");
        let text = why_unseen(&[line("tcp", 1, None)], &[], 1).expect("counted");
        assert_eq!(text, "One TCP socket listened, and no client connected.");
        let text = why_unseen(&[line("tcp", 2, None), line("udp", 1, Some(3))], &[], 2);
        let text = text.expect("counted");
        assert!(text.contains("UDP sockets (3 sends"), "{text}");
        assert!(
            text.ends_with("2 TCP sockets listened, and no client connected."),
            "{text}"
        );
    }
}
