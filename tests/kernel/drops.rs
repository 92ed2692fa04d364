//! Drops and resets against the numbers that were planted, between two network namespaces.

use std::collections::BTreeMap;

use lab::Netns;
use table::DropKind;
use table::tables::{DropCount, NetCounter, PacketDrop, TcpEvent};

use testbed::report::{Report, ask, number, text};
use testbed::{ChildGuard, record_command, root, write_source};

use crate::udp::pair;

/// Plants drops: see its head.
const DROPS: &str = include_str!("programs/drops.py");

/// The port of all packets here.
const PORT: u16 = 20917;

/// Drops that were recorded, and those that were planted.
struct PlantedDrops {
    a: Netns,
    b: Netns,
    planted: BTreeMap<String, u64>,
    report: Report,
}

impl PlantedDrops {
    fn record(steps: &[&str]) -> Self {
        let (a, b) = pair();
        // counters are those of namespaces with a process
        let _process = ChildGuard::start(b.command("sleep").arg("600"));
        let scratch = tempfile::tempdir().expect("a directory");
        let source = write_source(scratch.path(), "drops.py", DROPS);
        let (a_path, b_path, port) = (a.path(), b.path(), PORT.to_string());
        let paths = [&a_path, &b_path].map(|path| path.to_str().expect("text"));
        let command = [&["python3", &source, paths[0], paths[1], &port], steps].concat();
        let (report, lines) = record_command(scratch, &["--detail", "calls"], &command);
        report.assert_whole();
        let planted = lines.iter().map(|line| {
            let step = text(line, "step").to_owned();
            (step, number(line, "/planted"))
        });
        let planted: BTreeMap<String, u64> = planted.collect();
        assert_eq!(planted.len(), steps.len());
        PlantedDrops {
            a,
            b,
            planted,
            report,
        }
    }

    fn planted(&self, steps: &[&str]) -> u64 {
        steps.iter().map(|step| self.planted[*step]).sum()
    }

    /// Asserts the count of a reason in a namespace, and that all of them are stored, with their addresses.
    #[track_caller]
    fn assert_count(&self, kind: DropKind, reason: Option<&str>, netns: &Netns, steps: &[&str]) {
        let is_it = |found: &Option<String>, in_netns: Option<u32>| {
            found.as_deref() == reason && in_netns.map(u64::from) == Some(netns.inode())
        };
        let last = last_counts(&self.report);
        let counted = last
            .iter()
            .filter(|row| row.kind == kind && is_it(&row.reason, row.netns) && !is_of_ipv6(row));
        let counted: u64 = counted.map(|row| row.count).sum();
        let rows: Vec<PacketDrop> = self.report.rows();
        let stored = rows.iter().filter(|row| {
            row.kind == kind && is_it(&row.reason, row.netns) && has_port(row) && !row.ordinary
        });
        let stored = stored.count() as u64;
        let planted = self.planted(steps);
        assert_eq!(
            (counted, stored),
            (planted, planted),
            "{reason:?}: {last:#?}"
        );
    }

    /// Returns the stored packets that qdiscs of the sender's namespace dropped.
    fn rows_of_qdiscs(&self) -> Vec<PacketDrop> {
        let rows = self.report.rows::<PacketDrop>().into_iter();
        let is_own = |row: &PacketDrop| row.netns.map(u64::from) == Some(self.a.inode());
        let rows = rows.filter(is_own);
        rows.filter(|row| row.reason.as_deref() == Some("QDISC_DROP"))
            .collect()
    }

    /// Asserts that a rule fires.
    #[track_caller]
    fn assert_finding(&self, rule: &str) {
        let findings = self.report.json["findings"].as_array().expect("findings");
        let fired = findings.iter().any(|finding| finding["rule"] == rule);
        assert!(fired, "{}", self.report.brief());
    }

    /// Asserts how many drops have a function in their stack.
    #[track_caller]
    fn assert_stacks(&self, place: &str, function: &str, steps: &[&str]) {
        let rows: Vec<PacketDrop> = self.report.rows();
        let found = rows.iter().filter(|row| {
            let stack = row.stack.as_deref().unwrap_or_default();
            row.place.as_deref() == Some(place) && stack.split(" < ").any(|it| it == function)
        });
        assert_eq!(found.count() as u64, self.planted(steps), "{function}");
    }
}

/// One of its ends has the port of this test.
fn has_port(row: &PacketDrop) -> bool {
    let ends = [&row.source, &row.destination].into_iter().flatten();
    let port = format!(":{PORT}");
    ends.into_iter().any(|end| end.ends_with(&port))
}

