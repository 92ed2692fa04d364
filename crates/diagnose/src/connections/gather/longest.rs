//! The choice of judged connections where memory does not hold all: those that were seen for longest. What a
//! connection can lose lies within that time, but for the SYNs that it began with, so that those left out have the
//! least to lose, one by one. Both ends of a connection are judged, or neither.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use table::tables::{Connections, TcpSamples, TcpStages};
use table::{Rows, TableConsumer, TableId};

use crate::rows::hash::{ConnectionMap, CookieHasher};

/// From when to when a connection is known of, ns, and its other end. An end that is unknown, because it lies
/// outside the recording or its record was lost, is where records of it end.
#[derive(Debug)]
struct Lifespan {
    from_ns: u64,
    until_ns: u64,
    peer: Option<u64>,
}

impl Default for Lifespan {
    fn default() -> Self {
        Self {
            from_ns: u64::MAX,
            until_ns: 0,
            peer: None,
        }
    }
}

impl Lifespan {
    fn include_time(&mut self, time_ns: u64) {
        self.from_ns = self.from_ns.min(time_ns);
        self.until_ns = self.until_ns.max(time_ns);
    }

    fn length_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.from_ns)
    }
}

/// How long each connection of a recording is known of: 32 bytes each, and an index.
#[derive(Debug, Default)]
pub struct Lifespans(ConnectionMap<Lifespan>);

impl TableConsumer for Lifespans {
    fn is_reader_of(&self, table: TableId) -> bool {
        use TableId::{Connection, TcpSample, TcpStage};
        matches!(table, Connection | TcpSample | TcpStage)
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        match rows {
            Rows::Connection(rows) => self.add_connections(rows),
            Rows::TcpSample(rows) => self.add_samples(rows),
            Rows::TcpStage(rows) => self.add_stages(rows),
            _ => {}
        }
    }
}

impl Lifespans {
    /// Adds rows of table `connections`.
    pub fn add_connections(&mut self, rows: &Connections) {
        for (index, conn) in rows.conn.iter().enumerate() {
            let life = self.entry(*conn);
            let ends = [
                rows.connect_ns[index],
                rows.opened_ns[index],
                rows.closed_ns[index],
            ];
            ends.into_iter()
                .flatten()
                .for_each(|at| life.include_time(at));
            life.include_time(rows.time_ns[index]);
            life.peer = rows.peer_conn[index].or(life.peer);
        }
    }

    /// Adds rows of table `tcp_samples`.
    pub fn add_samples(&mut self, rows: &TcpSamples) {
        let rows = rows.conn.iter().zip(&rows.time_ns);
        rows.for_each(|(conn, at)| self.entry(*conn).include_time(*at));
    }

    /// Adds rows of table `tcp_stages`.
    pub fn add_stages(&mut self, rows: &TcpStages) {
        let rows = rows.conn.iter().zip(&rows.time_ns);
        rows.for_each(|(conn, at)| self.entry(*conn).include_time(*at));
    }

    fn entry(&mut self, conn: u64) -> &mut Lifespan {
        let place = self.0.position(conn);
        self.0.at(place)
    }

    /// Returns the `most` connections with the longest durations, and their other ends.
    pub(super) fn find_longest(&self, most: usize) -> LongestConnections {
        let mut lives: Vec<_> = self
            .0
            .conns()
            .filter_map(|conn| self.rank_connection(conn))
            .collect();
        let number = lives.len();
        if (1..number).contains(&most) {
            lives.select_nth_unstable(most - 1);
        }
        let judged = lives.into_iter().take(most);
        let both = judged.flat_map(|(_, _, conn)| {
            let peer = self.0.get(conn).and_then(|life| life.peer);
            let peer = peer.filter(|peer| self.0.get(*peer).is_some());
            [Some(conn), peer]
        });
        let conns: HashSet<u64, _> = both.flatten().collect();
        LongestConnections {
            others: (number - conns.len()) as u64,
            conns,
        }
    }

