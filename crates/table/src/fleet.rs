//! The tables that agents write and the fleet reads: `docs/fleet/dataset.md` says where the files lie. They are no part
//! of a recording: their clock is that of the day (`CLOCK_REALTIME`), as rows of many hosts must meet, and all whole
//! numbers are signed or at most 32 bits wide, as not every SQL engine has wider unsigned ones.
//!
//! Problems are SNAP's five (section 2.3, footnote 4), found by its flags (Table 2): the time of those intervals between
//! two readings in which the flag was raised.

use crate::{Role, WorkloadKind, WorkloadSource, table};

/// Name and version of the format, as written into the key-value metadata of each file under [`FLEET_SCHEMA_KEY`].
pub const FLEET_SCHEMA: &str = "whylat.fleet/1";

/// Key of [`FLEET_SCHEMA`] in the metadata of a Parquet file.
pub const FLEET_SCHEMA_KEY: &str = "whylat.schema";

/// Length of a bin of `fleet_problems`, ns: SNAP's aggregation interval t (section 3.2).
pub const BIN_NS: i64 = 2_000_000_000;

table! {
    /// A connection's socket in a bin of two seconds in which it had at least one of SNAP's problems. A connection
    /// has a row, too, if it was active while another of the same process had a problem. This may be in this bin or a
    /// neighbouring one. What has no row had no problem, where `fleet_coverage` says that the host was watched.
    row FleetProblem, columns FleetProblems, name "fleet_problems", time begin_ns {
        /// Name of the host that saw it.
        host: String, "-";
        /// Identifies the connection's socket among those of all hosts and times.
        conn_id: i64, "-";
        /// Begin of the bin, a multiple of two seconds since 1970-01-01 UTC.
        begin_ns: i64, "ns";
        /// Time with the flag "send buffer limited".
        send_buffer_us: i32, "us";
        /// Time with the flag "fast retransmission".
        fast_retransmit_us: Option<i32>, "us", null = "not readable on this kernel";
        /// Time with the flag "timeout".
        timeout_us: Option<i32>, "us", null = "not readable on this kernel";
        /// Time with the flag "delayed ACK".
        delayed_ack_us: Option<i32>, "us", null = "not measured at this detail";
        /// Time with the flag "receiver window limited".
        receiver_window_us: i32, "us";
        /// Time in which the application had given nothing to send (stage `sender_app`).
        sender_app_us: Option<i32>, "us", null = "not measured at this detail";
    }
}

