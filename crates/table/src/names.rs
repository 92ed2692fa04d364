//! Closed sets of names that columns hold as text, so that a query reads
//! `kind = 'fast_retransmit'` and not `kind = 3`.

/// Declares an enum with values that are stored as text in a column.
macro_rules! names {
    (
        $(#[doc = $doc:literal])+
        pub enum $name:ident {
            $($(#[doc = $value_doc:literal])+ $value:ident = $text:literal,)+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $(
                $(#[doc = $value_doc])+
                #[serde(rename = $text)]
                $value,
            )+
        }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Returns the stored name of the value.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text),+
                }
            }

            /// Returns the meaning of the value.
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Self::$value => concat!($($value_doc, "\n"),+)),+
                }
            }

            /// The value of a stored name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl $crate::declare::Cell for $name {
            fn data_type() -> arrow_schema::DataType {
                <String as $crate::declare::Cell>::data_type()
            }
            const NULLABLE: bool = false;
            const ENCODING: $crate::declare::Encoding = <String as $crate::declare::Cell>::ENCODING;
            fn value(&self) -> $crate::Value<'_> {
                $crate::Value::Text(self.name())
            }
            fn encode(cells: &[Self], page: &mut $crate::declare::PageBody) {
                page.strings(cells.iter().map(|cell| cell.name()));
            }
            fn to_array(cells: Vec<Self>) -> arrow_array::ArrayRef {
                std::sync::Arc::new(arrow_array::StringArray::from_iter_values(
                    cells.into_iter().map(Self::name),
                ))
            }
            fn from_array(array: &dyn arrow_array::Array) -> Option<Vec<Self>> {
                let array = array.as_any().downcast_ref::<arrow_array::StringArray>()?;
                array.iter().map(|cell| cell.and_then(Self::from_name)).collect()
            }
        }

        impl $crate::declare::Cell for Option<$name> {
            fn data_type() -> arrow_schema::DataType {
                <Option<String> as $crate::declare::Cell>::data_type()
            }
            const NULLABLE: bool = true;
            const ENCODING: $crate::declare::Encoding = <String as $crate::declare::Cell>::ENCODING;
            fn value(&self) -> $crate::Value<'_> {
                self.as_ref().map_or($crate::Value::Absent, $crate::declare::Cell::value)
            }
            fn encode(cells: &[Self], page: &mut $crate::declare::PageBody) {
                page.levels_of(cells);
                page.strings(cells.iter().flatten().map(|cell| cell.name()));
            }
            fn to_array(cells: Vec<Self>) -> arrow_array::ArrayRef {
                let names = cells.into_iter().map(|cell| cell.map($name::name));
                std::sync::Arc::new(arrow_array::StringArray::from_iter(names))
            }
            fn from_array(array: &dyn arrow_array::Array) -> Option<Vec<Self>> {
                let array = array.as_any().downcast_ref::<arrow_array::StringArray>()?;
                let known = |name: &str| $name::from_name(name).map(Some);
                array.iter().map(|cell| cell.map_or(Some(None), known)).collect()
            }
            fn absent(rows: usize) -> Option<Vec<Self>> {
                Some(vec![None; rows])
            }
        }
    };
}

names! {
    /// Sides that may open a connection.
    pub enum Role {
        /// This socket called connect.
        Client = "client",
        /// This socket came out of a listening socket.
        Server = "server",
        /// The connection was open before the recording and neither end shows it.
        Unknown = "unknown",
    }
}

names! {
    /// Why a connection is in the recording.
    pub enum Chosen {
        /// It matches what the user asked to record.
        Target = "target",
        /// It is the other end, on this host, of a connection that matches. It has a ledger,
        /// samples and events; its calls are not logged.
        Peer = "peer",
    }
}

names! {
    /// Kinds of workloads of Kubernetes.
    pub enum WorkloadKind {
        /// A Deployment, which has its pods by ReplicaSets.
        Deployment = "Deployment",
        /// A StatefulSet.
        StatefulSet = "StatefulSet",
        /// A DaemonSet.
        DaemonSet = "DaemonSet",
        /// A Job.
        Job = "Job",
        /// A CronJob, which has its pods by Jobs.
        CronJob = "CronJob",
    }
}

names! {
    /// Facts that show the workload of a pod.
    pub enum WorkloadSource {
        /// Labels that the controller of the workload gives to its pods, and the pod's name fits them.
        Labels = "labels",
        /// The pod's name alone: it ends as those of a Deployment do. Another controller could give such a name.
        PodName = "pod_name",
        /// Labels show the Job. Its name alone shows the CronJob: it ends in a minute of time.
        JobName = "job_name",
    }
}

names! {
    /// When a row of `tcp_samples` was taken.
    pub enum SampleKind {
        /// At a random time, by polling.
        Poll = "poll",
        /// When the socket closed, in the kernel.
        Close = "close",
    }
}

names! {
    /// How a program asks for zero-copy sends.
    pub enum ZerocopyInterface {
        /// A send call with `MSG_ZEROCOPY`.
        MsgZerocopy = "msg_zerocopy",
        /// `IORING_OP_SEND_ZC` or `IORING_OP_SENDMSG_ZC`.
        IoUring = "io_uring",
    }
}

