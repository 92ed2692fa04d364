//! The skeleton that libbpf-cargo generates from `nic.bpf.c`.

#![allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/nic.skel.rs"));
