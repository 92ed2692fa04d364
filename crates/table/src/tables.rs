//! Every table of a recording. The doc lines here become `docs/tables.md`; units and the
//! meaning of null are part of the declaration.

use crate::names::{
    ActivityKind, ActivitySource, Caller, Chosen, CounterKind, DropKind, Role, SampleKind,
    TaskKind, TcpEventKind, ValueSource, WaitObject, Waker, Why, WorkloadKind, WorkloadSource,
    ZerocopyInterface,
};
use crate::{Stage, table};

table! {
    /// A process that owned a recorded socket. It has another row after each exec. Its last row is written again, with the
    /// same time, if a runtime shows the workload later; then that one holds.
    row Process, columns Processes, name "processes", time time_ns {
        /// Process id in the initial pid namespace.
        pid: u32, "-";
        /// When the row was written; of a process that was gone by then, when a hook saw it.
        time_ns: u64, "ns";
        /// When the process started: distinguishes two uses of one pid.
        started_ns: Option<u64>, "ns", null = "the process was gone before it was read, and no hook saw it";
        /// Command name (`/proc/PID/comm`), at most 15 bytes.
        comm: String, "-";
        /// Path of the executable.
        exe: Option<String>, "-", null = "not readable";
        /// Path of the control group.
        cgroup: Option<String>, "-", null = "not readable";
        /// Name of its container, as the runtime's own files have it; in a pod, that of the pod's specification.
        container: Option<String>, "-", null = "in no container, a pod's sandbox, or files not readable";
        /// Name of its pod.
        pod: Option<String>, "-", null = "in no pod, or files not readable";
        /// Namespace of its pod.
        pod_namespace: Option<String>, "-", null = "as pod";
        /// Name of the workload that the pod is of, in the namespace of the pod.
        workload: Option<String>, "-", null = "in no pod, or nothing on the node shows it";
        /// Kind of the workload.
        workload_kind: Option<WorkloadKind>, "-", null = "as workload";
        /// Facts that show the workload.
        workload_source: Option<WorkloadSource>, "-", null = "as workload";
        /// Real user id.
        uid: Option<u32>, "-", null = "not readable";
    }
}

table! {
    /// A TCP connection: one socket, so a connection within this host has two.
    /// A row is written when something about it becomes known; later values win.
    row Connection, columns Connections, name "connections", time time_ns {
        /// Socket cookie, unique on this host until reboot.
        conn: u64, "-";
        /// When the row was written.
        time_ns: u64, "ns";
        /// Inode number of the network namespace.
        netns: u32, "-";
        /// Local address and port.
        local: String, "-";
        /// Remote address and port.
        remote: String, "-";
        /// The side that opened it.
        role: Role, "-";
        /// Why it is recorded.
        chosen: Chosen, "-";
        /// When connect() was called.
        connect_ns: Option<u64>, "ns", null = "accepted, a peer's, open before the recording, or no BPF";
        /// SYNs retransmitted before it was established.
        syn_retries: Option<u32>, "segments", null = "as connect_ns";
        /// When it was established.
        opened_ns: Option<u64>, "ns", null = "open before the recording";
        /// When the socket reached the closed state.
        closed_ns: Option<u64>, "ns", null = "still open when last seen";
        /// Owning process.
        pid: Option<u32>, "-", null = "owner not known";
        /// The other end of this connection, when it is on this host and recorded.
        peer_conn: Option<u64>, "-", null = "other end not on this host, or not recorded";
        /// Whether TCP_NODELAY is set.
        nodelay: Option<bool>, "-", null = "not readable without BPF";
        /// Congestion control algorithm.
        congestion: Option<String>, "-", null = "not reported";
        /// Sending maximum segment size.
        mss_bytes: Option<u32>, "bytes", null = "not reported";
        /// Send buffer limit (`sk_sndbuf`).
        sndbuf_bytes: Option<u32>, "bytes", null = "not reported";
        /// Whether the application fixed the send buffer (SO_SNDBUF).
        sndbuf_locked: Option<bool>, "-", null = "not readable without BPF";
        /// Receive buffer limit (`sk_rcvbuf`).
        rcvbuf_bytes: Option<u32>, "bytes", null = "not reported";
        /// Whether the application fixed the receive buffer (SO_RCVBUF).
        rcvbuf_locked: Option<bool>, "-", null = "not readable without BPF";
        /// Protocol above TCP in the kernel (`icsk_ulp_ops`): `mptcp`, `tls`, …; empty: none.
        ulp: Option<String>, "-", null = "not readable without BPF";
        /// Token of the MPTCP connection with this subflow, as `ss -M` shows it at this end.
        mptcp_token: Option<u32>, "-", null = "no MPTCP: never asked for, or the other end did not speak it; or no BPF";
        /// Error with which it ended (`sk_err`, an errno): `ECONNRESET` and, after the other end's FIN, `EPIPE`: a RST
        /// came; `ETIMEDOUT`: nothing was acknowledged any more.
        errno: Option<i32>, "-", null = "none, still open when last seen, or no BPF";
    }
}

table! {
    /// One reading of a listening socket of a recorded process. It is read when it begins to listen, at a walk over
    /// open files, and when it closes. `conn` is its own cookie; connections accepted from it have others.
    row Listener, columns Listeners, name "listeners", time time_ns {
        /// Socket cookie.
        conn: u64, "-";
        /// When it was read.
        time_ns: u64, "ns";
        /// Inode number of the network namespace.
        netns: u32, "-";
        /// Local address and port.
        local: String, "-";
        /// Owning process.
        pid: Option<u32>, "-", null = "owner not known";
        /// When listen() was called.
        listen_ns: Option<u64>, "ns", null = "before the recording";
        /// When it closed.
        closed_ns: Option<u64>, "ns", null = "still open when last seen";
        /// Connections that wait to be accepted (`sk_ack_backlog`); gauge.
        waiting: u32, "-";
        /// How many may wait (`sk_max_ack_backlog`); gauge.
        waiting_max: u32, "-";
        /// Drops of what was to become a connection (`sk_drops`), for any reason; a packet may count
        /// twice; counter over the socket's life.
        drops: u32, "segments";
        /// Packets that found a full accept queue, of any listening socket of the namespace
        /// (`LINUX_MIB_LISTENOVERFLOWS`); counter over the namespace's life, read with `drops`.
        netns_listen_overflows: Option<u64>, "segments", null = "not readable on this kernel";
        /// Packets with a valid SYN cookie, of any listening socket of the namespace
        /// (`LINUX_MIB_SYNCOOKIESRECV`); counter over the namespace's life, read with `drops`.
        netns_syncookies_received: Option<u64>, "segments", null = "not readable on this kernel";
        /// How many descriptors the owning process may have (`RLIMIT_NOFILE`); gauge.
        descriptors_most: Option<u32>, "-", null = "read at walks only, up to 262,144";
        /// Whether it had no free descriptor then: accept() fails with `EMFILE`.
        descriptors_full: Option<bool>, "-", null = "as `descriptors_most`";
    }
}

table! {
    /// An attempt of a recorded process to connect that did not become a connection. A connect() that finds no route fails
    /// before it sends, and is not seen.
    row FailedConnect, columns FailedConnects, name "failed_connects", time end_ns {
        /// When the attempt ended.
        end_ns: u64, "ns";
        /// When connect() was called.
        start_ns: u64, "ns";
        /// Inode number of the network namespace.
        netns: u32, "-";
        /// Local address and port.
        local: Option<String>, "-", null = "no local port was free";
        /// Address and port that it asked for.
        remote: String, "-";
        /// Process that called connect().
        pid: u32, "-";
        /// Thread that called connect().
        tid: u32, "-";
        /// Why it failed, an errno: `ECONNREFUSED`: a RST came; `ETIMEDOUT`: no answer to any SYN; `EADDRNOTAVAIL`:
        /// no local port was free; `EHOSTUNREACH`, `ENETUNREACH` and others: an ICMP message came, or no neighbour answered.
        errno: Option<i32>, "-", null = "none: the program gave up before an answer";
        /// SYNs retransmitted.
        syn_retries: u32, "segments";
    }
}

