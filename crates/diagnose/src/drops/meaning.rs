//! A reason of the kernel → its meaning and a remedy. The names are the kernel's own; one that is not listed here is
//! reported all the same.

use table::DropKind;

/// Meaning of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReasonMeaning {
    /// A sentence: the event.
    pub what: &'static str,
    /// A sentence: the remedy.
    pub remedy: &'static str,
}

/// Reasons of dropped packets, in the words of `include/net/dropreason-core.h` and of the functions that give them. Those
/// that begin with `QDISC_DROP_` are of `include/net/dropreason-qdisc.h` (Linux 7.1).
const DROPS: &[(&str, &str, &str)] = &[
    (
        "NETFILTER_DROP",
        "Netfilter, the firewall, dropped the packet.",
        "List the chains at that hook: `nft list ruleset`, `iptables-save`. If none drops it, look for a full connection tracking table: `dmesg`.",
    ),
    (
        "NO_SOCKET",
        "No socket takes the packet.",
        "If nothing listens on its port (`ss -lntu`), start the server, or correct the port. Else the connection had ended before.",
    ),
    (
        "SOCKET_RCVBUFF",
        "The receive buffer of the socket was full.",
        "Read faster, or raise SO_RCVBUF and net.core.rmem_max.",
    ),
    (
        "SOCKET_BACKLOG",
        "The kernel could not add the packet to the backlog of a socket that a thread held.",
        "Read faster, or raise SO_RCVBUF.",
    ),
    (
        "SOCKET_FILTER",
        "A filter dropped the packet before the socket took it.",
        "Check the filter that the program attaches (SO_ATTACH_FILTER), and BPF programs of control groups: `bpftool cgroup tree`.",
    ),
    (
        "PROTO_MEM",
        "The memory of the protocol or, with TCP, the receive buffer of the socket had no room.",
        "Read faster, or raise net.ipv4.tcp_rmem, tcp_mem or udp_mem; `ss -m` shows who holds memory.",
    ),
    (
        "TCP_CSUM",
        "The checksum of the TCP segment is wrong.",
        "Look for a faulty device, cable or offload on the path: `ethtool -S`, `ethtool -k`.",
    ),
    (
        "UDP_CSUM",
        "The checksum of the datagram is wrong.",
        "Look for a faulty device, cable or offload on the path: `ethtool -S`, `ethtool -k`.",
    ),
    (
        "IP_CSUM",
        "The checksum of the IP header is wrong.",
        "Look for a faulty device, cable or offload on the path: `ethtool -S`, `ethtool -k`.",
    ),
    (
        "IP_INHDR",
        "The IP header is not acceptable.",
        "Look at the sender of such packets.",
    ),
    (
        "IP_RPFILTER",
        "The reverse path filter dropped the packet: no route leads back to its sender, or none by that device.",
        "Add the route, or set net.ipv4.conf.DEVICE.rp_filter to 2.",
    ),
    (
        "IP_INNOROUTES",
        "This host received the packet, and has no route to its destination.",
        "Add the route: `ip route get ADDRESS`.",
    ),
    (
        "IP_OUTNOROUTES",
        "The kernel found no route for the packet.",
        "Add the route: `ip route get ADDRESS`.",
    ),
    (
        "IP_INADDRERRORS",
        "The packet is for another host, and this host cannot forward it.",
        "Correct the address, or turn on net.ipv4.ip_forward.",
    ),
    (
        "IP_INVALID_SOURCE",
        "The source address is multicast, broadcast or zero.",
        "Look for the sender of such packets.",
    ),
    (
        "IP_LOCAL_SOURCE",
        "The source is an address of this host.",
        "Look for a second host with the same address, or for own packets that come back.",
    ),
    (
        "NEIGH_FAILED",
        "The next hop's entry in the neighbour table has failed: ARP or neighbour discovery found nobody.",
        "Check that the next hop is up: `ip neigh`.",
    ),
    (
        "NEIGH_QUEUEFULL",
        "Too many packets waited for the next hop's address.",
        "Check that the next hop is up: `ip neigh`.",
    ),
    (
        "QDISC_DROP",
        "A qdisc dropped the packet.",
        "`tc -s qdisc` shows its limit, its backlog and its drops.",
    ),
    (
        "QDISC_OVERLIMIT",
        "A qdisc dropped the packet, as it held as much as its limit allows.",
        "Raise its limit or rate, or send less: `tc -s qdisc`.",
    ),
    (
        "QDISC_CONGESTED",
        "A qdisc dropped the packet to signal congestion.",
        "Raise its rate, or send less: `tc -s qdisc`.",
    ),
    (
        "FQ_FLOW_LIMIT",
        "A qdisc dropped the packet, as its flow held as much as the limit of one flow allows.",
        "Raise the limit of one flow (flow_limit of fq): `tc -s qdisc`.",
    ),
    (
        "TC_INGRESS",
        "A filter or an action of tc dropped the packet as it came.",
        "List the filters: `tc filter show dev DEVICE ingress`; BPF programs: `bpftool net`.",
    ),
    (
        "TC_EGRESS",
        "A filter or an action of tc dropped the packet as it left.",
        "List the filters: `tc filter show dev DEVICE egress`; BPF programs: `bpftool net`.",
    ),
    (
        "XDP",
        "An XDP program dropped the packet.",
        "List the programs: `ip link`, `bpftool net`.",
    ),
    (
        "BPF_CGROUP_EGRESS",
        "A BPF program of a control group dropped the packet.",
        "List the programs: `bpftool cgroup tree`.",
    ),
    (
        "CPU_BACKLOG",
        "The backlog of a CPU did not take the packet: it was full, or a flow reached its limit there.",
        "Raise net.core.netdev_max_backlog, spread the packets over CPUs (RPS), or look at net.core.flow_limit_cpu_bitmap.",
    ),
    (
        "FULL_RING",
        "The ring of the device was full.",
        "If it is a tun or tap device, its reader is too slow; or raise its txqueuelen.",
    ),
    (
        "DEV_READY",
        "The device was not ready: it is down, or not set up.",
        "Bring it up: `ip link set DEVICE up`.",
    ),
    (
        "PKT_TOO_BIG",
        "The packet was too large, maybe for the MTU of the next device.",
        "Make the MTU equal along the path, or let ICMP pass.",
    ),
    (
        "NOMEM",
        "The kernel had no memory for the packet.",
        "Look for what uses the memory: `slabtop`, `free`.",
    ),
    (
        "TCP_LISTEN_OVERFLOW",
        "The accept queue of the listening socket was full.",
        "Accept faster, or raise the backlog of listen() and net.core.somaxconn.",
    ),
    (
        "TCP_OVERWINDOW",
        "The segment begins beyond the receive window.",
        "Read faster, or raise net.ipv4.tcp_rmem.",
    ),
    (
        "TCP_ZEROWINDOW",
        "The receive window was zero.",
        "Read faster, or raise net.ipv4.tcp_rmem.",
    ),
    (
        "TCP_OFO_QUEUE_PRUNE",
        "The receiver had too little memory, and threw away segments that had come out of order.",
        "Read faster, or raise net.ipv4.tcp_rmem.",
    ),
    (
        "TCP_RFC7323_PAWS",
        "The timestamp of the segment is older than one before (PAWS).",
        "Look for several hosts behind one address (NAT).",
    ),
    (
        "TCP_ABORT_ON_DATA",
        "Data came after the program had closed the socket, or its receiving side.",
        "Let the program read until the end before it closes.",
    ),
    (
        "TCP_FLAGS",
        "The flags of the segment do not fit the state of the connection.",
        "Look for a middlebox that changes segments.",
    ),
    (
        "TCP_INVALID_SEQUENCE",
        "The sequence number lies outside the window.",
        "Look for a middlebox that changes segments, or for a connection that one end has forgotten.",
    ),
    (
        "IP_INHDR_TTL",
        "The TTL of the packet reached zero on this host.",
        "Look for a routing loop: `traceroute`, `ip route get`.",
    ),
    (
        "QDISC_DROP_GENERIC",
        "A qdisc dropped the packet.",
        "`tc -s qdisc` shows its limit, its backlog and its drops.",
    ),
    (
        "QDISC_DROP_OVERLIMIT",
        "A qdisc dropped the packet, as it held as much as its limit allows.",
        "Raise its limit or rate, or send less: `tc -s qdisc`.",
    ),
    (
        "QDISC_DROP_CONGESTED",
        "A qdisc dropped the packet to signal congestion.",
        "Raise its rate, or send less: `tc -s qdisc`.",
    ),
    (
        "QDISC_DROP_FLOW_LIMIT",
        "A qdisc dropped the packet, as its flow held as much as the limit of one flow allows.",
        "Raise the limit of one flow (flow_limit of fq): `tc -s qdisc`.",
    ),
    (
        "FQ_BAND_LIMIT",
        "The qdisc fq dropped the packet, as a band of its priority held as much as the limit allows.",
        "Raise limit of fq, or send less: `tc -s qdisc`.",
    ),
    (
        "QDISC_DROP_FQ_BAND_LIMIT",
        "The qdisc fq dropped the packet, as a band of its priority held as much as the limit allows.",
        "Raise limit of fq, or send less: `tc -s qdisc`.",
    ),
    (
        "FQ_HORIZON_LIMIT",
        "The qdisc fq dropped the packet, as it is to leave later than its horizon.",
        "Raise horizon of fq, or correct the time that the program sets (SO_TXTIME): `tc -s qdisc`.",
    ),
    (
        "QDISC_DROP_FQ_HORIZON_LIMIT",
        "The qdisc fq dropped the packet, as it is to leave later than its horizon.",
        "Raise horizon of fq, or correct the time that the program sets (SO_TXTIME): `tc -s qdisc`.",
    ),
    (
        "CAKE_FLOOD",
        "The flood protection of the qdisc cake dropped the packet.",
        "Raise its rate, or send less: `tc -s qdisc`.",
    ),
    (
        "QDISC_DROP_CAKE_FLOOD",
        "The flood protection of the qdisc cake dropped the packet.",
        "Raise its rate, or send less: `tc -s qdisc`.",
    ),
    (
        "QDISC_DROP_MAXFLOWS",
        "A qdisc dropped the packet, as its table had no room for another flow.",
        "Raise its number of flows: `tc -s qdisc`.",
    ),
    (
        "TBF_SEGMENTS",
        "The qdisc tbf split the packet, and dropped all its segments.",
        "Raise its limit or rate, or send less: `tc -s qdisc`.",
    ),
    (
        "DUALPI2_STEP_DROP",
        "The qdisc dualpi2 dropped the packet at its step threshold.",
        "Raise its rate, or send less: `tc -s qdisc`.",
    ),
    (
        "SYN_COOKIE",
        "The kernel made no connection of a SYN cookie: the accept queue had no room, or memory was short.",
        "Accept faster, or raise the backlog of listen() and net.core.somaxconn.",
    ),
];

