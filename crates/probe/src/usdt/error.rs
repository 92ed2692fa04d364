//! Why a USDT probe cannot be listened to.

use std::path::PathBuf;

/// Why the probes that the user asked for cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum UsdtError {
    /// No file has it.
    #[error("no USDT probe {probe} in {searched}\nhint: {hint}")]
    NotFound {
        /// `PROVIDER:NAME`.
        probe: String,
        /// Where it was searched for.
        searched: String,
        /// Says which probes there are, or where else to look.
        hint: String,
    },
    /// Nothing shows in which file to look.
    #[error(
        "nothing says in which program USDT probe {probe} is\n\
         hint: name the file: -u /path/of/program:{probe}"
    )]
    NoFile {
        /// `PROVIDER:NAME`.
        probe: String,
    },
    /// The file that the user named cannot be read.
    #[error("cannot read USDT probes of {path}: {why}\nhint: name a 64-bit ELF program or library")]
    Unreadable {
        /// As named.
        path: PathBuf,
        /// Cause.
        why: String,
    },
    /// More arguments were named than there are.
    #[error(
        "USDT probe {probe} in {path} has {count} arguments ({arguments}), and {named} were named\n\
         hint: name fewer: -u {probe}:NAME,…"
    )]
    TooFewArguments {
        /// `PROVIDER:NAME`.
        probe: String,
        /// The file.
        path: PathBuf,
        /// Arguments that it has.
        count: usize,
        /// These arguments, as the note shows them.
        arguments: String,
        /// Arguments named.
        named: usize,
    },
    /// A marker of our own header names its value itself.
    #[error("{probe} is a marker of whylat.h, which has no arguments to name\nhint: -u {probe}")]
    Marker {
        /// `PROVIDER:NAME`.
        probe: String,
    },
    /// Asked for twice, with names for arguments.
    #[error(
        "USDT probe {probe} in {path} is asked for twice\n\
         hint: name all of its arguments in one -u {probe}:NAME,NAME"
    )]
    Twice {
        /// `PROVIDER:NAME`.
        probe: String,
        /// The file.
        path: PathBuf,
    },
    /// The kernel refused to load the program.
    #[error("cannot load the BPF program for USDT probes: {0}\nhint: whylat doctor")]
    Load(libbpf_rs::Error),
    /// A probe could not be attached.
    #[error(
        "cannot attach to USDT probe {probe} in {path} with arguments \"{arguments}\": {error}\n\
         hint: WHYLAT_LIBBPF_LOG=1 shows more; whylat doctor says whether this kernel has uprobes"
    )]
    Attach {
        /// `PROVIDER:NAME`.
        probe: String,
        /// The file.
        path: PathBuf,
        /// As the notes show them.
        arguments: String,
        /// Cause.
        error: libbpf_rs::Error,
    },
    /// A loaded program or map could not be used.
    #[error("cannot {action}: {error}\nhint: whylat doctor")]
    Use {
        /// The step that failed.
        action: &'static str,
        /// Cause.
        error: libbpf_rs::Error,
    },
}
