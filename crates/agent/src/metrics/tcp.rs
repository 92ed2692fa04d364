//! Limits of connections, by application.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};
use table::Columns;
use table::fleet::FleetInterval;

use super::rtt::RttMetrics;
use super::units::{SecondsCounter, count_of, seconds_of};
use crate::Interval;
use crate::problems::PROBLEMS;

/// Most applications with numbers of their own: above a hundred values of a label Prometheus' guide asks for another way
/// (Instrumentation, "Do not overuse labels").
const APPLICATIONS: usize = 100;
/// The label of those that came later.
pub(crate) const OTHER: &str = "other";
/// The label of connections that no rule names.
pub(crate) const NONE: &str = "none";

/// A connection without a row for so long is gone: an open one has a row every hour.
const FORGOTTEN_AFTER_NS: i64 = 2 * 3_600_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProblemLabels {
    problem: &'static str,
    application: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    stage: String,
    application: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApplicationLabels {
    application: String,
}

/// Numbers by application, and the application of each connection.
pub(super) struct TcpMetrics {
    limited: Family<ProblemLabels, SecondsCounter>,
    watched: Family<ApplicationLabels, SecondsCounter>,
    held: Family<StageLabels, Counter>,
    acked: Family<ApplicationLabels, Counter>,
    received: Family<ApplicationLabels, Counter>,
    segments: Family<ApplicationLabels, Counter>,
    retransmitted: Family<ApplicationLabels, Counter>,
    rtt: Arc<RttMetrics>,
    names: BTreeSet<String>,
    owners: HashMap<i64, ConnectionOwner>,
}

struct ConnectionOwner {
    application: Option<String>,
    heard_ns: i64,
}

impl TcpMetrics {
    /// Registers the metrics of connections.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let tcp = Self {
            limited: Family::default(),
            watched: Family::default(),
            held: Family::default(),
            acked: Family::default(),
            received: Family::default(),
            segments: Family::default(),
            retransmitted: Family::default(),
            rtt: Arc::default(),
            names: BTreeSet::new(),
            owners: HashMap::new(),
        };
        registry.register_collector(Box::new(Arc::clone(&tcp.rtt)));
        let own = registry.sub_registry_with_prefix("tcp");
        own.register_with_unit(
            "limited",
            "Time in which connections had a problem, by SNAP's flags",
            Unit::Seconds,
            tcp.limited.clone(),
        );
        own.register_with_unit(
            "watched",
            "Time that connections were watched, in intervals with activity",
            Unit::Seconds,
            tcp.watched.clone(),
        );
        own.register(
            "held_intervals",
            "Intervals of connections by the stage that delayed them longest",
            tcp.held.clone(),
        );
        own.register_with_unit(
            "acked",
            "Bytes that peers have acknowledged",
            Unit::Bytes,
            tcp.acked.clone(),
        );
        own.register_with_unit(
            "received",
            "Bytes received",
            Unit::Bytes,
            tcp.received.clone(),
        );
        own.register(
            "sent_segments",
            "Segments sent, retransmissions included",
            tcp.segments.clone(),
        );
        own.register(
            "retransmitted_segments",
            "Retransmitted segments",
            tcp.retransmitted.clone(),
        );
        tcp
    }

    /// Returns the distributions of round-trip times.
    pub(super) fn rtt(&self) -> &Arc<RttMetrics> {
        &self.rtt
    }

    /// Adds an interval's connections.
    pub(super) fn interval(&mut self, interval: &Interval) {
        for index in 0..interval.connections.len() {
            let row = interval.connections.row(index);
            let owner = ConnectionOwner {
                application: row.app.map(|name| self.bounded(name)),
                heard_ns: row.closed_ns.map_or(row.time_ns, |_| i64::MIN),
            };
            self.owners.insert(row.conn_id, owner);
        }
        for index in 0..interval.intervals.len() {
            self.add(&interval.intervals.row(index));
        }
        let since_ns = interval.begin_ns.saturating_sub(FORGOTTEN_AFTER_NS);
        self.owners.retain(|_, owner| owner.heard_ns >= since_ns);
    }

    /// Returns an application's name, or OTHER if there are too many.
    fn bounded(&mut self, name: String) -> String {
        if self.names.contains(&name) {
            return name;
        }
        if self.names.len() >= APPLICATIONS {
            return OTHER.to_owned();
        }
        self.names.insert(name.clone());
        name
    }

    /// Adds a row of an interval to the metrics of its application.
    fn add(&self, row: &FleetInterval) {
        let owner = self.owners.get(&row.conn_id);
        let application = owner.and_then(|owner| owner.application.as_deref());
        let application = application.unwrap_or(NONE).to_owned();
        for problem in PROBLEMS {
            // what is not measured has no series, rather than one that stays zero
            let Some(time_us) = (problem.time_us)(row) else {
                continue;
            };
            let limit = ProblemLabels {
                problem: problem.name,
                application: application.clone(),
            };
            let limited = self.limited.get_or_create(&limit);
            limited.inc_by(seconds_of(time_us));
        }
        if let Some(stage) = row.verdict.clone() {
            let application = application.clone();
            self.held
                .get_or_create(&StageLabels { stage, application })
                .inc();
        }
        if let Some(srtt_us) = row.srtt_us {
            self.rtt.add(&application, srtt_us);
        }
        let of = ApplicationLabels { application };
        let watched = self.watched.get_or_create(&of);
        watched.inc_by(seconds_of(row.length_us));
        for (counts, count) in [
            (&self.acked, row.acked_bytes),
            (&self.received, row.received_bytes),
            (&self.segments, row.segs_out),
            (&self.retransmitted, row.retrans),
        ] {
            counts.get_or_create(&of).inc_by(count_of(count));
        }
    }
}
