//! `unix_sockets`: UNIX stream sockets of recorded threads. `unix_sockets.bpf.h` finds them where calls end, at the hooks
//! of table `calls`, and has a record made of each call; here a record of a socket becomes a row of table `unix_sockets`.

use table::manifest::Coverage;
use table::tables::UnixSocket;
use table::{Columns, TableId};

use crate::calls;
use crate::interface::features::{Levels, SocketFamily};
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source, Support,
};
use crate::wire::types::{record_kind, unix_seen};
use crate::wire::{Wire, read, role_of};

// SAFETY: `unix_seen` is `repr(C)` and made of integers, arrays and structs of them.
unsafe impl Wire for unix_seen {}

/// The probe of UNIX stream sockets. Their calls are rows of table `calls`.
pub(crate) struct UnixSockets;

impl Probe for UnixSockets {
    fn name(&self) -> &'static str {
        "unix_sockets"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::UnixSocket)
    }

    fn detail(&self) -> Detail {
        Detail::Waits
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.waits && levels.logs_calls()
    }

    fn needs_bpf(&self) -> bool {
        true
    }

    fn maps(&self) -> &'static [&'static str] {
        &["unix_unread"]
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_UNIX_SEEN, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        kernel.records(record_kind::RECORD_UNIX_SEEN)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        let features = support.features;
        vec![features.family_coverage(self.name(), calls::CALL_HOOKS, SocketFamily::Unix)]
    }
}

/// Adds the row of a Unix socket; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    let seen = read(body)?;
    output.rows.unix_sockets.push(make_row(&seen));
    output.add_owner(&seen.owner, seen.time_ns);
    Some(())
}

/// Returns the row of a record.
fn make_row(seen: &unix_seen) -> UnixSocket {
    let unix_seen {
        cookie,
        time_ns,
        inode,
        peer_inode,
        owner,
        path_bytes,
        role,
        is_seqpacket,
        path,
    } = *seen;
    let nonzero = |inode: u64| (inode != 0).then_some(inode);
    UnixSocket {
        conn: cookie,
        time_ns,
        inode: nonzero(inode),
        peer_inode: nonzero(peer_inode),
        path: path.get(..usize::from(path_bytes)).and_then(path_text),
        role: role_of(role),
        is_seqpacket: is_seqpacket != 0,
        pid: (owner.pid != 0).then_some(owner.pid),
    }
}

/// Returns a socket's name as `ss` writes it: an abstract name begins with `@`; `None`: it has
/// none.
fn path_text(name: &[u8]) -> Option<String> {
    let (is_abstract, name) = match name {
        [] => return None,
        [0, name @ ..] => (true, name),
        path => (false, path.split(|byte| *byte == 0).next()?),
    };
    let text = String::from_utf8_lossy(name).replace('\0', "@");
    Some(if is_abstract {
        format!("@{text}")
    } else {
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use table::Role;

    #[test]
    fn names_are_written_as_ss_does() {
        let text = |name: &[u8]| path_text(name);
        assert_eq!(text(b""), None);
        assert_eq!(text(b"/run/a.sock\0rest").as_deref(), Some("/run/a.sock"));
        assert_eq!(text(b"\0abstract").as_deref(), Some("@abstract"));
    }

    #[test]
    fn absent_is_not_zero() {
        let row = make_row(&unix_seen {
            cookie: 3,
            ..Default::default()
        });
        assert_eq!((row.inode, row.peer_inode, row.pid), (None, None, None));
        assert_eq!((row.path, row.role), (None, Role::Unknown));
    }
}
