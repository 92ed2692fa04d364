//! Why a file cannot be imported.

/// A file that is not what it was said to be.
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
}
