//! The command that is recorded, as a process.

use std::process::Child;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// Ends a command that is not recorded.
pub(super) fn end(child: &mut Child) {
    // one that has ended by itself is as good
    let _ = child.kill();
    let _ = child.wait();
}

/// Sends a signal on to the command; the recording ends with it.
pub(super) fn forward(signal: Signal, child: &Child) {
    if let Ok(pid) = i32::try_from(child.id()) {
        // The command may have ended this moment, which is what the signal is for.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Returns whether the command has ended; its status can still be read.
pub(super) fn has_ended(child: &Child) -> bool {
    let pid = Pid::from_raw(child.id().cast_signed());
    let asked = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::Pid(pid), asked), Ok(WaitStatus::StillAlive))
}
