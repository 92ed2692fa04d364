//! Signals as events of a collecting loop: interrupt and terminate end it in order, a child's end is noticed at
//! once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// The signals that concern such a loop, blocked as long as this lives.
#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
    before: SigSet,
}

impl Signals {
    /// Blocks the signals for this thread and those that it starts.
    ///
    /// # Errors
    /// When the kernel has no descriptor left for it.
    pub fn block() -> io::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGCHLD,
        ] {
            set.add(signal);
        }
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&set), Some(&mut before))?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { fd, before })
    }

    /// Returns the earlier signal mask, for a started command.
    pub fn mask_before(&self) -> SigSet {
        self.before
    }

    /// Waits for a signal, at most `timeout_ms`, or until `other` is readable.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn wait(
        &self,
        timeout_ms: u16,
        other: Option<BorrowedFd<'_>>,
    ) -> io::Result<Option<Signal>> {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds: Vec<_> = [Some(self.fd.as_fd()), other]
            .into_iter()
            .flatten()
            .map(readable)
            .collect();
        match poll(&mut fds, PollTimeout::from(timeout_ms)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let info = self.fd.read_signal()?;
        Ok(info.and_then(|info| Signal::try_from(info.ssi_signo.cast_signed()).ok()))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Nothing can be done about a mask that cannot be restored at the end.
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None);
    }
}
