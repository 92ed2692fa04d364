//! UNIX stream sockets: rows of `unix_sockets` in, each socket by its cookie or its inode out.

use std::collections::HashMap;

use table::Role;
use table::tables::UnixSocket;

/// UNIX stream sockets, as last written.
#[derive(Debug, Default)]
pub struct UnixSocketTable {
    sockets: HashMap<u64, UnixSocket>,
    by_inode: HashMap<u64, u64>,
    /// Sockets by the inode of their other end.
    by_peer: HashMap<u64, u64>,
}

impl UnixSocketTable {
    /// Adds a row. A later row wins; a field that it does not have keeps its earlier value.
    pub fn add(&mut self, row: UnixSocket) {
        if let Some(inode) = row.inode {
            self.by_inode.insert(inode, row.conn);
        }
        if let Some(peer) = row.peer_inode {
            self.by_peer.insert(peer, row.conn);
        }
        let Some(known) = self.sockets.get_mut(&row.conn) else {
            self.sockets.insert(row.conn, row);
            return;
        };
        let (mut later, earlier) = match known.time_ns <= row.time_ns {
            true => (row, known.clone()),
            false => (known.clone(), row),
        };
        later.peer_inode = later.peer_inode.or(earlier.peer_inode);
        later.path = later.path.or(earlier.path);
        if later.role == Role::Unknown {
            later.role = earlier.role;
        }
        *known = later;
    }

    /// Returns the socket with this cookie.
    pub fn get(&self, conn: u64) -> Option<&UnixSocket> {
        self.sockets.get(&conn)
    }

    /// Returns the socket with this inode.
    pub fn by_inode(&self, inode: u64) -> Option<&UnixSocket> {
        self.get(*self.by_inode.get(&inode)?)
    }

    /// Returns all of them, in no order.
    pub fn all(&self) -> impl Iterator<Item = &UnixSocket> {
        self.sockets.values()
    }

    /// Returns the other end of a socket, if it is recorded. A client may ask before the server accepts: then only the
    /// server's end knows both.
    pub fn peer(&self, socket: &UnixSocket) -> Option<&UnixSocket> {
        match (socket.peer_inode, socket.inode) {
            (Some(peer), _) => self.by_inode(peer),
            (None, Some(inode)) => self.get(*self.by_peer.get(&inode)?),
            (None, None) => None,
        }
    }
}

/// Returns the address of a socket's service: `unix:/run/redis.sock`.
pub fn address(socket: &UnixSocket) -> String {
    format!("unix:{}", socket.path.as_deref().unwrap_or("socketpair"))
}

/// Returns the name of one socket.
pub fn name(socket: &UnixSocket) -> String {
    let side = match socket.role {
        Role::Client => " (client)",
        Role::Server => " (server)",
        Role::Unknown => "",
    };
    match (&socket.path, socket.inode) {
        (Some(path), _) => format!("UNIX {path}{side}"),
        (None, Some(inode)) => format!("UNIX socket {inode}"),
        (None, None) => format!("UNIX socket with cookie {}", socket.conn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(conn: u64, inode: u64, peer_inode: Option<u64>) -> UnixSocket {
        UnixSocket {
            conn,
            time_ns: conn,
            inode: Some(inode),
            peer_inode,
            path: Some("/run/a.sock".to_owned()),
            role: Role::Client,
            is_seqpacket: false,
            pid: Some(1),
        }
    }

    #[test]
    fn both_ends_are_matched_in_any_row_order() {
        let mut table = UnixSocketTable::default();
        table.add(socket(1, 10, Some(20)));
        let later = UnixSocket {
            time_ns: 9,
            peer_inode: None,
            pid: Some(2),
            ..socket(1, 10, None)
        };
        table.add(later);
        table.add(socket(2, 20, Some(10)));
        let first = table.get(1).expect("known");
        assert_eq!((first.pid, first.peer_inode), (Some(2), Some(20)));
        assert_eq!(table.peer(first).map(|it| it.conn), Some(2));
        assert_eq!(address(first), "unix:/run/a.sock");
        assert_eq!(name(first), "UNIX /run/a.sock (client)");
        table.add(socket(3, 30, None));
        table.add(socket(4, 40, Some(30)));
        let early = table.get(3).expect("known");
        assert_eq!(table.peer(early).map(|it| it.conn), Some(4));
    }
}