/// The kernel speaks IPv6 by itself on a device that has come up, until the program disables it there; what is planted
/// is IPv4.
fn is_of_ipv6(row: &DropCount) -> bool {
    let place = row.place.as_deref().unwrap_or_default();
    let parts = ["ip6", "ipv6", "icmpv6", "ndisc", "mld"];
    parts.iter().any(|part| place.contains(part))
}

/// The last count of each reason and place.
fn last_counts(report: &Report) -> Vec<DropCount> {
    let mut rows: Vec<DropCount> = report.rows();
    rows.sort_by_key(|row| row.time_ns);
    let key = |row: &DropCount| {
        let (reason, place) = (row.reason.clone(), row.place.clone());
        (row.kind, reason, place, row.netns, row.ifindex)
    };
    let last: BTreeMap<_, _> = rows.into_iter().map(|row| (key(&row), row)).collect();
    last.into_values().collect()
}

#[test]
fn planted_datagrams_have_reason_and_place() {
    if !root() {
        return;
    }
    let found = PlantedDrops::record(&[
        "nft_input",
        "nft_output",
        "nft_reject",
        "nft_forward",
        "no_socket",
        "no_route",
        "ttl",
        "rp_filter",
        "checksum",
        "udp_buffer",
        "qdisc",
    ]);
    let (a, b) = (&found.a, &found.b);
    let packet = |reason, netns, steps: &[&str]| {
        found.assert_count(DropKind::Packet, Some(reason), netns, steps);
    };
    packet("NETFILTER_DROP", a, &["nft_output"]);
    packet(
        "NETFILTER_DROP",
        b,
        &["nft_input", "nft_reject", "nft_forward"],
    );
    packet("NO_SOCKET", b, &["no_socket"]);
    packet("IP_INNOROUTES", b, &["no_route"]);
    packet("IP_INHDR", b, &["ttl"]);
    packet("IP_RPFILTER", b, &["rp_filter"]);
    packet("UDP_CSUM", b, &["checksum"]);
    packet("SOCKET_RCVBUFF", b, &["udp_buffer"]);
    packet("QDISC_DROP", a, &["qdisc"]);
    found.assert_count(DropKind::UdpQueueFull, None, b, &["udp_buffer"]);
    let icmp = |reason, steps: &[&str]| {
        found.assert_count(DropKind::IcmpSent, Some(reason), b, steps);
    };
    icmp("type 11 code 0", &["ttl"]);
    icmp("type 3 code 3", &["nft_reject", "no_socket"]);
    let netfilter = |function, steps: &[&str]| {
        found.assert_stacks("nft_do_chain", function, steps);
    };
    netfilter("ip_local_deliver", &["nft_input", "nft_reject"]);
    netfilter("ip_forward", &["nft_forward"]);
    netfilter("__ip_local_out", &["nft_output"]);
}

/// The kernel says only that a qdisc dropped them: which one, its limit and what waited come from the qdisc itself.
#[test]
fn drops_of_a_qdisc_name_it() {
    if !root() {
        return;
    }
    let plays = [
        ("qdisc", "v0", "tbf", "bfifo", Some(4000), Some(true)),
        ("qdisc_pfifo", "v0", "htb", "pfifo", Some(7), Some(true)),
        (
            "qdisc_burst",
            "v0",
            "tbf",
            "bfifo",
            Some(90_000),
            Some(false),
        ),
        (
            "qdisc_classes",
            "v0",
            "htb",
            "bfifo",
            Some(4000),
            Some(true),
        ),
        ("qdisc_nested", "v0", "htb", "tbf", None, None),
        ("qdisc_queues", "v1", "tbf", "bfifo", Some(4000), Some(true)),
    ];
    for (step, device, kind, child, limit, is_full) in plays {
        let found = PlantedDrops::record(&[step]);
        found.assert_count(DropKind::Packet, Some("QDISC_DROP"), &found.a, &[step]);
        let rows = found.rows_of_qdiscs();
        assert!(!rows.is_empty(), "{step}");
        for row in rows {
            let qdisc = (row.qdisc.as_deref(), row.qdisc_child.as_deref());
            assert_eq!(qdisc, (Some(kind), Some(child)), "{row:?}");
            assert_eq!(row.qdisc_candidates, None, "{row:?}");
            assert_eq!(row.device.as_deref(), Some(device), "{row:?}");
            assert_eq!(row.qdisc_limit, limit, "{row:?}");
            assert_eq!(row.qdisc_full, is_full, "{row:?}");
        }
        let answer = ask(found.report.path(), "--drops");
        let full = if is_full == Some(true) { ", full" } else { "" };
        let named = format!("{kind} of {device}{full}");
        let reasons = answer["reasons"].as_array().expect("reasons");
        // another test may drop at a qdisc of its own meanwhile
        let qdiscs = reasons.iter().filter_map(|it| it["qdiscs"].as_array());
        let is_named = qdiscs.flatten().any(|it| it["name"] == named);
        assert!(is_named, "{answer:#}");
    }
}