table! {
    /// A wait of a recorded thread for a name server's answer, on a UDP socket connected to port 53. Each is also in
    /// `waits`. Event loops wait for several descriptors at once: their waits are not here.
    row DnsWait, columns DnsWaits, name "dns_waits", time end_ns {
        /// When it ran again.
        end_ns: u64, "ns";
        /// When it left the CPU.
        start_ns: u64, "ns";
        /// Thread that waited.
        tid: u32, "-";
        /// Its process.
        pid: u32, "-";
        /// Inode number of the socket, as `object` in `waits`.
        socket: u64, "-";
        /// Address and port of the name server.
        server: String, "-";
        /// Whether a datagram was there at the end: else its time limit had passed, or a signal or an error came.
        answered: bool, "-";
        /// Error of the socket, an errno: `ECONNREFUSED`: nobody listens there.
        errno: Option<i32>, "-", null = "none";
    }
}

table! {
    /// A UDP socket of a recorded process that received or sent something. A row is written at its first message,
    /// when its owner or addresses have changed, and when it closes. One is written at the end, too.
    row UdpSocket, columns UdpSockets, name "udp_sockets", time time_ns {
        /// Socket cookie.
        conn: u64, "-";
        /// When the row was written.
        time_ns: u64, "ns";
        /// Inode number of the network namespace.
        netns: u32, "-";
        /// Local address and port.
        local: String, "-";
        /// Remote address and port, of connect().
        remote: Option<String>, "-", null = "not connected: each datagram may come from and go to another";
        /// Owning process.
        pid: Option<u32>, "-", null = "owner not known";
        /// When it was created.
        created_ns: Option<u64>, "ns", null = "before the recording, or not seen";
        /// When it closed.
        closed_ns: Option<u64>, "ns", null = "open when last seen, or not seen";
        /// Receive calls that took a datagram; counter since the recording began.
        received: u64, "-";
        /// Send calls that gave one; counter since the recording began.
        sent: u64, "-";
        /// Datagrams that found the receive buffer full and were dropped (`udp_fail_queue_rcv_skb`); counter
        /// since the recording began.
        dropped: u64, "-";
    }
}

table! {
    /// A UNIX stream socket (SOCK_STREAM, SOCK_SEQPACKET) of a recorded process; its calls are rows of `calls`. A row
    /// is written at its first call, when its other end was accepted, and when another process calls; later values
    /// win. A pair within this host has two sockets: each `peer_inode` is the `inode` of the other.
    row UnixSocket, columns UnixSockets, name "unix_sockets", time time_ns {
        /// Socket cookie, unique on this host until reboot.
        conn: u64, "-";
        /// When the row was written.
        time_ns: u64, "ns";
        /// Inode number of the socket: `socket:[N]` of /proc/PID/fd, and `object` of `waits`.
        inode: Option<u64>, "-", null = "the socket has no file";
        /// Inode number of the other end.
        peer_inode: Option<u64>, "-", null = "the other end is not accepted yet, or has closed";
        /// Path of the listening socket; an abstract name begins with `@`.
        path: Option<String>, "-", null = "neither end has a name, as with socketpair()";
        /// The side that connected.
        role: Role, "-";
        /// Whether it keeps the bounds of messages (SOCK_SEQPACKET).
        is_seqpacket: bool, "-";
        /// Process that called.
        pid: Option<u32>, "-", null = "owner not known";
    }
}

table! {
    /// Datagrams between a UDP socket of a recorded process and one other address; its calls are rows of `calls`. A row is
    /// written at its first call. Of many addresses, those used least are forgotten: if one is used again, it is another flow.
    row UdpFlow, columns UdpFlows, name "udp_flows", time time_ns {
        /// Number of the flow, above all socket cookies.
        conn: u64, "-";
        /// When the row was written.
        time_ns: u64, "ns";
        /// Socket cookie.
        socket: u64, "-";
        /// Inode number of the socket: `socket:[N]` of /proc/PID/fd, and `object` of `waits`.
        inode: Option<u64>, "-", null = "the socket has no file";
        /// Inode number of the network namespace.
        netns: u32, "-";
        /// Local address and port.
        local: String, "-";
        /// The other end's address and port.
        remote: Option<String>, "-", null = "the socket is not connected, and no hook saw it (see coverage)";
        /// The side: the client sent first.
        role: Role, "-";
        /// Process that called.
        pid: Option<u32>, "-", null = "owner not known";
    }
}

table! {
    /// One reading of a connection's kernel statistics (`struct tcp_info`). Counters are
    /// cumulative over the connection's duration; gauges are the value at that time. A poll that
    /// finds nothing changed since the last stored row is counted as filtered, not stored.
    row TcpSample, columns TcpSamples, name "tcp_samples", time time_ns {
        /// Socket cookie.
        conn: u64, "-";
        /// When the sample was taken.
        time_ns: u64, "ns";
        /// Poll or close.
        kind: SampleKind, "-";
        /// TCP state (`TCP_ESTABLISHED` = 1, …); gauge.
        state: u8, "-";
        /// Congestion state (`TCP_CA_Open` = 0, …); gauge.
        ca_state: u8, "-";
        /// Consecutive unanswered retransmission timeouts; gauge.
        backoff: u8, "-";
        /// Whether the sender was last limited by the application (`app_limited`); gauge.
        app_limited: Option<bool>, "-", null = "kernel before 4.9";
        /// Bytes in the send buffer not yet acknowledged: SNAP's CurAppWQueue; gauge.
        send_queue_bytes: u32, "bytes";
        /// Largest `send_queue_bytes` of any sample so far: SNAP's MaxAppWQueue.
        max_send_queue_bytes: u32, "bytes";
        /// Bytes received and not yet read by the application; gauge.
        receive_queue_bytes: u32, "bytes";
        /// Bytes written and not yet sent; gauge.
        notsent_bytes: Option<u32>, "bytes", null = "kernel before 4.6";
        /// Segments sent and not yet acknowledged; gauge.
        unacked: u32, "segments";
        /// Segments selectively acknowledged; gauge.
        sacked: u32, "segments";
        /// Segments believed lost; gauge.
        lost: u32, "segments";
        /// Retransmitted segments in flight; gauge.
        retrans: u32, "segments";
        /// Retransmitted segments; counter.
        total_retrans: u32, "segments";
        /// Retransmission timeouts; counter.
        total_rto: Option<u16>, "-", null = "kernel before 6.7";
        /// Recoveries from retransmission timeouts; counter.
        total_rto_recoveries: Option<u16>, "-", null = "kernel before 6.7";
        /// Time spent in retransmission-timeout recovery; counter.
        total_rto_time_ms: Option<u32>, "ms", null = "kernel before 6.7";
        /// Retransmission timeout; gauge.
        rto_us: u32, "us";
        /// Delayed-ACK timeout of this socket as a receiver; gauge.
        ato_us: u32, "us";
        /// Smoothed round-trip time; gauge.
        srtt_us: u32, "us";
        /// Smoothed mean deviation of the round-trip time; gauge.
        rttvar_us: u32, "us";
        /// Least round-trip time in the kernel's window.
        min_rtt_us: Option<u32>, "us", null = "no sample yet, or kernel before 4.6";
        /// Round-trip time estimated as a receiver; gauge.
        rcv_rtt_us: u32, "us";
        /// Congestion window; gauge.
        cwnd: u32, "segments";
        /// Slow-start threshold; gauge.
        ssthresh: u32, "segments";
        /// Sending maximum segment size; gauge.
        mss_bytes: u32, "bytes";
        /// Window announced by the peer; gauge.
        snd_wnd_bytes: Option<u32>, "bytes", null = "kernel before 5.4";
        /// Window announced to the peer: SNAP's Rwin seen from the receiver; gauge.
        rcv_wnd_bytes: Option<u32>, "bytes", null = "kernel before 6.2";
        /// Pacing rate; gauge.
        pacing_rate_bytes_per_s: Option<u64>, "bytes/s", null = "pacing is off";
        /// Delivery rate of the last sample; gauge.
        delivery_rate_bytes_per_s: Option<u64>, "bytes/s", null = "kernel before 4.9";
        /// Bytes acknowledged; counter.
        bytes_acked: u64, "bytes";
        /// Bytes received in order; counter.
        bytes_received: u64, "bytes";
        /// Bytes sent, retransmissions included; counter.
        bytes_sent: Option<u64>, "bytes", null = "kernel before 4.19";
        /// Bytes retransmitted; counter.
        bytes_retrans: Option<u64>, "bytes", null = "kernel before 4.19";
        /// Segments sent; counter.
        segs_out: u32, "segments";
        /// Segments received; counter.
        segs_in: u32, "segments";
        /// Segments with data sent; counter.
        data_segs_out: Option<u32>, "segments", null = "kernel before 4.6";
        /// Segments with data received; counter.
        data_segs_in: Option<u32>, "segments", null = "kernel before 4.6";
        /// Segments delivered to the peer; counter.
        delivered: Option<u32>, "segments", null = "kernel before 4.18";
        /// Segments delivered with a congestion mark; counter.
        delivered_ce: Option<u32>, "segments", null = "kernel before 4.18";
        /// Segments that the peer reported as duplicates (DSACK); counter.
        dsack_dups: Option<u32>, "segments", null = "kernel before 4.19";
        /// Reordering events seen; counter.
        reord_seen: Option<u32>, "-", null = "kernel before 4.19";
        /// Segments received out of order; counter.
        rcv_ooopack: Option<u32>, "segments", null = "kernel before 5.4";
        /// Time with unacknowledged data; counter, in steps of a jiffy.
        busy_us: Option<u64>, "us", null = "kernel before 4.10";
        /// Part of it limited by the receiver's window: SNAP's RwinLimitTime; counter.
        rwnd_limited_us: Option<u64>, "us", null = "kernel before 4.10";
        /// Part of it in which the kernel saw the send buffer limit; a lower bound; counter.
        sndbuf_limited_us: Option<u64>, "us", null = "kernel before 4.10";
        /// Receive buffer limit; gauge.
        rcvbuf_bytes: Option<u32>, "bytes", null = "not reported";
        /// Send buffer limit; gauge.
        sndbuf_bytes: Option<u32>, "bytes", null = "not reported";
        /// Memory charged to queued outgoing data (`sk_wmem_queued`); gauge.
        wmem_queued_bytes: Option<u32>, "bytes", null = "not reported";
        /// Segments dropped at the socket; counter.
        drops: Option<u32>, "segments", null = "not reported";
    }
}

