//! Ids of traces and spans: digests of what they are about, so that a second export of a recording makes no second trace.
//!
//! Both ends of a connection have a request each. They are of one trace, as the bytes of the request have the same offset
//! at both.

use std::collections::HashMap;

use diagnose::Report;
use diagnose::requests::{RequestId, Side};

/// Ids of a recording's requests.
#[derive(Debug)]
pub(crate) struct IdentityTable {
    boot_id: String,
    /// Other ends of connections.
    peers: HashMap<u64, u64>,
}

/// Ids of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpanIdentity {
    /// The trace.
    pub(crate) trace: [u8; 16],
    /// The span.
    pub(crate) span: [u8; 8],
    /// The span of the client's end, of a request of the server.
    pub(crate) client: Option<[u8; 8]>,
}

impl IdentityTable {
    /// Reads the ends of connections from a report.
    pub(crate) fn new(report: &Report) -> Self {
        let connections = report.connections.iter();
        Self {
            boot_id: report.about.host.boot_id.clone(),
            peers: connections
                .filter_map(|it| Some((it.id, it.peer?)))
                .collect(),
        }
    }

    /// Returns the trace and span ids of a request at this end.
    pub(crate) fn request(&self, id: RequestId, side: Side) -> SpanIdentity {
        let peer = self.peers.get(&id.conn).copied();
        let client = match side {
            Side::Client => Some(id.conn),
            Side::Server => peer,
        };
        let digest = |kind: &str, conn: u64| {
            let text = format!("{kind} {} {conn} {}", self.boot_id, id.offset);
            *blake3::hash(text.as_bytes()).as_bytes()
        };
        SpanIdentity {
            trace: first(&digest("trace", client.unwrap_or(id.conn))),
            span: first(&digest("span", id.conn)),
            client: client
                .filter(|_| side == Side::Server)
                .map(|conn| first(&digest("span", conn))),
        }
    }
}

impl SpanIdentity {
    /// Returns the id of a step.
    pub(crate) fn step(&self, number: usize) -> [u8; 8] {
        let text = [&self.span[..], &number.to_le_bytes()].concat();
        first(blake3::hash(&text).as_bytes())
    }
}

/// Returns the start of a digest. All zeros is no id.
fn first<const N: usize>(digest: &[u8; 32]) -> [u8; N] {
    let mut id = [0; N];
    id.copy_from_slice(&digest[..N]);
    if id == [0; N] {
        id[N - 1] = 1;
    }
    id
}
