//! Servers that end when stdin is closed, and what they wait for.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::peer::Peer;
use super::threads::{join_threads, start};
use crate::error::LabError;

/// Waits until one of these can be read or has ended, and returns which are. `None`: without a limit.
pub(super) fn wait_readable(
    of: &[BorrowedFd<'_>],
    limit_us: Option<u64>,
) -> Result<Vec<usize>, LabError> {
    let descriptors = of.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN));
    let mut descriptors: Vec<PollFd<'_>> = descriptors.collect();
    let limit = limit_us.map_or(PollTimeout::NONE, |us| {
        PollTimeout::try_from(us.div_ceil(1_000)).unwrap_or(PollTimeout::MAX)
    });
    poll(&mut descriptors, limit)
        .map_err(|why| LabError::os("poll", "what comes next", why, "report this"))?;
    let is_ready = |descriptor: &PollFd<'_>| descriptor.any().unwrap_or(false);
    let ready = descriptors.iter().enumerate();
    let ready = ready.filter(|(_, descriptor)| is_ready(descriptor));
    Ok(ready.map(|(index, _)| index).collect())
}

/// Returns whether data can be read, or the stream has ended, within the limit.
pub(super) fn is_readable(of: &impl AsFd, limit_us: Option<u64>) -> Result<bool, LabError> {
    Ok(!wait_readable(&[of.as_fd()], limit_us)?.is_empty())
}

/// Accepts connections until stdin is closed, and serves each in its own thread. Returns their results in the order
/// of accept. `accept`: `None` if it is to be tried again.
pub(super) fn serve_until_end<T: Send>(
    listener: &TcpListener,
    mut accept: impl FnMut(&TcpListener) -> Result<Option<Peer>, LabError>,
    serve: impl Fn(Peer) -> Result<T, LabError> + Sync,
) -> Result<Vec<T>, LabError> {
    const STDIN: usize = 1;
    let serve = &serve;
    let stdin = io::stdin();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        loop {
            let ready = wait_readable(&[listener.as_fd(), stdin.as_fd()], None)?;
            match ready.first() {
                Some(&STDIN) | None => return join_threads(threads),
                Some(_) => {
                    if let Some(peer) = accept(listener)? {
                        threads.push(start(scope, move || serve(peer))?);
                    }
                }
            }
        }
    })
}
