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

            /// Returns the cause's stable name, in snake case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }

            /// Returns the meaning of the cause in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$value => $meaning),+
                }
            }

            /// Returns what helps against the cause, in one sentence.
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
        "The receive path of packets: driver, GRO, IP, TCP or UDP, socket.",
        "Keep this work off the application's CPUs: RSS, RPS or the interrupts' smp_affinity.";
    SendProcessing = "send_processing",
        "The send path of data and ACKs: socket, TCP or UDP, IP, device.",
        "Fewer, larger sends; keep TSO and GSO on; XPS, so that completions stay on the sender's CPU.";
    SocketCalls = "socket_calls",
        "The program's calls on its sockets: receive data, lock sockets, set options.",
        "Make fewer and larger receive calls. Do not share one socket between threads.";
    Polling = "polling",
        "epoll, poll, select and io_uring: the program asks which descriptors are ready.",
        "Take more events with each call. Use epoll or io_uring instead of poll and select. Do not share epoll sets.";
    Copying = "copying",
        "Data copied between the program's memory and the kernel's, or within the kernel.",
        "Send smaller messages. Use MSG_ZEROCOPY, sendfile() or splice() for large ones.";
    Retransmission = "retransmission",
        "TCP repairs a loss, or refuses a segment: retransmissions, timeouts, SACK, reordering, resets.",
        "Read the findings on packet loss: `whylat report`.";
    ConnectionSetup = "connection_setup",
        "Creating, connecting, accepting and closing sockets; SYN cookies, ports, TIME_WAIT.",
        "Keep connections open and reuse them.";
    PacketBuffers = "packet_buffers",
        "Allocating and freeing memory for packets: skbs, their fragments, page pools.",
        "Send larger messages in fewer segments (GRO, TSO, jumbo frames).";
    Routing = "routing",
        "Finding and storing routes, neighbours (ARP, NDP) and addresses.",
        "Use connected sockets: they keep their route. Check for frequent route changes and for ARP timeouts.";
    Netfilter = "netfilter",
        "Firewall, connection tracking, NAT and load balancing in the kernel: netfilter, IPVS.",
        "Use fewer rules, sets instead of lists, notrack for trusted traffic, or a flow table.";
    Qdisc = "qdisc",
        "Queueing disciplines and classifiers of traffic control: fq, fq_codel, tbf, htb, netem.",
        "Read `tc -s qdisc`. Use a simpler qdisc, or raise the rate of the shaper.";
    VirtualDevice = "virtual_device",
        "Devices without hardware: loopback, veth, bridge, bonding, VLAN, tun, tunnels, Open vSwitch.",
        "Use fewer devices: host networking, macvlan, ipvlan or SR-IOV instead of bridge and veth.";
    Nic = "nic",
        "The network adapter's interrupt and its driver: rings, doorbells, coalescing, link, statistics.",
        "Read `ethtool -c` and `-S`. For latency, use less interrupt coalescing, and move interrupts to other CPUs.";
    Scheduling = "scheduling",
        "The scheduler wakes, queues and picks threads, moves them between CPUs, and balances run queues.",
        "Pin threads, or run fewer of them. Give the important thread its own CPU or a higher priority.";
    ContextSwitch = "context_switch",
        "The context switch from one thread to another: registers, FPU state, address space.",
        "Run fewer threads on a CPU, use larger batches, and block less often.";
    Idle = "idle",
        "No thread had the CPU, or the CPU entered or left an idle state.",
        "If a message waited meanwhile, find the thread that should have woken its reader. Limit C-states (cpuidle).";
    PowerManagement = "power_management",
        "The kernel chooses or changes frequencies and sleep states of CPUs and devices.",
        "Use the cpufreq governor `performance`. Hold /dev/cpu_dma_latency at 0 while latency is important.";
    Locking = "locking",
        "Waiting for and passing on locks of the kernel: spin locks, mutexes, semaphores, wait queues.",
        "Find the contended lock by its caller. Use fewer threads on one socket, file or address space.";
    Futex = "futex",
        "Locks of the program: mutexes, condition variables, joins.",
        "Use shorter critical sections, and fewer threads on one lock. `whylat report --by object` names the lock.";
    Timers = "timers",
        "Timers, the clock tick and clock readings.",
        "Use fewer timers, nohz_full for CPUs that should not tick, and the TSC as clock source.";
    Rcu = "rcu",
        "RCU: grace periods, and callbacks that free replaced objects.",
        "Use rcu_nocbs for the application's CPUs. Find the code that frees so much.";
    Interrupts = "interrupts",
        "Entry, exit and handling of interrupts and exceptions, without those of the network adapter.",
        "Move them to other CPUs: /proc/irq/*/smp_affinity, irqbalance.";
    CrossCpu = "cross_cpu",
        "CPUs interrupt each other: to call a function, to flush a TLB, to stop other work.",
        "Use fewer munmap(), mprotect() and migrations. Isolate the application's CPUs.";
    Softirqs = "softirqs",
        "The softirq machinery itself, tasklets, and ksoftirqd, which runs softirqs when they are too many.",
        "Spread or move receive processing. Run fewer busy threads on that CPU.";
    Workqueues = "workqueues",
        "Deferred work of the kernel: kworker and other kernel threads.",
        "Keep them off the application's CPUs: /sys/devices/virtual/workqueue/cpumask, isolcpus.";
    Paging = "paging",
        "Page faults, and changes of mappings (mmap, munmap, mprotect, brk).",
        "Touch memory beforehand: MAP_POPULATE, mlockall(). Use an allocator that keeps freed memory.";
    NumaBalancing = "numa_balancing",
        "Automatic NUMA balancing and migration: the kernel unmaps pages to find who uses them, and moves them.",
        "Bind memory and threads to a node, or set sysctl kernel.numa_balancing=0.";
    HugePages = "huge_pages",
        "Creating, splitting and collapsing huge pages: khugepaged, transparent huge pages, hugetlbfs.",
        "Set transparent_hugepage=madvise, or reserve huge pages beforehand.";
    MemoryReclaim = "memory_reclaim",
        "Memory is short: reclaim, compaction, swap, kswapd, the OOM killer.",
        "Give the program more memory, or let it use less. Raise min_free_kbytes or the limit of the cgroup. Use no swap.";
    MemoryAllocation = "memory_allocation",
        "The kernel allocates and frees memory for itself: slab, pages, per-CPU, vmalloc.",
        "Check the caller: it shows what the memory is for.";
    Dma = "dma",
        "Mapping memory for devices: DMA mappings, IOMMU, bounce buffers.",
        "If the host's own devices can be trusted, set iommu=pt on the kernel's command line.";
    Cgroups = "cgroups",
        "Control groups: accounting, limits, throttling.",
        "Raise cpu.max or memory.high, or use fewer levels of groups.";
    FileAccess = "file_access",
        "Files: paths, descriptors, the page cache, file systems, memory of other files.",
        "Log less, and access no files on the thread that answers.";
    BlockIo = "block_io",
        "Disks: the block layer, its devices and their interrupts.",
        "Keep disks' interrupts and writers off the application's CPUs.";
    LocalIpc = "local_ipc",
        "Pipes, UNIX sockets, eventfd, System V and POSIX message queues.",
        "Pass messages between threads and processes less often.";
    Processes = "processes",
        "Begin and end of processes and threads: fork, exec, exit, wait.",
        "Keep pools of threads. Start no programs on the path of a message.";
    Signals = "signals",
        "Signals sent and delivered.",
        "Use no profiling timers, and no signals as notification, on threads that answer.";
    SystemCalls = "system_calls",
        "Entry and exit of system calls, and calls that have no cause of their own.",
        "Make fewer calls: batch them (recvmmsg, sendmmsg, io_uring).";
    Security = "security",
        "Security modules, seccomp, audit, credentials and keys.",
        "Use simpler seccomp filters and audit rules.";
    Crypto = "crypto",
        "Encryption, checksums, compression and random numbers: TLS in the kernel, IPsec, WireGuard.",
        "Use ciphers that the CPU or the NIC accelerates: see /proc/crypto.";
    Virtualization = "virtualization",
        "The hypervisor: stolen time, hypercalls, and running guests.",
        "Run fewer guests on the host's CPUs, or pin virtual CPUs.";
    BpfPrograms = "bpf_programs",
        "BPF programs of XDP, traffic control, cgroups and sockets, and their maps.",
        "`bpftool prog` shows what is attached, and the time of each run.";
    Profiling = "profiling",
        "Profilers and tracers: perf, ftrace, kprobes, uprobes, tracing BPF programs, whylat itself.",
        "Record less: fewer events, a lower detail, fewer tools at once.";
    Devices = "devices",
        "Kernel messages, consoles, terminals, and devices other than disks and network.",
        "Print fewer kernel messages (dmesg -n 1), and use no serial console.";
    Helpers = "helpers",
        "General-purpose code, such as trees, lists and bit maps. Its time belongs to its caller.",
        "Examine its caller.";
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
