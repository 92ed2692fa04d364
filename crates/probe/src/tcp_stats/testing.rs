//! Builds `sock_diag` replies byte by byte, as the kernel lays them out, for the tests of the
//! parser and of what follows it.

use std::net::Ipv4Addr;

use super::message::SocketView;

/// Fields of a reply.
#[derive(Debug, Clone)]
pub struct Reply {
    pub cookie: u64,
    pub state: u8,
    pub local: (Ipv4Addr, u16),
    pub remote: (Ipv4Addr, u16),
    pub rqueue: u32,
    pub wqueue: u32,
    pub uid: u32,
    pub inode: u32,
    /// Empty: no `INET_DIAG_INFO` attribute.
    pub info: Vec<u8>,
    pub memory: Vec<u32>,
    pub congestion: Option<&'static str>,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            cookie: 1,
            state: 1,
            local: (Ipv4Addr::new(10, 0, 0, 1), 40_000),
            remote: (Ipv4Addr::new(10, 0, 0, 2), 80),
            rqueue: 0,
            wqueue: 0,
            uid: 1000,
            inode: 77,
            info: vec![0; 280],
            memory: vec![0; 9],
            congestion: None,
        }
    }
}

impl Reply {
    /// The payload of the message: `struct inet_diag_msg` and attributes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![libc::AF_INET as u8, self.state, 0, 0];
        bytes.extend(self.local.1.to_be_bytes());
        bytes.extend(self.remote.1.to_be_bytes());
        for address in [self.local.0, self.remote.0] {
            bytes.extend(address.octets());
            bytes.extend([0; 12]);
        }
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend((self.cookie as u32).to_ne_bytes());
        bytes.extend(((self.cookie >> 32) as u32).to_ne_bytes());
        for word in [0, self.rqueue, self.wqueue, self.uid, self.inode] {
            bytes.extend(word.to_ne_bytes());
        }
        let memory: Vec<u8> = self
            .memory
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        if !self.info.is_empty() {
            push_attribute(&mut bytes, 2, &self.info);
        }
        push_attribute(&mut bytes, 7, &memory);
        if let Some(name) = self.congestion {
            push_attribute(&mut bytes, 4, format!("{name}\0").as_bytes());
        }
        bytes
    }
}

/// Adds a netlink attribute, padded to four bytes.
fn push_attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// The view of a payload that is known to be whole.
pub fn view_payload(bytes: &[u8]) -> SocketView<'_> {
    view_in(bytes, 1)
}

/// Returns a socket's view, as one from namespace `netns`.
pub fn view_in(bytes: &[u8], netns: u32) -> SocketView<'_> {
    SocketView::parse(bytes, netns, 1_000).expect("the reply is whole")
}