names! {
    /// Events of a connection.
    pub enum TcpEventKind {
        /// TCP state change; `old` and `new` are kernel states (`TCP_ESTABLISHED` = 1, …).
        State = "state",
        /// Congestion state change; `old` and `new` are `TCP_CA_*` (Open 0, Disorder 1, CWR 2,
        /// Recovery 3, Loss 4). Loss again means a further retransmission timeout.
        CongestionState = "congestion_state",
        /// A segment retransmitted because duplicate ACKs or SACK showed it lost.
        FastRetransmit = "fast_retransmit",
        /// A segment retransmitted because the retransmission timer expired.
        TimeoutRetransmit = "timeout_retransmit",
        /// A segment retransmitted to probe for a lost tail (TLP).
        TailLossProbe = "tail_loss_probe",
        /// A retransmitted SYN or SYN-ACK.
        SynRetransmit = "syn_retransmit",
        /// The receiver reported a segment that it already had (DSACK): a retransmission was
        /// not needed.
        Spurious = "spurious",
        /// The peer announced a window of zero bytes.
        ZeroWindowOpen = "zero_window_open",
        /// The peer announced room again after a window of zero bytes.
        ZeroWindowClose = "zero_window_close",
    }
}

impl TcpEventKind {
    /// Returns whether data was retransmitted.
    pub fn is_retransmission(self) -> bool {
        matches!(
            self,
            Self::FastRetransmit | Self::TimeoutRetransmit | Self::TailLossProbe
        )
    }
}

names! {
    /// The stages that stop the next byte of a sending socket, in order of decision.
    pub enum Stage {
        /// Nothing is acknowledged until a retransmission timeout ends it.
        RetransmitTimeout = "retransmit_timeout",
        /// Nothing is acknowledged until a tail-loss probe ends it.
        TailLoss = "tail_loss",
        /// The receiver's announced window is full.
        ReceiverWindow = "receiver_window",
        /// Fast recovery, while the congestion window is the limit.
        FastRetransmit = "fast_retransmit",
        /// The congestion window is full.
        CongestionWindow = "congestion_window",
        /// The pacing timer holds the next segment.
        Pacing = "pacing",
        /// Sent segments wait below TCP, in queueing discipline or driver (TCP small queues).
        LocalQueue = "local_queue",
        /// The application or the kernel asked to wait for more data (cork).
        Cork = "cork",
        /// Nagle's algorithm holds a short segment.
        Nagle = "nagle",
        /// The receiver delays its ACK until its timer expires, and the sender waits for it.
        DelayedAck = "delayed_ack",
        /// The send buffer is full although path and receiver would take more.
        SendBuffer = "send_buffer",
        /// All is sent and on its way, for at most the path's round-trip time.
        InFlight = "in_flight",
        /// The application gives nothing to send.
        SenderApp = "sender_app",
        /// None of the above could be shown.
        Unknown = "unknown",
    }
}

names! {
    /// How a stage's share was found.
    pub enum Method {
        /// From the in-kernel stage ledger: every interval, in nanoseconds.
        Ledger = "ledger",
        /// From the kernel's own busy, window-limited and buffer-limited clocks, in jiffies.
        Chronograph = "chronograph",
        /// From the share of random samples that found the socket in the stage.
        Samples = "samples",
        /// From the packets of a capture: every interval, as far as packets show what ended it.
        Capture = "capture",
    }
}

impl Method {
    /// Returns whether every interval was measured.
    pub const fn is_measured(self) -> bool {
        matches!(self, Self::Ledger | Self::Capture)
    }
}

names! {
    /// Kinds of objects that threads wait for.
    pub enum WaitObject {
        /// A TCP connection: `conn` names it.
        Connection = "connection",
        /// A listening TCP socket.
        Listener = "listener",
        /// A UDP or raw socket.
        Datagram = "datagram",
        /// A UNIX socket.
        Unix = "unix",
        /// A socket of another family.
        Socket = "socket",
        /// An epoll set: any of its descriptors, or its timeout.
        Epoll = "epoll",
        /// Any descriptor of a poll() call, or its timeout.
        Poll = "poll",
        /// Any descriptor of a select() call, or its timeout.
        Select = "select",
        /// A futex: what mutexes, condition variables and joins of threads are made of.
        Futex = "futex",
        /// A pipe or FIFO.
        Pipe = "pipe",
        /// A regular file, directory or device.
        File = "file",
        /// An eventfd, timerfd, signalfd or another file without a place in a file system.
        Event = "event",
        /// Time: nanosleep() and its kin.
        Sleep = "sleep",
        /// The end of a child process.
        Child = "child",
        /// A signal.
        Signal = "signal",
        /// Completions of io_uring; of a thread that the kernel made for it: a request, or what that waits for.
        IoUring = "io_uring",
        /// A page of memory.
        PageFault = "page_fault",
        /// Something that the thread's registers do not name: `syscall` says where it waited.
        Other = "other",
    }
}

