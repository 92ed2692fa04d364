//! Joins the two ends of a connection within this host. In: the sockets that are recorded.
//! Out: for a socket, the cookie of the recorded socket at its other end.
//!
//! The other end has the same addresses the other way round. It is in the same network
//! namespace, or in another one; then the addresses must not be loopback ones, which every
//! namespace has for itself, and only one namespace may hold such a socket: two container
//! networks can use the same addresses, and then no answer is given.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::message::SocketView;

/// Both ends, as one of them sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Ends {
    local: [u8; 16],
    remote: [u8; 16],
    local_port: u16,
    remote_port: u16,
}

impl Ends {
    /// Returns local and remote address of a socket.
    fn from_view(view: &SocketView) -> Self {
        Self::new(view.local(), view.remote())
    }

    /// Makes the two ends; IPv4 addresses in IPv6 form are the same as IPv4.
    fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            local: octets(local.ip()),
            remote: octets(remote.ip()),
            local_port: local.port(),
            remote_port: remote.port(),
        }
    }

    /// Returns the ends as the peer sees them.
    fn reversed(self) -> Self {
        Self {
            local: self.remote,
            remote: self.local,
            local_port: self.remote_port,
            remote_port: self.local_port,
        }
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// A recorded socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    netns: u32,
    cookie: u64,
}

/// The recorded sockets by their addresses.
#[derive(Debug, Default)]
pub struct PeerIndex {
    first: HashMap<Ends, Holder>,
    /// Sockets with the same addresses as one in `first`, in other namespaces: rare.
    further: HashMap<Ends, Vec<Holder>>,
}

impl PeerIndex {
    /// Adds a recorded socket. An older one with the same addresses in the same namespace has
    /// closed and is replaced.
    pub fn insert(&mut self, view: &SocketView) {
        self.insert_ends(
            Ends::from_view(view),
            Holder {
                netns: view.netns,
                cookie: view.cookie,
            },
        );
    }

    /// Adds a socket that is known from elsewhere than a poll.
    pub fn insert_socket(&mut self, netns: u32, local: SocketAddr, remote: SocketAddr, conn: u64) {
        self.insert_ends(
            Ends::new(local, remote),
            Holder {
                netns,
                cookie: conn,
            },
        );
    }

    /// Remembers which socket has these ends; one in each network namespace.
    fn insert_ends(&mut self, ends: Ends, holder: Holder) {
        let first = self.first.entry(ends).or_insert(holder);
        if first.netns == holder.netns {
            *first = holder;
            return;
        }
        let further = self.further.entry(ends).or_default();
        further.retain(|other| other.netns != holder.netns);
        further.push(holder);
    }

    /// The recorded socket at the other end of socket `conn` with these addresses.
    pub fn peer(
        &self,
        netns: u32,
        local: SocketAddr,
        remote: SocketAddr,
        conn: u64,
    ) -> Option<u64> {
        let ends = Ends::new(local, remote).reversed();
        let first = self.first.get(&ends)?;
        let further = self.further.get(&ends).map_or(&[][..], Vec::as_slice);
        // A socket connected to itself has reversed addresses equal to its own.
        let holders = || {
            std::iter::once(first)
                .chain(further)
                .filter(|end| end.cookie != conn)
        };
        if let Some(holder) = holders().find(|holder| holder.netns == netns) {
            return Some(holder.cookie);
        }
        if local.ip().is_loopback() || remote.ip().is_loopback() {
            return None;
        }
        let mut others = holders();
        let only = others.next()?;
        others.next().is_none().then_some(only.cookie)
    }

    /// Keeps the sockets for which `alive` holds.
    pub fn retain(&mut self, mut alive: impl FnMut(u64) -> bool) {
        self.further.retain(|_, holders| {
            holders.retain(|holder| alive(holder.cookie));
            !holders.is_empty()
        });
        let further = &mut self.further;
        self.first.retain(|ends, holder| {
            if alive(holder.cookie) {
                return true;
            }
            match further.get_mut(ends).and_then(Vec::pop) {
                Some(next) => *holder = next,
                None => return false,
            }
            true
        });
        self.further.retain(|_, holders| !holders.is_empty());
    }

    /// Returns the number of sockets in the index.
    pub fn len(&self) -> usize {
        self.first.len() + self.further.values().map(Vec::len).sum::<usize>()
    }

    /// Returns whether the index is empty.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    const A: &str = "10.0.0.1:40000";
    const B: &str = "10.0.0.2:80";

    /// Makes an index of sockets: namespace, local and remote address, id.
    fn with(sockets: &[(u32, &str, &str, u64)]) -> PeerIndex {
        let mut index = PeerIndex::default();
        for (netns, local, remote, conn) in sockets {
            index.insert_socket(*netns, address(local), address(remote), *conn);
        }
        index
    }

    #[test]
    fn both_ends_are_joined_within_and_across_namespaces() {
        let index = with(&[(1, A, B, 10), (2, B, A, 20)]);
        assert_eq!(index.peer(2, address(B), address(A), 20), Some(10));
        assert_eq!(index.peer(1, address(A), address(B), 10), Some(20));
        assert_eq!(index.peer(1, address(A), address("10.0.0.2:81"), 10), None);
    }

    #[test]
    fn the_same_namespace_comes_first_and_ambiguity_gives_no_answer() {
        let index = with(&[(1, B, A, 11), (2, B, A, 12), (3, B, A, 13)]);
        assert_eq!(index.peer(2, address(A), address(B), 20), Some(12));
        assert_eq!(index.peer(9, address(A), address(B), 20), None);
    }

    #[test]
    fn loopback_is_not_joined_across_namespaces() {
        let (near, far) = ("127.0.0.1:5000", "127.0.0.1:80");
        let index = with(&[(1, near, far, 10)]);
        assert_eq!(index.peer(1, address(far), address(near), 20), Some(10));
        assert_eq!(index.peer(2, address(far), address(near), 20), None);
    }

    #[test]
    fn a_socket_is_not_its_own_peer() {
        let same = "127.0.0.1:5000";
        assert_eq!(
            with(&[(1, same, same, 10)]).peer(1, address(same), address(same), 10),
            None
        );
    }

    #[test]
    fn closed_sockets_are_removed_and_reused_addresses_replaced() {
        let mut index = with(&[(1, A, B, 10), (2, A, B, 12), (1, A, B, 14)]);
        assert_eq!(index.len(), 2);
        index.retain(|conn| conn != 14);
        assert_eq!(index.peer(5, address(B), address(A), 1), Some(12));
        index.retain(|_| false);
        assert!(index.is_empty());
    }
}
