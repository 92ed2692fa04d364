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

/// Reasons of dropped packets.
const DROPS: &[(&str, &str, &str)] = &[
    (
        "NETFILTER_DROP",
        "A firewall rule dropped the packet.",
        "List the chains at that hook: `nft list ruleset`, `iptables-save`.",
    ),
    (
        "NO_SOCKET",
        "No socket has this address and port.",
        "Start the server, or correct the port: `ss -lntu` lists what listens.",
    ),
    (
        "SOCKET_RCVBUFF",
        "The receive buffer of the socket was full.",
        "Read faster, or raise SO_RCVBUF and net.core.rmem_max.",
    ),
    (
        "SOCKET_BACKLOG",
        "The socket's backlog was full while a thread held the socket.",
        "Read faster, or raise SO_RCVBUF.",
    ),
    (
        "SOCKET_FILTER",
        "A filter of the socket (SO_ATTACH_FILTER) dropped the packet.",
        "Check the filter that the program attaches.",
    ),
    (
        "PROTO_MEM",
        "The memory of the protocol is used up.",
        "Raise net.ipv4.tcp_mem or net.ipv4.udp_mem, or find who holds it: `ss -m`.",
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
        "The IP header is not acceptable: most often the TTL reached zero.",
        "Look for a routing loop: `traceroute`, `ip route get`.",
    ),
    (
        "IP_RPFILTER",
        "The reverse path filter dropped the packet: no route leads back to its sender by that device.",
        "Add the route, or set net.ipv4.conf.DEVICE.rp_filter to 2.",
    ),
    (
        "IP_INNOROUTES",
        "This host forwards, and has no route to the destination.",
        "Add the route: `ip route get ADDRESS`.",
    ),
    (
        "IP_OUTNOROUTES",
        "This host has no route to the destination.",
        "Add the route: `ip route get ADDRESS`.",
    ),
    (
        "IP_INADDRERRORS",
        "The destination is no address of this host, and it does not forward.",
        "Correct the address, or turn on net.ipv4.ip_forward.",
    ),
    (
        "IP_INVALID_SOURCE",
        "The source address cannot be one.",
        "Look for the sender of such packets.",
    ),
    (
        "IP_LOCAL_SOURCE",
        "The source is an address of this host.",
        "Look for a second host with the same address.",
    ),
    (
        "NEIGH_FAILED",
        "The next hop does not answer ARP or neighbour discovery.",
        "Check that the next hop is up: `ip neigh`.",
    ),
    (
        "NEIGH_QUEUEFULL",
        "Too many packets waited for the next hop's address.",
        "Check that the next hop is up: `ip neigh`.",
    ),
    (
        "QDISC_DROP",
        "The queue of the device was full.",
        "Raise its limit or rate, or send less: `tc -s qdisc`.",
    ),
    (
        "QDISC_OVERLIMIT",
        "The queue of the device was full.",
        "Raise its limit or rate, or send less: `tc -s qdisc`.",
    ),
    (
        "QDISC_CONGESTED",
        "The queue of the device dropped the packet to signal congestion.",
        "The path is the bottleneck: `tc -s qdisc`.",
    ),
    (
        "FQ_FLOW_LIMIT",
        "One flow filled its part of the device's queue.",
        "Raise flow_limit of fq: `tc -s qdisc`.",
    ),
    (
        "TC_INGRESS",
        "A filter of tc dropped the packet as it came.",
        "List the filters: `tc filter show dev DEVICE ingress`.",
    ),
    (
        "TC_EGRESS",
        "A filter of tc dropped the packet as it left.",
        "List the filters: `tc filter show dev DEVICE egress`.",
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
        "The backlog of the CPU was full.",
        "Raise net.core.netdev_max_backlog, or spread the packets over CPUs (RPS).",
    ),
    (
        "FULL_RING",
        "The ring of a tun or tap device was full.",
        "The reader of that device is too slow; raise its txqueuelen.",
    ),
    (
        "DEV_READY",
        "The device was down.",
        "Bring it up: `ip link set DEVICE up`.",
    ),
    (
        "PKT_TOO_BIG",
        "The packet is larger than the MTU of the next device.",
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
        "The segment lies beyond the receive window.",
        "Read faster, or raise net.ipv4.tcp_rmem.",
    ),
    (
        "TCP_ZEROWINDOW",
        "The receive window was zero.",
        "Read faster, or raise net.ipv4.tcp_rmem.",
    ),
    (
        "TCP_OFO_QUEUE_PRUNE",
        "The receiver ran out of buffer and threw away segments that had come out of order.",
        "Read faster, or raise net.ipv4.tcp_rmem.",
    ),
    (
        "TCP_RFC7323_PAWS",
        "The timestamp of the segment is older than one before (PAWS).",
        "Look for several hosts behind one address (NAT).",
    ),
    (
        "TCP_ABORT_ON_DATA",
        "Data came for a socket that the program had closed.",
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
];

/// Reasons of resets that this host sent.
const RESETS: &[(&str, &str, &str)] = &[
    (
        "NO_SOCKET",
        "Nobody listens on this port.",
        "Start the server, or correct the port: `ss -lnt` lists what listens.",
    ),
    (
        "TCP_ABORT_ON_CLOSE",
        "The program closed a connection with unread data.",
        "Let the program read until the end before it closes.",
    ),
    (
        "TCP_ABORT_ON_DATA",
        "Data came after the program had closed the connection.",
        "Let the program read until the end before it closes.",
    ),
    (
        "TCP_ABORT_ON_LINGER",
        "The program closed with SO_LINGER and a time of zero, or its time was over.",
        "Remove SO_LINGER, or give it a time.",
    ),
    (
        "TCP_ABORT_ON_MEMORY",
        "The kernel had too little memory for orphaned connections.",
        "Raise net.ipv4.tcp_max_orphans or net.ipv4.tcp_mem.",
    ),
    (
        "TCP_KEEPALIVE_TIMEOUT",
        "The other end did not answer keep-alive probes.",
        "Check the other end; net.ipv4.tcp_keepalive_* sets the times.",
    ),
    (
        "TCP_STATE",
        "The program ended the connection in a state that has to be reset: such as a listener with connections that nobody accepted.",
        "Accept the connections before the listener is closed.",
    ),
    (
        "TCP_DISCONNECT_WITH_DATA",
        "The program disconnected a socket with unsent or unread data.",
        "Let the program shut the connection down first.",
    ),
    (
        "TCP_TIMEWAIT_SOCKET",
        "A segment came for a connection in TIME_WAIT.",
        "Look for a client that uses the same port again.",
    ),
];

/// Functions that drop for another reason than they give: net/ipv4/syncookies.c and net/ipv6/syncookies.c say NO_SOCKET where
/// the accept queue has no room for the connection.
const PLACES: &[(&str, &str)] = &[
    ("cookie_v4_check", "TCP_LISTEN_OVERFLOW"),
    ("cookie_v6_check", "TCP_LISTEN_OVERFLOW"),
];

/// Returns the meaning of a reason in a function; `None`: it is not listed here.
pub fn find_meaning(kind: DropKind, reason: &str, place: Option<&str>) -> Option<ReasonMeaning> {
    let other = PLACES.iter().find(|(name, _)| Some(*name) == place);
    let reason = match other {
        Some((_, true_reason)) if kind == DropKind::Packet && reason == "NO_SOCKET" => true_reason,
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
