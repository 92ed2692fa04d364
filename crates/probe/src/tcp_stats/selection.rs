//! Decides which sockets are recorded, when BPF does not decide it. In: what the user asked for,
//! resolved to ports or socket files. Out: yes or no for each polled socket.
//!
//! Asked once for each new socket: [`super::SampleFilter`] remembers what was chosen. So a
//! socket stays chosen that has no file any more after `close`, while the kernel still sends
//! its last bytes.

use super::message::SocketView;
use std::collections::HashSet;

/// The recorded sockets: those that match any of the criteria.
#[derive(Debug, Default)]
pub struct Selection {
    everything: bool,
    ports: Vec<u16>,
    inodes: HashSet<u32>,
}

impl Selection {
    /// Selects every socket of the host.
    pub fn everything() -> Self {
        Self {
            everything: true,
            ..Self::default()
        }
    }

    /// Selects sockets with one of these local or remote ports, too.
    pub fn add_ports(&mut self, ports: impl IntoIterator<Item = u16>) {
        self.ports.extend(ports);
        self.ports.sort_unstable();
        self.ports.dedup();
    }

    /// Replaces the socket files of the recorded processes, as a new scan found them.
    pub fn set_inodes(&mut self, inodes: impl IntoIterator<Item = u32>) {
        self.inodes = inodes.into_iter().filter(|inode| *inode != 0).collect();
    }

    /// Returns whether a polled socket is recorded.
    #[inline]
    pub fn matches(&self, view: &SocketView) -> bool {
        let has_port = |port| self.ports.binary_search(&port).is_ok();
        self.everything
            || has_port(view.local_port())
            || has_port(view.remote_port())
            || (!self.inodes.is_empty() && self.inodes.contains(&view.inode))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Reply, view_payload};
    use super::*;

    fn matches(selection: &Selection, reply: &Reply) -> bool {
        selection.matches(&view_payload(&reply.bytes()))
    }

    #[test]
    fn each_criterion_selects_and_nothing_selects_nothing() {
        let reply = Reply {
            cookie: 5,
            inode: 77,
            ..Reply::default()
        };
        assert!(!matches(&Selection::default(), &reply));
        assert!(matches(&Selection::everything(), &reply));
        for port in [40_000, 80] {
            let mut selection = Selection::default();
            selection.add_ports([port, 1]);
            assert!(matches(&selection, &reply), "{port}");
        }
    }

    #[test]
    fn socket_files_are_replaced_and_no_file_matches_nothing() {
        let mut selection = Selection::default();
        selection.set_inodes([77, 0]);
        let open = Reply {
            cookie: 5,
            inode: 77,
            ..Reply::default()
        };
        let orphaned = Reply {
            inode: 0,
            ..open.clone()
        };
        assert!(matches(&selection, &open) && !matches(&selection, &orphaned));
        selection.set_inodes([78]);
        assert!(!matches(&selection, &open));
    }
}