table! {
    /// One interval of one connection's socket: an agent writes it when something was sent, received or wrong. Counts
    /// are those of the interval.
    row FleetInterval, columns FleetIntervals, name "fleet_intervals", time begin_ns {
        /// Name of the host that saw it.
        host: String, "-";
        /// Identifies the connection's socket among those of all hosts and times.
        conn_id: i64, "-";
        /// Begin of the interval, since 1970-01-01 UTC.
        begin_ns: i64, "ns";
        /// Its length; less than the agent's interval where the connection opened or closed.
        length_us: i64, "us";
        /// The stage or finding that held the connection most, of those that can be fixed.
        verdict: Option<String>, "-", null = "nothing held it";
        /// Time with the flag "send buffer limited".
        send_buffer_us: i64, "us";
        /// Time with the flag "fast retransmission".
        fast_retransmit_us: Option<i64>, "us", null = "not readable on this kernel";
        /// Time with the flag "timeout".
        timeout_us: Option<i64>, "us", null = "not readable on this kernel";
        /// Time with the flag "delayed ACK".
        delayed_ack_us: Option<i64>, "us", null = "not measured at this detail";
        /// Time with the flag "receiver window limited".
        receiver_window_us: i64, "us";
        /// Time with none of these flags, of those that were measured: SNAP's "sender app limited".
        no_flag_us: i64, "us";
        /// Bytes that the peer has acknowledged. The kernel counts SYN and FIN as one each, here and in those that came in.
        acked_bytes: i64, "bytes";
        /// Bytes that came in.
        received_bytes: i64, "bytes";
        /// Segments sent, retransmissions included.
        segs_out: i64, "segments";
        /// Retransmitted segments.
        retrans: i64, "segments";
        /// Retransmissions that a timeout began.
        timeouts: Option<i64>, "-", null = "not readable on this kernel";
        /// Smoothed round-trip time at the last reading.
        srtt_us: Option<i32>, "us", null = "no sample of it yet";
        /// Least round-trip time so far.
        min_rtt_us: Option<i32>, "us", null = "no sample of it yet";
        /// Congestion window at the last reading.
        cwnd_segs: i32, "segments";
        /// The peer's announced window at the last reading.
        snd_wnd_bytes: Option<i64>, "bytes", null = "not readable on this kernel";
        /// Largest send queue so far.
        max_send_queue_bytes: i64, "bytes";
        /// Readings that this row is made of: those that found something new.
        polls: i32, "-";
        /// Longest time that one of them covers: since the reading of the socket before.
        poll_gap_us: i64, "us";
        /// Send calls that gave bytes.
        writes: Option<i64>, "-", null = "calls were not counted";
        /// Bytes that they gave.
        written_bytes: Option<i64>, "bytes", null = "as `writes`";
        /// Of the send calls, those of at most 64 bytes.
        writes_to_64: Option<i64>, "-", null = "as `writes`";
        /// Those of 65 to 512 bytes.
        writes_to_512: Option<i64>, "-", null = "as `writes`";
        /// Those of 513 to 4,096 bytes.
        writes_to_4k: Option<i64>, "-", null = "as `writes`";
        /// Those of 4,097 to 32,768 bytes.
        writes_to_32k: Option<i64>, "-", null = "as `writes`";
        /// Those of 32,769 to 262,144 bytes.
        writes_to_256k: Option<i64>, "-", null = "as `writes`";
        /// Those of more.
        writes_over_256k: Option<i64>, "-", null = "as `writes`";
        /// Receive calls that took bytes.
        reads: Option<i64>, "-", null = "calls were not counted";
        /// Bytes that they took.
        read_bytes: Option<i64>, "bytes", null = "as `reads`";
        /// Of the receive calls, those of at most 64 bytes.
        reads_to_64: Option<i64>, "-", null = "as `reads`";
        /// Those of 65 to 512 bytes.
        reads_to_512: Option<i64>, "-", null = "as `reads`";
        /// Those of 513 to 4,096 bytes.
        reads_to_4k: Option<i64>, "-", null = "as `reads`";
        /// Those of 4,097 to 32,768 bytes.
        reads_to_32k: Option<i64>, "-", null = "as `reads`";
        /// Those of 32,769 to 262,144 bytes.
        reads_to_256k: Option<i64>, "-", null = "as `reads`";
        /// Those of more.
        reads_over_256k: Option<i64>, "-", null = "as `reads`";
    }
}

