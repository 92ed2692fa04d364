//! Which connections stand beside one another: of one process, to one host. For rules that look
//! beyond a single connection.

use std::collections::HashMap;

use table::tables::Connection;

use crate::subject::Subject;

/// Indices into all subjects, by what they have in common.
#[derive(Debug)]
pub struct Neighbours<'a> {
    all: &'a [Subject<'a>],
    /// Senders, by the host that they send to: addresses mean something within a namespace only.
    by_remote: HashMap<(u32, &'a str), Vec<usize>>,
    by_pid: HashMap<u32, Vec<usize>>,
}

impl<'a> Neighbours<'a> {
    /// Of all connections.
    pub fn of(all: &'a [Subject<'a>]) -> Self {
        let mut by_remote: HashMap<_, Vec<usize>> = HashMap::new();
        let mut by_pid: HashMap<u32, Vec<usize>> = HashMap::new();
        for (index, subject) in all.iter().enumerate() {
            let Some(identity) = subject.identity() else {
                continue;
            };
            if !subject.judged.sent_nothing {
                by_remote.entry(remote(identity)).or_default().push(index);
            }
            if let Some(pid) = identity.pid {
                by_pid.entry(pid).or_default().push(index);
            }
        }
        Neighbours {
            all,
            by_remote,
            by_pid,
        }
    }

    /// The others that send to the same host.
    pub fn to_same_host(&self, own: &Subject) -> Vec<&'a Subject<'a>> {
        let remote = own.identity().map(remote);
        let indices = remote.and_then(|remote| self.by_remote.get(&remote));
        self.others(indices, own.id)
    }

    /// The others of the same process.
    pub fn of_same_process(&self, own: &Subject) -> Vec<&'a Subject<'a>> {
        let pid = own.identity().and_then(|identity| identity.pid);
        let indices = pid.and_then(|pid| self.by_pid.get(&pid));
        self.others(indices, own.id)
    }

    fn others(&self, indices: Option<&Vec<usize>>, id: u64) -> Vec<&'a Subject<'a>> {
        let subjects = indices.into_iter().flatten();
        let subjects = subjects.filter_map(|index| self.all.get(*index));
        subjects.filter(|other| other.id != id).collect()
    }
}

/// Namespace and address of the host at the other end.
fn remote(identity: &Connection) -> (u32, &str) {
    (identity.netns, host(&identity.remote))
}

/// The address without the port.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}
