//! The causes: a closed set, so that answers of two recordings can be compared.

/// Declares the enum, each value with its stable name, what it means, and what a user can do.
macro_rules! causes {
    ($($value:ident = $name:literal, $meaning:literal, $remedy:literal;)+) => {
        /// Why a CPU spent time: a kind of work, and what can be done about it.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        pub enum Cause {
            $(
                #[doc = $meaning]
                #[serde(rename = $name)]
                $value,
            )+
        }

        impl Cause {
            /// Every cause, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Its stable name, in snake case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }

            /// Returns its meaning in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$value => $meaning),+
                }
            }

            /// Returns its remedy in one sentence.
            pub const fn remedy(self) -> &'static str {
                match self {
                    $(Self::$value => $remedy),+
                }
            }
        }
    };
}

causes! {
    ReceiveProcessing = "receive_processing",
        "Packets on their way from the driver through GRO, IP and TCP or UDP to their sockets.",
        "Keep it off the application's CPUs: RSS, RPS or the interrupts' smp_affinity.";
    SendProcessing = "send_processing",
        "Data and ACKs on their way from a socket through TCP or UDP and IP down to the device.",
        "Fewer, larger sends; keep TSO and GSO on; XPS, so that completions stay on the sender's CPU.";
    SocketCalls = "socket_calls",
        "The program's calls on its sockets: to take what has arrived, to lock them, to set options.",
        "Fewer, larger receives; do not share one socket between threads.";
    Polling = "polling",
        "epoll, poll, select and io_uring: the program asks which of its descriptors are ready.",
        "Take more events a call; epoll or io_uring instead of poll and select; no shared epoll sets.";
    Copying = "copying",
        "Data copied between the program's memory and the kernel's, or within the kernel.",
        "Smaller messages; MSG_ZEROCOPY, sendfile() or splice() for large ones.";
    Retransmission = "retransmission",
        "TCP repairs a loss, or refuses a segment: retransmissions, timeouts, SACK, reordering, resets.",
        "Read the findings on packet loss: `whylat report`.";
    ConnectionSetup = "connection_setup",
        "Sockets made, connected, accepted and closed; SYN cookies, ports, TIME_WAIT.",
        "Keep connections open and use them again.";
    PacketBuffers = "packet_buffers",
        "Memory for packets taken and given back: skbs, their fragments, page pools.",
        "Larger messages; fewer segments (GRO, TSO, jumbo frames).";
    Routing = "routing",
        "Routes, neighbours (ARP, NDP) and addresses resolved or kept.",
        "Connected sockets keep their route; look for churn of routes and for ARP that times out.";
    Netfilter = "netfilter",
        "Firewall, connection tracking, NAT and load balancing in the kernel: netfilter, IPVS.",
        "Fewer rules on the way, sets instead of lists, notrack for trusted traffic, a flow table.";
    Qdisc = "qdisc",
        "Queueing disciplines and classifiers of traffic control: fq, fq_codel, tbf, htb, netem.",
        "See `tc -s qdisc`; a simpler qdisc; a higher rate of the shaper that holds it.";
    VirtualDevice = "virtual_device",
        "Devices without hardware: loopback, veth, bridge, bonding, VLAN, tun, tunnels, Open vSwitch.",
        "Fewer devices on the way: host networking, macvlan, ipvlan or SR-IOV instead of bridge and veth.";
    Nic = "nic",
        "The network card's interrupt and its driver: rings, doorbells, coalescing, link, statistics.",
        "See `ethtool -c` and `-S`: less interrupt coalescing for latency, interrupts on other CPUs.";
    Scheduling = "scheduling",
        "The scheduler: threads woken, queued, picked and moved between CPUs; run queues balanced.",
        "Pin threads; a CPU of its own or a higher priority for the one that matters; fewer threads.";
    ContextSwitch = "context_switch",
        "The CPU goes from one thread to another: registers, FPU state, address space.",
        "Fewer threads for a CPU, larger batches, less blocking.";
    Idle = "idle",
        "No thread had the CPU, or it went to sleep or woke up.",
        "If a message waited meanwhile: find the thread that should have woken it; limit C-states (cpuidle).";
    PowerManagement = "power_management",
        "Frequencies and sleep states of CPUs and devices are chosen or changed.",
        "The cpufreq governor `performance`; /dev/cpu_dma_latency at 0 while latency matters.";
    Locking = "locking",
        "Locks of the kernel, waited for or handed over: spin locks, mutexes, semaphores, wait queues.",
        "See by the caller what is contended; fewer threads on one socket, file or address space.";
    Futex = "futex",
        "Locks of the program: mutexes, condition variables, joins.",
        "Shorter critical sections, fewer threads on one lock; `whylat report --by object` names the lock.";
    Timers = "timers",
        "Timers, the clock tick and reading of clocks.",
        "Fewer timers; nohz_full for CPUs that should not tick; the TSC as clock source.";
    Rcu = "rcu",
        "RCU: grace periods and callbacks that free what was replaced.",
        "rcu_nocbs for the application's CPUs; look for what frees so much.";
    Interrupts = "interrupts",
        "Entry, exit and handling of interrupts and exceptions that are not the network card's.",
        "Move them to other CPUs: /proc/irq/*/smp_affinity, irqbalance.";
    CrossCpu = "cross_cpu",
        "CPUs interrupt each other: functions called there, TLBs flushed, work of others stopped.",
        "Fewer munmap(), mprotect() and migrations; isolate the application's CPUs.";
    Softirqs = "softirqs",
        "Softirqs and tasklets as such, and ksoftirqd, which runs them when there are too many.",
        "Spread or move receive processing; fewer busy threads beside it on that CPU.";
    Workqueues = "workqueues",
        "Deferred work of the kernel: kworker and other kernel threads.",
        "Keep them off: /sys/devices/virtual/workqueue/cpumask, isolcpus.";
    Paging = "paging",
        "Page faults, and mappings made, changed and removed (mmap, munmap, mprotect, brk).",
        "Touch memory beforehand: MAP_POPULATE, mlockall(); an allocator that keeps what it freed.";
    NumaBalancing = "numa_balancing",
        "Automatic NUMA balancing and migration: pages unmapped to see who uses them, and moved.",
        "Bind memory and threads to a node; sysctl kernel.numa_balancing=0.";
    HugePages = "huge_pages",
        "Huge pages made, split and collapsed: khugepaged, transparent huge pages, hugetlbfs.",
        "transparent_hugepage=madvise; reserve huge pages beforehand.";
    MemoryReclaim = "memory_reclaim",
        "Memory is short: reclaim, compaction, swap, kswapd, the OOM killer.",
        "More memory or less use of it; a higher min_free_kbytes; no swap; a higher limit of the cgroup.";
    MemoryAllocation = "memory_allocation",
        "The kernel allocates and frees memory for itself: slab, pages, per-CPU, vmalloc.",
        "Look at the caller: it shows what the memory is for.";
    Dma = "dma",
        "Memory made known to devices: DMA mappings, IOMMU, bounce buffers.",
        "iommu=pt on the kernel's command line, where the host's own devices can be trusted.";
    Cgroups = "cgroups",
        "Control groups: accounting, limits, throttling.",
        "A higher cpu.max or memory.high; fewer levels of groups.";
    FileAccess = "file_access",
        "Files: paths, descriptors, the page cache, file systems, memory of other files.",
        "Less logging, no file access on the thread that answers.";
    BlockIo = "block_io",
        "Disks: the block layer, its devices and their interrupts.",
        "Keep disks' interrupts and writers off the application's CPUs.";
    LocalIpc = "local_ipc",
        "Pipes, UNIX sockets, eventfd, System V and POSIX message queues.",
        "Fewer hand-overs between threads and processes.";
    Processes = "processes",
        "Processes and threads made, replaced and ended: fork, exec, exit, wait.",
        "Keep pools of threads; start no programs on the way of a message.";
    Signals = "signals",
        "Signals sent and delivered.",
        "No profiling timers and no signals as notification on threads that answer.";
    SystemCalls = "system_calls",
        "Entry and exit of system calls, and calls that have no cause of their own.",
        "Fewer calls: batch them (recvmmsg, sendmmsg, io_uring).";
    Security = "security",
        "Security modules, seccomp, audit, credentials and keys.",
        "Simpler seccomp filters and audit rules.";
    Crypto = "crypto",
        "Encryption, checksums, compression and random numbers: TLS in the kernel, IPsec, WireGuard.",
        "Ciphers that the CPU or the NIC accelerates; see /proc/crypto.";
    Virtualization = "virtualization",
        "The hypervisor: time stolen, calls to it, and the running of guests.",
        "Fewer guests on the host's CPUs; pinned virtual CPUs.";
    BpfPrograms = "bpf_programs",
        "BPF programs and their maps, of XDP, traffic control, cgroups and sockets.",
        "See `bpftool prog`: what is attached, and what each run of it takes.";
    Profiling = "profiling",
        "Profilers and tracers: perf, ftrace, kprobes, uprobes, tracing BPF programs, whylat itself.",
        "Record less: fewer events, a lower detail, fewer tools at once.";
    Devices = "devices",
        "Kernel messages, consoles, terminals, and devices that are neither disk nor network.",
        "Fewer kernel messages (dmesg -n 1); no serial console.";
    Helpers = "helpers",
        "General-purpose code, such as trees, lists and bit maps: its time belongs to its caller.",
        "Look at the function around it.";
}

impl Cause {
    /// The cause of a stable name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|cause| cause.name() == name)
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