table! {
    /// A connection's socket. It is written when it is first seen, when its owner becomes known or changes, and when
    /// it closes. It is written at the start of each hour, too. Times are totals since the agent first saw it; of
    /// several rows of one `conn_id`, the latest holds.
    row FleetConnection, columns FleetConnections, name "fleet_connections", time time_ns {
        /// Name of the host that saw it.
        host: String, "-";
        /// Identifies the connection's socket among those of all hosts and times.
        conn_id: i64, "-";
        /// When the row was written, since 1970-01-01 UTC.
        time_ns: i64, "ns";
        /// Inode number of the network namespace.
        netns: u32, "-";
        /// Local address.
        local_address: String, "-";
        /// Local port.
        local_port: i32, "-";
        /// Address of the peer.
        peer_address: String, "-";
        /// Port of the peer.
        peer_port: i32, "-";
        /// The side that opened it.
        role: Role, "-";
        /// Command name of the process that owns it.
        process: Option<String>, "-", null = "owner not known";
        /// Its process id in the initial pid namespace.
        pid: Option<i32>, "-", null = "owner not known";
        /// Namespace of its pod.
        pod_namespace: Option<String>, "-", null = "in no pod, or files not readable";
        /// Name of its pod.
        pod: Option<String>, "-", null = "as pod_namespace";
        /// Name of its container.
        container: Option<String>, "-", null = "in no container, a pod's sandbox, or files not readable";
        /// Name of the workload of its pod.
        workload: Option<String>, "-", null = "in no pod, or nothing on the node shows it";
        /// Kind of the workload.
        workload_kind: Option<WorkloadKind>, "-", null = "as workload";
        /// Facts that show the workload.
        workload_source: Option<WorkloadSource>, "-", null = "as workload";
        /// Application, by the agent's rules; without one `NAMESPACE/NAME` of the workload.
        app: Option<String>, "-", null = "no rule names it, and it has no workload";
        /// Tier of the application, by the agent's rules.
        tier: Option<String>, "-", null = "no rule names it";
        /// Whether the application's rule calls it sensitive to delay.
        delay_sensitive: Option<bool>, "-", null = "no rule names it";
        /// When the agent first saw it, since 1970-01-01 UTC.
        first_ns: i64, "ns";
        /// When it was established.
        opened_ns: Option<i64>, "ns", null = "before the agent saw it";
        /// When it closed.
        closed_ns: Option<i64>, "ns", null = "still open";
        /// Congestion control algorithm.
        congestion: Option<String>, "-", null = "not reported";
        /// Whether TCP_NODELAY is set.
        nodelay: Option<bool>, "-", null = "not readable";
        /// Send buffer limit.
        sndbuf_bytes: Option<i64>, "bytes", null = "not reported";
        /// Receive buffer limit.
        rcvbuf_bytes: Option<i64>, "bytes", null = "not reported";
        /// Time watched: what the shares of the following are of.
        watched_us: i64, "us";
        /// Time with the flag "send buffer limited".
        send_buffer_us: i64, "us";
        /// Time with the flags "fast retransmission" or "timeout": SNAP's "congestion".
        congestion_us: Option<i64>, "us", null = "not readable on this kernel";
        /// Time with the flag "delayed ACK".
        delayed_ack_us: Option<i64>, "us", null = "not measured at this detail";
        /// Time with the flag "receiver window limited".
        receiver_window_us: i64, "us";
        /// Time with none of these flags, of those that were measured: SNAP's "sender app limited".
        no_flag_us: i64, "us";
        /// Bytes that the peer has acknowledged.
        acked_bytes: i64, "bytes";
        /// Bytes that came in.
        received_bytes: i64, "bytes";
        /// Retransmitted segments.
        retrans: i64, "segments";
        /// Retransmissions that a timeout began.
        timeouts: Option<i64>, "-", null = "not readable on this kernel";
    }
}

