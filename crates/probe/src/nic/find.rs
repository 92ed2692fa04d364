//! Network interfaces that stamp packets. In: what each interface of every network namespace says it can do
//! (`ETHTOOL_GET_TS_INFO`) and is set to do (`SIOCGHWTSTAMP`). Nothing is ever changed.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};

use nix::net::if_::if_nameindex;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::netns::{self, Netns};

/// include/uapi/linux/ethtool.h
const ETHTOOL_GET_TS_INFO: u32 = 0x41;

/// `struct ethtool_ts_info` of the same file.
#[repr(C)]
#[derive(Default)]
struct TsInfo {
    cmd: u32,
    so_timestamping: u32,
    phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}

mod ioctls {
    nix::ioctl_readwrite_bad!(ethtool, libc::SIOCETHTOOL, libc::ifreq);
    nix::ioctl_readwrite_bad!(hwtstamp, libc::SIOCGHWTSTAMP, libc::ifreq);
}

/// An interface that can stamp what it sends, by a clock of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interface {
    /// Inode number of its network namespace, and its number there.
    pub(super) netns: u32,
    pub(super) ifindex: u32,
    pub(super) name: String,
    /// Number of its clock: `/dev/ptpN`.
    pub(super) ptp: u16,
    /// It is set to stamp what it sends.
    pub(super) stamps_sent: bool,
    /// And some of what it receives.
    pub(super) stamps_received: bool,
}

/// Returns the adapters of all network namespaces that can be examined.
pub(super) fn find_interfaces() -> Vec<Interface> {
    let paths = netns::discover().map_or_else(|_| HashMap::new(), |found| found.paths);
    let opened = paths.values().filter_map(|path| Netns::open(path).ok());
    let found = opened.filter_map(|netns| netns.run(|| find_in_namespace(netns.inode())).ok());
    let mut all: Vec<Interface> = found.flatten().collect();
    all.sort_by_key(|found| (found.ptp, found.netns, found.ifindex));
    all
}

/// Returns the adapters of the calling thread's namespace.
fn find_in_namespace(netns: u32) -> Vec<Interface> {
    // any socket will do; it need not be bound, which it could not be where loopback is down
    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    );
    let (Ok(names), Ok(socket)) = (if_nameindex(), socket) else {
        return Vec::new();
    };
    let of_name = |name: &nix::net::if_::Interface| {
        let found = read(socket.as_raw_fd(), name.name().to_str().ok()?)?;
        Some(Interface {
            netns,
            ifindex: name.index(),
            ..found
        })
    };
    names.iter().filter_map(of_name).collect()
}

/// Returns what an interface can stamp; None if it cannot stamp sent packets.
fn read(socket: RawFd, name: &str) -> Option<Interface> {
    let mut info = TsInfo {
        cmd: ETHTOOL_GET_TS_INFO,
        ..TsInfo::default()
    };
    let mut request = request(name, (&raw mut info).cast());
    // SAFETY: the request names an interface and points to the structure that this command fills; both live.
    unsafe { ioctls::ethtool(socket, &raw mut request) }.ok()?;
    if info.so_timestamping & libc::SOF_TIMESTAMPING_TX_HARDWARE == 0 {
        return None;
    }
    let config = stamp_config(socket, name);
    Some(Interface {
        netns: 0,
        ifindex: 0,
        name: name.to_owned(),
        ptp: info.phc_index.try_into().ok()?,
        stamps_sent: config
            .is_some_and(|config| config.tx_type == libc::HWTSTAMP_TX_ON.cast_signed()),
        stamps_received: config
            .is_some_and(|config| config.rx_filter != libc::HWTSTAMP_FILTER_NONE.cast_signed()),
    })
}

/// Returns the driver's settings of timestamps; `None`: the driver does not report them.
fn stamp_config(socket: RawFd, name: &str) -> Option<libc::hwtstamp_config> {
    let mut config = libc::hwtstamp_config {
        flags: 0,
        tx_type: 0,
        rx_filter: 0,
    };
    let mut request = request(name, (&raw mut config).cast());
    // SAFETY: as above.
    unsafe { ioctls::hwtstamp(socket, &raw mut request) }.ok()?;
    Some(config)
}

/// Makes an ioctl request for an interface, with a pointer to its data.
fn request(name: &str, data: *mut libc::c_char) -> libc::ifreq {
    let mut ifr_name = [0; libc::IFNAMSIZ];
    // the last byte stays zero
    for (to, from) in ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        // signed or not, as the architecture's C has it
        *to = libc::c_char::from_ne_bytes([from]);
    }
    libc::ifreq {
        ifr_name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: data },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<TsInfo>(), 44);
    }

    #[test]
    fn names_are_cut_to_what_the_kernel_takes() {
        let request = request(&"x".repeat(40), std::ptr::null_mut());
        assert_eq!(request.ifr_name.iter().filter(|it| **it != 0).count(), 15);
    }

    #[test]
    fn loopback_stamps_nothing() {
        assert!(find_interfaces().iter().all(|found| found.name != "lo"));
    }
}
