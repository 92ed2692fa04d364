//! Connections beside one another: of one process, to one host. For rules that look
//! beyond a single connection.

use std::collections::{HashMap, HashSet};

use table::tables::Connection;

use crate::connections::coincidence::Coincidence;
use crate::connections::outage::Outage;
use crate::connections::subject::ConnectionSubject;
use crate::rows::addresses::host;

/// Namespace and address of a host: addresses mean something within a namespace only.
type HostKey<'a> = (u32, &'a str);

/// A process, or of a capture a host.
type ProcessKey<'a> = (u32, &'a str);

/// Connections by host and process.
#[derive(Debug)]
pub struct Neighbours<'a> {
    /// In the order of their ids.
    all: &'a [ConnectionSubject<'a>],
    /// Senders, by the host that they send to.
    to_host: HashMap<HostKey<'a>, HostSenders>,
    /// How many of these are of one process.
    of_process: HashMap<(ProcessKey<'a>, HostKey<'a>), usize>,
    /// When the latest connection to each host was established, ns.
    opened_ns: HashMap<HostKey<'a>, u64>,
    /// Behind which data of others has waited.
    blocking: HashSet<u64>,
}

/// Senders to one host.
#[derive(Debug)]
struct HostSenders {
    number: usize,
    coincidence: Option<Coincidence>,
    outages: Vec<Outage>,
}

impl<'a> Neighbours<'a> {
    /// Makes the index of all connections, which are in the order of their ids.
    pub fn new(all: &'a [ConnectionSubject<'a>]) -> Self {
        let mut to_host: HashMap<HostKey, Vec<&ConnectionSubject>> = HashMap::new();
        let mut of_process: HashMap<_, usize> = HashMap::new();
        for subject in all.iter().filter(|one| !one.judged.sent_nothing) {
            let Some(identity) = subject.identity() else {
                continue;
            };
            let host = remote_host(identity);
            to_host.entry(host).or_default().push(subject);
            if let Some(process) = process(identity) {
                *of_process.entry((process, host)).or_default() += 1;
            }
        }
        let senders = |subjects: Vec<&ConnectionSubject>| HostSenders {
            number: subjects.len(),
            coincidence: Coincidence::from_subjects(&subjects),
            outages: Outage::find(&subjects),
        };
        Neighbours {
            all,
            to_host: to_host
                .into_iter()
                .map(|(host, subjects)| (host, senders(subjects)))
                .collect(),
            of_process,
            opened_ns: latest_openings(all),
            blocking: all
                .iter()
                .filter_map(|subject| subject.behind)
                .flat_map(|behind| behind.blockers.iter().map(|blocker| blocker.conn))
                .collect(),
        }
    }

    /// Returns the connection with this id; `None` if it is not judged.
    pub fn get(&self, id: u64) -> Option<&'a ConnectionSubject<'a>> {
        let at = self.all.binary_search_by_key(&id, |subject| subject.id);
        at.ok().and_then(|at| self.all.get(at))
    }

    /// Returns the number of connections to the same host, this one included.
    pub fn to_same_host(&self, own: &ConnectionSubject) -> usize {
        self.host_senders(own).map_or(0, |senders| senders.number)
    }

    /// Returns how the losses of connections to the same host coincide; `None`: too few lose
    /// segments.
    pub fn coincidence<'s>(&'s self, own: &'s ConnectionSubject) -> Option<&'s Coincidence> {
        self.host_senders(own)?.coincidence.as_ref()
    }

    /// Returns the outages of the path that explain most of what the timers of this connection retransmitted; empty: none do.
    /// `peer`: its other end, if that is recorded.
    pub fn outages(
        &self,
        own: &ConnectionSubject,
        peer: Option<&ConnectionSubject>,
    ) -> Vec<Outage> {
        if own.is_mostly_late() {
            return Vec::new();
        }
        let senders = [Some(own), peer].map(|it| it.and_then(|it| self.host_senders(it)));
        let [towards, back] =
            senders.map(|it| it.map_or(&[] as &[Outage], |senders| senders.outages.as_slice()));
        let times: Vec<u64> = own.gathered.events.timer_times_ns().collect();
        Outage::explain(towards, back, &times)
    }

    /// Returns whether data of other connections waited while a thread was blocked on this one.
    pub fn blocks_others(&self, own: &ConnectionSubject) -> bool {
        self.blocking.contains(&own.id)
    }

    /// Returns whether a connection with the same host was established after this time: the host was there, and small
    /// segments passed in both directions.
    pub fn opened_after(&self, own: &ConnectionSubject, ns: u64) -> bool {
        let latest = own.identity().map(remote_host);
        let latest = latest.and_then(|host| self.opened_ns.get(&host));
        latest.is_some_and(|opened_ns| *opened_ns > ns)
    }

    /// Returns how many others of the same process send to the same host.
    pub fn beside_in_process(&self, own: &ConnectionSubject) -> usize {
        let Some(identity) = own.identity().filter(|_| !own.judged.sent_nothing) else {
            return 0;
        };
        let key = process(identity).map(|process| (process, remote_host(identity)));
        let all = key.and_then(|key| self.of_process.get(&key));
        all.map_or(0, |all| all - 1)
    }

    fn host_senders<'s>(&'s self, own: &'s ConnectionSubject) -> Option<&'s HostSenders> {
        self.to_host.get(&remote_host(own.identity()?))
    }
}

/// Returns the process of a connection. Packets show its host alone, and have no namespace.
fn process(identity: &Connection) -> Option<ProcessKey<'_>> {
    match (identity.pid, identity.netns) {
        (Some(pid), _) => Some((pid, "")),
        (None, 0) => Some((0, host(&identity.local))),
        (None, _) => None,
    }
}

/// Returns, for each remote host, when its last connection was opened.
fn latest_openings<'a>(all: &'a [ConnectionSubject<'a>]) -> HashMap<HostKey<'a>, u64> {
    let mut latest: HashMap<HostKey<'a>, u64> = HashMap::new();
    for identity in all.iter().filter_map(ConnectionSubject::identity) {
        if let Some(opened_ns) = identity.opened_ns {
            let known = latest.entry(remote_host(identity)).or_default();
            *known = opened_ns.max(*known);
        }
    }
    latest
}

/// Returns the network namespace and the remote host, without the port.
fn remote_host(identity: &Connection) -> HostKey<'_> {
    (identity.netns, host(&identity.remote))
}