/// The first class alone has dropped packets, until the second one does so, too.
#[test]
fn children_that_may_have_dropped_a_packet_are_named() {
    if !root() {
        return;
    }
    let found = PlantedDrops::record(&["qdisc_in_turn"]);
    found.assert_count(
        DropKind::Packet,
        Some("QDISC_DROP"),
        &found.a,
        &["qdisc_in_turn"],
    );
    let mut rows = found.rows_of_qdiscs();
    rows.sort_by_key(|row| row.time_ns);
    let children = rows.into_iter().map(|row| {
        assert_eq!(row.qdisc.as_deref(), Some("htb"), "{row:?}");
        (row.qdisc_child, row.qdisc_candidates, row.qdisc_full)
    });
    let mut children: Vec<_> = children.collect();
    children.dedup();
    let text = |it: &str| Some(it.to_owned());
    let expected = [
        (text("pfifo"), None, Some(true)),
        (None, text("bfifo, pfifo"), None),
    ];
    assert_eq!(children, expected);
    let answer = ask(found.report.path(), "--drops");
    let reasons = answer["reasons"].as_array().expect("reasons");
    let named = reasons.iter().flat_map(|it| {
        let qdiscs = it["qdiscs"].as_array().expect("qdiscs").iter();
        qdiscs.map(|qdisc| text(qdisc["name"].as_str()?))
    });
    let named: Vec<_> = named.flatten().collect();
    let expected = ["htb of v0, bfifo or pfifo below it", "htb of v0, full"];
    assert!(
        expected
            .iter()
            .all(|it| named.iter().any(|name| name == it)),
        "{named:?}"
    );
}

#[test]
fn planted_resets_have_a_reason() {
    if !root() {
        return;
    }
    let found = PlantedDrops::record(&["refused", "unread_close", "linger"]);
    let (a, b) = (&found.a, &found.b);
    let sent = |reason, steps: &[&str]| {
        found.assert_count(DropKind::ResetSent, Some(reason), b, steps);
    };
    sent("NO_SOCKET", &["refused"]);
    sent("TCP_ABORT_ON_CLOSE", &["unread_close"]);
    found.assert_count(DropKind::ResetSent, Some("TCP_STATE"), a, &["linger"]);
    let both = ["refused", "unread_close"];
    found.assert_count(DropKind::ResetReceived, None, a, &both);
    found.assert_count(DropKind::ResetReceived, None, b, &["linger"]);
    found.assert_count(DropKind::Packet, Some("NO_SOCKET"), b, &["refused"]);
    found.assert_finding("reset_by_us");
}

/// Every dropped segment had to be retransmitted, as its bytes arrived in the end. A timer that ends while the
/// agent of a sandbox is the current task passes no hook: the kernel's own counter shows its retransmission.
#[test]
fn retransmissions_are_found_among_the_drops() {
    if !root() {
        return;
    }
    let found = PlantedDrops::record(&["lossy_stream"]);
    let (netns, steps) = (&found.b, ["lossy_stream"]);
    found.assert_count(DropKind::Packet, Some("NETFILTER_DROP"), netns, &steps);
    let answer = ask(found.report.path(), "--drops");
    let retransmissions = &answer["retransmissions"];
    let planted = found.planted(&steps);
    assert!(planted > 0);
    let mut shown = found.report.rows::<TcpEvent>();
    shown.retain(|event| event.kind.is_retransmission());
    let unseen = planted.saturating_sub(shown.len() as u64);
    assert!(unseen <= 2, "{shown:#?}");
    let dropped_here = number(retransmissions, "/dropped_here");
    assert!(dropped_here + unseen >= planted, "{answer:#}");
    assert_eq!(number(retransmissions, "/unknown"), unseen, "{answer:#}");
    assert_eq!(retransmissions["by"][0]["reason"], "NETFILTER_DROP");
    found.assert_finding("packet_dropped_here");
}

/// The kernel ends a SYN that finds a full accept queue as if it had done its work: its own counter shows it.
#[test]
fn listen_overflow_is_in_the_counters() {
    if !root() {
        return;
    }
    let found = PlantedDrops::record(&["listen_overflow"]);
    let counters: Vec<NetCounter> = found.report.rows();
    let grown = counters
        .iter()
        .find(|row| u64::from(row.netns) == found.b.inode() && row.name == "TcpExtListenOverflows");
    let grown = grown.map(|row| row.last - row.first);
    assert_eq!(
        grown,
        Some(found.planted["listen_overflow"]),
        "{counters:#?}"
    );
    assert!(found.planted["listen_overflow"] > 0);
}
