//! The agent's own metrics: what it costs, and what it cannot see.

use std::time::SystemTime;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use table::fleet::FleetCoverage;

use super::units::{CountGauge, SecondsCounter, SecondsGauge, count_of, seconds_of, unix_s};

/// Of a metric that is one series, or none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabels {}

/// Numbers of the agent itself.
pub(super) struct AgentMetrics {
    intervals: Counter,
    last_interval: SecondsGauge,
    cpu: SecondsCounter,
    /// No series where the kernel does not measure it.
    bpf: Family<NoLabels, SecondsCounter>,
    resident: CountGauge,
    polls: Counter,
    poll_gap: SecondsGauge,
    lost: Counter,
    probes_off: CountGauge,
    connections: CountGauge,
    reload_ok: CountGauge,
    reloaded: SecondsGauge,
}

impl AgentMetrics {
    /// Registers the metrics of the agent itself.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let agent = Self {
            intervals: Counter::default(),
            last_interval: Gauge::default(),
            cpu: Counter::default(),
            bpf: Family::default(),
            resident: Gauge::default(),
            polls: Counter::default(),
            poll_gap: Gauge::default(),
            lost: Counter::default(),
            probes_off: Gauge::default(),
            connections: Gauge::default(),
            reload_ok: Gauge::default(),
            reloaded: Gauge::default(),
        };
        agent.register_own(registry.sub_registry_with_prefix("agent"));
        registry.register(
            "tcp_connections",
            "Connections open at the end of the last interval",
            agent.connections.clone(),
        );
        registry.register(
            "config_last_reload_successful",
            "Whether the agent accepted the last configuration",
            agent.reload_ok.clone(),
        );
        registry.register_with_unit(
            "config_last_reload_success_timestamp",
            "When the agent last accepted a configuration",
            Unit::Seconds,
            agent.reloaded.clone(),
        );
        agent
    }

    /// Registers its metrics of cost and coverage.
    fn register_own(&self, own: &mut Registry) {
        let seconds = Unit::Seconds;
        own.register(
            "intervals",
            "Intervals recorded since the agent began",
            self.intervals.clone(),
        );
        own.register_with_unit(
            "last_interval_timestamp",
            "Begin of the last interval",
            seconds.clone(),
            self.last_interval.clone(),
        );
        own.register_with_unit(
            "cpu",
            "CPU time of the agent's process",
            seconds.clone(),
            self.cpu.clone(),
        );
        own.register_with_unit(
            "bpf",
            "CPU time of the agent's BPF programs, where the kernel measures it",
            seconds.clone(),
            self.bpf.clone(),
        );
        own.register_with_unit(
            "resident_memory",
            "Resident memory of the agent",
            Unit::Bytes,
            self.resident.clone(),
        );
        own.register("polls", "Readings of connections", self.polls.clone());
        own.register_with_unit(
            "poll_gap",
            "Longest time between two readings of one connection in the last interval",
            seconds,
            self.poll_gap.clone(),
        );
        own.register(
            "lost_records",
            "Records that were lost in the kernel or in the agent",
            self.lost.clone(),
        );
        own.register(
            "lacks",
            "Number of things that the agent should watch and cannot see: fleet_coverage and its log name them",
            self.probes_off.clone(),
        );
    }

    /// Sets the metrics of an interval's coverage.
    pub(super) fn coverage(&self, row: &FleetCoverage) {
        self.intervals.inc();
        self.last_interval.set(row.begin_ns as f64 / 1e9);
        self.cpu.inc_by(seconds_of(row.cpu_us));
        if let Some(bpf_us) = row.bpf_us {
            self.bpf
                .get_or_create(&NoLabels {})
                .inc_by(seconds_of(bpf_us));
        }
        self.resident.set(row.rss_bytes);
        self.polls.inc_by(count_of(row.polls));
        self.poll_gap.set(seconds_of(row.poll_gap_us));
        self.lost.inc_by(count_of(row.lost));
        self.connections.set(row.connections);
    }

    /// Sets the number of probes that are off.
    pub(super) fn set_probes_off(&self, number: usize) {
        self.probes_off
            .set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Notes whether the configuration was taken up.
    pub(super) fn note_reload(&self, is_taken: bool) {
        self.reload_ok.set(i64::from(is_taken));
        if is_taken {
            self.reloaded.set(unix_s(SystemTime::now()));
        }
    }
}