table! {
    /// Something that happened to a connection.
    row TcpEvent, columns TcpEvents, name "tcp_events", time time_ns {
        /// Socket cookie.
        conn: u64, "-";
        /// When it happened.
        time_ns: u64, "ns";
        /// The event.
        kind: TcpEventKind, "-";
        /// State before, for state changes.
        old: Option<u8>, "-", null = "not a state change";
        /// State after, for state changes.
        new: Option<u8>, "-", null = "not a state change";
        /// Segments concerned.
        segments: Option<u32>, "segments", null = "not a retransmission";
        /// Bytes in flight at that time.
        in_flight_bytes: Option<u32>, "bytes", null = "not a retransmission";
        /// Sequence number of the first byte that was retransmitted.
        seq: Option<u32>, "-", null = "not a retransmission, or a recording from before this column";
        /// Sequence number after the last byte.
        end_seq: Option<u32>, "-", null = "as `seq`";
    }
}

table! {
    /// One send or receive call on a TCP socket. At detail `waits`, also on a UNIX stream socket or a UDP socket.
    row Call, columns Calls, name "calls", time end_ns {
        /// Socket cookie.
        conn: u64, "-";
        /// When the call was done.
        end_ns: u64, "ns";
        /// When the call first blocked; its work until then is not in the duration.
        start_ns: Option<u64>, "ns", null = "the call never blocked; its short duration is not measured at this detail";
        /// Time blocked within the call.
        blocked_ns: Option<u64>, "ns", null = "blocking could not be measured (see coverage)";
        /// Time the thread was runnable and waited for a CPU within the call.
        runq_ns: Option<u64>, "ns", null = "blocking could not be measured (see coverage)";
        /// How long the first byte received had been ready, with no thread in a call for it. Exact to 2 µs on TCP;
        /// bytes that came unseen (before an open recording or a window of a budget, after `shutdown()`) have a start in
        /// jiffies. A send call that begins a flight meanwhile hides what came before it. After a call with `MSG_PEEK`,
        /// bytes wait from its end on. Of datagrams it is exact, or null.
        unread_ns: Option<u64>, "ns", null = "a send call, nothing was received, an MPTCP socket, a UNIX socket where it was not seen, or a UDP socket of a client, at its first receive call, or where it was not seen, or the kernel did not run the probe when the TCP segment came";
        /// When TCP last began to transmit, of a send call that left no bytes to send: the call had begun by then.
        tcp_ns: Option<u64>, "ns", null = "a receive call, a send call that blocked (`start_ns`), bytes were left to send, no TCP socket, or a recording from before this column";
        /// Send (true) or receive (false).
        is_send: bool, "-";
        /// Bytes that the caller offered or had room for.
        asked_bytes: Option<u64>, "bytes", null = "not readable from the call's registers";
        /// Bytes done, or a negative errno.
        result: i32, "bytes";
        /// Stream offset after the last byte of the call, from the first byte of the connection; of a UNIX socket or
        /// a UDP flow, from the first call that was recorded.
        offset_end: u64, "bytes";
        /// Flags of the call (`MSG_PEEK` = 2, …); sends carry none here.
        flags: u32, "-";
        /// Thread that called.
        tid: u32, "-";
        /// Process that called.
        pid: u32, "-";
        /// CPU on which the call ended.
        cpu: u16, "-";
    }
}

table! {
    /// Zero-copy sends of a connection that are over, and whether the kernel copied their bytes after all. A row is written
    /// every 100 ms at most, when the connection closes, and when the recording ends.
    row ZerocopySend, columns ZerocopySends, name "zerocopy_sends", time time_ns {
        /// Socket cookie.
        conn: u64, "-";
        /// When the row was written.
        time_ns: u64, "ns";
        /// How the program asked for them.
        interface: ZerocopyInterface, "-";
        /// Sends that were not copied; counter since the recording began.
        not_copied: u64, "-";
        /// Sends that the kernel copied (`SO_EE_CODE_ZEROCOPY_COPIED`, `IORING_NOTIF_USAGE_ZC_COPIED`); counter as above.
        copied: u64, "-";
        /// Sends with an unknown result: the program did not ask io_uring for it
        /// (`IORING_SEND_ZC_REPORT_USAGE`), or their end was not seen; counter as above.
        unknown: u64, "-";
    }
}

table! {
    /// An interval in which a thread had given its CPU away because it could not go on.
    row Wait, columns Waits, name "waits", time end_ns {
        /// When it ran again.
        end_ns: u64, "ns";
        /// When it left the CPU.
        start_ns: u64, "ns";
        /// When it was woken: from then on it waited for a CPU.
        woken_ns: Option<u64>, "ns", null = "the waking was not seen";
        /// Thread that waited.
        tid: u32, "-";
        /// Its process.
        pid: u32, "-";
        /// The kind of object that it waited for.
        kind: WaitObject, "-";
        /// Distinguishes objects of a kind: the inode number of a socket, pipe or file
        /// (`socket:[N]` of /proc/PID/fd), the address of a futex, or a number of no other meaning.
        object: Option<u64>, "-", null = "no single object";
        /// Number of the device of a regular file's file system, or of a block device: 2^20 times its major number, plus its
        /// minor number. With `object` it distinguishes files; table `files` names them.
        device: Option<u32>, "-", null = "no such file, or an older recording";
        /// Socket cookie of the connection or listener.
        conn: Option<u64>, "-", null = "not one of TCP, or not recorded";
        /// Descriptor by which the thread knows it.
        fd: Option<i32>, "-", null = "none";
        /// Number of the system call.
        syscall: Option<i32>, "-", null = "in none: a page fault, or a thread of io_uring";
        /// The waker.
        waker: Waker, "-";
        /// Thread that ended it, or ran where the interrupt came.
        waker_tid: Option<u32>, "-", null = "the waking was not seen";
        /// Its process.
        waker_pid: Option<u32>, "-", null = "the waking was not seen";
        /// Of a wait for several descriptors (epoll; poll and select: sockets among the first 16): the one
        /// that was ready and so ended the wait.
        ready_fd: Option<i32>, "-", null = "no wait for several, its timeout, or not seen";
        /// Socket cookie of that descriptor's connection or listener.
        ready_conn: Option<u64>, "-", null = "as `ready_fd`, or no socket; of UNIX sockets before their first recorded call";
        /// Kind of that descriptor: `connection`, `listener`, `datagram`, `unix`, `socket`, `pipe`, `event` (a timer, an
        /// eventfd, a signalfd), `file`.
        ready_kind: Option<WaitObject>, "-", null = "as `ready_fd`";
        /// No signal could end it: it waited for a disk or a lock of the kernel.
        uninterruptible: bool, "-";
        /// Number of the program's call stack in table `stacks`.
        stack: Option<u32>, "-", null = "it could not be read, or there was no room";
        /// Number of the kernel's call stack in table `stacks`.
        kernel_stack: Option<u32>, "-", null = "as `stack`";
        /// CPU on which it ran again.
        cpu: u16, "-";
        /// Of epoll_wait(), epoll_pwait() and poll(): how long it waits at most.
        limit_ns: Option<u64>, "ns", null = "no limit, another call, or an older recording";
    }
}

