//! The skeleton that libbpf-cargo generates from `activity.bpf.c`.

#![allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/activity.skel.rs"));