/// Reasons of resets that this host sent (`include/net/rstreason.h`). A close with SO_LINGER and a time of zero ends in
/// `tcp_disconnect()`, which says TCP_STATE; TCP_ABORT_ON_LINGER is of `linger2` alone (`__tcp_close()`).
const RESETS: &[(&str, &str, &str)] = &[
    (
        "NO_SOCKET",
        "No socket takes the segment.",
        "If nothing listens on its port (`ss -lnt`), start the server, or correct the port. Else the connection had ended before.",
    ),
    (
        "TCP_ABORT_ON_CLOSE",
        "The program closed a connection with unread data.",
        "Let the program read until the end before it closes.",
    ),
    (
        "TCP_ABORT_ON_DATA",
        "Data came after the program had closed the connection, or its receiving side.",
        "Let the program read until the end before it closes.",
    ),
    (
        "TCP_ABORT_ON_LINGER",
        "The program closed a connection that has TCP_LINGER2 below zero.",
        "Remove TCP_LINGER2, or give it a time.",
    ),
    (
        "TCP_ABORT_ON_MEMORY",
        "The kernel had too little memory for connections that no program holds, or too many of them.",
        "Raise net.ipv4.tcp_max_orphans or net.ipv4.tcp_mem.",
    ),
    (
        "TCP_KEEPALIVE_TIMEOUT",
        "The other end did not answer keep-alive probes.",
        "Check the other end; net.ipv4.tcp_keepalive_* sets the times.",
    ),
    (
        "TCP_STATE",
        "The program aborted an open connection: it closed with SO_LINGER and a time of zero, or closed a listener with connections that nobody accepted.",
        "Remove SO_LINGER, or accept the connections before the listener is closed.",
    ),
    (
        "TCP_DISCONNECT_WITH_DATA",
        "The program disconnected a socket with unsent data.",
        "Let the program shut the connection down first.",
    ),
    (
        "TCP_TIMEWAIT_SOCKET",
        "A segment came for a connection in TIME_WAIT.",
        "Look for a client that uses the same port again.",
    ),
];