table! {
    /// A file for which a recorded thread waited, by its first wait in which its name could be read. At most 4,096 files are
    /// named.
    row WaitedFile, columns WaitedFiles, name "files", time time_ns {
        /// When its name was read.
        time_ns: u64, "ns";
        /// Its device, as in `waits`.
        device: u32, "-";
        /// Its inode number: `object` of `waits`.
        inode: u64, "-";
        /// Its path, from the root of the process that waited or of its container.
        path: Option<String>, "-", null = "it was closed before its name was read, or nobody may read it";
        /// It has been deleted: the path is what it was.
        deleted: bool, "-";
        /// Name of the block device (`vda1`, `dm-0`).
        disk: Option<String>, "-", null = "no block device: a network or overlay file system, btrfs, tmpfs";
    }
}

table! {
    /// Time in which a thread was runnable and did not run. Another thread ran, its control group had used up its CPU
    /// quota, or it called sched_yield(). A row is one such time, or the sum of several that took less than 50 µs
    /// each; such a sum spans at most 10 ms. The kernel counts the same as involuntary context switches.
    row Preemption, columns Preemptions, name "preemptions", time end_ns {
        /// When it ran again; of several, the last time.
        end_ns: u64, "ns";
        /// When it left the CPU; of several, the first time.
        start_ns: u64, "ns";
        /// Time off the CPU: of one, from `start_ns` to `end_ns`.
        off_cpu_ns: u64, "ns";
        /// Number of times in this row.
        count: u32, "-";
        /// In how many of them the thread gave the CPU away itself (sched_yield()).
        yields: u32, "-";
        /// Thread that did not run.
        tid: u32, "-";
        /// Its process.
        pid: u32, "-";
        /// Thread that ran instead, the first one; of several, in the longest.
        by_tid: Option<u32>, "-", null = "none: the CPU was idle";
        /// Its process; of a thread of the kernel, its own number.
        by_pid: Option<u32>, "-", null = "as `by_tid`";
        /// Name of the thread that ran instead, at most 15 bytes.
        by_comm: Option<String>, "-", null = "as `by_tid`";
        /// Whether the thread's control group had used up its CPU quota when the thread left the CPU. `end_ns` is then
        /// after the next period began.
        quota_used_up: Option<bool>, "-", null = "the kernel has no CPU quotas, or does not say it";
        /// CPU that it left; of several, the last time.
        cpu: u16, "-";
    }
}

table! {
    /// One reading of a connection's stage ledger: how long, since `since_ns`, each thing was
    /// what stopped the next byte. All times are cumulative; the stages add up to
    /// `time_ns - since_ns`.
    row TcpStage, columns TcpStages, name "tcp_stages", time time_ns {
        /// Socket cookie.
        conn: u64, "-";
        /// Until when the ledger is accounted.
        time_ns: u64, "ns";
        /// When the ledger began: connection established, or the recording's start.
        since_ns: u64, "ns";
        /// Whether the socket has closed and this is the last reading.
        closed: bool, "-";
        /// Stage `retransmit_timeout`.
        retransmit_timeout_ns: u64, "ns";
        /// Stage `tail_loss`.
        tail_loss_ns: u64, "ns";
        /// Stage `receiver_window`.
        receiver_window_ns: u64, "ns";
        /// Stage `fast_retransmit`.
        fast_retransmit_ns: u64, "ns";
        /// Stage `congestion_window`, before the first reduction of the window.
        cwnd_startup_ns: u64, "ns";
        /// Stage `congestion_window`, from a reduction by loss until the earlier value is regained.
        cwnd_loss_ns: u64, "ns";
        /// Stage `congestion_window`, reduced by congestion marks or local drops (CWR).
        cwnd_cwr_ns: u64, "ns";
        /// Stage `congestion_window`, otherwise: probing for more.
        cwnd_probing_ns: u64, "ns";
        /// Stage `pacing`.
        pacing_ns: u64, "ns";
        /// Stage `local_queue`.
        local_queue_ns: u64, "ns";
        /// Stage `cork`.
        cork_ns: u64, "ns";
        /// Stage `nagle`.
        nagle_ns: u64, "ns";
        /// Stage `delayed_ack`.
        delayed_ack_ns: u64, "ns";
        /// Stage `send_buffer`.
        send_buffer_ns: u64, "ns";
        /// Stage `in_flight`.
        in_flight_ns: u64, "ns";
        /// Stage `sender_app`.
        sender_app_ns: u64, "ns";
        /// Stage `unknown`.
        unknown_ns: u64, "ns";
        /// Times that Nagle's algorithm held a segment; counter.
        nagle_holds: u32, "-";
        /// Waits that ended because the receiver's delayed-ACK timer expired; counter.
        delayed_acks: u32, "-";
        /// Data segments with an ACK that the receiver's delayed-ACK timer sent, whether or not anyone
        /// waited for it: a bare ACK of at most a full-sized segment that came a delayed-ACK
        /// timeout after the path would have brought it; counter. Of a peer (the other end of a
        /// recorded connection), only those that came while it was watched.
        acks_by_timer: u32, "-";
        /// Data segments sent, retransmitted ones included (`tcpi_data_segs_out`); counter.
        data_segs_out: u32, "-";
        /// Longest single Nagle hold, delayed ACK included.
        longest_hold_ns: u64, "ns";
        /// Stalls ended by a retransmission timeout; counter.
        timeout_stalls: u32, "-";
        /// Stalls ended by a tail-loss probe; counter.
        tail_loss_stalls: u32, "-";
        /// Sum of round-trip time samples: SNAP's SumRTT; counter. Samples of segments that found a
        /// quiet socket between two looks at it count as one of srtt.
        rtt_sum_us: u64, "us";
        /// Number of round-trip time samples: SNAP's SampleRTT; counter.
        rtt_samples: u32, "-";
        /// Receiving: bytes were ready and no thread was in a receive call for them.
        reader_slow_ns: u64, "ns";
        /// Times that bytes waited for the reader; counter.
        reader_slow_waits: u32, "-";
        /// Of these, those with a begin that is known to a jiffy only; counter.
        reader_slow_by_jiffy: u32, "-";
        /// Receiving: the window announced to the peer was closed.
        window_closed_ns: u64, "ns";
        /// Best delivery rate so far that lasted for ten round trips of the path, taken where
        /// something was held.
        best_rate_bytes_per_s: Option<u64>, "bytes/s", null = "nothing was held for that long";
        /// Time after either end closed in which the stage changed between two looks, or one of them
        /// did not show it: ACKs pass no hook then, so that it may belong to any stage.
        unseen_ns: u64, "ns";
        /// Of a peer (the other end of a recorded connection): time in which nothing held either
        /// end, so that it was sampled seldom. In flight for a round trip a segment at most, else
        /// the application's.
        asleep_ns: u64, "ns";
        /// Time in which loss kept the sender far below its best rate so far: the network was the
        /// limit (`fast_retransmit`, `congestion_window`, `pacing`), the congestion window had not
        /// regained its value before a loss that duplicate ACKs showed, and it (under BBR the pacing
        /// rate) was less than seven tenths of what that rate needs on the unloaded path.
        loss_limited_ns: u64, "ns";
        /// Delivered in that time: segments times the present segment size.
        loss_limited_bytes: u64, "bytes";
        /// Retransmitted in that time: segments times the present segment size.
        loss_limited_retrans_bytes: u64, "bytes";
        /// The congestion window, summed over that time.
        loss_limited_cwnd_byte_ms: u64, "bytes*ms";
        /// Stalls, of either kind, that began with three segments out or fewer: too few for
        /// duplicate ACKs; counter.
        thin_stalls: u32, "-";
        /// They took together.
        thin_stall_ns: u64, "ns";
        /// Retransmission timeouts that the kernel took back: nothing had been lost, ACKs were
        /// late; counter. They are not among `timeout_stalls`.
        spurious_timeouts: u32, "-";
        /// ACKs were late for so long. Counts in the stage that was seen meanwhile.
        spurious_timeout_ns: u64, "ns";
        /// Stalls that lasted longer because the receiver's timer held back the ACK of what was
        /// retransmitted; counter.
        timeout_acks_delayed: u32, "-";
        /// They lasted longer by that: part of `retransmit_timeout_ns`.
        timeout_ack_delayed_ns: u64, "ns";
        /// Flights after a pause of a retransmission timeout or more, with a congestion window
        /// above the initial one; counter.
        bursts_after_idle: u32, "-";
        /// Those that lost segments of their first window, with more out than the initial window;
        /// counter.
        burst_losses: u32, "-";
        /// Time until these losses were recovered from.
        burst_loss_ns: u64, "ns";
        /// Times that fast recovery or loss recovery began; counter.
        loss_episodes: u32, "-";
        /// Most bytes that were written and not yet acknowledged, at any hook of the ledger.
        max_send_queue_bytes: u32, "bytes";
        /// Largest window that the peer announced after its SYN, at any hook of the ledger.
        max_snd_wnd_bytes: u32, "bytes";
        /// Part of `receiver_window_ns`: waits for a window that then reached twice its size. Of each such wait, two round
        /// trips count at most; a receiver's kernel needs no more.
        window_growth_ns: Option<u64>, "ns", null = "a recording from before this column, or a capture that began after the connection";
        /// Part of `send_buffer_ns`: waits for a send buffer that the kernel then made larger. Of each such wait, two round
        /// trips count at most.
        send_buffer_growth_ns: Option<u64>, "ns", null = "a packet capture, or a recording from before this column";
        /// Whether Nagle's algorithm is off (`tcp_sock.nonagle`, TCP_NODELAY); gauge.
        nodelay: bool, "-";
    }
}

