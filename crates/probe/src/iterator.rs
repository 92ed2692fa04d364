//! Runs a BPF iterator to its end: what it meets goes to rings, not to who reads it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

/// Runs the attached iterator to its end. One over sockets is in the network namespace of the calling thread.
pub(crate) fn run_iterator(link: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes a descriptor, which is open as long as it is borrowed, and no pointer.
    let fd = unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made this descriptor for us just now.
    read_to_end(&mut File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Reads to the end of an iterator without output, also after `EAGAIN`.
fn read_to_end(iter: &mut impl io::Read) -> io::Result<()> {
    loop {
        match io::copy(iter, &mut io::sink()) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An iterator that says nothing, and has its reader call again now and then.
    struct Again(u32);

    impl io::Read for Again {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            match self.0.checked_sub(1) {
                Some(left) => {
                    self.0 = left;
                    Err(io::ErrorKind::WouldBlock.into())
                }
                None => Ok(0),
            }
        }
    }

    #[test]
    fn iterator_over_millions_of_objects_is_read_to_its_end() {
        let mut iter = Again(3);
        read_to_end(&mut iter).unwrap();
        assert_eq!(iter.0, 0);
    }
}
