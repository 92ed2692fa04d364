//! The skeleton that libbpf-cargo generates from `usdt.bpf.c`.

#![allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/usdt.skel.rs"));
