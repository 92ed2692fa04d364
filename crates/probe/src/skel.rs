//! The skeleton that libbpf-cargo generates from `bpf/hooks.bpf.c`: the object, its programs and
//! maps, and the structs that it shares with us.

#![allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/hooks.skel.rs"));