    /// The longer of a connection's ends, then the lesser cookie of both, so that they stand together.
    fn rank_connection(&self, conn: u64) -> Option<(Reverse<u64>, u64, u64)> {
        let life = self.0.get(conn)?;
        let peer = life.peer.and_then(|peer| self.0.get(peer));
        let longer_ns = life.length_ns().max(peer.map_or(0, Lifespan::length_ns));
        let pair = life.peer.map_or(conn, |peer| peer.min(conn));
        Some((Reverse(longer_ns), pair, conn))
    }
}

/// The connections that are judged.
#[derive(Debug)]
pub struct LongestConnections {
    conns: HashSet<u64, BuildHasherDefault<CookieHasher>>,
    /// How many are not.
    pub others: u64,
}

impl LongestConnections {
    /// Returns whether this connection is among the longest.
    pub fn has_connection(&self, conn: u64) -> bool {
        self.conns.contains(&conn)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use table::Columns;
    use table::tables::Connection;

    use super::*;

    /// Makes the lifespans of these rows; what a row does not say has a default.
    fn lives(rows: &[Value]) -> Lifespans {
        let mut columns = Connections::default();
        for row in rows {
            let mut known = json!({
                "netns": 1, "local": "", "remote": "", "role": "client", "chosen": "target", "time_ns": 500,
                "connect_ns": null, "syn_retries": null, "opened_ns": null, "closed_ns": null, "pid": null,
                "peer_conn": null, "nodelay": null, "congestion": null, "mss_bytes": null, "sndbuf_bytes": null,
                "sndbuf_locked": null, "rcvbuf_bytes": null, "rcvbuf_locked": null,
            });
            for (name, value) in row.as_object().expect("an object") {
                known[name] = value.clone();
            }
            columns.push(serde_json::from_value::<Connection>(known).expect("a row"));
        }
        let mut lives = Lifespans::default();
        lives.add_connections(&columns);
        lives
    }

    /// Returns which connections are judged if at most this many are.
    fn judged(lives: &Lifespans, most: usize) -> Vec<u64> {
        let longest = lives.find_longest(most);
        let judged: Vec<u64> = (0..10)
            .filter(|conn| longest.has_connection(*conn))
            .collect();
        assert_eq!(
            judged.len() as u64 + longest.others,
            lives.0.conns().count() as u64
        );
        judged
    }

    #[test]
    fn longest_connections_are_judged() {
        let mut lives = lives(&[
            // long, and its end is known
            json!({"conn": 1, "opened_ns": 100, "closed_ns": 900}),
            // opened late; that it closed was lost, or it is still open
            json!({"conn": 2, "opened_ns": 490}),
            // open before the recording, and closed soon
            json!({"conn": 3, "closed_ns": 520}),
            // waited long for the answer to its SYN
            json!({"conn": 4, "connect_ns": 200, "opened_ns": 790, "closed_ns": 791}),
        ]);
        assert_eq!(judged(&lives, 2), [1, 4]);
        assert_eq!(judged(&lives, 3), [1, 3, 4]);
        assert_eq!(judged(&lives, 4), [1, 2, 3, 4]);
        // samples show it for longer
        let sample = crate::connections::gather::samples::tests::sample(5_000);
        let mut rows = TcpSamples::default();
        rows.push(table::tables::TcpSample { conn: 2, ..sample });
        lives.add_samples(&rows);
        assert_eq!(judged(&lives, 1), [2]);
    }

    #[test]
    fn both_ends_are_judged_or_neither() {
        let flow = |conn: u64, peer: u64, until_ns: u64| json!({"conn": conn, "peer_conn": peer, "opened_ns": 100, "closed_ns": until_ns, "time_ns": 100});
        // ends of equal flows, between one another
        let lives = lives(&[
            flow(1, 6, 700),
            flow(2, 5, 701),
            flow(6, 1, 702),
            flow(5, 2, 699),
            flow(3, 9, 300),
        ]);
        assert_eq!(judged(&lives, 2), [1, 6]);
        assert_eq!(judged(&lives, 3), [1, 2, 5, 6]);
        assert_eq!(judged(&lives, 5), [1, 2, 3, 5, 6]);
    }
}
