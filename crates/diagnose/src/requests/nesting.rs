//! Services within others: a client's requests contain the time of the server that answers them, and the requests of a server
//! contain those that it asks of other servers meanwhile. What a user waits for is the time of the outermost.

use std::collections::{BTreeSet, HashMap};

use super::id::ServiceId;
use super::part::RequestPart;
use super::request_table::RequestTable;

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
            if let Some(client) = peer.filter(|_| endpoint.side == super::Side::Server) {
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
        self.time_within(table, id, &mut BTreeSet::new())
    }

    /// Returns the same, without services that were passed already.
    fn time_within(
        &self,
        table: &RequestTable,
        id: ServiceId,
        passed: &mut BTreeSet<ServiceId>,
    ) -> u64 {
        if !passed.insert(id) {
            return 0;
        }
        let own_ns = table.services.digest(id).all().0.total_ns();
        let outer = self.outer.get(&id).into_iter().flatten();
        let outer_ns: u64 = outer.map(|it| self.time_within(table, *it, passed)).sum();
        own_ns.max(outer_ns)
    }
}
