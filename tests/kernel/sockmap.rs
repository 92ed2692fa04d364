//! A sender that is a thread of the kernel, as with NFS: a sockmap with a program that hands on what one socket
//! receives, to be sent by another.

use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::libc::c_long;

use crate::bpf::{Attributes, bpf};

/// Commands, types and helpers of bpf(2) (`uapi/linux/bpf.h`).
const MAP_CREATE: c_long = 0;
const MAP_UPDATE_ELEM: c_long = 2;
const PROG_LOAD: c_long = 5;
const PROG_ATTACH: c_long = 8;
const MAP_TYPE_SOCKMAP: u32 = 15;
const PROG_TYPE_SK_SKB: u32 = 14;
const ATTACH_SK_SKB_STREAM_VERDICT: u32 = 5;
const SK_REDIRECT_MAP: u64 = 52;

/// Keys of the two sockets.
const SENDER: u32 = 0;
const SOURCE: u32 = 1;

/// Makes `sender` send what `source` receives, as long as this lives.
#[derive(Debug)]
pub struct HandsOn {
    _map: OwnedFd,
}

impl HandsOn {
    pub fn from_to(source: &TcpStream, sender: &TcpStream) -> Self {
        let map = owned(create_map());
        let program = owned(load(map.as_raw_fd()));
        attach(map.as_raw_fd(), program.as_raw_fd());
        put(map.as_raw_fd(), SENDER, sender.as_raw_fd());
        put(map.as_raw_fd(), SOURCE, source.as_raw_fd());
        Self { _map: map }
    }
}

fn done(command: c_long, attributes: &mut Attributes) -> RawFd {
    let why = || std::io::Error::last_os_error();
    bpf(command, attributes).unwrap_or_else(|| panic!("bpf({command}): {}", why()))
}

fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: a descriptor that the kernel has just given, to nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// An address as the two words that it takes in the attributes.
fn words<T>(of: *const T) -> [u32; 2] {
    let address = of as u64;
    [address as u32, (address >> 32) as u32]
}

fn create_map() -> RawFd {
    let mut attributes = Attributes::default();
    attributes[..4].copy_from_slice(&[MAP_TYPE_SOCKMAP, 4, 4, 2]);
    done(MAP_CREATE, &mut attributes)
}

/// `return bpf_sk_redirect_map(skb, map, SENDER, 0)`.
fn load(map: RawFd) -> RawFd {
    let map = u64::from(map.cast_unsigned());
    let program = [
        0x1218 | map << 32, // r2 = the map
        0,
        0x03b7 | u64::from(SENDER) << 32, // r3 = the key
        0x04b7,                           // r4 = 0
        0x0085 | SK_REDIRECT_MAP << 32,
        0x0095,
    ];
    let license = c"GPL";
    let mut attributes = Attributes::default();
    attributes[..2].copy_from_slice(&[PROG_TYPE_SK_SKB, program.len() as u32]);
    attributes[2..4].copy_from_slice(&words(program.as_ptr()));
    attributes[4..6].copy_from_slice(&words(license.as_ptr()));
    done(PROG_LOAD, &mut attributes)
}

fn attach(map: RawFd, program: RawFd) {
    let mut attributes = Attributes::default();
    let descriptors = [map.cast_unsigned(), program.cast_unsigned()];
    attributes[..2].copy_from_slice(&descriptors);
    attributes[2] = ATTACH_SK_SKB_STREAM_VERDICT;
    done(PROG_ATTACH, &mut attributes);
}

fn put(map: RawFd, key: u32, socket: RawFd) {
    let mut attributes = Attributes::default();
    attributes[0] = map.cast_unsigned();
    attributes[2..4].copy_from_slice(&words(&raw const key));
    attributes[4..6].copy_from_slice(&words(&raw const socket));
    done(MAP_UPDATE_ELEM, &mut attributes);
}
