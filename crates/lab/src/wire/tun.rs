//! A TUN device inside a namespace: the place where packets leave the kernel's TCP for
//! the wire and come back. The device lives exactly as long as its descriptor.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::error::{HINT_ROOT, LabError};
use crate::netns::Netns;

const CLONE_DEVICE: &str = "/dev/net/tun";
/// Packets that the device may hold while the wire is not scheduled; the default of 500
/// overflows at gigabit rates.
const DEVICE_QUEUE_PACKETS: u32 = 10_000;

/// Makes the device `name` in `netns`. Reads and writes move one IP packet each and
/// never block.
///
/// # Errors
/// Without `CAP_NET_ADMIN` or the tun module, or when the name is taken.
pub(crate) fn open(netns: &Netns, name: &str) -> Result<File, LabError> {
    netns.run(|| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(CLONE_DEVICE)
            .map_err(|why| LabError::os("open", CLONE_DEVICE, why, "modprobe tun"))?;
        attach(&file, name)
            .map_err(|why| LabError::os("make", format!("TUN device {name}"), why, HINT_ROOT))?;
        Ok(file)
    })?
}

/// Sets addresses and MTU, and brings the device up. `address` and `address6` are given
/// with their prefix length.
///
/// # Errors
/// When `ip` refuses.
pub(crate) fn configure_device(
    netns: &Netns,
    name: &str,
    mtu: u32,
    address: &str,
    address6: Option<&str>,
) -> Result<(), LabError> {
    // No link-local address, no router solicitations: only the programs' packets.
    netns.run_ip(&format!("link set {name} addrgenmode none"))?;
    match address6 {
        Some(address6) => drop(netns.run_ip(&format!("-6 addr add {address6} dev {name} nodad"))?),
        None => without_ipv6(netns, name)?,
    }
    netns.run_ip(&format!("addr add {address} dev {name}"))?;
    netns.run_ip(&format!(
        "link set {name} mtu {mtu} txqueuelen {DEVICE_QUEUE_PACKETS} up"
    ))?;
    Ok(())
}

/// Switches IPv6 off on the device; a kernel without IPv6 is as good.
fn without_ipv6(netns: &Netns, name: &str) -> Result<(), LabError> {
    match netns.sysctl(&format!("net.ipv6.conf.{name}.disable_ipv6"), "1") {
        Err(LabError::Os { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes a TUN device of this name.
fn attach(file: &File, name: &str) -> io::Result<()> {
    // SAFETY: ifreq is plain data; all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || !name.is_ascii() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a device name",
        ));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which lives across the call; the
    // descriptor is open.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if done < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
