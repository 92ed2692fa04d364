//! The final state of each connection: rows of `connections` in, one a connection out.

use std::collections::HashMap;

use crate::Columns;
use crate::tables::{Connection, Connections};

/// Folds the rows of each connection into one, in the order in which connections first
/// appear. Later values win, a null never replaces a value, and the earliest `opened_ns` and
/// the latest `closed_ns` stay.
pub fn fold_connections(rows: Connections) -> Connections {
    let mut order = Vec::new();
    let mut folded = HashMap::<u64, Connection>::new();
    for index in 0..rows.len() {
        let row = rows.row(index);
        match folded.remove(&row.conn) {
            Some(earlier) => {
                let (earlier, later) = if row.time_ns < earlier.time_ns {
                    (row, earlier)
                } else {
                    (earlier, row)
                };
                folded.insert(later.conn, fold_rows(earlier, later));
            }
            None => {
                order.push(row.conn);
                folded.insert(row.conn, row);
            }
        }
    }
    let mut result = Connections::default();
    order
        .iter()
        .filter_map(|conn| folded.remove(conn))
        .for_each(|row| result.push(row));
    result
}

/// Joins two rows of one connection: later values replace earlier ones. All fields are named, so
/// that a new field cannot be forgotten.
fn fold_rows(earlier: Connection, later: Connection) -> Connection {
    let Connection {
        conn,
        time_ns,
        netns,
        local,
        remote,
        role,
        chosen,
        opened_ns,
        closed_ns,
        pid,
        peer_conn,
        nodelay,
        congestion,
        mss_bytes,
        sndbuf_bytes,
        sndbuf_locked,
        rcvbuf_bytes,
        rcvbuf_locked,
        connect_ns,
        syn_retries,
        ulp,
        mptcp_token,
        errno,
    } = later;
    Connection {
        conn,
        time_ns,
        netns,
        local,
        remote,
        role,
        chosen,
        opened_ns: earlier.opened_ns.into_iter().chain(opened_ns).min(),
        closed_ns: earlier.closed_ns.into_iter().chain(closed_ns).max(),
        pid: pid.or(earlier.pid),
        peer_conn: peer_conn.or(earlier.peer_conn),
        nodelay: nodelay.or(earlier.nodelay),
        congestion: congestion.or(earlier.congestion),
        mss_bytes: mss_bytes.or(earlier.mss_bytes),
        sndbuf_bytes: sndbuf_bytes.or(earlier.sndbuf_bytes),
        sndbuf_locked: sndbuf_locked.or(earlier.sndbuf_locked),
        rcvbuf_bytes: rcvbuf_bytes.or(earlier.rcvbuf_bytes),
        rcvbuf_locked: rcvbuf_locked.or(earlier.rcvbuf_locked),
        connect_ns: connect_ns.or(earlier.connect_ns),
        syn_retries: syn_retries.or(earlier.syn_retries),
        ulp: ulp.or(earlier.ulp),
        mptcp_token: mptcp_token.or(earlier.mptcp_token),
        errno: errno.or(earlier.errno),
    }
}
