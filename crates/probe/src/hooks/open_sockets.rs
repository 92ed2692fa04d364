//! The walk over the sockets that are open: by open files, and, of MPTCP sockets, by the TCP sockets of their network
//! namespaces. Out: records in the ring, and how many sockets of each kind recorded processes have.

use libbpf_rs::MapCore;
use table::manifest::{Coverage, ProbeState, SocketKind};

use super::Hooks;
use super::iterate::read_iterator;
use crate::interface::HooksError;
use crate::interface::count::per_cpu;
use crate::inventory::kinds::{self, KINDS};
use crate::netns::{self, Netns};
use crate::wire::types::kind_calls;

/// The coverage line of MPTCP sockets in network namespaces that were not reached.
pub const MPTCP_SOCKETS: &str = "inventory.mptcp";

impl Hooks<'_> {
    /// Walks the open files of every process: finds sockets that were open before, the other ends
    /// of chosen connections on this host, and owners.
    pub fn walk(&self) -> Result<(), HooksError> {
        read_iterator(self.attached.borrow().walk.as_ref(), "open files")?;
        self.note_open_sockets();
        for inode in self.take_mptcp_netns()? {
            self.walk_subflows(inode)?;
        }
        Ok(())
    }

    /// Notes the sockets that a walk over open files found.
    fn note_open_sockets(&self) {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else {
            return;
        };
        let mut most = self.open_sockets.get();
        for (most, now) in most.iter_mut().zip(bss.open_sockets) {
            *most = now.max(*most);
        }
        self.open_sockets.set(most);
    }

    /// Returns the network namespaces in which the walk over open files found MPTCP sockets. Their subflows are still
    /// to be found.
    fn take_mptcp_netns(&self) -> Result<Vec<u32>, HooksError> {
        let map = &self.skel.maps.mptcp_netns;
        let keys: Vec<Vec<u8>> = map.keys().collect();
        for key in &keys {
            map.delete(key).map_err(|error| HooksError::Use {
                action: "note a network namespace",
                error,
            })?;
        }
        let inode = |key: Vec<u8>| Some(u32::from_ne_bytes(key.try_into().ok()?));
        Ok(keys.into_iter().filter_map(inode).collect())
    }

    /// Walks the TCP sockets of a network namespace to find MPTCP subflows; leaves out a namespace
    /// that is gone. Its sockets are found when they connect or accept.
    fn walk_subflows(&self, inode: u32) -> Result<(), HooksError> {
        let attached = self.attached.borrow();
        let Some(link) = attached.subflows.as_ref() else {
            return Ok(());
        };
        let found = netns::discover().ok();
        let path = found.and_then(|mut found| found.paths.remove(&inode));
        let netns = path.and_then(|path| Netns::open(&path).ok());
        let Some(netns) = netns.filter(|netns| netns.inode() == inode) else {
            return Ok(());
        };
        let walk = || read_iterator(Some(link), "subflows");
        match netns.run(walk) {
            Ok(walked) => walked,
            Err(error) => {
                self.unreached.replace(Some(error.to_string()));
                Ok(())
            }
        }
    }

    /// Returns the coverage lines of network namespaces that walks did not reach.
    pub fn unreached_netns(&self) -> impl Iterator<Item = Coverage> {
        self.netns_limits().chain(self.unentered_coverage())
    }

    /// Returns the coverage lines of network namespaces that walks cannot reach, as a privilege is missing.
    pub fn netns_limits(&self) -> impl Iterator<Item = Coverage> {
        self.unreached_mptcp().into_iter().chain(self.walk_limit())
    }

    /// Returns the coverage line of network namespaces with MPTCP sockets that were not walked;
    /// `None`: all were.
    fn unreached_mptcp(&self) -> Option<Coverage> {
        let error = self.unreached.borrow();
        let why = error.as_ref()?.lines().next()?.to_owned();
        Some(Coverage {
            probe: MPTCP_SOCKETS.to_owned(),
            state: ProbeState::Fallback {
                which: "MPTCP sockets that are opened from now on, and those of the own network namespace".to_owned(),
                why,
            },
        })
    }

    /// Returns the number of sockets of recorded processes so far, by kind, and the calls on those
    /// outside of TCP.
    pub fn socket_kinds(&self) -> Result<Vec<SocketKind>, HooksError> {
        let open = self.open_sockets.get();
        if !self.counts_other_calls {
            return Ok(kinds::lines(&open, None));
        }
        let mut calls = [kind_calls::default(); KINDS];
        for (kind, sum) in (0u32..).zip(&mut calls) {
            *sum = kinds::sum_calls(&per_cpu(&self.skel.maps.kind_calls, kind)?);
        }
        Ok(kinds::lines(&open, Some(&calls)))
    }
}
