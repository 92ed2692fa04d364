//! Why a file cannot be imported.

/// A file that has another format than the user named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// Neither perf.data nor text.
    #[error(
        "it is neither text nor perf.data: the byte at {offset} is no UTF-8\nhint: import perf takes \
         perf.data or the text of `perf script`; import ftrace takes text only, so turn trace.dat \
         into it with `trace-cmd report`"
    )]
    NotText {
        /// First byte that is not part of a character.
        offset: u64,
    },
    /// Text without an event of `perf script`.
    #[error(
        "no line of it is an event of `perf script`\nhint: perf script --ns --itrace=bep -F \
         pid,tid,time,flags,ip,addr,sym,symoff,synth,dso,event,period > FILE"
    )]
    NotPerf,
    /// Text without an event of ftrace.
    #[error(
        "no line of it is an event of ftrace\nhint: trace-cmd report > FILE, or copy \
         /sys/kernel/tracing/trace; of function_graph, with options/funcgraph-abstime set"
    )]
    NotFtrace,
    /// perf.data of a machine with the other byte order.
    #[error(
        "it was recorded on a big-endian machine\nhint: turn it into text there with `perf script`"
    )]
    ByteOrder,
    /// perf.data with a header that makes no sense.
    #[error("it is damaged: {what}\nhint: `perf report -D -i FILE` shows how perf reads it")]
    Damaged {
        /// The fault in it.
        what: &'static str,
    },
    /// perf.data without traces or context switches.
    #[error(
        "it holds no Intel PT trace and no context switches\nhint: for samples, perf script --ns -F \
         comm,pid,tid,cpu,time,event,ip,sym,dso -i FILE > TEXT, then import TEXT"
    )]
    NoActivity,
    /// Neither pcap nor pcapng.
    #[error(
        "it is no capture: it begins neither as pcap nor as pcapng\nhint: tcpdump -s 128 -w FILE tcp; \
         whylat reads pcap and pcapng, and both compressed by gzip or zstd"
    )]
    NotCapture,
    /// A capture that ends within a packet.
    #[error("it ends within a packet; whylat uses all data before that")]
    CaptureCut,
    /// A capture with a block that makes no sense.
    #[error("it is damaged; whylat uses all data before the damage")]
    CaptureDamaged,
    /// A file that cannot be read on.
    #[error("cannot read further: {0}\nhint: copy it again, or decompress it first")]
    Unreadable(String),
    /// A capture without packets.
    #[error(
        "it holds no packet\nhint: capture for longer, or with another filter: tcpdump -w FILE tcp"
    )]
    NoPackets,
    /// A capture without TCP.
    #[error("no packet of it is a TCP segment: {0}\nhint: tcpdump -s 128 -w FILE tcp")]
    NoSegments(String),
}