impl TcpStage {
    /// Returns the sending stages with their times, ns. The causes of `congestion_window` are added
    /// up.
    pub fn stages_ns(&self) -> [(Stage, u64); Stage::ALL.len()] {
        let cwnd_ns =
            self.cwnd_startup_ns + self.cwnd_loss_ns + self.cwnd_cwr_ns + self.cwnd_probing_ns;
        [
            (Stage::RetransmitTimeout, self.retransmit_timeout_ns),
            (Stage::TailLoss, self.tail_loss_ns),
            (Stage::ReceiverWindow, self.receiver_window_ns),
            (Stage::FastRetransmit, self.fast_retransmit_ns),
            (Stage::CongestionWindow, cwnd_ns),
            (Stage::Pacing, self.pacing_ns),
            (Stage::LocalQueue, self.local_queue_ns),
            (Stage::Cork, self.cork_ns),
            (Stage::Nagle, self.nagle_ns),
            (Stage::DelayedAck, self.delayed_ack_ns),
            (Stage::SendBuffer, self.send_buffer_ns),
            (Stage::InFlight, self.in_flight_ns),
            (Stage::SenderApp, self.sender_app_ns),
            (Stage::Unknown, self.unknown_ns),
        ]
    }
}

table! {
    /// One reading of two clocks: the reference `CLOCK_MONOTONIC` and another.
    row ClockPair, columns ClockPairs, name "clock_pairs", time monotonic_ns {
        /// Reading of the reference clock: the middle of the window.
        monotonic_ns: u64, "ns";
        /// Name of the other clock.
        clock: String, "-";
        /// Reading of the other clock.
        other_ns: i64, "ns";
        /// Half of the window in which both were read: the bound of the error.
        error_ns: u64, "ns";
        /// Whether the clock was set since the pair before, as the kernel says.
        set: Option<bool>, "-", null = "the kernel does not say it of this clock";
        /// How much faster than this clock the reference runs, as far as the kernel was set: by
        /// `adjtimex` (frequency and tick), and a network adapter's clock by `clock_adjtime`, too.
        steer_ppb: Option<i64>, "ppb", null = "not known, or the clock runs as the reference does";
        /// At most this much faster or slower while a correction of the reference's phase is under
        /// way, of `adjtime` or the kernel's phase-locked loop.
        slew_ppb: Option<u64>, "ppb", null = "as `steer_ppb`";
    }
}

table! {
    /// One reading of the CPU use of a process that owns a recorded socket, summed over its threads
    /// (`/proc/PID/task/TID/schedstat`). Counters begin with the first reading of the process and never fall. The
    /// last values of a thread that ended stay in them.
    row ProcessSample, columns ProcessSamples, name "process_samples", time time_ns {
        /// Process id in the initial pid namespace.
        pid: u32, "-";
        /// When it was read.
        time_ns: u64, "ns";
        /// Time on a CPU; counter.
        cpu_ns: u64, "ns";
        /// Time in which threads were runnable and waited for a CPU; counter.
        runq_ns: u64, "ns";
        /// Times that a thread was given a CPU; counter.
        runs: u64, "-";
        /// Threads that live; gauge.
        threads: u32, "-";
        /// Threads that were given a CPU since the reading before; in the first reading, since
        /// they were born.
        threads_ran: u32, "-";
    }
}

table! {
    /// One reading of what a CPU did. All times are counters since boot. Those of `/proc/stat` are
    /// counted in its unit, `USER_HZ`: steps of 10 ms; without `CONFIG_IRQ_TIME_ACCOUNTING` or
    /// `CONFIG_VIRT_CPU_ACCOUNTING` they are what the timer tick saw.
    row CpuSample, columns CpuSamples, name "cpu_samples", time time_ns {
        /// Number of the CPU.
        cpu: u16, "-";
        /// When it was read.
        time_ns: u64, "ns";
        /// In threads: user, nice and system.
        busy_ns: u64, "ns";
        /// In interrupt handlers.
        irq_ns: u64, "ns";
        /// In softirqs, outside `ksoftirqd` or within.
        softirq_ns: u64, "ns";
        /// Taken by the hypervisor for others.
        steal_ns: u64, "ns";
        /// Nothing to do; waiting for a disk included.
        idle_ns: u64, "ns";
        /// CPU time of this CPU's `ksoftirqd`, to which the kernel hands softirq work that lasts
        /// too long; exact (`schedstat`).
        ksoftirqd_ns: Option<u64>, "ns", null = "not readable, as in a container";
    }
}

