//! A shortage of descriptors: accept() fails with EMFILE until the limit is raised, as an administrator would with `prlimit`.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::peer::{Peer, accept, pause_us};
use crate::clock::now_ns;
use crate::error::LabError;

/// Pause after a failed accept(): the first one of Go's `net/http`.
const PAUSE_US: u64 = 5_000;

const HINT: &str = "raise the hard limit (`ulimit -Hn`)";

/// A shortage of descriptors, which ends.
#[derive(Debug)]
pub(super) struct Shortage {
    /// It lasts so long from the first accept() that failed, ns.
    lasts_ns: u64,
    /// When that was.
    since_ns: Option<u64>,
    /// Limit before it.
    limit: u64,
    /// Calls of accept() that failed.
    pub(super) failures: u64,
}

impl Shortage {
    /// Lowers the limit of descriptors, so that few are free.
    pub(super) fn begin(free: u64, lasts_us: u64) -> Result<Self, LabError> {
        let failed = |why: Errno| LabError::os("change", "the limit of descriptors", why, HINT);
        let next = File::open("/dev/null")
            .map_err(|why| LabError::os("open", "/dev/null", why, "report this"))?;
        let used = u64::try_from(next.as_raw_fd()).unwrap_or(0);
        let (limit, most) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
        setrlimit(Resource::RLIMIT_NOFILE, used + free, most).map_err(failed)?;
        Ok(Self {
            lasts_ns: lasts_us * 1_000,
            since_ns: None,
            limit,
            failures: 0,
        })
    }

    /// Accepts a connection; `None`: there was no free descriptor.
    pub(super) fn accept(&mut self, listener: &TcpListener) -> Result<Option<Peer>, LabError> {
        match accept(listener) {
            Ok(peer) => return Ok(Some(peer)),
            Err(LabError::Os { source, .. })
                if source.raw_os_error() == Some(Errno::EMFILE as i32) => {}
            Err(why) => return Err(why),
        }
        self.failures += 1;
        let since_ns = *self.since_ns.get_or_insert_with(now_ns);
        pause_us(PAUSE_US);
        if now_ns() - since_ns >= self.lasts_ns {
            let failed = |why: Errno| LabError::os("change", "the limit of descriptors", why, HINT);
            let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
            setrlimit(Resource::RLIMIT_NOFILE, self.limit, most).map_err(failed)?;
        }
        Ok(None)
    }
}