table! {
    /// A host was watched: one row for each interval of an agent, also when nothing happened. Where a host has no row, it
    /// was not watched, and nothing is known of it.
    row FleetCoverage, columns FleetCoverages, name "fleet_coverage", time begin_ns {
        /// Name of the host.
        host: String, "-";
        /// Begin of the interval, since 1970-01-01 UTC.
        begin_ns: i64, "ns";
        /// Its length.
        length_us: i64, "us";
        /// Kernel's identity of this boot.
        boot_id: String, "-";
        /// Version of the agent.
        agent: String, "-";
        /// Release of the kernel.
        kernel: String, "-";
        /// The detail of every connection: `stats` or `calls`.
        detail: String, "-";
        /// Connections open at the end of the interval.
        connections: i64, "-";
        /// Of them, those with readings within it.
        polled: i64, "-";
        /// Readings taken, those that found nothing new among them.
        polls: i64, "-";
        /// Mean time between two readings of one connection.
        poll_interval_us: i64, "us";
        /// Longest time between two readings of one connection.
        poll_gap_us: i64, "us";
        /// CPU time of the agent's process.
        cpu_us: i64, "us";
        /// CPU time of its BPF programs.
        bpf_us: Option<i64>, "us", null = "not measured on this kernel";
        /// Resident memory of the agent.
        rss_bytes: i64, "bytes";
        /// Records that were lost in the kernel or in the agent.
        lost: i64, "-";
        /// Rows that were written in this interval, of all tables but this.
        rows: i64, "-";
        /// Files that wait for the target.
        spooled_files: i64, "-";
        /// Files that were dropped since the agent began, as the spool was full.
        dropped_files: i64, "-";
        /// Largest error of the host's clock, as its time daemon sets it in the kernel (`adjtimex` `maxerror`).
        clock_error_us: Option<i64>, "us", null = "the clock is not synchronised";
        /// Gaps: connections that the agent could not see, and why.
        lacks: Option<String>, "-", null = "nothing";
        /// Readings near problems that are not in `fleet_details`, as there were too many.
        details_left_out: Option<i64>, "-", null = "not counted by this version";
        /// Connections that closed and are in no table, as there were too many.
        connections_left_out: Option<i64>, "-", null = "not counted by this version";
    }
}

table! {
    /// One reading of one connection's socket near a problem. Agents write it for the readings of a bin in which the
    /// connection had one of the problems. They do so for the bins before and after, too. They write the first of
    /// each connection and interval. `fleet_coverage.details_left_out` counts the others. Counts are those since the
    /// reading before.
    row FleetDetail, columns FleetDetails, name "fleet_details", time time_ns {
        /// Name of the host that saw it.
        host: String, "-";
        /// Identifies the connection's socket among those of all hosts and times.
        conn_id: i64, "-";
        /// When the socket was read, since 1970-01-01 UTC.
        time_ns: i64, "ns";
        /// Time since the reading before.
        length_us: i64, "us";
        /// The stage in which the sending socket spent most of that time.
        stage: Option<String>, "-", null = "not measured at this detail";
        /// Send calls that gave bytes.
        writes: Option<i64>, "-", null = "calls were not counted";
        /// Bytes that they gave.
        written_bytes: Option<i64>, "bytes", null = "as `writes`";
        /// Receive calls that took bytes.
        reads: Option<i64>, "-", null = "calls were not counted";
        /// Bytes that they took.
        read_bytes: Option<i64>, "bytes", null = "as `reads`";
        /// Bytes that the peer has acknowledged.
        acked_bytes: i64, "bytes";
        /// Bytes that came in.
        received_bytes: i64, "bytes";
        /// Retransmitted segments.
        retrans: i64, "segments";
        /// Retransmissions that a timeout began.
        timeouts: Option<i64>, "-", null = "not readable on this kernel";
        /// Bytes given by the application and not yet acknowledged, at the reading.
        send_queue_bytes: i64, "bytes";
        /// Segments on their way, at the reading.
        unacked_segs: i64, "segments";
        /// Congestion window at the reading.
        cwnd_segs: i32, "segments";
        /// The peer's announced window at the reading.
        snd_wnd_bytes: Option<i64>, "bytes", null = "not readable on this kernel";
        /// Smoothed round-trip time at the reading.
        srtt_us: Option<i32>, "us", null = "no sample of it yet";
    }
}

/// Calls `$then!` with every fleet table's row type: the one list of them.
#[macro_export]
macro_rules! for_each_fleet_table {
    ($then:ident) => {
        $then! {
            $crate::fleet::FleetProblem,
            $crate::fleet::FleetInterval,
            $crate::fleet::FleetConnection,
            $crate::fleet::FleetCoverage,
            $crate::fleet::FleetDetail,
        }
    };
}