table! {
    /// One value that the recorded program reported, by the Intel ITT API or by a USDT probe. Exactly one
    /// of the three values is there; those of 16 and 32 bits are kept in the wider column, exactly.
    row Counter, columns Counters, name "counters", time time_ns {
        /// When the program reported it: when it made the call, or the time that it gave.
        time_ns: u64, "ns";
        /// How the program reported it.
        source: ValueSource, "-";
        /// Process. Of source `itt` as it knows itself: in a pid namespace, not the host's.
        pid: u32, "-";
        /// Thread, in the same way.
        tid: u32, "-";
        /// Domain of the counter; of source `usdt` the provider.
        domain: Option<String>, "-", null = "the program gave none, or the name was lost";
        /// Name of the counter; of source `usdt` that of the marker, or of probe and argument:
        /// `request.bytes`.
        name: Option<String>, "-", null = "the name was lost";
        /// Distinguishes counters with names that were lost, or are the same; of this recording.
        counter: Option<u32>, "-", null = "the program has no handle for it, only domain and name";
        /// The effect of the value.
        kind: CounterKind, "-";
        /// An unsigned value.
        value_u64: Option<u64>, "-", null = "not unsigned";
        /// A signed value.
        value_s64: Option<i64>, "-", null = "not signed";
        /// A floating-point value.
        value_f64: Option<f64>, "-", null = "not floating point";
        /// Unit of the value, in the program's words.
        unit: Option<String>, "-", null = "the program gave none";
        /// Timestamp that the program gave, of a clock that is not known here.
        given_ticks: Option<u64>, "-", null = "none given, or it is `time_ns`";
    }
}

table! {
    /// A span or a moment that the recorded program reports, by the Intel ITT API or by a USDT probe.
    /// A span's row is written when it ends, or with the recording.
    row Task, columns Tasks, name "tasks", time begin_ns {
        /// When it began, or happened: when the program made the call, or the time that it gave.
        begin_ns: u64, "ns";
        /// When it ended.
        end_ns: Option<u64>, "ns", null = "a moment; or its end is not in the recording, or more than 65,536 were open, or the end given was before the beginning";
        /// How the program reported it.
        source: ValueSource, "-";
        /// The kind of span.
        kind: TaskKind, "-";
        /// Its domain; of a synchronisation object its type, in the program's words; of source `usdt`
        /// the provider.
        domain: Option<String>, "-", null = "it has none, or the name was lost";
        /// Its name.
        name: Option<String>, "-", null = "it has none, or the name was lost";
        /// Process. Of source `itt` as it knows itself: in a pid namespace, not the host's.
        pid: u32, "-";
        /// Thread in which it began, in the same way.
        tid: u32, "-";
        /// Thread in which it ended.
        end_tid: Option<u32>, "-", null = "as end_ns";
        /// Its `__itt_id`, unique in its domain: three hexadecimal numbers.
        id: Option<String>, "-", null = "none given";
        /// `id` of what it is part of.
        parent: Option<String>, "-", null = "none given";
        /// Address of the synchronisation object in the program.
        object: Option<u64>, "-", null = "not of a synchronisation object";
        /// The scope of a marker.
        scope: Option<String>, "-", null = "not a marker, or not given";
        /// Timestamp that the program gave for the beginning, of a clock that is not known here.
        given_begin_ticks: Option<u64>, "-", null = "none given, or it is `begin_ns`";
        /// Timestamp that the program gave for the end, of a clock that is not known here.
        given_end_ticks: Option<u64>, "-", null = "none given, or it is `end_ns`";
        /// Attached data: a JSON list of `{"key", "values"}` or `{"key", "text"}`, with `count`
        /// or `length_bytes` where some of it was cut; of a histogram `{"first", "x", "y"}`.
        metadata: Option<String>, "-", null = "nothing";
    }
}

table! {
    /// The bytes that one receive call, or one step of a splice(), took from a connection. The row has the times at
    /// which they passed each place before it; or of a UDP socket: a datagram, or several that the kernel joined
    /// (UDP_GRO).
    row ReceivedMessage, columns ReceivedMessages, name "received_messages", time done_ns {
        /// When the call ended.
        done_ns: u64, "ns";
        /// Socket cookie.
        conn: u64, "-";
        /// Bytes that the call took.
        bytes: u32, "bytes";
        /// Where they end in the stream, counted from the connection's first byte; of a UDP socket, from the
        /// first recorded message's.
        offset_end: u64, "bytes";
        /// Bytes between the previous message and this one that no hook saw the program read: the kernel itself, or splice
        /// where `messages.spliced` is off.
        spliced_bytes: u32, "bytes";
        /// When the first of its segments arrived: the driver handed it over, or the other end on this host
        /// did.
        first_arrival_ns: Option<u64>, "ns", null = "of more than 64 unread segments with gaps, of more than 256 unread datagrams, of a datagram that its reader had early and that could be another, or it came before the recording";
        /// When the last of its segments arrived, which made it whole: not always the one with the last byte.
        last_arrival_ns: Option<u64>, "ns", null = "as `first_arrival_ns`";
        /// When TCP took that (`tcp_probe`); a datagram: when the stack took it from the driver, IP first
        /// (`netif_receive_skb`).
        tcp_ns: Option<u64>, "ns", null = "as `first_arrival_ns`";
        /// When that was handed to the socket: all before it had come, too (`sk_data_ready`); a datagram that its
        /// reader had before: when that copied it or its call ended.
        ready_ns: Option<u64>, "ns", null = "as `tcp_ns`, or the reader took it before";
        /// When the thread that had waited since before that was woken.
        woken_ns: Option<u64>, "ns", null = "it did not wait then";
        /// When it ran again.
        running_ns: Option<u64>, "ns", null = "as `woken_ns`";
        /// When the call began to copy (`skb_copy_datagram_iovec`); if it had begun before the message was
        /// whole, when it last did.
        copy_ns: Option<u64>, "ns", null = "nothing was copied (splice, pages that were mapped, `MSG_TRUNC`); of a datagram that lies in one piece, it passes no hook";
        /// Segments that the message lies in, as the kernel joined them; datagrams that it was joined of.
        segments: u16, "-";
        /// CPU that took the last of its segments.
        receive_cpu: Option<u16>, "-", null = "as `tcp_ns`";
        /// CPU on which the call ended.
        cpu: u16, "-";
        /// Thread that called.
        tid: u32, "-";
        /// Its process.
        pid: u32, "-";
        /// The last of its segments waited for the thread that had the socket; if the kernel joined it with
        /// others meanwhile, its arrival is that of the first of them.
        backlog: bool, "-";
        /// How much later `first_arrival_ns` to `ready_ns` may have been: of more than 32 unread segments, those
        /// that follow each other are noted together.
        doubt_ns: u64, "ns";
        /// Of a datagram: bytes for which the call had no room, and which are lost (`MSG_TRUNC`).
        cut_bytes: Option<u32>, "bytes", null = "not of a UDP socket";
        /// When the network adapter took the last of its segments, by the adapter's own clock.
        nic_phc_ns: Option<i64>, "ns", null = "the adapter does not stamp what it receives; of a UDP socket always";
    }
}

table! {
    /// The bytes that one send call gave to a connection. The row has the times at which the last of them passed each
    /// place after it; or to a UDP socket: a datagram, a part of one that is corked, or several at a time
    /// (UDP_SEGMENT).
    row SentMessage, columns SentMessages, name "sent_messages", time done_ns {
        /// When the call ended.
        done_ns: u64, "ns";
        /// Socket cookie.
        conn: u64, "-";
        /// Bytes that the call gave.
        bytes: u32, "bytes";
        /// Where they end in the stream, counted from the connection's first byte; of a UDP socket, from the
        /// first recorded message's.
        offset_end: u64, "bytes";
        /// Bytes between the message before and this one, given by no send call.
        spliced_bytes: u32, "bytes";
        /// When TCP began with the call, having the socket's lock (`tcp_sendmsg_locked`).
        call_ns: Option<u64>, "ns", null = "not seen; of a UDP socket always";
        /// When TCP began to send the last byte (`tcp_write_xmit`): before that it lay in the send queue.
        tcp_ns: Option<u64>, "ns", null = "not sent before the socket closed; not followed, as 32 calls before it were not acknowledged yet; or the kernel did not show its packet; of a UDP socket always";
        /// When that came to the queue of the device (`net_dev_queue`); of a datagram, its last packet.
        queue_ns: Option<u64>, "ns", null = "as `tcp_ns`; a datagram: not sent, or not followed: it was corked or held up, and 16 calls came after it";
        /// When it went to the driver (`net_dev_start_xmit`); of devices on top of each other, to the lowest.
        driver_ns: Option<u64>, "ns", null = "as `queue_ns`, or the queue dropped it";
        /// When the network adapter put it on the wire, by the adapter's own clock: `clock_pairs` show when that
        /// was.
        nic_phc_ns: Option<i64>, "ns", null = "the adapter gave no stamp for it, or was not asked; of a UDP socket always";
        /// The number of that clock: N of `ptpN` in `clock_pairs`.
        nic_ptp: Option<u16>, "-", null = "as `nic_phc_ns`";
        /// When the other end had acknowledged all of it.
        acked_ns: Option<u64>, "ns", null = "not before the socket closed, or not followed; of a UDP socket always";
        /// Segments with bytes of it that were retransmitted.
        resent_segments: u32, "segments";
        /// CPU on which the call ended.
        cpu: u16, "-";
        /// CPU on which the last segment went to the driver.
        driver_cpu: Option<u16>, "-", null = "as `driver_ns`";
        /// Thread that called.
        tid: u32, "-";
        /// Its process.
        pid: u32, "-";
        /// Of a datagram: packets that came to the queue; more than one if IP cut it.
        packets: Option<u32>, "-", null = "not of a UDP socket";
    }
}

