//! Names of metrics in OpenTelemetry. A metric for which a convention has a name has that; all others have their own one with
//! dots: `whylat_ship_failures` is `whylat.ship.failures`.

use otlp::attribute::attribute;
use otlp::proto::KeyValue;
use otlp::{MetricKind, MetricLabel};
use table::WorkloadKind;

use crate::ContainerIdentity;
use crate::metrics::{FamilyKind, MetricFamily};

/// A metric by a convention, or by the name that `whylat export otlp` has for the same.
struct ConventionName {
    family: &'static str,
    label: MetricLabel,
    attributes: &'static [(&'static str, &'static str)],
}

/// Bytes of a program, by direction.
const NETWORK_IO: MetricLabel = MetricLabel::new(
    MetricKind::Counter,
    "process.network.io",
    "By",
    "Bytes that the programs of the service sent and received by TCP",
);

/// Exceptions. Units and kinds are those of the semantic conventions 1.38.
const CONVENTIONS: &[ConventionName] = &[
    ConventionName {
        family: "whylat_tcp_acked_bytes",
        label: NETWORK_IO,
        attributes: &[("network.io.direction", "transmit")],
    },
    ConventionName {
        family: "whylat_tcp_received_bytes",
        label: NETWORK_IO,
        attributes: &[("network.io.direction", "receive")],
    },
    ConventionName {
        family: "whylat_tcp_retransmitted_segments",
        label: MetricLabel::new(
            MetricKind::Counter,
            "whylat.tcp.retransmits",
            "{segment}",
            "Segments retransmitted",
        ),
        attributes: &[],
    },
    ConventionName {
        family: "whylat_tcp_connections",
        label: MetricLabel::new(
            MetricKind::UpDownCounter,
            "system.network.connection.count",
            "{connection}",
            "Connections open at the end of the interval",
        ),
        attributes: &[("network.transport", "tcp")],
    },
    ConventionName {
        family: "whylat_agent_cpu_seconds",
        label: MetricLabel::new(
            MetricKind::Counter,
            "process.cpu.time",
            "s",
            "CPU time of the agent's process",
        ),
        attributes: &[],
    },
    ConventionName {
        family: "whylat_agent_resident_memory_bytes",
        label: MetricLabel::new(
            MetricKind::UpDownCounter,
            "process.memory.usage",
            "By",
            "Resident memory of the agent",
        ),
        attributes: &[],
    },
    ConventionName {
        family: "whylat_agent_lost_records",
        label: MetricLabel::new(
            MetricKind::Counter,
            "whylat.records.lost",
            "{record}",
            "Records that were lost in the kernel or in the agent",
        ),
        attributes: &[],
    },
];

/// Returns name, unit, description and kind of a metric, and attributes of all its points; `None`:
/// it has no numbers.
pub(super) fn label_of(
    family: &MetricFamily,
) -> Option<(MetricLabel, &'static [(&'static str, &'static str)])> {
    let kind = match family.kind {
        FamilyKind::Counter => MetricKind::Counter,
        FamilyKind::Gauge => MetricKind::Gauge,
        FamilyKind::Other => return None,
    };
    if let Some(found) = CONVENTIONS.iter().find(|it| it.family == family.name) {
        return Some((found.label.clone(), found.attributes));
    }
    let label = own_label(&family.name, &family.help, &family.unit, kind);
    Some((label, &[]))
}

/// Returns the label of a metric that no convention names.
pub(super) fn own_label(name: &str, help: &str, unit: &str, kind: MetricKind) -> MetricLabel {
    let bare = name.strip_suffix(unit).unwrap_or(name);
    let mut parts = bare.trim_end_matches('_').splitn(3, '_');
    let parts: Vec<&str> = parts.by_ref().collect();
    MetricLabel {
        name: parts.join(".").into(),
        unit: match unit {
            "seconds" => "s".into(),
            "bytes" => "By".into(),
            other => other.to_owned().into(),
        },
        description: help.to_owned().into(),
        kind,
    }
}

/// Returns the attributes of a container and its pod, by the semantic conventions, where none of them is
/// stable. `container.runtime` is deprecated there.
pub(super) fn container_attributes(container: &ContainerIdentity) -> Vec<KeyValue> {
    let ContainerIdentity {
        id,
        name,
        runtime,
        pod,
        pod_uid,
        workload,
    } = container;
    let name_key = match pod {
        Some(_) => "k8s.container.name",
        None => "container.name",
    };
    let (namespace, pod) = pod
        .as_ref()
        .map(|(namespace, pod)| (namespace, pod))
        .unzip();
    let known = [
        ("container.id", id.as_deref()),
        ("container.runtime.name", *runtime),
        (name_key, name.as_deref()),
        ("k8s.namespace.name", namespace.map(String::as_str)),
        ("k8s.pod.name", pod.map(String::as_str)),
        ("k8s.pod.uid", pod_uid.as_deref()),
    ];
    let workload = workload.iter().flat_map(|it| {
        let key = match it.kind {
            WorkloadKind::Deployment => "k8s.deployment.name",
            WorkloadKind::StatefulSet => "k8s.statefulset.name",
            WorkloadKind::DaemonSet => "k8s.daemonset.name",
            WorkloadKind::Job => "k8s.job.name",
            WorkloadKind::CronJob => "k8s.cronjob.name",
        };
        let source = it.source.name();
        [
            (key, Some(it.name.as_str())),
            ("whylat.workload.source", Some(source)),
        ]
    });
    let known = known.into_iter().chain(workload);
    let known = known.filter_map(|(key, value)| Some(attribute(key, value?)));
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_dots_and_units_apart() {
        let label = |name: &str, unit: &str| {
            let label = own_label(name, "", unit, MetricKind::Gauge);
            (label.name.into_owned(), label.unit.into_owned())
        };
        let pair = |name: &str, unit: &str| (name.to_owned(), unit.to_owned());
        let limited = label("whylat_tcp_limited_seconds", "seconds");
        assert_eq!(limited, pair("whylat.tcp.limited", "s"));
        let delay = label(
            "whylat_config_last_reload_success_timestamp_seconds",
            "seconds",
        );
        assert_eq!(
            delay,
            pair("whylat.config.last_reload_success_timestamp", "s")
        );
        let failures = label("whylat_ship_failures", "");
        assert_eq!(failures, pair("whylat.ship.failures", ""));
    }
}
