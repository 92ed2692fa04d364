//! Values of the registry, after an interval → data points.

use std::collections::{BTreeMap, HashMap};

use otlp::attribute::attribute;
use otlp::exponential::DurationHistogram;
use otlp::proto::{ExponentialPoint, KeyValue, Number, Temporality};
use otlp::{Message, MetricKind, MetricTable, ResourceSource};

use super::names;
use crate::metrics::{
    MetricFamily, MetricSample, Metrics, NONE, OTHER, RTT_HELP, RTT_NAME, SampleValue,
};

/// Label with the application of a connection.
const APPLICATION: &str = "application";

/// Begin of the names of metrics of connections; all others are about the agent.
const CONNECTIONS: &str = "whylat_tcp_";

/// A series: the name of its metric, and its labels.
type SeriesKey = (String, Vec<(String, String)>);

/// Makes data points, and remembers the last ones where receivers want differences.
#[derive(Debug)]
pub(super) struct PointSource {
    /// Name of the agent's own service.
    service: String,
    temporality: Temporality,
    /// When sums began, ns since 1970.
    begin_ns: Option<u64>,
    counts: HashMap<SeriesKey, SampleValue>,
    distributions: BTreeMap<String, DurationHistogram>,
}

impl PointSource {
    /// Begins without points.
    pub(super) fn new(service: String, temporality: Temporality) -> Self {
        Self {
            service,
            temporality,
            begin_ns: None,
            counts: HashMap::new(),
            distributions: BTreeMap::new(),
        }
    }

    /// Returns the messages of an interval between these times.
    pub(super) fn messages(
        &mut self,
        metrics: &Metrics,
        (begin_ns, end_ns): (u64, u64),
        resources: &ResourceSource,
    ) -> Vec<Message> {
        // a clock that was set back must not put the begin behind the end
        let first_ns = self.begin_ns.unwrap_or(begin_ns).min(begin_ns);
        self.begin_ns = Some(first_ns);
        let since_ns = match self.temporality {
            Temporality::Delta => begin_ns,
            _ => first_ns,
        };
        let mut table = MetricTable::new((since_ns, end_ns), self.temporality);
        let mut messages = Vec::new();
        for family in metrics.families() {
            self.add_family(&mut table, family);
            if table.is_full() {
                messages.extend(table.take_message(resources));
            }
        }
        self.add_distributions(&mut table, metrics.distributions());
        messages.extend(table.take_message(resources));
        messages
    }

    /// Adds the points of one metric, for all its labels.
    fn add_family(&mut self, table: &mut MetricTable, family: MetricFamily) {
        let Some((label, fixed)) = names::label_of(&family) else {
            return;
        };
        let is_difference =
            self.temporality == Temporality::Delta && label.kind == MetricKind::Counter;
        for MetricSample { labels, value } in family.samples {
            let service = self.service_of(&family.name, &labels);
            let fixed = fixed.iter().map(|(key, value)| attribute(*key, *value));
            let attributes = fixed.chain(labels.iter().filter_map(label_attribute));
            let attributes = attributes.collect();
            let value = match is_difference {
                true => self.difference((family.name.clone(), labels), value),
                false => value,
            };
            let number = match value {
                SampleValue::Whole(number) => Number::Whole(number),
                SampleValue::Real(number) => Number::Real(number),
            };
            table.add(service.as_deref(), label.clone(), number, attributes);
        }
    }

    /// Returns the growth of a sum since the interval before.
    fn difference(&mut self, key: SeriesKey, now: SampleValue) -> SampleValue {
        match (self.counts.insert(key, now), now) {
            (Some(SampleValue::Whole(before)), SampleValue::Whole(now)) => {
                SampleValue::Whole(now - before)
            }
            (Some(SampleValue::Real(before)), SampleValue::Real(now)) => {
                SampleValue::Real(now - before)
            }
            (_, now) => now,
        }
    }

    /// Adds the histograms, by application.
    fn add_distributions(
        &mut self,
        table: &mut MetricTable,
        distributions: BTreeMap<String, DurationHistogram>,
    ) {
        let label = names::own_label(RTT_NAME, RTT_HELP, "seconds", MetricKind::Histogram);
        for (application, histogram) in &distributions {
            let before = self.distributions.get(application);
            let shown = match (self.temporality, before) {
                (Temporality::Delta, Some(before)) => &histogram.since(before),
                _ => histogram,
            };
            let application = (APPLICATION.to_owned(), application.clone());
            let point = ExponentialPoint {
                attributes: label_attribute(&application).into_iter().collect(),
                ..shown.point()
            };
            let service = self.service_of(CONNECTIONS, std::slice::from_ref(&application));
            table.add_durations(service.as_deref(), label.clone(), point);
        }
        self.distributions = distributions;
    }

    /// Returns the service that a point is about: an application, the agent, or `None` for the host.
    fn service_of(&self, family: &str, labels: &[(String, String)]) -> Option<String> {
        if !family.starts_with(CONNECTIONS) {
            return Some(self.service.clone());
        }
        let application = labels.iter().find(|(name, _)| name == APPLICATION);
        let name = application.map(|(_, name)| name.clone());
        name.filter(|name| !is_no_application(name))
    }
}

/// Returns whether the name means that no rule fits.
fn is_no_application(name: &str) -> bool {
    [NONE, OTHER].contains(&name)
}

/// Returns the attribute of a label. The name of an application is that of the service.
fn label_attribute((name, value): &(String, String)) -> Option<KeyValue> {
    let is_service = name == APPLICATION && !is_no_application(value);
    (!is_service).then(|| attribute(format!("whylat.{name}"), value.as_str()))
}