table! {
    /// A sample of a CPU with a recorded thread in epoll, poll or select with a timeout of zero. Such a call asks
    /// whether a descriptor is ready, and does not wait. Each CPU is sampled about 99 times a second.
    row Spin, columns Spins, name "spins", time time_ns {
        /// When.
        time_ns: u64, "ns";
        /// Time between two samples, which this one represents.
        length_ns: u64, "ns";
        /// Thread.
        tid: u32, "-";
        /// Its process.
        pid: u32, "-";
        /// The kind of object that it asks for; the other columns are as in `waits`.
        kind: WaitObject, "-";
        /// Distinguishes objects of a kind.
        object: Option<u64>, "-", null = "no single object";
        /// Socket cookie of the connection or listener.
        conn: Option<u64>, "-", null = "as in `waits`";
        /// Descriptor.
        fd: Option<i32>, "-", null = "the call has none, or several";
        /// Number of the system call.
        syscall: i32, "-";
        /// Call stack in `stacks`.
        stack: Option<u32>, "-", null = "could not be read";
        /// CPU.
        cpu: u16, "-";
    }
}

table! {
    /// A sample of a CPU that found a recorded thread running. Each CPU is sampled about 99 times a second; samples without
    /// a recorded thread have no row.
    row OnCpuSample, columns OnCpuSamples, name "on_cpu_samples", time time_ns {
        /// When.
        time_ns: u64, "ns";
        /// Time between two samples: the CPU time that this one means.
        length_ns: u64, "ns";
        /// Thread that ran.
        tid: u32, "-";
        /// Its process.
        pid: u32, "-";
        /// Whether it ran the kernel's code: of a system call, a page fault, or an interrupt or softirq that came then.
        in_kernel: bool, "-";
        /// Number of the system call that it was in.
        syscall: Option<i32>, "-", null = "in none: its own code, a page fault, or a thread of io_uring";
        /// Number of the program's call stack in table `stacks`: the function that ran, or entered the kernel, and its callers.
        stack: Option<u32>, "-", null = "it could not be read, or there was no room";
        /// Number of the kernel's call stack in table `stacks`.
        kernel_stack: Option<u32>, "-", null = "it ran its own code, or as `stack`";
        /// CPU.
        cpu: u16, "-";
    }
}

table! {
    /// One frame of a call stack with which threads waited or ran: written when the stack is first seen.
    row StackFrame, columns StackFrames, name "stacks", time time_ns {
        /// When the stack was first seen.
        time_ns: u64, "ns";
        /// Number of the stack. The same stack of several threads may have several numbers.
        stack: u32, "-";
        /// Place in the stack: 0 is where the thread waits or runs, 1 its caller.
        depth: u16, "-";
        /// Process.
        pid: Option<u32>, "-", null = "a stack of the kernel";
        /// Path of the file that the code was mapped from, or a name such as `[vdso]`; `[kernel]`.
        object: Option<String>, "-", null = "not known: the process had ended, or the address is in no mapping";
        /// Build id of that file, in hexadecimal digits.
        build_id: Option<String>, "-", null = "it has none";
        /// Where in that file the code is; of the kernel, after `_stext`. Of a caller it is the
        /// last byte of its call.
        offset: Option<u64>, "bytes", null = "not known, or not from a file";
        /// The caller of this function.
        caller: Caller, "-";
    }
}

table! {
    /// One place in the code: rows are written when the recording ends, for the places
    /// in `stacks`. Of code that the compiler inlined there is a row for each function.
    row Symbol, columns Symbols, name "symbols", time time_ns {
        /// When it was resolved.
        time_ns: u64, "ns";
        /// As in `stacks`.
        object: String, "-";
        /// As in `stacks`.
        build_id: Option<String>, "-", null = "it has none";
        /// As in `stacks`.
        offset: u64, "bytes";
        /// 0: the function that was compiled; 1: one inlined into it, and so on.
        level: u16, "-";
        /// Name of the function.
        function: Option<String>, "-", null = "the file has no symbol for it";
        /// Source file.
        source: Option<String>, "-", null = "no debug information";
        /// Line in it.
        line: Option<u32>, "-", null = "no debug information";
    }
}

table! {
    /// One span of what a core, or a thread on its cores, did. Spans of one CPU are nested; where the source
    /// gives no CPU, those of one thread. Tasks that perf.data gives are a nest of their own beside its trace.
    row Activity, columns Activities, name "activity", time begin_ns {
        /// When it began.
        begin_ns: u64, "ns";
        /// When it ended.
        end_ns: u64, "ns";
        /// Spans around it.
        depth: u16, "-";
        /// The kind of activity.
        kind: ActivityKind, "-";
        /// Name of the function, interrupt, softirq vector, system call or thread, or a message.
        name: Option<String>, "-", null = "the source does not say";
        /// Process.
        pid: Option<u32>, "-", null = "the source does not say, or it was no process's";
        /// Thread.
        tid: Option<u32>, "-", null = "as `pid`";
        /// CPU.
        cpu: Option<u16>, "-", null = "the source does not say: spans are then nested by thread";
        /// The source.
        source: ActivitySource, "-";
        /// Whether the source shows the start. If not, it began at `begin_ns` or before.
        begin_seen: bool, "-";
        /// Whether the source shows the end. If not, it ended at `end_ns` or later.
        end_seen: bool, "-";
    }
}

table! {
    /// A window in which calls and waits were recorded, under a budget (`--budget`). Rows of `calls`, `waits`, `dns_waits`,
    /// `preemptions`, `spins`, `on_cpu_samples`, `unix_sockets` and `udp_flows` are of these times. Without rows here, of
    /// all the time. A window has one row when it begins, and a second one when it ends.
    row Window, columns Windows, name "windows", time begin_ns {
        /// From when. Of what began before there is no row; `calls` that did have no times of blocking.
        begin_ns: u64, "ns";
        /// Until when.
        end_ns: Option<u64>, "ns", null = "it has just begun; without a second row it lasted until the recording ended";
    }
}

table! {
    /// A time with kept `activity`, and why it was kept. Nothing is kept of other times. Of a message, the CPUs
    /// named here are kept, and those on which its thread ran meanwhile.
    row ActivityWindow, columns ActivityWindows, name "activity_windows", time begin_ns {
        /// From when.
        begin_ns: u64, "ns";
        /// Until when.
        end_ns: u64, "ns";
        /// Why.
        why: Why, "-";
        /// Socket cookie of the message that it was kept for.
        conn: Option<u64>, "-", null = "the user asked for it";
        /// Whether that was sent.
        is_send: Option<bool>, "-", null = "as `conn`";
        /// Where it ends in the stream: with `conn` and `is_send` this finds it in its table.
        offset_end: Option<u64>, "bytes", null = "as `conn`";
        /// CPU where the message began: that took its last segment, or on which its call ended.
        first_cpu: Option<u16>, "-", null = "all CPUs were kept, or it is not known";
        /// CPU where it ended: on which its call ended, or that gave it to the driver.
        last_cpu: Option<u16>, "-", null = "as `first_cpu`";
    }
}