/// A function that gives a reason, and a name here for what that reason means there. `cookie_v4_check()` and
/// `cookie_v6_check()` say NO_SOCKET where `tcp_get_cookie_sock()` makes none; `ip_forward()` and `ip6_forward()` say
/// IP_INHDR of the TTL alone; `tbf_segment()` frees without a reason what it split, if no segment found room.
const PLACES: &[(&str, &str, &str)] = &[
    ("cookie_v4_check", "NO_SOCKET", "SYN_COOKIE"),
    ("cookie_v6_check", "NO_SOCKET", "SYN_COOKIE"),
    ("tbf_enqueue", "NOT_SPECIFIED", "TBF_SEGMENTS"),
    ("tbf_segment", "NOT_SPECIFIED", "TBF_SEGMENTS"),
    ("ip_forward", "IP_INHDR", "IP_INHDR_TTL"),
    ("ip6_forward", "IP_INHDR", "IP_INHDR_TTL"),
];

/// Returns the meaning of a reason in a function; `None`: it is not listed here.
pub fn find_meaning(kind: DropKind, reason: &str, place: Option<&str>) -> Option<ReasonMeaning> {
    let is_there = |it: &&(&str, &str, &str)| place == Some(it.0) && reason == it.1;
    let there = PLACES.iter().find(is_there);
    let reason = match there {
        Some((.., special)) if kind == DropKind::Packet => special,
        _ => reason,
    };
    let list = match kind {
        DropKind::Packet => DROPS,
        DropKind::ResetSent => RESETS,
        _ => return None,
    };
    let (_, what, remedy) = list.iter().find(|(name, ..)| *name == reason)?;
    Some(ReasonMeaning { what, remedy })
}
