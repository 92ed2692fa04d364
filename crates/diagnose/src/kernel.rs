//! Numbers of the Linux kernel that findings are judged by.

/// `TCP_DELACK_MIN`, HZ / 25 (`include/net/tcp.h`): the shortest time for which an ACK is delayed, ns.
pub const TCP_DELACK_MIN_NS: u64 = 40_000_000;

/// `TCP_DELACK_MAX`, HZ / 5: the longest, ns.
pub const TCP_DELACK_MAX_NS: u64 = 200_000_000;

/// `TCP_RTO_MIN`, HZ / 5: the shortest retransmission timeout, and so the shortest time after which the kernel sends what a
/// cork holds (`tcp_check_probe_timer()`), ns.
pub const TCP_RTO_MIN_NS: u64 = 200_000_000;

/// `TCP_TIMEOUT_INIT`, HZ (`include/net/tcp.h`, RFC 6298): a SYN is taken for lost after this, and retransmitted, ns.
pub const TCP_TIMEOUT_INIT_NS: u64 = 1_000_000_000;

/// `TCP_INIT_CWND` (`include/net/tcp.h`, RFC 6928): segments of the first congestion window.
pub const TCP_INIT_CWND: u64 = 10;

/// The longest jiffy that the kernel can be built with (HZ = 100), ns: timers tick no finer.
pub const LONGEST_JIFFY_NS: u64 = 10_000_000;

/// `TCP_CA_Recovery` of `enum tcp_ca_state`.
pub const TCP_CA_RECOVERY: u8 = 3;

/// `TCP_CA_Loss`.
pub const TCP_CA_LOSS: u8 = 4;

/// The base slice of kernels with EEVDF (6.6 and later) and 8 CPUs or more, ns: `sysctl_sched_base_slice`, 0.7 ms times one and the
/// binary logarithm of the CPUs, at most 8 (`kernel/sched/fair.c`). So long another thread has its turn. Other kernels differ: the
/// slices of CFS are longer or shorter by the number of threads, and a coarse tick (HZ) makes each longer.
pub const LONGEST_SLICE_NS: u64 = 2_800_000;

/// The run-queue delay of an ordinary wake-up, ns: as late as the kernel itself lets every ordinary thread be when it sleeps
/// (`timer_slack_ns` of `init_task`).
pub const WAKE_NS: u64 = 50_000;