table! {
    /// A packet that this host dropped, or a reset that it sent or received. Only what concerns recorded sockets: of
    /// their ports, or of all with `--all`. Of each reason, place, namespace and device, each CPU stores the first
    /// 256 and then at most one a millisecond; `drop_counts` has them all. Reasons that are no problem are counted
    /// there alone. So is the first datagram of a UDP socket without an earlier call.
    row PacketDrop, columns PacketDrops, name "drops", time time_ns {
        /// When it happened.
        time_ns: u64, "ns";
        /// The kind of event.
        kind: DropKind, "-";
        /// The kernel's reason (`enum skb_drop_reason`, `enum sk_rst_reason`), without the prefix; of ICMP, type and code.
        reason: Option<String>, "-", null = "this kernel gives none";
        /// The function of the kernel that dropped the packet.
        place: Option<String>, "-", null = "no dropped packet, or names of functions are hidden";
        /// As in `drop_counts`: by its place, as reasons that are no problem have no rows here.
        ordinary: bool, "-";
        /// The functions that called each other, innermost first, with ` < ` between them.
        stack: Option<String>, "-", null = "names of functions are hidden";
        /// Socket cookie.
        conn: Option<u64>, "-", null = "the kernel names no socket, or nobody asked for its cookie";
        /// Inode number of the network namespace.
        netns: Option<u32>, "-", null = "neither socket nor device is known";
        /// Name of the device.
        device: Option<String>, "-", null = "none was chosen yet, or it is not known any more";
        /// Number of the device in its namespace; where `device` is null, that by which the packet came.
        ifindex: Option<u32>, "-", null = "as `device`, and it came by none";
        /// Number of the protocol above IP: 6 is TCP, 17 UDP.
        protocol: Option<u8>, "-", null = "no packet of IP";
        /// Address of the sender, and port if it has one. Of a reset, of the packet that it answers.
        source: Option<String>, "-", null = "as `protocol`";
        /// Address of the receiver, and port if it has one. Of a reset, of the packet that it answers.
        destination: Option<String>, "-", null = "as `protocol`";
        /// Flags of TCP (FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32).
        tcp_flags: Option<u8>, "-", null = "no segment of TCP";
        /// Sequence number of the first byte.
        seq: Option<u32>, "-", null = "as `tcp_flags`";
        /// Sequence number after the last byte.
        end_seq: Option<u32>, "-", null = "as `tcp_flags`";
        /// Length, from the IP header on.
        bytes: Option<u32>, "bytes", null = "no packet";
        /// Kind of the qdisc that dropped it: of the device's queue.
        qdisc: Option<String>, "-", null = "no qdisc dropped it, or this kernel does not say so (before Linux 5.18)";
        /// Kind of the qdisc's child: of the only one, such as the bfifo of a tbf, or of all that ever dropped a packet.
        qdisc_child: Option<String>, "-", null = "as `qdisc`, or it has no child, or children of several kinds dropped packets";
        /// Those kinds, if they are several, with `, ` between them. `others`: there are more children than whylat looks at.
        qdisc_candidates: Option<String>, "-", null = "as `qdisc`, or `qdisc_child` is known, or the qdisc itself dropped it";
        /// Limit of the child, if there is one, or of the qdisc: packets, of bfifo bytes.
        qdisc_limit: Option<u32>, "-", null = "as `qdisc`, or it keeps none, or elsewhere, or it may be that of several children";
        /// Packets that waited in it right after the drop.
        qdisc_packets: Option<u32>, "-", null = "as `qdisc`, or it is kept per CPU (pfifo_fast)";
        /// Bytes that waited in it right after the drop.
        qdisc_bytes: Option<u32>, "bytes", null = "as `qdisc_packets`";
        /// Whether it held as much as its limit right after the drop, by the kernel's own test. One that was full may hold
        /// less by then.
        qdisc_full: Option<bool>, "-", null = "limit or test are not known here";
    }
}

table! {
    /// Packets that this host dropped, and resets, of all sockets of the host. A row is one reading of the count of
    /// one reason, place, namespace and device. A row is written when a count has changed, at most once a second, and
    /// when the recording ends.
    row DropCount, columns DropCounts, name "drop_counts", time time_ns {
        /// When it was read.
        time_ns: u64, "ns";
        /// As in `drops`.
        kind: DropKind, "-";
        /// As in `drops`.
        reason: Option<String>, "-", null = "as in `drops`";
        /// As in `drops`.
        place: Option<String>, "-", null = "as in `drops`";
        /// As in `drops`.
        netns: Option<u32>, "-", null = "as in `drops`";
        /// As in `drops`.
        device: Option<String>, "-", null = "as in `drops`";
        /// As in `drops`.
        ifindex: Option<u32>, "-", null = "as in `drops`";
        /// Whether it is no problem: a segment that had arrived before, or what lay in the queue of a socket that is closed.
        ordinary: bool, "-";
        /// All of them; counter since the recording began.
        count: u64, "-";
        /// Of these, what concerns recorded sockets; not counted of ordinary ones; counter.
        selected: u64, "-";
        /// Of these, rows of `drops`; counter.
        stored: u64, "-";
    }
}

table! {
    /// A counter of a network namespace that grew while it was recorded (`/proc/net/snmp`, `snmp6`, `netstat`,
    /// `dev`). It is written when the recording ends, for at most 64 namespaces with a process at both times.
    row NetCounter, columns NetCounters, name "net_counters", time time_ns {
        /// When it was read last.
        time_ns: u64, "ns";
        /// When it was read first.
        since_ns: u64, "ns";
        /// Inode number of the network namespace.
        netns: u32, "-";
        /// Name of the device.
        device: Option<String>, "-", null = "a counter of the namespace";
        /// Name of the counter, as `nstat` prints it (`TcpExtListenDrops`); of a device, as in
        /// `/sys/class/net/DEVICE/statistics` (`rx_dropped`).
        name: String, "-";
        /// Its first value.
        first: u64, "-";
        /// Its last value.
        last: u64, "-";
    }
}

/// Calls `$then!` with the row type of every table; `named $then`: each after the name of its table, which is that of
/// its field in [`RowSet`](crate::RowSet). The one list of tables.
#[macro_export]
macro_rules! for_each_table {
    ($then:ident) => {
        $crate::for_each_table! { @list [$crate::for_each_table] @rows $then }
    };
    (named $then:ident) => {
        $crate::for_each_table! { @list [$then] }
    };
    (@rows $then:ident $($field:ident: $root:tt :: tables :: $row:ident),+ $(,)?) => {
        $then! { $($root::tables::$row),+ }
    };
    (@list [$($then:tt)*] $($before:tt)*) => {
        $($then)*! {
            $($before)*
            processes: $crate::tables::Process,
            connections: $crate::tables::Connection,
            listeners: $crate::tables::Listener,
            failed_connects: $crate::tables::FailedConnect,
            udp_sockets: $crate::tables::UdpSocket,
            unix_sockets: $crate::tables::UnixSocket,
            udp_flows: $crate::tables::UdpFlow,
            tcp_samples: $crate::tables::TcpSample,
            tcp_events: $crate::tables::TcpEvent,
            calls: $crate::tables::Call,
            zerocopy_sends: $crate::tables::ZerocopySend,
            waits: $crate::tables::Wait,
            files: $crate::tables::WaitedFile,
            preemptions: $crate::tables::Preemption,
            dns_waits: $crate::tables::DnsWait,
            received_messages: $crate::tables::ReceivedMessage,
            sent_messages: $crate::tables::SentMessage,
            spins: $crate::tables::Spin,
            on_cpu_samples: $crate::tables::OnCpuSample,
            tcp_stages: $crate::tables::TcpStage,
            clock_pairs: $crate::tables::ClockPair,
            process_samples: $crate::tables::ProcessSample,
            cpu_samples: $crate::tables::CpuSample,
            counters: $crate::tables::Counter,
            tasks: $crate::tables::Task,
            stacks: $crate::tables::StackFrame,
            symbols: $crate::tables::Symbol,
            activity: $crate::tables::Activity,
            activity_windows: $crate::tables::ActivityWindow,
            drops: $crate::tables::PacketDrop,
            drop_counts: $crate::tables::DropCount,
            net_counters: $crate::tables::NetCounter,
            windows: $crate::tables::Window,
        }
    };
}
