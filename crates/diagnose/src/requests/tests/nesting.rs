//! The time of requests that contain others.

use super::*;
use crate::requests::nesting::ServiceNesting;
use crate::requests::service::Side;

/// Returns the time of what contains the requests that the server makes, and their own, ns.
fn outer_times(rows: Rows) -> (u64, u64) {
    let rows = rows.with_offsets();
    let table = rows.fill(rows.table(&[]), usize::MAX);
    let asked = table.services.ids();
    let asked = asked.filter(|id| table.services.key(*id).side == Side::Client);
    let asked: Vec<_> = asked.collect();
    let [asked] = asked[..] else {
        panic!("one service that is asked: {asked:?}");
    };
    let outer_ns = ServiceNesting::find(&table).outer_ns(&table, asked);
    let own_ns = table.services.digest(asked).all().0.total_ns();
    (outer_ns, own_ns)
}

#[test]
fn only_requests_that_ask_contain_others() {
    assert_eq!(outer_times(Rows::asking_server()), (12 * MS, 10 * MS));
    // a poll of a second at the same server asks nobody
    let mut rows = Rows::asking_server();
    rows.connections.push(connection(3, Role::Server, SERVER));
    rows.calls.push(call(3, 30 * MS, false, 10, 71));
    rows.waits.push(wait(
        71,
        (30 * MS, 1_030 * MS, 1_030 * MS),
        WaitObject::Sleep,
        None,
    ));
    rows.calls.push(call(3, 1_030 * MS, true, 10, 71));
    assert_eq!(outer_times(rows), (12 * MS, 10 * MS));
}
