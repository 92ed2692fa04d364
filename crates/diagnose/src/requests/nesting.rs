//! Services within others: a client's requests contain the time of the server that answers them, and the requests of a server
//! contain those that it asks of other servers meanwhile. What a user waits for is the time of the outermost.

use std::collections::{BTreeSet, HashMap};

use super::id::ServiceId;
use super::part::RequestPart;
use super::request_table::RequestTable;
use super::service::Side;

/// Services that are recorded within others.
#[derive(Debug, Default)]
pub struct ServiceNesting {
    /// By service: those with requests that contain its own.
    outer: HashMap<ServiceId, BTreeSet<ServiceId>>,
}

impl ServiceNesting {
    /// Finds the services that contain others.
    pub fn find(table: &RequestTable) -> Self {
        let mut outer: HashMap<ServiceId, BTreeSet<ServiceId>> = HashMap::new();
        for id in table.endpoints.ids() {
            let endpoint = table.endpoints.get(id);
            let peer = endpoint.peer.map(|peer| table.endpoints.get(peer).service);
            if let Some(client) = peer.filter(|_| endpoint.side == Side::Server) {
                outer.entry(endpoint.service).or_default().insert(client);
            }
        }
        for server in table.services.ids() {
            let subjects = &table.services.digest(server).subjects;
            let asked = subjects.get(RequestPart::Upstream);
            let asked = asked
                .into_iter()
                .flat_map(|it| it.services.worst(usize::MAX));
            for other in asked {
                let other = ServiceId::from_number(other.number);
                outer.entry(other).or_default().insert(server);
            }
        }
        Self { outer }
    }

    /// Returns the time of the outermost requests that contain those of a service, ns; at least its own.
    pub fn outer_ns(&self, table: &RequestTable, id: ServiceId) -> u64 {
        let own_ns = table.services.digest(id).all().0.total_ns();
        let (mut passed, mut open) = (BTreeSet::from([id]), vec![(id, own_ns)]);
        let mut outermost_ns = 0;
        while let Some((inner, inner_ns)) = open.pop() {
            let outer = self.outer.get(&inner).into_iter().flatten();
            let outer: Vec<_> = outer.map(|it| (*it, asking_ns(table, *it))).collect();
            // Not all that asked are recorded: its own time is more.
            if outer.iter().map(|(_, ns)| ns).sum::<u64>() < inner_ns {
                outermost_ns += inner_ns;
                continue;
            }
            open.extend(outer.into_iter().filter(|(id, _)| passed.insert(*id)));
        }
        own_ns.max(outermost_ns)
    }
}

/// Returns the time of a service's requests that contain others, ns: all of a client, and those of a server that asked another.
fn asking_ns(table: &RequestTable, id: ServiceId) -> u64 {
    let digest = table.services.digest(id);
    match table.services.key(id).side {
        Side::Client => digest.all().0.total_ns(),
        Side::Server => digest.asking_ns,
    }
}