names! {
    /// Kinds of wakers.
    pub enum Waker {
        /// The thread `waker_tid`.
        Thread = "thread",
        /// An interrupt or softirq: a packet, a timer, a disk. `waker_tid` is the thread that it
        /// interrupted, or the thread with the call in which the softirq ran.
        Interrupt = "interrupt",
        /// Not seen.
        Unseen = "unseen",
    }
}

names! {
    /// How the program reported it.
    pub enum ValueSource {
        /// By the Intel ITT API.
        Itt = "itt",
        /// By a USDT probe, which the user named.
        Usdt = "usdt",
    }
}

names! {
    /// Effects of a value on a counter of the program.
    pub enum CounterKind {
        /// It is the counter's new value.
        Set = "set",
        /// The counter grew by it.
        Increment = "increment",
        /// The counter fell by it.
        Decrement = "decrement",
    }
}

names! {
    /// Kinds of drops and resets.
    pub enum DropKind {
        /// A packet that was dropped (`kfree_skb`).
        Packet = "packet",
        /// A reset that this host sent.
        ResetSent = "reset_sent",
        /// A reset that a socket of this host received.
        ResetReceived = "reset_received",
        /// A socket's receive queue was full (`sock_rcvqueue_full`); its packet is counted as dropped, too.
        QueueFull = "queue_full",
        /// A UDP socket's receive queue was full (`udp_fail_queue_rcv_skb`); its packet is counted as dropped, too.
        UdpQueueFull = "udp_queue_full",
        /// An ICMP error that this host sent, about a packet of these addresses.
        IcmpSent = "icmp_sent",
    }
}

names! {
    /// Kinds of spans that programs report. Spans have an end; an event may have none.
    pub enum TaskKind {
        /// A span of a thread; those of a thread and domain are nested.
        Task = "task",
        /// A span that ends by its id, maybe on another thread.
        OverlappedTask = "overlapped_task",
        /// A span of the process.
        Region = "region",
        /// A span of the domain, one after another.
        Frame = "frame",
        /// A span of a thread, or a moment if the program never says its end.
        Event = "event",
        /// A span: the thread waited for a synchronisation object, and got it.
        SyncWait = "sync_wait",
        /// A span: the thread waited for a synchronisation object, and gave up.
        SyncGivenUp = "sync_given_up",
        /// A moment: the thread got a synchronisation object without a wait.
        SyncAcquired = "sync_acquired",
        /// A moment: the thread gives a synchronisation object away.
        SyncReleasing = "sync_releasing",
        /// A moment.
        Marker = "marker",
        /// Metadata of something that is not open: not begun, or ended.
        Metadata = "metadata",
        /// `id` and `parent` belong together; `name` says how (`__itt_relation`).
        Relation = "relation",
        /// Points of a histogram, in `metadata`.
        Histogram = "histogram",
        /// The thread's name is `name`.
        ThreadName = "thread_name",
        /// The process is not recorded from here on.
        Paused = "paused",
        /// The process is recorded again.
        Resumed = "resumed",
        /// The process is never recorded again.
        Detached = "detached",
        /// The thread is never recorded again.
        ThreadIgnored = "thread_ignored",
    }
}

names! {
    /// How well the caller of a function on a stack is known.
    pub enum Caller {
        /// It is the next frame.
        Known = "known",
        /// There is none: this is the first function of its thread, or where the kernel was entered.
        None = "none",
        /// Neither unwind tables nor frame pointers show it: the stack is cut here.
        Unknown = "unknown",
        /// It is left out: the stack has more frames than are kept.
        LeftOut = "left_out",
    }
}

names! {
    /// Kinds of activity of a core or a thread.
    pub enum ActivityKind {
        /// A thread had the CPU.
        Task = "task",
        /// No thread had it.
        Idle = "idle",
        /// An interrupt or exception was handled.
        Irq = "irq",
        /// A softirq ran; the name is its vector (`NET_RX`, `TIMER`, …).
        Softirq = "softirq",
        /// A system call.
        Syscall = "syscall",
        /// A function ran, or one that it had called.
        Function = "function",
        /// A thread that wanted this CPU was moved to another; it takes no time, and the name is the thread's.
        Migration = "migration",
        /// The source was not tracing; the name says why, if that is known.
        Untraced = "untraced",
        /// The source lost or could not decode what was done; the name is its own error message.
        DecodeError = "decode_error",
    }
}

names! {
    /// Why what CPUs did was kept.
    pub enum Why {
        /// A message was slow by the others of its process.
        Slow = "slow",
        /// A message was drawn at random.
        Sample = "sample",
        /// A message took longer than the trigger allows: all that was held then, or its moment if that was
        /// done a short time before.
        Trigger = "trigger",
        /// The user asked for it: all that was held then.
        Snapshot = "snapshot",
    }
}

names! {
    /// Sources of activity.
    pub enum ActivitySource {
        /// Intel PT: every branch.
        IntelPt = "intel_pt",
        /// Call stacks sampled in intervals: begins and ends are those of the samples.
        Samples = "samples",
        /// The kernel's function tracer (`function_graph`).
        FunctionGraph = "function_graph",
        /// The kernel's tracepoints of scheduler, interrupts and system calls.
        Tracepoints = "tracepoints",
    }
}
